package planfile

import (
	"math"
	"strings"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Limits of MSCCL's runtime.
const (
	xmlSteps  = 256 // steps of a thread block
	xmlBlocks = 32  // thread blocks of a channel on a rank
	xmlCount  = 71  // chunks of a step
	xmlBuffer = 8   // messages that a connection buffers
)

// collectives maps the names that both MSCCL and MSCCL++ use.
var collectives = map[string]schedule.Collective{
	"allreduce": schedule.AllReduce, "allgather": schedule.AllGather, "reducescatter": schedule.ReduceScatter,
	"alltoall": schedule.AllToAll,
}

// oldReduceScatter is how microsoft/msccl names reduce_scatter. Its successors refuse this name. Plans
// are written for the successors, since they require outofplace, minBytes and maxBytes.
const oldReduceScatter = "reduce_scatter"

// readXML reads a plan of MSCCL. If the plan is for both placements, it is read once for each.
func readXML(file string, data []byte) (*Plan, error) {
	top, err := parseXML(file, data)
	if err != nil {
		return nil, err
	}
	ignored := top.prune("gpu", "tb", "step")
	p := readPlaced(top, false)
	if top.text.err == nil && p.placement != "" {
		p.OutOfPlace = readPlaced(top, true)
	}
	if top.text.err != nil {
		return nil, top.text.err
	}
	for _, e := range ignored {
		p.note(e.at, "MSCCL ignores the element <%s>", e.name)
	}
	return p, nil
}

// readPlaced reads a plan for one of its placements. The result is valid only if top.text.err is
// nil afterwards.
func readPlaced(top *node, outOfPlace bool) *Plan {
	if top.name != "algo" {
		top.fail("the plan begins with <%s>, must begin with <algo>", top.name)
		return nil
	}
	x := &xmlReader{gpus: map[int]bool{}}
	if x.algo(top, outOfPlace); top.text.err != nil {
		return nil
	}
	for _, g := range top.list {
		if x.gpu(g); top.text.err != nil {
			return nil
		}
	}
	p := x.plan.Program
	if len(x.gpus) != p.Ranks {
		top.fail("ngpus=\"%d\", but there are %d elements <gpu>", p.Ranks, len(x.gpus))
	}
	if p.Scratch = x.layout.scratch + x.layout.spare; p.Ranks*(p.Chunks+p.Scratch) > maxSlots {
		top.fail("%d chunks and %d chunks of scratch memory on each of %d ranks, must be at most %d in all", p.Chunks, p.Scratch, p.Ranks, maxSlots)
	}
	x.layout.moveSpare(p)
	return x.plan
}

// layout maps the buffers i, o and s of a plan to the chunk slots of a program. Scratch memory has,
// in this order, buffer i if the plan runs out of place, buffer s, and the spare slots.
type layout struct {
	collective schedule.Collective
	ranks      int
	chunks     int
	input      int // scratch slots of buffer i; 0 in place
	scratch    int // scratch slots of buffer i and the largest buffer s
	spare      int // scratch slots for sums that no buffer of the plan stores
}

// newLayout returns the layout of a plan whose whole vector has the given number of chunks.
func newLayout(c schedule.Collective, ranks, chunks int, inPlace bool) layout {
	l := layout{collective: c, ranks: ranks, chunks: chunks}
	if !inPlace {
		l.input = l.size("i")
	}
	l.scratch = l.input
	return l
}

// size returns the number of chunks in buffer i or o of a rank.
func (l *layout) size(buffer string) int {
	if l.collective == schedule.AllGather && buffer == "i" || l.collective == schedule.ReduceScatter && buffer == "o" {
		return l.chunks / l.ranks
	}
	return l.chunks
}

// slot returns the slot of a chunk in a buffer of rank r.
func (l *layout) slot(r int, buffer string, index int) schedule.Slot {
	switch {
	case buffer == "s":
		return schedule.Scratch(l.input + index)
	case buffer == "i" && l.input > 0:
		return schedule.Scratch(index)
	case l.size(buffer) < l.chunks:
		return schedule.Slot(r*l.size(buffer) + index)
	}
	return schedule.Slot(index)
}

// Scratch slot spared+j is spare slot j of a rank until moveSpare gives it its final place.
const spared = 1 << 28

// moveSpare moves the spare slots behind the other scratch slots, once all ranks are read and the
// number of these is known.
func (l *layout) moveSpare(p *schedule.Program) {
	move := func(s *schedule.Slot) {
		if j := int(^*s); *s < 0 && j >= spared {
			*s = schedule.Scratch(j - spared + l.scratch)
		}
	}
	for r := range p.Ops {
		for i := range p.Ops[r] {
			move(&p.Ops[r][i].Src)
			move(&p.Ops[r][i].Dst)
		}
	}
}

// where returns the buffer of a slot of rank r, and the index of its chunk in the buffer. It is the
// inverse of slot.
func (l *layout) where(r int, s schedule.Slot) (buffer string, index int) {
	if s < 0 {
		if j := int(^s); j >= l.input {
			return "s", j - l.input
		}
		return "i", int(^s)
	}
	if l.collective == schedule.ReduceScatter {
		if l.input > 0 {
			return "o", int(s) - r*l.size("o")
		}
		return "i", int(s)
	}
	return "o", int(s)
}

// xmlReader reads the gpus of a plan.
type xmlReader struct {
	plan     *Plan
	channels int
	layout   layout
	gpus     map[int]bool // ids read so far
	count    int          // thread blocks read so far
}

// algo reads the attributes of <algo>.
func (x *xmlReader) algo(a *node, outOfPlace bool) {
	coll := a.get("coll").string()
	a.get("proto").oneOf("Simple", "LL", "LL128")
	ranks := a.get("ngpus").number(1, maxRanks)
	chunks := a.get("nchunksperloop").number(1, maxSlots)
	x.channels = a.get("nchannels").number(1, 256)
	least := 0
	if a.has("minBytes") {
		least = a.get("minBytes").number(0, math.MaxInt64)
	}
	if a.has("maxBytes") {
		// 0 is no limit.
		if most := a.get("maxBytes").number(0, math.MaxInt64); most > 0 && most < least {
			a.fail("<algo> minBytes=\"%d\" is above maxBytes=\"%d\": the plan would never be used", least, most)
		}
	}
	in := a.get("inplace").number(0, 1) == 1
	out := !in
	if a.has("outofplace") {
		out = a.get("outofplace").number(0, 1) == 1
	}
	if !in && !out {
		a.fail("<algo> has inplace=\"0\" and outofplace=\"0\": the plan would never be used")
	}
	c, known := collectives[strings.ToLower(coll)]
	if coll == oldReduceScatter {
		c, known = schedule.ReduceScatter, true
	}
	if !known {
		a.get("coll").wants("allgather, allreduce, alltoall, reducescatter or reduce_scatter")
	}
	if c != schedule.AllReduce && chunks%ranks != 0 {
		a.fail("<algo> nchunksperloop=\"%d\", must be a multiple of ngpus=\"%d\"", chunks, ranks)
	}
	x.layout = newLayout(c, ranks, chunks, in && !(out && outOfPlace))
	x.plan = &Plan{file: a.text.file, ops: make([][]position, ranks), Program: &schedule.Program{
		Name: a.get("name").string(), Collective: c, Ranks: ranks, Chunks: chunks, Input: x.layout.input, Buffer: xmlBuffer, Ops: make([][]schedule.Op, ranks),
	}}
	switch {
	case in && out && outOfPlace:
		x.plan.placement = "out of place"
	case in && out:
		x.plan.placement = "in place"
	}
	if coll == oldReduceScatter {
		x.plan.note(a.at, "<algo> coll=%q: newer versions of MSCCL accept only reducescatter and refuse the plan", coll)
	}
	for _, name := range []string{"outofplace", "minBytes", "maxBytes"} {
		if !a.has(name) {
			x.plan.note(a.at, "<algo> has no attribute %s: newer versions of MSCCL ignore the plan without a message", name)
		}
	}
}

// gpu reads a <gpu> and appends its ops to the program.
func (x *xmlReader) gpu(a *node) {
	p := x.plan.Program
	g := &xmlGPU{xmlReader: x, rank: a.get("id").number(0, p.Ranks-1), scratch: a.get("s_chunks").number(0, maxSlots), perChannel: map[int]int{}}
	for _, buffer := range []string{"i", "o"} {
		// 0 is valid for an unused buffer.
		if n := a.get(buffer+"_chunks").number(0, maxSlots); n != 0 && n != x.layout.size(buffer) {
			a.fail("<gpu> %s_chunks=\"%d\", must be %d in an %s of %d chunks", buffer, n, x.layout.size(buffer), p.Collective, p.Chunks)
		}
	}
	if x.gpus[g.rank] {
		a.fail("<gpu> id=\"%d\" is a duplicate", g.rank)
	}
	x.gpus[g.rank] = true
	x.layout.scratch = max(x.layout.scratch, x.layout.input+g.scratch)
	for _, tb := range a.list {
		if g.block(tb); a.text.err != nil {
			return
		}
	}
	x.layout.spare = max(x.layout.spare, g.spare)
	if g.waits(a.text); a.text.err != nil {
		return
	}
	at, stuck := assemble(p, g.rank, g.blocks)
	if stuck != nil {
		a.text.fail(stuck.position, "<step> waits for steps of gpu %d that wait for it", g.rank)
	}
	x.plan.ops[g.rank] = at
}

// xmlGPU reads the thread blocks of a rank.
type xmlGPU struct {
	*xmlReader
	rank       int
	scratch    int // chunks of buffer s
	spare      int // spare slots used by the rank
	blocks     []threadBlock
	signals    [][]bool    // by block and step: whether the step signals its end (hasdep)
	perChannel map[int]int // number of thread blocks by channel
}

// waits checks that all steps that others wait for exist and signal their end.
func (g *xmlGPU) waits(t *source) {
	for b := range g.blocks {
		for _, s := range g.blocks[b].steps {
			for _, d := range s.after {
				switch {
				case d.block >= len(g.blocks) || d.step >= len(g.blocks[d.block].steps):
					t.fail(s.position, "<step> waits for step %d of thread block %d, which gpu %d does not have", d.step, d.block, g.rank)
				case !g.signals[d.block][d.step]:
					t.fail(s.position, "<step> waits for step %d of thread block %d, which has hasdep=\"0\" and does not signal its end", d.step, d.block)
				}
			}
		}
	}
}

// block reads a <tb>.
func (g *xmlGPU) block(a *node) {
	id, last := a.get("id").number(0, 255), g.plan.Program.Ranks-1
	c := connection{xmlGPU: g, send: a.get("send").number(-1, last), receive: a.get("recv").number(-1, last), channel: a.get("chan").number(0, 255)}
	if g.count++; g.count > maxBlocks {
		a.fail("more than %d thread blocks in all", maxBlocks)
	}
	if c.channel >= g.channels {
		a.fail("<tb> chan=\"%d\", must be less than nchannels=\"%d\"", c.channel, g.channels)
	}
	if g.perChannel[c.channel]++; g.perChannel[c.channel] == xmlBlocks+1 {
		g.plan.note(a.at, "<tb> chan=\"%d\": the channel has more than %d thread blocks on gpu %d: MSCCL refuses the plan", c.channel, xmlBlocks, g.rank)
	}
	if id != len(g.blocks) {
		a.fail("<tb> id=\"%d\", must be %d: thread blocks are numbered in order", id, len(g.blocks))
	}
	if c.send == g.rank || c.receive == g.rank {
		a.fail("<tb> of gpu %d sends to or receives from itself", g.rank)
	}
	var steps []step
	var signals []bool
	for _, e := range a.list {
		if n := e.get("s").number(0, xmlSteps-1); n != len(steps) {
			e.fail("<step> s=\"%d\", must be %d: steps are numbered in order", n, len(steps))
		}
		s := step{position: e.at}
		if b := e.get("depid").number(-1, 255); b >= 0 {
			s.after = []stepOf{{b, e.get("deps").number(0, xmlSteps-1)}}
			if b == id {
				e.fail("<step> depid=\"%d\" is its own thread block, whose steps run in order", b)
			}
		}
		s.ops = c.step(e)
		steps, signals = append(steps, s), append(signals, e.get("hasdep").number(0, 1) == 1)
		if a.text.err != nil {
			return
		}
	}
	g.blocks, g.signals = append(g.blocks, threadBlock{steps}), append(g.signals, signals)
}

// connection reads the steps of a thread block, which share its peers and its channel.
type connection struct {
	*xmlGPU
	send, receive int // peers; −1 if the thread block has none
	channel       int
}

// step returns the ops that a step consists of.
func (c *connection) step(a *node) []schedule.Op {
	kind := a.get("type").string()
	if kind == "nop" {
		return nil
	}
	count := a.get("cnt").number(1, xmlCount)
	var ops []schedule.Op
	add := func(k schedule.Kind, src, dst schedule.Slot) {
		ops = append(ops, c.op(a, schedule.Op{Kind: k, Src: src, Dst: dst, Count: int32(count)}))
	}
	src := func() schedule.Slot { return c.span(a, "src", count) }
	dst := func() schedule.Slot { return c.span(a, "dst", count) }
	switch kind {
	case "s":
		add(schedule.Send, src(), 0)
	case "r":
		add(schedule.Recv, 0, dst())
	case "cpy":
		add(schedule.Copy, src(), dst())
	case "re":
		add(schedule.Reduce, src(), dst())
	case "rcs":
		to := dst()
		add(schedule.Recv, 0, to)
		add(schedule.Send, to, 0)
	case "rrc", "rrcs", "rrs":
		from := src()
		to := schedule.Scratch(spared + c.spare)
		if kind == "rrs" {
			c.spare += count
		} else {
			to = dst()
		}
		if from != to {
			add(schedule.Copy, from, to)
		}
		add(schedule.RecvReduce, 0, to)
		if kind != "rrc" {
			add(schedule.Send, to, 0)
		}
	default:
		a.get("type").wants("s, r, cpy, re, rcs, rrc, rrcs, rrs or nop")
	}
	return ops
}

// span returns the first slot of a step's source or destination; which is "src" or "dst".
func (c *connection) span(a *node, which string, count int) schedule.Slot {
	buffer := a.get(which + "buf").string()
	size := c.scratch
	switch buffer {
	case "i", "o":
		size = c.layout.size(buffer)
	case "s":
	default:
		a.get(which + "buf").wants("i, o or s")
	}
	at := a.get(which+"off").number(0, maxSlots)
	if at+count > size {
		a.fail("<step> uses chunks %d to %d of buffer %s, which has %d", at, at+count-1, buffer, size)
	}
	return c.layout.slot(c.rank, buffer, at)
}

// op returns an op of a step with its peer and channel set.
func (c *connection) op(a *node, o schedule.Op) schedule.Op {
	peer, end := c.receive, "recv"
	switch o.Kind {
	case schedule.Copy, schedule.Reduce:
		return o
	case schedule.Send:
		peer, end = c.send, "send"
	}
	if peer < 0 {
		a.fail("<step> type=%q in a thread block with %s=\"-1\"", a.get("type").string(), end)
	}
	o.Peer, o.Channel = int32(peer), uint8(c.channel)
	return o
}
