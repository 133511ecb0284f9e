package schedule

import (
	"fmt"
	"slices"
)

// clocks orders the accesses of streams by vector clocks: one access comes before another if
// a chain of streams, dependencies and messages leads from the end of the first to the start
// of the second. A message joins what its two ends knew when they started, since neither ends
// before the other has started. If every rank has one stream and none reaches the memory of another,
// no clocks are kept: only the ops of a group are unordered.
//
// A thread is a stream of a rank, or its asynchronous puts over a channel. Threads that no chain
// can join are in different components. A clock has only the threads of its component, so that
// many streams that never meet, such as the streams of a stream_broadcast, need little memory.
type clocks struct {
	active  bool
	threads [][]int            // by rank and stream
	puts    map[putLine]int    // the threads of asynchronous puts
	part    []int              // by thread: its component
	place   []int              // by thread: its place in clocks of the component
	known   []clock            // by thread: what the end of its last op knows, joined with the messages of its open node
	open    []clock            // by thread: what the start of its open node knows
	alone   []bool             // by thread: the open node is one op
	kept    map[endOf]clock    // of ops that others depend on
	flying  map[endOf]clock    // of sends that have departed and have not met their receives
	touched []map[int]*history // by rank and slot
}

type clock []int32

func (c clock) join(other clock) {
	for i, t := range other {
		c[i] = max(c[i], t)
	}
}

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

// mostClocks is the maximum memory of all clocks, in bytes.
const mostClocks = 4 << 30

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
		streams = max(streams, sizes[c.part[t]])
		bytes += 2 * 4 * int64(sizes[c.part[t]])
	}
	for r, ops := range p.Ops {
		for i := range ops {
			size := 4 * int64(sizes[c.part[c.threads[r][ops[i].Stream]]])
			if _, ok := c.kept[endOf{r, i}]; ok {
				bytes += size
			}
			if f.Eager(&ops[i]) && ops[i].sends() {
				bytes += size
			}
		}
	}
	if bytes > mostClocks {
		return nil, fmt.Errorf("%s %s: %d streams that wait for each other need %.1f GiB of memory to verify, must be at most %d GiB: use fewer ranks", p.Name, p.Collective, streams, float64(bytes)/(1<<30), mostClocks>>30)
	}
	c.known, c.open, c.alone = make([]clock, n), make([]clock, n), make([]bool, n)
	for t := range n {
		c.known[t], c.open[t] = make(clock, sizes[c.part[t]]), make(clock, sizes[c.part[t]])
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
	c.part, c.place = make([]int, n), make([]int, n)
	for t := range n {
		k, ok := number[root(t)]
		if !ok {
			k = len(sizes)
			number[root(t)] = k
			sizes = append(sizes, 0)
		}
		c.part[t], c.place[t] = k, sizes[k]
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
	c.alone[t] = true
	for i := from; i < len(p.Ops[r]); i++ {
		o := &p.Ops[r][i]
		if i > from && (first.Group == 0 || o.Group != first.Group) {
			break
		}
		c.alone[t] = i == from
		for _, d := range p.Deps(o) {
			c.known[t].join(c.kept[endOf{r, int(d)}])
		}
	}
	copy(c.open[t], c.known[t])
}

// meet joins into each end of a message what the other end knew. If an op is a node of its own, its
// peer knows of its end too.
func (c *clocks) meet(r int, send *Op, q int, receive *Op) {
	if !c.active {
		return
	}
	a, b := c.threads[r][send.Stream], c.threads[q][receive.Stream]
	for _, x := range [][2]int{{a, b}, {b, a}} {
		to, from := c.known[x[0]], x[1]
		to.join(c.open[from])
		if c.alone[from] {
			at := c.place[from]
			to[at] = max(to[at], c.open[from][at]+1)
		}
	}
}

// depart keeps what a send that does not wait will tell its receive: what its rank knew, its own end
// if it is a node of its own and, if it is a signal, the asynchronous puts before it.
func (c *clocks) depart(r, i int, send *Op) {
	if !c.active {
		return
	}
	t := c.threads[r][send.Stream]
	known := slices.Clone(c.open[t])
	if c.alone[t] {
		known[c.place[t]]++
	}
	if puts, ok := c.puts[lineOf(r, send)]; ok && send.signals() {
		known.join(c.known[puts])
	}
	c.flying[endOf{r, i}] = known
}

// arrive joins into a receive what its send knew when it departed.
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
	c.known[t][c.place[t]]++
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
	c.known[t][c.place[t]] = c.open[t][c.place[t]] + 1
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
		return e.thread < 0 || e.thread == t || c.part[e.thread] == c.part[t] && e.tick <= c.open[t][c.place[e.thread]]
	}
	if !before(h.write) {
		earlier, found = h.write, true
	}
	mine := epoch{t, c.open[t][c.place[t]] + 1, r, i}
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
		return c.part[t] == c.part[write.thread] && c.known[t][c.place[write.thread]] >= write.tick
	})
}
