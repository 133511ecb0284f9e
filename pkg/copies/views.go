package copies

import (
	"github.com/collectivex/collectivex/pkg/figure"
)

var facets = []figure.Facet{
	{Title: "test", Values: Tests(), One: true},
	{Title: "direction", Values: []string{directionOwn, directionOpposite}},
	{Title: "host memory", Values: HostMemories()},
	{Title: "pieces"},
	{Title: "streams", Number: true},
}

// Directions of a test between two devices in both directions; other tests have none.
const (
	directionOwn      = "as named"
	directionOpposite = "opposite"
)

const (
	viewDevice = "copies-device"
	viewHost   = "copies-host"
)

// views are two, since the two clocks never stand in one chart or column.
var views = []figure.View{
	{
		Name: viewDevice, Title: "Copies by the device's clock", Shape: figure.Lines, X: figure.Axis{Title: "bytes of a copy", Bytes: true},
		Note:   "Windows of copies between two events of the device, enqueued before the first of them began, as nvbandwidth times them. Tests have nvbandwidth's names.",
		Facets: facets, Rates: rates, Fits: true,
	},
	{
		Name: viewHost, Title: "Copies by the host's clock", Shape: figure.Lines, X: figure.Axis{Title: "bytes of a copy", Bytes: true},
		Note:   "Windows of copies from the first call to the end of the last copy.",
		Facets: facets, Rates: rates, Fits: true,
	},
}

// rates are the rates of the charts: the payload.
var rates = []figure.Rate{{Name: "rate", Title: "rate", Unit: "GB/s"}}
