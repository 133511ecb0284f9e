package schedule

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/plural"
)

// Class is the class of a finding.
type Class string

// The classes of findings.
const (
	Form      Class = "form"      // invalid ranks, slots, dependencies or groups
	Unmatched Class = "unmatched" // a send without its receive, or the reverse
	Mismatch  Class = "mismatch"  // a send and its receive differ in size
	Deadlock  Class = "deadlock"  // ops that wait for each other
	Undefined Class = "undefined" // a read of uninitialized memory, or a result that nothing wrote
	Doubled   Class = "doubled"   // a contribution that is added twice
	Lost      Class = "lost"      // a result without all contributions
	Misplaced Class = "misplaced" // a result or a sum that has the data of another chunk
	Race      Class = "race"      // two unordered accesses to a slot, one of them a write; or a rank that does not wait for its result
)

// Finding is a mistake in a program.
type Finding struct {
	Class Class
	Rank  int    // −1: the finding is about the whole program
	Op    int    // index in the rank's list; −1: the finding is about the result of the rank
	Slot  string // such as "chunk 3"; empty if the finding is about no slot
	What  string
}

func (f Finding) String() string {
	s := string(f.Class) + ": "
	if f.Rank >= 0 {
		s += fmt.Sprintf("rank %d", f.Rank)
		if f.Op >= 0 {
			s += fmt.Sprintf(", op %d", f.Op)
		}
		if f.Slot != "" {
			s += ", " + f.Slot
		}
		s += ": "
	}
	return s + f.What
}

// maxFindings is the maximum number of findings in a report, since one mistake can cause many.
const maxFindings = 20

// Report is the result of a verification.
type Report struct {
	// Findings are in the order of their detection, so that a mistake comes before its consequences.
	Findings []Finding
	// More is the number of findings beyond those in Findings.
	More int
	// Uniform reports whether all ranks of an all_reduce add in the same order, so that their
	// results are equal bit by bit. It is true for other collectives, and false if there are findings.
	Uniform bool
}

// find adds a finding, or counts it if the report is full.
func (r *Report) find(f Finding) {
	if len(r.Findings) == maxFindings {
		r.More++
		return
	}
	r.Findings = append(r.Findings, f)
}

// Findings is an error that has one finding per line.
type Findings []string

func (f Findings) Error() string { return strings.Join(f, "\n") }

// Err returns the findings as Findings, or nil if there are none.
func (r *Report) Err() error { return r.Lines(Finding.String) }

// Lines is like Err, but formats each finding with line.
func (r *Report) Lines(line func(Finding) string) error {
	if len(r.Findings) == 0 {
		return nil
	}
	var lines Findings
	for _, f := range r.Findings {
		lines = append(lines, line(f))
	}
	if r.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", r.More))
	}
	return lines
}

// Verify runs a program symbolically: for every slot it keeps the set of ranks whose data the slot
// holds. It reports wrong results, reads of uninitialized memory, deadlocks, and unordered accesses
// to the same slot. If Check refuses the program, the report has only what Check found.
//
// Verify returns the error of ctx if ctx ends, and an error if the program has too many streams to verify.
func Verify(ctx context.Context, p *Program) (*Report, error) {
	report := &Report{}
	if p.check(report.find); len(report.Findings) > 0 {
		return report, nil
	}
	v, err := newVerifier(p)
	if err != nil {
		return nil, err
	}
	v.ctx, v.report = ctx, report
	v.run()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(report.Findings) == 0 {
		v.results()
	}
	report.Uniform = len(report.Findings) == 0 && v.uniform()
	return report, nil
}

// value is the content of a slot: data of one chunk of the vector, from a set of ranks.
type value struct {
	ranks []uint64 // a set with one bit per rank
	held
}

// held is a value without its ranks.
type held struct {
	order uint64 // identifies the tree of additions
	chunk int32  // −1: undefined memory
}

func (h held) defined() bool { return h.chunk >= 0 }

// memory has the values of a rank's slots: the vector, then scratch memory. A program of 1,024 ranks
// has a million slots, so the sets of all slots share one array.
type memory struct {
	held  []held
	ranks []uint64
	words int // length of a slot's set in ranks
}

