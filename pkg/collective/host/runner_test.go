package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// rankVariable makes the test binary a rank process: "DIR RANK WORLD".
const rankVariable = "CX_TEST_COLLECTIVE_RANK"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(rankVariable); ok {
		if err := rankMain(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func rankMain(text string) error {
	fields := strings.Fields(text)
	r, _ := strconv.Atoi(fields[1])
	world, _ := strconv.Atoi(fields[2])
	store, err := rendezvous.OpenFile(fields[0])
	if err != nil {
		return err
	}
	faults, err := rank.ParseFaults(os.Getenv(rank.FaultVariable), append(runner.FaultKinds(), stepsrunner.FaultKinds()...)...)
	if err != nil {
		return err
	}
	find := func(c plan.Case) (rank.Opener, error) {
		if c.Family == steps.Name {
			return OpenSchedule, nil
		}
		return Open, nil
	}
	return rank.Loop(context.Background(), rank.Place{Rank: r, World: world, LocalRank: r}, store, find, faults, os.Stderr)
}

func testCase(world int, change ...func(*plan.Case)) plan.Case {
	return plantest.Collective(world, append([]func(*plan.Case){func(c *plan.Case) {
		b := collective.Of(c)
		b.Sizes, b.Modes = []int64{8, 4096, 1 << 20}, []string{vocab.Pipelined, vocab.PerIteration, vocab.Graph}
		b.Measure.Iterations = 5
	}}, change...)...)
}

// ask makes c a case of op at sizes, or at that of its traffic.
func ask(c *plan.Case, op runner.Op, sizes ...int64) {
	collective.Of(c).Op, collective.Of(c).Sizes = op.String(), sizes
	if collective.Of(c).Traffic = form(op, numeric.Float, c.World).Traffic; collective.Of(c).Traffic != nil {
		collective.Of(c).Sizes = []int64{collective.TrafficSize(collective.Of(c).Traffic)}
	}
}

// group is the rank processes of a test.
type group struct {
	t     *testing.T
	world int
	store rendezvous.Store
	ranks []*process
	order int
}

// process is a rank; ended is closed when it is no more, with err its status.
type process struct {
	cmd   *exec.Cmd
	log   strings.Builder
	ended chan struct{}
	err   error
}

func (p *process) wait() error {
	<-p.ended
	return p.err
}

func start(t *testing.T, world int, env ...string) *group {
	dir := t.TempDir()
	store, err := rendezvous.OpenFile(dir)
	require.NoError(t, err)
	g := &group{t: t, world: world, store: store}
	for r := range world {
		p := &process{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
		p.cmd.Env = append(append(os.Environ(), fmt.Sprintf("%s=%s %d %d", rankVariable, dir, r, world)), env...)
		p.cmd.Stderr = &p.log
		require.NoError(t, p.cmd.Start())
		go func() {
			p.err = p.cmd.Wait()
			close(p.ended)
		}()
		t.Cleanup(func() {
			_ = p.cmd.Process.Kill()
			_ = p.wait()
		})
		g.ranks = append(g.ranks, p)
	}
	return g
}

func (g *group) put(o rank.Order) {
	g.order++
	raw, err := json.Marshal(o)
	require.NoError(g.t, err)
	require.NoError(g.t, g.store.Put(g.t.Context(), rank.OrderKey(g.order), raw))
}

// streams waits until each rank ended the case with this scope.
func (g *group) streams(scope string) []rank.Stream {
	streams := make([]rank.Stream, g.world)
	require.Eventually(g.t, func() bool {
		ended := true
		for r := range streams {
			var err error
			streams[r], err = rank.ReadStream(g.store, scope, r)
			require.NoError(g.t, err)
			ended = ended && (streams[r].Done || streams[r].Failure != nil)
		}
		return ended
	}, 10*time.Minute, 10*time.Millisecond)
	return streams
}

// run does one case and returns its document.
func (g *group) run(c plan.Case) *collective.Document {
	scope := fmt.Sprintf("case-%d", g.order)
	g.put(rank.Order{Scope: scope, Case: c})
	return document(g.t, c, g.streams(scope))
}

func document(t *testing.T, c plan.Case, streams []rank.Stream) *collective.Document {
	doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "host", Generator: "test 0"})
	require.NoError(t, err)
	require.NoError(t, runner.Assemble(doc, streams))
	return doc.(*collective.Document)
}

func (g *group) stop() {
	g.put(rank.Order{Stop: true})
	for r, p := range g.ranks {
		require.NoError(g.t, p.wait(), "rank %d: %s", r, p.log.String())
	}
}

func requireSuccess(t *testing.T, d *collective.Document) {
	t.Helper()
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	d.Topology.DeviceProduct = "test" // the shard's
	require.NoError(t, result.Validate(d))
}

// One warm group of processes does case after case.
func TestCasesInProcesses(t *testing.T) {
	need.Full(t)
	for _, world := range []int{1, 2, 4} {
		t.Run(strconv.Itoa(world), func(t *testing.T) {
			g := start(t, world)
			second := vocab.Shifted
			if world == 1 {
				second = vocab.Cold // which overwrites the caches before each window: a gigabyte a rank on some hosts
			}
			for _, buffers := range []string{vocab.Warm, second} {
				d := g.run(testCase(world, func(c *plan.Case) { collective.Of(c).Buffers = buffers }))
				requireSuccess(t, d)
				require.Len(t, d.Measurement.Rows, 6)
				require.Equal(t, []int64{8, 4096, 1 << 20}, d.Workload.SizesMeasured)
				require.Equal(t, []collective.Exclusion{{What: "graph", Reason: result.Reason{Code: "refused", Detail: "the device has no graphs"}}}, d.Workload.Excluded)
				for _, row := range d.Measurement.Rows {
					require.NotNil(t, row.Pipelined)
					require.Equal(t, 3, row.Pipelined.SampleCount)
					require.Equal(t, 15, row.PerIteration.SampleCount)
					require.Nil(t, row.Graph)
					require.Len(t, row.PerIteration.RankP50, world)
					require.Positive(t, row.PerIteration.Percentiles.P50)
					require.Positive(t, row.Check.Checked)
				}
			}
			g.stop()
		})
	}
}

func TestEveryOperationInProcesses(t *testing.T) {
	need.Full(t)
	g := start(t, 2)
	for _, op := range runner.Ops() {
		d := g.run(testCase(2, func(c *plan.Case) {
			c.Precision = "bfloat16"
			ask(c, op, 4, 1<<16)
			collective.Of(c).Measure = collective.Counts{Warmup: 1, Iterations: 4, Trials: 2, Aggregate: 1, Launches: 1, Checks: 4}
			if collective.Of(c).RedOp = ""; op.Reduces() {
				collective.Of(c).RedOp = "avg"
			}
			if op.Rooted() {
				collective.Of(c).Root = 1
			}
		}))
		requireSuccess(t, d)
		if f := form(op, numeric.BFloat16, 2); f.Extent(4).Count == 0 {
			require.Equal(t, []collective.DroppedSize{{Bytes: 4, Reason: result.Reason{Code: "size-too-small", Detail: "2 ranks of bfloat16 take at least 32 bytes"}}}, d.Workload.SizesDropped, op)
		}
		if !op.InPlace() {
			require.Len(t, d.Workload.Excluded, 2, op)
		}
	}
	g.stop()
}

// What this library makes of sums that are not exact, and of what is no ordinary
// number, is as declared in every type and reduction.
func TestArithmeticAsDeclared(t *testing.T) {
	need.Full(t)
	g := start(t, 3)
	for _, typ := range []numeric.Type{numeric.Half, numeric.Float, numeric.Double, numeric.BFloat16, numeric.F8E4M3, numeric.F8E5M2} {
		for _, redop := range workload.RedOps() {
			d := g.run(testCase(3, func(c *plan.Case) {
				c.Precision, collective.Of(c).RedOp, collective.Of(c).Sizes = typ.String(), redop.String(), []int64{64, 1 << 16}
				collective.Of(c).Modes, collective.Of(c).Placements = []string{vocab.Pipelined}, []string{vocab.OutOfPlace}
				collective.Of(c).Measure = collective.Counts{Iterations: 1, Trials: 1, Aggregate: 1, Launches: 1, Checks: 4}
			}))
			requireSuccess(t, d)
			a := d.Measurement.Arithmetic
			require.NotNil(t, a)
			require.True(t, a.Passed, "%s %s: %v", typ, redop, a.Reasons)
			require.Equal(t, 3*int64(64+1<<16)/int64(typ.Size()), a.Checked)
			if redop == workload.Sum && typ != numeric.Double {
				require.Positive(t, *a.MaxError)
				require.LessOrEqual(t, *a.MaxError, *a.Bound)
			}
		}
	}
	g.stop()
}

// Every data fault is caught by the check, in every operation it can happen in.
func TestDataFaultsAreCaught(t *testing.T) {
	need.Full(t)
	for _, kind := range []string{runner.FaultFlip, runner.FaultStale, runner.FaultSwap} {
		t.Run(kind, func(t *testing.T) {
			for _, op := range runner.Ops() {
				g := start(t, 2, rank.FaultVariable+"=rank=0,kind="+kind)
				d := g.run(testCase(2, func(c *plan.Case) {
					ask(c, op, 4096)
					if collective.Of(c).RedOp = ""; op.Reduces() {
						collective.Of(c).RedOp = "sum"
					}
					collective.Of(c).Measure = collective.Counts{Iterations: 2, Trials: 1, Aggregate: 1, Launches: 1, Checks: 4}
				}))
				require.Equal(t, result.Invalid, d.Outcome.Status, op)
				require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
				for _, row := range d.Measurement.Rows {
					if op == runner.P2P && *row.Dst != 0 {
						require.True(t, row.Check.Passed, "rank 0 has not received anything")
						continue
					}
					require.False(t, row.Check.Passed)
					require.Positive(t, row.Check.Wrong)
				}
				require.NoError(t, result.Validate(d))
				g.stop()
			}
		})
	}
}

// A data fault of a rank that receives no data would change nothing. It is refused.
func TestDataFaultsThatStrikeNothing(t *testing.T) {
	for _, op := range []runner.Op{runner.Reduce, runner.Gather} {
		g := start(t, 2, rank.FaultVariable+"=rank=1,kind="+runner.FaultFlip)
		g.put(rank.Order{Scope: "case", Case: testCase(2, func(c *plan.Case) {
			ask(c, op, 4096)
			if collective.Of(c).RedOp = ""; op.Reduces() {
				collective.Of(c).RedOp = "sum"
			}
		})})
		failure := g.streams("case")[1].Failure
		require.NotNil(t, failure, op)
		require.Equal(t, result.ReasonRefused, failure.Reason.Code)
		require.Contains(t, failure.Text, "rank 1 receives no data in "+op.String())
	}
}

// A rank that dies in the middle ends its peers' case with its name; what was
// measured is kept and marked.
func TestDeadRank(t *testing.T) {
	g := start(t, 2, rank.FaultVariable+"=rank=1,kind=segv,at=record-8")
	c := testCase(2)
	g.put(rank.Order{Scope: "case", Case: c})
	var streams []rank.Stream
	require.Error(t, g.ranks[1].wait())
	require.Error(t, g.ranks[0].wait(), "the peer gives up by itself")
	for r := range 2 {
		s, err := rank.ReadStream(g.store, "case", r)
		require.NoError(t, err)
		streams = append(streams, s)
	}
	require.Equal(t, result.ReasonRankDied, streams[0].Failure.Reason.Code)
	require.Contains(t, streams[0].Failure.Text, "rank 1 ended")
	d := document(t, c, streams)
	require.Equal(t, result.Failed, d.Outcome.Status)
	require.NotEmpty(t, d.Measurement.Rows)
	last := d.Measurement.Rows[len(d.Measurement.Rows)-1]
	require.False(t, last.Complete)
	require.True(t, last.Check.Passed)
	d.Outcome.Reasons = result.Reasons{result.ReasonRankDied.With("rank 1")}
	require.NoError(t, result.Validate(d))
}

// A rank that waits for one that never comes ends with its context.
func TestCancelEndsAWaitingRank(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	together(t, 2, func(r int, d *hostdev.Device, c *Comm) error {
		if r == 1 {
			<-ctx.Done()
			return nil
		}
		defer context.AfterFunc(ctx, c.Abort)()
		err := c.agree("never")
		if _, ok := errors.AsType[*rank.Error](err); !ok {
			return fmt.Errorf("want an abort, got %w", err)
		}
		return nil
	})
}

// Groups of ranks run an operation at once, each on data of its own: every group has rows, and a wrong result of one
// is in its rows only.
func TestGroupsInProcesses(t *testing.T) {
	groups := [][]int{{0, 2}, {1, 3}}
	grouped := func(op runner.Op) plan.Case {
		return testCase(4, func(c *plan.Case) {
			ask(c, op, 4096, 1<<16)
			b := collective.Of(c)
			b.Groups, b.Modes = groups, []string{vocab.Pipelined, vocab.Blocking}
			b.Measure = collective.Counts{Warmup: 1, Iterations: 3, Trials: 1, Aggregate: 1, Launches: 1, Checks: 4}
			if b.RedOp = ""; op.Reduces() {
				b.RedOp = "sum"
			}
			if op.Rooted() {
				b.Root = 1
			}
		})
	}
	g := start(t, 4)
	for _, op := range []runner.Op{runner.AllReduce, runner.AllGather, runner.Broadcast} {
		d := g.run(grouped(op))
		requireSuccess(t, d)
		require.Len(t, d.Measurement.Rows, 2*2*2)
		keys := map[string]bool{}
		for i, row := range d.Measurement.Rows {
			require.Equal(t, groups[i/2%2], row.Group)
			require.Equal(t, int64(4096)<<(i/4*4), row.Requested)
			require.Len(t, row.Blocking.RankP50, 2)
			keys[row.Key] = true
		}
		require.Len(t, keys, 2*2*2)
	}
	g.stop()

	g = start(t, 4, rank.FaultVariable+"=rank=3,kind="+runner.FaultFlip)
	d := g.run(grouped(runner.AllGather))
	require.Equal(t, result.Invalid, d.Outcome.Status)
	for _, row := range d.Measurement.Rows {
		require.Equal(t, row.Group[0] == 0, row.Check.Passed, "%v", row.Group)
	}
	g.stop()

	g = start(t, 4)
	g.put(rank.Order{Scope: "uneven", Case: testCase(4, func(c *plan.Case) { collective.Of(c).Groups = [][]int{{0}, {1, 2, 3}} })})
	for _, s := range g.streams("uneven") {
		require.NotNil(t, s.Failure)
		require.Contains(t, s.Failure.Text, "groups differ in their number of ranks")
	}
}
