package family

import "github.com/collectivex/collectivex/pkg/figure"

// Repeats is embedded in headlines of type H, pointers to structs, that are of several repeats of a case.
type Repeats[H any] struct{ all []H }

// Keep keeps the headlines of the single repeats.
func (r *Repeats[H]) Keep(all []any) {
	for _, h := range all {
		r.all = append(r.all, h.(H))
	}
}

// All returns the headlines of the single repeats; none for one repeat.
func (r *Repeats[H]) All() []H { return r.all }

// Spread returns the text of the spread of a figure over the repeats, which follows their median in a table. It
// is empty for one repeat. of returns 0 for a missing figure.
func (r *Repeats[H]) Spread(of func(H) float64) string {
	var values []float64
	for _, h := range r.all {
		if v := of(h); v != 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return figure.Over(values).String()
}

// Repeated returns the headline of a case from those of its repeats: their medians. A headline with a method
// Settle then derives again what follows from its figures.
func Repeated(all []any) any {
	if len(all) == 1 {
		return all[0]
	}
	middle := figure.Medians(all)
	if r, ok := middle.(interface{ Keep(all []any) }); ok {
		r.Keep(all)
	}
	if s, ok := middle.(interface{ Settle() }); ok {
		s.Settle()
	}
	return middle
}
