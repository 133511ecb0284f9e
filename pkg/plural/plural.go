// Package plural writes numbers of things in sentences.
package plural

import "strconv"

// Count spells a number of things: "1 file", "2 files".
func Count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return strconv.Itoa(n) + " " + many
}
