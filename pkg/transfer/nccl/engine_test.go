package nccl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func TestMain(m *testing.M) { fakes.Main(m) }

// setUp makes this process find the stand-ins, with two devices.
func setUp(t *testing.T) {
	t.Helper()
	fakes.Build(t).Keep(t)
}

// peer makes a case one of the backend over a kind of library.
func peer(kind nccl.Kind) func(*plan.Case) {
	return func(c *plan.Case) {
		c.Backend, c.Transfer().Mode = string(kind)+"-kv", vocab.LanePeer
	}
}

var kinds = []nccl.Kind{nccl.NCCL, nccl.RCCL}

// Every arrangement and operation moves every word to its place, as kernels on the devices
// find. A time is the slower rank's.
func TestTransfersArriveWhole(t *testing.T) {
	setUp(t)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			cases := []plan.Case{transfertest.Small(peer(kind), transfertest.Parts)}
			for _, arrangement := range vocab.Arrangements() {
				cases = append(cases, transfertest.Small(peer(kind), func(c *plan.Case) { c.Transfer().Routing = arrangement }))
			}
			for _, d := range transfertest.Goroutines(Open(kind))(t, "", cases...) {
				require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
				require.Equal(t, vocab.LanePeer, d.Measurement.Lane)
				require.Equal(t, "device", d.Measurement.CheckedBy)
				require.True(t, d.Measurement.TwoSided)
				require.Equal(t, 2*len(d.Measurement.Rows), d.EntrySkew.Windows, "both ranks enter each trial")
				for _, r := range d.Measurement.Rows {
					require.Equal(t, 2*2*3, r.Verify.Checks, r.Name())
					require.Equal(t, 2*4, r.Latency.N)
				}
			}
		})
	}
}

// Each class of wrong words is found in the memory of the device that has them, and named.
func TestFaultsAreNamed(t *testing.T) {
	setUp(t)
	transfertest.FaultsAreNamed(t, transfertest.Goroutines(Open(nccl.NCCL)), peer(nccl.NCCL))
}

func TestCallsAreRefused(t *testing.T) {
	setUp(t)
	transfertest.CallsAreRefused(t, transfertest.Goroutines(Open(nccl.NCCL)), peer(nccl.NCCL))
}

// What the library itself does wrong is found: a bit that it flips, a call that fails, an
// error in flight, whose peer ends too.
func TestFaultsOfTheLibrary(t *testing.T) {
	setUp(t)
	for _, tc := range []struct{ variable, value, status, reason string }{
		{"CX_FAKE_NCCL_FLIP", "1:20", result.Invalid, "check-failed: misplaced, 1 words"}, // in the first burst that is checked
		{"CX_FAKE_NCCL_CALL_ERROR", "0:3", result.Failed, "library-error: grouped-send-recv ncclInternalError"},
		{"CX_FAKE_NCCL_ASYNC_ERROR", "0:3", result.Failed, "library-error: asynchronous error ncclRemoteError"},
	} {
		t.Run(tc.variable, func(t *testing.T) {
			t.Setenv(tc.variable, tc.value)
			d := transfertest.Goroutines(Open(nccl.NCCL))(t, "", transfertest.Small(peer(nccl.NCCL), func(c *plan.Case) { c.Transfer().Ops = plan.Words{vocab.Pull} }))[0]
			require.Equal(t, tc.status, d.Outcome.Status)
			require.Equal(t, tc.reason, d.Outcome.Reasons[0].String())
		})
	}
}

// Data that took another lane than the one asked for are right, and the case is invalid.
func TestAnotherLaneIsInvalid(t *testing.T) {
	setUp(t)
	d := transfertest.Goroutines(Open(nccl.NCCL))(t, "", transfertest.Small(peer(nccl.NCCL), func(c *plan.Case) {
		c.Transfer().Mode, c.Transfer().Ops = vocab.LaneSharedMemory, plan.Words{vocab.Pull}
	}))[0]
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, "check-failed: lane peer instead of shm", d.Outcome.Reasons.String())
	require.True(t, d.Measurement.Rows[0].Verify.Passed)
}

// A library without point-to-point operations, or that may not use the lane, and a fault that
// would change nothing are refused.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		hide   []string
		faults string
		env    string
		reason result.Code
	}{
		"a library that may not use the lane": {env: "NCCL_P2P_DISABLE", reason: result.ReasonRefused},
		"no point-to-point operations":        {hide: []string{"ncclSend"}, reason: result.ReasonNoSymbol},
		"a fault without effect":              {faults: "rank=0,kind=" + transfer.FaultStale, reason: result.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			setUp(t)
			if tc.env != "" {
				t.Setenv(tc.env, "1")
			}
			if tc.hide != nil {
				t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: tc.hide}.Build(t))
			}
			d := transfertest.Goroutines(Open(nccl.NCCL))(t, tc.faults, transfertest.Small(peer(nccl.NCCL), func(c *plan.Case) {
				c.Transfer().Ops = plan.Words{vocab.Pull}
			}))[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, tc.reason, d.Outcome.Code())
			require.Empty(t, d.Measurement.Rows)
		})
	}
}
