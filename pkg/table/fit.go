package table

import "github.com/collectivex/collectivex/pkg/fit"

// Fitted returns the fit of a curve for the JSON form of a summary, nil if there are too few sizes.
func Fitted(points []fit.Point) *fit.Model {
	if m := fit.Fit(points); len(m.Segments) > 0 {
		return &m
	}
	return nil
}
