package runner

import (
	"fmt"
	"math/rand/v2"

	"github.com/collectivex/collectivex/pkg/ep"
)

// A library must not gain from caching results, or from working only when it expects to be judged.
// The operations of a window and the pairs of a chain therefore rotate over inputs that differ in
// every row. Each window and each chain has new inputs, and draws at random which of its operations
// is judged. None of this is timed: the inputs are in memory before the warm-up, and only the address
// changes between two timed operations.

// newInputs allocates the timed inputs. All rungs use the same memory, because one rung is timed at a
// time.
func (m *run) newInputs() error {
	largest := 0
	for _, p := range m.points {
		largest = max(largest, m.block.TimedInputs(p.TokensPerRank)*p.inputBytes())
	}
	at, err := m.alloc(largest)
	if err != nil {
		return err
	}
	for _, p := range m.points {
		for i := range m.block.TimedInputs(p.TokensPerRank) {
			p.Inputs = append(p.Inputs, at.Add(int64(i*p.inputBytes())))
		}
		p.sent = append(p.sent, make([]oracle, len(p.Inputs)-1)...)
	}
	return nil
}

// renew writes new activations to the timed inputs of a rung, other ones than it last wrote if there are few. Only
// their seeds differ from the contract's, because the time of an operation can depend on the distribution of its values.
func (m *run) renew(p *point) error {
	p.seed = drawSeed(m.chance, p.seed, uint64(len(p.Inputs)-1))
	for i := 1; i < len(p.Inputs); i++ {
		o := p.oracle
		o.arithmetic = o.of(o.trace, activations{seed: m.block.Seed + 1 + (p.seed+uint64(i))%timedSeeds})
		p.sent[i] = o
		if err := m.data.fill(&o, p.Inputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// timedSeeds is the number of seeds of timed inputs, all but the contract's.
const timedSeeds = ep.Seeds - 1

// drawSeed draws the first seed of n inputs. If they need at most a quarter of the seeds, they share none with n inputs
// whose first seed is last. Otherwise, too few draws would be left.
func drawSeed(chance *rand.Rand, last, n uint64) uint64 {
	if 4*n > timedSeeds {
		return chance.Uint64N(timedSeeds)
	}
	return (last + n + chance.Uint64N(timedSeeds-2*n+1)) % timedSeeds
}

// choose makes an input the current one.
func (m *run) choose(p *point, input int) error {
	p.Problem.choose(input)
	if c, ok := m.adapter.(Chooser); ok {
		return c.Choose()
	}
	return nil
}

// turn rotates over the timed inputs of a rung, from a random one.
type turn struct {
	m     *run
	p     *point
	first int
}

func (m *run) newTurn(p *point) turn { return turn{m, p, m.chance.IntN(len(p.Inputs) - 1)} }

// input returns the input of operation i.
func (t turn) input(i int) int { return 1 + (t.first+i)%(len(t.p.Inputs)-1) }

func (t turn) choose(i int) error { return t.m.choose(t.p, t.input(i)) }

// load copies the input of operation i to the address that a graph was captured with.
func (t turn) load(i int) error {
	t.p.sent[t.p.Input] = t.p.sent[t.input(i)]
	if n := t.p.oracle.values(); n > 0 {
		return t.m.device.Copy(t.m.stream, t.p.X, t.p.Inputs[t.input(i)], int64(2*n))
	}
	return nil
}

// verdict returns the verdict on all judged samples of a component, or on all judged chains.
func (p *point) verdict(name string) *Verdict {
	if p.timed[name] == nil {
		p.timed[name] = &Verdict{Passed: true}
	}
	return p.timed[name]
}

// drawSample draws the index of the sample to judge in a window. If all samples combine one dispatch,
// it never draws the first, whose result a library cannot have cached.
func (m *run) drawSample(component string) int {
	n := m.block.Timing.ItersPerTrial
	if m.d.repeats(component) && n > 1 {
		return 1 + m.chance.IntN(n-1)
	}
	return m.chance.IntN(n)
}

// judgeTimed judges the state after a timed operation. It then restores the state in which windows
// begin; in meet, the ranks meet again.
func (m *run) judgeTimed(p *point, name string, judge func() (Verdict, error), meet steps) error {
	kept := m.left
	if err := withGC(func() error {
		v, err := judge()
		if err != nil {
			return err
		}
		p.verdict(name).add(v)
		differ, err := m.inputsChanged(p)
		p.verdict(name).require(CheckInputs, !differ)
		return err
	}); err != nil {
		return fmt.Errorf("oracle %s: %w", timed(name), err)
	}
	err := steps{m.settle, meet.do}.do()
	m.left.staged, m.left.rows = kept.staged, kept.rows
	return err
}
