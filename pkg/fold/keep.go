package fold

import (
	"errors"
	"iter"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Keep judges the documents below the given paths (see Read), compared with m unless it is nil, and returns the
// result of of for the attempt that counts for each case. of is also called for attempts that a later one
// supersedes.
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

// Standing returns the attempt that counts for each case, in reading order. It reads the paths twice, so that
// only one document is in memory. The verdict is the same as for a fold without matrix. It covers documents that
// do not count; the sequence omits them.
func Standing(in []string) (*Verdict, iter.Seq2[Record, error], error) {
	sources, verdict, err := Keep(in, nil, func(rec Record) string { return rec.Source })
	if err != nil {
		return nil, nil, err
	}
	again := func(yield func(Record, error) bool) {
		seen := map[Case]bool{} // a path may be given twice, or contain another
		for rec, err := range Read(in) {
			if _, ok := errors.AsType[*Problem](err); ok {
				continue // it is in the verdict
			}
			if err == nil {
				key := Case{Run: rec.Head.RunID, ID: rec.Head.CaseID}
				if sources[key] != rec.Source || seen[key] {
					continue
				}
				seen[key] = true
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
	return verdict, again, nil
}
