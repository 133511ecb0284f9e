package vocab

import (
	"fmt"
	"math"
	"strings"
)

// minPrefix is the minimum length of a prefix that identifies a name.
const minPrefix = 3

// Nearest returns the name that got was probably meant to be, or "". It prefers names that begin
// with got, then names within a few edits of got, then names with which got begins. Among several,
// it returns the one with the fewest edits. A few edits are two, but at most half of the letters of
// got, or a third of its letters if that is more.
func Nearest(got string, names []string) string {
	got = strings.ToLower(got)
	begins := func(long, short string) bool { return len(short) >= minPrefix && strings.HasPrefix(long, short) }
	for _, means := range []func(name string, edits int) bool{
		func(name string, _ int) bool { return begins(name, got) },
		func(_ string, edits int) bool { return edits <= max(min(2, len(got)/2), len(got)/3) },
		func(name string, _ int) bool { return begins(got, name) },
	} {
		best, least := "", math.MaxInt
		for _, n := range names {
			name := strings.ToLower(n)
			if d := distance(got, name); d < least && means(name, d) {
				best, least = n, d
			}
		}
		if best != "" {
			return best
		}
	}
	return ""
}

// Hint returns the end of a message about an unknown name: "; did you mean …?", or else the names to
// choose from.
func Hint(got string, names []string) string {
	switch n := Nearest(got, names); {
	case n != "":
		return fmt.Sprintf("; did you mean %q?", n)
	case len(names) == 0:
		return "; there is none"
	default:
		return "; choose from " + strings.Join(names, ", ")
	}
}

// distance is the Levenshtein distance of two strings, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost = 1 + min(diag, row[j], row[j+1])
			}
			diag, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
