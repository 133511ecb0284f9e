// Package rendezvous is the store through which a shard and its ranks talk,
// and the ranks among themselves. Nothing else connects them, so that a bare
// host, srun and a container look alike.
package rendezvous

import "context"

// Store keeps small values and append-only streams under slash-separated keys
// ("case-0003/ready", "case-0003/rank-0"). All methods are safe for concurrent
// use by several processes.
type Store interface {
	// Put publishes value under key, whole or not at all. A key is written once:
	// a second Put of the same key is an error.
	Put(ctx context.Context, key string, value []byte) error
	// Get waits until key exists and returns its value. The error wraps ErrMalformed
	// if the stored value cannot come from Put.
	Get(ctx context.Context, key string) ([]byte, error)
	// Append adds one record (without newline) to the stream key. A stream has one writer.
	Append(key string, record []byte) error
	// Records returns the complete records of the stream key from byte offset on,
	// and the offset after them. A torn last record is left for the next call. A
	// stream nobody wrote is empty. The error wraps ErrMalformed if the stream cannot
	// come from Append.
	Records(key string, offset int64) (records [][]byte, next int64, err error)
	// Gather puts this rank's value under name and waits for those of all ranks of
	// world; the result is in rank order. A name is used once.
	Gather(ctx context.Context, name string, rank, world int, value []byte) ([][]byte, error)
	// Barrier is Gather without values.
	Barrier(ctx context.Context, name string, rank, world int) error
	// Dir is a directory that all ranks of one host share, for backends that need files.
	Dir() string
}
