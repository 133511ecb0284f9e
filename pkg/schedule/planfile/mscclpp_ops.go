package planfile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// jsonNames are the ops that can be read.
var jsonNames = []string{
	"put", "pws", "pwsf", "get", "signal", "wait", "rlxsignal", "rlxwait", "copy", "re", "res", "rre", "rres",
	"ppkt", "rppkt", "respkt", "repkt", "recspkt", "recpkt", "upkt", "cpkt", "glres", "gstore", "gstorepkt",
	"pipeline", "sem_acquire", "sem_release", "barrier", "flush", "nop",
}

// blockReader reads the ops of a thread block.
type blockReader struct {
	*gpuReader
	channels  [2][]linked // by type, that ops name
	remotes   [2][]remote // by type, the same
	switches  []switched  // the same
	steps     *[]step
	barriers  map[int]int // by id: how many it has met
	shares    []share     // of every chunk that an op moves, each of the one before
	onPackets bool        // an op on packets is being read
	iterates  int         // the chunks that each op of the pipeline being read moves; 0 outside of one
	iteration int         // of it
}

// share is one of the equal parts of what several thread blocks, or iterations, move.
type share struct{ index, of int }

func (x *gpuReader) block(tb *node) {
	b := &blockReader{gpuReader: x, steps: &x.blocks[len(x.blocks)-1].steps, barriers: map[int]int{}}
	for _, c := range tb.optional("channels") {
		if isSwitch(c) {
			for _, id := range c.get("channel_ids").items() {
				if n, ok := id.index(len(x.switches), fmt.Sprintf("switch channels of gpu %d", x.rank)); ok {
					b.switches = append(b.switches, x.switches[n])
				}
			}
			continue
		}
		kind := channelType(c.get("channel_type"))
		for _, id := range c.get("channel_ids").items() {
			if n, ok := id.index(len(x.channels[kind]), fmt.Sprintf("%s channels of gpu %d", channelTypes[kind], x.rank)); ok {
				b.channels[kind] = append(b.channels[kind], x.channels[kind][n])
			}
		}
	}
	for _, c := range tb.optional("remote_buffer_refs") {
		kind := channelType(c.get("access_channel_type"))
		for _, id := range c.get("remote_buffer_ids").items() {
			if n, ok := id.index(len(x.remotes), fmt.Sprintf("remote buffers of gpu %d", x.rank)); ok {
				b.remotes[kind] = append(b.remotes[kind], x.remotes[n])
			}
		}
	}
	for _, o := range tb.get("ops").items() {
		if tb.text.err != nil {
			return
		}
		b.op(o)
	}
}

// chunks is where an op reads or writes.
type chunks struct {
	slot   schedule.Slot
	count  int32
	size   int // in chunks of the plan, of which the op can move a share
	rank   int
	buffer string
	text   *node
}

// spans reads the chunks of a field, those of the rank and then those of others: MSCCL++ takes them by
// their position.
func (b *blockReader) spans(o *node, name string, kind int) (mine, theirs []chunks) {
	for _, n := range o.get(name).items() {
		size, index := n.get("size").number(1, mostSlots), n.get("index").number(0, mostSlots)
		where, buffer := b.rank, ""
		if n.has("buffer_id") {
			id, ok := n.get("buffer_id").index(len(b.remotes[kind]), fmt.Sprintf("buffers of the thread block over %s channels", channelTypes[kind]))
			if !ok {
				return nil, nil
			}
			where, buffer = b.remotes[kind][id].rank, b.remotes[kind][id].buffer
		} else if buffer = n.get("type").string(); buffer != "i" && buffer != "o" && buffer != "s" {
			n.fail("type %q, must be i, o or s", buffer)
		}
		c := b.chunksOf(n, where, buffer, index, size)
		if where == b.rank && len(theirs) > 0 {
			n.fail("buffer %s of the gpu follows one of another gpu, must come before it", buffer)
		}
		if where == b.rank {
			mine = append(mine, c)
		} else {
			theirs = append(theirs, c)
		}
	}
	return mine, theirs
}

// chunksOf returns the share of the thread block in the chunks from index on of a buffer.
func (b *blockReader) chunksOf(n *node, where int, buffer string, index, size int) chunks {
	have := b.scratch[where]
	if buffer != "s" {
		have = b.size(buffer)
	}
	if index+size > have/b.parts {
		n.fail("chunks %d to %d of buffer %s of gpu %d, which has %d", index, index+size-1, buffer, where, have/b.parts)
		return chunks{size: size, rank: where, buffer: buffer, text: n}
	}
	if b.iterates > 0 && size != b.iterates {
		n.fail("size %d, must be num_chunks of the pipeline, which is %d", size, b.iterates)
	}
	if buffer == "s" && !b.onPackets {
		b.packets.others = cmp.Or(b.packets.others, n)
	}
	first, count := index*b.parts, size*b.parts
	for _, s := range b.shares {
		count /= s.of
		first += s.index * count
	}
	return chunks{b.slot(where, buffer, first), int32(count), size, where, buffer, n}
}

