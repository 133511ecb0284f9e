package planfile

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// ForMSCCL returns an equivalent program that MSCCL can express. It has no op groups, its sends are
// buffered, and its streams are thread blocks. A thread block sends to at most one rank and receives
// from at most one. Ops of a group with different peers go to different thread blocks; sends and
// receives that share a thread block alternate. ForMSCCL returns p itself if it was read from a plan
// of MSCCL. It fails if p has ops that are not sends, receives, copies or sums, or if a rank needs
// more than 256 thread blocks.
func ForMSCCL(p *schedule.Program) (*schedule.Program, error) {
	if p.Buffer == xmlBuffer {
		return p, nil // read from a plan of MSCCL
	}
	q := &schedule.Program{
		Name: p.Name, Collective: p.Collective, Ranks: p.Ranks, Chunks: p.Chunks, Scratch: p.Scratch,
		Input: p.Input, Buffer: xmlBuffer, Ops: make([][]schedule.Op, p.Ranks),
	}
	for r, ops := range p.Ops {
		for i := range ops {
			if k := ops[i].Kind; xmlKinds[k] == "" {
				return nil, fmt.Errorf("program %s has a %s (op %d of rank %d): plans of MSCCL support only sends, receives, copies and sums", p.Name, k, i, r)
			}
		}
		blocks := threadBlocks(p, r)
		if len(blocks) > 256 {
			return nil, fmt.Errorf("program %s needs %d thread blocks on rank %d, must be at most 256", p.Name, len(blocks), r)
		}
		if _, stuck := assemble(q, r, blocks); stuck != nil {
			return nil, fmt.Errorf("program %s has ops of rank %d that wait for each other", p.Name, r)
		}
	}
	return q, nil
}

// connections are the peers of a stream over a channel, and its thread blocks. Thread block i sends
// to the i-th peer of sends and receives from the i-th of receives.
type connections struct{ sends, receives, blocks []int }

// blockAssigner assigns thread blocks to the ops of a rank.
type blockAssigner struct {
	byStream map[[2]uint8]*connections // by stream and channel
	used     int                       // number of thread blocks
}

// block returns the number of an op's thread block.
func (l *blockAssigner) block(o *schedule.Op) int {
	key := [2]uint8{o.Stream, o.Channel}
	if l.byStream[key] == nil {
		l.byStream[key] = &connections{}
	}
	e, i := l.byStream[key], 0
	if o.Kind != schedule.Reduce && o.Kind != schedule.Copy {
		peers := &e.receives
		if o.Kind == schedule.Send {
			peers = &e.sends
		}
		if i = slices.Index(*peers, int(o.Peer)); i < 0 {
			i = len(*peers)
			*peers = append(*peers, int(o.Peer))
		}
	}
	for len(e.blocks) <= i {
		e.blocks = append(e.blocks, l.used)
		l.used++
	}
	return e.blocks[i]
}

// threadBlocks returns the thread blocks of rank r.
func threadBlocks(p *schedule.Program, r int) []threadBlock {
	l, assigner := &lowered{last: make([]stepOf, len(p.Ops[r]))}, blockAssigner{byStream: map[[2]uint8]*connections{}}
	before := map[uint8][]stepOf{} // by stream: the last steps of its previous group
	ops := p.Ops[r]
	for from, to := 0, 0; from < len(ops); from = to {
		to = schedule.NodeEnd(ops, from)
		after := slices.Clone(before[ops[from].Stream])
		byBlock := map[int][2][]int{} // by thread block: its sends, and its other ops
		var used []int                // thread blocks in the order of their first op
		for i := from; i < to; i++ {
			for _, d := range p.Deps(&ops[i]) {
				after = append(after, l.last[d])
			}
			b, kind := assigner.block(&ops[i]), 1
			if ops[i].Kind == schedule.Send {
				kind = 0
			}
			both, ok := byBlock[b]
			if !ok {
				used = append(used, b)
			}
			both[kind] = append(both[kind], i)
			byBlock[b] = both
		}
		after = latest(after)
		var group []stepOf
		for _, b := range used {
			both := byBlock[b]
			for k := range max(len(both[0]), len(both[1])) {
				for _, list := range both {
					if k < len(list) {
						l.last[list[k]] = l.add(b, ops[list[k]], after)
						group = append(group, l.last[list[k]])
					}
				}
			}
		}
		before[ops[from].Stream] = latest(group)
	}
	return l.blocks
}

