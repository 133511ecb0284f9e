package rendezvous

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/safefile"
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

// How long Get sleeps between two attempts: a part of the time that it has waited. Most waits
// are for a peer that is microseconds behind. Thousands of ranks that wait for minutes must
// not keep a file server busy.
const (
	firstPoll = 50 * time.Microsecond
	lastPoll  = 500 * time.Millisecond
	pollPart  = 8
)

// How long a file may be missing from a directory before nudge, and the longest pause
// between two.
const (
	firstNudge = time.Second
	lastNudge  = 16 * time.Second
)

// File is a Store in a directory that all processes see, on this host or over NFS. It
// depends on what NFS guarantees and on nothing more:
//
//   - A process that opens a file sees what was written before its writer closed it
//     (close-to-open consistency). File closes what it has written before it returns, and
//     before it gives it its final name.
//   - A client may remember that a name is missing for as long as it believes that the
//     directory is unchanged. Opening the directory makes it ask. File opens the
//     directories of a missing file from the root down, and looks again.
//   - Creating a name that must not exist is atomic, but a lost reply can make a successful
//     link look as if the name had existed. File counts the names of its own file.
//
// It renames nothing, and no process holds a file of the store open.
type File struct {
	root string
	disk disk
	wait time.Duration // firstNudge, or less in tests

	mu      sync.Mutex
	made    map[string]bool  // directories that exist
	streams map[string]error // by key of a stream that this process writes: what broke it
	nudges  map[string]*nudge
}

var _ Store = (*File)(nil)

// nudge holds when a directory that lacks a file is changed next.
type nudge struct {
	due  time.Time
	wait time.Duration
}

// OpenFile returns the store in directory root, which it creates if it is missing.
func OpenFile(root string) (*File, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return openFile(system{}, root, firstNudge)
}

func openFile(d disk, root string, wait time.Duration) (*File, error) {
	f := &File{root: root, disk: d, wait: wait, made: map[string]bool{}, streams: map[string]error{}, nudges: map[string]*nudge{}}
	if err := f.mkdir(f.Dir()); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return f, nil
}

// Address is the address for Join in another process.
func (f *File) Address() string { return f.root }

// Env is empty: permission to open the directory suffices.
func (f *File) Env() map[string]string { return nil }

// Dir implements Store.
func (f *File) Dir() string { return filepath.Join(f.root, sharedDir) }

// path returns the file of key. It is an error if the key is malformed, which is a mistake
// in this program.
func (f *File) path(key, suffix string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	return filepath.Join(f.root, filepath.FromSlash(key)+suffix), nil
}

// parents returns the directories from the root down to the one of path.
func (f *File) parents(path string) []string {
	var dirs []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
		if dir == f.root || len(dir) < len(f.root) {
			return dirs
		}
	}
}

// mkdir creates dir and its parents in the root. Another process may create them too.
func (f *File) mkdir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.parents(filepath.Join(dir, "file")) {
		if f.made[d] {
			continue
		}
		if err := f.disk.Mkdir(d); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f.made[d] = true
	}
	return nil
}

// Put implements Store.
func (f *File) Put(ctx context.Context, key string, value []byte) error {
	path, err := f.path(key, valueSuffix)
	if err != nil {
		return err
	}
	if err = ctx.Err(); err == nil {
		err = f.put(path, value)
	}
	return of("put", key, err)
}

func (f *File) put(path string, value []byte) error {
	dir := filepath.Dir(path)
	if err := f.mkdir(dir); err != nil {
		return err
	}
	temp := temporary(dir)
	out, err := f.disk.Create(temp)
	if err != nil {
		return err
	}
	defer func() { _ = f.disk.Remove(temp) }() // what stays goes with the store
	if err := writeAndClose(out, value); err != nil {
		return err
	}
	// Unlike rename, link fails if the key exists.
	err = f.disk.Link(temp, path)
	if errors.Is(err, fs.ErrExist) {
		if n, failed := f.disk.Names(temp); failed == nil && n == 2 {
			return nil // the reply was lost, and the request sent again
		}
	}
	return err
}

// temporary returns a new name in dir that no key has.
func temporary(dir string) string {
	return filepath.Join(dir, fmt.Sprintf(".put-%016x", rand.Uint64()))
}

