package planfile

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Packets are data with flags, which MSCCL++'s LL protocol writes into buffer s of a gpu. The
// reader of a packet waits only for its flag. In a program, the op that writes packets signals the op
// that reads them, over a channel reserved for packets.

// packetOp is what an op on packets reads and writes.
type packetOp struct {
	payload bool // its first source is data, not packets
	reads   bool // it reads packets of the gpu and adds them to the payload, if any
	stores  bool // it writes the result as data on the gpu
	keeps   bool // it writes the result as packets on the gpu
	sends   bool // it writes the result as packets on other gpus
}

// packetOps lists the ops on packets.
var packetOps = map[string]packetOp{
	"ppkt":    {payload: true, sends: true},
	"rppkt":   {reads: true, sends: true},
	"upkt":    {reads: true, stores: true},
	"cpkt":    {payload: true, keeps: true},
	"repkt":   {payload: true, reads: true, stores: true},
	"respkt":  {payload: true, reads: true, stores: true, sends: true},
	"recpkt":  {payload: true, reads: true, stores: true, keeps: true},
	"recspkt": {payload: true, reads: true, stores: true, keeps: true, sends: true},
}

// end identifies a step of a rank.
type end struct {
	rank int
	at   stepOf
}

// parcel is the packets that a step writes or reads in one buffer: count slots from first on.
type parcel struct {
	first, count int
	by           end
}

// packets records where a plan writes and reads packets.
type packets struct {
	written, read map[int][]parcel // by the rank whose buffer s has them
	otherUse      *node            // the first use of buffer s for other data; nil if there is none
}

// any reports whether the plan has packets.
func (p *packets) any() bool { return len(p.written)+len(p.read) > 0 }

// packets reads an op on packets.
func (x *opReader) packets() {
	s, is := x.sides(), packetOps[x.name]
	raw := x.name == "ppkt" // puts each source to the destination of the same index
	payload, in := s.from, []chunks(nil)
	switch {
	case raw:
	case is.payload:
		payload, in = firstOf(s.from)
	default:
		payload, in = nil, s.from
	}
	stored, kept := []chunks(nil), s.to
	if is.stores {
		stored, kept = firstOf(s.to)
	}
	has := packetOp{len(payload) > 0, len(in) > 0, len(stored) > 0, len(kept) > 0, len(s.others) > 0}
	if has != is || len(s.far) > 0 || len(kept) > 1 || !is.payload && len(in) > 1 || raw && len(s.from) != len(s.others) {
		x.refuse(s)
		return
	}
	for _, c := range slices.Concat(s.from, s.to, s.others) {
		if c.size != s.from[0].size && !raw {
			c.text.fail("%s of %d chunks, must be %d like its first source", x.name, c.size, s.from[0].size)
		}
	}
	x.packetChannels(s, is, slices.Concat(payload, stored))
	if x.hasPackets(in, slices.Concat(kept, s.others)); x.o.text.err != nil {
		return
	}
	if raw {
		for i, c := range s.others {
			x.ops = append(x.ops, put(s.from[i].slot, c))
		}
		return
	}
	count, result := s.from[0].count, s.from[0].slot
	if is.stores {
		x.local(schedule.Copy, result, stored[0].slot, count)
		result = stored[0].slot
	}
	if is.payload && is.reads { // the kernel adds up the packets, and then the payload
		total := in[0].slot
		if len(in) > 1 {
			total = x.sum(count)
			x.local(schedule.Copy, in[0].slot, total, count)
			for _, c := range in[1:] {
				x.local(schedule.Reduce, c.slot, total, count)
			}
		}
		x.local(schedule.Reduce, total, result, count)
	}
	for _, c := range kept {
		x.local(schedule.Copy, result, c.slot, count)
	}
	for _, c := range s.others {
		x.ops = append(x.ops, put(result, c))
	}
}