// writeXML writes a program as a plan of MSCCL. It fails if ForMSCCL does, or if a channel, a thread
// block or a step exceeds a limit of MSCCL.
func writeXML(out io.Writer, p *schedule.Program) error {
	p, err := ForMSCCL(p)
	if err != nil {
		return err
	}
	channels := 1
	for _, ops := range p.Ops {
		for i := range ops {
			channels = max(channels, int(ops[i].Channel)+1)
		}
	}
	inPlace := 1
	if p.Input > 0 {
		inPlace = 0
	}
	l := newLayout(p.Collective, p.Ranks, p.Chunks, inPlace == 1)
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "<algo name=%s proto=\"Simple\" nchannels=\"%d\" nchunksperloop=\"%d\" ngpus=\"%d\" coll=\"%s\" inplace=\"%d\" outofplace=\"%d\" minBytes=\"0\" maxBytes=\"1099511627776\">\n",
		quote(p.Name), channels, p.Chunks, p.Ranks, nameOf(p.Collective), inPlace, 1-inPlace)
	for r := range p.Ops {
		fmt.Fprintf(w, "  <gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%d\" s_chunks=\"%d\">\n", r, l.size("i"), l.size("o"), p.Scratch-p.Input)
		if err := writeBlocks(w, p, r, &l); err != nil {
			return fmt.Errorf("program %s, rank %d: %w", p.Name, r, err)
		}
		fmt.Fprintln(w, "  </gpu>")
	}
	fmt.Fprintln(w, "</algo>")
	return w.Flush()
}

// nameOf returns the name of a collective in plans.
func nameOf(c schedule.Collective) string {
	for name, named := range collectives {
		if named == c {
			return name
		}
	}
	return ""
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	_ = xml.EscapeText(&b, []byte(s))
	b.WriteByte('"')
	return b.String()
}

// xmlStep is a step to be written.
type xmlStep struct {
	kind, spans string
	op          int // the last op of the step; −1 for a nop
	after       int // the op that the step waits for; −1 for none
}

// xmlBlock is a thread block to be written. Peers and channel are −1 until a step sets them.
type xmlBlock struct {
	send, receive, channel int
	steps                  []xmlStep
}

// xmlWriter writes the thread blocks of a rank.
type xmlWriter struct {
	*schedule.Program
	layout *layout
	rank   int
	waited []bool   // by op: whether another op waits for it
	at     []stepOf // by op: its step
	blocks []xmlBlock
}

// writeBlocks writes the thread blocks of rank r.
func writeBlocks(w io.Writer, p *schedule.Program, r int, l *layout) error {
	x := &xmlWriter{Program: p, layout: l, rank: r, waited: make([]bool, len(p.Ops[r])), at: make([]stepOf, len(p.Ops[r]))}
	for i := range p.Ops[r] {
		for _, d := range p.Deps(&p.Ops[r][i]) {
			x.waited[d] = true
		}
	}
	for i := range p.Ops[r] {
		if err := x.add(i); err != nil {
			return err
		}
	}
	perChannel := map[int]int{}
	for b := range x.blocks {
		t := &x.blocks[b]
		t.channel = max(0, t.channel)
		if perChannel[t.channel]++; perChannel[t.channel] > xmlBlocks {
			return fmt.Errorf("channel %d needs more than the %d thread blocks that MSCCL allows: use fewer ranks", t.channel, xmlBlocks)
		}
		if len(t.steps) > xmlSteps {
			return fmt.Errorf("thread block %d has %d steps, MSCCL allows %d: use fewer ranks or segments", b, len(t.steps), xmlSteps)
		}
		x.write(w, b, t)
	}
	return nil
}