// writeAndClose writes data, which others see once the file is closed.
func writeAndClose(w io.WriteCloser, data []byte) error {
	_, err := w.Write(data)
	return errors.Join(err, w.Close())
}

// Get implements Store.
func (f *File) Get(ctx context.Context, key string) ([]byte, error) {
	path, err := f.path(key, valueSuffix)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		value, err := f.read(path, 0)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, of("get", key, err)
		}
		timer.Reset(min(max(time.Since(began)/pollPart, firstPoll), lastPoll))
		select {
		case <-ctx.Done():
			return nil, of("get", key, ctx.Err())
		case <-timer.C:
		}
	}
}

// Append implements Store. After a failed write, such as on a full disk, the
// stream takes no more records: its torn tail must stay its end.
func (f *File) Append(key string, record []byte) error {
	path, err := f.path(key, streamSuffix)
	if err != nil {
		return err
	}
	if err := checkRecord(record); err != nil {
		return of("append", key, err)
	}
	broken, opened := f.stream(key)
	if !opened {
		if err := f.beginStream(path); err != nil {
			return of("append", key, err)
		}
	}
	if broken == nil {
		broken = f.write(path, append(bytes.Clone(record), '\n'))
	}
	f.mu.Lock()
	f.streams[key] = broken
	f.mu.Unlock()
	return of("append", key, broken)
}

func (f *File) stream(key string) (broken error, opened bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	broken, opened = f.streams[key]
	return broken, opened
}

func (f *File) write(path string, line []byte) error {
	file, err := f.disk.Append(path)
	if err != nil {
		return err
	}
	return writeAndClose(file, line)
}

// beginStream truncates an incomplete last record that an earlier writer may have left.
func (f *File) beginStream(path string) error {
	if err := f.mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	if old, err := f.readCached(path, 0); err == nil && len(old) > 0 && old[len(old)-1] != '\n' {
		return f.disk.Truncate(path, int64(bytes.LastIndexByte(old, '\n')+1))
	}
	return nil
}

// Records implements Store.
func (f *File) Records(key string, offset int64) ([][]byte, int64, error) {
	path, err := f.path(key, streamSuffix)
	if err != nil {
		return nil, offset, err
	}
	data, err := f.read(path, offset)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, offset, nil
	}
	if err != nil {
		return nil, offset, of("records", key, err)
	}
	records, next := split(data, offset)
	return records, next, nil
}

// split returns the complete records in the bytes of a stream from offset on, and the
// offset after them.
func split(data []byte, offset int64) ([][]byte, int64) {
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 {
		return nil, offset
	}
	return bytes.Split(data[:end-1], []byte{'\n'}), offset + int64(end)
}

// read returns the content of the file of a value or a stream, from offset on. It reports a
// missing file only after it has asked the server. The server's answer can be wrong if the directory
// has changed twice within one tick of its clock. Therefore, after a while, read changes it once more.
func (f *File) read(path string, offset int64) ([]byte, error) {
	data, err := f.readCached(path, offset)
	if errors.Is(err, fs.ErrNotExist) {
		for _, dir := range f.parents(path) {
			if f.disk.Visit(dir) != nil {
				break
			}
		}
		data, err = f.readCached(path, offset)
	}
	dir := filepath.Dir(path)
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nudges[dir]
	switch now := time.Now(); {
	case !errors.Is(err, fs.ErrNotExist):
		if n != nil {
			delete(f.nudges, dir)
		}
	case n == nil:
		f.nudges[dir] = &nudge{now.Add(f.wait), f.wait}
	case now.After(n.due):
		n.wait = min(2*n.wait, lastNudge)
		n.due = now.Add(n.wait)
		f.nudge(path)
	}
	return data, err
}

// nudge changes the directories of path, so that this host forgets what it remembers of
// the names in them.
func (f *File) nudge(path string) {
	for _, dir := range f.parents(path) {
		temp := temporary(dir)
		if file, err := f.disk.Create(temp); err == nil {
			_ = file.Close()
			_ = f.disk.Remove(temp)
		}
	}
}

