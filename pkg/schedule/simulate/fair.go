package simulate

import (
	"math"
	"slices"
)

// fair is the messages that flow at max-min fair rates: no message can be faster without
// making one slower that is not faster itself.
type fair struct {
	machine *Machine
	flows   []flow
	changed bool
	updated Picoseconds // when the bytes that are left were last counted
	ends    Picoseconds // when the first flow ends; meaningful if there are flows
	// By link, while rates are made.
	users []int32
	room  []float64
	links []int32 // that have users
}

type flow struct {
	message  int32
	from, to int32
	left     float64 // bytes
	rate     float64 // bytes per picosecond
}

func newFair(m *Machine) *fair {
	f := &fair{machine: m}
	if m.Sharing == Fair {
		f.users, f.room = make([]int32, m.Topology.links), make([]float64, m.Topology.links)
	}
	return f
}

func (f *fair) start(message, from, to int32, bytes int64) {
	f.flows = append(f.flows, flow{message, from, to, float64(bytes), 0})
	f.changed = true
}

// next returns when the first flow ends.
func (f *fair) next() (at Picoseconds, ok bool) { return f.ends, len(f.flows) > 0 }

// progress counts the bytes until now.
func (f *fair) progress(now Picoseconds) {
	elapsed := float64(now - f.updated)
	f.updated = now
	for i := range f.flows {
		f.flows[i].left -= f.flows[i].rate * elapsed
	}
}

// finished removes and returns the messages whose flows end now, ascending.
func (f *fair) finished(now Picoseconds) (messages []int32) {
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

// settle renews the rates if flows have started or ended.
func (f *fair) settle(now Picoseconds) {
	if !f.changed {
		return
	}
	f.changed = false
	f.progress(now)
	f.rates()
	f.ends = math.MaxInt64
	for i := range f.flows {
		w := &f.flows[i]
		f.ends = min(f.ends, now+Picoseconds(math.Ceil(max(0, w.left)/w.rate)))
	}
}

// rates fills all links at once: every flow gets faster until a link of its is full.
func (f *fair) rates() {
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
				f.room[l] = 1 / f.machine.PerByte
			}
			f.users[l]++
		})
	}
	open := make([]int, len(f.flows))
	for i := range open {
		open[i] = i
	}
	if f.machine.PerByte == 0 {
		return
	}
	for len(open) > 0 {
		share := math.Inf(1)
		for _, l := range f.links {
			if f.users[l] > 0 {
				share = min(share, f.room[l]/float64(f.users[l]))
			}
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
