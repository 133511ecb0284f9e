package host

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/planfile"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// schedule runs a schedule case and returns its document.
func (g *group) schedule(c plan.Case) *steps.Document { return g.planned(c, nil) }

// planned is schedule for a case by a plan, with the files that come with it.
func (g *group) planned(c plan.Case, files map[string][]byte) *steps.Document {
	scope := fmt.Sprintf("case-%d", g.order)
	g.put(rank.Order{Scope: scope, Case: c, Files: files})
	streams := g.streams(scope)
	for r, s := range streams {
		require.Nil(g.t, s.Failure, "%s, rank %d", c.CaseID, r)
	}
	doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "host", Generator: "test 0"})
	require.NoError(g.t, err)
	require.NoError(g.t, stepsrunner.Assemble(doc, streams))
	return doc.(*steps.Document)
}

func requireRan(t *testing.T, d *steps.Document) {
	t.Helper()
	c := &d.Identity.Case
	require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", c.CaseID, d.Outcome.Reasons)
	d.Topology.DeviceProduct = "test" // the shard's
	require.NoError(t, result.Validate(d), c.CaseID)
	require.Len(t, d.Measurement.Rows, len(steps.Of(c).Sizes)*len(steps.Of(c).Placements))
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
				need.Full(t)
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

// Every schedule gives the right bits from a plan of MSCCL or MSCCL++, too, in the order of the
// plan. Sizes that do not divide into its chunks are padded.
func TestEveryPlan(t *testing.T) {
	for _, tt := range []struct{ world, width, plans int }{{3, 3, 53}, {4, 2, 61}} {
		t.Run(strconv.Itoa(tt.world), func(t *testing.T) {
			if tt.world > 3 {
				need.Full(t)
			}
			g, plans := start(t, tt.world), 0
			for _, c := range plantest.Schedules(tt.world, tt.width, plantest.Few) {
				b := steps.Of(&c)
				p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: tt.world, Width: b.Width, Segments: b.Segments})
				require.NoError(t, err)
				for _, format := range []string{planfile.MSCCL, planfile.MSCCLPP} {
					var text bytes.Buffer
					if err := planfile.Write(&text, p, format); err != nil {
						continue // more ops than the format has room for
					}
					d := g.planned(plantest.Planned(c, "plan."+format, text.Bytes()))
					requireRan(t, d)
					require.Positive(t, d.Measurement.Program.Messages)
					plans++
				}
			}
			g.stop()
			require.Equal(t, tt.plans, plans)
		})
	}
}

// Plans out of place have an input of their own, which they may write to and a call's input
// survives. Each copies, and has a step that does nothing.
func TestPlansOutOfPlace(t *testing.T) {
	const (
		head = `<algo name="p" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="%s" inplace="0" outofplace="1" minBytes="0" maxBytes="0">`
		gpu  = `<gpu id="%d" i_chunks="%d" o_chunks="%d" s_chunks="2"><tb id="0" send="%d" recv="%[4]d" chan="0">`
		step = `<step s="%d" type="%s" srcbuf="%s" srcoff="%d" dstbuf="%s" dstoff="%d" cnt="%d" depid="-1" deps="-1" hasdep="0"/>`
	)
	type list []struct {
		kind     string
		src      string
		from     int
		dst      string
		to, each int
	}
	for _, tt := range []struct {
		coll, op, planned string // planned is an operation that has schedules
		in, out           int
		ops               func(mine, theirs int) list
	}{
		{"allgather", "all_gather", "all_gather", 1, 2, func(mine, theirs int) list {
			return list{{"nop", "i", 0, "o", 0, 0}, {"cpy", "i", 0, "o", mine, 1}, {"s", "i", 0, "o", 0, 1}, {"r", "i", 0, "o", theirs, 1}}
		}},
		{"allreduce", "all_reduce", "all_reduce", 2, 2, func(mine, _ int) list { // adds to its input
			return list{{"s", "i", 0, "o", 0, 2}, {"r", "i", 0, "s", 0, 2}, {"re", "s", 0, "i", 0, 2}, {"cpy", "i", 0, "o", 0, 2}}
		}},
		{"reduce_scatter", "reduce_scatter", "reduce_scatter", 2, 1, func(mine, theirs int) list {
			return list{{"cpy", "i", mine, "o", 0, 1}, {"s", "i", theirs, "o", 0, 1}, {"rrc", "o", 0, "o", 0, 1}}
		}},
		{"alltoall", "alltoall", "all_gather", 2, 2, func(mine, theirs int) list {
			return list{{"cpy", "i", mine, "o", mine, 1}, {"s", "i", theirs, "o", 0, 1}, {"r", "i", 0, "o", theirs, 1}}
		}},
	} {
		t.Run(tt.coll, func(t *testing.T) {
			text := fmt.Sprintf(head, tt.coll)
			for r := range 2 {
				text += fmt.Sprintf(gpu, r, tt.in, tt.out, 1-r)
				for i, s := range tt.ops(r, 1-r) {
					text += fmt.Sprintf(step, i, s.kind, s.src, s.from, s.dst, s.to, s.each)
				}
				text += "</tb></gpu>"
			}
			text += "</algo>"
			outOfPlace := func(c *plan.Case) { steps.Of(c).Placements = []string{vocab.OutOfPlace} }
			g := start(t, 2)
			for _, c := range plantest.Schedules(2, 2, plantest.Few, outOfPlace) {
				if b := steps.Of(&c); b.Op == tt.planned && b.Algorithm == "ring" {
					b.Op = tt.op
					requireRan(t, g.planned(plantest.Planned(c, "plan.xml", []byte(text))))
				}
			}
			g.stop()
		})
	}
}

