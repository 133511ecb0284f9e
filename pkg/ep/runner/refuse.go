package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Refuse returns why a case with the declaration of its adapter is refused before its buffers are
// made, or nil.
func Refuse(c plan.Case, d Description) error {
	if err := errors.Join(checkCase(c, c.World), checkDescription(c, d)); err != nil {
		return err
	}
	if ep.Of(&c).TimingMode == vocab.Graph && !d.Capturable {
		return rank.Refused("backend %s cannot be captured into graphs in mode %s", c.Backend, d.Mode)
	}
	_, _, err := routingOf(c)
	return err
}

// checkCase refuses a case that no backend can run, before anything is opened for it.
func checkCase(c plan.Case, world int) error {
	b := ep.Of(&c)
	if b == nil {
		return rank.Refused("case %s has no ep block", c.CaseID)
	}
	if err := b.Timing.Check(); err != nil {
		return rank.Refused("%w", err)
	}
	switch {
	case b.Mode != ep.ModeNormal && b.Mode != ep.ModeLowLatency:
		return rank.Refused("unknown mode %q", b.Mode)
	case c.World != world || b.EPSize != world:
		return rank.Refused("the case has world %d and ep %d, but the group has %d ranks", c.World, b.EPSize, world)
	case b.Experts%world != 0:
		return rank.Refused("%d experts cannot be divided evenly among %d ranks", b.Experts, world)
	case b.Hidden < workload.SourceColumns:
		return rank.Refused("hidden size %d is below %d, the columns that carry the source", b.Hidden, workload.SourceColumns)
	case c.Contract != ep.ContractLayout && c.Contract != ep.ContractCachedLayout:
		return rank.Refused("unknown timing contract %q", c.Contract)
	case b.TimingMode != "" && b.TimingMode != vocab.Graph:
		return rank.Refused("unknown timing mode %q", b.TimingMode)
	case b.Repeatable < 0:
		return rank.Refused("cannot combine one input %d times", b.Repeatable)
	}
	return nil
}

// checkDescription refuses an adapter whose declaration does not match c, or that the oracle cannot
// check.
func checkDescription(c plan.Case, d Description) error {
	b := ep.Of(&c)
	tokenRank := d.Receive == TokenRank && d.Combine == UnweightedRankSum
	tokenExpert := d.Receive == TokenExpert && d.Combine == WeightedKernelSum
	fp8 := d.DispatchDType != "bf16"
	switch {
	case d.Mode != b.Mode:
		return rank.Refused("the adapter declares mode %q, but the case requests %q", d.Mode, b.Mode)
	case !tokenRank && !tokenExpert:
		return rank.Refused("no oracle for receive layout %q with combine %q", d.Receive, d.Combine)
	case b.Mode == ep.ModeNormal && !tokenRank:
		return rank.Refused("combine %q is not allowed in normal mode", d.Combine)
	case b.Layout != "" && tokenExpert != (b.Layout == ep.ExpertMajor):
		return rank.Refused("the adapter receives %q, but the case requests layout %q", d.Receive, b.Layout)
	case b.Tuning != nil && !d.Tunable:
		return rank.Refused("backend %s cannot be tuned (%s) in mode %s", c.Backend, strings.Join(b.Tuning.Words(), ", "), d.Mode)
	case d.Reduction != DomainFP32 && d.Reduction != TopKSlotTree && !(tokenRank && d.Reduction == RankFP32) && !(tokenExpert && d.Reduction == RankPartialFP32):
		return rank.Refused("no oracle for reduction %q", d.Reduction)
	case fp8 != (c.Precision != "bf16") || fp8 != (d.Codec.Format != nil):
		return rank.Refused("the case requests precision %s, but dispatch would use %s", c.Precision, d.DispatchDType)
	case d.FP8Consume != ConsumeNative && d.FP8Consume != ConsumeDequant:
		return rank.Refused("unknown fp8 consumption %q", d.FP8Consume)
	case d.IndexType != numeric.Int32 && d.IndexType != numeric.Int64:
		return rank.Refused("expert ids cannot be %s", d.IndexType)
	}
	return nil
}

// routingOf returns the routing of a case.
func routingOf(c plan.Case) (*workload.Routing, []int, error) {
	b := ep.Of(&c)
	rungs := b.Ladder
	for i, rung := range rungs {
		if rung < 1 || i > 0 && rung <= rungs[i-1] {
			return nil, nil, rank.Refused("invalid ladder %v: tokens per rank must be positive and ascend", rungs)
		}
	}
	if len(rungs) == 0 {
		return nil, nil, rank.Refused("the ladder is empty")
	}
	if err := b.CheckRecorded(); err != nil {
		return nil, nil, rank.Refused("%w", err)
	}
	r, err := workload.NewRouting(b.Routing, workload.Shape{
		Seed: b.Seed, World: c.World, Experts: b.Experts, TopK: b.TopK, LargestRung: rungs[len(rungs)-1],
		Recorded: b.RoutingExperts,
	})
	if err != nil {
		return nil, nil, rank.Refused("%w", err)
	}
	return r, rungs, nil
}

// checkMemory refuses rungs that exceed the memory of a machine whose ranks share it with their
// devices; the system would kill processes when it runs out.
func (m *run) checkMemory(routing *workload.Routing) error {
	info := m.device.Info()
	if need := m.leastMemory(routing) * float64(m.c.RanksPerNode); info.SharedHostMem && need > float64(info.TotalBytes) {
		largest := m.rungs[len(m.rungs)-1]
		return rank.Coded(result.ReasonMemoryForSize, fmt.Errorf("ranks with up to %d tokens need %.1f GiB, but this machine has %.1f: choose fewer tokens",
			largest, need/(1<<30), float64(info.TotalBytes)/(1<<30)))
	}
	return nil
}

// leastMemory returns a lower bound of the bytes that a rank and its device use. For each rung it
// counts twice the routing of all ranks and the rank's inputs; for the largest rungs, also the timed
// inputs, and what the rank receives from each rank and sends back.
func (m *run) leastMemory(routing *workload.Routing) float64 {
	const assignmentBytes = 4 + 4 // expert and weight
	world, topk, token := float64(m.c.World), float64(m.block.TopK), 2*float64(m.block.Hidden)
	bytes, most, timed := 0.0, 0.0, 0.0
	for _, rung := range m.rungs {
		tokens := float64(routing.MaxRankTokens(rung))
		timed = max(timed, float64(m.block.TimedInputs(rung))*tokens*token)
		bytes += world*float64(rung)*topk*assignmentBytes + 2*tokens*(token+topk*assignmentBytes)
		most = max(most, tokens)
	}
	return bytes + timed + world*most*(float64(m.d.Codec.ValueBytes())*float64(m.block.Hidden)+token)
}

// clamp splits the rungs by whether every rank has at most limit tokens; a limit of 0 keeps all.
func clamp(r *workload.Routing, rungs []int, limit int) (measured, dropped []int) {
	for _, t := range rungs {
		if limit > 0 && r.MaxRankTokens(t) > limit {
			dropped = append(dropped, t)
		} else {
			measured = append(measured, t)
		}
	}
	return measured, dropped
}
