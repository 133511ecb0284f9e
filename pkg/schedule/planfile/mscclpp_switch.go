package planfile

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// switched is a switch channel: it reads the sum of a buffer over several gpus, or writes the same
// data to the buffer on all of them.
type switched struct {
	buffer string
	chunks int // that the channel reaches in the buffer
	ranks  []int
	text   *node
}

// switchNames lists the ops over switch channels.
var switchNames = []string{"glres", "gstore", "gstorepkt"}

func isSwitch(n *node) bool { return n.has("channel_type") && n.get("channel_type").value == "switch" }

// switchesOf reads the switch channels of a gpu.
func (x *gpuReader) switchesOf(n *node) (all []switched) {
	buffer := n.get("buffer_type").string()
	if buffer != "i" && buffer != "o" && buffer != "s" {
		n.fail("buffer_type %q, must be i, o or s", buffer)
	}
	for _, g := range n.get("rank_groups").items() {
		w := switched{buffer: buffer, chunks: g.get("size").number(1, maxSlots), text: g}
		for _, r := range g.get("ranks").items() {
			w.ranks = append(w.ranks, r.number(0, x.ranks-1))
		}
		if slices.Sort(w.ranks); len(slices.Compact(slices.Clone(w.ranks))) != len(w.ranks) {
			g.fail("ranks %v, must not repeat", w.ranks)
		}
		all = append(all, w)
	}
	return all
}

// sameSwitches checks that all gpus of a switch channel declare it: for a set of ranks, each of them
// must list channels with the same buffers and sizes in the same order.
func (x *planReader) sameSwitches() {
	among := func(r int, ranks []int) (all []switched) {
		for _, w := range x.gpus[r].switches {
			if slices.Equal(w.ranks, ranks) {
				all = append(all, w)
			}
		}
		return all
	}
	for r := range x.gpus {
		for _, w := range x.gpus[r].switches {
			mine := among(r, w.ranks)
			for _, peer := range w.ranks {
				same := func(a, b switched) bool { return a.buffer == b.buffer && a.chunks == b.chunks }
				if !slices.EqualFunc(mine, among(peer, w.ranks), same) {
					w.text.fail("switch channels of gpus %v differ between gpu %d and gpu %d, must have the same buffers and sizes in the same order", w.ranks, r, peer)
				}
			}
		}
	}
}

// through returns the chunks that an op reads or writes through a switch: the same range on each
// gpu of the switch channel, with its own gpu first.
func (x *opReader) through(field string) (all []chunks) {
	spans := x.o.get(field).items()
	if len(spans) != 1 {
		x.o.fail("%s has %d entries, must have 1", field, len(spans))
		return nil
	}
	n := spans[0]
	id, ok := n.get("switch_channel_id").index(len(x.blockReader.switches), "switch channels of the thread block")
	if !ok {
		return nil
	}
	w, size, index := x.blockReader.switches[id], n.get("size").number(1, maxSlots), n.get("index").number(0, maxSlots)
	if index+size > w.chunks {
		n.fail("chunks %d to %d of a switch channel of %d chunks", index, index+size-1, w.chunks)
	}
	if !slices.Contains(w.ranks, x.rank) {
		n.fail("switch channel of gpus %v, must include gpu %d", w.ranks, x.rank)
		return nil
	}
	all = append(all, x.chunksOf(n, x.rank, w.buffer, index, size))
	for _, r := range w.ranks {
		if r != x.rank {
			all = append(all, x.chunksOf(n, r, w.buffer, index, size))
		}
	}
	return all
}

// switches reads an op through a switch. Its reads and writes become one op for each gpu.
func (x *opReader) switches() {
	to := x.through("dst_buff")
	var from []chunks
	if x.name == "glres" {
		from = x.through("src_buff")
	} else if spans, far := x.spans(x.o, "src_buff", 0); len(spans) == 1 && len(far) == 0 {
		from = spans
	} else {
		x.o.fail("%s with %d local and %d remote sources, must have 1 local one", x.name, len(spans), len(far))
	}
	if x.o.text.err != nil {
		return
	}
	if from[0].size != to[0].size {
		x.o.fail("%s of %d chunks into %d, must be equally many", x.name, from[0].size, to[0].size)
		return
	}
	if x.name == "gstorepkt" {
		x.hasPackets(from, to)
	}
	count, result := from[0].count, from[0].slot
	if x.name == "glres" {
		result = x.sum(count)
		x.local(schedule.Copy, from[0].slot, result, count)
		for _, c := range from[1:] {
			x.ops = append(x.ops, schedule.Op{Kind: schedule.GetReduce, Src: c.slot, Dst: result, Count: count, Peer: int32(c.rank)})
		}
	}
	x.local(schedule.Copy, result, to[0].slot, count)
	for _, c := range to[1:] {
		x.ops = append(x.ops, put(result, c))
	}
}
