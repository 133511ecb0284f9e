package simulate

import (
	"math"
	"slices"
)

// flows are messages whose rates depend on the other messages under way: under Fair, and if the machine
// has a table.
type flows struct {
	machine *Machine
	flows   []flow
	changed bool
	updated Picoseconds // when the bytes that are left were last counted
	ends    Picoseconds // when the first flow ends; meaningful if there are flows
	// By link, while rates are computed. With a table, users is by sender · ranks + receiver.
	users []int32
	room  []float64
	links []int32 // that have users
}

type flow struct {
	message  int32
	from, to int32
	bytes    int64
	added    bool    // by its receiver
	left     float64 // bytes; with a table, picoseconds of the message alone
	rate     float64 // of what is left, per picosecond
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

// next returns when the first flow ends.
func (f *flows) next() (at Picoseconds, ok bool) { return f.ends, len(f.flows) > 0 }

// progress subtracts what the flows have moved until now.
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
		// Ends are rounded up to picoseconds: what is left is less than one brings.
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

// rounding is the largest error of a quotient of floating-point numbers, in picoseconds.
const rounding = 1e-6

// measured sets the rate of each flow from the table, for the flows that are under way.
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

// fair sets max-min fair rates: no rate can rise unless another one falls that is not higher. The rates of
// all flows rise together, and a flow keeps its rate once one of its links is full.
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
				f.room[l] = 1 / f.machine.of(l).PerByte
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
		if math.IsInf(share, 1) { // all links that are left carry bytes in no time
			return
		}
		// Shares that differ by rounding alone are the same.
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
