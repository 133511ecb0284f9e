// Package short leaves tests out of the short run.
package short

import "testing"

// Skip skips t under go test -short: a test that takes seconds, and whose claim is
// about what is computed rather than about goroutines or pointers in C, which is what
// the short run looks at, under the race detector. The plain run skips nothing.
func Skip(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to the plain run")
	}
}
