package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// unfinished reports whether a case ended before it was measured. What the library
// lacks of all there is was never to be.
func (r *Request) unfinished(o result.Outcome) bool {
	return o.Status == result.Failed && !(r.lenient() && bench.Lacking(o))
}

// missing says how many rows (a size and placement each) of a document have how
// many of their trials, where that is not all of them.
func (r *Request) missing(d *collective.Document) string {
	rows := map[int]int{} // by trials
	for i := range d.Measurement.Rows {
		if row := &d.Measurement.Rows[i]; !row.Complete {
			rows[r.trials(row)]++
		}
	}
	var parts []string
	for _, trials := range slices.Sorted(maps.Keys(rows)) {
		parts = append(parts, fmt.Sprintf("%d of %s in %d of %s", trials, plural.Count(r.Shape.Measure.Trials, "trial", "trials"), rows[trials], plural.Count(len(d.Measurement.Rows), "row", "rows")))
	}
	return strings.Join(parts, ", ")
}

// trials is how many trials of a row are there in every mode that the columns show.
func (r *Request) trials(row *collective.Row) int {
	fewest := r.Shape.Measure.Trials
	for _, mode := range r.Shape.Modes {
		samples := 1 // of a trial
		if mode == vocab.Blocking || mode == vocab.PerIteration {
			samples = r.Shape.Measure.Iterations
		}
		if t := *row.Timing(mode); t == nil {
			fewest = 0
		} else {
			fewest = min(fewest, t.SampleCount/samples)
		}
	}
	return fewest
}
