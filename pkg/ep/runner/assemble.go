package runner

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Assemble is the shard half of the family (see shard.Assembler). It reduces over ranks, pools
// over trials and judges. A case that all ranks completed becomes success or invalid. Every other
// case becomes invalid if a check failed, and else keeps its outcome.
func Assemble(doc result.Document, streams []rank.Stream) error {
	d, ok := doc.(*ep.Document)
	if !ok {
		return fmt.Errorf("assemble EP streams into a %T", doc)
	}
	c := d.Identity.Case
	ranks, _, done, err := rank.Tracks(c.World, streams, read(ep.Of(&c)))
	if err != nil {
		return err
	}
	declared, err := agreedPlan(ranks)
	if err != nil {
		return err
	}
	if declared != nil {
		d.Limits = plausible.Limits(c, streams)
		d.EntrySkew = entrySkew(c, ranks)
		m := rowMaker{
			c: c, block: ep.Of(&c), ranks: ranks,
			freshCounts: rank.Counting(streams, freshTrials), chainCounts: rank.Counting(streams, chainTrials),
		}
		if err := fill(d, m, declared); err != nil {
			return err
		}
	}
	torn := func(r ep.Row) bool { return !r.Complete }
	rows := d.Measurement.Rows
	checked := len(rows) > 0 && !slices.ContainsFunc(rows, torn) && d.Workload.CrossRankConsistent
	d.Outcome = rank.Judge(d.Outcome, whyWrong(rows), done, checked)
	return nil
}

// entrySkew summarizes how far apart in time the ranks entered the fresh-entry windows, over the
// windows that all ranks recorded.
func entrySkew(c plan.Case, ranks []evidence) *result.EntrySkew {
	windows := map[freshKey][]rank.Entry{}
	for _, e := range ranks {
		for key, f := range e.fresh {
			windows[key] = append(windows[key], f.Entry)
		}
	}
	return rank.EntrySkew(c.Nodes, len(ranks), windows)
}

// fill sets everything in the document except its outcome. rows is the maker of its rows, without a rung.
func fill(d *ep.Document, rows rowMaker, declared *planRecord) error {
	routing, _, err := routingOf(rows.c)
	if err != nil {
		return err
	}
	hoisted, chained := declared.Hoisted(), true
	i := &d.Implementation
	i.KernelGeneration = declared.KernelGeneration
	if declared.LibraryVersion != "" {
		i.LibraryVersion = &declared.LibraryVersion
	}
	i.CombineReduction = string(declared.Reduction)
	i.FP8Consume = declared.FP8Consume
	i.StageExcludedFromRoundtrip = &hoisted
	i.ChainedPeriod = &chained
	i.CUDAGraphReplay, i.CUDAGraphSupported = &declared.Replayed, &declared.Capturable
	i.Tuning = rows.ranks[0].tuning
	d.Measurement.DispatchDType = declared.DispatchDType

	if p, ok := routing.Placement(); ok {
		d.Workload.EPLB = &ep.Placement{
			Slots: p.Slots, ImbalanceBefore: p.Before, ImbalanceAfter: p.After, MappingSHA256: hex.EncodeToString(p.Digest[:]),
		}
	}
	var limit *int
	if declared.LadderCap > 0 {
		limit = &declared.LadderCap
	}
	var measured []int
	d.Workload.CrossRankConsistent = true
	for _, rung := range declared.Measured {
		trace := routing.Trace(rung)
		strangers := otherTraces(rows.ranks, rung, trace)
		if strangers != nil {
			d.Workload.CrossRankConsistent = false
		}
		m := rows
		m.rung = rung
		if err := m.build(declared, trace, strangers, d.Limits); err != nil {
			return fmt.Errorf("rung %d: %w", rung, err)
		}
		if m.any {
			measured = append(measured, rung)
			d.Measurement.Rows = append(d.Measurement.Rows, m.row)
		}
	}
	d.SetLadder(measured, declared.Dropped, limit)
	return nil
}

// otherTraces returns the ranks that reported another routing trace than the case's, or none.
func otherTraces(ranks []evidence, rung int, trace *workload.Trace) (strangers []int) {
	digest := trace.Digest()
	want := hex.EncodeToString(digest[:])
	for r, e := range ranks {
		if e.digests[rung] != want {
			strangers = append(strangers, r)
		}
	}
	return strangers
}
