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
	jsonOps      = 64 // ops of a thread block
	jsonChannels = 16 // channels of a thread block
)

// maxChannels limits the channels of each type between two ranks: a program has 256 channels, which
// the two types share.
const maxChannels = 128

// channelTypes names the types of channels between two gpus. An index into it is the kind of a channel.
var channelTypes = []string{"memory", "port"}

// channelOf returns the program's channel for channel j of a kind between two ranks: 2j for a memory
// channel, 2j+1 for a port channel.
func channelOf(kind, j int) uint8 { return uint8(2*j + kind) }

// remote is a buffer of another rank.
type remote struct {
	rank   int
	buffer string
}

// planReader reads a plan. A chunk of the plan is divided into parts, each a chunk of the program.
type planReader struct {
	*layout
	parts   int   // parts of a chunk of the plan
	scratch []int // chunks of buffer s, by rank
	gpus    []*gpuReader
	packets *packets
	loop    *loop // that all pipelines have; nil if none has been read
	ops     int   // number of ops read so far
}

// gpuReader reads the thread blocks of a rank.
type gpuReader struct {
	*planReader
	rank     int
	channels [2][]linked // by kind: the channels of the rank
	switches []switched  // the switch channels of the rank
	remotes  []remote
	blocks   []threadBlock
	barriers map[int][][]stepOf    // by id and occurrence: the steps that meet there
	acquired map[int]*semaphoreUse // by id of the semaphore
	sums     int                   // spare slots of the rank, for sums that the plan does not store
	meets    []expected            // what ops state about barriers
}

// expected is the number of thread blocks that an op expects at an occurrence of a barrier.
type expected struct {
	barrier, occurrence int
	blocks              *node
}

// linked is one end of a channel: the peer, and the channel in the program.
type linked struct {
	peer    int
	channel uint8
}

// semaphoreUse lists the steps that acquire and release a semaphore.
type semaphoreUse struct {
	initial            int // value before the first step
	acquires, releases []stepOf
	balance            int   // releases minus acquisitions in one iteration of all pipelines
	at                 *node // the last use in a pipeline
}

// readJSON reads a plan of MSCCL++.
func readJSON(file string, data []byte) (*Plan, error) {
	top, err := parseJSON(file, data)
	if err != nil {
		return nil, err
	}
	plan := readPlan(file, top)
	return plan, top.text.err
}

// readPlan reads a plan. The result is valid only if top.text.err is nil afterwards.
func readPlan(file string, top *node) *Plan {
	c := readHead(top)
	gpus := top.get("gpus").items()
	if len(gpus) < 1 || len(gpus) > maxRanks {
		top.get("gpus").fail("%d gpus, must be from 1 to %d", len(gpus), maxRanks)
	}
	if top.text.err != nil {
		return nil
	}
	x := newPlanReader(top, gpus, c)
	if top.text.err != nil {
		return nil
	}
	plan := &Plan{file: file, ops: make([][]position, x.ranks)}
	if top.has("reuse_resources") && top.get("reuse_resources").bool() && x.layout.scratch > x.input {
		plan.note(top.get("reuse_resources").at, "reuse_resources: chunks larger than their part of 64 MiB share scratch memory, which is not verified")
	}
	for r, g := range gpus {
		x.gpus = append(x.gpus, &gpuReader{planReader: x, rank: r, barriers: map[int][][]stepOf{}, acquired: map[int]*semaphoreUse{}})
		if x.gpus[r].read(g); top.text.err != nil {
			return nil
		}
		x.spare = max(x.spare, x.gpus[r].sums)
		plan.warn(r, g)
	}
	x.fits(top)
	x.sameSwitches()
	if top.text.err == nil {
		x.meet(top)
	}
	if top.text.err != nil {
		return nil
	}
	if x.packets.any() && (!top.has("use_double_scratch_buffer") || !top.get("use_double_scratch_buffer").bool()) {
		plan.note(top.at, "packets without use_double_scratch_buffer: a run can overwrite packets of the previous run that have not been read")
	}
	p := &schedule.Program{
		Name: top.get("name").string(), Collective: c, Ranks: x.ranks, Chunks: x.layout.chunks,
		Input: x.input, Scratch: x.layout.scratch + x.spare, Ops: make([][]schedule.Op, x.ranks),
	}
	plan.Program = p
	for r := range gpus {
		at, stuck := assemble(p, r, x.gpus[r].blocks)
		if stuck != nil {
			top.text.fail(stuck.position, "waits for ops of gpu %d that wait for it", r)
		}
		plan.ops[r] = at
	}
	x.moveSpare(p)
	return plan
}

