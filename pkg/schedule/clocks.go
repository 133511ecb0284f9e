package schedule

import (
	"fmt"
	"slices"
)

// clocks orders the accesses of streams by vector clocks: one access comes before another if
// a chain of streams, dependencies and messages leads from the end of the first to the start
// of the second. A message joins the clocks that its two ends had when they started, since neither
// ends before the other has started. If every rank has one stream and no op accesses another rank's
// memory, no clocks are kept: only ops of the same group are unordered then.
//
// A thread is a stream of a rank, or its asynchronous puts over a channel. Threads that no chain
// can join are in different components. A clock has only the threads of its component, so that
// many streams that never meet, such as the streams of a stream_broadcast, need little memory.
type clocks struct {
	active  bool
	threads [][]int            // by rank and stream
	puts    map[putLine]int    // the threads of asynchronous puts
	comp    []int              // by thread: its component
	index   []int              // by thread: its index in clocks of the component
	known   []clock            // by thread: the clock at the end of its last node, joined with messages of its open node
	open    []clock            // by thread: the clock at the start of its open node
	single  []bool             // by thread: whether the open node is a single op
	kept    map[endOf]clock    // the clock at the end of each op that others depend on
	flying  map[endOf]clock    // the clock of each send that has departed and has not met its receive
	touched []map[int]*history // by rank and slot
}

// clock has, for each thread of a component, the number of its nodes known to have ended.
type clock []int32

// join adds to c what other knows.
func (c clock) join(other clock) {
	for i, t := range other {
		c[i] = max(c[i], t)
	}
}

// endOf identifies an op of a rank.
type endOf struct{ rank, op int }

// putLine identifies the asynchronous puts of a stream over a channel.
type putLine struct {
	rank            int
	peer            int32
	stream, channel uint8
}

func lineOf(r int, o *Op) putLine { return putLine{r, o.Peer, o.Stream, o.Channel} }

// history has the accesses to a slot that later accesses must be ordered with.
type history struct {
	write epoch
	reads []epoch
}

// epoch is an access by an op. Its tick is the number of the op's node in the thread, from 1.
type epoch struct {
	thread int
	tick   int32
	rank   int
	op     int
}

// maxClocks is the maximum memory of all clocks, in bytes.
const maxClocks = 4 << 30

// newClocks returns the clocks of a flow, or an error if they need too much memory.
func newClocks(f *Flow) (*clocks, error) {
	p := f.Program
	c := &clocks{threads: make([][]int, p.Ranks), puts: map[putLine]int{}, kept: map[endOf]clock{}, flying: map[endOf]clock{}}
	n := 0
	for r, ops := range p.Ops {
		for range f.streams[r] {
			c.threads[r] = append(c.threads[r], n)
			n++
		}
		c.active = c.active || len(f.streams[r]) > 1
		for i := range ops {
			o := &ops[i]
			c.active = c.active || o.reaches()
			for _, d := range p.Deps(o) {
				c.kept[endOf{r, int(d)}] = nil
			}
			if _, ok := c.puts[lineOf(r, o)]; o.Async && !ok {
				c.puts[lineOf(r, o)] = n
				n++
			}
		}
	}
	if !c.active {
		return c, nil
	}
	sizes := c.split(f, n)
	streams, bytes := 0, int64(0)
	for t := range n {
		streams = max(streams, sizes[c.comp[t]])
		bytes += 2 * 4 * int64(sizes[c.comp[t]])
	}
	for r, ops := range p.Ops {
		for i := range ops {
			size := 4 * int64(sizes[c.comp[c.threads[r][ops[i].Stream]]])
			if _, ok := c.kept[endOf{r, i}]; ok {
				bytes += size
			}
			if f.Eager(&ops[i]) && ops[i].sends() {
				bytes += size
			}
		}
	}
	if bytes > maxClocks {
		return nil, fmt.Errorf("%s %s: %d streams that wait for each other need %.1f GiB of memory to verify, must be at most %d GiB: use fewer ranks", p.Name, p.Collective, streams, float64(bytes)/(1<<30), maxClocks>>30)
	}
	c.known, c.open, c.single = make([]clock, n), make([]clock, n), make([]bool, n)
	for t := range n {
		c.known[t], c.open[t] = make(clock, sizes[c.comp[t]]), make(clock, sizes[c.comp[t]])
	}
	c.touched = make([]map[int]*history, p.Ranks)
	for r := range c.touched {
		c.touched[r] = map[int]*history{}
	}
	return c, nil
}

// split divides n threads into components, and returns the sizes of the components.
func (c *clocks) split(f *Flow, n int) (sizes []int) {
	parent := make([]int, n)
	for t := range parent {
		parent[t] = t
	}
	root := func(t int) int {
		for parent[t] != t {
			parent[t] = parent[parent[t]]
			t = parent[t]
		}
		return t
	}
	for r, ops := range f.Ops {
		for i := range ops {
			o := &ops[i]
			t := c.threads[r][o.Stream]
			for _, d := range f.Deps(o) {
				parent[root(c.threads[r][ops[d].Stream])] = root(t)
			}
			if other := f.partner[r][i]; o.sends() && other >= 0 {
				parent[root(c.threads[o.Peer][f.Ops[o.Peer][other].Stream])] = root(t)
			}
			if o.Async {
				parent[root(c.puts[lineOf(r, o)])] = root(t)
			}
		}
	}
	number := map[int]int{} // by root
	c.comp, c.index = make([]int, n), make([]int, n)
	for t := range n {
		k, ok := number[root(t)]
		if !ok {
			k = len(sizes)
			number[root(t)] = k
			sizes = append(sizes, 0)
		}
		c.comp[t], c.index[t] = k, sizes[k]
		sizes[k]++
	}
	return sizes
}

