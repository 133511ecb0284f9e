package planfile

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Limits of MSCCL++'s executor.
const (
	jsonOps      = 64 // of a thread block
	jsonChannels = 16 // of a thread block
)

// The types of channels. Signals of memory channel j between two ranks are on channel 2j of
// the program, those of port channel j on 2j+1.
var channelTypes = []string{"memory", "port"}

func channelOf(kind, j int) uint8 { return uint8(2*j + kind) }

// remote is a buffer of another rank.
type remote struct {
	rank   int
	buffer string
}

// gpuReader reads the thread blocks of a rank.
type gpuReader struct {
	layout   *layout
	rank     int
	chunks   map[string]int // of the buffers of the rank
	scratch  []int          // chunks of buffer s, by rank
	channels [2][]linked    // by type: the channels of the rank
	remotes  []remote
	blocks   []block
	barriers map[int][][]stepOf    // by id and occurrence: the ends of what comes before
	acquired map[int]*semaphoreUse // by id
}

// linked is an end of a channel.
type linked struct {
	peer    int
	channel uint8
}

// semaphoreUse is the steps that acquire and release a semaphore.
type semaphoreUse struct {
	initial           int
	acquires, release []stepOf
}

func readJSON(file string, data []byte) (*Plan, error) {
	top, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	plan := readPlan(file, top)
	return plan, top.text.err
}

// readPlan reads a plan, which means something only if its text has no error then.
func readPlan(file string, top *node) *Plan {
	name, coll := top.get("name").string(), top.get("collective")
	c, known := collectives[coll.string()]
	if !known {
		coll.fail("collective %q, must be allgather, allreduce or reducescatter", coll.value)
	}
	inPlace := top.get("inplace").bool()
	gpus := top.get("gpus").items()
	if len(gpus) < 1 || len(gpus) > mostRanks {
		top.get("gpus").fail("%d gpus, must be from 1 to %d", len(gpus), mostRanks)
	}
	if top.text.err != nil {
		return nil
	}
	whole := "output_chunks"
	if c == schedule.ReduceScatter {
		whole = "input_chunks"
	}
	ranks, chunks := len(gpus), gpus[0].get(whole).number(1, mostSlots)
	if c != schedule.AllReduce && chunks%ranks != 0 {
		gpus[0].get(whole).fail("%d chunks, must be a multiple of the %d gpus", chunks, ranks)
		return nil
	}
	l := newLayout(c, ranks, chunks, inPlace)
	scratch, count := make([]int, ranks), 0
	for r, g := range gpus {
		g.get("id").number(r, r)
		scratch[r] = g.get("scratch_chunks").number(0, mostSlots)
		l.scratch = max(l.scratch, l.input+scratch[r])
		count += len(g.get("threadblocks").items())
	}
	if count > mostBlocks {
		top.get("gpus").fail("more than %d thread blocks in all", mostBlocks)
	}
	if ranks*(chunks+l.scratch) > mostSlots {
		top.get("gpus").fail("%d chunks and %d of scratch memory on each of %d gpus, must be at most %d in all", chunks, l.scratch, ranks, mostSlots)
	}
	plan := &Plan{file: file, ops: make([][]position, ranks), Program: &schedule.Program{
		Name: name, Collective: c, Ranks: ranks, Chunks: chunks, Input: l.input, Scratch: l.scratch, Ops: make([][]schedule.Op, ranks),
	}}
	for r, g := range gpus {
		if top.text.err != nil {
			return nil
		}
		x := &gpuReader{layout: &l, rank: r, scratch: scratch, barriers: map[int][][]stepOf{}, acquired: map[int]*semaphoreUse{}}
		x.read(g)
		if top.text.err != nil {
			return nil
		}
		for _, tb := range g.get("threadblocks").items() {
			if n := len(tb.get("ops").items()); n > jsonOps {
				plan.note(tb.text.at(tb.offset), "thread block of gpu %d has %d ops: MSCCL++ runs at most %d", r, n, jsonOps)
			}
			channels := 0
			for _, c := range tb.optional("channels") {
				channels += len(c.get("channel_ids").items())
			}
			if channels > jsonChannels {
				plan.note(tb.text.at(tb.offset), "thread block of gpu %d has %d channels: MSCCL++ runs at most %d", r, channels, jsonChannels)
			}
		}
		at, stuck := assemble(plan.Program, r, x.blocks)
		if stuck != nil {
			top.text.err = fmt.Errorf("%s: waits for ops of gpu %d that wait for it", stuck.in(file), r)
		}
		plan.ops[r] = at
	}
	return plan
}

