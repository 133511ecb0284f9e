// Package netns gives tests a network of their own.
package netns

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
)

// variable is set in the process of a test that has a network of its own.
const variable = "CX_TEST_NETWORK"

// Own runs the test t again in a process whose network only has a loopback device, for libraries
// that listen for connections. It reports whether this is that process. If not, the test has ended
// there, and the caller returns. Making a network needs root, or sudo without a password.
func Own(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		Loopback(t, true)
		return true
	}
	need.Namespace(t, "net")
	env := append(need.Environ(), variable+"=1")
	args := []string{os.Args[0], "-test.v", "-test.run=^" + t.Name() + "$"}
	if os.Getuid() != 0 {
		args = append(append(append([]string{"sudo", "-n", "env"}, env...), "unshare", "--net"), args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	}
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), "--- PASS: "+t.Name()+" ")
	return false
}

// Loopback brings the loopback device of this process's network up or down.
func Loopback(t *testing.T, up bool) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	if up {
		lo.SetUint16(unix.IFF_UP)
	}
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}
