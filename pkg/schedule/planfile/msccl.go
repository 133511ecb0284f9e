package planfile

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Limits of MSCCL's runtime, and the messages that a connection of it buffers.
const (
	xmlSteps  = 256 // of a thread block
	xmlBlocks = 32  // of a channel
	xmlCount  = 71  // chunks of a step
	xmlBuffer = 8
)

// collectives are the names that MSCCL and MSCCL++ have in common.
var collectives = map[string]schedule.Collective{
	"allreduce": schedule.AllReduce, "allgather": schedule.AllGather, "reducescatter": schedule.ReduceScatter,
}

// oldReduceScatter is the name of a reduce_scatter for microsoft/msccl, which its successors do
// not know. They alone have outofplace, minBytes and maxBytes, so that plans are written for them.
const oldReduceScatter = "reduce_scatter"

// reader reads the XML of a plan.
type reader struct {
	file       string
	outOfPlace bool // read a plan for both placements as it runs out of place
	decoder    *xml.Decoder
	at         position // of the last token
	plan       *Plan
	channels   int
	layout     layout
	blocks     []block      // of the open gpu
	ends       [][]stepEnd  // by block and step of the open gpu
	gpus       map[int]bool // that have been read
	count      int          // of all thread blocks
	crowd      map[int]int  // thread blocks of the open gpu, by channel
}

// stepEnd is what other steps may wait for.
type stepEnd struct{ signals bool }

func (x *reader) fail(at position, format string, args ...any) error {
	return fmt.Errorf("%s: %w", at.in(x.file), fmt.Errorf(format, args...))
}

// token returns the next start or end of an element.
func (x *reader) token() (xml.Token, error) {
	for {
		line, column := x.decoder.InputPos()
		x.at = position{line, column}
		t, err := x.decoder.Token()
		switch t := t.(type) {
		case xml.StartElement, xml.EndElement:
			return t, err
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return nil, x.fail(x.at, "text %.20q between elements", bytes.TrimSpace(t))
			}
		}
		if err != nil {
			line, column := x.decoder.InputPos()
			x.at = position{line, max(1, column)}
			var syntax *xml.SyntaxError
			switch {
			case errors.Is(err, io.EOF) || errors.As(err, &syntax) && syntax.Msg == "unexpected EOF":
				return nil, x.fail(x.at, "the file ends before the plan does")
			case syntax != nil:
				return nil, x.fail(x.at, "%s", syntax.Msg)
			}
			return nil, x.fail(x.at, "%w", err)
		}
	}
}

// attributes are those of an element.
type attributes struct {
	x       *reader
	at      position
	element string
	values  map[string]string
	err     error
}

func (x *reader) attributes(e xml.StartElement) *attributes {
	a := &attributes{x, x.at, e.Name.Local, map[string]string{}, nil}
	for _, v := range e.Attr {
		if a.has(v.Name.Local) {
			a.fail("<%s> has a duplicate attribute %s", a.element, v.Name.Local)
		}
		a.values[v.Name.Local] = v.Value
	}
	return a
}

func (a *attributes) fail(format string, args ...any) {
	if a.err == nil {
		a.err = a.x.fail(a.at, format, args...)
	}
}

func (a *attributes) has(name string) bool {
	_, ok := a.values[name]
	return ok
}

func (a *attributes) text(name string) string {
	v, ok := a.values[name]
	if !ok {
		a.fail("<%s> has no attribute %s", a.element, name)
	}
	return v
}

func (a *attributes) number(name string, least, most int) int {
	v := a.text(name)
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		a.fail("<%s> %s=%q, must be %s", a.element, name, v, numbers(least, most))
	}
	if a.err != nil {
		return least
	}
	return n
}

// each calls f for every element inside the open one, which must all have a name.
func (x *reader) each(parent, name string, f func(a *attributes) error) error {
	for {
		t, err := x.token()
		if err != nil {
			return err
		}
		e, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		if e.Name.Local != name {
			return x.fail(x.at, "<%s> inside <%s>, must be <%s>", e.Name.Local, parent, name)
		}
		if err := f(x.attributes(e)); err != nil {
			return err
		}
	}
}

func readXML(file string, data []byte) (*Plan, error) {
	p, err := readPlaced(file, data, false)
	if err == nil && p.place != "" {
		p.OutOfPlace, err = readPlaced(file, data, true)
	}
	return p, err
}