// Sums in other types are as exact, and what is not exact is as declared.
func TestScheduleTypes(t *testing.T) {
	need.Full(t)
	g := start(t, 3)
	for _, typ := range []string{"int8", "uint64", "half", "bfloat16", "double", "f8e4m3"} {
		for _, c := range plantest.Schedules(3, 3, plantest.Few, func(c *plan.Case) { c.Precision = typ }) {
			if a := steps.Of(&c).Algorithm; a == "ring" || a == "direct" || a == "double_tree" {
				requireRan(t, g.schedule(c))
			}
		}
	}
	g.stop()
}

// Each fault of a rank's steps is found in the results of every schedule that has such
// steps.
func TestStepFaults(t *testing.T) {
	need.Full(t)
	const world, struck = 3, 1
	for _, tt := range []struct {
		kind      string
		schedules int
		has       func(op, algorithm string) bool
	}{
		{stepsrunner.FaultSkip, 27, func(string, string) bool { return true }},
		{stepsrunner.FaultDouble, 16, func(op, _ string) bool { return op != "all_gather" }},
		{stepsrunner.FaultChunk, 16, func(op, algorithm string) bool {
			return op == "all_gather" || slices.Contains([]string{"bidirectional", "double_tree", "ring", "torus_2d"}, algorithm)
		}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			found := 0
			g := start(t, world, fmt.Sprintf("%s=rank=%d,kind=%s", rank.FaultVariable, struck, tt.kind))
			for _, c := range plantest.Schedules(world, world, plantest.Few) {
				if !tt.has(steps.Of(&c).Op, steps.Of(&c).Algorithm) {
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
	g := start(t, 2, rank.FaultVariable+"=rank=1,kind="+stepsrunner.FaultDouble)
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

// A rank runs a plan only if its content came with the case, whole, and is of the case's ranks and
// collective, and correct wherever it puts its result. Otherwise it says so, instead of running
// anything else.
func TestPlansThatAreNotTheCases(t *testing.T) {
	text := func(c schedule.Collective, ranks int) []byte {
		p, err := schedule.Generate("ring", c, schedule.Shape{Ranks: ranks})
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, planfile.Write(&b, p, planfile.MSCCL))
		return b.Bytes()
	}
	whole := text(schedule.AllGather, 2)
	for _, tt := range []struct {
		content []byte
		edit    func(content []byte) []byte // of what comes
		want    string
	}{
		{whole, func([]byte) []byte { return nil }, "plan plan.xml: SHA-256 "},
		{whole, func(b []byte) []byte { return append(b, ' ') }, "plan plan.xml: SHA-256 "},
		{whole[:len(whole)/2], slices.Clone[[]byte], "plan.xml:"},
		{text(schedule.AllGather, 3), slices.Clone[[]byte], "plan plan.xml is for all_gather on 3 ranks, but the case is for all_gather on 2"},
		{text(schedule.AllReduce, 2), slices.Clone[[]byte], "plan plan.xml is for all_reduce on 2 ranks, but the case is for all_gather on 2"},
		{bytes.Replace(whole, []byte(`outofplace="0"`), []byte(`outofplace="1"`), 1), slices.Clone[[]byte], "plan.xml:4:7: out of place: undefined: rank 0, op 0, chunk 0: "},
	} {
		c, files := plantest.Planned(plantest.Schedules(2, 2, plantest.Few)[0], "plan.xml", tt.content)
		for digest := range files {
			files[digest] = tt.edit(slices.Clone(files[digest]))
		}
		g := start(t, 2)
		g.put(rank.Order{Scope: "case", Case: c, Files: files})
		for r, s := range g.streams("case") {
			require.NotNil(t, s.Failure, "rank %d", r)
			require.Equal(t, result.ReasonRefused, s.Failure.Reason.Code)
			require.Contains(t, s.Failure.Text, tt.want)
		}
	}
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
