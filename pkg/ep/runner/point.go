package runner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// point is one rung of the ladder on one rank.
type point struct {
	*Problem
	trace   *workload.Trace
	first   int      // global index of this rank's first token
	oracle  oracle   // for the inputs that the contract names
	changed oracle   // for other activations, and other weights if each dispatch sends them
	sent    []oracle // by input: what its buffer holds
	seed    uint64   // of the first timed input; see renew
	routed  [2]routed
	timed   map[string]*Verdict // see verdict
	// notRewritten: a replay of a graph did not write the whole output.
	notRewritten bool
}

// inputAlign is the alignment of inputs, in bytes.
const inputAlign = 256

// Indices of a point's routing.
const (
	routedExpert = iota
	routedWeight
)

// routed is a small buffer of the problem and its original contents.
type routed struct {
	at   accel.Ptr
	made []byte
}

// newPoint makes the inputs of a rung on the device.
func (m *run) newPoint(tokensPerRank int, trace *workload.Trace) (*point, error) {
	first, tokens := trace.First[m.Rank], trace.RankTokens(m.Rank)
	p := &point{trace: trace, first: first, timed: map[string]*Verdict{}}
	p.Problem = &Problem{
		TokensPerRank: tokensPerRank, Tokens: tokens, Capacity: trace.MaxRankTokens(), World: m.World,
		Hidden: m.block.Hidden, TopK: m.block.TopK, Experts: trace.Experts,
	}
	p.oracle = oracle{arithmetic: newArithmetic(m.d, trace, activations{seed: m.block.Seed}, m.block.Hidden, m.c.ScaleUpDomain), rank: m.Rank}
	other := trace
	if m.c.Contract == ep.ContractLayout { // a cached layout may hold the weights
		other = trace.RotateWeights()
	}
	p.changed = oracle{arithmetic: p.oracle.of(other, activations{m.block.Seed, true}), rank: m.Rank}

	var experts []byte
	for i := range tokens {
		ids, _ := trace.Row(first + i)
		for _, e := range ids {
			if m.d.IndexType == numeric.Int32 {
				experts = binary.NativeEndian.AppendUint32(experts, uint32(e))
			} else {
				experts = binary.NativeEndian.AppendUint64(experts, uint64(e))
			}
		}
	}
	x, err := m.alloc(p.inputBytes())
	if err != nil {
		return nil, err
	}
	p.Inputs, p.sent = []accel.Ptr{x}, make([]oracle, 1)
	p.choose(0)
	for i, in := range []struct {
		at   *accel.Ptr
		made []byte
	}{routedExpert: {&p.Expert, experts}, routedWeight: {&p.Weight, nil}} {
		if *in.at, err = m.alloc(max(len(in.made), 4*tokens*p.TopK)); err != nil {
			return nil, err
		}
		p.routed[i] = routed{*in.at, in.made}
	}
	if err := accel.Write(m.device, m.stream, p.Expert, experts); err != nil {
		return nil, err
	}
	return p, m.send(p, p.oracle)
}

// weights returns the weights of o's rank in buffer format.
func (p *point) weights(o oracle) (weights []byte) {
	for i := range p.Tokens {
		_, parts := o.trace.Row(p.first + i)
		for _, w := range parts {
			weights = binary.NativeEndian.AppendUint32(weights, math.Float32bits(w))
		}
	}
	return weights
}

// now returns the oracle for the current input.
func (p *point) now() *oracle { return &p.sent[p.Input] }

// inputBytes returns the size of an input, rounded up to the alignment of the next one.
func (p *Problem) inputBytes() int {
	return (2*p.Tokens*p.Hidden + inputAlign - 1) / inputAlign * inputAlign
}

// send writes the inputs of o to the problem's buffers, the activations to the current input.
func (m *run) send(p *point, o oracle) error {
	p.sent[p.Input] = o
	weights := &p.routed[routedWeight]
	weights.made = p.weights(o)
	return errors.Join(m.data.fill(&o, p.X), accel.Write(m.device, m.stream, weights.at, weights.made))
}

// alloc allocates device memory of the case. A rank without tokens gets an address too.
func (m *run) alloc(bytes int) (accel.Ptr, error) { return m.device.Alloc(max(1, int64(bytes))) }

// inputsChanged reports whether a buffer of the problem no longer has its original contents.
func (m *run) inputsChanged(p *point) (bool, error) {
	for _, in := range p.routed {
		now, err := accel.Read[byte](m.device, m.stream, in.at, len(in.made))
		if err != nil {
			return false, err
		}
		if !bytes.Equal(now, in.made) {
			return true, nil
		}
	}
	same, err := m.data.filled(p.now(), p.X)
	return !same, err
}