// firstOf splits a list after its first element, if it has any.
func firstOf(all []chunks) (first, others []chunks) {
	n := min(1, len(all))
	return all[:n], all[n:]
}

// packetChannels checks that MSCCL++ supports the op's type of channel, its channels to each
// destination, and its buffers; data are the sources and destinations that are not packets.
func (x *opReader) packetChannels(s sides, is packetOp, data []chunks) {
	port := channelTypes[x.kind] == "port"
	if is.reads && is.stores && is.sends {
		x.overMemory()
	}
	if is.sends && port {
		via := x.via()
		for i, c := range s.others {
			if len(via) != len(s.others) || via[i].peer != c.rank {
				x.o.fail("%s needs a port channel to the gpu of each destination, in their order, in channel_ids", x.name)
				break
			}
		}
	}
	raw := x.name == "ppkt"
	if raw && !port {
		x.oneBuffer(s.from)
	}
	asTheyAre := raw && port // the proxy copies packets without reading their flags
	for _, c := range data {
		switch {
		case asTheyAre && c.buffer != "s":
			c.text.fail("ppkt over a port channel from buffer %s, must be from buffer s: a port channel moves existing packets", c.buffer)
		case !asTheyAre && c.buffer == "s":
			c.text.fail("data of %s in buffer s, must be in buffer i or o: buffer s holds packets", x.name)
		}
	}
	for i, c := range s.others {
		if raw && c.size != s.from[i].size {
			c.text.fail("ppkt of %d chunks into %d, must be equally many", s.from[i].size, c.size)
		}
	}
}

// hasPackets records the packets that an op reads and writes. They must be in buffer s.
func (x *opReader) hasPackets(read, written []chunks) {
	for _, c := range slices.Concat(read, written) {
		if c.buffer != "s" {
			c.text.fail("packets of %s in buffer %s, must be in buffer s", x.name, c.buffer)
		}
	}
	if x.iterates > 0 {
		x.o.fail("%s inside a pipeline is not supported: each iteration would move all of its packets", x.name)
	}
	if x.o.text.err != nil {
		return
	}
	p := x.planReader.packets
	for _, c := range read {
		p.read[c.rank] = append(p.read[c.rank], c.parcel(x.here))
	}
	for _, c := range written {
		p.written[c.rank] = append(p.written[c.rank], c.parcel(x.here))
	}
}

func (c chunks) parcel(by end) parcel {
	j, _ := c.slot.InScratch()
	return parcel{j, int(c.count), by}
}

// put returns an op that puts slots to another gpu. The op is not asynchronous even if a proxy moves
// the data later: the flags of packets show when they have arrived, and their source is not written
// again.
func put(from schedule.Slot, to chunks) schedule.Op {
	return schedule.Op{Kind: schedule.Put, Src: from, Dst: to.slot, Count: to.count, Peer: int32(to.rank)}
}

// sum returns the first of count spare slots, for a sum that the plan does not store.
func (x *gpuReader) sum(count int32) schedule.Slot {
	s := schedule.Scratch(spared + x.sums)
	x.sums += int(count)
	return s
}

// meet makes each step that reads packets wait for the steps that write them.
func (x *planReader) meet(top *node) {
	p := x.packets
	if !p.any() {
		return
	}
	if p.otherUse != nil {
		p.otherUse.fail("buffer s, which holds packets in this plan, must not be used for other data: the two overlap")
	}
	if protocol := top.get("protocol"); protocol.string() != "LL" {
		protocol.fail("protocol %q, must be LL in a plan with packets: MSCCL++ allocates no memory for packets otherwise", protocol.value)
	}
	links := links{next: map[[2]int]int{}, open: map[[2]end]link{}}
	for r := range x.gpus {
		slices.SortStableFunc(p.written[r], func(a, b parcel) int { return cmp.Compare(a.first, b.first) })
		for i, w := range p.written[r] {
			if i > 0 && w.first < p.written[r][i-1].first+p.written[r][i-1].count {
				x.fail(top, w.by, "writes packets to chunk %d of buffer s of gpu %d, as another op does: a reader could take either", x.chunk(w.first), r)
				return
			}
		}
	}
	for r := range x.gpus {
		for i, from := 0, 0; i < len(p.read[r]); i = from { // the reads of a step are consecutive
			for from = i; from < len(p.read[r]) && p.read[r][from].by == p.read[r][i].by; from++ {
			}
			if !x.await(top, p.read[r][i:from], p.written[r], &links) {
				return
			}
		}
	}
}

