package nccl

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
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
		c.Backend, transfer.Of(c).Mode = string(kind)+"-kv", vocab.LanePeer
	}
}

var kinds = []nccl.Kind{nccl.NCCL, nccl.RCCL}

// Every arrangement and operation moves every word to its place, as kernels on the devices
// find. A time is the slower rank's.
func TestTransfersArriveWhole(t *testing.T) {
	setUp(t)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			for _, d := range transfertest.Goroutines(Open(kind))(t, "", transfertest.Arranged(peer(kind))...) {
				transfertest.ArrivedWhole(t, d, vocab.LanePeer)
				require.Equal(t, map[nccl.Kind]string{nccl.NCCL: "P2P/CUMEM", nccl.RCCL: "P2P/IPC"}[kind], d.Measurement.Transport)
				require.Equal(t, "device", d.Measurement.CheckedBy)
				require.True(t, d.Measurement.TwoSided)
				require.Equal(t, 2*len(d.Measurement.Rows), d.EntrySkew.Windows, "both ranks enter each trial")
				for _, r := range d.Measurement.Rows {
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
		{"CX_FAKE_NCCL_FLIP", "1:24", result.Invalid, "check-failed: misplaced, 1 words"}, // in the first burst that is checked
		{"CX_FAKE_NCCL_CALL_ERROR", "0:3", result.Failed, "library-error: grouped-send-recv ncclInternalError"},
		{"CX_FAKE_NCCL_ASYNC_ERROR", "0:3", result.Failed, "library-error: asynchronous error ncclRemoteError"},
	} {
		t.Run(tc.variable, func(t *testing.T) {
			t.Setenv(tc.variable, tc.value)
			d := transfertest.Goroutines(Open(nccl.NCCL))(t, "", transfertest.Small(peer(nccl.NCCL), func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{transfer.Pull} }))[0]
			require.Equal(t, tc.status, d.Outcome.Status)
			// The document has the reason of the last failed rank, which may be the peer.
			require.Contains(t, []string{tc.reason, "library-error"}, d.Outcome.Reasons[0].String())
		})
	}
}

// What sustained bursts left is checked in the state in which they were timed: a library that has
// stopped, or that writes only to memory which seems to lack the data, does not pass.
func TestLibrariesThatSkip(t *testing.T) {
	for _, kind := range kinds {
		setUp(t)
		variable := map[nccl.Kind]string{nccl.NCCL: "CX_NCCL_LIB", nccl.RCCL: "CX_RCCL_LIB"}[kind]
		t.Setenv(variable, fakes.Liar(t, os.Getenv(variable)))
		// 33 receives connect, are small or in rows; a burst has 12.
		for _, lie := range []string{"lost:46", "known:1"} {
			for _, op := range transfer.Ops() {
				t.Run(string(kind)+" "+lie+" "+op, func(t *testing.T) {
					t.Setenv("CX_LIE", lie)
					d := transfertest.Goroutines(Open(kind))(t, "", transfertest.Small(peer(kind), transfertest.Few, func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{op} }))[0]
					require.Equal(t, result.Invalid, d.Outcome.Status)
					for _, r := range d.Measurement.Rows {
						require.True(t, r.Verify.Passed, r.Name())
					}
					require.False(t, d.Measurement.Sustained[0].Verify.Passed)
				})
			}
		}
	}
}

// Data that took another lane than the one asked for are right, and the case is invalid.
func TestAnotherLaneIsInvalid(t *testing.T) {
	setUp(t)
	d := transfertest.Goroutines(Open(nccl.NCCL))(t, "", transfertest.Small(peer(nccl.NCCL), func(c *plan.Case) {
		transfer.Of(c).Mode, transfer.Of(c).Ops = vocab.LaneSharedMemory, transfer.Words{transfer.Pull}
	}))[0]
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, "check-failed: lane peer instead of shm", d.Outcome.Reasons.String())
	require.True(t, d.Measurement.Rows[0].Verify.Passed)
}

