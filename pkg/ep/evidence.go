package ep

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// evidence is what one rank left of a case, by rung.
type evidence struct {
	ended    bool
	plan     *planRecord
	digests  map[int]string
	verdicts map[moment]Verdict
	sums     map[int]arithmeticRecord
	fresh    map[freshKey][]float64
	chains   map[chainKey]chainRecord
}

type moment struct {
	rung int
	when string
}

type freshKey struct {
	rung      int
	component string
	trial     int
}

type chainKey struct{ rung, trial int }

// readEvidence sorts the records of the ranks, one evidence per rank of the
// world, also for ranks that left nothing.
func readEvidence(c plan.Case, streams []rank.Stream) ([]evidence, error) {
	ranks := make([]evidence, c.World)
	for r := range ranks {
		ranks[r] = evidence{
			digests: map[int]string{}, verdicts: map[moment]Verdict{}, sums: map[int]arithmeticRecord{},
			fresh: map[freshKey][]float64{}, chains: map[chainKey]chainRecord{},
		}
	}
	for _, s := range streams {
		if s.Rank < 0 || s.Rank >= c.World {
			return nil, fmt.Errorf("stream of rank %d in a world of %d", s.Rank, c.World)
		}
		e := &ranks[s.Rank]
		e.ended = s.Done && s.Failure == nil
		for i, record := range s.Records {
			if err := e.take(c, record); err != nil {
				return nil, fmt.Errorf("rank %d: record %d (%s): %w", s.Rank, i+1, record.Kind, err)
			}
		}
	}
	return ranks, nil
}

func (e *evidence) take(c plan.Case, record rank.Record) error {
	decode := func(into any) error { return json.Unmarshal(record.Data, into) }
	switch record.Kind {
	case kindPlan:
		e.plan = new(planRecord)
		if err := decode(e.plan); err != nil {
			return err
		}
		for _, rung := range e.plan.Measured {
			if !slices.Contains(c.EP().Ladder, rung) { // its trace may be larger than memory
				return fmt.Errorf("rung %d is not in the ladder %q", rung, c.EP().Ladder)
			}
		}
		return nil
	case kindPoint:
		var p pointRecord
		err := decode(&p)
		e.digests[p.TokensPerRank] = p.Digest
		return err
	case kindVerdict:
		var v verdictRecord
		err := decode(&v)
		e.verdicts[moment{v.TokensPerRank, v.When}] = v.Verdict
		return err
	case kindArithmetic:
		var a arithmeticRecord
		err := decode(&a)
		e.sums[a.TokensPerRank] = a
		return err
	case kindFresh:
		var f freshRecord
		if err := decode(&f); err != nil {
			return err
		}
		if len(f.Microseconds) != c.EP().Timing.ItersPerTrial {
			return fmt.Errorf("%d samples, must be %d", len(f.Microseconds), c.EP().Timing.ItersPerTrial)
		}
		e.fresh[freshKey{f.TokensPerRank, f.Component, f.Trial}] = f.Microseconds
		return nil
	case kindChain:
		var r chainRecord
		if err := decode(&r); err != nil {
			return err
		}
		kept := c.EP().Timing.ChainItersPerTrial - c.EP().Timing.ChainDrop
		if len(r.Dispatch) != kept || len(r.Combine) != kept || len(r.Pair) != kept || len(r.StartToStart) != kept-1 {
			return fmt.Errorf("%d pairs and %d distances, must be %d and %d", len(r.Pair), len(r.StartToStart), kept, kept-1)
		}
		e.chains[chainKey{r.TokensPerRank, r.Trial}] = r
		return nil
	default:
		return fmt.Errorf("unknown kind")
	}
}

// agreedPlan is the plan of the ranks that got as far as declaring one; nil
// where none did.
func agreedPlan(ranks []evidence) (*planRecord, error) {
	var agreed *planRecord
	for r, e := range ranks {
		switch {
		case e.plan == nil:
		case agreed == nil:
			agreed = e.plan
		case !reflect.DeepEqual(agreed, e.plan):
			return nil, fmt.Errorf("rank %d declares %+v, another rank %+v", r, *e.plan, *agreed)
		}
	}
	return agreed, nil
}

// freshSamples returns the samples of a component that all ranks have, reduced
// over ranks iteration by iteration, pooled over trials.
func freshSamples(c plan.Case, ranks []evidence, rung int, component string, reduce measure.Reduction) ([]float64, error) {
	var pooled []float64
	for trial := range c.EP().Timing.TrialsPerPoint {
		perRank, all := collect(ranks, func(e evidence) ([]float64, bool) {
			us, ok := e.fresh[freshKey{rung, component, trial}]
			return us, ok
		})
		if !all {
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

// chainSamples is freshSamples of a part of the chains.
func chainSamples(c plan.Case, ranks []evidence, rung int, part func(chainRecord) []float64, reduce measure.Reduction) ([]float64, error) {
	var pooled []float64
	for trial := range c.EP().Timing.ChainTrialsPerPoint {
		perRank, all := collect(ranks, func(e evidence) ([]float64, bool) {
			r, ok := e.chains[chainKey{rung, trial}]
			return part(r), ok
		})
		if !all {
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

// collect gathers something of every rank, and tells whether all have it.
func collect(ranks []evidence, of func(evidence) ([]float64, bool)) (perRank [][]float64, all bool) {
	for _, e := range ranks {
		us, ok := of(e)
		if !ok {
			return nil, false
		}
		perRank = append(perRank, us)
	}
	return perRank, true
}
