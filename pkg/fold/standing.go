package fold

import (
	"errors"
	"iter"
)

// Standing judges the documents below the given paths (see Read), and returns the attempt
// that counts for each case, in the order in which they are read. The paths are read twice,
// so that no more than one document is in memory. The verdict is that of a fold without
// matrix; documents that do not count are in it and not in the sequence.
func Standing(in []string) (*Verdict, iter.Seq2[Record, error], error) {
	judge := NewJudge(nil, Expected{})
	standing := map[Case]string{} // by source
	for rec, err := range Read(in) {
		if p, ok := errors.AsType[*Problem](err); ok {
			judge.Problem(p)
			continue
		} else if err != nil {
			return nil, nil, err
		}
		if _, stands := judge.Record(rec); stands {
			standing[Case{Run: rec.Head.RunID, ID: rec.Head.CaseID}] = rec.Source
		}
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
	return judge.Verdict(nil), again, nil
}
