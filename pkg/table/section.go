package table

import (
	"slices"
	"strings"
)

// Section is one part of a summary, the same in every output format.
type Section struct {
	Title  string
	Note   string
	Table  *Table
	Keys   int // number of leading columns that identify a row
	Charts []Chart
	Folded bool // details

	Common string // key columns that are equal in all rows; see LiftCommon
}

// Filled returns s with a table of the rows of list's elements. Elements for which row returns nil are
// omitted.
func Filled[T any](s Section, columns []Column, list []T, row func(T) []string) Section {
	s.Table = &Table{Columns: columns}
	for _, e := range list {
		if cells := row(e); cells != nil {
			s.Table.Rows = append(s.Table.Rows, cells)
		}
	}
	return s
}

// LiftCommon removes key columns that are equal in all rows from the table and names them in Common.
func (s *Section) LiftCommon() {
	var common []string
	s.Table.keys = s.Keys
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

// Chart is one series over labelled positions. Charts have no logarithmic axis and no legend; latencies,
// which need both, are in tables.
type Chart struct {
	Title  string
	X, Y   string
	Labels []string
	Values []float64
}
