// Package slurmtest starts a real Slurm cluster for tests: munged, slurmctld and one
// slurmd per node, all on this host's loopback addresses.
package slurmtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

// hostName is this host's name in a cluster, which is at a loopback address everywhere.
const hostName = "localhost"

// Start starts a cluster of nodes and lets this process use it until the test ends. The
// nodes are this host under names of their own: node1, node2, … in partition test.
//
// Slurm listens at the address of the host's name. Start therefore runs the test t again as
// root in a process whose host is called localhost, and returns false; in that process it
// returns true. The process runs beside all following tests, also those that are not parallel.
func Start(t *testing.T, nodes int) bool {
	t.Helper()
	return start(t, nodes, func() int { return freePorts(t, nodes+1) })
}

// start starts a cluster at the ports from the one that ports returns. If another process takes
// one of them first, it asks for other ports.
func start(t *testing.T, nodes int, ports func() int) bool {
	t.Helper()
	need.EndToEnd(t, "to start a Slurm cluster")
	for _, program := range []string{"munged", "slurmctld", "slurmd", "srun"} {
		need.Tool(t, program)
	}
	need.Namespace(t, "uts")
	if name, err := os.Hostname(); err != nil || name != hostName || os.Geteuid() != 0 {
		inside(t)
		return false
	}
	dir, err := os.MkdirTemp("/tmp", "cxslurm-") // short: it holds sockets
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) // munge wants its socket within reach of all
	scripts := need.Source("testdata/slurm")
	const tries = 10
	for try := 1; ; try++ {
		up := exec.Command(filepath.Join(scripts, "up.sh"), dir)
		up.Env = append(os.Environ(), fmt.Sprintf("SLURM_TEST_NODES=%d", nodes), fmt.Sprintf("SLURM_TEST_PORT_BASE=%d", ports()))
		out, err := up.CombinedOutput()
		if err == nil {
			break
		}
		if try == tries || !bytes.Contains(out, []byte("Address already in use")) {
			require.NoError(t, err, "%s", out)
		}
	}
	t.Cleanup(func() {
		out, err := exec.Command(filepath.Join(scripts, "down.sh"), dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
	return true
}

// inside runs the test t as root on a host of that name. Tests of a cluster mostly wait, so
// the process starts at once, and t pauses until the tests that are not parallel have ended.
func inside(t *testing.T) {
	t.Helper()
	args := []string{
		"unshare", "--uts", "sh", "-ec", `hostname "$1"; shift; exec "$@"`, "sh", hostName,
		os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=30m",
	}
	if os.Geteuid() != 0 {
		args = append([]string{"sudo", "-n", "-E"}, args...)
	}
	var out bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Parallel()
	require.NoError(t, cmd.Wait(), "%s", &out)
	require.Contains(t, out.String(), "--- PASS: "+t.Name())
	require.NotContains(t, out.String(), "--- SKIP")
}

// Jobs lists the ids of the jobs in the queue.
func Jobs(t *testing.T) string {
	t.Helper()
	var out []byte
	var err error
	for range 10 { // a busy slurmctld answers late, or not at all
		if out, err = exec.Command("squeue", "--noheader", "--format=%A %T").CombinedOutput(); err == nil {
			break
		}
	}
	require.NoError(t, err, "%s", out)
	return string(out)
}

// freePorts returns the first of n neighbouring free ports, below the range from which the kernel
// chooses ports.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 1000 {
		if base := 10000 + rand.IntN(20000); free(base, n) {
			return base
		}
	}
	require.FailNow(t, "no free ports")
	return 0
}

// free reports whether n ports from base on are free, at all addresses.
func free(base, n int) bool {
	for port := base; port < base+n; port++ {
		l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