func newMemory(slots, words int) memory {
	m := memory{make([]held, slots), make([]uint64, slots*words), words}
	for i := range m.held {
		m.held[i].chunk = -1
	}
	return m
}

// at returns the value of a slot; its set is shared with the slot, not a copy.
func (m *memory) at(slot int) value {
	return value{m.ranks[slot*m.words : (slot+1)*m.words], m.held[slot]}
}

// set replaces the value of a slot.
func (m *memory) set(slot int, x value) {
	copy(m.ranks[slot*m.words:], x.ranks)
	m.held[slot] = x.held
}

// verifier runs a program. A node is an op, or the ops of a group.
type verifier struct {
	*Program
	*Flow
	memory  []memory          // by rank
	flying  map[endOf][]value // by send: data that has departed and has not been received
	clocks  *clocks
	group   []interval // memory for groupRaces
	ctx     context.Context
	started int // number of nodes started so far
	report  *Report
	trees   trees // if not nil, receives every addition
}

// newVerifier returns a verifier with the initial contents of all slots. It fails if newClocks does.
func newVerifier(p *Program) (*verifier, error) {
	f := NewFlow(p)
	clocks, err := newClocks(f)
	if err != nil {
		return nil, err
	}
	v := &verifier{Program: p, Flow: f, clocks: clocks, flying: map[endOf][]value{}}
	v.memory = make([]memory, p.Ranks)
	words := (p.Ranks + 63) / 64
	for r := range v.memory {
		v.memory[r] = newMemory(p.Chunks+p.Scratch, words)
		first := 0
		if p.Collective == AllGather {
			first = r * p.inputs()
		}
		for j := range p.inputs() {
			slot, k := first+j, first+j
			if p.Input > 0 {
				slot = p.Chunks + j
			}
			v.memory[r].held[slot] = held{contribution(r, k), int32(k)}
			v.memory[r].ranks[slot*words+r/64] = 1 << (r % 64)
		}
	}
	return v, nil
}

// mix scatters the bits of x (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// added returns the order of the sum of two values. It does not depend on which comes first.
func added(a, b uint64) uint64 { return mix(a+b) + mix(^(a ^ b)) }

// noSlot is the slot of a finding that does not concern a slot.
const noSlot = -1

// find adds a finding about a slot, given by its index in the memory of a rank.
func (v *verifier) find(c Class, rank, op, slot int, format string, args ...any) {
	v.report.find(Finding{c, rank, op, v.name(slot), fmt.Sprintf(format, args...)})
}

// name returns the name of a slot, by its index in the memory of a rank.
func (v *verifier) name(slot int) string {
	switch {
	case slot == noSlot:
		return ""
	case slot < v.Chunks:
		return fmt.Sprintf("chunk %d", slot)
	case slot < v.Chunks+v.Input:
		return fmt.Sprintf("input chunk %d", slot-v.Chunks)
	}
	return fmt.Sprintf("scratch %d", slot-v.Chunks-v.Input)
}

// slot returns the index of a slot in the memory of a rank.
func (v *verifier) slot(s Slot) int {
	if j, ok := s.InScratch(); ok {
		return v.Chunks + j
	}
	return int(s)
}

// run runs ops until none can start or end.
func (v *verifier) run() {
	v.Run(v)
	if v.ctx.Err() != nil {
		return
	}
	v.undelivered()
	if v.Left() > 0 {
		v.stuck()
	}
}

// undelivered reports unmatched sends that do not wait for a receive.
func (v *verifier) undelivered() {
	for r := range v.Ops {
		for i := range v.Ops[r] {
			if o := &v.Ops[r][i]; v.Eager(o) && o.sends() && v.partner[r][i] < 0 {
				v.find(Unmatched, r, i, noSlot, "%ss to rank %d, which has no %s left for it", o.Kind, o.Peer, counterpart(o))
			}
		}
	}
}

func (v *verifier) Start(r int, from, to int) {
	if v.started++; v.started%1024 == 0 && v.ctx.Err() != nil {
		v.Stop()
	}
	v.clocks.start(v.Program, r, from)
	if to-from > 1 {
		v.groupRaces(r, from, to)
	}
}

func (v *verifier) Issue(r, i int) { v.Post(v, r, i) }

