package fold

import (
	"errors"
	"iter"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Keep judges the documents below the given paths (see Read), against m where it is not nil, and
// returns what of makes of the attempt that counts for each case. It is called for attempts that counted
// until a later one did, too.
func Keep[T any](in []string, m *plan.Matrix, of func(Record) T) (map[Case]T, *Verdict, error) {
	judge, kept := NewJudge(m, Expected{}), map[Case]T{}
	for rec, err := range Read(in) {
		if p, ok := errors.AsType[*Problem](err); ok {
			judge.Problem(p)
			continue
		} else if err != nil {
			return nil, nil, err
		}
		if _, stands := judge.Record(rec); stands {
			kept[Case{Run: rec.Head.RunID, ID: rec.Head.CaseID}] = of(rec)
		}
	}
	return kept, judge.Verdict(m), nil
}

// Standing returns the attempt that counts for each case, in the order in which they are read. The
// paths are read twice, so that no more than one document is in memory. The verdict is that of a
// fold without matrix; documents that do not count are in it and not in the sequence.
func Standing(in []string) (*Verdict, iter.Seq2[Record, error], error) {
	standing, verdict, err := Keep(in, nil, func(rec Record) string { return rec.Source })
	if err != nil {
		return nil, nil, err
	}
	again := func(yield func(Record, error) bool) {
		for rec, err := range Read(in) {
			if _, ok := errors.AsType[*Problem](err); ok {
				continue // the verdict has it
			}
			if err == nil && standing[Case{Run: rec.Head.RunID, ID: rec.Head.CaseID}] != rec.Source {
				continue
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
	return verdict, again, nil
}
