// Package wording asserts the content of a message without its full text. One test, beside the code
// that makes a message, has its full text. Every other test asserts the words that the reader acts
// on: the flag, the file, the number.
package wording

import (
	"strings"
	"testing"
)

// Gap separates the fragments that Has looks for.
const Gap = " … "

// Has fails the test unless text has the fragments of want, in their order, with
// anything or nothing between them: Has(t, stderr, "--ranks 3 … ring.xml").
func Has(t testing.TB, text, want string) {
	t.Helper()
	if missing, ok := lacks(text, want); ok {
		t.Fatalf("%q lacks %q of %q", text, missing, want)
	}
}

// lacks returns the first fragment of want that text lacks, if any.
func lacks(text, want string) (missing string, ok bool) {
	for fragment := range strings.SplitSeq(want, Gap) {
		_, after, found := strings.Cut(text, fragment)
		if !found {
			return fragment, true
		}
		text = after
	}
	return "", false
}
