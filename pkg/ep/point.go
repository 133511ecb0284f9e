package ep

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// point is one rung of the ladder on one rank.
type point struct {
	*Problem
	trace   *workload.Trace
	first   int     // token of the global batch that this rank's begin with
	oracle  oracle  // of the inputs that the contract names
	changed oracle  // of other activations, and other weights if each dispatch sends them
	inputs  []input // X, Expert, Weight
}

// Indices of a point's inputs.
const (
	inputX = iota
	inputExpert
	inputWeight
)

// input is a buffer of the problem and what it was made as.
type input struct {
	at   accel.Ptr
	made []byte
}

// newPoint makes the inputs of a rung on the device.
func (m *run) newPoint(tokensPerRank int, trace *workload.Trace) (*point, error) {
	first, tokens := trace.First[m.Rank], trace.RankTokens(m.Rank)
	p := &point{trace: trace, first: first}
	p.Problem = &Problem{
		TokensPerRank: tokensPerRank, Tokens: tokens, Capacity: trace.MaxRankTokens(), World: m.World,
		Hidden: m.block.Hidden, TopK: m.block.TopK, Experts: trace.Experts,
	}
	p.oracle = oracle{newArithmetic(m.d, trace, func(row []uint16, token int) {
		workload.FillActivation(row, uint32(token), m.block.Seed)
	}, m.block.Hidden, m.c.ScaleUpDomain), m.Rank}
	other := trace
	if m.c.Contract == vocab.ContractLayout { // a cached layout may hold the weights
		other = trace.RotateWeights()
	}
	p.changed = oracle{p.oracle.of(other, func(row []uint16, token int) {
		workload.FillScaled(row, uint32(token), m.block.Seed, BlockColumns)
	}), m.Rank}

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
	for _, in := range []struct {
		at   *accel.Ptr
		made []byte
	}{{&p.X, p.activations(p.oracle)}, {&p.Expert, experts}, {&p.Weight, p.weights(p.oracle)}} {
		var err error
		if *in.at, err = m.upload(in.made); err != nil {
			return nil, err
		}
		p.inputs = append(p.inputs, input{*in.at, in.made})
	}
	return p, nil
}

// activations are the rows of o's rank as a buffer holds them.
func (p *point) activations(o oracle) []byte {
	x := make([]byte, 0, 2*p.Tokens*p.Hidden)
	row := make([]uint16, p.Hidden)
	for i := range p.Tokens {
		o.fill(row, p.first+i)
		for _, b := range row {
			x = binary.NativeEndian.AppendUint16(x, b)
		}
	}
	return x
}

// weights are the weights of o's rank as a buffer holds them.
func (p *point) weights(o oracle) (weights []byte) {
	for i := range p.Tokens {
		_, parts := o.trace.Row(p.first + i)
		for _, w := range parts {
			weights = binary.NativeEndian.AppendUint32(weights, math.Float32bits(w))
		}
	}
	return weights
}

// write replaces the content of one of the problem's buffers.
func (m *run) write(in *input, data []byte) error {
	in.made = data
	return accel.Write(m.device, m.stream, in.at, data)
}

// upload puts data into device memory of its own, which the case frees. A rank
// without tokens gets an address all the same.
func (m *run) upload(data []byte) (accel.Ptr, error) {
	at, err := m.device.Alloc(max(1, int64(len(data))))
	if err != nil {
		return 0, err
	}
	m.buffers = append(m.buffers, at)
	return at, accel.Write(m.device, m.stream, at, data)
}

// inputsChanged reports whether a buffer of the problem is no longer what it
// was made as.
func (m *run) inputsChanged(p *point) (bool, error) {
	for _, in := range p.inputs {
		now, err := accel.Read(m.device, m.stream, in.at, int64(len(in.made)))
		if err != nil {
			return false, err
		}
		if !bytes.Equal(now, in.made) {
			return true, nil
		}
	}
	return false, nil
}

// output reads back what the last combine returned.
func (m *run) output(p *point) ([]uint16, error) {
	data, err := accel.Read(m.device, m.stream, m.left.out, int64(2*p.Tokens*p.Hidden))
	if err != nil {
		return nil, err
	}
	values := make([]uint16, p.Tokens*p.Hidden)
	for i := range values {
		values[i] = binary.NativeEndian.Uint16(data[2*i:])
	}
	return values, nil
}
