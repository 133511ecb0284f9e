package rendezvous

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func open(t *testing.T, root string) *File {
	t.Helper()
	s, err := OpenFile(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestRecordsLeaveATornTailForTheNextCall(t *testing.T) {
	root := t.TempDir()
	w, r := open(t, root), open(t, root)

	records, next, err := r.Records("s", 0)
	require.NoError(t, err)
	require.Empty(t, records)
	require.Zero(t, next, "a stream nobody wrote is empty")

	require.NoError(t, w.Append("s", []byte("one")))
	require.NoError(t, w.Append("s", []byte("")))
	path, err := w.path("s", streamSuffix)
	require.NoError(t, err)
	raw, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = raw.WriteString("tor")
	require.NoError(t, err)

	records, next, err = r.Records("s", 0)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("one"), {}}, records)
	require.EqualValues(t, 5, next)
	records, same, err := r.Records("s", next)
	require.NoError(t, err)
	require.Empty(t, records)
	require.Equal(t, next, same)

	_, err = raw.WriteString("n\n")
	require.NoError(t, err)
	require.NoError(t, raw.Close())
	records, _, err = r.Records("s", next)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("torn")}, records)
}

func TestANewWriterCutsTheTornTail(t *testing.T) {
	root := t.TempDir()
	w := open(t, root)
	require.NoError(t, w.Append("s", []byte("whole")))
	path, err := w.path("s", streamSuffix)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("whole\nto"), 0o600))

	require.NoError(t, open(t, root).Append("s", []byte("next")))
	records, _, err := w.Records("s", 0)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("whole"), []byte("next")}, records)
}

func TestABrokenStreamTakesNoMoreRecords(t *testing.T) {
	s := open(t, t.TempDir())
	require.NoError(t, s.Append("s", []byte("good")))
	full := errors.New("no space left")
	s.streams["s"] = full
	require.ErrorIs(t, s.Append("s", []byte("more")), full)
	records, _, err := s.Records("s", 0)
	require.NoError(t, err)
	require.Len(t, records, 1)
}

// Nobody reads more of a rank than fits into memory, and nobody waits for a FIFO.
func TestWhatIsTooLongOrNoFileIsRefused(t *testing.T) {
	f, err := OpenFile(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, f.Append("long", []byte("first")))
	require.NoError(t, f.Put(t.Context(), "long", []byte("value")))
	for _, suffix := range []string{streamSuffix, valueSuffix} {
		require.NoError(t, os.Truncate(filepath.Join(f.root, "long"+suffix), maxLength+1))
		require.NoError(t, unix.Mkfifo(filepath.Join(f.root, "queue"+suffix), 0o600))
	}
	_, _, err = f.Records("long", 0)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "1073741825 bytes")
	_, err = f.Get(t.Context(), "long")
	require.ErrorIs(t, err, ErrMalformed)
	_, _, err = f.Records("queue", 0)
	require.ErrorIs(t, err, ErrMalformed)
	_, err = f.Get(t.Context(), "queue")
	require.ErrorIs(t, err, ErrMalformed)
}

func TestPutLeavesNoTemporaryFile(t *testing.T) {
	s := open(t, t.TempDir())
	require.NoError(t, s.Put(t.Context(), "a/b", []byte("1")))
	require.ErrorIs(t, s.Put(t.Context(), "a/b", []byte("2")), fs.ErrExist)
	require.NoError(t, filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		require.NotContains(t, d.Name(), ".put-")
		return err
	}))
}

// Ranks in a container may have another account than the shard, which reads and removes
// what they wrote. They leave the modes of files open; the directory above is private.
func TestFilesHaveTheModesThatTheUmaskLeaves(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	f, err := OpenFile(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, f.Put(t.Context(), "case-1/key", []byte("value")))
	require.NoError(t, filepath.WalkDir(f.Dir(), func(path string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o666), info.Mode().Perm()&0o666, path)
		return nil
	}))
}
