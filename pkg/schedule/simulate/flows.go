package simulate

import (
	"math"
	"slices"
)

// flows are the messages under way, each with a rate that depends on the others. They are used if sharing
// is Fair, and if the machine has a table.
type flows struct {
	machine *Machine
	flows   []flow
	changed bool
	updated Picoseconds // when flow.left was last computed
	ends    Picoseconds // when the first flow ends; valid if there are flows
	// The rest is used while rates are computed.
	users []int32   // by link: flows without a rate; with a table, by sender · ranks + receiver: messages
	room  []float64 // by link: bandwidth that no flow has yet, in bytes per picosecond
	links []int32   // links that have flows
}

// flow is a message under way.
type flow struct {
	message  int32
	from, to int32
	bytes    int64
	added    bool    // the receiver adds the message to its own data
	left     float64 // remaining bytes; with a table, remaining picoseconds of the message alone
	rate     float64 // decrease of left per picosecond
}

func newFlows(m *Machine) *flows {
	f := &flows{machine: m}
	switch {
	case m.Table != nil:
		f.users = make([]int32, m.Table.ranks*m.Table.ranks)
	case m.Sharing == Fair:
		f.users, f.room = make([]int32, m.Topology.links), make([]float64, m.Topology.links)
	}
	return f
}

func (f *flows) start(message, from, to int32, bytes int64, added bool) {
	left := float64(bytes)
	if f.machine.Table != nil {
		left = float64(f.machine.unloaded(from, to, bytes))
	}
	f.flows = append(f.flows, flow{message, from, to, bytes, added, left, 0})
	f.changed = true
}

// next returns when the first flow ends; ok is false if there are no flows.
func (f *flows) next() (at Picoseconds, ok bool) { return f.ends, len(f.flows) > 0 }

// progress subtracts from left what the flows have moved until now.
func (f *flows) progress(now Picoseconds) {
	elapsed := float64(now - f.updated)
	f.updated = now
	for i := range f.flows {
		f.flows[i].left -= f.flows[i].rate * elapsed
	}
}

// finished removes and returns the messages whose flows end now, ascending.
func (f *flows) finished(now Picoseconds) (messages []int32) {
	f.progress(now)
	f.flows = slices.DeleteFunc(f.flows, func(w flow) bool {
		// Ends are rounded up to picoseconds: the rest is less than a flow moves in one.
		if w.left > w.rate {
			return false
		}
		messages = append(messages, w.message)
		return true
	})
	f.changed = true
	slices.Sort(messages)
	return messages
}

// settle computes the rates again if flows have started or ended.
func (f *flows) settle(now Picoseconds) {
	if !f.changed {
		return
	}
	f.changed = false
	f.progress(now)
	if f.machine.Table != nil {
		f.measured()
	} else {
		f.fair()
	}
	f.ends = math.MaxInt64
	for i := range f.flows {
		w := &f.flows[i]
		f.ends = min(f.ends, now+Picoseconds(math.Ceil(max(0, w.left)/w.rate-rounding)))
	}
}

// rounding is the maximum rounding error of a flow's duration, in picoseconds.
const rounding = 1e-6

// measured sets the rate of each flow from the table and the number of flows under way.
func (f *flows) measured() {
	t := f.machine.Table
	clear(f.users)
	for i := range f.flows {
		w := &f.flows[i]
		f.users[int(w.from)*t.ranks+int(w.to)]++
	}
	for i := range f.flows {
		w := &f.flows[i]
		back := f.users[int(w.to)*t.ranks+int(w.from)] > 0
		w.rate = float64(f.machine.unloaded(w.from, w.to, w.bytes)) / t.among(w.from, w.to, w.bytes, len(f.flows), back, w.added)
	}
}

// fair sets max-min fair rates: a rate can only rise if an equal or lower rate falls. All rates rise
// together from 0, and a flow keeps its rate once one of its links is full.
func (f *flows) fair() {
	t := &f.machine.Topology
	for _, l := range f.links {
		f.users[l] = 0
	}
	f.links = f.links[:0]
	for i := range f.flows {
		w := &f.flows[i]
		w.rate = math.Inf(1)
		t.route(w.from, w.to, func(l int32) {
			if f.users[l] == 0 {
				f.links = append(f.links, l)
				f.room[l] = 1 / f.machine.linkCost(l).PerByte
			}
			f.users[l]++
		})
	}
	open := make([]int, len(f.flows))
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 {
		share := math.Inf(1)
		for _, l := range f.links {
			if f.users[l] > 0 {
				share = min(share, f.room[l]/float64(f.users[l]))
			}
		}
		if math.IsInf(share, 1) { // all remaining links have infinite bandwidth
			return
		}
		// Shares that differ only by rounding count as equal.
		full := func(l int32) bool { return f.room[l] <= share*float64(f.users[l])*(1+1e-12) }
		var frozen []int
		open = slices.DeleteFunc(open, func(i int) bool {
			w, stops := &f.flows[i], false
			t.route(w.from, w.to, func(l int32) { stops = stops || full(l) })
			if stops {
				frozen = append(frozen, i)
			}
			return stops
		})
		for _, i := range frozen {
			w := &f.flows[i]
			w.rate = share
			t.route(w.from, w.to, func(l int32) {
				f.users[l]--
				f.room[l] -= share
			})
		}
	}
}
