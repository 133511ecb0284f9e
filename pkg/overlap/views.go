package overlap

import (
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/vocab"
)

const view = "overlaps"

var views = []figure.View{{
	Name: view, Title: "Computation beside communication", Shape: figure.Lines, X: figure.Axis{Title: "bytes of the communication", Bytes: true},
	Note: "Times from one gate to the end: of each side alone, of both together and of one after the other. Exposed time is together − compute; it is missing where it is below the noise. " +
		"An efficiency of 1 hides the shorter side entirely; below 0, together is slower than one after the other; it is missing where the shorter side is not above the noise. Both follow from medians.",
	Facets: []figure.Facet{
		{Title: "work", One: true},
		{Title: "contender", Values: Contenders(LinearRotation)},
		{Title: "type", Values: vocab.DTypes()},
		{Title: "compute"},
	},
	Rates:   []figure.Rate{{Name: "efficiency", Title: "overlap efficiency", Given: true}, {Name: "exposed", Title: "exposed time", Unit: "µs", Given: true}},
	Latency: true,
}}
