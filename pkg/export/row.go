package export

import (
	"reflect"
	"strings"
	"time"
)

// Row is one figure of one case: a row of the tidy table. Its fields are the columns, in order; the first word
// of a field's tag is the name of the column. Empty text and nil are null.
type Row struct {
	RunID          string    `parquet:"run_id,optional,dict"`
	RunAttempt     string    `parquet:"run_attempt,optional,dict"`
	GeneratedAt    time.Time `parquet:"generated_at,timestamp(microsecond:utc)"`
	CaseID         string    `parquet:"case_id,dict"`
	ComparisonKey  string    `parquet:"comparison_key,optional,dict"` // of the row if rows of the family have keys
	SKU            string    `parquet:"sku,optional,dict"`
	Backend        string    `parquet:"backend,optional,dict"`
	LibraryVersion string    `parquet:"library_version,optional,dict"`
	Family         string    `parquet:"family,optional,dict"`
	OpOrPhase      string    `parquet:"op_or_phase,optional,dict"`
	Mode           string    `parquet:"mode,optional,dict"`
	DType          string    `parquet:"dtype,optional,dict"`
	World          *int64    `parquet:"world,optional"`
	Nodes          *int64    `parquet:"nodes,optional"`
	Repeat         *int64    `parquet:"repeat,optional"`
	AttemptOrdinal int64     `parquet:"attempt_ordinal"`
	Outcome        string    `parquet:"outcome,dict"`
	Reason         string    `parquet:"reason,optional,dict"` // code of the first reason
	XName          string    `parquet:"x_name,optional,dict"`
	X              *int64    `parquet:"x,optional"`
	Placement      string    `parquet:"placement,optional,dict"`
	Src            *int64    `parquet:"src,optional"`
	Dst            *int64    `parquet:"dst,optional"`
	Timing         string    `parquet:"timing,optional,dict"`
	Metric         string    `parquet:"metric,dict"`
	Stat           string    `parquet:"stat,dict"`
	Unit           string    `parquet:"unit,dict"`
	Value          float64   `parquet:"value"`
	SampleCount    *int64    `parquet:"sample_count,optional"`
	Complete       bool      `parquet:"complete"`
	Passed         bool      `parquet:"passed"`
	Run            string    `parquet:"run,optional,dict"` // name of the run
}

// Columns returns the names of the columns in order.
func Columns() []string {
	t := reflect.TypeFor[Row]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("parquet"), ",")
	}
	return names
}

// whole returns n as a column's value.
func whole[N int | int64](n N) *int64 { return new(int64(n)) }

// known returns n as a column's value, null for 0, which means unknown.
func known(n int) *int64 {
	if n == 0 {
		return nil
	}
	return whole(n)
}

// maybe returns n as a column's value, null if it is missing.
func maybe(n *int) *int64 {
	if n == nil {
		return nil
	}
	return whole(*n)
}
