// Package eptest runs EP cases in tests: a group of ranks over a store, as
// goroutines of one process or as the caller's own processes, and the document
// that comes of it.
package eptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/ep"
	eprunner "github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// Limit ends a test whose ranks hang.
const Limit = 15 * time.Minute

// Case returns a small bf16 case in normal mode, with few samples.
func Case(world int, change ...func(*plan.Case)) plan.Case {
	return plantest.EP(world, append([]func(*plan.Case){few}, change...)...)
}

func few(c *plan.Case) {
	e := ep.Of(c)
	e.Hidden, e.Experts, e.Ladder = 256, 16, plan.Ladder{1, 2, 8}
	e.Timing = ep.Timing{
		ItersPerTrial: 2, TrialsPerPoint: 3, WarmupItersPerTrial: 2,
		ChainItersPerTrial: 6, ChainTrialsPerPoint: 2, ChainDrop: 2,
	}
}

// Run runs the cases in one warm group of goroutines, each on an OS thread of
// its own, and returns what each rank left of each case. Faults are as in
// rank.ParseFaults.
func Run(t *testing.T, open rank.Opener, faults string, cases ...plan.Case) [][]rank.Stream {
	parsed, err := rank.ParseFaults(faults, eprunner.FaultKinds()...)
	require.NoError(t, err)
	return RunGroup(t, open, parsed, cases...)
}

// RunGroup is Run for any family, whose faults the caller has parsed.
func RunGroup(t *testing.T, open rank.Opener, faults []rank.Fault, cases ...plan.Case) [][]rank.Stream {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	world := cases[0].World
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(world + 2)) // waiting ranks hold their processors
	// Ranks that measure at the same time restore what another one set: collections would stay off.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	store := Store(t)
	Order(t, store, cases...)

	find := func(plan.Case) (rank.Opener, error) { return open, nil }
	var group sync.WaitGroup
	for r := range world {
		group.Go(func() {
			runtime.LockOSThread() // for good: the rank may have pinned it
			place := rank.Place{Rank: r, World: world, LocalRank: r}
			if err := rank.Loop(ctx, place, store, find, faults, io.Discard); err != nil {
				t.Logf("rank %d: %v", r, err)
				cancel()
			}
		})
	}
	group.Wait()
	return Streams(t, store, cases...)
}

// Store returns a store of its own for a group, in memory: ranks make thousands of small files,
// and each takes a disk 100 µs.
func Store(t *testing.T) *rendezvous.File {
	store, err := rendezvous.OpenFile(fakes.MemoryDir(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// Order tells the group of store to run the cases and then to end.
func Order(t *testing.T, store rendezvous.Store, cases ...plan.Case) {
	for n, o := range append(orders(cases), rank.Order{Stop: true}) {
		raw, err := json.Marshal(o)
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), rank.OrderKey(n+1), raw))
	}
}

func orders(cases []plan.Case) (all []rank.Order) {
	for i, c := range cases {
		all = append(all, rank.Order{Scope: scope(i), Case: c})
	}
	return all
}

func scope(i int) string { return fmt.Sprintf("case-%04d", i) }

// Streams reads back what the ranks left of each case.
func Streams(t *testing.T, store rendezvous.Store, cases ...plan.Case) [][]rank.Stream {
	all := make([][]rank.Stream, len(cases))
	for i, c := range cases {
		for r := range c.World {
			s, err := rank.ReadStream(store, scope(i), r)
			require.NoError(t, err)
			all[i] = append(all[i], s)
		}
	}
	return all
}

// Assembled has assemble make the document of a case of what its ranks left, and does what a
// shard does besides, so that it can be validated.
func Assembled(t *testing.T, c plan.Case, streams []rank.Stream, assemble func(result.Document, []rank.Stream) error) result.Document {
	t.Helper()
	d, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Unix(0, 0), Vendor: "host", Generator: "test"})
	require.NoError(t, err)
	head := d.Head()
	head.Implementation.Maturity = "reference"
	require.NoError(t, assemble(d, streams))
	for _, s := range streams {
		if s.Facts != nil {
			head.Topology.DeviceProduct = s.Facts.DeviceProduct
		}
		if s.Failure != nil {
			t.Logf("rank %d: %s: %s", s.Rank, s.Failure.Reason, s.Failure.Text)
			head.Outcome.Reasons = result.Reasons{s.Failure.Reason}
		}
	}
	if head.Outcome.Status == result.Failed && len(head.Outcome.Reasons) == 0 {
		head.Outcome.Reasons = result.Reasons{{Code: result.ReasonRankDied}}
	}
	require.NoError(t, result.Validate(d))
	return d
}

// Document is Assembled for an EP case.
func Document(t *testing.T, c plan.Case, streams []rank.Stream) *ep.Document {
	t.Helper()
	return Assembled(t, c, streams, eprunner.Assemble).(*ep.Document)
}
