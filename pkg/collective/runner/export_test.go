package runner

import "testing"

// Untruncated is for tests of what a case enqueues: without truncated windows, that is the same in every
// run.
func Untruncated(t *testing.T) {
	before := minTruncated
	minTruncated = 0
	t.Cleanup(func() { minTruncated = before })
}