// A library that quietly goes another way, or does not say which, moves the data, and the case
// is invalid: whichever rank sends.
func TestALaneThatVanishesIsNoticed(t *testing.T) {
	setUp(t)
	for via, tc := range map[string]struct{ lane, transport string }{
		"SHM/direct/direct":         {vocab.LaneSharedMemory, "SHM/direct"},
		"NET/Socket/0":              {vocab.LaneTCP, "NET/Socket"},
		"NET/IB/0/GDRDMA":           {vocab.LaneRDMA, "NET/IB"},
		"P2P/indirect/2[2]":         {runner.UnknownLane, ""},
		"NET/Somebody's own plugin": {runner.UnknownLane, ""},
		"":                          {runner.UnknownLane, ""},
	} {
		t.Setenv("CX_FAKE_NCCL_VIA", via)
		for _, op := range transfer.Ops() {
			d := transfertest.Goroutines(Open(nccl.NCCL))(t, "", transfertest.Small(peer(nccl.NCCL), transfertest.Few, func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{op} }))[0]
			require.Equal(t, result.Invalid, d.Outcome.Status, via)
			require.Equal(t, "check-failed: lane "+tc.lane+" instead of peer", d.Outcome.Reasons.String(), via)
			require.Equal(t, tc.transport, d.Measurement.Transport, via)
			require.True(t, d.Measurement.Rows[0].Verify.Passed, via)
		}
	}
}

// A case of a warm group does not go by what the one before it did.
func TestEachCaseHasItsOwnLane(t *testing.T) {
	setUp(t)
	log, err := logs[nccl.NCCL]()
	require.NoError(t, err)
	before, err := log.Text()
	require.NoError(t, err)
	push := func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{transfer.Push} }
	docs := transfertest.Goroutines(Open(nccl.NCCL))(t, "", transfertest.Small(peer(nccl.NCCL), transfertest.Few), transfertest.Small(peer(nccl.NCCL), transfertest.Few, push))
	for _, d := range docs {
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	}
	text, err := log.Text()
	require.NoError(t, err)
	own := text[len(before):]
	require.Equal(t, runner.Lane{Name: vocab.LanePeer, Transport: "P2P/CUMEM"}, laneIn(own, 0), "it sends what is pulled")
	require.Equal(t, laneIn(own, 0), laneIn(own, 1))
	_, second, ok := strings.Cut(own, ": 1[1] -> 0[0]")
	require.True(t, ok)
	require.Empty(t, laneIn(second, 0), "the second case has no send of rank 0")
}

// Lines of the log as libraries have written them.
func TestLanesFromTheLog(t *testing.T) {
	for line, want := range map[string]runner.Lane{
		"h:1:2 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM":                                     {Name: vocab.LanePeer, Transport: "P2P/CUMEM"},
		"h:1:2 [1] NCCL INFO Channel 31/1 : 1[1] -> 0[0] via P2P/IPC/read":                                  {Name: vocab.LanePeer, Transport: "P2P/IPC"},
		"h:1:2 [1] NCCL INFO Channel 01/0 : 1[c1000] -> 0[c6000] via P2P/direct pointer comm 0x7 nRanks 02": {Name: vocab.LanePeer, Transport: "P2P/direct"},
		"[2026-01-15 02:30:52] h:1:2 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/CE/direct":             {Name: vocab.LaneSharedMemory, Transport: "SHM/CE"},
		"h:1:2 [1] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0":                           {Name: vocab.LaneTCP, Transport: "NET/Socket"},
		"h:1:2 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0":                        {},
		"h:1:2 [1] NCCL INFO Channel 00/02 : 0 1":                                                           {},
	} {
		require.Equal(t, want, laneIn("h:1:2 [1] NCCL INFO Bootstrap: Using eth0\n"+line+"\n", 1), line)
	}
	both := "h:1:2 [1] NCCL INFO Channel 00/1 : 1[1] -> 0[0] via P2P/IPC\nh:1:2 [1] NCCL INFO Channel 01/1 : 1[1] -> 0[0] via SHM/direct/direct\n"
	require.Equal(t, runner.Lane{Name: "peer+shm", Transport: "P2P/IPC+SHM/direct"}, laneIn(both, 1))
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
		"a fault without effect":              {faults: "rank=0,kind=" + pool.FaultStale, reason: result.ReasonRefused},
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
				transfer.Of(c).Ops = transfer.Words{transfer.Pull}
			}))[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, tc.reason, d.Outcome.Code())
			require.Empty(t, d.Measurement.Rows)
		})
	}
}
