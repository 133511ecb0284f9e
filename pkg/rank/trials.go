package rank

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/result"
)

// capPause is how long Trials waits before it repeats trials. It is longer than a reading of the clock stays
// valid, so that no repetition is judged by an earlier reading.
const capPause = 40 * time.Millisecond

// Trial is one pass over the points of a case: trial Number or, if Repeat is not 0, a repetition of it.
type Trial struct {
	Number int `json:"trial"`
	Repeat int `json:"repeat,omitempty"`
}

// repeats is the record of what Counting returns.
type repeats struct {
	Name string `json:"name"`
	// Counts has the repetition by trial. Without an entry, the trial itself counts.
	Counts map[int]int `json:"counts"`
}

// Trials calls run for the trials from 0 to n−1. Then it repeats each trial in which the clock of a rank was
// capped (see Between) up to result.MaxRepeats times, until no clock is capped. Counting returns the first repetition
// without a capped clock; if there is none, the trial itself counts. All ranks agree over the store on what is
// repeated and what counts. name is a key that each case uses once.
func (s *Session) Trials(ctx context.Context, name string, n int, run func(Trial) error) error {
	var capped []int // on this rank
	one := func(t Trial) error {
		s.capped = false
		err := run(t)
		if s.capped {
			capped = append(capped, t.Number)
		}
		return err
	}
	for i := range n {
		if err := one(Trial{Number: i}); err != nil {
			return err
		}
	}
	if s.Between == nil { // and on the other ranks
		return nil
	}
	counts, again := map[int]int{}, []int{}
	for repeat := 1; ; repeat++ {
		all, err := Gather(ctx, s, fmt.Sprintf("capped-%s-%d", name, repeat), capped)
		if err != nil {
			return err
		}
		last := again
		again = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all...))))
		for _, number := range last {
			if !slices.Contains(again, number) {
				counts[number] = repeat - 1
			}
		}
		if len(again) == 0 || repeat > result.MaxRepeats {
			break
		}
		capped = nil
		select {
		case <-time.After(capPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, number := range again {
			if err := one(Trial{number, repeat}); err != nil {
				return err
			}
		}
		s.Repeated += len(again)
	}
	s.StillCapped += len(again)
	if len(counts) == 0 {
		return nil
	}
	return s.Emit(kindTrials, repeats{name, counts})
}

// Counting returns, by trial, which repetition counts of those that Trials ran under a name. Trials that count
// themselves are missing. It is empty unless all ranks have recorded the same.
func Counting(streams []Stream, name string) map[int]int {
	for _, s := range streams {
		if !maps.Equal(s.Repeats[name], streams[0].Repeats[name]) {
			return nil
		}
	}
	if len(streams) == 0 {
		return nil
	}
	return streams[0].Repeats[name]
}
