package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/collectivex/collectivex/pkg/regular"
)

// Names of the files of a key. A key may not contain '@', so that the keys "a" and "a/b"
// and the stream "a" can coexist.
const (
	valueSuffix  = "@value"
	streamSuffix = "@stream"
	sharedDir    = "@shared"
)

// maxLength limits what is read of one value or stream, in bytes.
const maxLength = 1 << 30

// ErrMalformed is wrapped by errors for a value or a stream that is not a regular file, or
// is larger than any that a rank writes.
var ErrMalformed = errors.New("malformed")

// How long Get sleeps between two looks: at first briefly, since most waits are for a peer
// that is microseconds behind, then longer, to leave the processors to the ranks.
const (
	firstPoll = 50 * time.Microsecond
	lastPoll  = 5 * time.Millisecond
)

// File is a Store in a directory. It needs only hard links, rename and O_APPEND of the file
// system, so any directory that all processes see will do.
type File struct {
	root string

	mu      sync.Mutex
	streams map[string]*stream
}

var _ Store = (*File)(nil)

// stream is the writing end of a stream. err is the error that broke it.
type stream struct {
	file *os.File
	err  error
}

// OpenFile returns the store in directory root, which it creates if it is missing.
func OpenFile(root string) (*File, error) {
	f := &File{root: root, streams: map[string]*stream{}}
	if err := os.MkdirAll(f.Dir(), 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return f, nil
}

// Dir implements Store.
func (f *File) Dir() string { return filepath.Join(f.root, sharedDir) }

// path returns the file of key. It is an error if the key is malformed, which is a mistake
// in this program.
func (f *File) path(key, suffix string) (string, error) {
	for seg := range strings.SplitSeq(key, "/") {
		if seg == "" || seg[0] == '.' || strings.ContainsAny(seg, "@\x00") {
			return "", fmt.Errorf("store key %q: segments are not empty, start with no dot and hold no '@'", key)
		}
	}
	return filepath.Join(f.root, filepath.FromSlash(key)+suffix), nil
}

// Put implements Store.
func (f *File) Put(ctx context.Context, key string, value []byte) error {
	path, err := f.path(key, valueSuffix)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	tmp, err := os.CreateTemp(dir, ".put-*")
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(value)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	// Unlike rename, link fails if the key exists.
	if err := os.Link(tmp.Name(), path); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// Get implements Store.
func (f *File) Get(ctx context.Context, key string) ([]byte, error) {
	path, err := f.path(key, valueSuffix)
	if err != nil {
		return nil, err
	}
	var timer *time.Timer
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		value, err := read(path, 0)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("get %s: %w", key, err)
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("get %s: %w", key, ctx.Err())
		case <-timer.C:
		}
	}
}

// Append implements Store. After a failed write, such as on a full disk, the
// stream takes no more records: its torn tail must stay its end.
func (f *File) Append(key string, record []byte) error {
	if bytes.IndexByte(record, '\n') >= 0 {
		return fmt.Errorf("append %s: record holds a newline", key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.streams[key]
	if !ok {
		file, err := f.openStream(key)
		if err != nil {
			return fmt.Errorf("append %s: %w", key, err)
		}
		s = &stream{file: file}
		f.streams[key] = s
	}
	if s.err == nil {
		line := append(bytes.Clone(record), '\n')
		_, s.err = s.file.Write(line)
	}
	if s.err != nil {
		return fmt.Errorf("append %s: %w", key, s.err)
	}
	return nil
}

// openStream opens the stream key for writing, and truncates an incomplete last record that
// an earlier writer may have left.
func (f *File) openStream(key string) (*os.File, error) {
	path, err := f.path(key, streamSuffix)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if old, err := read(path, 0); err == nil && len(old) > 0 && old[len(old)-1] != '\n' {
		if err := os.Truncate(path, int64(bytes.LastIndexByte(old, '\n')+1)); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Records implements Store.
func (f *File) Records(key string, offset int64) ([][]byte, int64, error) {
	path, err := f.path(key, streamSuffix)
	if err != nil {
		return nil, offset, err
	}
	data, err := read(path, offset)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, offset, nil
	}
	if err != nil {
		return nil, offset, fmt.Errorf("records %s: %w", key, err)
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 {
		return nil, offset, nil
	}
	return bytes.Split(data[:end-1], []byte{'\n'}), offset + int64(end), nil
}

// read returns the content of the file of a value or a stream, from offset on.
func read(path string, offset int64) ([]byte, error) {
	data, err := regular.ReadFrom(path, offset, maxLength)
	if errors.Is(err, regular.ErrIrregular) || errors.Is(err, regular.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return data, err
}

// Gather implements Store.
func (f *File) Gather(ctx context.Context, name string, rank, world int, value []byte) ([][]byte, error) {
	if rank < 0 || rank >= world {
		return nil, fmt.Errorf("gather %s: rank %d of %d", name, rank, world)
	}
	if err := f.Put(ctx, memberKey(name, rank), value); err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	values := make([][]byte, world)
	for r := range world {
		v, err := f.Get(ctx, memberKey(name, r))
		if err != nil {
			return nil, fmt.Errorf("gather: %w", err)
		}
		values[r] = v
	}
	return values, nil
}

func memberKey(name string, rank int) string { return fmt.Sprintf("%s/rank-%d", name, rank) }

// Barrier implements Store.
func (f *File) Barrier(ctx context.Context, name string, rank, world int) error {
	_, err := f.Gather(ctx, name, rank, world, nil)
	return err
}

// Close closes the streams that this process wrote.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, s := range f.streams {
		err = errors.Join(err, s.file.Close())
	}
	f.streams = map[string]*stream{}
	return err
}