// readPlaced reads a plan for one of its placements.
func readPlaced(file string, data []byte, outOfPlace bool) (*Plan, error) {
	x := &reader{file: file, outOfPlace: outOfPlace, decoder: xml.NewDecoder(bytes.NewReader(data)), gpus: map[int]bool{}}
	t, err := x.token()
	if err != nil {
		return nil, err
	}
	e, ok := t.(xml.StartElement)
	if !ok || e.Name.Local != "algo" {
		return nil, x.fail(x.at, "must begin with <algo>")
	}
	algo := x.attributes(e)
	if err := x.algo(algo); err != nil {
		return nil, err
	}
	if err := x.each("algo", "gpu", x.gpu); err != nil {
		return nil, err
	}
	if err := x.end(); err != nil {
		return nil, err
	}
	p := x.plan.Program
	if len(x.gpus) != p.Ranks {
		return nil, x.fail(algo.at, "ngpus=\"%d\", but there are %d elements <gpu>", p.Ranks, len(x.gpus))
	}
	if p.Scratch = x.layout.scratch + x.layout.spare; p.Ranks*(p.Chunks+p.Scratch) > mostSlots {
		return nil, x.fail(algo.at, "%d chunks and %d of scratch memory on each of %d ranks, must be at most %d in all", p.Chunks, p.Scratch, p.Ranks, mostSlots)
	}
	x.layout.place(p)
	return x.plan, nil
}

// end reads what follows the plan, which must be comments and white space alone.
func (x *reader) end() error {
	for {
		line, column := x.decoder.InputPos()
		switch t, err := x.decoder.Token(); {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil && blank(t):
		default:
			return x.fail(position{line, column}, "text after the plan")
		}
	}
}

// blank reports whether a token is a comment or white space.
func blank(t xml.Token) bool {
	switch t := t.(type) {
	case xml.Comment:
		return true
	case xml.CharData:
		return len(bytes.TrimSpace(t)) == 0
	}
	return false
}

// layout is where the buffers i, o and s of a plan are in the slots of a program.
type layout struct {
	collective schedule.Collective
	ranks      int
	chunks     int
	input      int // slots of scratch memory; 0 in place
	scratch    int // the same, with those of the largest buffer s
	spare      int // beyond them: what is sent without being stored
}

// newLayout returns the layout of a plan of so many chunks of the whole vector.
func newLayout(c schedule.Collective, ranks, chunks int, inPlace bool) layout {
	l := layout{collective: c, ranks: ranks, chunks: chunks}
	if !inPlace {
		l.input = l.size("i")
	}
	l.scratch = l.input
	return l
}

// size is the chunks of buffer i or o of a rank.
func (l *layout) size(buffer string) int {
	if l.collective == schedule.AllGather && buffer == "i" || l.collective == schedule.ReduceScatter && buffer == "o" {
		return l.chunks / l.ranks
	}
	return l.chunks
}

// slot is that of a chunk of a buffer of rank r.
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

// spared marks slot j of what is sent without being stored, which place moves behind all
// scratch memory when that is known.
const spared = 1 << 28

