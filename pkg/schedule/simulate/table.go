package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Table has the measured times of a Model: times of messages between each pair of ranks, alone and at the same
// time as others, and times of sums and copies on a rank.
type Table struct {
	ranks          int
	pairs, both    []curve // by sender · ranks + receiver
	all, cached    curve
	reduce, copies curve
}

// curve has times by size. Between two measured sizes of a class, times are interpolated linearly. Any other
// size takes the time of the next larger measured size, so that no time is interpolated between two classes.
type curve []Class

// maxNanoseconds limits a measured time, so that sums of times cannot overflow.
const maxNanoseconds = 1e12

// maxTableRanks limits the memory of a table, which grows with the square of its ranks.
const maxTableRanks = 1023

// newTable returns the table of a model with pairs. It fails if ranks, sizes or times are invalid or duplicated.
func newTable(m *Model) (*Table, error) {
	t := &Table{all: m.All, cached: m.Cached, reduce: m.Reduce, copies: m.Copy}
	for _, p := range slices.Concat(m.Pairs, m.Both) {
		if p.Src < 0 || p.Dst < 0 || p.Src == p.Dst || max(p.Src, p.Dst) > maxTableRanks {
			return nil, fmt.Errorf("pair %d to %d, must be two ranks from 0 to %d", p.Src, p.Dst, maxTableRanks)
		}
		t.ranks = max(t.ranks, p.Src+1, p.Dst+1)
	}
	var err error
	if t.pairs, err = t.byPair("pair", m.Pairs); err != nil {
		return nil, err
	}
	if t.both, err = t.byPair("both: pair", m.Both); err != nil {
		return nil, err
	}
	for _, p := range m.Both {
		back := &t.both[p.Dst*t.ranks+p.Src]
		if *back != nil {
			return nil, fmt.Errorf("both: duplicate pair %d to %d: give one of the two directions", p.Src, p.Dst)
		}
		*back = p.Classes
	}
	for _, c := range []struct {
		key string
		curve
	}{{"all", t.all}, {"cached", t.cached}, {"reduce", t.reduce}, {"copy", t.copies}} {
		if c.curve != nil {
			if err := c.check(); err != nil {
				return nil, fmt.Errorf("%s: %w", c.key, err)
			}
		}
	}
	return t, nil
}

// byPair returns the curves of pairs by sender and receiver.
func (t *Table) byPair(key string, pairs []Pair) ([]curve, error) {
	out := make([]curve, t.ranks*t.ranks)
	for _, p := range pairs {
		at := &out[p.Src*t.ranks+p.Dst]
		if *at != nil {
			return nil, fmt.Errorf("duplicate %s %d to %d", key, p.Src, p.Dst)
		}
		*at = p.Classes
		if err := at.check(); err != nil {
			return nil, fmt.Errorf("%s %d to %d: %w", key, p.Src, p.Dst, err)
		}
	}
	return out, nil
}

// check returns an error for the first mistake in a curve.
func (c curve) check() error {
	last := int64(0)
	for _, class := range c {
		for _, x := range class.Points {
			if x.Bytes <= last || !(x.Nanoseconds > 0) || x.Nanoseconds > maxNanoseconds {
				return fmt.Errorf("%v ns for %d bytes: list sizes in ascending order, with times above 0 and up to %.0e", x.Nanoseconds, x.Bytes, maxNanoseconds)
			}
			last = x.Bytes
		}
	}
	if last == 0 {
		return errors.New("no points")
	}
	return nil
}

// time returns the time of n bytes; ok is false if n is above all measured sizes.
func (c curve) time(n int64) (at Picoseconds, ok bool) {
	for _, class := range c {
		i, exact := slices.BinarySearchFunc(class.Points, n, func(p Point, n int64) int { return cmp.Compare(p.Bytes, n) })
		if i == len(class.Points) {
			continue
		}
		ns := class.Points[i].Nanoseconds
		if !exact && i > 0 {
			before := class.Points[i-1]
			ns = before.Nanoseconds + (ns-before.Nanoseconds)*float64(n-before.Bytes)/float64(class.Points[i].Bytes-before.Bytes)
		}
		return FromNanoseconds(ns), true
	}
	return 0, false
}

// alone returns the times of messages from one rank to another while no other message is under way.
func (t *Table) alone(from, to int32) curve { return t.pairs[int(from)*t.ranks+int(to)] }

// among returns the time, in picoseconds, of a message of n bytes while the given number of messages are under
// way, including itself. back is set if one of them goes the opposite way, and added if the receiver adds the
// message. The time grows linearly with the number of messages, from the time of a message alone to the time
// of messages that all ranks send at once. If back is set, it is at least the time of messages both ways.
func (t *Table) among(from, to int32, n int64, messages int, back, added bool) float64 {
	alone, _ := t.alone(from, to).time(n)
	out := float64(alone)
	if both, ok := t.both[int(from)*t.ranks+int(to)].time(n); ok && back {
		out = max(out, float64(both))
	}
	if all, ok := t.together(added).time(n); ok && all > alone && t.ranks > 1 {
		out = max(out, float64(alone)+float64(all-alone)*float64(messages-1)/float64(t.ranks-1))
	}
	return out
}

// together returns the times of messages that all ranks send at the same time. added is as for among.
func (t *Table) together(added bool) curve {
	if added && t.cached != nil {
		return t.cached
	}
	return t.all
}

// covers returns an error if the table lacks the time of a message of n bytes. added is as for among.
func (t *Table) covers(from, to int32, n int64, added bool) error {
	if int(max(from, to)) >= t.ranks {
		return fmt.Errorf("the model has measured times of %d ranks, but none from rank %d to rank %d", t.ranks, from, to)
	}
	for _, c := range []struct {
		curve
		needed bool
	}{{t.alone(from, to), true}, {t.both[int(from)*t.ranks+int(to)], false}, {t.together(added), false}} {
		if _, ok := c.time(n); !ok && (c.needed || c.curve != nil) {
			return fmt.Errorf("the model has no time of a message of %d bytes or more from rank %d to rank %d: measure larger sizes, or simulate smaller ones", n, from, to)
		}
	}
	return nil
}

// handles returns an error if the curve was measured and has no time of n bytes.
func (c curve) handles(what string, n int64) error {
	if _, ok := c.time(n); c != nil && !ok {
		return fmt.Errorf("the model has no time of %s %d bytes or more: measure larger sizes, or simulate smaller ones", what, n)
	}
	return nil
}
