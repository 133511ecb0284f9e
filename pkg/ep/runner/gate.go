package runner

import (
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// gate fails a row with physically impossible times. It judges medians, which readers compare.
// Without a limit it does nothing.
func (m *rowMaker) gate(declared *planRecord, t *workload.Trace, limits []result.Limit) {
	if len(limits) == 0 {
		return
	}
	sent := int64(m.block.Hidden)*int64(declared.ValueBytes) + int64(declared.ScaleBytes)
	returned := int64(m.block.Hidden) * 2 // bf16
	ranks := crossings(t, func(rank int) int { return rank })
	domains := crossings(t, func(rank int) int { return plausible.Domain(m.c, rank) })
	moved := func(bytes func(crossing) crossing) plausible.Moved {
		return plausible.Moved{Link: busiest(ranks, bytes), Network: busiest(domains, bytes)}
	}
	k := m.row.Components
	for _, timed := range []struct {
		name  string
		c     ep.Component
		moved plausible.Moved
	}{
		{compDispatch, k.Dispatch, moved(func(n crossing) crossing { return n.times(sent) })},
		{compCombine, k.Combine, moved(func(n crossing) crossing { return n.back().times(returned) })},
		{compRoundtrip, k.Roundtrip, moved(func(n crossing) crossing { return n.times(sent).plus(n.back().times(returned)) })},
		{"pair_period", k.PairPeriod, plausible.Moved{
			Link: leastBusy(ranks) * (sent + returned), Network: leastBusy(domains) * (sent + returned),
		}},
	} {
		if timed.c.Percentiles != nil {
			m.fail(plausible.Judge(limits, timed.moved, timed.name, timed.c.Percentiles.P50)...)
		}
	}
}

// instants fails a row with an operation that took no time on some rank.
func (m *rowMaker) instants(d Description) {
	check := func(name string, s series) {
		var ranks []int
		shortest := math.Inf(1)
		for r, e := range m.ranks {
			if us := s.samples(e); len(us) > 0 && !(slices.Min(us) > 0) {
				ranks, shortest = append(ranks, r), min(shortest, slices.Min(us))
			}
		}
		if ranks != nil {
			m.fail(plausible.Judge(nil, plausible.Moved{}, name+" on "+m.name(ranks), shortest)...)
		}
	}
	for _, component := range d.components() {
		check(component, m.fresh(component))
	}
	for _, part := range chainParts {
		check(part.name, m.chained(part.of))
	}
}

// Limits of repeated.
const (
	minCompared = 32  // samples on either side
	maxGain     = 2.0 // ratio of the fastest new sample to the median of the repeated ones
)

// repeated fails a row if its operations are implausibly fast with an input that their window or chain
// has used before: the fastest operation with a new input takes more than maxGain times the median of
// the others. Combines that repeat one dispatch are compared with the combines of the chains.
func (m *rowMaker) repeated(d Description) {
	inputs := m.block.TimedInputs(m.rung)
	for _, component := range d.components() {
		first, again := m.split(m.fresh(component), inputs)
		if d.repeats(component) {
			first, _ = m.split(m.chained(chainCombine), m.block.Timing.ChainItersPerTrial)
			_, again = m.split(m.fresh(component), 0)
		}
		m.gained(component, first, again)
	}
	for _, part := range chainParts {
		first, again := m.split(m.chained(part.of), max(0, inputs-m.block.Timing.ChainDrop))
		m.gained(part.name, first, again)
	}
}

// split pools the fastest rank's samples. It returns the first n samples of each trial and the others.
func (m *rowMaker) split(s series, n int) (first, others []float64) {
	us, err := s.pooled(m.ranks, measure.Min)
	if m.err == nil {
		m.err = err
	}
	for i, v := range us {
		if i%s.perTrial < n {
			first = append(first, v)
		} else {
			others = append(others, v)
		}
	}
	return first, others
}

// gained fails the row if again is implausibly fast beside first; see repeated.
func (m *rowMaker) gained(name string, first, again []float64) {
	if min(len(first), len(again)) < minCompared {
		return
	}
	if least, usual := slices.Min(first), measure.Percentile(again, 50); least > maxGain*usual {
		m.fail(result.ReasonImplausible.With("%s takes %.6g us, with a new input at least %.6g us", name, usual, least))
	}
}

// crossing is the minimum number of rows that leave and enter a group (one rank or a scale-up
// domain) in a dispatch. A token leaves once for all other groups, since a switch can multicast,
// and enters a group once for all of its experts there. A combine moves the same rows back: a
// group can return one sum for a token, and the sums can be added in the network.
type crossing struct{ off, onto int64 }

func (n crossing) back() crossing             { return crossing{n.onto, n.off} }
func (n crossing) times(bytes int64) crossing { return crossing{n.off * bytes, n.onto * bytes} }
func (n crossing) plus(other crossing) crossing {
	return crossing{n.off + other.off, n.onto + other.onto}
}

// crossings counts rows by group. Rows that stay in their group do not cross.
func crossings(t *workload.Trace, group func(rank int) int) []crossing {
	out := make([]crossing, group(t.World-1)+1)
	there := make([]bool, len(out))
	for source := range t.World {
		from := group(source)
		for token := t.First[source]; token < t.First[source+1]; token++ {
			clear(there)
			experts, _ := t.Row(token)
			for _, e := range experts {
				there[group(t.ExpertRank(e))] = true
			}
			there[from] = false
			for g, goes := range there {
				if goes {
					out[g].onto++
				}
			}
			if slices.Contains(there, true) {
				out[from].off++
			}
		}
	}
	return out
}

// busiest returns the maximum bytes that a group moves in one direction.
func busiest(groups []crossing, bytes func(crossing) crossing) int64 {
	most := int64(0)
	for _, n := range groups {
		b := bytes(n)
		most = max(most, b.off, b.onto)
	}
	return most
}

// leastBusy returns the minimum, over groups, of the number of rows that a group moves in each half
// of a pair, as sender or as receiver. A pair of a chain is timed on each rank separately, and a
// rank's peers may have done their part earlier.
func leastBusy(groups []crossing) int64 {
	least := min(groups[0].off, groups[0].onto)
	for _, n := range groups {
		least = min(least, n.off, n.onto)
	}
	return least
}

// whyWrong returns the outcome's reason for failed rows, or none if they only lack checks: the first
// impossible time, unless the oracle found something too.
func whyWrong(rows []ep.Row) result.Reasons {
	var found result.Reasons
	for _, r := range rows {
		found = append(found, r.Correctness.Reasons...)
	}
	found = slices.DeleteFunc(found, func(r result.Reason) bool { return r.Code == result.ReasonUnchecked })
	if len(found) > 0 && !found.Only(result.ReasonImplausible) {
		return result.Reasons{{Code: result.ReasonSemantics}}
	}
	return found[:min(1, len(found))]
}
