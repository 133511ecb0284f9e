package runner

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/rank"
)

// A library that keeps results, or works only where it expects to be judged, would be timed at what
// it does not do. The operations of a window and the pairs of a chain therefore rotate over inputs
// that differ in every row; a window or chain has new ones, and which operation is judged is drawn
// when it runs. All of this is untimed: the inputs are in memory before the warm-up, and between two
// timed operations only the address changes.

// lottery draws what a library must not know before. All ranks draw the same.
type lottery struct{ *rand.Rand }

// newLottery agrees on a secret, which rank 0 draws.
func newLottery(ctx context.Context, s *rank.Session) (lottery, error) {
	var secret [32]byte
	if _, err := crand.Read(secret[:]); err != nil {
		return lottery{}, err
	}
	all, err := rank.Gather(ctx, s, "ep-draw", secret)
	if err != nil {
		return lottery{}, fmt.Errorf("agree on what is judged: %w", err)
	}
	return lottery{rand.New(rand.NewChaCha8(all[0]))}, nil
}

// newInputs allocates the timed inputs, which the rungs share: one is timed at a time.
func (m *run) newInputs() error {
	most := 0
	for _, p := range m.points {
		most = max(most, m.block.TimedInputs(p.TokensPerRank)*p.inputBytes())
	}
	at, err := m.alloc(most)
	for _, p := range m.points {
		for i := range m.block.TimedInputs(p.TokensPerRank) {
			p.Inputs = append(p.Inputs, at.Add(int64(i*p.inputBytes())))
		}
		p.sent = append(p.sent, make([]oracle, len(p.Inputs)-1)...)
	}
	return err
}

// renew writes activations of the contract with other seeds to the timed inputs of a rung: values of
// another kind can take another time.
func (m *run) renew(p *point) error {
	first := m.lots.Uint64N(ep.Seeds - 1)
	for i := 1; i < len(p.Inputs); i++ {
		o := p.oracle
		o.arithmetic = o.of(o.trace, activations{seed: m.block.Seed + 1 + (first+uint64(i))%(ep.Seeds-1)})
		p.sent[i] = o
		if err := m.data.fill(&o, p.Inputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// choose makes an input the current one.
func (m *run) choose(p *point, input int) error {
	p.Problem.choose(input)
	if c, ok := m.adapter.(Chooser); ok {
		return c.Choose()
	}
	return nil
}

// turn rotates over the timed inputs of a rung, from one that was drawn.
type turn struct {
	m     *run
	p     *point
	first int
}

func (m *run) newTurn(p *point) turn { return turn{m, p, m.lots.IntN(len(p.Inputs) - 1)} }

// input returns the input of operation i.
func (t turn) input(i int) int { return 1 + (t.first+i)%(len(t.p.Inputs)-1) }

func (t turn) choose(i int) error { return t.m.choose(t.p, t.input(i)) }

// load copies the input of operation i to the input that a graph was captured with.
func (t turn) load(i int) error {
	t.p.sent[t.p.Input] = t.p.sent[t.input(i)]
	if n := t.p.oracle.values(); n > 0 {
		return t.m.device.Copy(t.m.stream, t.p.X, t.p.Inputs[t.input(i)], int64(2*n))
	}
	return nil
}

// verdict returns the verdict on the operations at random places of a component or of the chains.
func (p *point) verdict(name string) *Verdict {
	if p.timed[name] == nil {
		p.timed[name] = &Verdict{Passed: true}
	}
	return p.timed[name]
}

// drawSample draws the sample of a window that is judged. The first combine of a dispatch cannot have
// been kept, so it is not drawn where others follow.
func (m *run) drawSample(component string) int {
	n := m.block.Timing.ItersPerTrial
	if m.d.repeats(component) && n > 1 {
		return 1 + m.lots.IntN(n-1)
	}
	return m.lots.IntN(n)
}

// judgeTimed judges operations at a random place among the timed ones, then makes the ranks meet
// again, as windows begin.
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
