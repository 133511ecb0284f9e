package a2a

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// shuffle is normal mode.
type shuffle struct {
	*end
	sizes
	besideBytes int // scales, expert ids and weights of a row

	place   accel.Ptr // int32 [tokens][world]: the row of a token among those of a rank
	counts  accel.Ptr // int32 [world][countWords] that this rank sends
	arrived accel.Ptr // the same that it receives
	send    rows      // packed rows for other ranks
	receive rows      // rows that arrived, this rank's own first
	staged  accel.Ptr // bf16 rows
	back    accel.Ptr // bf16 rows that come back from other ranks
	out     accel.Ptr // bf16 [tokens][hidden]
	told    []int32   // page-locked copy of counts and arrived

	// How many rows the ranks exchange, and where they begin, after the last dispatch.
	// Rows of one rank follow those of another in the order of ranks; this rank's own
	// stand apart when they leave and come first when they arrive.
	sent, sentAt      []int64
	came, cameAt      []int64
	received          int
	countLists, lists []int64
}

func newShuffle(e *end, s sizes) (form, error) {
	f := &shuffle{end: e, sizes: s, besideBytes: s.scaleBytes + 8*s.topk}
	sent, received := s.tokens*min(s.topk, s.world), s.tokens*s.world
	counts := s.world * f.countWords()
	err := e.memory.alloc(
		e.device,
		part{&f.place, 4 * s.tokens * s.world}, part{&f.counts, 4 * counts}, part{&f.arrived, 4 * counts},
		part{&f.send.values, sent * s.valueBytes}, part{&f.send.beside, sent * f.besideBytes},
		part{&f.receive.values, received * s.valueBytes}, part{&f.receive.beside, received * f.besideBytes},
		part{&f.staged, received * s.bf16Bytes()}, part{&f.back, sent * s.bf16Bytes()}, part{&f.out, s.tokens * s.bf16Bytes()},
	)
	if err != nil {
		return nil, err
	}
	if f.told, err = e.memory.allocHost(e.device, 2*counts); err != nil {
		return nil, err
	}
	for _, list := range []*[]int64{&f.sent, &f.sentAt, &f.came, &f.cameAt} {
		*list = make([]int64, s.world)
	}
	f.lists, f.countLists = make([]int64, 4*s.world), make([]int64, 4*s.world)
	for r := range s.world {
		n, at := int64(f.countWords()), int64(r*f.countWords())
		if r == e.rank {
			n = 0
		}
		f.countLists[r], f.countLists[s.world+r], f.countLists[2*s.world+r], f.countLists[3*s.world+r] = n, at, n, at
	}
	return f, nil
}

// countWords is how many words a rank tells another before its rows: how many there
// are, and how many of each expert.
func (f *shuffle) countWords() int { return 1 + f.perRank }

// dispatch waits for the counts, without which nobody knows what to receive.
func (f *shuffle) dispatch(cached bool) error {
	if !cached {
		if err := f.exchangeCounts(); err != nil {
			return err
		}
	}
	if err := f.launchPack(); err != nil {
		return err
	}
	return gpurank.NCCLError(f.comm.Group(func() error {
		if err := f.exchange(f.send.values, f.receive.values, f.valueBytes, false); err != nil {
			return err
		}
		return f.exchange(f.send.beside, f.receive.beside, f.besideBytes, false)
	}))
}

// exchange moves rows of n bytes, or as many back.
func (f *shuffle) exchange(from, to accel.Ptr, n int, back bool) error {
	parts := [][]int64{f.sent, f.sentAt, f.came, f.cameAt}
	if back {
		parts = [][]int64{f.came, f.cameAt, f.sent, f.sentAt}
	}
	for i, part := range parts {
		for r, rows := range part {
			f.lists[i*f.world+r] = rows * int64(n)
		}
	}
	return f.comm.Exchange(f.stream, numeric.Int8, from, to, f.lists)
}

// exchangeCounts decides which tokens go where and tells each rank how many.
func (f *shuffle) exchangeCounts() error {
	if err := f.launchLayout(); err != nil {
		return err
	}
	if err := f.comm.Exchange(f.stream, numeric.Int32, f.counts, f.arrived, f.countLists); err != nil {
		return gpurank.NCCLError(err)
	}
	half := len(f.told) / 2
	for i, from := range []accel.Ptr{f.counts, f.arrived} {
		if err := f.device.CopyOut(f.stream, unsafe.Pointer(&f.told[i*half]), from, int64(4*half)); err != nil {
			return err
		}
	}
	if err := f.stream.Synchronize(); err != nil {
		return err
	}
	own := f.told[f.rank*f.countWords():][:f.countWords()]
	copy(f.told[half+f.rank*f.countWords():], own)

	f.received = int(own[0])
	leave := int64(0)
	for r := range f.world {
		f.sent[r], f.came[r] = int64(f.told[r*f.countWords()]), int64(f.told[half+r*f.countWords()])
		f.sentAt[r], f.cameAt[r] = leave, int64(f.received)
		if r == f.rank {
			f.sent[r], f.came[r] = 0, 0
		}
		leave += f.sent[r]
		f.received += int(f.came[r])
	}
	return nil
}

// stage leaves bf16 rows where they arrived and converts fp8 rows.
func (f *shuffle) stage() (accel.Ptr, error) {
	if f.d.Codec.Format == nil {
		return f.receive.values, nil
	}
	return f.staged, f.perRow(f.kernels.decode, f.received,
		arg(f.receive), arg(f.staged), arg(codecOf(f.d.Codec)), arg(int64(f.received)), arg(int32(f.hidden)), arg(int32(f.besideBytes)))
}

func (f *shuffle) staging() accel.Ptr { return f.staged }

func (f *shuffle) combine(staged accel.Ptr) (accel.Ptr, error) {
	if err := f.exchange(staged, f.back, f.bf16Bytes(), true); err != nil {
		return 0, gpurank.NCCLError(err)
	}
	return f.out, f.perRow(f.kernels.sum, f.p.Tokens,
		arg(f.place), arg(f.counts), arg(f.back), arg(staged), arg(f.out),
		arg(int32(f.p.Tokens)), arg(int32(f.hidden)), arg(int32(f.perRank)), arg(int32(f.world)), arg(int32(f.rank)), arg(int32(f.domain)))
}

func (f *shuffle) launchLayout() error {
	return f.kernels.layout.Launch(f.stream, uint32(f.world), blockThreads, 0,
		arg(f.p.Expert), arg(int32(f.p.Tokens)), arg(int32(f.topk)), arg(int32(f.perRank)), arg(f.place), arg(f.counts))
}

func (f *shuffle) launchPack() error {
	return f.perRow(f.kernels.pack, f.p.Tokens,
		arg(f.p.X), arg(f.p.Expert), arg(f.p.Weight), arg(f.place), arg(f.counts), arg(f.send), arg(f.receive), arg(codecOf(f.d.Codec)),
		arg(int32(f.p.Tokens)), arg(int32(f.hidden)), arg(int32(f.topk)), arg(int32(f.perRank)), arg(int32(f.world)), arg(int32(f.rank)),
		arg(int32(f.besideBytes)))
}

func (f *shuffle) inspect() (*ep.Received, error) {
	payload, beside, err := f.decode(f.sizes, f.receive, f.received, f.besideBytes)
	if err != nil {
		return nil, err
	}
	rx := &ep.Received{Payload: payload, Counts: make([]int32, f.perRank)}
	for r := range f.world {
		for e, n := range f.told[len(f.told)/2+r*f.countWords()+1:][:f.perRank] {
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
