package report

import (
	"github.com/collectivex/collectivex/pkg/result"
)

// headlineTokens is the rung a headline is read at, where the ladder has it.
const headlineTokens = 64

// EP is the headline of an EP case and its rungs.
type EP struct {
	CaseID   string    `json:"case_id"`
	SKU      string    `json:"sku"`
	Backend  string    `json:"backend"`
	Mode     string    `json:"mode"`
	Phase    string    `json:"phase"`
	World    int       `json:"ep"`
	Routing  string    `json:"routing"`
	Dispatch string    `json:"dispatch_dtype"`
	Dropped  []int     `json:"ladder_dropped,omitempty"`
	Headline int       `json:"headline"` // index into Rungs
	Rungs    []EPPoint `json:"rungs"`
	MaxError float64   `json:"max_relative_error"`
	Key      string    `json:"comparison_key"`
}

// EPPoint is one rung. Times are microseconds, bandwidths GB/s for each GPU:
// total_logical_bytes / p50 / world.
type EPPoint struct {
	TokensPerRank int                 `json:"tokens_per_rank"`
	PairPeriod    *result.Percentiles `json:"pair_period_us"`
	Roundtrip     *result.Percentiles `json:"roundtrip_us"`
	DispatchTime  *result.Percentiles `json:"dispatch_us"`
	CombineTime   *result.Percentiles `json:"combine_us"`
	TokenRate     float64             `json:"tokens_per_second_at_roundtrip_p50"`
	DispatchGBps  float64             `json:"dispatch_gbps_per_gpu"`
	CombineGBps   float64             `json:"combine_gbps_per_gpu"`
	RoundtripGBps float64             `json:"roundtrip_gbps_per_gpu"`
	Arithmetic    *result.Arithmetic  `json:"arithmetic_as_declared"`
}

// headline returns the time a headline shows and whether it is the pair
// period; without one it is the roundtrip, which means another thing.
func (p EPPoint) headline() (us *result.Percentiles, pair bool) {
	if p.PairPeriod != nil {
		return p.PairPeriod, true
	}
	return p.Roundtrip, false
}

// epOf reads the headline of a document. Rows that are not complete or did not
// pass have no place in it.
func epOf(d *result.EPDocument) *EP {
	f := d.Factors()
	e := &EP{
		CaseID: d.Identity.CaseID, SKU: d.Identity.CaseFactors.SKU, Backend: d.Implementation.Name,
		Mode: f.Mode, Phase: f.Phase, World: f.EP, Routing: f.Routing, Dispatch: d.Measurement.DispatchDType,
		Dropped: d.Workload.LadderDropped, Key: d.ComparisonKey,
	}
	for _, r := range d.Measurement.Rows {
		if !r.Correctness.Passed {
			continue
		}
		p := EPPoint{
			TokensPerRank: r.TokensPerRank,
			PairPeriod:    r.Components.PairPeriod.Percentiles,
			Roundtrip:     r.Components.Roundtrip.Percentiles,
			DispatchTime:  r.Components.Dispatch.Percentiles,
			CombineTime:   r.Components.Combine.Percentiles,
			Arithmetic:    r.Arithmetic,
		}
		if r.TokenRate != nil {
			p.TokenRate = r.TokenRate.P50
		}
		wire := r.Wire()
		p.DispatchGBps = perGPU(wire.Dispatch, p.DispatchTime, f.EP)
		p.CombineGBps = perGPU(wire.Combine, p.CombineTime, f.EP)
		p.RoundtripGBps = perGPU(wire.Roundtrip, p.Roundtrip, f.EP)
		e.Rungs = append(e.Rungs, p)
		if r.TokensPerRank == headlineTokens {
			e.Headline = len(e.Rungs) - 1
		}
		if x := r.Correctness.MaxRelativeError; x != nil {
			e.MaxError = max(e.MaxError, *x)
		}
	}
	if len(e.Rungs) > 0 && e.Rungs[e.Headline].TokensPerRank != headlineTokens {
		e.Headline = len(e.Rungs) / 2
	}
	return e
}

// perGPU is logical GB/s at the median for each rank, 0 without a time.
func perGPU(b result.ByteCount, us *result.Percentiles, world int) float64 {
	if us == nil || us.P50 <= 0 || world == 0 {
		return 0
	}
	return float64(b.Total) / (us.P50 * 1e-6) / float64(world) / 1e9
}
