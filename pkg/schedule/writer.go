package schedule

import "slices"

// writer appends ops to a program, on one stream of every rank. Chunk k of a writer is unit chunks
// of the vector, from chunk base+k·unit on.
type writer struct {
	*Program
	stream  uint8
	base    int
	unit    int
	grouped int32 // the group of appended ops; 0: no group
}

// newProgram returns an empty program and the writer of its first stream.
func newProgram(name string, c Collective, n, chunks, scratch int) (*Program, *writer) {
	p := &Program{Name: name, Collective: c, Ranks: n, Chunks: chunks, Scratch: scratch, Ops: make([][]Op, n)}
	return p, &writer{Program: p, unit: 1}
}

// on returns a writer for a stream, whose chunk k is unit chunks of the vector from base+k·unit on.
func (w *writer) on(stream, base, unit int) *writer {
	return &writer{Program: w.Program, stream: uint8(stream), base: base, unit: unit}
}

// vector returns the first slot of a chunk of the writer.
func (w *writer) vector(chunk int) Slot { return Slot(w.base + chunk*w.unit) }

// add appends an op to rank r and returns its index.
func (w *writer) add(r int, o Op, deps ...int) int {
	o.Stream, o.Channel, o.Group = w.stream, w.stream, w.grouped
	return w.Append(r, o, deps...)
}

// group makes the ops that f adds to rank r start and end together.
func (w *writer) group(r int, f func()) {
	w.grouped = int32(len(w.Ops[r]) + 1)
	f()
	w.grouped = 0
}

func (w *writer) send(r, to int, from Slot, count int) int {
	return w.add(r, Op{Kind: Send, Peer: int32(to), Src: from, Count: int32(count)})
}

func (w *writer) recv(r, from int, to Slot, count int) int {
	return w.add(r, Op{Kind: Recv, Peer: int32(from), Dst: to, Count: int32(count)})
}

func (w *writer) recvReduce(r, from int, to Slot, count int) int {
	return w.add(r, Op{Kind: RecvReduce, Peer: int32(from), Dst: to, Count: int32(count)})
}

// sum makes rank r add the first n slots of its scratch memory to a slot.
func (w *writer) sum(r, n int, to Slot) {
	for j := range n {
		w.add(r, Op{Kind: Reduce, Src: Scratch(j), Dst: to, Count: 1})
	}
}

// exchange makes rank r send count chunks of the vector, from slot out on, to rank to and, in the same
// group, receive count chunks from rank from into the slots from in on.
func (w *writer) exchange(r, to int, out Slot, from int, in Slot, count int) {
	w.group(r, func() {
		w.send(r, to, out, count)
		w.recv(r, from, in, count)
	})
}

// part is count consecutive chunks of a writer.
type part struct{ first, count int }

// wrapped splits count chunks from first on, modulo n, into at most two parts that do not
// wrap around.
func wrapped(first, count, n int) []part {
	first = mod(first, n)
	if first+count <= n {
		return []part{{first, count}}
	}
	return []part{{first, n - first}, {0, first + count - n}}
}

// mod returns a modulo n, from 0 to n−1.
func mod(a, n int) int { return ((a % n) + n) % n }

// exchangeParts is like exchange, but sends the parts out and receives the parts in.
func (w *writer) exchangeParts(r, to int, out []part, from int, in []part) {
	w.group(r, func() {
		for _, p := range out {
			w.send(r, to, w.vector(p.first), p.count*w.unit)
		}
		for _, p := range in {
			w.recv(r, from, w.vector(p.first), p.count*w.unit)
		}
	})
}

// reversed appends to w the reverse of an all_gather, which is a reduce_scatter: the ops run in the
// opposite order, every receive becomes a send and every send a reducing receive. The gather must
// have no dependencies.
func (w *writer) reversed(gather *Program) {
	for r, ops := range gather.Ops {
		w.Ops[r] = slices.Grow(w.Ops[r], len(ops))
		var from, to int32 // the current group of the gather, and its number in w
		for _, o := range slices.Backward(ops) {
			if o.Group != from {
				from, to = o.Group, int32(len(w.Ops[r])+1)
			}
			if o.Group != 0 {
				o.Group = to
			}
			if o.sends() {
				o.Kind, o.Dst, o.Src = RecvReduce, o.Src, 0
			} else {
				o.Kind, o.Src, o.Dst = Send, o.Dst, 0
			}
			w.Ops[r] = append(w.Ops[r], o)
		}
	}
}

// scatterReduce appends the reverse of a gather; see reversed.
func (w *writer) scatterReduce(gather func(w *writer)) {
	sub := *w
	sub.Program = &Program{Ranks: w.Ranks, Ops: make([][]Op, w.Ranks)}
	gather(&sub)
	w.reversed(sub.Program)
}