// readCached reads a file, which may exist without this host knowing it yet.
func (f *File) readCached(path string, offset int64) ([]byte, error) {
	data, err := f.disk.Read(path, offset, maxLength)
	if errors.Is(err, safefile.ErrIrregular) || errors.Is(err, safefile.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return data, err
}

// Gather implements Store. Rank 0 collects the values, so that not every rank reads a file
// of every other.
func (f *File) Gather(ctx context.Context, name string, rank, world int, value []byte) ([][]byte, error) {
	if err := checkRank(name, rank, world); err != nil {
		return nil, err
	}
	if err := f.Put(ctx, memberKey(name, rank), value); err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	if rank == 0 {
		return f.collect(ctx, name, world)
	}
	all, err := f.Get(ctx, allKey(name))
	if err != nil {
		return nil, f.incomplete(ctx, name, world, err)
	}
	var values [][]byte
	if err := json.Unmarshal(all, &values); err != nil || len(values) != world {
		return nil, fmt.Errorf("gather %s: %w: %d values for %d ranks", name, ErrMalformed, len(values), world)
	}
	return values, nil
}

func (f *File) collect(ctx context.Context, name string, world int) ([][]byte, error) {
	values := make([][]byte, world)
	for r := range values {
		var err error
		if values[r], err = f.Get(ctx, memberKey(name, r)); err != nil {
			return nil, f.incomplete(ctx, name, world, err)
		}
	}
	all, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	if err := f.Put(ctx, allKey(name), all); err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	return values, nil
}

// incomplete returns the error of a gather; if its context has ended, one that names the missing
// ranks.
func (f *File) incomplete(ctx context.Context, name string, world int, err error) error {
	if ctx.Err() == nil {
		return fmt.Errorf("gather: %w", err)
	}
	missing := &MissingError{Name: name, World: world, Err: ctx.Err()}
	for r := range world {
		path, err := f.path(memberKey(name, r), valueSuffix)
		if err != nil {
			return err
		}
		if r == 0 {
			f.nudge(path)
		}
		if _, err := f.read(path, 0); errors.Is(err, fs.ErrNotExist) {
			missing.Ranks = append(missing.Ranks, r)
		}
	}
	return missing
}

func memberKey(name string, rank int) string { return fmt.Sprintf("%s/rank-%d", name, rank) }
func allKey(name string) string              { return name + "/all" }

// Barrier implements Store.
func (f *File) Barrier(ctx context.Context, name string, rank, world int) error {
	_, err := f.Gather(ctx, name, rank, world, nil)
	return err
}

// Close implements Store. File holds nothing open.
func (f *File) Close() error { return nil }

// disk is what the store needs from a file system. Errors wrap the errors of package io/fs.
type disk interface {
	// Mkdir creates a directory in one that exists.
	Mkdir(dir string) error
	// Visit opens and closes a directory. A file system that caches names on this host
	// then asks its server whether the directory has changed.
	Visit(dir string) error
	// Create creates a file, and fails if it exists.
	Create(path string) (io.WriteCloser, error)
	// Append opens a file to write at its end, and creates it if it is missing.
	Append(path string) (io.WriteCloser, error)
	// Read opens a file and returns its content from offset on. It fails if that is more
	// than limit bytes or the file is not a regular one.
	Read(path string, offset, limit int64) ([]byte, error)
	Truncate(path string, size int64) error
	// Link gives a file a second name, and fails if that exists.
	Link(from, to string) error
	// Names returns how many names a file has, once it is opened.
	Names(path string) (int, error)
	Remove(path string) error
}

// system is the disk of this host. What others may do with its files is left to the umask:
// a store lies in a private directory, and ranks in a container may have another account.
type system struct{}

func (system) Mkdir(dir string) error { return os.Mkdir(dir, 0o777) }

func (system) Visit(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return d.Close()
}

func (system) Create(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
}

func (system) Append(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
}

func (system) Read(path string, offset, limit int64) ([]byte, error) {
	return safefile.ReadFrom(path, offset, limit)
}

func (system) Truncate(path string, size int64) error { return os.Truncate(path, size) }
func (system) Link(from, to string) error             { return os.Link(from, to) }
func (system) Remove(path string) error               { return os.Remove(path) }

func (system) Names(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	err = errors.Join(unix.Fstat(int(f.Fd()), &st), f.Close())
	return int(st.Nlink), err
}
