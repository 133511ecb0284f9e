package planfile

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// switched is a channel through a switch, which adds up or multiplies what a buffer of several
// gpus holds.
type switched struct {
	buffer string
	chunks int // of the buffer, which it reaches
	ranks  []int
	text   *node
}

// switchNames are the ops over such channels.
var switchNames = []string{"glres", "gstore", "gstorepkt"}

func isSwitch(n *node) bool { return n.has("channel_type") && n.get("channel_type").value == "switch" }

// switchesOf reads the switch channels of a gpu.
func (x *gpuReader) switchesOf(n *node) (all []switched) {
	buffer := n.get("buffer_type").string()
	if buffer != "i" && buffer != "o" && buffer != "s" {
		n.fail("buffer_type %q, must be i, o or s", buffer)
	}
	for _, g := range n.get("rank_groups").items() {
		w := switched{buffer: buffer, chunks: g.get("size").number(1, mostSlots), text: g}
		for _, r := range g.get("ranks").items() {
			w.ranks = append(w.ranks, r.number(0, x.ranks-1))
		}
		if slices.Sort(w.ranks); len(slices.Compact(slices.Clone(w.ranks))) != len(w.ranks) {
			g.fail("ranks %v, must be different ones", w.ranks)
		}
		all = append(all, w)
	}
	return all
}

// sameSwitches requires that all gpus of a switch channel have it: the k-th of the same ranks, of the
// same buffer and size.
func (x *planReader) sameSwitches() {
	of := func(r int, ranks []int) (all []switched) {
		for _, w := range x.gpus[r].switches {
			if slices.Equal(w.ranks, ranks) {
				all = append(all, w)
			}
		}
		return all
	}
	for r := range x.gpus {
		for _, w := range x.gpus[r].switches {
			mine := of(r, w.ranks)
			for _, peer := range w.ranks {
				same := func(a, b switched) bool { return a.buffer == b.buffer && a.chunks == b.chunks }
				if !slices.EqualFunc(mine, of(peer, w.ranks), same) {
					w.text.fail("switch channels of gpus %v differ between gpu %d and gpu %d, must be of the same buffers and sizes in the same order", w.ranks, r, peer)
				}
			}
		}
	}
}

// through reads what an op reads or writes through a switch: the same chunks of several gpus,
// those of its own first.
func (b *blockReader) through(o *node, field string) (all []chunks) {
	spans := o.get(field).items()
	if len(spans) != 1 {
		o.fail("%s has %d entries, must have 1", field, len(spans))
		return nil
	}
	n := spans[0]
	id, ok := n.get("switch_channel_id").index(len(b.switches), "switch channels of the thread block")
	if !ok {
		return nil
	}
	w, size, index := b.switches[id], n.get("size").number(1, mostSlots), n.get("index").number(0, mostSlots)
	if index+size > w.chunks {
		n.fail("chunks %d to %d of a switch channel of %d", index, index+size-1, w.chunks)
	}
	if !slices.Contains(w.ranks, b.rank) {
		n.fail("switch channel of gpus %v, must include gpu %d", w.ranks, b.rank)
		return nil
	}
	all = append(all, b.chunksOf(n, b.rank, w.buffer, index, size))
	for _, r := range w.ranks {
		if r != b.rank {
			all = append(all, b.chunksOf(n, r, w.buffer, index, size))
		}
	}
	return all
}

// switchOp returns the ops of an op through a switch, which reads from or writes to each gpu.
func (b *blockReader) switchOp(o *node, name string, here end) (ops []schedule.Op) {
	to := b.through(o, "dst_buff")
	var from []chunks
	if name == "glres" {
		from = b.through(o, "src_buff")
	} else if spans, far := b.spans(o, "src_buff", 0); len(spans) == 1 && len(far) == 0 {
		from = spans
	} else {
		o.fail("%s with %d local and %d remote sources, must have 1 local one", name, len(spans), len(far))
	}
	if o.text.err != nil {
		return nil
	}
	if from[0].size != to[0].size {
		o.fail("%s of %d chunks into %d", name, from[0].size, to[0].size)
		return nil
	}
	if name == "gstorepkt" {
		b.hasPackets(o, name, from, to, here)
	}
	count, result := from[0].count, from[0].slot
	if name == "glres" {
		result = b.sum(count)
		ops = append(ops, schedule.Op{Kind: schedule.Copy, Src: from[0].slot, Dst: result, Count: count})
		for _, c := range from[1:] {
			ops = append(ops, schedule.Op{Kind: schedule.GetReduce, Src: c.slot, Dst: result, Count: count, Peer: int32(c.rank)})
		}
	}
	if result != to[0].slot {
		ops = append(ops, schedule.Op{Kind: schedule.Copy, Src: result, Dst: to[0].slot, Count: count})
	}
	for _, c := range to[1:] {
		ops = append(ops, put(result, c))
	}
	return ops
}
