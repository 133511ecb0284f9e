// Package rendezvous is the store through which a shard and its ranks communicate. They
// have no other channel, so bare hosts, srun and containers need no special treatment.
package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/affinity"
)

// ErrMalformed is wrapped by errors for a value or a stream that is not a regular file, or
// is larger than a rank writes.
var ErrMalformed = errors.New("malformed")

// Store keeps small values and append-only streams under slash-separated keys
// ("case-0003/ready", "case-0003/rank-0"). All methods are safe for concurrent
// use by several processes.
type Store interface {
	// Put stores value under key, whole or not at all. A second Put of a key is an error.
	Put(ctx context.Context, key string, value []byte) error
	// Get waits until key exists and returns its value. The error wraps ErrMalformed
	// if the stored value cannot come from Put.
	Get(ctx context.Context, key string) ([]byte, error)
	// Append adds one record, without a newline, to the stream key. A stream has one
	// writer.
	Append(key string, record []byte) error
	// Records returns the complete records of the stream key from byte offset on, and the
	// offset after them. An incomplete last record is left for the next call. A missing
	// stream is empty. The error wraps ErrMalformed if Append cannot have written the stream.
	Records(key string, offset int64) (records [][]byte, next int64, err error)
	// Gather stores this rank's value under name, waits for the values of all ranks of
	// world, and returns them in rank order. Each name can be used once. If ctx ends while
	// it waits, the error is a *MissingError.
	Gather(ctx context.Context, name string, rank, world int, value []byte) ([][]byte, error)
	// Barrier waits until all ranks of world have called it, like Gather without values.
	Barrier(ctx context.Context, name string, rank, world int) error
	// Dir returns a directory that all ranks of one host share, for backends that need
	// files.
	Dir() string
	// Close ends the use of the store by this process.
	Close() error
}

// MissingError is the error of a gather or a barrier whose context ended before all ranks
// had called it.
type MissingError struct {
	Name  string
	Ranks []int // missing ones, in order; none if only rank 0 is behind
	World int
	Err   error // of the context
}

// Error names the missing ranks.
func (e *MissingError) Error() string {
	if len(e.Ranks) == 0 {
		return fmt.Sprintf("gather %s: all %d ranks have come, but rank 0 has not collected their values: %v", e.Name, e.World, e.Err)
	}
	return fmt.Sprintf("gather %s: missing ranks of %d: %s: %v", e.Name, e.World, Ranks(e.Ranks), e.Err)
}

// Unwrap returns the error of the context.
func (e *MissingError) Unwrap() error { return e.Err }

// Ranks formats an ascending list of ranks, such as 0, 2-4.
func Ranks(ranks []int) string { return strings.ReplaceAll(affinity.List(ranks), ",", ", ") }

// checkKey returns an error for a malformed key, which is a mistake in this program.
func checkKey(key string) error {
	for seg := range strings.SplitSeq(key, "/") {
		if seg == "" || seg[0] == '.' || strings.ContainsAny(seg, "@\x00") {
			return fmt.Errorf("store key %q: segments must not be empty, start with a dot or contain '@'", key)
		}
	}
	return nil
}

// checkRecord returns an error for a record that is not one line.
func checkRecord(record []byte) error {
	if bytes.IndexByte(record, '\n') >= 0 {
		return errors.New("record contains a newline")
	}
	return nil
}

// of adds the operation and its key to err; it returns nil for nil.
func of(operation, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", operation, key, err)
}

func checkRank(name string, rank, world int) error {
	if rank < 0 || rank >= world {
		return fmt.Errorf("gather %s: rank %d of %d", name, rank, world)
	}
	return nil
}
