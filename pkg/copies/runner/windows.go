package runner

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/result"
)

// windows are the windows of a row in the ranks that copied at the same time.
type windows struct {
	timed    []row // of the ranks whose copies are timed as one
	opposite row   // of the opposite direction, of a test of two devices in both
	beside   []row // of ranks whose copies disturb those that are timed
}

// windowsOf returns the windows of row number; false if a rank has none.
func windowsOf(tracks []track, number int, flows []copies.Flow, t copies.Test) (w windows, ok bool) {
	seen := map[int]bool{}
	for i, flow := range flows {
		if seen[flow.Acts] {
			continue
		}
		seen[flow.Acts] = true
		r, is := tracks[flow.Acts].rows[number]
		switch {
		case i > 0 && t.Ranks == 2:
			w.opposite = r // the row is incomplete without it
			continue
		case !is:
			return w, false
		case flow.Times == 1:
			w.timed = append(w.timed, r)
		default:
			w.beside = append(w.beside, r)
		}
	}
	return w, true
}

// counting is row.counting for all rows.
func (w windows) counting(counts map[int]int) windows {
	all := func(rows []row) (out []row) {
		for _, r := range rows {
			out = append(out, r.counting(counts))
		}
		return out
	}
	return windows{all(w.timed), w.opposite.counting(counts), all(w.beside)}
}

// device returns the times of the windows by the clocks of the devices, for each of n copies. Of several devices, a window
// begins when the first one may start, so that a late rank does not raise the rate, and ends with the last one. It is
// empty if a device lacks a window.
func (w windows) device(n int) []float64 {
	if len(w.timed) == 1 {
		return w.timed[0].Device
	}
	for _, r := range w.timed {
		if len(r.Device) > 0 && slices.Min(r.Device) <= 0 { // impossible, and hidden by the time between the gates
			return r.Device
		}
	}
	return w.whole(n, func(r row) (all []span) {
		for i, gate := range r.Opened {
			if i < len(r.Device) {
				all = append(all, span{gate.Begin, gate.End + int64(r.Device[i]*1e3*float64(n))})
			}
		}
		return all
	})
}

// host returns the times of the windows by the clock of the host: from the first call of a rank to the end of the last one,
// for each of n copies. It is empty if a rank lacks a window.
func (w windows) host(n int) []float64 {
	if len(w.timed) == 1 {
		return w.timed[0].Host
	}
	return w.whole(n, func(r row) []span { return r.Spans })
}

// whole returns the time from the first begin of a rank to the last end, by window, for each of n copies. It is empty if a
// rank lacks a window.
func (w windows) whole(n int, of func(row) []span) (us []float64) {
	whole := slices.Clone(of(w.timed[0]))
	for _, r := range w.timed[1:] {
		spans := of(r)
		if len(spans) != len(whole) {
			return nil
		}
		for i, s := range spans {
			whole[i] = span{min(whole[i].Begin, s.Begin), max(whole[i].End, s.End)}
		}
	}
	for _, s := range whole {
		us = append(us, float64(s.End-s.Begin)/1e3/float64(n))
	}
	return us
}

// covered returns the fraction of the timed windows in which all other ranks copied: the median. It is nil without other
// ranks, or if a rank lacks a window.
func (w windows) covered() *float64 {
	if len(w.beside) == 0 {
		return nil
	}
	var parts []float64
	for i, s := range w.timed[0].Spans {
		all := s
		for _, r := range w.beside {
			if len(r.Spans) <= i {
				return nil
			}
			all = span{max(all.Begin, r.Spans[i].Begin), min(all.End, r.Spans[i].End)}
		}
		parts = append(parts, share(float64(all.End-all.Begin), float64(s.End-s.Begin)))
	}
	if parts == nil {
		return nil
	}
	median := result.NewBurst(parts).P50
	return &median
}
