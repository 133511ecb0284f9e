package compare

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// run is the content of one document: one case in one run with ranks of its own.
type run struct {
	name    string // run id and repeat
	at      time.Time
	key     string
	id      string // case id of the first repeat
	c       plan.Case
	success bool
	why     string // first reason if it is not a success
	beside  map[string]string
	env     map[string]string
	// times holds the logarithm of µs by metric and rung.
	times map[metric]map[rung]float64
	// ticks holds the resolution of a metric's clock, in µs.
	ticks map[metric]float64
}

// metric is a figure of rungs: a timing mode or component, and a percentile. Exact times have no
// percentiles.
type metric struct {
	clock, stat string
	exact       bool // a model's time, which is equal in every run
}

func (m metric) String() string { return strings.TrimSpace(m.clock + " " + m.stat) }

// rung is one point of a ladder. The order of its fields is the order in tables.
type rung struct {
	size  int64 // requested bytes, or tokens per rank
	label string
	curve string // identifies the curve that the sizes belong to
}

// compare orders rungs by size.
func (x rung) compare(y rung) int {
	return cmp.Or(cmp.Compare(x.size, y.size), cmp.Compare(x.label, y.label))
}

// minForP99 is the minimum number of samples for a two-sided 95 % interval of the 99th percentile.
const minForP99 = 368

// read returns the compared part of a document.
func read(d result.Document) *run {
	e := d.Head()
	c := result.Settled(d)
	first := e.Identity.Case
	first.Repeat = 1
	r := &run{
		key: e.ComparisonKey, id: first.ID(), c: c, success: e.Outcome.Status == result.Success,
		times: map[metric]map[rung]float64{}, ticks: map[metric]float64{}, env: e.Provenance.Environment, beside: beside(e),
	}
	r.at, _ = time.Parse(time.RFC3339, e.GeneratedAt)
	r.name = result.Text(e.Identity.AllocationFactors.RunID) + "#" + strconv.Itoa(e.Identity.Repeat)
	if len(e.Outcome.Reasons) > 0 {
		r.why = e.Outcome.Reasons[0].String()
	}
	if !r.success {
		return r
	}
	r.figures(d)
	return r
}

// neighbours is the factor for other users of the devices. It is reported even if it is equal on both sides.
const neighbours = "other users of the devices"

// beside returns the factors outside the key, which may differ but are reported.
func beside(e *result.Envelope) map[string]string {
	b := map[string]string{
		"sku":                 e.Identity.CaseFactors.SKU,
		"library version":     e.LibraryVersion(),
		"device":              e.Topology.DeviceProduct,
		"accelerator runtime": e.Runtime.AcceleratorRuntime,
		"image":               result.Text(e.Provenance.Image),
		"source":              result.Text(e.Identity.AllocationFactors.SourceSHA),
		"program":             e.Provenance.Generator,
	}
	if e.Devices != nil && e.Devices.Neighbours() {
		b[neighbours] = "seen"
	}
	if e.Devices != nil && e.Devices.Capped() {
		b["SM clock"] = "capped"
	}
	for _, l := range e.Provenance.Libraries {
		b["library "+l.Kind] = strings.TrimSuffix(l.Version+", build "+l.BuildID, ", build ")
	}
	for name, value := range e.Provenance.Host {
		b["host "+name] = value
	}
	return b
}

// put adds the time of a rung if it is positive. us and the tick of the clock are in µs.
func (r *run) put(m metric, at rung, us, tick float64) {
	if us <= 0 {
		return
	}
	r.ticks[m] = tick
	if r.times[m] == nil {
		r.times[m] = map[rung]float64{}
	}
	r.times[m][at] = math.Log(us)
}

// figures adds the times of the figures of a document.
func (r *run) figures(d result.Document) {
	f := family.Find(d.Head().Identity.Case.Family)
	if f == nil {
		return
	}
	for _, row := range f.Rows(d) {
		if row.Rung == nil || !row.Complete || !row.Passed {
			continue
		}
		at := rung{size: row.Rung.Size, label: row.Rung.Label, curve: row.Rung.Curve}
		for _, fig := range row.Figures {
			m := metric{clock: row.Rung.Clock, stat: fig.Stat}
			switch {
			case row.Rung.Exact != "" && fig.Name == row.Rung.Exact:
				m.stat, m.exact = "", true
			case row.Rung.Exact == "" && fig.Name == cmp.Or(row.Rung.Figure, figure.Latency) && (fig.Stat == "p50" || fig.Stat == "p99" && fig.Samples >= minForP99):
			default:
				continue
			}
			r.put(m, at, fig.Value*cmp.Or(row.Rung.Scale, 1), row.Rung.Tick)
		}
	}
}
