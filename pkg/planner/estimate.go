package planner

import (
	"math"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Job time around the measuring: downloads, allocation, images.
const overheadMinutes = 15

// budgetSeconds is the budget of a case on its platform.
func budgetSeconds(p *catalog.Platform, be *catalog.Backend, c *plan.Case) int {
	return budget(float64(be.SetupSeconds) + seconds(p, c))
}

// budget is when a case of this estimate counts as hung, in seconds: ten times its
// estimate and a minute, since an estimate is rough and machines are shared, and at
// most the hour and a half that CollectiveX gives a case.
func budget(estimate float64) int { return min(60+int(math.Ceil(10*estimate)), 5400) }

// seconds estimates how long a case takes on its platform, without the set-up
// of its rank group. It sizes cells, job timeouts and budgets, and nothing else.
func seconds(p *catalog.Platform, c *plan.Case) float64 {
	pace := p.ScaleUp.Pace
	if c.Scope == vocab.ScopeOut && p.ScaleOut != nil {
		pace = p.ScaleOut.Pace
	}
	switch c.Family {
	case plan.FamilyEP:
		return epSeconds(c.EP(), pace)
	default:
		return float64(max(1, c.Collective().Pairs(c.World))) * collectiveSeconds(c.Collective(), pace)
	}
}

// judgedRoundtrips are those of a rung around its checks: eight of conditioning,
// and what the oracle judges before the timing, after each window and the chains,
// and at the end.
const judgedRoundtrips = 24

// epSeconds counts roundtrips: three fresh-entry components, two chains with the
// pair that drains them, three alternating passes, the warm-ups of each, and those
// that are judged. A rank moves each token to at most topk ranks and back, two
// bytes an element.
func epSeconds(c *plan.EP, pace catalog.Pace) float64 {
	t := c.Timing
	timed := 3*t.TrialsPerPoint*(t.WarmupItersPerTrial+t.ItersPerTrial) +
		t.ChainTrialsPerPoint*(t.WarmupItersPerTrial+2*t.ChainItersPerTrial+1)
	var micros float64
	for word := range strings.FieldsSeq(c.Ladder) {
		tokens, err := strconv.Atoi(word)
		if err != nil || c.LadderCap != nil && tokens > *c.LadderCap {
			continue
		}
		bytes := float64(tokens) * float64(min(c.TopK, c.EPSize)) * float64(c.Hidden) * 4
		alternating := 3 * (t.WarmupItersPerTrial + c.AlternatingCalls(tokens))
		roundtrips := float64(timed + alternating + judgedRoundtrips)
		micros += roundtrips * (2*pace.Micros + bytes/(pace.GBps*1e3))
	}
	return micros / 1e6
}

// collectiveSeconds takes every operation to move its size twice.
func collectiveSeconds(c *plan.Collective, pace catalog.Pace) float64 {
	t := c.Measure
	ops := float64(len(c.Placements) * len(c.Modes) * t.Trials * (t.Warmup + t.Iterations*t.Aggregate*t.Launches))
	var micros float64
	for _, size := range c.Sizes {
		micros += ops * (pace.Micros + 2*float64(size)/(pace.GBps*1e3))
	}
	return micros / 1e6
}