// links are the channels over which the writers of packets signal the readers. Two thread blocks
// keep using a channel as long as signals and waits on it come in the same order.
type links struct {
	next map[[2]int]int  // by writing and reading gpu: the number of channels in use
	open map[[2]end]link // by writing and reading thread block
}

// link is a channel, and the last step of the writing thread block that signals over it.
type link struct {
	channel uint8
	writer  int
}

// await makes a step wait for the steps that write the packets it reads. It reports whether it
// succeeded.
func (x *planReader) await(top *node, reads, written []parcel, links *links) bool {
	reader := reads[0].by
	var writers []end
	for _, p := range reads {
		i, _ := slices.BinarySearchFunc(written, p.first, func(w parcel, first int) int { return cmp.Compare(w.first+w.count, first+1) })
		for at := p.first; at < p.first+p.count; i++ {
			if i == len(written) || written[i].first > at {
				x.fail(top, reader, "reads packets in chunk %d of buffer s of gpu %d, which no op writes", x.chunk(at), reader.rank)
				return false
			}
			if !slices.Contains(writers, written[i].by) {
				writers = append(writers, written[i].by)
			}
			at = written[i].first + written[i].count
		}
	}
	slices.SortFunc(writers, func(a, b end) int {
		return cmp.Or(a.rank-b.rank, a.at.block-b.at.block, a.at.step-b.at.step)
	})
	step := x.step(reader)
	var waits []schedule.Op
	for _, w := range writers {
		if w.rank == reader.rank {
			if w.at.block != reader.at.block || w.at.step >= reader.at.step {
				step.after = append(step.after, w.at)
			}
			continue
		}
		blocks := [2]end{{w.rank, stepOf{block: w.at.block}}, {reader.rank, stepOf{block: reader.at.block}}}
		l, same := links.open[blocks]
		if !same || l.writer > w.at.step {
			pair := [2]int{w.rank, reader.rank}
			j := links.next[pair] + max(x.gpus[w.rank].ends(reader.rank), x.gpus[reader.rank].ends(w.rank))
			if links.next[pair]++; j >= maxChannels {
				x.fail(top, reader, "needs more than %d channels from gpu %d to gpu %d, counting the channels for packets", maxChannels, w.rank, reader.rank)
				return false
			}
			l.channel = channelOf(0, j)
		}
		l.writer = w.at.step
		links.open[blocks] = l
		x.step(w).ops = append(x.step(w).ops, schedule.Op{Kind: schedule.Signal, Peer: int32(reader.rank), Channel: l.channel})
		waits = append(waits, schedule.Op{Kind: schedule.Wait, Peer: int32(w.rank), Channel: l.channel})
	}
	step.ops = append(waits, step.ops...)
	return true
}

func (x *planReader) step(e end) *step { return &x.gpus[e.rank].blocks[e.at.block].steps[e.at.step] }

// chunk returns the index in buffer s of the plan's chunk that contains a scratch slot.
func (x *planReader) chunk(slot int) int { return (slot - x.input) / x.parts }

// ends returns the number of memory channels from a gpu to a peer.
func (x *gpuReader) ends(peer int) (n int) {
	for _, l := range x.channels[0] {
		if l.peer == peer {
			n++
		}
	}
	return n
}

// fail fails at the position of a step.
func (x *planReader) fail(top *node, e end, format string, args ...any) {
	top.text.fail(x.step(e).position, format, args...)
}
