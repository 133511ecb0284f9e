// Package schedule describes collectives as explicit steps: for every rank the sends,
// receives and reductions that it makes, in order. It generates the schedules that
// are known by name and verifies any schedule before it runs.
//
// n is the number of ranks, r a rank, S the size of the whole vector in bytes. The whole vector is the
// input and output of an all_reduce and of an alltoall, the output of an all_gather and the input of a
// reduce_scatter.
package schedule

import (
	"fmt"
	"slices"
)

// Collective is the operation of a program, by its name in nccl-tests.
type Collective string

// The collectives of programs.
const (
	AllReduce     Collective = "all_reduce"
	AllGather     Collective = "all_gather"
	ReduceScatter Collective = "reduce_scatter"
	AllToAll      Collective = "alltoall"
)

// Slot is a place for a chunk in the memory of a rank. Slot k ≥ 0 is chunk k of the vector, which is used
// in place: an all_reduce replaces the chunks by their sums, an alltoall replaces the chunks of each rank
// by chunks of that rank, an all_gather begins with the chunks of the rank, and a reduce_scatter ends with
// them. Scratch returns the slots of scratch memory.
type Slot int32

// Scratch returns slot j of scratch memory, which has room for any chunk. In Program.Bytes, it has the size of
// chunk j mod Program.Chunks.
func Scratch(j int) Slot { return ^Slot(j) }

// InScratch returns j if s is Scratch(j); ok is false if s is a slot of the vector.
func (s Slot) InScratch() (j int, ok bool) { return int(^s), s < 0 }

func (s Slot) String() string {
	if j, ok := s.InScratch(); ok {
		return fmt.Sprintf("scratch %d", j)
	}
	return fmt.Sprintf("chunk %d", int(s))
}

// Kind is what an op does.
type Kind uint8

// Kinds of ops. A receive ends when the data has arrived; a send ends when its data has left.
// The schedules known by name use only the first four; plans of other systems use all.
const (
	Reduce     Kind = iota // Src is added to Dst, on the rank
	Send                   // Src to Peer
	Recv                   // from Peer to Dst
	RecvReduce             // from Peer, added to Dst
	Copy                   // Src replaces Dst, on the rank
	Put                    // Src replaces Dst in the memory of Peer, without an op of Peer
	Signal                 // tells Peer that the ops before it have ended; does not wait
	Wait                   // for a signal of Peer
	Get                    // Src in the memory of Peer replaces Dst, without an op of Peer
	GetReduce              // as Get, but added to Dst
	Flush                  // waits until the asynchronous puts of its stream and Channel have ended
)

