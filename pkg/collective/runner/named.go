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
	// Named calls run, which runs one operation to its end. It returns the algorithm of the operation, one of
	// collective.AlgorithmNames, or "" if this rank does not know it.
	Named(run func() error) (string, error)
}

// named is the algorithm of a rung.
type named struct {
	Requested int64  `json:"requested"`
	Placement string `json:"placement"`
	Algorithm string `json:"algorithm"`
}

// name runs one more operation of each rung, and emits the algorithms that the library reports. All ranks
// refuse the case if the library does not use the algorithm that the case requires.
func (b *bench) name(ctx context.Context) error {
	of, ok := b.backend.Comm.(Namer)
	if !ok || b.spec.op.Pairwise() {
		return nil
	}
	var all []named
	want, other := b.spec.block.Algorithm, ""
	for _, r := range b.ladder.rungs {
		b.enter(r)
		algorithm, err := of.Named(func() error { return b.enqueue(ctx, b.calls[:1]) })
		if err != nil {
			return b.at(err)
		}
		if algorithm == "" {
			continue
		}
		all = append(all, named{r.Requested, r.Placement, algorithm})
		if algorithm != want {
			other = algorithm
		}
	}
	if want != "" {
		others, err := rank.Gather(ctx, b.session, "algorithm", other)
		if other = cmp.Or(others...); err != nil || other != "" {
			return cmp.Or(err, error(&rank.Error{
				Reason: result.ReasonRefused.With("%s not offered, the library used %s", want, other), Err: errors.New("its log names the algorithm"),
			}))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return b.session.Emit(kindNamed, all)
}

// algorithmOf returns the algorithm that a rank reported for a rung, or "".
func algorithmOf(r rungRecord, tracks []track) string {
	for _, t := range tracks {
		for _, n := range t.named {
			if n.Requested == r.Requested && n.Placement == r.Placement && slices.Contains(collective.AlgorithmNames(), n.Algorithm) {
				return n.Algorithm
			}
		}
	}
	return ""
}
