package planfile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// jsonNames lists the ops that opReader.read supports.
var jsonNames = []string{
	"put", "pws", "pwsf", "get", "signal", "wait", "rlxsignal", "rlxwait", "copy", "re", "res", "rre", "rres",
	"ppkt", "rppkt", "respkt", "repkt", "recspkt", "recpkt", "upkt", "cpkt", "glres", "gstore", "gstorepkt",
	"pipeline", "sem_acquire", "sem_release", "barrier", "flush", "nop",
}

// blockReader reads the ops of a thread block. Ops refer to channels and remote buffers by their
// index in the lists of the thread block.
type blockReader struct {
	*gpuReader
	channels  [2][]linked // by kind of channel
	remotes   [2][]remote // by kind of the channel that reaches them
	switches  []switched
	steps     *[]step
	barriers  map[int]int // by id: how often the thread block has met there
	shares    []share     // of the chunks that an op moves; each divides the share before it
	onPackets bool        // whether an op on packets is being read
	iterates  int         // num_chunks of the pipeline being read; 0 outside of a pipeline
	iteration int         // the iteration of the pipeline being read
}

// share is one of count equal parts of the chunks that several thread blocks, or iterations, move.
type share struct{ index, count int }

// block reads the ops of a thread block.
func (x *gpuReader) block(tb *node) {
	b := &blockReader{gpuReader: x, steps: &x.blocks[len(x.blocks)-1].steps, barriers: map[int]int{}}
	for _, c := range tb.optional("channels") {
		if isSwitch(c) {
			b.switches = append(b.switches, named(c, "channel_ids", x.switches, fmt.Sprintf("switch channels of gpu %d", x.rank))...)
			continue
		}
		kind := channelType(c.get("channel_type"))
		b.channels[kind] = append(b.channels[kind], named(c, "channel_ids", x.channels[kind], fmt.Sprintf("%s channels of gpu %d", channelTypes[kind], x.rank))...)
	}
	for _, c := range tb.optional("remote_buffer_refs") {
		kind := channelType(c.get("access_channel_type"))
		b.remotes[kind] = append(b.remotes[kind], named(c, "remote_buffer_ids", x.remotes, fmt.Sprintf("remote buffers of gpu %d", x.rank))...)
	}
	for _, o := range tb.get("ops").items() {
		if tb.text.err != nil {
			return
		}
		b.op(o)
	}
}

// named returns the elements of all whose indices a field lists. Errors call the elements what, such
// as "port channels of gpu 0".
func named[T any](n *node, field string, all []T, what string) (out []T) {
	for _, id := range n.get(field).items() {
		if i, ok := id.index(len(all), what); ok {
			out = append(out, all[i])
		}
	}
	return out
}

// chunks is a range of a buffer that an op reads or writes.
type chunks struct {
	slot   schedule.Slot // the first
	count  int32         // slots that the op moves: its share of the range
	size   int           // chunks of the plan in the range
	rank   int
	buffer string
	text   *node
}

// spans reads the ranges in a field: mine are in buffers of the rank, theirs in buffers of its peers.
// Local ranges must come first, since MSCCL++ identifies ranges by their position.
func (b *blockReader) spans(o *node, name string, kind int) (mine, theirs []chunks) {
	for _, n := range o.get(name).items() {
		size, index := n.get("size").number(1, maxSlots), n.get("index").number(0, maxSlots)
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
			n.fail("buffer %s of the gpu follows a buffer of another gpu, must come before it", buffer)
		}
		if where == b.rank {
			mine = append(mine, c)
		} else {
			theirs = append(theirs, c)
		}
	}
	return mine, theirs
}