func (x *gpuReader) read(g *node) {
	for _, buffer := range []string{"i", "o"} {
		f := g.get(map[string]string{"i": "input_chunks", "o": "output_chunks"}[buffer])
		if n := f.number(0, mostSlots); n != x.layout.size(buffer) {
			f.fail("%d chunks, must be %d in an %s of %d", n, x.layout.size(buffer), x.layout.collective, x.layout.chunks)
		}
	}
	x.chunks = map[string]int{"i": x.layout.size("i"), "o": x.layout.size("o"), "s": x.scratch[x.rank]}
	for _, c := range g.optional("channels") {
		kind := channelType(c.get("channel_type"))
		ends := map[int]int{}
		for _, l := range x.channels[kind] {
			ends[l.peer]++
		}
		for _, p := range c.get("connected_to").items() {
			peer := p.number(0, x.layout.ranks-1)
			if peer == x.rank {
				p.fail("gpu %d is connected to itself", peer)
			}
			if ends[peer] == 128 {
				p.fail("more than 128 channels to gpu %d", peer)
				return
			}
			x.channels[kind] = append(x.channels[kind], linked{peer, channelOf(kind, ends[peer])})
			ends[peer]++
		}
	}
	for _, b := range g.optional("remote_buffers") {
		m := remote{b.get("rank").number(0, x.layout.ranks-1), b.get("type").string()}
		if m.rank == x.rank || m.buffer != "i" && m.buffer != "o" && m.buffer != "s" {
			b.fail("must be buffer i, o or s of another gpu")
		}
		x.remotes = append(x.remotes, m)
	}
	for i, s := range g.optional("semaphores") {
		x.acquired[i] = &semaphoreUse{initial: s.get("init_value").number(0, math.MaxInt32)}
	}
	blocks := g.get("threadblocks").items()
	if len(blocks) > 256 {
		g.get("threadblocks").fail("%d thread blocks, must be at most 256", len(blocks))
		return
	}
	for b, tb := range blocks {
		tb.get("id").number(b, b)
		x.blocks = append(x.blocks, block{})
		x.block(tb)
	}
	x.wait(g)
}

// wait makes the acquisitions of a semaphore wait for its releases, and barriers for what
// comes before them in the other thread blocks.
func (x *gpuReader) wait(g *node) {
	for _, id := range slices.Sorted(maps.Keys(x.acquired)) {
		s := x.acquired[id]
		one := func(steps []stepOf) bool {
			return !slices.ContainsFunc(steps, func(a stepOf) bool { return a.block != steps[0].block })
		}
		if !one(s.acquires) || !one(s.release) {
			g.fail("semaphore %d is acquired or released by several thread blocks, whose order is open", id)
			return
		}
		for i, a := range s.acquires {
			k := i - s.initial
			if k < 0 {
				continue
			}
			step := &x.blocks[a.block].steps[a.step]
			if k >= len(s.release) {
				g.text.err = fmt.Errorf("%s: acquires semaphore %d, which is not released so often", step.in(g.text.file), id)
				return
			}
			step.after = append(step.after, s.release[k])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(x.barriers)) {
		for _, meeting := range x.barriers[id] {
			for _, here := range meeting {
				for _, there := range meeting {
					if here.block != there.block && there.step > 0 {
						s := &x.blocks[here.block].steps[here.step]
						s.after = append(s.after, stepOf{there.block, there.step - 1})
					}
				}
			}
		}
	}
}

func channelType(n *node) int {
	kind := slices.Index(channelTypes, n.string())
	if kind < 0 {
		n.fail("channel type %q is not supported, must be memory or port", n.value)
	}
	return max(0, kind)
}

// blockReader reads the ops of a thread block.
type blockReader struct {
	*gpuReader
	channels [2][]linked // by type, that ops name
	remotes  [2][]remote // by type, the same
	steps    *[]step
	barriers map[int]int // by id: how many it has met
}

func (x *gpuReader) block(tb *node) {
	b := &blockReader{gpuReader: x, steps: &x.blocks[len(x.blocks)-1].steps, barriers: map[int]int{}}
	for _, c := range tb.optional("channels") {
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
	slot  schedule.Slot
	count int32
	rank  int
}

// spans reads the chunks of a field, those of the rank and those of others.
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
		have := b.scratch[where]
		if buffer != "s" {
			have = b.layout.size(buffer)
		}
		if index+size > have {
			n.fail("chunks %d to %d of buffer %s of gpu %d, which has %d", index, index+size-1, buffer, where, have)
		}
		c := chunks{b.layout.slot(where, buffer, index), int32(size), where}
		if where == b.rank {
			mine = append(mine, c)
		} else {
			theirs = append(theirs, c)
		}
	}
	return mine, theirs
}

