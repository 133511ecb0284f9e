package nixl

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/netns"
	"github.com/collectivex/collectivex/internal/short"
	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// A process has one lane, so that the ranks here are processes.
func TestMain(m *testing.M) {
	eptest.Main(func(plan.Case) (rank.Opener, error) { return Open, nil })
	os.Exit(m.Run())
}

// libraryVariable names the library of the ranks.
const libraryVariable = "CX_NIXL_LIB"

// use has ranks load the library in a directory with the wheel of NIXL.
func use(t *testing.T, dir string) {
	t.Setenv(libraryVariable, filepath.Join(dir, ".nixl_cu13.mesonpy.libs", "libnixl_capi.so"))
}

// over is a case over a lane of NIXL.
func over(lane string, change ...func(*plan.Case)) plan.Case {
	return transfertest.Small(append(change, func(c *plan.Case) {
		c.Backend, c.Transfer().Mode = "nixl", lane
	})...)
}

// Two processes move every word over each lane, in all arrangements and forms of a cache,
// one case after the other over the same agents; and UCX says that it used the lane.
func TestTransfersArriveWhole(t *testing.T) {
	short.Skip(t)
	dir := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return
	}
	use(t, dir)
	for _, lane := range []string{vocab.LaneProcessVM, vocab.LaneTCP} {
		t.Run(lane, func(t *testing.T) {
			cases := []plan.Case{over(lane, transfertest.Parts)}
			for _, arrangement := range vocab.Arrangements() {
				cases = append(cases, over(lane, func(c *plan.Case) { c.Transfer().Routing = arrangement }))
			}
			for _, d := range transfertest.Processes(t, "", cases...) {
				require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
				require.Equal(t, lane, d.Measurement.Lane)
				require.Equal(t, wheels.NIXL.Version, *d.Implementation.LibraryVersion)
				for _, r := range d.Measurement.Rows {
					require.Equal(t, 2*2*3, r.Verify.Checks, r.Name())
				}
			}
		})
	}
}

// few leaves one row and operation of a case.
func few(c *plan.Case) {
	t := c.Transfer()
	t.Ops, t.BatchSizes, t.Timing = plan.Words{vocab.Pull}, plan.Ladder{1}, plan.Repetitions{Reps: 2, Trials: 1}
}

// UCX without its module for cma falls back to tcp and says nothing. The data are right, and
// the case is invalid, since its lane was another.
func TestALaneThatVanishesIsNoticed(t *testing.T) {
	short.Skip(t)
	from := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return
	}
	dir := t.TempDir()
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(d.Name(), "libuct_cma") {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	}))
	use(t, dir)
	d := transfertest.Processes(t, "", over(vocab.LaneProcessVM, few))[0]
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, result.Reasons{result.ReasonCheck.With("lane tcp instead of vm")}, d.Outcome.Reasons)
	require.Equal(t, vocab.LaneTCP, d.Measurement.Lane)
	require.True(t, d.Measurement.Rows[0].Verify.Passed)
}

// A wrong word is found in what NIXL moved.
func TestAWrongWordIsFound(t *testing.T) {
	dir := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return
	}
	use(t, dir)
	d := transfertest.Processes(t, "rank=1,kind=half-block", over(vocab.LaneProcessVM, few))[0]
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Contains(t, d.Outcome.Reasons[0].Detail, "torn, ")
}

// What keeps the backend from running is said before anything runs.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		variable, value string
		lane            string
		code            result.Code
	}{
		"no library":            {libraryVariable, "/nowhere/libnixl_capi.so", vocab.LaneTCP, result.ReasonNoLibrary},
		"another library":       {libraryVariable, "libm.so.6", vocab.LaneTCP, result.ReasonNoSymbol},
		"transports are chosen": {"UCX_TLS", "tcp", vocab.LaneTCP, result.ReasonRefused},
		"devices are chosen":    {"UCX_NET_DEVICES", "eth0", vocab.LaneTCP, result.ReasonRefused},
		"a lane of GPUs":        {libraryVariable, "", vocab.LanePeer, result.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tc.variable, tc.value)
			d := transfertest.Processes(t, "", over(tc.lane, few))[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, tc.code, d.Outcome.Code())
		})
	}
}

// Rank 0 is killed while rank 1 posts one burst after the other, more of them than there is
// time for. Rank 1 fails in time, with the library's error, and no row comes of it.
func TestAPeerThatIsKilled(t *testing.T) {
	short.Skip(t)
	dir := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return
	}
	use(t, dir)
	for _, lane := range []string{vocab.LaneProcessVM, vocab.LaneTCP} {
		t.Run(lane, func(t *testing.T) {
			c := over(lane, few, func(c *plan.Case) { c.Transfer().Timing.Warmup = 1 << 24 })
			e := eptest.Processes(t, false, "rank=0,kind=kill,at=record-2", c) // its setup
			require.ErrorContains(t, e.Errs[0], "signal: killed")
			failure := e.Streams[0][1].Failure
			require.NotNil(t, failure, e.Logs[1])
			require.Equal(t, "library-error: nixl -2", failure.Reason.String(), failure.Text)
			for _, r := range e.Streams[0][1].Records {
				require.NotEqual(t, "transfer-trial", r.Kind)
			}
		})
	}
}
