package table

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/measure"
)

// Square holds a figure of each ordered pair of ranks at one size, from rank (row) to rank (column); nil if it was
// not measured.
type Square struct {
	Bytes  int64        `json:"bytes"`
	Values [][]*float64 `json:"values"`
}

// Slow is a pair that is slower than the others.
type Slow struct {
	Src  int     `json:"src"`
	Dst  int     `json:"dst"`
	GBps float64 `json:"gbps"`
}

// slowPart is the fraction of the median below which a pair is slow.
const slowPart = 0.9

// NewSquare returns a square without figures.
func NewSquare(bytes int64, world int) Square {
	s := Square{Bytes: bytes, Values: make([][]*float64, world)}
	for i := range s.Values {
		s.Values[i] = make([]*float64, world)
	}
	return s
}

// Set sets the figure of a pair. With bothWays it is also that of the opposite pair.
func (s *Square) Set(src, dst int, v float64, bothWays bool) {
	s.Values[src][dst] = &v
	if bothWays {
		s.Values[dst][src] = &v
	}
}

// pairs calls f for each measured pair, and once for two opposite pairs that share a figure.
func (s *Square) pairs(f func(p Slow)) {
	for src, row := range s.Values {
		for dst, v := range row {
			if v != nil && (src < dst || s.Values[dst][src] != v) {
				f(Slow{src, dst, *v})
			}
		}
	}
}

// Median returns the median of the pairs, or 0 without any.
func (s *Square) Median() float64 {
	var all []float64
	s.pairs(func(p Slow) { all = append(all, p.GBps) })
	if len(all) == 0 {
		return 0
	}
	return measure.Percentile(all, 50)
}

// Slow returns the pairs that are more than a tenth below a median, the slowest first.
func (s *Square) Slow(median float64) (slow []Slow) {
	s.pairs(func(p Slow) {
		if p.GBps < slowPart*median {
			slow = append(slow, p)
		}
	})
	slices.SortStableFunc(slow, func(a, b Slow) int { return cmp.Compare(a.GBps, b.GBps) })
	return slow
}

// Worst returns the slowest pair that is slow, or nil.
func (s *Square) Worst(median float64) *Slow {
	if slow := s.Slow(median); len(slow) > 0 {
		return &slow[0]
	}
	return nil
}

// Below returns the pair, its rate, and how far that is below a median. It is empty for nil.
func (p *Slow) Below(median float64) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("rank %d to %d: %s GB/s, %.0f %% below the median", p.Src, p.Dst, Significant(p.GBps), 100*(1-p.GBps/median))
}

// Table returns a row and a column for each rank.
func (s Square) Table() *Table {
	t := &Table{Columns: Figures("rank")}
	for r := range s.Values {
		t.Columns = append(t.Columns, Figures(strconv.Itoa(r))...)
	}
	for r, row := range s.Values {
		cells := []string{strconv.Itoa(r)}
		for _, v := range row {
			if v == nil {
				cells = append(cells, Dash)
			} else {
				cells = append(cells, Significant(*v))
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
