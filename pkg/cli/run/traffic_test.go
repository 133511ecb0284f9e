package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/short"
	"github.com/collectivex/collectivex/pkg/cli"
)

// An alltoallv has the size and the ranks of its file.
func TestBenchTraffic(t *testing.T) {
	short.Skip(t)
	file := filepath.Join(t.TempDir(), "pair.txt")
	require.NoError(t, os.WriteFile(file, []byte("0 4096\n1024 12\n"), 0o600))
	stdout, _ := onHost(t, "alltoallv", "--traffic", file, "-n", "3")
	require.Regexp(t, `(?m)^ +4108 +1027 +float +none +-1 .* 0 +N/A`, stdout)

	for _, tt := range []struct {
		want string
		args []string
	}{
		{"alltoallv needs --traffic FILE, and no other operation takes it", []string{"alltoallv"}},
		{"alltoallv needs --traffic FILE, and no other operation takes it", []string{"alltoall", "--traffic", file}},
		{"--maxbytes: the size is that of the traffic", []string{"alltoallv", "--traffic", file, "-e", "1M"}},
		{"--traffic: open " + file + ".no: no such file or directory", []string{"alltoallv", "--traffic", file + ".no"}},
		{file + " is of 2 ranks, and there are 4: -t times -g has to be as many", []string{"alltoallv", "--traffic", file, "-t", "4"}},
		{file + ":2:6: 12 bytes are not a whole number of double elements of 8 bytes", []string{"alltoallv", "--traffic", file, "-d", "double"}},
	} {
		code, _, stderr := cxrun(t, nil, append([]string{"bench", "--backend", "host"}, tt.args...)...)
		require.Equal(t, cli.ExitUsage, code, stderr)
		require.Equal(t, "cxrun: "+tt.want+"\n", stderr)
	}
}

// Each pair of ranks has a line, with a comment before it that names them.
func TestBenchPairs(t *testing.T) {
	short.Skip(t)
	stdout, _ := onHost(t, "p2p", "-t", "2", "-b", "8", "-e", "8", "-n", "3")
	require.Regexp(t, `(?m)^# rank 0 to rank 1\n +8 +2 +float .* 0 +N/A.*\n# rank 1 to rank 0\n +8 +2 +float .* 0 +N/A`, stdout)
}