// op reads an op, which can be several of a program.
func (b *blockReader) op(o *node) {
	s := step{position: o.text.at(o.offset)}
	here := stepOf{len(b.blocks) - 1, len(*b.steps)}
	name, kind := o.get("name").string(), 0
	if o.has("channel_type") {
		kind = channelType(o.get("channel_type"))
	}
	if o.has("tbg_info") {
		o.fail("op %q of a group of thread blocks (tbg_info) is not supported", name)
	}
	if o.has("reduce_op") && o.get("reduce_op").string() != "sum" {
		o.get("reduce_op").fail("reduction %q is not supported, must be sum", o.get("reduce_op").value)
	}
	ends := func() (all []linked) {
		for _, id := range o.get("channel_ids").items() {
			if n, ok := id.index(len(b.channels[kind]), fmt.Sprintf("%s channels of the thread block", channelTypes[kind])); ok {
				all = append(all, b.channels[kind][n])
			}
		}
		return all
	}
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
			if from[i].count != to[i].count {
				o.fail("%s of %d chunks into %d", name, from[i].count, to[i].count)
				return
			}
			// The threads of a block wait for what they move themselves. What moves over a port
			// channel, its proxy moves.
			async := k == schedule.Put && channelTypes[kind] == "port"
			s.ops = append(s.ops, schedule.Op{Kind: k, Src: from[i].slot, Dst: to[i].slot, Count: to[i].count, Peer: int32(l.peer), Channel: l.channel, Async: async})
		}
	}
	local := func(k schedule.Kind, from, to chunks) {
		if from.count != to.count {
			o.fail("%s of %d chunks into %d", name, from.count, to.count)
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
		if len(to) != 1 || len(from) == 0 || name == "copy" && len(from) != 1 || !reads && len(remote) > 0 || !writes && len(others) > 0 {
			o.fail("%s with %d local and %d remote sources, %d local and %d remote destinations", name, len(from), len(remote), len(to), len(others))
			return
		}
		if from[0] != to[0] {
			local(schedule.Copy, from[0], to[0])
		}
		for _, more := range from[1:] {
			local(schedule.Reduce, more, to[0])
		}
		if reads {
			memoryOnly()
			move(schedule.GetReduce, remote, slices.Repeat(to, len(remote)))
		}
		move(schedule.Put, slices.Repeat(to, len(others)), others)
	case "sem_acquire", "sem_release":
		for _, n := range o.get("semaphore_ids").items() {
			use := b.acquired[n.number(0, math.MaxInt32)]
			switch {
			case use == nil:
				n.fail("semaphore %v is missing", n.value)
			case name == "sem_acquire":
				use.acquires = append(use.acquires, here)
			default:
				use.release = append(use.release, here)
			}
		}
	case "barrier":
		id := o.get("barrier_id").number(0, math.MaxInt32)
		meetings := b.gpuReader.barriers[id]
		if b.barriers[id] == len(meetings) {
			meetings = append(meetings, nil)
		}
		meetings[b.barriers[id]] = append(meetings[b.barriers[id]], here)
		b.gpuReader.barriers[id] = meetings
		b.barriers[id]++
	default:
		o.get("name").fail("op %q is not supported, must be put, pws, pwsf, get, signal, wait, rlxsignal, rlxwait, copy, re, res, rre, rres, sem_acquire, sem_release, barrier, flush or nop", name)
	}
	*b.steps = append(*b.steps, s)
}
