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

// ForMSCCL returns a program that does the same with what MSCCL has: no groups, buffered
// sends, and streams that are thread blocks with at most one rank that they send to and one
// that they receive from. The ops of a group go to different thread blocks where they can,
// and alternate between sends and receives where they cannot.
func ForMSCCL(p *schedule.Program) (*schedule.Program, error) {
	if p.Buffer == xmlBuffer {
		return p, nil // as it was read
	}
	q := *p
	q.Buffer = xmlBuffer
	return lower(p, &q, func(o *schedule.Op) error {
		switch o.Kind {
		case schedule.Send, schedule.Recv, schedule.RecvReduce, schedule.Reduce, schedule.Copy:
		default:
			return fmt.Errorf("a %s: MSCCL has sends and receives only", o.Kind)
		}
		return nil
	})
}

// lower splits the streams of p into thread blocks of q.
func lower(p, q *schedule.Program, refuse func(o *schedule.Op) error) (*schedule.Program, error) {
	to := &schedule.Program{
		Name: q.Name, Collective: q.Collective, Ranks: q.Ranks, Chunks: q.Chunks, Scratch: q.Scratch,
		Input: q.Input, Buffer: q.Buffer, Ops: make([][]schedule.Op, q.Ranks),
	}
	for r, ops := range p.Ops {
		for i := range ops {
			if err := refuse(&ops[i]); err != nil {
				return nil, fmt.Errorf("program %s has, on rank %d as op %d, %w", p.Name, r, i, err)
			}
		}
		blocks := threadBlocks(p, r)
		if len(blocks) > 256 {
			return nil, fmt.Errorf("program %s needs %d thread blocks on rank %d, must be at most 256", p.Name, len(blocks), r)
		}
		if _, stuck := assemble(to, r, blocks); stuck != nil {
			return nil, fmt.Errorf("program %s has ops of rank %d that wait for each other", p.Name, r)
		}
	}
	return to, nil
}

// threadBlocks returns the thread blocks of rank r.
func threadBlocks(p *schedule.Program, r int) []block {
	l := &lowered{last: make([]stepOf, len(p.Ops[r]))}
	type line struct{ stream, channel uint8 }
	type ends struct{ sends, receives, blocks []int }
	lines := map[line]*ends{}
	// blockOf is that of an op: the i-th rank that a stream sends to shares it with the i-th
	// that it receives from.
	used := 0
	blockOf := func(o *schedule.Op) int {
		e := lines[line{o.Stream, o.Channel}]
		if e == nil {
			e = &ends{}
			lines[line{o.Stream, o.Channel}] = e
		}
		i := 0
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
			e.blocks = append(e.blocks, used)
			used++
		}
		return e.blocks[i]
	}
	before := map[uint8][]stepOf{} // by stream: the ends of the node before
	ops := p.Ops[r]
	for from, to := 0, 0; from < len(ops); from = to {
		to = nodeEnd(ops, from)
		after := slices.Clone(before[ops[from].Stream])
		byBlock := map[int][2][]int{} // sends and others of a block
		var order []int
		for i := from; i < to; i++ {
			for _, d := range p.Deps(&ops[i]) {
				after = append(after, l.last[d])
			}
			b, kind := blockOf(&ops[i]), 1
			if ops[i].Kind == schedule.Send {
				kind = 0
			}
			both, ok := byBlock[b]
			if !ok {
				order = append(order, b)
			}
			both[kind] = append(both[kind], i)
			byBlock[b] = both
		}
		after = latest(after)
		var node []stepOf
		for _, b := range order {
			both := byBlock[b]
			for k := range max(len(both[0]), len(both[1])) {
				for _, list := range both {
					if k < len(list) {
						l.last[list[k]] = l.add(b, ops[list[k]], after)
						node = append(node, l.last[list[k]])
					}
				}
			}
		}
		before[ops[from].Stream] = latest(node)
	}
	return l.blocks
}

// writeXML writes a program as a plan of MSCCL.
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

// nameOf is the name of a collective in plans.
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

// fused are the steps that send at once what they receive.
var fused = map[string]string{"r": "rcs", "rrc": "rrcs"}