func (v *verifier) Local(r, i int) {
	defer v.Complete(r, i)
	o := &v.Ops[r][i]
	if o.Kind == Flush {
		v.clocks.flush(r, o)
		return
	}
	if o.Async {
		v.clocks.async(r, o)
	}
	v.access(r, i)
	from, to := v.sides(r, o)
	for k := range int(o.Count) {
		src := v.slot(o.Src) + k
		x := v.memory[from].at(src)
		switch {
		case x.defined():
			v.put(r, i, to, v.slot(o.Dst)+k, x, o.Kind == Reduce || o.Kind == GetReduce)
		case from != r:
			v.find(Undefined, r, i, src, "reads uninitialized memory of rank %d", from)
		default:
			v.find(Undefined, r, i, src, "reads uninitialized memory")
		}
	}
}

// sides returns the ranks in whose memory an op of rank r reads and writes.
func (v *verifier) sides(r int, o *Op) (from, to int) {
	switch {
	case o.gets():
		return int(o.Peer), r
	case o.Kind == Put:
		return r, int(o.Peer)
	}
	return r, r
}

func (v *verifier) Depart(r, i int) {
	defer v.Complete(r, i)
	o := &v.Ops[r][i]
	v.clocks.depart(r, i, o)
	v.access(r, i)
	if o.Count == 0 || v.partner[r][i] < 0 {
		return
	}
	values := make([]value, o.Count)
	for k := range values {
		values[k] = v.memory[r].at(v.slot(o.Src) + k)
		values[k].ranks = slices.Clone(values[k].ranks)
	}
	v.flying[endOf{r, i}] = values
}

func (v *verifier) Meet(r, send, q, receive int) {
	defer v.Complete(q, receive)
	s, d := &v.Ops[r][send], &v.Ops[q][receive]
	values, eager := v.flying[endOf{r, send}], v.Eager(s)
	if eager {
		delete(v.flying, endOf{r, send})
		v.clocks.arrive(r, send, q, d)
	} else {
		defer v.Complete(r, send)
		v.clocks.meet(r, s, q, d)
		v.access(r, send)
	}
	v.access(q, receive)
	if s.Count != d.Count {
		v.find(Mismatch, q, receive, noSlot, "receives %s, and rank %d sends %d in op %d", plural.Count(int(d.Count), "chunk", "chunks"), r, s.Count, send)
	}
	for k := range int(min(s.Count, d.Count)) {
		from := v.slot(s.Src) + k
		x := v.memory[r].at(from)
		if eager {
			x = values[k]
		}
		if !x.defined() {
			v.find(Undefined, r, send, from, "sends uninitialized memory")
			continue
		}
		v.put(q, receive, q, v.slot(d.Dst)+k, x, d.Kind == RecvReduce)
	}
}

func (v *verifier) End(r int, from, to int) { v.clocks.end(v.Program, r, from, to) }

// put makes an op of rank r write or add a defined value to a slot of rank q.
func (v *verifier) put(r, op, q, slot int, x value, add bool) {
	to := v.memory[q].at(slot)
	switch {
	case add && !to.defined():
		v.find(Undefined, r, op, slot, "adds to uninitialized memory")
		return
	case add && to.chunk != x.chunk:
		v.find(Misplaced, r, op, slot, "adds data of chunk %d to data of chunk %d", x.chunk, to.chunk)
		return
	}
	if !add {
		v.memory[q].set(slot, x)
		return
	}
	for i, w := range x.ranks {
		if both := to.ranks[i] & w; both != 0 {
			v.find(Doubled, r, op, slot, "adds the data of rank %d a second time", 64*i+bits.TrailingZeros64(both))
			return
		}
		to.ranks[i] |= w
	}
	sum := added(to.order, x.order)
	if v.trees != nil {
		v.trees[sum] = [2]uint64{to.order, x.order}
	}
	v.memory[q].held[slot].order = sum
}

