// Package eptest runs EP cases in tests. The ranks of a group are goroutines or
// processes of the test binary. It returns their records or assembles a document.
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
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	eprunner "github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// Limit is the maximum duration of a group; it ends tests whose ranks hang.
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

// leastMultiprocessors is how many a Hopper device has; later ones and AMD's have more.
const leastMultiprocessors = 132

// Accepted requires that every runnable EP case of all shipped suites for a backend is accepted by
// describe, which refuses cases at run time, and by the runner. It returns how many there are.
func Accepted(t *testing.T, backend string, describe func(plan.Case, accel.Info) (eprunner.Description, error)) (planned int) {
	t.Helper()
	m := plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{planner.FilterBackend: {backend}}})
	arch := map[string]string{}
	for _, cell := range m.Include {
		for _, id := range cell.CaseIDs {
			arch[id] = cell.DeviceArch
		}
	}
	for q := range m.Requested() {
		if q.Case.Family != ep.Name || q.Disposition != plan.Runnable {
			continue
		}
		planned++
		d, err := describe(q.Case, accel.Info{Arch: arch[q.Case.CaseID], Multiproc: leastMultiprocessors})
		if err == nil {
			err = eprunner.Refuse(q.Case, d)
		}
		require.NoError(t, err, q.Case.CaseID)
	}
	return planned
}

// Run runs the cases in one group of goroutines, each on its own OS thread. It
// returns the streams by case and rank. Faults are in the format of rank.ParseFaults.
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
	// Ranks in one process restore each other's GC settings, which could leave collections off.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	store := Store(t)
	Order(t, store, cases...)

	find := func(plan.Case) (rank.Opener, error) { return open, nil }
	var group sync.WaitGroup
	for r := range world {
		group.Go(func() {
			runtime.LockOSThread() // never unlocked: the rank may have pinned the thread
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

// Store returns a new store in memory for a group. Ranks make thousands of small files, each of
// which takes 100 µs on a disk.
func Store(t *testing.T) *rendezvous.File {
	store, err := rendezvous.OpenFile(fakes.MemoryDir(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// Order orders the group of store to run the cases and then to end.
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

// Streams reads the ranks' streams from store, by case and rank.
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

// Assembled makes the document of a case from the ranks' streams with assemble. It also fills the
// fields that a shard fills, so that the document is valid.
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