// start opens the node of rank r that begins with op from.
func (c *clocks) start(p *Program, r, from int) {
	if !c.active {
		return
	}
	first := &p.Ops[r][from]
	t := c.threads[r][first.Stream]
	c.single[t] = true
	for i := from; i < len(p.Ops[r]); i++ {
		o := &p.Ops[r][i]
		if i > from && (first.Group == 0 || o.Group != first.Group) {
			break
		}
		c.single[t] = i == from
		for _, d := range p.Deps(o) {
			c.known[t].join(c.kept[endOf{r, int(d)}])
		}
	}
	copy(c.open[t], c.known[t])
}

// meet joins, for each end of a message, the clock at the start of the other end. If an end is a single
// op, its peer also knows that it has ended.
func (c *clocks) meet(r int, send *Op, q int, receive *Op) {
	if !c.active {
		return
	}
	a, b := c.threads[r][send.Stream], c.threads[q][receive.Stream]
	for _, x := range [][2]int{{a, b}, {b, a}} {
		to, from := c.known[x[0]], x[1]
		to.join(c.open[from])
		if c.single[from] {
			at := c.index[from]
			to[at] = max(to[at], c.open[from][at]+1)
		}
	}
}

// depart keeps the clock that a send that does not wait passes to its receive: the clock at its start,
// its own end if it is a single op and, if it is a signal, the ends of earlier asynchronous puts.
func (c *clocks) depart(r, i int, send *Op) {
	if !c.active {
		return
	}
	t := c.threads[r][send.Stream]
	known := slices.Clone(c.open[t])
	if c.single[t] {
		known[c.index[t]]++
	}
	if puts, ok := c.puts[lineOf(r, send)]; ok && send.signals() {
		known.join(c.known[puts])
	}
	c.flying[endOf{r, i}] = known
}

// arrive joins into a receive the clock that its send passed on.
func (c *clocks) arrive(r, send, q int, receive *Op) {
	if !c.active {
		return
	}
	c.known[c.threads[q][receive.Stream]].join(c.flying[endOf{r, send}])
	delete(c.flying, endOf{r, send})
}

// async begins an asynchronous put, after the ops before it.
func (c *clocks) async(r int, put *Op) {
	t := c.puts[lineOf(r, put)]
	c.known[t].join(c.open[c.threads[r][put.Stream]])
	copy(c.open[t], c.known[t])
	c.known[t][c.index[t]]++
}

// flush makes an op wait for the asynchronous puts of its channel.
func (c *clocks) flush(r int, o *Op) {
	if puts, ok := c.puts[lineOf(r, o)]; ok {
		c.known[c.threads[r][o.Stream]].join(c.known[puts])
	}
}

// end closes the node of ops from to to−1.
func (c *clocks) end(p *Program, r, from, to int) {
	if !c.active {
		return
	}
	t := c.threads[r][p.Ops[r][from].Stream]
	c.known[t][c.index[t]] = c.open[t][c.index[t]] + 1
	for i := from; i < to; i++ {
		if _, ok := c.kept[endOf{r, i}]; ok {
			c.kept[endOf{r, i}] = slices.Clone(c.known[t])
		}
	}
}

// touch records an access of an op of rank r to a slot of rank q. It returns an earlier, unordered
// access to the slot, if there is one and one of the two is a write.
func (c *clocks) touch(r, i int, o *Op, q, slot int, writes bool) (earlier epoch, found bool) {
	t := c.threads[r][o.Stream]
	if o.Async {
		t = c.puts[lineOf(r, o)]
	}
	h := c.touched[q][slot]
	if h == nil {
		h = &history{write: epoch{-1, 0, 0, 0}}
		c.touched[q][slot] = h
	}
	before := func(e epoch) bool {
		return e.thread < 0 || e.thread == t || c.comp[e.thread] == c.comp[t] && e.tick <= c.open[t][c.index[e.thread]]
	}
	if !before(h.write) {
		earlier, found = h.write, true
	}
	mine := epoch{t, c.open[t][c.index[t]] + 1, r, i}
	if !writes {
		h.reads = append(slices.DeleteFunc(h.reads, func(e epoch) bool { return e.thread == t }), mine)
		return earlier, found
	}
	for _, e := range h.reads {
		if !before(e) {
			earlier, found = e, true
		}
	}
	h.write, h.reads = mine, h.reads[:0]
	return earlier, found
}

// unawaited returns the last write to a slot of rank r if another rank made it and no stream of r
// waits for its end.
func (c *clocks) unawaited(r, slot int) (write epoch, found bool) {
	if !c.active || c.touched[r][slot] == nil {
		return epoch{}, false
	}
	write = c.touched[r][slot].write
	if write.thread < 0 || write.rank == r {
		return epoch{}, false
	}
	return write, !slices.ContainsFunc(c.threads[r], func(t int) bool {
		return c.comp[t] == c.comp[write.thread] && c.known[t][c.index[write.thread]] >= write.tick
	})
}
