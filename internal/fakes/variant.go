package fakes

import (
	"cmp"
	"testing"
)

// Variant is a communication library that is not as it should be.
type Variant struct {
	RCCL bool
	// Hide are symbols that it lacks.
	Hide []string
	// SOName replaces libnccl.so.2 or librccl.so.1.
	SOName string
}

// Build links the variant for this test and returns its path.
func (v Variant) Build(t testing.TB) string {
	t.Helper()
	file := ncclFile
	if v.RCCL {
		file = rcclFile
	}
	return lacking(t, file, cmp.Or(v.SOName, file), v.Hide)
}