// readHead checks the fields of a plan other than gpus, and returns its collective.
func readHead(top *node) schedule.Collective {
	top.get("name").string()
	top.get("inplace").bool()
	coll := top.get("collective")
	c, known := collectives[coll.string()]
	if !known {
		coll.fail("collective %q, must be allgather, allreduce, alltoall or reducescatter", coll.value)
	}
	if top.has("protocol") {
		top.get("protocol").oneOf("Simple", "LL")
	}
	if top.has("buffer_alignment") {
		top.get("buffer_alignment").number(1, math.MaxInt32)
	}
	least, most := uint64(0), uint64(math.MaxUint64)
	if top.has("min_message_size") {
		least = top.get("min_message_size").bytes()
	}
	if top.has("max_message_size") {
		most = top.get("max_message_size").bytes()
	}
	if least > most {
		top.get("min_message_size").wants(fmt.Sprintf("at most max_message_size, which is %d: the plan would never be used", most))
	}
	return c
}

// newPlanReader returns a reader for a plan, after it has read the number of chunks and ranks.
func newPlanReader(top *node, gpus []*node, c schedule.Collective) *planReader {
	whole := "output_chunks"
	if c == schedule.ReduceScatter {
		whole = "input_chunks"
	}
	ranks, chunks := len(gpus), gpus[0].get(whole).number(1, maxSlots)
	if c != schedule.AllReduce && chunks%ranks != 0 {
		gpus[0].get(whole).fail("%d chunks, must be a multiple of the %d gpus", chunks, ranks)
	}
	parts := partsOf(gpus)
	l := newLayout(c, ranks, chunks*parts, top.get("inplace").bool())
	x := &planReader{layout: &l, parts: parts, scratch: make([]int, ranks), packets: &packets{written: map[int][]parcel{}, read: map[int][]parcel{}}}
	count := 0
	for r, g := range gpus {
		g.get("id").number(r, r)
		x.scratch[r] = g.get("scratch_chunks").number(0, maxSlots) * parts
		l.scratch = max(l.scratch, l.input+x.scratch[r])
		count += len(g.get("threadblocks").items())
	}
	if count > maxBlocks {
		top.get("gpus").fail("more than %d thread blocks in all", maxBlocks)
	}
	x.fits(top)
	return x
}

// fits checks that all ranks together have at most maxSlots slots.
func (x *planReader) fits(top *node) {
	if slots := x.chunks + x.layout.scratch + x.spare; slots > maxSlots/x.ranks {
		top.get("gpus").fail("%d chunks on each of %d gpus, counting scratch memory and the parts of groups and pipelines, must be at most %d in all",
			slots, x.ranks, maxSlots)
	}
}

// Limits of a plan of MSCCL++.
const (
	maxGroup = 256     // thread blocks of a group
	maxParts = 1 << 12 // parts of a chunk
	maxOps   = 1 << 22 // ops of all ranks together; an op through a switch becomes one for each gpu
)

// iterations is how many iterations of a pipeline are read. Each moves its part of every chunk.
const iterations = 2

// partsOf returns the number of parts into which the thread blocks of groups and the iterations of
// pipelines split a chunk of the plan.
func partsOf(gpus []*node) int {
	parts, pipelines := 1, 1
	var look func(ops []*node)
	look = func(ops []*node) {
		for _, o := range ops {
			if o.has("tbg_info") {
				size := o.get("tbg_info").get("tbg_size").number(1, maxGroup)
				if parts = leastCommonMultiple(parts, size); parts > maxParts {
					o.fail("groups of thread blocks split chunks into %d parts, must be at most %d", parts, maxParts)
					parts = 1
				}
			}
			if o.has("iter_context") {
				pipelines = iterations
			}
			look(o.optional("ops"))
		}
	}
	for _, g := range gpus {
		for _, tb := range g.optional("threadblocks") {
			look(tb.optional("ops"))
		}
	}
	return parts * pipelines
}

