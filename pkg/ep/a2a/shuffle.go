package a2a

import (
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// The tokens of a rung are cut into pieces, which follow one another through packing,
// exchange and sum: a second stream packs and sums one piece while another is on its way.
const (
	mostPieces  = 4
	pieceTokens = 1024 // at least, so that the exchange of a piece is worth its start
)

// shuffle is normal mode.
type shuffle struct {
	*end
	sizes
	params      params
	besideBytes int // scales, expert ids and weights of a row

	place   accel.Ptr // int32 [tokens][world]: the row of a token among those of a rank
	counts  accel.Ptr // int32 [world][countWords] that this rank sends
	arrived accel.Ptr // the same that it receives
	send    rows      // packed rows for other ranks
	receive rows      // rows that arrived, this rank's own first
	staged  accel.Ptr // bf16 rows
	back    accel.Ptr // bf16 rows that come back from other ranks
	out     accel.Ptr // bf16 [tokens][hidden]

	// After the last dispatch:
	told     []int32 // page-locked copy of counts and arrived
	leave    []int64 // where the rows for each rank begin among those that leave; ranks in order, this one left out
	come     []int64 // where those of each rank begin among those that arrive; this one first
	received int     // rows that arrived
	lists    []int64 // scratch

	side  accel.Stream
	begun accel.Event             // the main stream has got so far that the other may work
	moved [mostPieces]accel.Event // a piece is packed, or has come back
	ended accel.Event             // the other stream has done its work
}

func newShuffle(e *end, s sizes) (f *shuffle, err error) {
	f = &shuffle{
		end: e, sizes: s, params: paramsOf(s, e.rank, e.d.Codec), besideBytes: s.scaleBytes + 8*s.topk,
		leave: make([]int64, s.world), come: make([]int64, s.world), lists: make([]int64, 4*s.world),
	}
	f.params.besideBytes = int32(f.besideBytes)
	sent, received := s.tokens*min(s.topk, s.world), s.tokens*s.world
	counts := s.world * (mostPieces + 1 + s.perRank)
	if err := e.memory.alloc(
		e.device,
		part{&f.place, 4 * s.tokens * s.world}, part{&f.counts, 4 * counts}, part{&f.arrived, 4 * counts},
		part{&f.send.values, sent * s.valueBytes}, part{&f.send.beside, sent * f.besideBytes},
		part{&f.receive.values, received * s.valueBytes}, part{&f.receive.beside, received * f.besideBytes},
		part{&f.staged, received * s.bf16Bytes()}, part{&f.back, sent * s.bf16Bytes()}, part{&f.out, s.tokens * s.bf16Bytes()},
	); err != nil {
		return nil, err
	}
	if f.told, err = e.memory.allocHost(e.device, 2*counts); err != nil {
		return nil, err
	}
	if f.side, err = e.device.NewStream(); err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	e.memory.closers = append(e.memory.closers, f.side.Close)
	for _, event := range append([]*accel.Event{&f.begun, &f.ended}, &f.moved[0], &f.moved[1], &f.moved[2], &f.moved[3]) {
		if *event, err = e.device.NewEvent(); err != nil {
			return nil, rank.Coded(result.ReasonDevice, err)
		}
		e.memory.closers = append(e.memory.closers, (*event).Close)
	}
	return f, nil
}

// bind cuts the tokens into pieces, in the same way on all ranks.
func (f *shuffle) bind() {
	pieces := min(max(f.p.Capacity/pieceTokens, 1), mostPieces)
	f.params.pieces = int32(pieces)
	f.params.pieceTokens = int32((f.p.Capacity + pieces - 1) / pieces)
}

// piece is which of this rank's tokens piece i holds.
func (f *shuffle) piece(i int) (first, end int) {
	n := int(f.params.pieceTokens)
	return min(i*n, f.p.Tokens), min((i+1)*n, f.p.Tokens)
}

// countWords is how many words a rank tells another before its rows; see cx_told.
func (f *shuffle) countWords() int { return int(f.params.pieces) + 1 + f.perRank }

// words are those that rank is told, or tells.
func (f *shuffle) words(rank int, tells bool) []int32 {
	at := rank * f.countWords()
	if tells {
		at += len(f.told) / 2
	}
	return f.told[at:][:f.countWords()]
}

// rows is how many rows go to rank, or come from it.
func (f *shuffle) rows(rank int, come bool) int64 { return int64(f.words(rank, come)[f.params.pieces]) }

// dispatch waits for the counts, without which nobody knows what to receive; the first
// rows are packed meanwhile.
func (f *shuffle) dispatch(cached bool) error {
	if !cached {
		if err := f.kernels.layout.Launch(f.stream, uint32(f.world), blockThreads, 0,
			arg(f.params), arg(f.p.Expert), arg(int32(f.p.Tokens)), arg(f.place), arg(f.counts)); err != nil {
			return err
		}
	}
	if err := errors.Join(f.stream.Record(f.begun), f.side.Wait(f.begun)); err != nil {
		return err
	}
	for i := range int(f.params.pieces) {
		first, end := f.piece(i)
		if err := f.perRow(f.side, f.kernels.pack, end-first,
			arg(f.params), arg(f.p.X), arg(f.p.Expert), arg(f.p.Weight), arg(f.place), arg(f.counts), arg(f.send), arg(f.receive),
			arg(int32(first)), arg(int32(end))); err != nil {
			return err
		}
		if err := f.side.Record(f.moved[i]); err != nil {
			return err
		}
	}
	if !cached {
		if err := f.exchangeCounts(); err != nil {
			return err
		}
	}
	for i := range int(f.params.pieces) {
		if err := f.stream.Wait(f.moved[i]); err != nil {
			return err
		}
		if err := f.comm.Group(func() error {
			if err := f.exchange(i, f.send.values, f.receive.values, f.valueBytes, false); err != nil {
				return err
			}
			return f.exchange(i, f.send.beside, f.receive.beside, f.besideBytes, false)
		}); err != nil {
			return gpurank.NCCLError(err)
		}
	}
	return nil
}

// exchange moves the rows of a piece, n bytes each, or as many back.
func (f *shuffle) exchange(i int, from, to accel.Ptr, n int, back bool) error {
	out, in := f.part(0), f.part(2)
	if back {
		out, in = in, out
	}
	for r := range f.world {
		leaving, coming := f.words(r, false), f.words(r, true)
		if r == f.rank {
			leaving, coming = make([]int32, mostPieces+1), make([]int32, mostPieces+1)
		}
		out(r, int64(leaving[i+1]-leaving[i]), f.leave[r]+int64(leaving[i]), n)
		in(r, int64(coming[i+1]-coming[i]), f.come[r]+int64(coming[i]), n)
	}
	return f.comm.Exchange(f.stream, numeric.Int8, from, to, f.lists)
}

// part returns a function that fills one half of the lists of an exchange.
func (f *shuffle) part(at int) func(rank int, rows, begin int64, bytes int) {
	return func(rank int, rows, begin int64, bytes int) {
		f.lists[at*f.world+rank] = rows * int64(bytes)
		f.lists[(at+1)*f.world+rank] = begin * int64(bytes)
	}
}

// exchangeCounts tells each rank how many rows come, and waits for what it is told.
func (f *shuffle) exchangeCounts() error {
	out, in := f.part(0), f.part(2)
	for r := range f.world {
		n := int64(1)
		if r == f.rank {
			n = 0
		}
		out(r, n, int64(r), f.countWords())
		in(r, n, int64(r), f.countWords())
	}
	if err := f.comm.Exchange(f.stream, numeric.Int32, f.counts, f.arrived, f.lists); err != nil {
		return gpurank.NCCLError(err)
	}
	half := len(f.told) / 2
	for i, from := range []accel.Ptr{f.counts, f.arrived} {
		if err := f.device.CopyOut(f.stream, unsafe.Pointer(&f.told[i*half]), from, int64(4*f.world*f.countWords())); err != nil {
			return err
		}
	}
	if err := f.stream.Synchronize(); err != nil {
		return err
	}
	copy(f.words(f.rank, true), f.words(f.rank, false))
	leave, come := int64(0), f.rows(f.rank, true)
	for r := range f.world {
		f.leave[r], f.come[r] = leave, come
		if r != f.rank {
			leave += f.rows(r, false)
			come += f.rows(r, true)
		}
	}
	f.received = int(come)
	return nil
}

// stage leaves bf16 rows where they arrived and converts fp8 rows.
func (f *shuffle) stage() (accel.Ptr, error) {
	if f.d.Codec.Format == nil {
		return f.receive.values, nil
	}
	return f.staged, f.perRow(f.stream, f.kernels.convert, f.received,
		arg(f.params), arg(f.receive), arg(f.staged), arg(int64(f.received)))
}

func (f *shuffle) staging() accel.Ptr { return f.staged }

func (f *shuffle) combine(staged accel.Ptr) (accel.Ptr, error) {
	for i := range int(f.params.pieces) {
		if err := f.exchange(i, staged, f.back, f.bf16Bytes(), true); err != nil {
			return 0, gpurank.NCCLError(err)
		}
		if err := errors.Join(f.stream.Record(f.moved[i]), f.side.Wait(f.moved[i])); err != nil {
			return 0, err
		}
		first, end := f.piece(i)
		if err := f.perRow(f.side, f.kernels.sum, end-first,
			arg(f.params), arg(f.place), arg(f.counts), arg(f.back), arg(staged), arg(f.out), arg(int32(first)), arg(int32(end))); err != nil {
			return 0, err
		}
	}
	return f.out, errors.Join(f.side.Record(f.ended), f.stream.Wait(f.ended))
}

func (f *shuffle) inspect() (*ep.Received, error) {
	payload, beside, err := f.decode(f.sizes, f.receive, f.received, f.besideBytes)
	if err != nil {
		return nil, err
	}
	rx := &ep.Received{Payload: payload, Counts: make([]int32, f.perRank)}
	for r := range f.world {
		for e, n := range f.words(r, true)[f.params.pieces+1:] {
			rx.Counts[e] += n
		}
	}
	for i := range f.received {
		row := beside[i*f.besideBytes+f.scaleBytes:][:8*f.topk]
		rx.Expert = append(rx.Expert, int32s(row[:4*f.topk])...)
		rx.Weight = append(rx.Weight, float32s(row[4*f.topk:])...)
	}
	return rx, nil
}
