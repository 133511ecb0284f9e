package ipc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// messagesOf is a case of an operation on floats, in every timing mode.
func messagesOf(op runner.Op, world int, change ...func(*plan.Case)) plan.Case {
	return plantest.Collective(world, append([]func(*plan.Case){func(c *plan.Case) {
		c.Backend = "ipc"
		b := collective.Of(c)
		b.Op, b.RedOp, b.Sizes, b.Placements = op.String(), "", []int64{1000, 1 << 16}, []string{vocab.OutOfPlace}
		if op.InPlace() {
			b.Placements = append(b.Placements, vocab.InPlace)
		}
		b.Modes, b.Buffers = []string{vocab.Pipelined, vocab.Blocking, vocab.PerIteration}, vocab.Shifted
		b.Measure = collective.Counts{Warmup: 1, Iterations: 3, Trials: 2, Aggregate: 1, Launches: 1, Checks: 4}
	}}, change...)...)
}

// measured runs cases in one group, a process for each rank.
func measured(t *testing.T, cases ...plan.Case) (all []*collective.Document) {
	t.Helper()
	e := eptest.Processes(t, true, "", cases...)
	for i, c := range cases {
		all = append(all, eptest.Assembled(t, c, e.Streams[i], runner.Assemble).(*collective.Document))
	}
	return all
}

// Messages of single pairs, of all ranks at once and in the steps of a hypercube arrive whole, in one
// group of ranks.
func TestMessages(t *testing.T) {
	need.Full(t)
	for vendor, world := range map[string]int{"cuda": 4, "hip": 3} {
		t.Run(vendor, func(t *testing.T) {
			withDriver(t, vendor)
			cases := []plan.Case{messagesOf(runner.P2P, world), messagesOf(runner.P2PBidir, world), messagesOf(runner.SendRecv, world)}
			if world == 4 {
				cases = append(cases, messagesOf(runner.Hypercube, world))
			}
			for i, d := range measured(t, cases...) {
				b := collective.Of(&cases[i])
				require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", b.Op, d.Outcome.Reasons)
				require.Equal(t, "peer-copies", d.Measurement.Path)
				require.Len(t, d.Measurement.Rows, len(b.Sizes)*len(b.Placements)*max(1, b.Pairs(world)))
				for _, row := range d.Measurement.Rows {
					require.Positive(t, row.Check.Checked)
					require.NotNil(t, row.Pipelined)
					require.NotNil(t, row.Blocking)
					require.NotNil(t, row.PerIteration)
				}
			}
		})
	}
}

// Operations that are no messages, and groups of operations, are refused. A call of the driver that
// fails ends the case on every rank, whatever they wait for.
func TestMessagesThatFail(t *testing.T) {
	need.Full(t)
	for name, of := range map[string]struct {
		c        plan.Case
		variable string
		want     result.Code
	}{
		"another operation": {messagesOf(runner.AllGather, 4), "", result.ReasonRefused},
		"a group": {messagesOf(runner.SendRecv, 4, func(c *plan.Case) {
			collective.Of(c).Measure.Aggregate = 2
		}), "", result.ReasonRefused},
		"a copy":  {messagesOf(runner.Hypercube, 4), "cuMemcpyDtoDAsync_v2#4=719", result.ReasonDevice},
		"a write": {messagesOf(runner.SendRecv, 4), "cuStreamWriteValue32_v2#3=719", result.ReasonDevice},
	} {
		t.Run(name, func(t *testing.T) {
			withDriver(t, "cuda")
			t.Setenv("CX_FAKE_FAIL", of.variable)
			d := measured(t, of.c)[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, of.want, d.Outcome.Reasons[0].Code, "%v", d.Outcome.Reasons)
		})
	}
}
