package runner

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// evidence is what one rank recorded of a case, by rung.
type evidence struct {
	plan     *planRecord
	tuning   *result.Tuning
	digests  map[int]string
	verdicts map[moment]Verdict
	sums     map[int]arithmeticRecord
	fresh    map[freshKey]freshRecord
	chains   map[chainKey]chainRecord
	replays  map[int]replayRecord
	repeated map[int]repeatableRecord
}

type moment struct {
	rung int
	when string
}

type freshKey struct {
	rung      int
	component string
	rank.Trial
}

type chainKey struct {
	rung int
	rank.Trial
}

// read sorts the records of a rank.
func read(block *ep.Block) func(rank.Stream, *evidence) error {
	return func(s rank.Stream, e *evidence) error {
		*e = evidence{
			digests: map[int]string{}, verdicts: map[moment]Verdict{}, sums: map[int]arithmeticRecord{},
			fresh: map[freshKey]freshRecord{}, chains: map[chainKey]chainRecord{}, replays: map[int]replayRecord{},
			repeated: map[int]repeatableRecord{},
		}
		return s.Read(e.kinds(block))
	}
}

// kinds returns the handlers for the records of a rank.
func (e *evidence) kinds(block *ep.Block) rank.Kinds {
	return rank.Kinds{
		kindPlan: rank.Each(func(p planRecord) error {
			for _, rung := range p.Measured {
				if !slices.Contains(block.Ladder, rung) { // reject before making a trace, which may exceed memory
					return fmt.Errorf("rung %d is not in the ladder %q", rung, block.Ladder)
				}
			}
			e.plan = &p
			return nil
		}),
		kindTuning: rank.Each(func(t result.Tuning) error {
			e.tuning = &t
			return nil
		}),
		kindPoint: rank.Each(func(p pointRecord) error {
			e.digests[p.TokensPerRank] = p.Digest
			return nil
		}),
		kindVerdict: rank.Each(func(v verdictRecord) error {
			at := moment{v.TokensPerRank, v.When}
			if old, again := e.verdicts[at]; !again || old.Passed { // after a repeated trial, a failure stays
				e.verdicts[at] = v.Verdict
			}
			return nil
		}),
		kindArithmetic: rank.Index(e.sums, func(a arithmeticRecord) int { return a.TokensPerRank }),
		kindReplay:     rank.Index(e.replays, func(r replayRecord) int { return r.TokensPerRank }),
		kindRepeatable: rank.Index(e.repeated, func(r repeatableRecord) int { return r.TokensPerRank }),
		kindFresh: rank.Each(func(f freshRecord) error {
			if len(f.Microseconds) != block.Timing.ItersPerTrial {
				return fmt.Errorf("%d samples, must be %d", len(f.Microseconds), block.Timing.ItersPerTrial)
			}
			e.fresh[freshKey{f.TokensPerRank, f.Component, rank.Trial{Number: f.Trial, Repeat: f.Repeat}}] = f
			return nil
		}),
		kindChain: rank.Each(func(r chainRecord) error {
			kept := block.Timing.ChainItersPerTrial - block.Timing.ChainDrop
			if len(r.Dispatch) != kept || len(r.Combine) != kept || len(r.Pair) != kept || len(r.StartToStart) != kept-1 {
				return fmt.Errorf("%d pairs and %d distances, must be %d and %d", len(r.Pair), len(r.StartToStart), kept, kept-1)
			}
			e.chains[chainKey{r.TokensPerRank, rank.Trial{Number: r.Trial, Repeat: r.Repeat}}] = r
			return nil
		}),
	}
}

// agreedPlan returns the plan that the ranks declared, or nil if none did.
func agreedPlan(ranks []evidence) (*planRecord, error) {
	var agreed *planRecord
	for r, e := range ranks {
		switch {
		case e.plan == nil:
		case agreed == nil:
			agreed = e.plan
		case !reflect.DeepEqual(agreed, e.plan):
			return nil, fmt.Errorf("the ranks declare different plans: rank %d %+v, an earlier rank %+v", r, *e.plan, *agreed)
		}
	}
	return agreed, nil
}

// series is the samples of one figure of a rung, by trial.
type series struct {
	trials   int
	perTrial int // samples per trial
	of       func(e evidence, trial int) ([]float64, bool)
}

// fresh returns the series of a component.
func (m *rowMaker) fresh(component string) series {
	return series{m.block.Timing.TrialsPerPoint, m.block.Timing.ItersPerTrial, func(e evidence, trial int) ([]float64, bool) {
		f, ok := e.fresh[freshKey{m.rung, component, rank.Trial{Number: trial, Repeat: m.freshCounts[trial]}}]
		return f.Microseconds, ok
	}}
}

// chained returns the series of one quantity of the chains.
func (m *rowMaker) chained(part func(chainRecord) []float64) series {
	t := m.block.Timing
	return series{t.ChainTrialsPerPoint, t.ChainItersPerTrial - t.ChainDrop, func(e evidence, trial int) ([]float64, bool) {
		r, ok := e.chains[chainKey{m.rung, rank.Trial{Number: trial, Repeat: m.chainCounts[trial]}}]
		return part(r), ok
	}}
}

// perTrial returns the series with one figure for each chain.
func (m *rowMaker) perTrial(figure func(chainRecord) []float64) series {
	s := m.chained(figure)
	s.perTrial = 1
	return s
}

// pooled returns the samples of the trials that all ranks have, reduced over ranks
// iteration by iteration.
func (s series) pooled(ranks []evidence, reduce measure.Reduction) (pooled []float64, err error) {
	for trial := range s.trials {
		var perRank [][]float64
		for _, e := range ranks {
			if us, ok := s.of(e, trial); ok {
				perRank = append(perRank, us)
			}
		}
		if len(perRank) < len(ranks) {
			continue
		}
		us, err := measure.OverRanks(perRank, reduce)
		if err != nil {
			return nil, err
		}
		pooled = append(pooled, us...)
	}
	return pooled, nil
}

// samples returns the samples of one rank, of all trials.
func (s series) samples(e evidence) (all []float64) {
	for trial := range s.trials {
		us, _ := s.of(e, trial)
		all = append(all, us...)
	}
	return all
}
