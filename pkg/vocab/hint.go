package vocab

import (
	"fmt"
	"math"
	"strings"
)

// leastPrefix is how much of a name says which one is meant.
const leastPrefix = 3

// Nearest returns the name in names that got was probably meant to be: of those
// that begin with got, or else of all that are near, the one with the fewest edits
// between them, or else one that got begins with; or "". Near are two edits, but never more
// than half of the letters of got, or a third of them.
func Nearest(got string, names []string) string {
	got = strings.ToLower(got)
	begins := func(long, short string) bool { return len(short) >= leastPrefix && strings.HasPrefix(long, short) }
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

// Hint says what was probably meant: "; did you mean …?", or else what there
// is to choose from.
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
