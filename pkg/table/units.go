package table

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/plural"
)

// Significant prints v with three significant digits and no exponent.
func Significant(v float64) string {
	if v == 0 {
		return "0"
	}
	_, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	e, _ := strconv.Atoi(exponent) // FormatFloat wrote it
	return strconv.FormatFloat(v, 'f', max(0, min(2-e, 6)), 64)
}

// Dash represents a value that was not measured.
const Dash = "–"

// OrDash is Significant, with a dash for a value that was not measured.
func OrDash(v float64) string {
	if v == 0 {
		return Dash
	}
	return Significant(v)
}

// Size formats bytes with a binary prefix, exactly if that is short.
func Size(bytes int64) string {
	const units = "KMGTPE"
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	v, i := float64(bytes)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " " + units[i:i+1] + "iB"
}

// Rate formats a count per second with a decimal prefix.
func Rate(v float64) string {
	for _, u := range []struct {
		scale  float64
		prefix string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= u.scale {
			return Significant(v/u.scale) + u.prefix
		}
	}
	return OrDash(v)
}

// Plural is plural.Count for words with the plural in s.
func Plural(n int, one string) string { return plural.Count(n, one, one+"s") }

// Fitted returns the fit of a curve for the JSON form of a summary, nil if there are too few sizes.
func Fitted(points []fit.Point) *fit.Model {
	if m := fit.Fit(points); len(m.Segments) > 0 {
		return &m
	}
	return nil
}
