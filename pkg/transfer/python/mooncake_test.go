package python

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/netns"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// blockVariable has ranks cut the blocks of MoRI at fewer bytes.
const blockVariable = "CX_TEST_BLOCK"

// rootVariable has ranks read the counters of adapters below a directory, without a lag.
const rootVariable = "CX_STANDIN_ROOT"

// A process has one interpreter, so that the ranks here are processes.
func TestMain(m *testing.M) {
	if n, err := strconv.ParseInt(os.Getenv(blockVariable), 10, 64); err == nil {
		libraries["mori-io"][1].maxBlock = n
	}
	if root := os.Getenv(rootVariable); root != "" {
		here, lag = sysfs.Root{FS: os.DirFS(root)}, 0
	}
	eptest.Main(func(c plan.Case) (rank.Opener, error) {
		for _, b := range []backend.Backend{Mooncake, UCCL, MoRI} {
			if b.Name == c.Backend {
				return b.Open[transfer.Name], nil
			}
		}
		return nil, fmt.Errorf("no backend %s", c.Backend)
	})
	os.Exit(m.Run())
}

// alone has the ranks of the test find Mooncake, which listens on every address, in a network of
// their own. It reports whether there is something left to do; see netns.Own.
func alone(t *testing.T) bool {
	t.Helper()
	need.Full(t)
	t.Setenv("PATH", pystandin.Path(t))
	t.Setenv("PYTHONPATH", wheels.Mooncake(t))
	return netns.Own(t)
}

// over is a case over Mooncake.
func over(change ...func(*plan.Case)) plan.Case {
	return transfertest.Small(append([]func(*plan.Case){overTCP}, change...)...)
}

func overTCP(c *plan.Case) { c.Backend, transfer.Of(c).Mode = "mooncake", vocab.LaneTCP }

// Two processes move every word over the real library, pulled and pushed, in bursts of one and of
// several requests, of MLA and GQA caches and in all arrangements, one case after the other over
// the same engines. The requests of GQA have more blocks than Mooncake queues. The kernel counted
// the bytes on connections of TCP.
func TestMooncakeArrivesWhole(t *testing.T) {
	if !alone(t) {
		return
	}
	cases := append(transfertest.Arranged(overTCP), over(transfertest.Slice("kv-mla", 10, 128, 64)), over(transfertest.Slice("kv-gqa", 100, 128, 16)))
	for _, d := range transfertest.Processes(t, "", cases...) {
		transfertest.ArrivedWhole(t, d, vocab.LaneTCP)
		require.Equal(t, wheels.MooncakeVersion, *d.Implementation.LibraryVersion)
	}
}

// A wrong word is found in what Mooncake moved.
func TestAWrongWordOfMooncakeIsFound(t *testing.T) {
	if alone(t) {
		transfertest.TornBlock(t, over())
	}
}

func TestMooncakeCallsAreRefused(t *testing.T) {
	if alone(t) {
		transfertest.CallsAreRefused(t, transfertest.Processes, func(c *plan.Case) { *c = over(transfertest.Few) })
	}
}

func TestAPeerOfMooncakeIsKilled(t *testing.T) {
	if alone(t) {
		transfertest.KilledPeer(t, "library-error: mooncake -1", over())
	}
}

// What keeps the backend from running is said before anything runs.
func TestMooncakeIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		variable, value string
		lane            string
		code            result.Code
	}{
		"no library":          {"PYTHONPATH", "/nowhere", vocab.LaneTCP, result.ReasonNoLibrary},
		"no Python":           {"CX_PYTHON_LIB", "/nowhere/libpython3.so", vocab.LaneTCP, result.ReasonNoLibrary},
		"adapters are chosen": {"MC_FORCE_HCA", "1", vocab.LaneTCP, result.ReasonRefused},
		"a lane of hosts":     {"PYTHONPATH", "", vocab.LaneProcessVM, result.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", pystandin.Path(t))
			t.Setenv(tc.variable, tc.value)
			d := transfertest.Processes(t, "", over(transfertest.Few, func(c *plan.Case) { transfer.Of(c).Mode = tc.lane }))[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, tc.code, d.Outcome.Code())
		})
	}
}
