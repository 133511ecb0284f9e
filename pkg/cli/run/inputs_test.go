package run

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesOfInputs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, d := range []string{"a/out", "b/out", "x=y", "results"} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	for _, tc := range []struct{ args, names []string }{
		{[]string{"a/out"}, []string{"out"}},
		{[]string{"a/out/"}, []string{"out"}},
		{[]string{"a/out", "b/out", "results"}, []string{"a/out", "b/out", "results"}},
		{[]string{"monday=a/out", "b/out"}, []string{"monday", "out"}},
		{[]string{"x=y"}, []string{"x=y"}},
		{[]string{"x="}, []string{"x="}},
		{[]string{"monday.ndjson", "tuesday.ndjson"}, []string{"monday", "tuesday"}},
		{[]string{"run.ndjson", "a/run.ndjson"}, []string{"", "a"}},
		{[]string{"a/out", "./a/out"}, []string{"out", "out"}},
	} {
		n := named{args: tc.args}
		n.split()
		require.Equal(t, tc.names, n.names, tc.args)
	}
}