// xmlKinds maps a kind of op to the type of its step.
var xmlKinds = map[schedule.Kind]string{
	schedule.Send: "s", schedule.Recv: "r", schedule.RecvReduce: "rrc", schedule.Copy: "cpy", schedule.Reduce: "re",
}

// fused maps the type of a receiving step to the type of a step that also sends what it received.
var fused = map[string]string{"r": "rcs", "rrc": "rrcs"}

// add appends the step of op i. If the op sends exactly what the last step received, add fuses it
// into that step instead.
func (x *xmlWriter) add(i int) error {
	ops := x.Ops[x.rank]
	o := &ops[i]
	for len(x.blocks) <= int(o.Stream) {
		x.blocks = append(x.blocks, xmlBlock{-1, -1, -1, nil})
	}
	t := &x.blocks[o.Stream]
	src, dst := o.Src, o.Dst
	var err error
	switch o.Kind {
	case schedule.Send:
		dst = src
		err = t.use(o, &t.send, "sends to")
	case schedule.Recv, schedule.RecvReduce:
		src = dst
		err = t.use(o, &t.receive, "receives from")
	}
	if err != nil {
		return err
	}
	if o.Count > xmlCount {
		return fmt.Errorf("a step has %d chunks, MSCCL allows %d: use fewer ranks", o.Count, xmlCount)
	}
	deps := x.Deps(o)
	if n := len(t.steps); o.Kind == schedule.Send && n > 0 && len(deps) == 0 && fused[t.steps[n-1].kind] != "" {
		last := &t.steps[n-1]
		if before := &ops[last.op]; !x.waited[last.op] && before.Dst == o.Src && before.Count == o.Count {
			last.kind, last.op = fused[last.kind], i
			x.at[i] = stepOf{int(o.Stream), n - 1}
			return nil
		}
	}
	after := -1
	for k, d := range deps {
		if after = int(d); k < len(deps)-1 { // a step can wait for one op only
			t.steps = append(t.steps, xmlStep{"nop", `srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"`, -1, after})
		}
	}
	from, at := x.layout.where(x.rank, src)
	to, there := x.layout.where(x.rank, dst)
	x.at[i] = stepOf{int(o.Stream), len(t.steps)}
	t.steps = append(t.steps, xmlStep{xmlKinds[o.Kind], fmt.Sprintf(`srcbuf="%s" srcoff="%d" dstbuf="%s" dstoff="%d" cnt="%d"`, from, at, to, there, o.Count), i, after})
	return nil
}

// use records an op's peer in end, which is t.send or t.receive, and its channel in t. It fails if t
// already has another peer there or another channel.
func (t *xmlBlock) use(o *schedule.Op, end *int, does string) error {
	switch {
	case *end >= 0 && *end != int(o.Peer):
		return fmt.Errorf("stream %d %s ranks %d and %d", o.Stream, does, *end, o.Peer)
	case t.channel >= 0 && t.channel != int(o.Channel):
		return fmt.Errorf("stream %d uses channels %d and %d", o.Stream, t.channel, o.Channel)
	}
	*end, t.channel = int(o.Peer), int(o.Channel)
	return nil
}

// write writes thread block b.
func (x *xmlWriter) write(w io.Writer, b int, t *xmlBlock) {
	fmt.Fprintf(w, "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", b, t.send, t.receive, t.channel)
	for n, s := range t.steps {
		after, has := stepOf{-1, -1}, 0
		if s.after >= 0 {
			after = x.at[s.after]
		}
		if s.op >= 0 && x.waited[s.op] {
			has = 1
		}
		fmt.Fprintf(w, "      <step s=\"%d\" type=\"%s\" %s depid=\"%d\" deps=\"%d\" hasdep=\"%d\"/>\n", n, s.kind, s.spans, after.block, after.step, has)
	}
	fmt.Fprintln(w, "    </tb>")
}