var kindNames = [...]string{
	Reduce: "reduce", Send: "send", Recv: "recv", RecvReduce: "recvreduce",
	Copy: "copy", Put: "put", Signal: "signal", Wait: "wait",
	Get: "get", GetReduce: "getreduce", Flush: "flush",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Op is one step of a rank. It is small, since a program of 1,024 ranks has millions.
type Op struct {
	Src, Dst Slot  // the first of Count slots each; a send has only Src, a receive only Dst
	Count    int32 // chunks; 0 for signals, waits and flushes
	Peer     int32 // unused by Copy and Reduce
	// Group joins consecutive ops of a stream that start and end together; 0: no group.
	Group int32
	// deps is the number of a list in Program.deps, from 1; 0: no list. See Program.Deps.
	deps   int32
	Kind   Kind
	Stream uint8
	// Channel separates the messages between two ranks: the sends and receives of a channel meet in
	// order, and so do its signals and waits.
	Channel uint8
	// Async marks a put that may still run when the next op of its stream starts. The memory that it reads
	// and writes is in use until a later Flush of its stream and Channel. A later signal of its stream
	// and Channel tells Peer that the put has ended.
	Async bool
}

// sends and receives report whether the op is an end of a message. The message of a signal is empty.
func (o *Op) sends() bool    { return o.Kind == Send || o.Kind == Signal }
func (o *Op) receives() bool { return o.Kind == Recv || o.Kind == RecvReduce || o.Kind == Wait }
func (o *Op) signals() bool  { return o.Kind == Signal || o.Kind == Wait }

// gets reports whether the op reads the memory of its peer, and reaches whether it reads or
// writes it.
func (o *Op) gets() bool    { return o.Kind == Get || o.Kind == GetReduce }
func (o *Op) reaches() bool { return o.Kind == Put || o.gets() }

// local reports whether the op has no peer.
func (o *Op) local() bool { return o.Kind == Copy || o.Kind == Reduce }

// empty reports whether the op moves nothing.
func (o *Op) empty() bool { return o.signals() || o.Kind == Flush }

// reads reports whether the op reads Src, and writes whether it writes Dst. A reducing op also reads Dst.
func (o *Op) reads() bool {
	return o.Kind == Send || o.reaches() || o.local()
}
func (o *Op) writes() bool { return o.Kind != Send && !o.empty() }

// Program is a schedule for one number of ranks: a list of ops for each rank. The ops of a stream run in the order
// of the list; ops of different streams are ordered by their dependencies alone. The sends
// from one rank to another over one channel, which are on one stream, meet the receives
// there in the order of the two lists.
type Program struct {
	Name       string
	Collective Collective
	Ranks      int
	Chunks     int // of the whole vector; in an all_gather or reduce_scatter, rank k div (Chunks/Ranks) owns chunk k
	Scratch    int // slots of scratch memory of each rank
	// Input is 0 if the program runs in place. Otherwise the input is in the first Input slots of scratch
	// memory at the start, and the vector is undefined. Input is then Chunks or, in an all_gather, the
	// number of chunks of a rank.
	Input int
	// Buffer is 0 if a send waits for its receive. Otherwise a send ends as soon as its data has left,
	// and the sends of a channel can be up to Buffer messages ahead of the receives.
	Buffer int
	Ops    [][]Op
	deps   [][]int32
}

// Deps returns the indices of the ops that must end before o starts. They are ops of the same rank,
// before o in its list.
func (p *Program) Deps(o *Op) []int32 {
	if o.deps == 0 {
		return nil
	}
	return p.deps[o.deps-1]
}

// Append adds an op to the list of rank r, and returns its index. The op waits for the ops of that rank
// with the indices deps.
func (p *Program) Append(r int, o Op, deps ...int) int {
	o.deps = 0
	if len(deps) > 0 {
		list := make([]int32, len(deps))
		for i, d := range deps {
			list[i] = int32(d)
		}
		p.deps = append(p.deps, list)
		o.deps = int32(len(p.deps))
	}
	p.Ops[r] = append(p.Ops[r], o)
	return len(p.Ops[r]) - 1
}

// NodeEnd returns the index after the last op that starts and ends together with op from.
func NodeEnd(ops []Op, from int) int {
	to := from + 1
	for to < len(ops) && ops[from].Group != 0 && ops[to].Group == ops[from].Group {
		to++
	}
	return to
}

// Chunk returns the first element and the number of elements of chunk k, if a vector is split into q
// chunks. The first (elements mod q) chunks have one element more than the others, which may have none.
func Chunk(elements int64, q, k int) (first, count int64) {
	each, more := elements/int64(q), elements%int64(q)
	i := int64(k)
	first, count = i*each+min(i, more), each
	if i < more {
		count++
	}
	return first, count
}

// Bytes returns the bytes of count slots from s on. The whole vector has the given number of elements of
// size bytes each.
func (p *Program) Bytes(s Slot, count int32, elements, size int64) int64 {
	if j, ok := s.InScratch(); ok {
		total := int64(0)
		for k := j; k < j+int(count); k++ {
			_, n := Chunk(elements, p.Chunks, k%p.Chunks)
			total += n
		}
		return total * size
	}
	each, more := elements/int64(p.Chunks), elements%int64(p.Chunks) // as Chunk
	from, to := int64(s), int64(s)+int64(count)
	return ((to-from)*each + min(to, more) - min(from, more)) * size
}

// Check returns, as Findings, invalid ranks, slots, dependencies and groups. Verify checks what the
// program computes.
func (p *Program) Check() error {
	r := &Report{}
	p.check(r.find)
	return r.Err()
}

// check calls find for each mistake in the form of the program.
func (p *Program) check(find func(Finding)) {
	whole := func(format string, args ...any) { find(Finding{Form, -1, -1, "", fmt.Sprintf(format, args...)}) }
	if p.Ranks < 1 || len(p.Ops) != p.Ranks {
		whole("program %s lists the ops of %d ranks, must list the ops of all %d", p.Name, len(p.Ops), p.Ranks)
		return
	}
	if p.Chunks < 1 || p.Collective != AllReduce && p.Chunks%p.Ranks != 0 {
		whole("program %s has %d chunks, must have a multiple of its %d ranks", p.Name, p.Chunks, p.Ranks)
		return
	}
	if input := p.inputs(); p.Input != 0 && (p.Input != input || p.Input > p.Scratch) {
		whole("program %s has %d chunks of input in %d slots of scratch memory, must have %d", p.Name, p.Input, p.Scratch, input)
		return
	}
	if p.Buffer < 0 {
		whole("program %s buffers %d messages, must buffer at least 0", p.Name, p.Buffer)
		return
	}
	type end struct {
		channel
		sends bool
	}
	groups, streams := map[int32]bool{}, map[end]uint8{}
	for r := range p.Ops {
		if len(p.Ops[r]) >= 1<<opBits {
			whole("program %s has %d ops of rank %d, must be fewer than %d", p.Name, len(p.Ops[r]), r, 1<<opBits)
			return
		}
		clear(groups)
		clear(streams)
		several := slices.ContainsFunc(p.Ops[r], func(o Op) bool { return o.Stream != p.Ops[r][0].Stream })
		last := Op{}
		for i := range p.Ops[r] {
			o := &p.Ops[r][i]
			wrong := func(format string, args ...any) { find(Finding{Form, r, i, "", fmt.Sprintf(format, args...)}) }
			p.checkOp(r, i, o, wrong)
			if o.Group != 0 && (o.Group != last.Group || o.Stream != last.Stream) {
				if groups[o.Group] {
					wrong("group %d continues after another op or on another stream", o.Group)
				}
				groups[o.Group] = true
			}
			if several && (o.sends() || o.receives()) {
				e := end{o.channel(r), o.sends()}
				if s, ok := streams[e]; ok && s != o.Stream {
					wrong("%s on channel %d with rank %d, which stream %d uses too: all ops of a channel must be on one stream", o.Kind, o.Channel, o.Peer, s)
				}
				streams[e] = o.Stream
			}
			last = *o
		}
	}
}

// inputs returns the number of chunks that a rank holds at the start.
func (p *Program) inputs() int {
	if p.Collective == AllGather {
		return p.Chunks / p.Ranks
	}
	return p.Chunks
}

// result returns which chunk slot k of the vector of rank r holds at the end, and whose: the rank, or −1 if
// it is the sum over all ranks.
func (p *Program) result(r, k int) (chunk, from int) {
	part := p.Chunks / p.Ranks
	switch p.Collective {
	case AllGather:
		return k, k / part
	case AllToAll:
		return r*part + k%part, k / part
	default:
		return k, -1
	}
}

// checkOp calls wrong for each mistake in op i of rank r.
func (p *Program) checkOp(r, i int, o *Op, wrong func(format string, args ...any)) {
	if int(o.Kind) >= len(kindNames) {
		wrong("kind %d is unknown", uint8(o.Kind))
		return
	}
	if o.empty() && o.Count != 0 {
		wrong("%s of %d chunks, must have none", o.Kind, o.Count)
	}
	if o.Count < 1 && !o.empty() {
		wrong("%s of %d chunks, must have at least 1", o.Kind, o.Count)
	}
	inside := func(s Slot) {
		at, size := int(s), p.Chunks
		if j, ok := s.InScratch(); ok {
			at, size = j, p.Scratch
		}
		if at+int(o.Count) > size {
			wrong("%s of %d chunks from %s on, but there are only %d", o.Kind, o.Count, s, size)
		}
	}
	if o.reads() {
		inside(o.Src)
	}
	if o.writes() {
		inside(o.Dst)
	}
	if !o.local() && (o.Peer < 0 || int(o.Peer) >= p.Ranks || int(o.Peer) == r) {
		wrong("%s with peer %d, must be another of the %d ranks", o.Kind, o.Peer, p.Ranks)
	}
	for _, d := range p.Deps(o) {
		if d < 0 || int(d) >= i {
			wrong("depends on op %d, must depend on earlier ops", d)
		}
	}
}

// SentBytes returns, by rank, the bytes that leave its memory by sends, puts and gets, and the number of
// these messages.
func (p *Program) SentBytes(elements, size int64) (bytes []int64, messages []int) {
	bytes, messages = make([]int64, p.Ranks), make([]int, p.Ranks)
	for r := range p.Ops {
		for i := range p.Ops[r] {
			o, from := &p.Ops[r][i], r
			if o.gets() {
				from = int(o.Peer)
			}
			if o.Kind == Send || o.reaches() {
				bytes[from] += p.Bytes(o.Src, o.Count, elements, size)
				messages[from]++
			}
		}
	}
	return bytes, messages
}