func (l *layout) place(p *schedule.Program) {
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

// where is the buffer and the chunk in it of a slot of rank r; the inverse of slot.
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

// xmlProtocols are those of MSCCL's runtimes.
var xmlProtocols = []string{"Simple", "LL", "LL128"}

// algo reads the head of the plan.
func (x *reader) algo(a *attributes) error {
	name, coll, protocol := a.text("name"), a.text("coll"), a.text("proto")
	if !slices.Contains(xmlProtocols, protocol) {
		a.fail("<algo> proto=%q, must be Simple, LL or LL128", protocol)
	}
	ranks := a.number("ngpus", 1, mostRanks)
	chunks := a.number("nchunksperloop", 1, mostSlots)
	x.channels = a.number("nchannels", 1, 256)
	least := 0
	if a.has("minBytes") {
		least = a.number("minBytes", 0, math.MaxInt64)
	}
	if a.has("maxBytes") && a.number("maxBytes", 0, math.MaxInt64) < least {
		a.fail("<algo> minBytes=%q is above maxBytes=%q: it would never be used", a.text("minBytes"), a.text("maxBytes"))
	}
	in := a.number("inplace", 0, 1) == 1
	out := !in
	if a.has("outofplace") {
		out = a.number("outofplace", 0, 1) == 1
	}
	if !in && !out {
		a.fail("<algo> has inplace=\"0\" and outofplace=\"0\": it would never be used")
	}
	c, known := collectives[strings.ToLower(coll)]
	if coll == oldReduceScatter {
		c, known = schedule.ReduceScatter, true
	}
	if !known {
		a.fail("<algo> coll=%q, must be allgather, allreduce, reducescatter or reduce_scatter", coll)
	}
	if c != schedule.AllReduce && chunks%ranks != 0 {
		a.fail("<algo> nchunksperloop=\"%d\", must be a multiple of ngpus=\"%d\"", chunks, ranks)
	}
	if a.err != nil {
		return a.err
	}
	x.layout = newLayout(c, ranks, chunks, in && !(out && x.outOfPlace))
	x.plan = &Plan{file: x.file, ops: make([][]position, ranks), Program: &schedule.Program{
		Name: name, Collective: c, Ranks: ranks, Chunks: chunks, Input: x.layout.input, Buffer: xmlBuffer, Ops: make([][]schedule.Op, ranks),
	}}
	switch {
	case in && out && x.outOfPlace:
		x.plan.place = "out of place"
	case in && out:
		x.plan.place = "in place"
	}
	if coll == oldReduceScatter {
		x.plan.note(a.at, "<algo> coll=%q: newer versions of MSCCL know reducescatter only, and refuse the plan", coll)
	}
	for _, name := range []string{"outofplace", "minBytes", "maxBytes"} {
		if !a.has(name) {
			x.plan.note(a.at, "<algo> has no attribute %s: newer versions of MSCCL do not use the plan and do not say so", name)
		}
	}
	return nil
}

func (x *reader) gpu(a *attributes) error {
	p := x.plan.Program
	r := a.number("id", 0, p.Ranks-1)
	scratch := a.number("s_chunks", 0, mostSlots)
	for _, buffer := range []string{"i", "o"} {
		// A buffer that is not used may have no chunks.
		if n := a.number(buffer+"_chunks", 0, mostSlots); a.err == nil && n != 0 && n != x.layout.size(buffer) {
			a.fail("<gpu> %s_chunks=\"%d\", must be %d in an %s of %d chunks", buffer, n, x.layout.size(buffer), p.Collective, p.Chunks)
		}
	}
	if a.err == nil && x.gpus[r] {
		a.fail("<gpu> id=\"%d\" is a duplicate", r)
	}
	if a.err != nil {
		return a.err
	}
	x.gpus[r] = true
	x.crowd = map[int]int{}
	x.layout.scratch = max(x.layout.scratch, x.layout.input+scratch)
	x.blocks, x.ends = nil, nil
	spare := 0
	err := x.each("gpu", "tb", func(a *attributes) error { return x.block(r, scratch, &spare, a) })
	if err != nil {
		return err
	}
	x.layout.spare = max(x.layout.spare, spare)
	for b := range x.blocks {
		for i := range x.blocks[b].steps {
			s := &x.blocks[b].steps[i]
			for _, d := range s.after {
				switch {
				case d.block >= len(x.blocks) || d.step >= len(x.blocks[d.block].steps):
					return x.fail(s.position, "<step> waits for step %d of thread block %d, which gpu %d does not have", d.step, d.block, r)
				case !x.ends[d.block][d.step].signals:
					return x.fail(s.position, "<step> waits for step %d of thread block %d, which has hasdep=\"0\" and tells nobody that it has ended", d.step, d.block)
				}
			}
		}
	}
	at, stuck := assemble(p, r, x.blocks)
	if stuck != nil {
		return x.fail(stuck.position, "<step> waits for steps of gpu %d that wait for it", r)
	}
	x.plan.ops[r] = at
	return nil
}

func (x *reader) block(r, scratch int, spare *int, a *attributes) error {
	id := a.number("id", 0, 255)
	send, receive := a.number("send", -1, x.plan.Program.Ranks-1), a.number("recv", -1, x.plan.Program.Ranks-1)
	channel := a.number("chan", 0, 255)
	if x.count++; x.count > mostBlocks {
		a.fail("more than %d thread blocks in all", mostBlocks)
	}
	if a.err == nil && channel >= x.channels {
		a.fail("<tb> chan=\"%d\", must be less than nchannels=\"%d\"", channel, x.channels)
	}
	if x.crowd[channel]++; x.crowd[channel] == xmlBlocks+1 {
		x.plan.note(a.at, "<tb> is one of more than %d thread blocks of channel %d on gpu %d: MSCCL refuses the plan", xmlBlocks, channel, r)
	}
	if a.err == nil && id != len(x.blocks) {
		a.fail("<tb> id=\"%d\", must be %d: thread blocks are numbered in order", id, len(x.blocks))
	}
	for _, peer := range []int{send, receive} {
		if a.err == nil && peer == r {
			a.fail("<tb> of gpu %d sends to or receives from itself", r)
		}
	}
	if a.err != nil {
		return a.err
	}
	x.blocks, x.ends = append(x.blocks, block{}), append(x.ends, nil)
	c := connection{r, send, receive, uint8(channel), scratch, spare}
	return x.each("tb", "step", func(a *attributes) error {
		s, err := x.step(&c, a)
		x.blocks[id].steps = append(x.blocks[id].steps, s)
		x.ends[id] = append(x.ends[id], stepEnd{a.values["hasdep"] == "1"})
		return err
	})
}

// connection is what the steps of a thread block have in common.
type connection struct {
	rank, send, receive int
	channel             uint8
	scratch             int  // chunks of buffer s
	spare               *int // slots of the rank for what is sent without being stored
}

// step reads a step of the last thread block.
func (x *reader) step(c *connection, a *attributes) (step, error) {
	s := step{position: a.at}
	id := len(x.blocks) - 1
	if n := a.number("s", 0, xmlSteps-1); a.err == nil && n != len(x.blocks[id].steps) {
		a.fail("<step> s=\"%d\", must be %d: steps are numbered in order", n, len(x.blocks[id].steps))
	}
	kind, count := a.text("type"), 0
	if kind != "nop" {
		count = a.number("cnt", 1, xmlCount)
	}
	if b := a.number("depid", -1, 255); b >= 0 {
		s.after = []stepOf{{b, a.number("deps", 0, xmlSteps-1)}}
		if b == id {
			a.fail("<step> depid=\"%d\" is its own thread block, whose steps run in order", b)
		}
	}
	a.number("hasdep", 0, 1)
	span := func(which string) schedule.Slot {
		buffer := a.text(which + "buf")
		size := c.scratch
		switch buffer {
		case "i", "o":
			size = x.layout.size(buffer)
		case "s":
		default:
			a.fail("<step> %sbuf=%q, must be i, o or s", which, buffer)
		}
		at := a.number(which+"off", 0, mostSlots)
		if a.err == nil && at+count > size {
			a.fail("<step> uses chunks %d to %d of buffer %s, which has %d", at, at+count-1, buffer, size)
		}
		return x.layout.slot(c.rank, buffer, at)
	}
	add := func(k schedule.Kind, src, dst schedule.Slot) {
		o := schedule.Op{Kind: k, Src: src, Dst: dst, Count: int32(count), Channel: c.channel}
		switch {
		case k == schedule.Send:
			if o.Peer = int32(c.send); c.send < 0 {
				a.fail("<step> type=%q in a thread block with send=\"-1\"", kind)
			}
		case k != schedule.Copy && k != schedule.Reduce:
			if o.Peer = int32(c.receive); c.receive < 0 {
				a.fail("<step> type=%q in a thread block with recv=\"-1\"", kind)
			}
		default:
			o.Channel = 0
		}
		s.ops = append(s.ops, o)
	}
	switch kind {
	case "nop":
	case "s":
		add(schedule.Send, span("src"), 0)
	case "r":
		add(schedule.Recv, 0, span("dst"))
	case "cpy":
		add(schedule.Copy, span("src"), span("dst"))
	case "re":
		add(schedule.Reduce, span("src"), span("dst"))
	case "rcs":
		to := span("dst")
		add(schedule.Recv, 0, to)
		add(schedule.Send, to, 0)
	case "rrc", "rrcs", "rrs":
		from := span("src")
		var to schedule.Slot
		if kind == "rrs" {
			to = schedule.Scratch(spared + *c.spare)
			*c.spare += count
		} else {
			to = span("dst")
		}
		if from != to {
			add(schedule.Copy, from, to)
		}
		add(schedule.RecvReduce, 0, to)
		if kind != "rrc" {
			add(schedule.Send, to, 0)
		}
	default:
		a.fail("<step> type=%q, must be s, r, cpy, re, rcs, rrc, rrcs, rrs or nop", kind)
	}
	if a.err != nil {
		return s, a.err
	}
	return s, x.each("step", "nothing", func(*attributes) error { return nil })
}