// loop is how often a pipeline iterates: over chunks of a size that depends on the vector, by units
// of so many bytes.
type loop struct{ unit, chunks int }

// pipeline reads the ops of a pipeline, each iteration of which moves its share of every chunk.
// How many iterations there are depends on the size of the vector. Two stand for all, since
// iterations are alike: those of all pipelines are as many, and acquire every semaphore as often as they
// release it.
func (b *blockReader) pipeline(o *node) {
	if b.iterates > 0 {
		o.fail("pipeline inside a pipeline is not supported")
		return
	}
	context := o.get("iter_context")
	this := loop{context.get("unit_size").number(1, math.MaxInt32), context.get("num_chunks").number(1, mostSlots)}
	if b.planReader.loop == nil {
		b.planReader.loop = &this
	}
	if first := *b.planReader.loop; this != first {
		context.fail("unit_size %d and num_chunks %d, must be %d and %d as in the first pipeline: others iterate another number of times",
			this.unit, this.chunks, first.unit, first.chunks)
	}
	outer := b.shares
	b.iterates = this.chunks
	for b.iteration = range iterations {
		b.shares = []share{{b.iteration, iterations}}
		for _, inner := range o.get("ops").items() {
			b.op(inner)
		}
	}
	b.shares, b.iterates, b.iteration = outer, 0, 0
}

// via returns the channels of an op.
func (b *blockReader) via(o *node, kind int) (all []linked) {
	for _, id := range o.get("channel_ids").items() {
		if n, ok := id.index(len(b.channels[kind]), fmt.Sprintf("%s channels of the thread block", channelTypes[kind])); ok {
			all = append(all, b.channels[kind][n])
		}
	}
	return all
}