// writeBlocks writes the thread blocks of rank r.
func writeBlocks(w io.Writer, p *schedule.Program, r int, l *layout) error {
	ops := p.Ops[r]
	type written struct {
		kind, text string
		op         int // that it ends with
		after      int // op; −1 is none
	}
	type tb struct {
		send, receive, channel int
		steps                  []written
	}
	var tbs []tb
	waited := make([]bool, len(ops)) // for the op
	for i := range ops {
		for _, d := range p.Deps(&ops[i]) {
			waited[d] = true
		}
	}
	stepAt := make([]stepOf, len(ops))
	const nop = `srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"`
	for i := range ops {
		o := &ops[i]
		for len(tbs) <= int(o.Stream) {
			tbs = append(tbs, tb{-1, -1, -1, nil})
		}
		t := &tbs[o.Stream]
		src, dst := o.Src, o.Dst
		var kind string
		switch o.Kind {
		case schedule.Send:
			kind, dst = "s", src
			if t.send >= 0 && t.send != int(o.Peer) {
				return fmt.Errorf("stream %d sends to ranks %d and %d", o.Stream, t.send, o.Peer)
			}
			t.send = int(o.Peer)
		case schedule.Recv, schedule.RecvReduce:
			kind, src = "r", dst
			if o.Kind == schedule.RecvReduce {
				kind = "rrc"
			}
			if t.receive >= 0 && t.receive != int(o.Peer) {
				return fmt.Errorf("stream %d receives from ranks %d and %d", o.Stream, t.receive, o.Peer)
			}
			t.receive = int(o.Peer)
		case schedule.Copy:
			kind = "cpy"
		default:
			kind = "re"
		}
		if o.Kind == schedule.Send || o.Kind == schedule.Recv || o.Kind == schedule.RecvReduce {
			if t.channel >= 0 && t.channel != int(o.Channel) {
				return fmt.Errorf("stream %d uses channels %d and %d", o.Stream, t.channel, o.Channel)
			}
			t.channel = int(o.Channel)
		}
		if o.Count > xmlCount {
			return fmt.Errorf("a step has %d chunks, MSCCL allows %d: take fewer ranks", o.Count, xmlCount)
		}
		deps := p.Deps(o)
		if n := len(t.steps); kind == "s" && n > 0 && len(deps) == 0 && fused[t.steps[n-1].kind] != "" {
			last := &t.steps[n-1]
			if before := &ops[last.op]; !waited[last.op] && before.Dst == o.Src && before.Count == o.Count {
				last.kind, last.op = fused[last.kind], i
				stepAt[i] = stepOf{int(o.Stream), n - 1}
				continue
			}
		}
		after := -1
		for k, d := range deps {
			if after = int(d); k < len(deps)-1 {
				t.steps = append(t.steps, written{"nop", nop, -1, after})
			}
		}
		from, at := l.where(r, src)
		to, there := l.where(r, dst)
		stepAt[i] = stepOf{int(o.Stream), len(t.steps)}
		t.steps = append(t.steps, written{kind, fmt.Sprintf(`srcbuf="%s" srcoff="%d" dstbuf="%s" dstoff="%d" cnt="%d"`, from, at, to, there, o.Count), i, after})
	}
	perChannel := map[int]int{}
	for b, t := range tbs {
		t.channel = max(0, t.channel)
		if perChannel[t.channel]++; perChannel[t.channel] > xmlBlocks {
			return fmt.Errorf("channel %d needs more than the %d thread blocks that MSCCL allows: take fewer ranks", t.channel, xmlBlocks)
		}
		if len(t.steps) > xmlSteps {
			return fmt.Errorf("thread block %d has %d steps, MSCCL allows %d: take fewer ranks or segments", b, len(t.steps), xmlSteps)
		}
		fmt.Fprintf(w, "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", b, t.send, t.receive, t.channel)
		for n, s := range t.steps {
			depends, step := -1, -1
			if s.after >= 0 {
				depends, step = stepAt[s.after].block, stepAt[s.after].step
			}
			has := 0
			if s.op >= 0 && waited[s.op] {
				has = 1
			}
			fmt.Fprintf(w, "      <step s=\"%d\" type=\"%s\" %s depid=\"%d\" deps=\"%d\" hasdep=\"%d\"/>\n", n, s.kind, s.text, depends, step, has)
		}
		fmt.Fprintln(w, "    </tb>")
	}
	return nil
}
