package runner

import (
	"cmp"
	"slices"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Kinds of records of this family.
const (
	kindSetup = "copy-setup"
	kindRow   = "copy-row"
	kindCheck = "copy-check"
)

// setup holds what a rank knows before the first row.
type setup struct {
	Checked string `json:"checked_by"`
	Engines []int  `json:"engines,omitempty"`
}

// row holds the measurements of a copying rank, in microseconds per copy, by window.
type row struct {
	Row int `json:"row"`
	// Trials are those of the windows, each with one window of each kind; see rank.Session.Trials.
	Trials []rank.Trial `json:"trials"`
	Device []float64    `json:"device_us,omitempty"`
	Host   []float64    `json:"host_us,omitempty"`
	// Each has the times of the swaps of each trial, in the place of Device and Host.
	Each [][]float64 `json:"each_us,omitempty"`
	// Spans are the windows of Host, and Opened the times in which the gates of those of Device were opened, if another rank
	// copies at the same time.
	Spans  []span  `json:"spans,omitempty"`
	Opened []span  `json:"opened,omitempty"`
	Victim *beside `json:"victim,omitempty"`
}

// span is an interval of the monotonic clock, which all processes of a host share.
type span struct {
	Begin int64 `json:"begin_ns"`
	End   int64 `json:"end_ns"`
}

// beside holds the alternating measurements of victim and copies of a row, in microseconds by window.
type beside struct {
	Units  uint64 `json:"units"`
	Copies int    `json:"copies"` // beside the victim
	// Alone is the victim without copies, Slowed beside copies that outlast it. Covered is the fraction of Slowed in
	// which copies ran.
	Alone   []float64 `json:"alone_us"`
	Slowed  []float64 `json:"slowed_us"`
	Covered []float64 `json:"covered"`
	// Copy is a copy beside a victim that outlasts the copies, CopyCovered the fraction of their time in which the
	// victim ran.
	Copy        []float64 `json:"copy_us"`
	CopyCovered []float64 `json:"copy_covered"`
	Wrong       string    `json:"wrong,omitempty"` // first wrong result of the victim
}

// check is what a rank found in one of its buffers after a timed window.
type check struct {
	Row         int  `json:"row"`
	Window      int  `json:"window"` // of the row
	Way         int  `json:"way"`    // 1: the direction opposite to the test's
	Destination bool `json:"destination"`
	pool.Finding
}

// counting returns the row without the windows of trials that do not count; see rank.Counting.
func (r row) counting(counts map[int]int) row {
	var kept []int
	for i, t := range r.Trials {
		if t.Repeat == counts[t.Number] {
			kept = append(kept, i)
		}
	}
	if len(kept) == len(r.Trials) {
		return r
	}
	slices.SortFunc(kept, func(a, b int) int { return cmp.Compare(r.Trials[a].Number, r.Trials[b].Number) })
	r.Device, r.Host, r.Spans = chosen(r.Device, kept), chosen(r.Host, kept), chosen(r.Spans, kept)
	r.Opened = chosen(r.Opened, kept)
	r.Each = chosen(r.Each, kept)
	if r.Victim != nil {
		v := *r.Victim
		for _, list := range []*[]float64{&v.Alone, &v.Slowed, &v.Covered, &v.Copy, &v.CopyCovered} {
			*list = chosen(*list, kept)
		}
		r.Victim = &v
	}
	return r
}

// chosen returns the elements of a list with the given indices; nil of an empty list.
func chosen[T any](list []T, indices []int) (out []T) {
	for _, i := range indices {
		if i < len(list) {
			out = append(out, list[i])
		}
	}
	return out
}

// windows returns the number of checked windows of a row.
func (r *row) windows() int {
	n := len(r.Device) + len(r.Host)
	for _, each := range r.Each {
		n += copies.CheckedSwaps(len(each))
	}
	if r.Victim != nil {
		n += len(r.Victim.Slowed) + len(r.Victim.Copy)
	}
	return n
}
