package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Namer is a Comm whose library reports which algorithm it uses.
type Namer interface {
	// Named calls run, which runs one operation to its end, and returns how it ran.
	Named(run func() error) (Used, error)
}

// Used says how an operation ran.
type Used struct {
	Algorithm string `json:"algorithm"`      // one of collective.AlgorithmNames; "" if this rank does not know it
	CTAs      int    `json:"ctas,omitempty"` // 0 if this rank does not know it
}

// named is how the operation of a rung ran.
type named struct {
	Requested int64  `json:"requested"`
	Placement string `json:"placement"`
	Used
}

// name runs one more operation of each rung, and emits the algorithms and CTAs that the library reports. All ranks
// refuse the case if the library does not use the algorithm that the case requires, or more CTAs.
func (b *bench) name(ctx context.Context) error {
	of, ok := b.backend.Comm.(Namer)
	want, other := b.spec.block, ""
	if !ok || b.spec.op.Pairwise() && want.Algorithm == "" {
		return nil
	}
	var all []named
	for _, r := range b.ladder.rungs {
		b.enter(r)
		used, err := of.Named(func() error {
			if b.idle() {
				return nil
			}
			return b.enqueue(ctx, b.calls[:1])
		})
		if err != nil {
			return b.at(err)
		}
		if used.Algorithm == "" {
			continue
		}
		all = append(all, named{r.Requested, r.Placement, used})
		switch {
		case want.CTAs > 0 && used.CTAs > want.CTAs:
			other = collective.Variant(used.Algorithm, used.CTAs)
		case want.Algorithm != "" && used.Algorithm != want.Algorithm:
			other = used.Algorithm
		}
	}
	if what := want.Variant(); what != "" {
		others, err := rank.Gather(ctx, b.session, "algorithm", other)
		if other = cmp.Or(others...); err != nil || other != "" {
			return cmp.Or(err, error(&rank.Error{
				Reason: result.ReasonRefused.With("%s not offered, the library used %s", what, other), Err: errors.New("its log names the algorithm"),
			}))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return b.session.Emit(kindNamed, all)
}

// usedFor returns how the operation of a rung ran, as a rank reported.
func usedFor(r rungRecord, tracks []track) Used {
	for _, t := range tracks {
		for _, n := range t.named {
			if n.Requested == r.Requested && n.Placement == r.Placement && slices.Contains(collective.AlgorithmNames(), n.Algorithm) {
				return n.Used
			}
		}
	}
	return Used{}
}