// results checks the final vector of every rank.
func (v *verifier) results() {
	for r := range v.memory {
		for k := range v.Chunks {
			if v.Collective == ReduceScatter && k/(v.Chunks/v.Ranks) != r {
				continue
			}
			x := v.memory[r].at(k)
			chunk, from := v.result(r, k)
			want := 1
			if from < 0 {
				want = v.Ranks
			}
			have := 0
			for _, w := range x.ranks {
				have += bits.OnesCount64(w)
			}
			switch {
			case !x.defined():
				v.find(Undefined, r, -1, k, "nothing was written")
			case int(x.chunk) != chunk:
				v.find(Misplaced, r, -1, k, "holds the data of chunk %d", x.chunk)
			case from >= 0 && have == 1 && x.ranks[from/64]>>(from%64)&1 == 0:
				v.find(Misplaced, r, -1, k, "holds chunk %d of another rank, must hold that of rank %d", chunk, from)
			case have != want:
				v.find(Lost, r, -1, k, "holds the data of %s, must hold the data of %d", plural.Count(have, "rank", "ranks"), want)
			}
			if e, found := v.clocks.unawaited(r, k); found {
				v.find(Race, r, -1, k, "the rank can end before op %d of rank %d (%s) has written this result", e.op, e.rank, v.Ops[e.rank][e.op].Kind)
			}
		}
	}
}

// uniform reports whether all ranks added in the same order.
func (v *verifier) uniform() bool {
	if v.Collective != AllReduce {
		return true
	}
	for k := range v.Chunks {
		for r := range v.memory {
			if v.memory[r].held[k].order != v.memory[0].held[k].order {
				return false
			}
		}
	}
	return true
}

// interval is an access to slots first to end−1 of a rank's memory.
type interval struct {
	first, end int
	writes     bool
	op         int
}

// accesses appends the accesses of an op to the memory of its own rank.
func (v *verifier) accesses(all []interval, r, i int) []interval {
	o := &v.Ops[r][i]
	from, to := v.sides(r, o)
	if o.reads() && from == r {
		all = append(all, interval{v.slot(o.Src), v.slot(o.Src) + int(o.Count), false, i})
	}
	if o.writes() && to == r {
		all = append(all, interval{v.slot(o.Dst), v.slot(o.Dst) + int(o.Count), true, i})
	}
	return all
}

// groupRaces reports conflicting accesses within a group, whose ops run at the same time.
func (v *verifier) groupRaces(r, from, to int) {
	all := v.group[:0]
	for i := from; i < to; i++ {
		all = v.accesses(all, r, i)
	}
	v.group = all
	slices.SortFunc(all, func(a, b interval) int { return a.first - b.first })
	var widest [2]interval // of the intervals so far, the read and the write that end last
	for _, x := range all {
		for _, y := range widest {
			if y.end > x.first && (x.writes || y.writes) && x.op != y.op {
				v.race(r, max(x.op, y.op), min(x.op, y.op), x.first)
			}
		}
		kind := 0
		if x.writes {
			kind = 1
		}
		if x.end > widest[kind].end {
			widest[kind] = x
		}
	}
}

// race reports two unordered accesses by ops of rank r to one of its slots.
func (v *verifier) race(r, op, earlier, slot int) {
	v.find(Race, r, op, slot, "is not ordered with op %d (%s), and one of them writes there", earlier, v.Ops[r][earlier].Kind)
}

// touch records the access of op i of rank r to a slot of rank q, and reports an earlier access that
// conflicts with it.
func (v *verifier) touch(r, i, q, slot int, writes bool) {
	e, found := v.clocks.touch(r, i, &v.Ops[r][i], q, slot, writes)
	switch {
	case found && r == q && e.rank == r:
		v.race(r, i, e.op, slot)
	case found:
		v.find(Race, r, i, slot, "in the memory of rank %d, is not ordered with op %d of rank %d (%s), and one of them writes there", q, e.op, e.rank, v.Ops[e.rank][e.op].Kind)
	}
}

// access records the accesses of an op, and reports conflicts with accesses of other streams.
func (v *verifier) access(r, i int) {
	if !v.clocks.active {
		return
	}
	for _, x := range v.accesses(nil, r, i) {
		for slot := x.first; slot < x.end; slot++ {
			v.touch(r, i, r, slot, x.writes)
		}
	}
	if o := &v.Ops[r][i]; o.reaches() {
		there := o.Dst
		if o.gets() {
			there = o.Src
		}
		for k := range int(o.Count) {
			v.touch(r, i, int(o.Peer), v.slot(there)+k, !o.gets())
		}
	}
}
