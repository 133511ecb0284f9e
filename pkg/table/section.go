package table

import (
	"slices"
	"strings"
)

// Section is one part of a summary, the same for every form of it.
type Section struct {
	Title  string
	Note   string
	Table  *Table
	Keys   int // leading columns of the table that tell its rows apart
	Charts []Chart
	Folded bool // details

	Common string // key columns that are equal in all rows; see LiftCommon
}

// LiftCommon takes the key columns that are equal in all rows out of the table
// and names them once.
func (s *Section) LiftCommon() {
	var common []string
	for i := s.Keys - 1; i >= 0; i-- {
		value := s.Table.Rows[0][i]
		if slices.ContainsFunc(s.Table.Rows, func(r []string) bool { return r[i] != value }) {
			continue
		}
		if value != "" {
			common = append(common, s.Table.Columns[i].Name+" "+value)
		}
		s.Table.remove(i)
	}
	slices.Reverse(common)
	s.Common = strings.Join(common, ", ")
}

// Chart is one series over labelled positions. Charts have no logarithmic axis
// and no legend, so that latencies, which need both, stand in tables.
type Chart struct {
	Title  string
	X, Y   string
	Labels []string
	Values []float64
}
