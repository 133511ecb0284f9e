package report

import (
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Collective is the headline of one timing mode and placement of a collective
// case, and its sizes. Timing modes are never mixed.
type Collective struct {
	CaseID    string            `json:"case_id"`
	SKU       string            `json:"sku"`
	Backend   string            `json:"backend"`
	World     int               `json:"world"`
	Op        string            `json:"op"`
	DType     string            `json:"dtype"`
	RedOp     string            `json:"redop"`
	Buffers   string            `json:"buffers"`
	Mode      string            `json:"timing"`
	Placement string            `json:"placement"`
	Points    []CollectivePoint `json:"sizes"`
	Peak      int               `json:"peak"`  // index of the highest bus bandwidth
	Floor     int               `json:"floor"` // index of the lowest median latency
	Key       string            `json:"comparison_key"`
}

// CollectivePoint is one size: median microseconds, bus bandwidth in GB/s.
type CollectivePoint struct {
	Requested int64   `json:"requested_bytes"`
	Bytes     int64   `json:"bytes"` // what of it was moved
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	BusBW     float64 `json:"busbw_gbps"`
}

// collectiveOf reads the headline of a document: the pipelined figures, which
// compare with nccl-tests, else the first mode there is; out of place first.
func collectiveOf(d *result.CollectiveDocument) *Collective {
	c := &Collective{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		World: d.Topology.WorldSize, Op: d.Measurement.Op, DType: d.Measurement.DType, RedOp: d.Measurement.RedOp,
		Buffers: d.Measurement.Buffers, Key: d.ComparisonKey,
	}
	for _, placement := range vocab.Placements() {
		for _, mode := range timingModes {
			for _, r := range d.Measurement.Rows {
				t := mode.of(r)
				if t == nil || r.Placement != placement || !r.Check.Passed {
					continue
				}
				c.Mode, c.Placement = mode.name, placement
				c.add(CollectivePoint{Requested: r.Requested, Bytes: r.Bytes, P50: t.Percentiles.P50, P99: t.Percentiles.P99, BusBW: t.BusBW})
			}
			if len(c.Points) > 0 {
				return c
			}
		}
	}
	return c
}

var timingModes = []struct {
	name string
	of   func(result.CollectiveRow) *result.Timing
}{
	{"pipelined", func(r result.CollectiveRow) *result.Timing { return r.Pipelined }},
	{"blocking", func(r result.CollectiveRow) *result.Timing { return r.Blocking }},
	{"per_iteration", func(r result.CollectiveRow) *result.Timing { return r.PerIteration }},
	{"graph", func(r result.CollectiveRow) *result.Timing { return r.Graph }},
}

func (c *Collective) add(p CollectivePoint) {
	c.Points = append(c.Points, p)
	i := len(c.Points) - 1
	if p.BusBW > c.Points[c.Peak].BusBW {
		c.Peak = i
	}
	if p.P50 < c.Points[c.Floor].P50 {
		c.Floor = i
	}
}
