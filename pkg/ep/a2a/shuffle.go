package a2a

import (
	"errors"
	"math"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// shuffle implements normal mode.
type shuffle struct {
	*end
	sizes
	params      params
	besideBytes int // scales, expert ids and weights of a row

	place   accel.Ptr // int32 [tokens][world]: row index of a token among the rows for a rank, or −1
	counts  accel.Ptr // int32 [2][world][countWords]: counts sent, then counts received
	send    rows      // packed rows for other ranks
	receive rows      // rows that arrived, this rank's own first
	staged  accel.Ptr // bf16 rows
	back    accel.Ptr // bf16 rows that come back from other ranks
	out     accel.Ptr // bf16 [tokens][hidden]

	// After the last dispatch:
	told     []int32 // page-locked copy of counts
	leave    []int64 // where the rows for each rank begin among the rows that leave; rank order without this rank
	come     []int64 // where the rows from each rank begin among the rows that arrive; this rank first
	received int     // rows that arrived
	lists    []int64 // scratch

	side   accel.Stream // on which rows are packed
	begun  accel.Event  // the layout is complete
	packed accel.Event  // rows that leave are packed
	copied accel.Event  // rows that stay are packed
}

func newShuffle(e *end, s sizes) (f *shuffle, err error) {
	f = &shuffle{
		end: e, sizes: s, params: paramsOf(s, e.rank, e.d.Codec), besideBytes: s.scaleBytes + 8*s.topk,
		leave: make([]int64, s.world), come: make([]int64, s.world), lists: make([]int64, 4*s.world),
	}
	f.params.besideBytes = int32(f.besideBytes)
	sent, received := s.tokens*min(s.topk, s.world), s.tokens*s.world
	counts := 2 * s.world * f.countWords()
	if err := e.alloc(
		part{at: &f.place, bytes: 4 * s.tokens * s.world}, part{at: &f.counts, bytes: 4 * counts, register: local},
		part{&f.send.values, sent * s.valueBytes, local}, part{&f.send.beside, sent * f.besideBytes, local},
		part{&f.receive.values, received * s.valueBytes, local}, part{&f.receive.beside, received * f.besideBytes, local},
		part{&f.staged, received * s.bf16Bytes(), local}, part{&f.back, sent * s.bf16Bytes(), local},
		part{at: &f.out, bytes: s.tokens * s.bf16Bytes()},
	); err != nil {
		return nil, err
	}
	if f.told, err = e.allocHost(counts); err != nil {
		return nil, err
	}
	if f.side, err = e.memory.NewStream(); err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	for _, event := range []*accel.Event{&f.begun, &f.packed, &f.copied} {
		if *event, err = e.memory.NewEvent(); err != nil {
			return nil, rank.Coded(result.ReasonDevice, err)
		}
	}
	return f, nil
}

// countWords is the number of int32 words sent to a rank ahead of its rows: the row count, then
// the count for each expert.
func (f *shuffle) countWords() int { return 1 + f.perRank }

// tells returns the counts that this rank sends to rank ahead of its rows; see countWords.
func (f *shuffle) tells(rank int) []int32 { return f.told[rank*f.countWords():][:f.countWords()] }

// toldBy returns the counts of the rows that this rank receives from rank.
func (f *shuffle) toldBy(rank int) []int32 {
	return f.told[len(f.told)/2:][rank*f.countWords():][:f.countWords()]
}

// dispatch waits on the host for the counts, which determine what to receive. Meanwhile a second
// stream packs the rows. The exchange of counts is enqueued first: behind a kernel that occupies
// all multiprocessors, the library's kernel would have to wait.
func (f *shuffle) dispatch(cached bool) error {
	if !cached {
		if err := f.scan(f.kernels.layout, f.world, f.p.Tokens,
			accel.Arg(f.params), accel.Arg(f.p.Expert), accel.Arg(int32(f.p.Tokens)), accel.Arg(f.place), accel.Arg(f.counts)); err != nil {
			return err
		}
	}
	if err := errors.Join(f.stream.Record(f.begun), f.side.Wait(f.begun)); err != nil {
		return err
	}
	if !cached {
		if err := f.exchangeCounts(); err != nil {
			return err
		}
	}
	if err := f.pack(); err != nil {
		return err
	}
	if !cached {
		if err := f.awaitCounts(); err != nil {
			return err
		}
	}
	if err := f.stream.Wait(f.packed); err != nil {
		return err
	}
	if err := f.comm.Group(func() error {
		if err := f.exchange(f.send.values, f.receive.values, f.valueBytes, false); err != nil {
			return err
		}
		return f.exchange(f.send.beside, f.receive.beside, f.besideBytes, false)
	}); err != nil {
		return gpurank.NCCLError(err)
	}
	return f.stream.Wait(f.copied)
}

// pack packs the rows that leave, then, with multiprocessors left free for the library, the rows
// that stay. With fp8 both are packed at once, because the cast takes longer than the transfer.
func (f *shuffle) pack() error {
	const leave, stay = 1, 2 // as in shuffle.cu
	pack := func(launch launcher, which int32) error {
		return launch(f.side, f.kernels.pack, f.p.Tokens, f.hidden,
			accel.Arg(f.params), accel.Arg(f.p.X), accel.Arg(f.p.Expert), accel.Arg(f.p.Weight), accel.Arg(f.place), accel.Arg(f.counts), accel.Arg(f.send), accel.Arg(f.receive), accel.Arg(int32(f.p.Tokens)), accel.Arg(which))
	}
	if f.d.Codec.Format != nil {
		return errors.Join(pack(f.perRow, leave|stay), f.side.Record(f.packed), f.side.Record(f.copied))
	}
	return errors.Join(
		pack(f.perRow, leave), f.side.Record(f.packed), pack(f.perRowBeside, stay), f.side.Record(f.copied))
}

// exchange sends and receives rows of n bytes; back reverses the direction.
func (f *shuffle) exchange(from, to accel.Ptr, n int, back bool) error {
	for r := range f.world {
		if r == f.rank {
			f.list(r, 0, 0, 0, 0)
			continue
		}
		out, in := int64(f.tells(r)[0]), int64(f.toldBy(r)[0])
		if back {
			f.list(r, in*int64(n), f.come[r]*int64(n), out*int64(n), f.leave[r]*int64(n))
		} else {
			f.list(r, out*int64(n), f.leave[r]*int64(n), in*int64(n), f.come[r]*int64(n))
		}
	}
	return f.comm.Exchange(f.stream, numeric.Int8, from, to, f.lists)
}

// list sets what this rank sends to another and receives from it, and where both begin.
func (f *shuffle) list(rank int, sent, from, received, to int64) {
	for i, v := range []int64{sent, from, received, to} {
		f.lists[i*f.world+rank] = v
	}
}

// exchangeCounts exchanges the counts and copies them to the host.
func (f *shuffle) exchangeCounts() error {
	n := int64(f.countWords())
	for r := range f.world {
		if r == f.rank {
			f.list(r, 0, 0, 0, 0)
		} else {
			f.list(r, n, int64(r)*n, n, int64(r)*n)
		}
	}
	arrived := f.counts.Add(int64(4 * len(f.told) / 2))
	if err := f.comm.Exchange(f.stream, numeric.Int32, f.counts, arrived, f.lists); err != nil {
		return gpurank.NCCLError(err)
	}
	return f.device.CopyOut(f.stream, unsafe.Pointer(&f.told[0]), f.counts, int64(4*len(f.told)))
}

// awaitCounts waits for the counts and computes row offsets from them.
func (f *shuffle) awaitCounts() error {
	if err := f.stream.Synchronize(); err != nil {
		return err
	}
	copy(f.toldBy(f.rank), f.tells(f.rank))
	leave, come := int64(0), int64(f.tells(f.rank)[0])
	for r := range f.world {
		f.leave[r], f.come[r] = leave, come
		if r != f.rank {
			leave += int64(f.tells(r)[0])
			come += int64(f.toldBy(r)[0])
		}
	}
	f.received = int(come)
	return nil
}

// stage returns received bf16 rows in place and converts fp8 rows.
func (f *shuffle) stage() (accel.Ptr, error) {
	if f.d.Codec.Format == nil {
		return f.receive.values, nil
	}
	return f.staged, f.perRow(f.stream, f.kernels.convert, f.received, f.hidden,
		accel.Arg(f.params), accel.Arg(f.receive), accel.Arg(f.staged), accel.Arg(int64(f.received)))
}

func (f *shuffle) staging() (to accel.Ptr, rows int) { return f.staged, f.received }

func (f *shuffle) combine(staged accel.Ptr) (accel.Ptr, error) {
	if err := f.exchange(staged, f.back, f.bf16Bytes(), true); err != nil {
		return 0, gpurank.NCCLError(err)
	}
	return f.out, f.perRow(f.stream, f.kernels.sum, f.p.Tokens, f.hidden,
		accel.Arg(f.params), accel.Arg(f.place), accel.Arg(f.counts), accel.Arg(f.back), accel.Arg(staged), accel.Arg(f.out), accel.Arg(int32(f.p.Tokens)))
}

func (f *shuffle) inspect() (*runner.Received, error) {
	words := f.besideBytes / 4
	beside, err := accel.Read[int32](f.device, f.stream, f.receive.beside, f.received*words)
	if err != nil {
		return nil, err
	}
	rx := f.receivedRows(f.receive, f.received, f.sizes, f.besideBytes)
	rx.Counts = make([]int32, f.perRank)
	for r := range f.world {
		for e, n := range f.toldBy(r)[1:] {
			rx.Counts[e] += n
		}
	}
	for i := range f.received {
		row := beside[i*words+f.scaleBytes/4:][:2*f.topk]
		rx.Expert = append(rx.Expert, row[:f.topk]...)
		for _, bits := range row[f.topk:] {
			rx.Weight = append(rx.Weight, math.Float32frombits(uint32(bits)))
		}
	}
	return rx, nil
}
