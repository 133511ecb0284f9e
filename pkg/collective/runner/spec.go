package runner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// spec is a case in the family's own types.
type spec struct {
	plan.Case
	block *collective.Block // of the case
	op    Op
	dtype numeric.Type
	redop workload.RedOp
	data  workload.Pattern // contents of the buffers, without the seed

	// World is the number of ranks that run an operation together: all, or those of a group.
	World int
	// group and seat are the group of this rank and its place there. Without groups, they are 0 and the rank.
	group, seat int
}

// seated returns the spec of a rank.
func (s spec) seated(rank int) spec {
	s.group, s.seat = s.block.Seat(rank)
	return s
}

// parse refuses a case that is invalid for this family.
func parse(c plan.Case) (spec, error) {
	b := collective.Of(&c)
	s := spec{Case: c, block: b}
	if b == nil {
		return s, rank.Refused("case of family %q, want %s", c.Family, collective.Name)
	}
	if why := collective.WrongGroups(b, c.World); why != "" {
		return s, rank.Refused("%s", why)
	}
	s.World = b.Width(c.World)
	var err error
	if s.op, err = ParseOp(b.Op); err != nil {
		return s, rank.Coded(result.ReasonRefused, err)
	}
	if s.dtype, err = numeric.ParseType(c.Precision); err != nil {
		return s, rank.Coded(result.ReasonRefused, err)
	}
	if s.redop, err = workload.ParseRedOp(b.RedOp); err != nil {
		return s, rank.Coded(result.ReasonRefused, err)
	}
	m := b.Measure
	for _, bad := range []struct {
		is   bool
		what string
	}{
		{s.op.Reduces() != (s.redop != workload.NoRedOp), fmt.Sprintf("%s with reduction %q", s.op, b.RedOp)},
		{s.World < 1 || b.Root < 0 || b.Root >= s.World || !s.op.Rooted() && b.Root != 0, fmt.Sprintf("root %d of %d ranks for %s", b.Root, s.World, s.op)},
		{unknown(b.Modes, vocab.Pipelined, vocab.Blocking, vocab.PerIteration, vocab.Graph), fmt.Sprintf("timing modes %q", b.Modes)},
		{unknown(b.Placements, vocab.OutOfPlace, vocab.InPlace), fmt.Sprintf("placements %q", b.Placements)},
		{unknown([]string{b.Buffers}, vocab.BufferStates()...), fmt.Sprintf("buffers %q", b.Buffers)},
		{m.Warmup < 0 || m.Iterations < 1 || m.Trials < 1 || m.Aggregate < 1 || m.Launches < 1 || m.Checks < 0 || m.Repeatable < 0 || m.Skip < 0 || m.Skip >= m.Iterations, fmt.Sprintf("sampling %+v", m)},
		{m.Wait != "" && unknown([]string{m.Wait}, vocab.Waits()...), fmt.Sprintf("a wait for %q", m.Wait)},
		{b.NullStream && slices.Contains(b.Modes, vocab.Graph), "graphs on the null stream"},
		{b.CTAs < 0, fmt.Sprintf("an operation with %d CTAs", b.CTAs)},
		{b.Unalign < 0, fmt.Sprintf("buffers %d elements off their alignment", b.Unalign)},
		{len(b.Sizes) == 0 || slices.Min(b.Sizes) < 0, fmt.Sprintf("sizes %v", b.Sizes)},
		{len(s.op.Pairs(s.World)) == 0, fmt.Sprintf("%s with %d ranks", s.op, s.World)},
		{(s.op == AllToAllV) != (b.Traffic != nil), fmt.Sprintf("%s with traffic of %d ranks", s.op, len(b.Traffic))},
	} {
		if bad.is {
			return s, rank.Refused("cannot measure %s", bad.what)
		}
	}
	if why := cmp.Or(collective.WrongWorld(b.Op, s.World), collective.TooEarly(b.Buffers, b.Modes...), collective.Ungrouped(b.Op, m.Aggregate), collective.Unwaited(m.Wait, m.Aggregate, b.Modes...)); why != "" {
		return s, rank.Refused("%s", why)
	}
	if err := s.checkTraffic(); err != nil {
		return s, rank.Coded(result.ReasonRefused, err)
	}
	s.data, err = workload.NewPattern(s.dtype, s.redop, s.World, 0)
	return s, rank.Coded(result.ReasonRefused, err)
}

// checkTraffic refuses traffic that does not match the case's ranks, elements and size.
func (s spec) checkTraffic() error {
	if s.block.Traffic == nil {
		return nil
	}
	if len(s.block.Traffic) != s.World {
		return fmt.Errorf("traffic of %d ranks in a case of %d", len(s.block.Traffic), s.World)
	}
	size := int64(s.dtype.Size())
	for from, row := range s.block.Traffic {
		if len(row) != s.World {
			return fmt.Errorf("traffic of rank %d names %d of %d ranks", from, len(row), s.World)
		}
		for to, n := range row {
			if n < 0 || n%size != 0 {
				return fmt.Errorf("%d bytes from rank %d to %d are not a whole number of %s elements", n, from, to, s.dtype)
			}
		}
	}
	if largest := collective.TrafficSize(s.block.Traffic); len(s.block.Sizes) != 1 || s.block.Sizes[0] != largest {
		return fmt.Errorf("traffic of %d bytes in a case of sizes %v", largest, s.block.Sizes)
	}
	return nil
}

// unknown reports whether names is empty or contains a name that is not in known.
func unknown(names []string, known ...string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(known, n) })
}

// form returns the operation on the case's ranks.
func (s spec) form(p Pair) Form {
	return Form{Op: s.op, Type: s.dtype, World: s.World, Root: s.block.Root, Traffic: s.block.Traffic, Pair: p}
}

// call returns the arguments of rank's operation, without buffers.
func (s spec) call(rank int) Call {
	return Call{Op: s.op, RedOp: s.redop, Type: s.dtype, Root: s.block.Root, Scalar: float64(workload.MulSumScalar(rank))}
}

// pattern returns the contents of one buffer in one window. They differ between buffers, between windows and between
// groups, so that stale contents and those of another group never pass a check.
func (s spec) pattern(w window, slot int) workload.Pattern {
	return s.data.Seeded(seed(s.CaseID, w, slot) + uint32(s.group))
}
