package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"
)

// Trace lists the experts of each token of the global batch, and their weights. Placement
// is packed: rank e div (Experts/World) hosts expert e.
type Trace struct {
	World   int
	TopK    int
	Experts int // global expert slots, with EPLB including the redundant ones
	// First[r] is the first token of rank r. First[World] is the number of tokens.
	First []int
	// Expert and Weight are row-major, with a row of TopK elements for each token. The
	// experts of a token are distinct, and its weights sum to 1.
	Expert []int32
	Weight []float32
}

// Tokens returns the number of tokens in the global batch.
func (t *Trace) Tokens() int { return t.First[t.World] }

// RankTokens returns the number of tokens that rank r sends.
func (t *Trace) RankTokens(r int) int { return t.First[r+1] - t.First[r] }

// MaxRankTokens returns the maximum number of tokens that any rank sends.
func (t *Trace) MaxRankTokens() (most int) {
	for r := range t.World {
		most = max(most, t.RankTokens(r))
	}
	return most
}

// ExpertsPerRank returns how many experts a rank hosts.
func (t *Trace) ExpertsPerRank() int { return t.Experts / t.World }

// ExpertRank returns the rank that hosts expert.
func (t *Trace) ExpertRank(expert int32) int { return int(expert) / t.ExpertsPerRank() }

// Row returns the experts and weights of token, in slot order.
func (t *Trace) Row(token int) (experts []int32, weights []float32) {
	low, high := token*t.TopK, (token+1)*t.TopK
	return t.Expert[low:high:high], t.Weight[low:high:high]
}

// RotateWeights returns a copy of the trace in which the weights of each token are shifted
// by one slot. It shares everything else with t.
func (t *Trace) RotateWeights() *Trace {
	rotated := *t
	rotated.Weight = make([]float32, len(t.Weight))
	for i := range t.Weight {
		slot := i % t.TopK
		rotated.Weight[i-slot+(slot+1)%t.TopK] = t.Weight[i]
	}
	return &rotated
}

// Digest returns a SHA-256 over all experts (int64, little-endian) and then all weights
// (float32, little-endian), row-major. Traces with equal digests are equal.
func (t *Trace) Digest() [sha256.Size]byte {
	h := sha256.New()
	writeExperts(h, t.Expert)
	writeWeights(h, t.Weight)
	return [sha256.Size]byte(h.Sum(nil))
}

// writeExperts writes to a hash or a buffer, neither of which fails.
func writeExperts(w io.Writer, experts []int32) {
	var b [8]byte
	for _, e := range experts {
		binary.LittleEndian.PutUint64(b[:], uint64(e))
		_, _ = w.Write(b[:])
	}
}

func writeWeights(w io.Writer, weights []float32) {
	var b [4]byte
	for _, v := range weights {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		_, _ = w.Write(b[:])
	}
}
