package host

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/short"
	"github.com/collectivex/collectivex/pkg/collective/steps"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// schedule runs a schedule case and returns its document.
func (g *group) schedule(c plan.Case) *result.ScheduleDocument {
	scope := fmt.Sprintf("case-%d", g.order)
	g.put(rank.Order{Scope: scope, Case: c})
	streams := g.streams(scope)
	for r, s := range streams {
		require.Nil(g.t, s.Failure, "%s, rank %d", c.CaseID, r)
	}
	doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "host", Generator: "test 0"})
	require.NoError(g.t, err)
	require.NoError(g.t, steps.Assemble(doc, streams))
	return doc.(*result.ScheduleDocument)
}

func requireRan(t *testing.T, d *result.ScheduleDocument) {
	t.Helper()
	c := &d.Identity.Case
	require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", c.CaseID, d.Outcome.Reasons)
	d.Topology.DeviceProduct = "test" // the shard's
	require.NoError(t, result.Validate(d), c.CaseID)
	require.Len(t, d.Measurement.Rows, len(c.Schedule().Sizes)*len(c.Schedule().Placements))
	for _, row := range d.Measurement.Rows {
		require.True(t, row.Check.Passed)
		require.Positive(t, row.Check.Checked)
	}
}

// Every schedule that a world allows gives the right bits, in and out of place, between
// processes.
func TestEverySchedule(t *testing.T) {
	for _, tt := range []struct{ world, width, schedules int }{{2, 2, 30}, {3, 3, 27}, {4, 2, 31}, {8, 4, 31}} {
		t.Run(strconv.Itoa(tt.world), func(t *testing.T) {
			if tt.world > 3 {
				short.Skip(t)
			}
			cases := plantest.Schedules(tt.world, tt.width, plantest.Few)
			require.Len(t, cases, tt.schedules)
			g := start(t, tt.world)
			for _, c := range cases {
				requireRan(t, g.schedule(c))
			}
			g.stop()
		})
	}
}

// Sums in other types are as exact, and what is not exact is as declared.
func TestScheduleTypes(t *testing.T) {
	short.Skip(t)
	g := start(t, 3)
	for _, typ := range []string{"int8", "uint64", "half", "bfloat16", "double", "f8e4m3"} {
		for _, c := range plantest.Schedules(3, 3, plantest.Few, func(c *plan.Case) { c.Precision = typ }) {
			if a := c.Schedule().Algorithm; a == "ring" || a == "direct" || a == "double_tree" {
				requireRan(t, g.schedule(c))
			}
		}
	}
	g.stop()
}

// Each fault of a rank's steps is found in the results of every schedule that has such
// steps.
func TestStepFaults(t *testing.T) {
	short.Skip(t)
	const world, struck = 3, 1
	for _, tt := range []struct {
		kind      string
		schedules int
		has       func(op, algorithm string) bool
	}{
		{steps.FaultSkip, 27, func(string, string) bool { return true }},
		{steps.FaultDouble, 16, func(op, _ string) bool { return op != "all_gather" }},
		{steps.FaultChunk, 16, func(op, algorithm string) bool {
			return op == "all_gather" || slices.Contains([]string{"bidirectional", "double_tree", "ring", "torus_2d"}, algorithm)
		}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			found := 0
			g := start(t, world, fmt.Sprintf("%s=rank=%d,kind=%s", rank.FaultVariable, struck, tt.kind))
			for _, c := range plantest.Schedules(world, world, plantest.Few) {
				if !tt.has(c.Schedule().Op, c.Schedule().Algorithm) {
					continue
				}
				d := g.schedule(c)
				require.Equal(t, result.Invalid, d.Outcome.Status, c.CaseID)
				require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
				require.NoError(t, result.Validate(d))
				found++
			}
			require.Equal(t, tt.schedules, found)
			g.stop()
		})
	}
}

// A fault of steps that a rank does not have would change nothing. It is refused.
func TestStepFaultsThatStrikeNothing(t *testing.T) {
	g := start(t, 2, rank.FaultVariable+"=rank=1,kind="+steps.FaultDouble)
	g.put(rank.Order{Scope: "case", Case: plantest.Schedules(2, 2, plantest.Few)[0]})
	var failure *rank.Failure
	require.Eventually(t, func() bool { // rank 0 waits for it, until a shard would end the group
		s, err := rank.ReadStream(g.store, "case", 1)
		require.NoError(t, err)
		failure = s.Failure
		return failure != nil
	}, 10*time.Minute, 10*time.Millisecond)
	require.NotNil(t, failure)
	require.Equal(t, "refused: fault double-add has no effect", failure.Reason.String())
	require.Contains(t, failure.Text, "fault double-add has no effect: rank 1")
}

// A rank that dies in the middle of a program ends its peers' case with its name.
func TestDeadRankOfASchedule(t *testing.T) {
	g := start(t, 2, rank.FaultVariable+"=rank=1,kind=kill,at=record-4")
	c := plantest.Schedules(2, 2, plantest.Few)[0]
	g.put(rank.Order{Scope: "case", Case: c})
	require.Error(t, g.ranks[1].wait())
	require.Error(t, g.ranks[0].wait(), "the peer gives up by itself")
	s, err := rank.ReadStream(g.store, "case", 0)
	require.NoError(t, err)
	require.NotNil(t, s.Failure)
	require.Equal(t, result.ReasonRankDied, s.Failure.Reason.Code)
	require.Contains(t, s.Failure.Text, "rank 1 ended")
}
