package simulation

import (
	"context"
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// Compute verifies and simulates the program of a case, and adds the times to its document. Equal cases give
// equal figures. Compute fails if the program, the model or a size cannot be simulated. See shard.Compute.
func Compute(ctx context.Context, doc result.Document) error {
	d, ok := doc.(*Document)
	if !ok {
		return fmt.Errorf("document of type %T for a simulation case", doc)
	}
	c, s := &d.Identity.Case, &d.Simulation
	b := Of(c)
	p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: c.World, Width: b.Width, Segments: b.Segments})
	if err != nil {
		return err
	}
	about, err := schedule.Verified(ctx, p)
	if err != nil {
		return err
	}
	s.Verification, s.Program = Symbolic, new(result.Program(*about))
	t, err := simulate.NewTopology(b.Topology, c.World, b.Width)
	if err != nil {
		return err
	}
	m, err := b.Model.Machine(t)
	if err != nil {
		return err
	}
	for _, size := range b.Sizes {
		r, err := simulate.Trace(ctx, p, m, size, 1)
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		if r.Makespan == 0 {
			return fmt.Errorf("%d bytes take no time in the model: raise its costs", size)
		}
		path := r.CriticalPath()
		s.Rows = append(s.Rows, Row{
			Bytes: size, Makespan: int64(r.Makespan), Messages: r.Messages,
			Path: CriticalPath{
				Ops: len(path.Steps), Start: int64(path.Start), Issue: int64(path.Issue), Overhead: int64(path.Overhead), Memory: int64(path.Memory), Latency: int64(path.Latency), Bytes: int64(path.Bytes),
				Reduce: int64(path.Reduce), EngineWait: int64(path.EngineWait), LinkWait: int64(path.LinkWait),
			},
		})
	}
	d.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
	return nil
}
