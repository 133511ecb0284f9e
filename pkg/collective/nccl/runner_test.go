package nccl

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// Operations of which ranks have unequal parts, or none, in every timing mode.
func TestExchangesInEveryMode(t *testing.T) {
	setUp(t)
	for _, op := range []collective.Op{collective.P2P, collective.AllToAllV} {
		for _, kind := range []nccl.Kind{nccl.NCCL, nccl.RCCL} {
			t.Run(fmt.Sprint(op, kind), func(t *testing.T) {
				const world = 3
				c := plan.Case{
					CaseID: "test", SKU: "test", Family: plan.FamilyCollective, Backend: string(kind),
					World: world, Nodes: 1, GPUsPerNode: world, RanksPerNode: world, Precision: "float", Repeat: 1,
					Collective: &plan.Collective{
						Op: op.String(), Sizes: []int64{8, 1 << 16}, Placements: []string{collective.OutOfPlace},
						Modes:   []string{collective.Pipelined, collective.Blocking, collective.PerIteration, collective.Graph},
						Buffers: collective.Shifted, Registration: "none",
						Measure: plan.CollectiveTiming{Warmup: 1, Iterations: 3, Trials: 2, Aggregate: 1, Launches: 2},
					},
				}
				if f := form(op, numeric.Float, world); f.Traffic != nil {
					c.Traffic, c.Sizes = f.Traffic, []int64{plan.TrafficSize(f.Traffic)}
				}
				dir := t.TempDir()
				streams := make([]rank.Stream, world)
				for _, err := range together(t, kind, world, func(e *end) error {
					store, err := rendezvous.OpenFile(dir)
					if err != nil {
						return err
					}
					defer store.Close()
					out := &streams[e.Rank]
					out.Rank = e.Rank
					s := rank.NewSession(e.Place, store, "case", func(r rank.Record) error {
						if r.Kind != rank.KindFacts {
							out.Records = append(out.Records, r)
						}
						return nil
					})
					r, err := collective.NewRunner(collective.Parts{
						Data: e.data, Comm: e.comm, Device: e.device,
						Another: func(ctx context.Context, s *rank.Session) (collective.Comm, error) { return e.join(ctx, s, "another") },
					})
					if err != nil {
						return err
					}
					err = r.Run(t.Context(), s, c)
					out.Done = err == nil
					return err
				}) {
					require.NoError(t, err)
				}
				doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "nvidia", Generator: "test 0"})
				require.NoError(t, err)
				require.NoError(t, collective.Assemble(doc, streams))
				d := doc.(*result.CollectiveDocument)
				require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
				require.Len(t, d.Measurement.Rows, len(c.Sizes)*max(1, c.Pairs()))
				for _, row := range d.Measurement.Rows {
					require.NotNil(t, row.Graph)
					require.NotNil(t, row.Blocking)
				}
			})
		}
	}
}
