package host

import (
	"errors"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// scalePeriod is the period of the contract's activations, in tokens.
const scalePeriod = 257

var _ runner.FaultInjector = (*adapter)(nil)

func (a *adapter) InjectFault(kind string, d runner.Description) error {
	scales := []string{runner.FaultNeighborScale, runner.FaultPeriodicScale}
	if slices.Contains(scales, kind) && !d.Codec.Block {
		return errors.New("the dispatch has no block scales")
	}
	if kind == runner.FaultFusedSum && d.Combine != runner.WeightedKernelSum {
		return errors.New("the combine does not weight")
	}
	a.fault = kind
	return nil
}

// spoilScales exchanges scales of this rank's tokens after the cast.
func (a *adapter) spoilScales() {
	n := a.d.Codec.Scales(a.shape.hidden)
	switch a.fault {
	case runner.FaultNeighborScale:
		for i := a.p.Tokens*n - 1; i > 0; i-- {
			if i%n > 0 {
				a.scales[i] = a.scales[i-1]
			}
		}
	case runner.FaultPeriodicScale:
		for i := a.p.Tokens*n - 1; i >= scalePeriod*n; i-- {
			a.scales[i] = a.scales[i-scalePeriod*n]
		}
	}
}

// sumsWrongly reports whether the injected fault is in the sum.
func (a *adapter) sumsWrongly() bool {
	return slices.Contains([]string{runner.FaultBF16Sum, runner.FaultReversedSum, runner.FaultTruncatedSum, runner.FaultFusedSum}, a.fault)
}

// wrongSum adds the rows of a token otherwise: contrary to the declaration with a bf16 accumulator, in the
// opposite order or truncating instead of rounding, or with fused operations, which it allows.
func (a *adapter) wrongSum(dst []uint16, pulls []pull, token int) {
	pulls = slices.Clone(pulls)
	if a.fault == runner.FaultReversedSum {
		slices.Reverse(pulls)
	}
	round := numeric.BF16
	if a.fault == runner.FaultTruncatedSum {
		round = func(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) }
	}
	weights := deviceSlice[float32](a.p.Weight, a.p.Tokens*a.p.TopK)[token*a.p.TopK:]
	total, part := make([]float32, len(dst)), make([]float32, len(dst))
	for i, p := range pulls {
		switch {
		case a.fault == runner.FaultFusedSum:
			for c, b := range a.row(p) {
				part[c] = float32(math.FMA(float64(numeric.FromBF16(b)), float64(weights[p.slot]), float64(part[c])))
			}
		case a.d.Combine == runner.WeightedKernelSum:
			addWeightedRow(part, a.row(p), weights[p.slot])
		default:
			addRow(part, a.row(p))
		}
		if a.fault == runner.FaultBF16Sum {
			for c, v := range part {
				part[c] = numeric.FromBF16(numeric.BF16(v))
			}
		}
		if a.d.Combine == runner.WeightedKernelSum || i+1 < len(pulls) && pulls[i+1].rank/a.sums.domain == p.rank/a.sums.domain {
			continue
		}
		for c, v := range part {
			total[c] += numeric.FromBF16(round(v))
		}
		clear(part)
	}
	for c := range dst {
		dst[c] = round(total[c] + part[c])
	}
}
