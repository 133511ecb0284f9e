package rank

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
)

// Tracks returns what the ranks of a case left, as read returns it, by rank: the zero value for a
// rank without a stream. whole reports whether every rank has a stream, and done whether every rank
// ended the case without a failure.
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

// LibraryVersion returns the version of the library that ranks name in their facts; nil if none does.
func LibraryVersion(streams []Stream) *string {
	for _, s := range streams {
		if s.Facts != nil && s.Facts.Library.Version != "" {
			return &s.Facts.Library.Version
		}
	}
	return nil
}

// Judge returns the outcome of a case. It is invalid for reasons that show that its data or its times
// are wrong. Otherwise it is that of the shard, which knows why a rank did not end the case, unless
// all are done; and then success, if everything that was asked for is there and checked.
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
