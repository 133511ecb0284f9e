package rank

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
)

// Tracks returns the result of read for each rank, by rank: the zero value for a rank without a stream. whole
// reports whether every rank has a stream, and done whether every rank completed the case.
func Tracks[T any](ranks int, streams []Stream, read func(s Stream, t *T) error) (tracks []T, whole, done bool, err error) {
	tracks = make([]T, ranks)
	whole = len(streams) == ranks
	done = whole
	for _, s := range streams {
		if s.Rank < 0 || s.Rank >= ranks {
			return nil, false, false, fmt.Errorf("stream of rank %d in a world of %d", s.Rank, ranks)
		}
		if err := read(s, &tracks[s.Rank]); err != nil {
			return nil, false, false, fmt.Errorf("rank %d: %w", s.Rank, err)
		}
		done = done && s.Done && s.Failure == nil
	}
	return tracks, whole, done, nil
}

// LibraryVersion returns the library version in the ranks' facts, or nil.
func LibraryVersion(streams []Stream) *string {
	for _, s := range streams {
		if s.Facts != nil && s.Facts.Library.Version != "" {
			return &s.Facts.Library.Version
		}
	}
	return nil
}

// Judge returns the outcome of a case. It is invalid if wrong has reasons against its data or times. Otherwise,
// if all ranks are done and everything requested is present and checked, it is success; else the shard's
// outcome, since the shard knows why a rank did not complete.
func Judge(shard result.Outcome, wrong result.Reasons, done, checked bool) result.Outcome {
	switch {
	case len(wrong) > 0:
		return result.Outcome{Status: result.Invalid, Reasons: wrong}
	case !done:
		return shard
	case !checked:
		return result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}
	}
	return result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
}