// op reads an op, which can be several of a program.
func (b *blockReader) op(o *node) {
	s := step{position: o.text.at(o.offset)}
	here := end{b.rank, stepOf{len(b.blocks) - 1, len(*b.steps)}}
	name, kind := o.get("name").string(), 0
	switch {
	case isSwitch(o):
		if !slices.Contains(switchNames, name) {
			o.fail("%s over a switch channel is not supported, must be one of %s", name, strings.Join(switchNames, ", "))
		}
	case o.has("channel_type"):
		kind = channelType(o.get("channel_type"))
	}
	b.onPackets = forms[name] != (form{}) || name == "gstorepkt"
	if o.has("tbg_info") && b.iterates > 0 {
		o.fail("%s of a group of thread blocks inside a pipeline is not supported: the pipeline counts iterations of whole chunks", name)
	}
	if o.has("tbg_info") {
		group := o.get("tbg_info")
		size := group.get("tbg_size").number(1, mostGroup)
		outer := b.shares
		b.shares = append([]share{{group.get("tb_id").number(0, size-1), size}}, outer...)
		defer func() { b.shares = outer }()
	}
	if o.has("reduce_op") && o.get("reduce_op").string() != "sum" {
		o.get("reduce_op").fail("reduction %q is not supported, must be sum", o.get("reduce_op").value)
	}
	ends := func() []linked { return b.via(o, kind) }
	tell := func(k schedule.Kind) {
		for _, l := range ends() {
			s.ops = append(s.ops, schedule.Op{Kind: k, Peer: int32(l.peer), Channel: l.channel})
		}
	}
	// move puts chunks of the gpu into those of others, or gets the reverse.
	move := func(k schedule.Kind, from, to []chunks) {
		far := to
		if k != schedule.Put {
			far = from
		}
		if len(from) != len(to) {
			o.fail("%s of %d parts into %d", name, len(from), len(to))
			return
		}
		via := []linked{}
		if o.has("channel_ids") {
			if via = ends(); len(via) != len(far) {
				o.fail("%s of %d parts over %d channels", name, len(far), len(via))
				return
			}
		}
		for i := range far {
			l := linked{far[i].rank, channelOf(kind, 0)}
			if len(via) > 0 {
				l = via[i]
			}
			if l.peer != far[i].rank {
				o.fail("%s over a channel to gpu %d, must be to gpu %d as its buffer", name, l.peer, far[i].rank)
				return
			}
			if from[i].size != to[i].size {
				o.fail("%s of %d chunks into %d", name, from[i].size, to[i].size)
				return
			}
			// The threads of a block wait for what they move themselves. What moves over a port
			// channel, its proxy moves.
			async := k == schedule.Put && channelTypes[kind] == "port"
			s.ops = append(s.ops, schedule.Op{Kind: k, Src: from[i].slot, Dst: to[i].slot, Count: to[i].count, Peer: int32(l.peer), Channel: l.channel, Async: async})
		}
	}
	local := func(k schedule.Kind, from, to chunks) {
		if from.size != to.size {
			o.fail("%s of %d chunks into %d", name, from.size, to.size)
		}
		s.ops = append(s.ops, schedule.Op{Kind: k, Src: from.slot, Dst: to.slot, Count: to.count})
	}
	memoryOnly := func() {
		if channelTypes[kind] != "memory" {
			o.fail("%s over a %s channel is not supported, must be a memory channel", name, channelTypes[kind])
		}
	}
	switch name {
	case "nop":
	case "flush":
		if channelTypes[kind] == "port" { // what memory channels move has ended with its op
			tell(schedule.Flush)
		}
	case "signal", "rlxsignal":
		tell(schedule.Signal)
	case "wait", "rlxwait":
		tell(schedule.Wait)
	case "put", "pws", "pwsf":
		from, remote := b.spans(o, "src_buff", kind)
		mine, to := b.spans(o, "dst_buff", kind)
		if len(remote) > 0 || len(mine) > 0 {
			o.fail("%s reads from the gpu and writes to others", name)
		}
		b.oneBuffer(from, kind)
		move(schedule.Put, from, to)
		if name != "put" {
			tell(schedule.Signal)
		}
		if name == "pwsf" && channelTypes[kind] == "port" {
			tell(schedule.Flush)
		}
	case "get":
		memoryOnly()
		mine, from := b.spans(o, "src_buff", kind)
		to, others := b.spans(o, "dst_buff", kind)
		if len(mine) > 0 || len(others) > 0 {
			o.fail("get reads from other gpus and writes to its own")
		}
		move(schedule.Get, from, to)
	case "copy", "re", "res", "rre", "rres":
		from, remote := b.spans(o, "src_buff", kind)
		to, others := b.spans(o, "dst_buff", kind)
		reads, writes := name == "rre" || name == "rres", name == "res" || name == "rres"
		if len(to) != 1 || len(from) == 0 || (name == "copy" || reads) && len(from) != 1 || !reads && len(remote) > 0 || !writes && len(others) > 0 {
			o.fail("%s with %d local and %d remote sources, %d local and %d remote destinations", name, len(from), len(remote), len(to), len(others))
			return
		}
		into := to[0]
		again := slices.ContainsFunc(from[1:], func(c chunks) bool { return c.slot == into.slot })
		if again { // a copy would overwrite a source
			into.slot = b.sum(into.count)
		}
		if from[0].slot != into.slot {
			local(schedule.Copy, from[0], into)
		}
		for _, more := range from[1:] {
			local(schedule.Reduce, more, into)
		}
		if again {
			local(schedule.Copy, into, to[0])
		}
		if reads || writes {
			memoryOnly()
		}
		if reads {
			move(schedule.GetReduce, remote, slices.Repeat(to, len(remote)))
		}
		move(schedule.Put, slices.Repeat(to, len(others)), others)
	case "ppkt", "rppkt", "upkt", "cpkt", "repkt", "respkt", "recpkt", "recspkt":
		s.ops = b.packetOp(o, name, kind, here)
	case "glres", "gstore", "gstorepkt":
		s.ops = b.switchOp(o, name, here)
	case "pipeline":
		b.pipeline(o)
		return
	case "sem_acquire", "sem_release":
		for _, n := range o.get("semaphore_ids").items() {
			use := b.acquired[n.number(0, math.MaxInt32)]
			switch {
			case use == nil:
				n.fail("semaphore %v is missing", n.value)
			case name == "sem_acquire":
				use.acquires = append(use.acquires, here.at)
			default:
				use.release = append(use.release, here.at)
			}
			if use != nil && b.iterates > 0 && b.iteration == 0 {
				use.balance += map[bool]int{true: -1, false: 1}[name == "sem_acquire"]
				use.at = n
			}
		}
	case "barrier":
		id := o.get("barrier_id").number(0, math.MaxInt32)
		meetings := b.gpuReader.barriers[id]
		if b.barriers[id] == len(meetings) {
			meetings = append(meetings, nil)
		}
		meetings[b.barriers[id]] = append(meetings[b.barriers[id]], here.at)
		b.gpuReader.barriers[id] = meetings
		b.barriers[id]++
		if o.has("num_threadblocks") {
			b.meets = append(b.meets, expected{id, b.barriers[id] - 1, o.get("num_threadblocks")})
		}
	default:
		o.get("name").fail("op %q is not supported, must be one of %s", name, strings.Join(jsonNames, ", "))
	}
	*b.steps = append(*b.steps, s)
	if b.ops += len(s.ops); b.ops > mostOps {
		o.fail("more than %d steps in all", mostOps)
	}
	if b.sums > mostSlots/b.ranks {
		o.fail("more than %d chunks of sums that are not stored", mostSlots/b.ranks)
	}
}

// oneBuffer refuses sources in different buffers: over a memory channel, MSCCL++ takes that of the
// first for all.
func (b *blockReader) oneBuffer(from []chunks, kind int) {
	for _, c := range from {
		if channelTypes[kind] == "memory" && c.buffer != from[0].buffer {
			c.text.fail("source in buffer %s, must be in buffer %s as the first: MSCCL++ reads all from that buffer", c.buffer, from[0].buffer)
		}
	}
}
