package runner

import (
	"context"
	_ "embed" // oracle.cu
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

//go:embed oracle.cu
var oracleKernels string

// source returns the source of the oracle's kernels with its dependencies.
func source() string { return kernels.Complete(oracleKernels) }

const (
	// tileColumns is CX_TILE of oracle.cu.
	tileColumns = 1024
	// maxTopK is CX_MAX_TOPK of oracle.cu.
	maxTopK = 64
)

// kernelData runs the kernels of oracle.cu. It uploads their small arguments, such as routing and
// row addresses, for each call.
type kernelData struct {
	device  *accel.Scope
	stream  accel.Stream
	blocks  int
	scratch accel.Scratch // result words of a kernel, then its uploaded arguments

	kernelFill, kernelFilled, kernelSources, kernelPayload, kernelTransform, kernelChoose,
	kernelCombined, kernelDeclared, kernelCompare accel.Kernel
}

var _ data = (*kernelData)(nil)

func newKernelData(ctx context.Context, d accel.Device, s accel.Stream) (*kernelData, error) {
	k := &kernelData{device: accel.NewScope(d), stream: s, blocks: accel.Blocks(d), scratch: accel.Scratch{Device: d}}
	err := k.device.Kernels(ctx, "oracle.cu", source(), map[string]*accel.Kernel{
		"cx_ep_fill": &k.kernelFill, "cx_ep_filled": &k.kernelFilled, "cx_ep_sources": &k.kernelSources,
		"cx_ep_payload": &k.kernelPayload, "cx_ep_transform": &k.kernelTransform, "cx_ep_choose": &k.kernelChoose,
		"cx_ep_combined": &k.kernelCombined, "cx_ep_declared": &k.kernelDeclared, "cx_ep_compare": &k.kernelCompare,
	})
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *kernelData) close() error { return errors.Join(k.scratch.Free(), k.device.Close()) }

// codecParams is cx_codec of oracle.cu.
type codecParams struct {
	format, block int32
	max           float32
}

func codecOf(c Codec) (p codecParams) {
	if c.Format == nil {
		return p
	}
	p.format = 1 + int32(slices.Index([]*numeric.FP8{numeric.E4M3FN, numeric.E4M3FNUZ, numeric.E5M2}, c.Format))
	p.max = c.Format.Max
	if c.Block {
		p.block = 1
	}
	return p
}

// sideParams is cx_side of oracle.cu.
type sideParams struct {
	seed           uint64
	scaled, hidden int32
	codec          codecParams
	_              int32
}

func sideOf(o *oracle) sideParams {
	p := sideParams{seed: o.fill.seed, hidden: int32(len(o.pattern)), codec: codecOf(o.Codec)}
	if o.fill.scaled {
		p.scaled = 1
	}
	return p
}

// rowParams is cx_rows of oracle.cu.
type rowParams struct {
	values, scales accel.Ptr
	codec          codecParams
	_              int32
}

// sumParams is cx_sum of oracle.cu.
type sumParams struct{ topk, weighted, tree, rounds int32 }

func sumOf(o *oracle) sumParams {
	p := sumParams{topk: int32(o.trace.TopK)}
	switch {
	case o.Combine == WeightedKernelSum:
		p.weighted = 1
	case o.Reduction == TopKSlotTree:
		p.tree = 1
	case o.Reduction == RankFP32: // one group, which is not rounded
	default:
		p.rounds = 1
	}
	return p
}

// termBytes is the size of cx_term of oracle.cu.
const termBytes = 24

// foundBytes is the size of a kernel's result: two words.
const foundBytes = 16

// upload clears the result words and writes parts behind them; it returns the address of each
// part. The next upload overwrites the memory.
func (k *kernelData) upload(parts ...[]byte) (at []accel.Ptr, err error) {
	const unit = 16
	all := make([]byte, foundBytes)
	var offsets []int64
	for _, part := range parts {
		offsets = append(offsets, int64(len(all)))
		all = append(all, part...)
		all = append(all, make([]byte, (unit-len(all)%unit)%unit)...)
	}
	if err := k.scratch.Grow(int64(len(all))); err != nil {
		return nil, err
	}
	for _, offset := range offsets {
		at = append(at, k.scratch.At.Add(offset))
	}
	return at, accel.Write(k.device, k.stream, k.scratch.At, all)
}

// found reads the result words of a kernel.
func (k *kernelData) found() (first, second uint64, err error) {
	words, err := accel.Read[uint64](k.device, k.stream, k.scratch.At, foundBytes/8)
	if err != nil {
		return 0, 0, err
	}
	return words[0], words[1], nil
}

// errorOf converts a kernel's result word to an error. Words are ordered like math.Max, except that
// infinity is above NaN.
func errorOf(word uint64) float64 {
	switch infinity := math.Float64bits(math.Inf(1)); word {
	case infinity:
		return math.NaN()
	case infinity + 1:
		return math.Inf(1)
	default:
		return math.Float64frombits(word)
	}
}

// launch runs a kernel with the given number of blocks.
func (k *kernelData) launch(kernel accel.Kernel, blocks int, args ...unsafe.Pointer) error {
	if blocks == 0 {
		return nil
	}
	return kernel.Launch(k.stream, uint32(min(blocks, k.blocks)), accel.BlockThreads, 0, args...)
}

// blocksOf returns the number of blocks for n values, one per thread.
func blocksOf(n int) int { return (n + accel.BlockThreads - 1) / accel.BlockThreads }

// tilesOf returns the number of blocks for rows, one per tile.
func tilesOf(rows, hidden int) int { return rows * ((hidden + tileColumns - 1) / tileColumns) }

func (k *kernelData) fill(o *oracle, x accel.Ptr) error {
	n := o.values()
	return errors.Join(k.launch(k.kernelFill, blocksOf(n),
		accel.Arg(sideOf(o)), accel.Arg(x), accel.Arg(uint64(o.trace.First[o.rank])), accel.Arg(uint64(n))), k.stream.Synchronize())
}

func (k *kernelData) filled(o *oracle, x accel.Ptr) (bool, error) {
	if _, err := k.upload(); err != nil {
		return false, err
	}
	n := o.values()
	if err := k.launch(k.kernelFilled, blocksOf(n),
		accel.Arg(sideOf(o)), accel.Arg(x), accel.Arg(uint64(o.trace.First[o.rank])), accel.Arg(uint64(n)), accel.Arg(k.scratch.At)); err != nil {
		return false, err
	}
	wrong, _, err := k.found()
	return wrong == 0, err
}

// addresses returns the addresses of each row's values and scales.
func addresses(rows []Rows) (values, scales []byte) {
	for _, p := range rows {
		for i := range int64(p.Count) {
			values = binary.NativeEndian.AppendUint64(values, uint64(p.Values.Add(i*p.Stride)))
			scales = binary.NativeEndian.AppendUint64(scales, uint64(p.Scales.Add(i*p.ScaleStride)))
		}
	}
	return values, scales
}

func (k *kernelData) sources(_ *oracle, rx *Received) ([]int64, error) {
	n := rx.rows()
	values, scales := addresses(rx.Payload)
	at, err := k.upload(values, scales, make([]byte, 8*n))
	if err != nil {
		return nil, err
	}
	if err := k.launch(k.kernelSources, blocksOf(n),
		accel.Arg(rowParams{values: at[0], scales: at[1], codec: codecOf(rx.Codec)}), accel.Arg(at[2]), accel.Arg(uint64(n))); err != nil {
		return nil, err
	}
	return accel.Read[int64](k.device, k.stream, at[2], n)
}

func (k *kernelData) payload(o *oracle, rx *Received, tokens []int64) (bool, error) {
	values, scales := addresses(rx.Payload)
	var of []byte
	for _, t := range tokens {
		of = binary.NativeEndian.AppendUint64(of, uint64(t))
	}
	at, err := k.upload(values, scales, of)
	if err != nil {
		return false, err
	}
	if err := k.launch(k.kernelPayload, tilesOf(len(tokens), len(o.pattern)),
		accel.Arg(sideOf(o)), accel.Arg(rowParams{values: at[0], scales: at[1], codec: codecOf(rx.Codec)}), accel.Arg(at[2]),
		accel.Arg(uint64(len(tokens))), accel.Arg(k.scratch.At)); err != nil {
		return false, err
	}
	wrong, _, err := k.found()
	return wrong == 0, err
}

func (k *kernelData) transform(o *oracle, rx *Received, by []workload.Affine, to []Rows) error {
	values, scales := addresses(rx.Payload)
	into, _ := addresses(to)
	if len(into) != len(values) || len(into) != 8*len(by) {
		return fmt.Errorf("%d rows to stage, the adapter has room for %d", len(by), len(into)/8)
	}
	var affine []byte
	for _, t := range by {
		affine = appendFloats(affine, t.Scale, t.A, t.B)
	}
	at, err := k.upload(values, scales, affine, into)
	if err != nil {
		return err
	}
	hidden := len(o.pattern)
	return errors.Join(k.launch(k.kernelTransform, blocksOf(len(by)*hidden),
		accel.Arg(rowParams{values: at[0], scales: at[1], codec: codecOf(rx.Codec)}), accel.Arg(at[2]), accel.Arg(at[3]),
		accel.Arg(uint64(len(by))), accel.Arg(int32(hidden))), k.stream.Synchronize())
}

func (k *kernelData) choose(o *oracle, rows []choice, to []Rows) error {
	into, _ := addresses(to)
	if len(into) != 8*len(rows) {
		return fmt.Errorf("%d rows to stage, the adapter has room for %d", len(rows), len(into)/8)
	}
	var of, weights []byte
	for _, r := range rows {
		part, parts := -1, 0
		token := max(0, r.token)
		if r.part >= 0 {
			part, parts = o.place(token, r.part)
		}
		of = binary.NativeEndian.AppendUint64(of, uint64(token))
		of = appendInts(of, part, parts)
		if r.part >= 0 {
			_, w := o.trace.Row(token)
			weights = appendFloats(weights, w...)
		} else {
			weights = append(weights, make([]byte, 4*o.trace.TopK)...)
		}
	}
	at, err := k.upload(of, weights, into)
	if err != nil {
		return err
	}
	hidden := len(o.pattern)
	return errors.Join(k.launch(k.kernelChoose, blocksOf(len(rows)*hidden),
		accel.Arg(at[0]), accel.Arg(at[1]), accel.Arg(at[2]), accel.Arg(uint64(len(rows))), accel.Arg(int32(hidden)), accel.Arg(sumOf(o))), k.stream.Synchronize())
}

// place returns the index of a part (see message) among the parts of a token, and the number of
// these parts: top-k slots, or ranks that return a row.
func (o *oracle) place(token, part int) (at, of int) {
	if o.Combine == WeightedKernelSum {
		return part, o.trace.TopK
	}
	ranks := o.ranksOf(token)
	return slices.Index(ranks, part), len(ranks)
}

func appendFloats(to []byte, values ...float32) []byte {
	for _, v := range values {
		to = binary.NativeEndian.AppendUint32(to, math.Float32bits(v))
	}
	return to
}

func appendInts(to []byte, values ...int) []byte {
	for _, v := range values {
		to = binary.NativeEndian.AppendUint32(to, uint32(int32(v)))
	}
	return to
}

// terms appends the terms of a token's sum in cx_term format, in the order of addition. by
// returns the transform of a part.
func (o *oracle) terms(to []byte, token int, by func(token, part int) workload.Affine) []byte {
	none := func(to []byte) []byte { return appendInts(appendFloats(to, 0, 0, 0, 0), -1, 0) }
	term := func(to []byte, t workload.Affine, weight float32, part int, last bool) []byte {
		end := 0
		if last {
			end = 1
		}
		return appendInts(appendFloats(to, t.Scale, t.A, t.B, weight), part, end)
	}
	if o.Combine == WeightedKernelSum {
		_, weights := o.trace.Row(token)
		groups := [][]int{slots(o.trace.TopK)}
		if o.Reduction == RankPartialFP32 {
			groups = o.slotsByRank(token)
		}
		for _, group := range groups {
			for i, slot := range group {
				to = term(to, by(token, slot), weights[slot], slot, i == len(group)-1)
			}
		}
		return to
	}
	ranks := o.ranksOf(token)
	if o.Reduction == TopKSlotTree {
		of := o.slotRanks(token)
		for slot, rank := range of {
			if slices.Contains(of[:slot], rank) {
				to = none(to)
			} else {
				to = term(to, by(token, rank), 1, slices.Index(ranks, rank), false)
			}
		}
		return to
	}
	inOrder := ranks
	if o.Reduction == RankFP32 {
		inOrder = o.ranksInSlots(token)
	}
	for i, rank := range inOrder {
		last := i == len(inOrder)-1 || o.Reduction != RankFP32 && inOrder[i+1]/o.domain != rank/o.domain
		to = term(to, by(token, rank), 1, slices.Index(ranks, rank), last)
	}
	for range o.trace.TopK - len(ranks) {
		to = none(to)
	}
	return to
}

// allTerms returns the terms of the tokens of o's rank, for transformed or constant messages. They
// are computed once.
func (o *oracle) allTerms(kind messages) []byte {
	at, by := &o.packed[0], o.rowTransform
	if kind == constant {
		at, by = &o.packed[1], o.rowConstant
	}
	if tokens := o.trace.RankTokens(o.rank); *at == nil {
		*at = make([]byte, 0, termBytes*tokens*o.trace.TopK)
		for i := range tokens {
			*at = o.terms(*at, o.trace.First[o.rank]+i, by)
		}
	}
	return *at
}

func (k *kernelData) combined(o *oracle, kind messages, out accel.Ptr) (float64, error) {
	tokens := o.trace.RankTokens(o.rank)
	at, err := k.upload(o.allTerms(kind))
	if err != nil {
		return 0, err
	}
	if kind == constant {
		kind = transformed // by other terms
	}
	if err := k.launch(k.kernelCombined, tilesOf(tokens, len(o.pattern)),
		accel.Arg(sideOf(o)), accel.Arg(sumOf(o)), accel.Arg(int32(kind)), accel.Arg(uint64(o.trace.First[o.rank])), accel.Arg(at[0]), accel.Arg(out),
		accel.Arg(uint64(tokens)), accel.Arg(k.scratch.At)); err != nil {
		return 0, err
	}
	worst, _, err := k.found()
	return errorOf(worst), err
}

func (k *kernelData) declared(o *oracle, out accel.Ptr) (worst float64, wrong int, err error) {
	first, tokens := o.trace.First[o.rank], o.trace.RankTokens(o.rank)
	var weights, parts []byte
	for i := range tokens {
		_, w := o.trace.Row(first + i)
		weights = appendFloats(weights, w...)
		_, of := o.place(first+i, 0)
		parts = appendInts(parts, of)
	}
	at, err := k.upload(o.allTerms(transformed), weights, parts)
	if err != nil {
		return 0, 0, err
	}
	if err := k.launch(k.kernelDeclared, blocksOf(o.values()),
		accel.Arg(sumOf(o)), accel.Arg(uint64(first)), accel.Arg(at[0]), accel.Arg(at[1]), accel.Arg(at[2]), accel.Arg(out),
		accel.Arg(uint64(tokens)), accel.Arg(int32(len(o.pattern))), accel.Arg(k.scratch.At)); err != nil {
		return 0, 0, err
	}
	word, n, err := k.found()
	return errorOf(word), int(n), err
}

func (k *kernelData) compare(got, reference accel.Ptr, n int) (float64, error) {
	if _, err := k.upload(); err != nil {
		return 0, err
	}
	if err := k.launch(k.kernelCompare, blocksOf(n), accel.Arg(got), accel.Arg(reference), accel.Arg(uint64(n)), accel.Arg(k.scratch.At)); err != nil {
		return 0, err
	}
	word, _, err := k.found()
	return errorOf(word), err
}
