package figure

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/result"
)

// Spread is a figure over the repeats of a case: its median, minimum and maximum, and the number of repeats
// that have it.
type Spread struct {
	Median, Low, High float64
	N                 int
}

// Over returns the spread of the values of repeats, of which there is at least one.
func Over(values []float64) Spread {
	return Spread{measure.MiddleMean(values), slices.Min(values), slices.Max(values), len(values)}
}

// String formats the largest distance of a repeat from the median, and the number of repeats, to follow the
// median: " ± 3.1 % (n=5)". It returns "" for a single repeat, and for a median of 0.
func (s Spread) String() string {
	if s.N < 2 || s.Median == 0 {
		return ""
	}
	part, places := 100*max(s.High-s.Median, s.Median-s.Low)/math.Abs(s.Median), 1
	if part >= 9.95 {
		places = 0
	}
	return fmt.Sprintf(" ± %.*f %% (n=%d)", places, part, s.N)
}

// Medians returns a copy of all[0] in which every floating-point number is the median over all. The values are
// pointers to structs of one type, which may contain structs, slices and pointers. An element of a slice or the
// target of a pointer that some values lack is the median of the others. Everything else is as in all[0].
func Medians(all []any) any {
	values := make([]reflect.Value, len(all))
	for i := range all {
		values[i] = reflect.ValueOf(all[i])
	}
	return medians(values).Interface()
}

func medians(all []reflect.Value) reflect.Value {
	first := all[0]
	out := reflect.New(first.Type()).Elem()
	out.Set(first)
	switch first.Kind() {
	case reflect.Float64:
		values := make([]float64, len(all))
		for i := range all {
			values[i] = all[i].Float()
		}
		out.SetFloat(Over(values).Median)
	case reflect.Pointer:
		var found []reflect.Value
		for _, v := range all {
			if !v.IsNil() {
				found = append(found, v.Elem())
			}
		}
		if len(found) > 0 {
			out.Set(reflect.New(first.Type().Elem()))
			out.Elem().Set(medians(found))
		}
	case reflect.Struct:
		for i := range first.NumField() {
			if first.Type().Field(i).IsExported() {
				out.Field(i).Set(medians(each(all, func(v reflect.Value) reflect.Value { return v.Field(i) })))
			}
		}
	case reflect.Slice:
		if first.IsNil() {
			return out
		}
		out.Set(reflect.MakeSlice(first.Type(), first.Len(), first.Len()))
		for i := range first.Len() {
			with := slices.DeleteFunc(slices.Clone(all), func(v reflect.Value) bool { return v.Len() <= i })
			out.Index(i).Set(medians(each(with, func(v reflect.Value) reflect.Value { return v.Index(i) })))
		}
	}
	return out
}

func each(all []reflect.Value, of func(reflect.Value) reflect.Value) []reflect.Value {
	out := make([]reflect.Value, len(all))
	for i := range all {
		out[i] = of(all[i])
	}
	return out
}

// Merge merges the series of the repeats of a case. At each X it has the medians over the repeats whose point
// counts, and the spread of their times. A point that counts in no repeat is copied from the first that has it.
func Merge(repeats []*Series) Series {
	out := Series{View: repeats[0].View, Facets: repeats[0].Facets, Basis: repeats[0].Basis}
	type place struct {
		x   int64
		nth int // of the points of a series with this X
	}
	at := map[place][]Point{}
	var order []place
	for _, s := range repeats {
		seen := map[int64]int{}
		for _, p := range s.Points {
			key := place{p.X, seen[p.X]}
			seen[p.X]++
			if _, ok := at[key]; !ok {
				order = append(order, key)
			}
			at[key] = append(at[key], p)
		}
	}
	slices.SortStableFunc(order, func(a, b place) int { return cmp.Compare(a.x, b.x) })
	for _, key := range order {
		good := slices.DeleteFunc(slices.Clone(at[key]), func(p Point) bool { return p.Reason != "" })
		if len(good) == 0 {
			good = at[key][:1]
		}
		p, spread := merged(good)
		out.Points, out.Spreads = append(out.Points, p), append(out.Spreads, spread)
	}
	return out
}

func merged(points []Point) (Point, Spread) {
	out := points[0]
	median := func(of func(*Point) float64) Spread {
		var v []float64
		for i := range points {
			if x := of(&points[i]); !math.IsNaN(x) { // a figure that the repeat lacks
				v = append(v, x)
			}
		}
		if len(v) == 0 || 2*len(v) < len(points) {
			return Spread{Median: math.NaN()}
		}
		return Over(v)
	}
	tail := func(of func(*result.Percentiles) *float64) *float64 {
		var v []float64
		for i := range points {
			if t := of(&points[i].Time); t != nil {
				v = append(v, *t)
			}
		}
		if len(v) == 0 {
			return nil
		}
		return new(Over(v).Median)
	}
	spread := median(func(p *Point) float64 { return p.Time.P50 })
	out.Time = result.Percentiles{
		P50: spread.Median,
		P90: tail(func(t *result.Percentiles) *float64 { return t.P90 }),
		P95: tail(func(t *result.Percentiles) *float64 { return t.P95 }),
		P99: tail(func(t *result.Percentiles) *float64 { return t.P99 }),
	}
	out.Work = slices.Clone(out.Work)
	for k := range out.Work {
		out.Work[k] = median(func(p *Point) float64 { return p.Work[k] }).Median
	}
	out.Samples = 0
	for _, p := range points {
		out.Samples += p.Samples
	}
	return out, spread
}
