package report

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

var copyFacets = []Facet{
	{Title: "test", Values: vocab.CopyTests(), One: true},
	{Title: "direction", Values: []string{directionOwn, directionOpposite}},
	{Title: "host memory", Values: vocab.HostMemories()},
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

// copyViews are two, since the two clocks never stand in one chart or column.
var copyViews = []View{
	{
		Name: viewDevice, Title: "Copies by the device's clock", Shape: Lines, X: Axis{Title: "bytes of a copy", Bytes: true},
		Note:   "Windows of copies between two events of the device, enqueued before the first of them began, as nvbandwidth times them. Tests have nvbandwidth's names.",
		Facets: copyFacets, Rates: payloadRate, Fits: true,
	},
	{
		Name: viewHost, Title: "Copies by the host's clock", Shape: Lines, X: Axis{Title: "bytes of a copy", Bytes: true},
		Note:   "Windows of copies from the first call to the end of the last copy.",
		Facets: copyFacets, Rates: payloadRate, Fits: true,
	},
}

func copySeries(doc result.Document) []Series {
	d := doc.(*result.CopyDocument)
	b, rows := d.Identity.Case.Copy(), d.Measurement.Rows
	reasons := rowReasons(&d.Envelope, len(rows), func(i int) string {
		return verified(rows[i].Complete, rows[i].Verify.Passed, rows[i].Verify.Detail)
	})
	var all collected
	for i := range rows {
		r := &rows[i]
		for _, clock := range []struct {
			view string
			of   *result.CopyClock
		}{{viewDevice, r.Device}, {viewHost, r.Host}} {
			if clock.of == nil {
				continue
			}
			add := func(direction string, time result.Burst) {
				all.add(clock.view, []string{b.Test, direction, b.HostMemory, pieces(b.Submission, b.PageBytes, b.Victim), strconv.Itoa(r.Streams)}, Point{
					X: r.Bytes, Time: microseconds(time, 1), Work: []float64{float64(r.Bytes) / 1e3}, Samples: time.N, Reason: reasons[i],
				})
			}
			if clock.of.OppositeGBps == 0 {
				add("", clock.of.Micros)
				continue
			}
			add(directionOwn, clock.of.Micros)
			add(directionOpposite, result.Burst{P50: float64(r.Bytes) / clock.of.OppositeGBps / 1e3, N: clock.of.Micros.N})
		}
	}
	return all.series
}