// chunksOf returns size chunks of a buffer of rank where, from index on. Its slot and count are the
// share that the thread block moves.
func (b *blockReader) chunksOf(n *node, where int, buffer string, index, size int) chunks {
	have := b.scratch[where]
	if buffer != "s" {
		have = b.size(buffer)
	}
	if index+size > have/b.parts {
		n.fail("chunks %d to %d of buffer %s of gpu %d, which has %d chunks", index, index+size-1, buffer, where, have/b.parts)
		return chunks{size: size, rank: where, buffer: buffer, text: n}
	}
	if b.iterates > 0 && size != b.iterates {
		n.fail("size %d, must be num_chunks of the pipeline, which is %d", size, b.iterates)
	}
	if buffer == "s" && !b.onPackets {
		b.packets.otherUse = cmp.Or(b.packets.otherUse, n)
	}
	first, count := index*b.parts, size*b.parts
	for _, s := range b.shares {
		count /= s.count
		first += s.index * count
	}
	return chunks{b.slot(where, buffer, first), int32(count), size, where, buffer, n}
}

// loop is what determines, with the size of the vector, how often a pipeline iterates: the bytes that
// an iteration moves (unit_size), and the chunks that the pipeline covers (num_chunks).
type loop struct{ unit, chunks int }

// pipeline reads the ops of a pipeline. Each iteration moves its share of every chunk. Two iterations
// represent any number, since all are alike: all pipelines must have the same loop, and an iteration
// must acquire every semaphore as often as it releases it.
func (b *blockReader) pipeline(o *node) {
	if b.iterates > 0 {
		o.fail("pipeline inside a pipeline is not supported")
		return
	}
	context := o.get("iter_context")
	this := loop{context.get("unit_size").number(1, math.MaxInt32), context.get("num_chunks").number(1, maxSlots)}
	if b.planReader.loop == nil {
		b.planReader.loop = &this
	}
	if first := *b.planReader.loop; this != first {
		context.fail("unit_size %d and num_chunks %d, must be %d and %d as in the first pipeline: all pipelines must iterate equally often",
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

// opReader reads an op of the plan. The op becomes one step, which can have several ops of the program.
type opReader struct {
	*blockReader
	o    *node
	name string
	kind int // of its channels
	here end // its step
	ops  []schedule.Op
}

// op reads an op and appends its step to the thread block.
func (b *blockReader) op(o *node) {
	x := &opReader{blockReader: b, o: o, name: o.get("name").string(), here: end{b.rank, stepOf{len(b.blocks) - 1, len(*b.steps)}}}
	switch {
	case isSwitch(o):
		if !slices.Contains(switchNames, x.name) {
			o.fail("%s over a switch channel is not supported, must be one of %s", x.name, strings.Join(switchNames, ", "))
		}
	case o.has("channel_type"):
		x.kind = channelType(o.get("channel_type"))
	}
	b.onPackets = packetOps[x.name] != (packetOp{}) || x.name == "gstorepkt"
	if o.has("tbg_info") {
		if b.iterates > 0 {
			o.fail("%s of a group of thread blocks inside a pipeline is not supported: the pipeline counts iterations of whole chunks", x.name)
		}
		group := o.get("tbg_info")
		size := group.get("tbg_size").number(1, maxGroup)
		outer := b.shares
		b.shares = append([]share{{group.get("tb_id").number(0, size-1), size}}, outer...)
		defer func() { b.shares = outer }()
	}
	if o.has("reduce_op") && o.get("reduce_op").string() != "sum" {
		o.get("reduce_op").fail("reduction %q is not supported, must be sum", o.get("reduce_op").value)
	}
	if x.name == "pipeline" {
		b.pipeline(o)
		return
	}
	x.read()
	*b.steps = append(*b.steps, step{position: o.at, ops: x.ops})
	if b.planReader.ops += len(x.ops); b.planReader.ops > maxOps {
		o.fail("more than %d ops in all", maxOps)
	}
	if b.sums > maxSlots/b.ranks {
		o.fail("more than %d chunks of sums that the plan does not store", maxSlots/b.ranks)
	}
}

// read appends the ops of the program to x.ops.
func (x *opReader) read() {
	port := channelTypes[x.kind] == "port"
	switch x.name {
	case "nop":
	case "flush":
		if port { // data over memory channels has arrived when its op ends
			x.sync(schedule.Flush)
		}
	case "signal", "rlxsignal":
		x.sync(schedule.Signal)
	case "wait", "rlxwait":
		x.sync(schedule.Wait)
	case "put", "pws", "pwsf":
		s := x.sides()
		if len(s.far) > 0 || len(s.to) > 0 {
			x.o.fail("%s must read from its own gpu and write to other gpus", x.name)
		}
		x.oneBuffer(s.from)
		x.move(schedule.Put, s.from, s.others)
		if x.name != "put" {
			x.sync(schedule.Signal)
		}
		if x.name == "pwsf" && port {
			x.sync(schedule.Flush)
		}
	case "get":
		x.overMemory()
		s := x.sides()
		if len(s.from) > 0 || len(s.others) > 0 {
			x.o.fail("get must read from other gpus and write to its own")
		}
		x.move(schedule.Get, s.far, s.to)
	case "copy", "re", "res", "rre", "rres":
		x.reduce()
	case "ppkt", "rppkt", "upkt", "cpkt", "repkt", "respkt", "recpkt", "recspkt":
		x.packets()
	case "glres", "gstore", "gstorepkt":
		x.switches()
	case "sem_acquire", "sem_release":
		x.semaphores()
	case "barrier":
		x.barrier()
	default:
		x.o.get("name").fail("op %q is not supported, must be one of %s", x.name, strings.Join(jsonNames, ", "))
	}
}

// sides are the chunks that an op reads and writes: from and to are in buffers of the gpu, far and
// others in buffers of its peers.
type sides struct{ from, far, to, others []chunks }

func (x *opReader) sides() (s sides) {
	s.from, s.far = x.spans(x.o, "src_buff", x.kind)
	s.to, s.others = x.spans(x.o, "dst_buff", x.kind)
	return s
}

// refuse fails because the op does not support this number of sources and destinations.
func (x *opReader) refuse(s sides) {
	x.o.fail("%s with %d local and %d remote sources, %d local and %d remote destinations is not supported", x.name, len(s.from), len(s.far), len(s.to), len(s.others))
}

// overMemory fails unless the op uses memory channels.
func (x *opReader) overMemory() {
	if channelTypes[x.kind] != "memory" {
		x.o.fail("%s over a %s channel is not supported, must be a memory channel", x.name, channelTypes[x.kind])
	}
}

// oneBuffer fails if sources are in different buffers. Over a memory channel, MSCCL++ reads all from
// the buffer of the first.
func (x *opReader) oneBuffer(from []chunks) {
	for _, c := range from {
		if channelTypes[x.kind] == "memory" && c.buffer != from[0].buffer {
			c.text.fail("source in buffer %s, must be in buffer %s like the first: MSCCL++ reads all sources from that buffer", c.buffer, from[0].buffer)
		}
	}
}

// via returns the channels of the op.
func (x *opReader) via() []linked {
	return named(x.o, "channel_ids", x.channels[x.kind], fmt.Sprintf("%s channels of the thread block", channelTypes[x.kind]))
}

// sync adds an op of kind k, a signal, wait or flush, over each channel.
func (x *opReader) sync(k schedule.Kind) {
	for _, l := range x.via() {
		x.ops = append(x.ops, schedule.Op{Kind: k, Peer: int32(l.peer), Channel: l.channel})
	}
}

// move adds an op of kind k, a put or a get, for each pair of from and to.
func (x *opReader) move(k schedule.Kind, from, to []chunks) {
	far := to
	if k != schedule.Put {
		far = from
	}
	if len(from) != len(to) {
		x.o.fail("%s of %d sources into %d destinations, must be equally many", x.name, len(from), len(to))
		return
	}
	var via []linked
	if x.o.has("channel_ids") {
		if via = x.via(); len(via) != len(far) {
			x.o.fail("%s of %d remote buffers over %d channels, must be equally many", x.name, len(far), len(via))
			return
		}
	}
	for i := range far {
		l := linked{far[i].rank, channelOf(x.kind, 0)}
		if len(via) > 0 {
			l = via[i]
		}
		if l.peer != far[i].rank {
			x.o.fail("%s over a channel to gpu %d, must be to gpu %d, which has the buffer", x.name, l.peer, far[i].rank)
			return
		}
		if from[i].size != to[i].size {
			x.o.fail("%s of %d chunks into %d, must be equally many", x.name, from[i].size, to[i].size)
			return
		}
		// A put over a memory channel is complete when the op ends. Over a port channel, a proxy
		// moves the data later.
		async := k == schedule.Put && channelTypes[x.kind] == "port"
		x.ops = append(x.ops, schedule.Op{Kind: k, Src: from[i].slot, Dst: to[i].slot, Count: to[i].count, Peer: int32(l.peer), Channel: l.channel, Async: async})
	}
}

// local adds a copy or sum on the gpu, unless it copies a slot to itself.
func (x *opReader) local(k schedule.Kind, from, to schedule.Slot, count int32) {
	if from != to || k != schedule.Copy {
		x.ops = append(x.ops, schedule.Op{Kind: k, Src: from, Dst: to, Count: count})
	}
}

// reduce reads a copy or a sum. Some summands can be on other gpus, and the sum can be sent to them.
func (x *opReader) reduce() {
	s := x.sides()
	reads, writes := x.name == "rre" || x.name == "rres", x.name == "res" || x.name == "rres"
	if len(s.to) != 1 || len(s.from) == 0 || (x.name == "copy" || reads) && len(s.from) != 1 || !reads && len(s.far) > 0 || !writes && len(s.others) > 0 {
		x.refuse(s)
		return
	}
	to, into := s.to[0], s.to[0].slot
	if slices.ContainsFunc(s.from[1:], func(c chunks) bool { return c.slot == into }) { // a copy would overwrite a source
		into = x.sum(to.count)
	}
	for i, c := range s.from {
		if c.size != to.size && (i > 0 || c.slot != into) {
			x.o.fail("%s of %d chunks into %d, must be equally many", x.name, c.size, to.size)
		}
		if i == 0 {
			x.local(schedule.Copy, c.slot, into, to.count)
		} else {
			x.local(schedule.Reduce, c.slot, into, to.count)
		}
	}
	x.local(schedule.Copy, into, to.slot, to.count)
	if reads || writes {
		x.overMemory()
	}
	if reads {
		x.move(schedule.GetReduce, s.far, slices.Repeat(s.to, len(s.far)))
	}
	x.move(schedule.Put, slices.Repeat(s.to, len(s.others)), s.others)
}

// semaphores reads a sem_acquire or sem_release.
func (x *opReader) semaphores() {
	for _, n := range x.o.get("semaphore_ids").items() {
		use := x.acquired[n.number(0, math.MaxInt32)]
		if use == nil {
			n.fail("semaphore %v is missing", n.value)
			return
		}
		more := 1
		if x.name == "sem_acquire" {
			use.acquires, more = append(use.acquires, x.here.at), -1
		} else {
			use.releases = append(use.releases, x.here.at)
		}
		if x.iterates > 0 && x.iteration == 0 {
			use.balance += more
			use.at = n
		}
	}
}

// barrier reads a barrier. The nth barrier of a thread block with an id meets the nth of others.
func (x *opReader) barrier() {
	id := x.o.get("barrier_id").number(0, math.MaxInt32)
	meetings, nth := x.gpuReader.barriers[id], x.blockReader.barriers[id]
	if nth == len(meetings) {
		meetings = append(meetings, nil)
	}
	meetings[nth] = append(meetings[nth], x.here.at)
	x.gpuReader.barriers[id] = meetings
	x.blockReader.barriers[id]++
	if x.o.has("num_threadblocks") {
		x.meets = append(x.meets, expected{id, nth, x.o.get("num_threadblocks")})
	}
}
