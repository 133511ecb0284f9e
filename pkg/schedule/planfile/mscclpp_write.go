package planfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// ForMSCCLPP returns an equivalent program that MSCCL++ can express. A receive signals that its
// memory is free. Its send waits for this signal, puts the data there and signals in turn. Data that a
// receive adds is put into scratch memory and added from there. ForMSCCLPP returns p itself if it has
// no sends. It fails if p buffers sends or is invalid, or if two ranks need more than 128 channels.
func ForMSCCLPP(p *schedule.Program) (*schedule.Program, error) {
	if p.Buffer > 0 {
		return nil, fmt.Errorf("program %s needs buffered sends, as plans of MSCCL do, and MSCCL++ has none: convert a schedule by its name, or another plan", p.Name)
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	twoSided := false
	for _, ops := range p.Ops {
		twoSided = twoSided || slices.ContainsFunc(ops, func(o schedule.Op) bool { return o.Kind == schedule.Send })
	}
	if !twoSided {
		return p, nil // read from a plan of MSCCL++
	}
	l := &oneSided{Program: p, flow: schedule.NewFlow(p), lines: map[[2]int][]int{}, staged: make([][]int, p.Ranks)}
	l.prepare()
	q := &schedule.Program{
		Name: p.Name, Collective: p.Collective, Ranks: p.Ranks, Chunks: p.Chunks, Scratch: l.scratch, Input: p.Input, Ops: make([][]schedule.Op, p.Ranks),
	}
	for r := range p.Ops {
		if _, stuck := assemble(q, r, l.blocks(r)); stuck != nil {
			return nil, fmt.Errorf("program %s has ops of rank %d that wait for each other", p.Name, r)
		}
	}
	for pair, lines := range l.lines {
		if len(lines) > 128 {
			return nil, fmt.Errorf("program %s needs %d channels between ranks %d and %d, must be at most 128", p.Name, len(lines), pair[0], pair[1])
		}
	}
	return q, nil
}

// oneSided turns messages into puts and signals.
type oneSided struct {
	*schedule.Program
	flow    *schedule.Flow
	lines   map[[2]int][]int // by two ranks: the lines of their messages, ascending
	staged  [][]int          // by rank and op: the scratch slot of the data that it adds
	scratch int              // scratch slots of a rank, including staging memory
}

// line returns a number for the messages of a channel in one direction.
func line(from, to, channel int) int {
	if from < to {
		return 2 * channel
	}
	return 2*channel + 1
}

// prepare assigns staging memory to receives that add, and lists the lines of each two ranks.
func (l *oneSided) prepare() {
	var width []int // by stream: staging slots of its largest group
	for r, ops := range l.Ops {
		l.staged[r] = make([]int, len(ops))
		for from, to := 0, 0; from < len(ops); from = to {
			to = schedule.NodeEnd(ops, from)
			used := 0
			for i := from; i < to; i++ {
				o := &ops[i]
				if o.Kind == schedule.RecvReduce {
					l.staged[r][i] = used
					used += int(o.Count)
				}
				if o.Kind == schedule.Send {
					pair := [2]int{min(r, int(o.Peer)), max(r, int(o.Peer))}
					l.lines[pair] = append(l.lines[pair], line(r, int(o.Peer), int(o.Channel)))
				}
			}
			for len(width) <= int(ops[from].Stream) {
				width = append(width, 0)
			}
			width[ops[from].Stream] = max(width[ops[from].Stream], used)
		}
	}
	for pair, lines := range l.lines {
		slices.Sort(lines)
		l.lines[pair] = slices.Compact(lines)
	}
	base := make([]int, len(width))
	l.scratch = l.Scratch
	for s, w := range width {
		base[s] = l.scratch
		l.scratch += w
	}
	for r, ops := range l.Ops {
		for i := range ops {
			l.staged[r][i] += base[ops[i].Stream]
		}
	}
}

// channel returns the channel of the new program for messages from one rank to another over a
// channel of the old one.
func (l *oneSided) channel(from, to int, channel uint8) uint8 {
	at, _ := slices.BinarySearch(l.lines[[2]int{min(from, to), max(from, to)}], line(from, to, int(channel)))
	return channelOf(0, at)
}

// blocks returns the streams of rank r, with signals and puts in place of messages.
func (l *oneSided) blocks(r int) []threadBlock {
	out := &lowered{last: make([]stepOf, len(l.Ops[r]))}
	ops := l.Ops[r]
	for from, to := 0, 0; from < len(ops); from = to {
		to = schedule.NodeEnd(ops, from)
		b := int(ops[from].Stream)
		var after []stepOf
		for i := from; i < to; i++ {
			for _, d := range l.Deps(&ops[i]) {
				after = append(after, out.last[d])
			}
		}
		after = latest(after)
		add := func(i int, o schedule.Op) { out.last[i] = out.add(b, o, after) }
		each := func(kinds []schedule.Kind, f func(i int, o *schedule.Op)) {
			for i := from; i < to; i++ {
				if slices.Contains(kinds, ops[i].Kind) {
					f(i, &ops[i])
				}
			}
		}
		receives := []schedule.Kind{schedule.Recv, schedule.RecvReduce}
		each(receives, func(i int, o *schedule.Op) {
			add(i, schedule.Op{Kind: schedule.Signal, Peer: o.Peer, Channel: l.channel(int(o.Peer), r, o.Channel)})
		})
		each([]schedule.Kind{schedule.Send}, func(i int, o *schedule.Op) {
			q, c := int(o.Peer), l.channel(r, int(o.Peer), o.Channel)
			k := l.flow.Partner(r, i)
			if k < 0 {
				return // no receive matches; verification reports this
			}
			dst := l.Ops[q][k].Dst
			if l.Ops[q][k].Kind == schedule.RecvReduce {
				dst = schedule.Scratch(l.staged[q][k])
			}
			add(i, schedule.Op{Kind: schedule.Wait, Peer: o.Peer, Channel: c})
			add(i, schedule.Op{Kind: schedule.Put, Src: o.Src, Dst: dst, Count: o.Count, Peer: o.Peer, Channel: c})
			add(i, schedule.Op{Kind: schedule.Signal, Peer: o.Peer, Channel: c})
		})
		each(receives, func(i int, o *schedule.Op) {
			add(i, schedule.Op{Kind: schedule.Wait, Peer: o.Peer, Channel: l.channel(int(o.Peer), r, o.Channel)})
			if o.Kind == schedule.RecvReduce {
				add(i, schedule.Op{Kind: schedule.Reduce, Src: schedule.Scratch(l.staged[r][i]), Dst: o.Dst, Count: o.Count})
			}
		})
		each([]schedule.Kind{schedule.Reduce, schedule.Copy}, func(i int, o *schedule.Op) { add(i, *o) })
	}
	return out.blocks
}

// The JSON of a plan, as MSCCL++ writes it.
type (
	planJSON struct {
		Name       string    `json:"name"`
		Collective string    `json:"collective"`
		Protocol   string    `json:"protocol"`
		InPlace    bool      `json:"inplace"`
		Reuse      bool      `json:"reuse_resources"`
		GPUs       []gpuJSON `json:"gpus"`
		Threads    int       `json:"num_threads_per_block"`
		Double     bool      `json:"use_double_scratch_buffer"`
		Alignment  int       `json:"buffer_alignment"`
		MinSize    uint64    `json:"min_message_size"`
		MaxSize    uint64    `json:"max_message_size"`
	}
	gpuJSON struct {
		ID         int             `json:"id"`
		Input      int             `json:"input_chunks"`
		Output     int             `json:"output_chunks"`
		Scratch    int             `json:"scratch_chunks"`
		Blocks     []blockJSON     `json:"threadblocks"`
		Channels   []channelsJSON  `json:"channels"`
		Remotes    []remoteJSON    `json:"remote_buffers"`
		Semaphores []semaphoreJSON `json:"semaphores"`
	}
	channelsJSON struct {
		Type      string `json:"channel_type"`
		Connected []int  `json:"connected_to"`
	}
	remoteJSON struct {
		Rank   int      `json:"rank"`
		Type   string   `json:"type"`
		Access []string `json:"access_channel_types"`
	}
	semaphoreJSON struct {
		Initial int `json:"init_value"`
	}
	blockJSON struct {
		ID       int        `json:"id"`
		Ops      []opJSON   `json:"ops"`
		Channels []usedJSON `json:"channels"`
		Remotes  []refsJSON `json:"remote_buffer_refs"`
	}
	usedJSON struct {
		Type string `json:"channel_type"`
		IDs  []int  `json:"channel_ids"`
	}
	refsJSON struct {
		Type string `json:"access_channel_type"`
		IDs  []int  `json:"remote_buffer_ids"`
	}
	opJSON struct {
		Name       string     `json:"name"`
		Src        []spanJSON `json:"src_buff,omitempty"`
		Dst        []spanJSON `json:"dst_buff,omitempty"`
		Channels   []int      `json:"channel_ids,omitempty"`
		Type       string     `json:"channel_type,omitempty"`
		Reduce     string     `json:"reduce_op,omitempty"`
		Semaphores []int      `json:"semaphore_ids,omitempty"`
	}
	spanJSON struct {
		Buffer *int   `json:"buffer_id,omitempty"`
		Type   string `json:"type,omitempty"`
		Index  int    `json:"index"`
		Size   int    `json:"size"`
	}
)

// writeJSON writes a program as a plan of MSCCL++. It fails if ForMSCCLPP does, or if a thread block
// exceeds a limit of MSCCL++.
func writeJSON(out io.Writer, p *schedule.Program) error {
	p, err := ForMSCCLPP(p)
	if err != nil {
		return err
	}
	form := planJSON{
		Name: p.Name, Collective: nameOf(p.Collective), Protocol: "Simple", InPlace: p.Input == 0, Threads: 1024, Alignment: 16, MaxSize: math.MaxUint64,
	}
	w := &jsonWriter{Program: p, layout: newLayout(p.Collective, p.Ranks, p.Chunks, p.Input == 0), ends: map[[2]int][2]int{}}
	w.connect()
	for r := range p.Ops {
		g, err := w.gpu(r)
		if err != nil {
			return fmt.Errorf("program %s, rank %d: %w", p.Name, r, err)
		}
		form.GPUs = append(form.GPUs, g)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(form)
}

// overChannel reports whether an op names its channel. A GetReduce names only the remote buffer.
func overChannel(o *schedule.Op) bool {
	return o.Kind != schedule.Reduce && o.Kind != schedule.Copy && o.Kind != schedule.GetReduce
}

// remoteSlot returns the slot of another rank that an op reads or writes; ok is false if there is none.
func remoteSlot(o *schedule.Op) (s schedule.Slot, ok bool) {
	switch o.Kind {
	case schedule.Put:
		return o.Dst, true
	case schedule.Get, schedule.GetReduce:
		return o.Src, true
	}
	return 0, false
}

// jsonWriter writes the gpus of a plan.
type jsonWriter struct {
	*schedule.Program
	layout layout
	ends   map[[2]int][2]int // by two ranks: the number of channels of each type between them
}

// connect counts the channels between ranks.
func (w *jsonWriter) connect() {
	for r, ops := range w.Ops {
		for i := range ops {
			if o := &ops[i]; overChannel(o) {
				for _, pair := range [][2]int{{r, int(o.Peer)}, {int(o.Peer), r}} {
					n := w.ends[pair]
					n[o.Channel%2] = max(n[o.Channel%2], int(o.Channel/2)+1)
					w.ends[pair] = n
				}
			}
		}
	}
}

// gpu returns the JSON of rank r.
func (w *jsonWriter) gpu(r int) (gpuJSON, error) {
	g := &gpuWriter{jsonWriter: w, rank: r, first: [2]map[int]int{{}, {}}, form: gpuJSON{
		ID: r, Input: w.layout.size("i"), Output: w.layout.size("o"), Scratch: w.Scratch - w.Input,
		Blocks: []blockJSON{}, Channels: []channelsJSON{}, Remotes: []remoteJSON{}, Semaphores: []semaphoreJSON{},
	}}
	g.connections()
	streams := 0
	for i := range w.Ops[r] {
		streams = max(streams, int(w.Ops[r][i].Stream)+1)
	}
	g.semaphores(streams)
	for b := range streams {
		t := g.block(b)
		if n := len(t.form.Ops); n > jsonOps {
			return g.form, fmt.Errorf("thread block %d has %d ops, MSCCL++ allows %d: use fewer ranks or segments, or write a plan of MSCCL", b, n, jsonOps)
		}
		if n := len(t.channels[0]) + len(t.channels[1]); n > jsonChannels {
			return g.form, fmt.Errorf("thread block %d has %d channels, MSCCL++ allows %d: use fewer ranks, or write a plan of MSCCL", b, n, jsonChannels)
		}
		g.form.Blocks = append(g.form.Blocks, t.form)
	}
	return g.form, nil
}

// gpuWriter writes the thread blocks of a rank.
type gpuWriter struct {
	*jsonWriter
	rank     int
	form     gpuJSON
	first    [2]map[int]int // by type and peer: the number of the first channel to the peer
	remotes  []remote
	released [][]int // by op: the semaphores that it releases when it has ended
	acquired [][]int // by op: the semaphores that it acquires before it starts
}

// connections lists the channels of the rank and the buffers of other ranks that it uses.
func (g *gpuWriter) connections() {
	for kind, name := range channelTypes {
		c := channelsJSON{Type: name}
		for q := range g.Ranks {
			g.first[kind][q] = len(c.Connected)
			c.Connected = append(c.Connected, slices.Repeat([]int{q}, g.ends[[2]int{g.rank, q}][kind])...)
		}
		if len(c.Connected) > 0 {
			g.form.Channels = append(g.form.Channels, c)
		}
	}
	via := map[remote][2]bool{} // by buffer and type: whether a channel of the type reaches it
	for i := range g.Ops[g.rank] {
		o := &g.Ops[g.rank][i]
		if m, ok := g.remote(o); ok {
			types := via[m]
			types[o.Channel%2] = true
			via[m] = types
		}
	}
	g.remotes = slices.SortedFunc(maps.Keys(via), func(a, b remote) int { return cmp.Or(a.rank-b.rank, cmp.Compare(a.buffer, b.buffer)) })
	for _, m := range g.remotes {
		f := remoteJSON{Rank: m.rank, Type: m.buffer}
		for kind, name := range channelTypes {
			if via[m][kind] {
				f.Access = append(f.Access, name)
			}
		}
		g.form.Remotes = append(g.form.Remotes, f)
	}
}

// remote returns the buffer of another rank that an op reads or writes; ok is false if there is none.
func (g *gpuWriter) remote(o *schedule.Op) (m remote, ok bool) {
	slot, ok := remoteSlot(o)
	if ok {
		m.rank = int(o.Peer)
		m.buffer, _ = g.layout.where(m.rank, slot)
	}
	return m, ok
}

// channel returns the number of an op's channel among the rank's channels of the same type.
func (g *gpuWriter) channel(o *schedule.Op) int {
	return g.first[o.Channel%2][int(o.Peer)] + int(o.Channel/2)
}

// semaphores assigns a semaphore to each pair of thread blocks in which one waits for the other.
func (g *gpuWriter) semaphores(streams int) {
	ops := g.Ops[g.rank]
	g.released, g.acquired = make([][]int, len(ops)), make([][]int, len(ops))
	type pair struct{ from, to uint8 }
	ids, known := map[pair]int{}, map[pair]int32{}
	for b := range streams {
		for i := range ops {
			if int(ops[i].Stream) != b {
				continue
			}
			for _, d := range g.Deps(&ops[i]) {
				on := pair{ops[d].Stream, ops[i].Stream}
				if last, ok := known[on]; on.from == on.to || ok && last >= d {
					continue
				}
				known[on] = d
				if _, ok := ids[on]; !ok {
					ids[on] = len(ids)
					g.form.Semaphores = append(g.form.Semaphores, semaphoreJSON{})
				}
				g.released[d], g.acquired[i] = append(g.released[d], ids[on]), append(g.acquired[i], ids[on])
			}
		}
	}
}

// blockWriter writes the ops of a thread block.
type blockWriter struct {
	*gpuWriter
	form     blockJSON
	channels [2][]int // by type: the channels of the rank that its ops use
	remotes  [2][]int // by type of channel: the remote buffers that its ops use
}

// block writes thread block b.
func (g *gpuWriter) block(b int) *blockWriter {
	t := &blockWriter{gpuWriter: g, form: blockJSON{ID: b, Channels: []usedJSON{}, Remotes: []refsJSON{}, Ops: []opJSON{}}}
	ops := g.Ops[g.rank]
	for i := range ops {
		if o := &ops[i]; int(o.Stream) == b {
			kind := o.Channel % 2
			if overChannel(o) {
				t.channels[kind] = append(t.channels[kind], g.channel(o))
			}
			if m, ok := g.remote(o); ok {
				t.remotes[kind] = append(t.remotes[kind], slices.Index(g.remotes, m))
			}
		}
	}
	for kind, name := range channelTypes {
		if t.channels[kind] = distinct(t.channels[kind]); len(t.channels[kind]) > 0 {
			t.form.Channels = append(t.form.Channels, usedJSON{name, t.channels[kind]})
		}
		if t.remotes[kind] = distinct(t.remotes[kind]); len(t.remotes[kind]) > 0 {
			t.form.Remotes = append(t.form.Remotes, refsJSON{name, t.remotes[kind]})
		}
	}
	for i := range ops {
		if int(ops[i].Stream) != b {
			continue
		}
		if len(g.acquired[i]) > 0 {
			t.add(opJSON{Name: "sem_acquire", Semaphores: g.acquired[i]})
		}
		t.op(&ops[i])
		if len(g.released[i]) > 0 {
			t.add(opJSON{Name: "sem_release", Semaphores: g.released[i]})
		}
	}
	return t
}

// distinct sorts numbers and removes duplicates, in place.
func distinct(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// add appends an op, after a nop at which the threads of the block meet. One thread executes all
// signals and waits, so consecutive ones need no nop between them.
func (t *blockWriter) add(o opJSON) {
	oneThread := func(name string) bool { return name == "signal" || name == "wait" }
	if n := len(t.form.Ops); n > 0 && !(oneThread(t.form.Ops[n-1].Name) && oneThread(o.Name)) {
		t.form.Ops = append(t.form.Ops, opJSON{Name: "nop"})
	}
	t.form.Ops = append(t.form.Ops, o)
}

// op appends the JSON of an op.
func (t *blockWriter) op(o *schedule.Op) {
	span := func(r int, s schedule.Slot) spanJSON {
		buffer, index := t.layout.where(r, s)
		return spanJSON{Type: buffer, Index: index, Size: int(o.Count)}
	}
	f, kind := opJSON{Name: o.Kind.String()}, o.Channel%2
	if o.Kind != schedule.Reduce && o.Kind != schedule.Copy {
		f.Type = channelTypes[kind]
	}
	if overChannel(o) {
		f.Channels = []int{slices.Index(t.channels[kind], t.channel(o))}
	}
	var far spanJSON
	if slot, ok := remoteSlot(o); ok {
		far = span(int(o.Peer), slot)
		far.Buffer = new(slices.Index(t.remotes[kind], slices.Index(t.gpuWriter.remotes, remote{int(o.Peer), far.Type})))
		far.Type = ""
	}
	switch o.Kind {
	case schedule.Copy:
		f.Src, f.Dst = []spanJSON{span(t.rank, o.Src)}, []spanJSON{span(t.rank, o.Dst)}
	case schedule.Reduce:
		dst := span(t.rank, o.Dst)
		f.Name, f.Src, f.Dst, f.Reduce = "re", []spanJSON{dst, span(t.rank, o.Src)}, []spanJSON{dst}, "sum"
	case schedule.Put:
		f.Src, f.Dst = []spanJSON{span(t.rank, o.Src)}, []spanJSON{far}
	case schedule.Get:
		f.Src, f.Dst = []spanJSON{far}, []spanJSON{span(t.rank, o.Dst)}
	case schedule.GetReduce:
		near := span(t.rank, o.Dst)
		f.Name, f.Src, f.Dst, f.Reduce = "rre", []spanJSON{near, far}, []spanJSON{near}, "sum"
	}
	t.add(f)
}
