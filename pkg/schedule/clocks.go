package schedule

import "slices"

// clocks orders the accesses of streams by vector clocks: one access comes before another if
// a chain of streams, dependencies and messages leads from the end of the first to the start
// of the second. A message joins what its two ends knew when they started, since neither ends
// before the other has started. Where each rank has one stream, nothing is kept: its
// ops are in order but for those of a group.
type clocks struct {
	active  bool
	threads [][]int            // by rank and stream
	now     []clock            // by thread: what the end of its last op knows
	open    []clock            // by thread: what the start of its open node knows
	gained  []clock            // by thread: what the messages of the open node add
	alone   []bool             // by thread: the open node is one op
	kept    map[endOf]clock    // of ops that others depend on
	flying  map[endOf]clock    // of sends that have departed and not met their receives
	touched []map[int]*history // by rank and slot
}

type clock []int32

func (c clock) join(other clock) {
	for i, t := range other {
		c[i] = max(c[i], t)
	}
}

type endOf struct{ rank, op int }

// history is the accesses to a slot that a later one has to be ordered with.
type history struct {
	write epoch
	reads []epoch
}

// epoch is a node of a thread, from 1.
type epoch struct {
	thread int
	tick   int32
	rank   int
	op     int
}

func newClocks(p *Program) *clocks {
	c := &clocks{threads: make([][]int, p.Ranks), kept: map[endOf]clock{}, flying: map[endOf]clock{}}
	n := 0
	for r, ops := range p.Ops {
		streams := 0
		for i := range ops {
			streams = max(streams, int(ops[i].Stream)+1)
			for _, d := range p.Deps(&ops[i]) {
				c.kept[endOf{r, int(d)}] = nil
			}
		}
		c.active = c.active || streams > 1 || slices.ContainsFunc(ops, func(o Op) bool { return o.Kind == Put })
		for range streams {
			c.threads[r] = append(c.threads[r], n)
			n++
		}
	}
	if !c.active {
		return c
	}
	for _, clocks := range []*[]clock{&c.now, &c.open, &c.gained} {
		*clocks = make([]clock, n)
		for t := range *clocks {
			(*clocks)[t] = make(clock, n)
		}
	}
	c.alone = make([]bool, n)
	c.touched = make([]map[int]*history, p.Ranks)
	for r := range c.touched {
		c.touched[r] = map[int]*history{}
	}
	return c
}

// start opens the node of rank r that begins with op from.
func (c *clocks) start(p *Program, r, from int) {
	if !c.active {
		return
	}
	first := &p.Ops[r][from]
	t := c.threads[r][first.Stream]
	copy(c.open[t], c.now[t])
	c.alone[t] = true
	for i := from; i < len(p.Ops[r]); i++ {
		o := &p.Ops[r][i]
		if i > from && (first.Group == 0 || o.Group != first.Group) {
			break
		}
		c.alone[t] = i == from
		for _, d := range p.Deps(o) {
			c.open[t].join(c.kept[endOf{r, int(d)}])
		}
	}
	copy(c.gained[t], c.open[t])
}

// meet tells each end of a message what the other knew. The end of an op that is a node of
// its own is known to its peer too.
func (c *clocks) meet(r int, send *Op, q int, receive *Op) {
	if !c.active {
		return
	}
	a, b := c.threads[r][send.Stream], c.threads[q][receive.Stream]
	for _, x := range [][2]int{{a, b}, {b, a}} {
		to, from := c.gained[x[0]], x[1]
		to.join(c.open[from])
		if c.alone[from] {
			to[from] = max(to[from], c.open[from][from]+1)
		}
	}
}

// depart keeps what a send that does not wait for its receive tells it: what its rank knew,
// and its own end if it is a node of its own.
func (c *clocks) depart(r, i int, send *Op) {
	if !c.active {
		return
	}
	t := c.threads[r][send.Stream]
	known := slices.Clone(c.open[t])
	if c.alone[t] {
		known[t]++
	}
	c.flying[endOf{r, i}] = known
}

// arrive tells a receive what its send knew when it departed.
func (c *clocks) arrive(r, send, q int, receive *Op) {
	if !c.active {
		return
	}
	c.gained[c.threads[q][receive.Stream]].join(c.flying[endOf{r, send}])
	delete(c.flying, endOf{r, send})
}

// end closes the node of ops from to to−1.
func (c *clocks) end(p *Program, r, from, to int) {
	if !c.active {
		return
	}
	t := c.threads[r][p.Ops[r][from].Stream]
	copy(c.now[t], c.gained[t])
	c.now[t][t] = c.open[t][t] + 1
	for i := from; i < to; i++ {
		if _, ok := c.kept[endOf{r, i}]; ok {
			c.kept[endOf{r, i}] = append(clock(nil), c.now[t]...)
		}
	}
}

// touch records an access of an op of rank r to a slot of rank q. It returns an earlier one
// that nothing orders with it, if there is one and either writes.
func (c *clocks) touch(r, op, stream, q, slot int, writes bool) (earlier epoch, found bool) {
	t := c.threads[r][stream]
	h := c.touched[q][slot]
	if h == nil {
		h = &history{write: epoch{-1, 0, 0, 0}}
		c.touched[q][slot] = h
	}
	before := func(e epoch) bool { return e.thread < 0 || e.thread == t || e.tick <= c.open[t][e.thread] }
	if !before(h.write) {
		earlier, found = h.write, true
	}
	mine := epoch{t, c.open[t][t] + 1, r, op}
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