func leastCommonMultiple(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// warn notes thread blocks of rank r that exceed limits of MSCCL++.
func (p *Plan) warn(r int, g *node) {
	for _, tb := range g.get("threadblocks").items() {
		n := 0
		for _, o := range tb.get("ops").items() {
			n += 1 + len(o.optional("ops")) // a pipeline has ops of its own
		}
		if n > jsonOps {
			p.note(tb.at, "thread block of gpu %d has %d ops: MSCCL++ runs at most %d", r, n, jsonOps)
		}
		channels := 0
		for _, c := range tb.optional("channels") {
			channels += len(c.get("channel_ids").items())
		}
		if channels > jsonChannels {
			p.note(tb.at, "thread block of gpu %d has %d channels: MSCCL++ runs at most %d", r, channels, jsonChannels)
		}
	}
}

// read reads a gpu: its buffers, channels, semaphores and thread blocks.
func (x *gpuReader) read(g *node) {
	for _, buffer := range []string{"i", "o"} {
		f := g.get(map[string]string{"i": "input_chunks", "o": "output_chunks"}[buffer])
		if n, want := f.number(0, maxSlots), x.size(buffer)/x.parts; n != want {
			f.fail("%d chunks, must be %d in an %s of %d", n, want, x.collective, x.layout.chunks/x.parts)
		}
	}
	for _, c := range g.optional("channels") {
		if isSwitch(c) {
			x.switches = append(x.switches, x.switchesOf(c)...)
			continue
		}
		kind := channelType(c.get("channel_type"))
		ends := map[int]int{}
		for _, l := range x.channels[kind] {
			ends[l.peer]++
		}
		for _, p := range c.get("connected_to").items() {
			peer := p.number(0, x.ranks-1)
			if peer == x.rank {
				p.fail("gpu %d is connected to itself", peer)
			}
			if ends[peer] == maxChannels {
				p.fail("more than %d channels to gpu %d", maxChannels, peer)
				return
			}
			x.channels[kind] = append(x.channels[kind], linked{peer, channelOf(kind, ends[peer])})
			ends[peer]++
		}
	}
	for _, b := range g.optional("remote_buffers") {
		m := remote{b.get("rank").number(0, x.ranks-1), b.get("type").string()}
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
		x.blocks = append(x.blocks, threadBlock{})
		x.block(tb)
	}
	x.wait(g)
}

// wait makes each acquisition of a semaphore wait for its release, and each thread block at a barrier
// wait for the previous steps of the other thread blocks that meet there.
func (x *gpuReader) wait(g *node) {
	for _, m := range x.meets {
		if have := len(x.barriers[m.barrier][m.occurrence]); m.blocks.number(1, 256) != have {
			m.blocks.wants(fmt.Sprintf("%d, the thread blocks that meet at barrier %d", have, m.barrier))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(x.acquired)) {
		s := x.acquired[id]
		if s.balance != 0 {
			s.at.fail("semaphore %d must be acquired as often as it is released in an iteration of the pipelines", id)
			return
		}
		inOneBlock := func(steps []stepOf) bool {
			return !slices.ContainsFunc(steps, func(a stepOf) bool { return a.block != steps[0].block })
		}
		if !inOneBlock(s.acquires) || !inOneBlock(s.releases) {
			g.fail("semaphore %d is acquired or released by several thread blocks, whose order is undefined", id)
			return
		}
		for i, a := range s.acquires {
			k := i - s.initial
			if k < 0 {
				continue
			}
			step := &x.blocks[a.block].steps[a.step]
			if k >= len(s.releases) {
				g.text.fail(step.position, "acquires semaphore %d more often than it is released", id)
				return
			}
			step.after = append(step.after, s.releases[k])
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

// channelType returns the kind of channel that n names, an index into channelTypes.
func channelType(n *node) int {
	kind := slices.Index(channelTypes, n.string())
	if kind < 0 {
		n.fail("channel type %q is unknown, must be memory, port or switch", n.value)
	}
	return max(0, kind)
}
