package host

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/rank"
)

// The published reason has the remedy: the log of the rank may be gone.
func TestDeniedProcessVM(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM:  "environment: process_vm is denied, add SYS_PTRACE to the container or set ptrace_scope to 1",
		unix.ENOSYS: "environment: process_vm is denied, the kernel or a sandbox lacks it",
	} {
		var coded *rank.Error
		require.ErrorAs(t, refused(err), &coded)
		require.Equal(t, want, coded.Reason.String())
		require.NoError(t, coded.Reason.Check())
	}
}
