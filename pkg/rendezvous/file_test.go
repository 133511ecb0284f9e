package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

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

func TestPutIsOnceAndWhole(t *testing.T) {
	s := open(t, t.TempDir())
	require.NoError(t, s.Put(t.Context(), "a", []byte("1")))
	require.NoError(t, s.Put(t.Context(), "a/b", []byte("2")), "a key and keys below it live side by side")
	require.ErrorIs(t, s.Put(t.Context(), "a", []byte("3")), fs.ErrExist)
	v, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "1", string(v), "the first value stands")
	require.NoError(t, filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		require.NotContains(t, d.Name(), ".put-", "no temporary file stays")
		return err
	}))
}

func TestConcurrentPutsOfOneKeyHaveOneWinner(t *testing.T) {
	root := t.TempDir()
	stores := []*File{open(t, root), open(t, root)} // two processes, in effect
	for round := range 200 {
		key := fmt.Sprintf("k/%d", round)
		var wg sync.WaitGroup
		errs := make([]error, len(stores))
		for i, s := range stores {
			wg.Go(func() { errs[i] = s.Put(t.Context(), key, fmt.Append(nil, i)) })
		}
		wg.Wait()
		v, err := stores[0].Get(t.Context(), key)
		require.NoError(t, err)
		for i, err := range errs {
			if string(v) == fmt.Sprint(i) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, fs.ErrExist)
			}
		}
	}
}

func TestGetWaitsUntilTheKeyExists(t *testing.T) {
	root := t.TempDir()
	a, b := open(t, root), open(t, root)
	got := make(chan []byte)
	go func() {
		v, _ := a.Get(context.Background(), "late")
		got <- v
	}()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, b.Put(t.Context(), "late", []byte("x")))
	require.Equal(t, "x", string(<-got))
}

func TestGetEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := open(t, t.TempDir()).Get(ctx, "never")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "get never")
}

func TestKeysStayInsideTheStore(t *testing.T) {
	s := open(t, t.TempDir())
	for _, key := range []string{"", "/a", "a//b", "..", "a/../b", ".hidden", "a@value"} {
		require.Error(t, s.Put(t.Context(), key, nil), key)
		require.Error(t, s.Append(key, nil), key)
	}
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
	s.streams["s"].err = full
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
	require.ErrorContains(t, err, "1073741825 bytes, more than the limit of 1073741824")
	_, err = f.Get(t.Context(), "long")
	require.ErrorIs(t, err, ErrMalformed)
	_, _, err = f.Records("queue", 0)
	require.ErrorIs(t, err, ErrMalformed)
	_, err = f.Get(t.Context(), "queue")
	require.ErrorIs(t, err, ErrMalformed)
}

func TestARecordIsOneLine(t *testing.T) {
	require.ErrorContains(t, open(t, t.TempDir()).Append("s", []byte("a\nb")), "newline")
}

func TestGatherIsInRankOrder(t *testing.T) {
	root := t.TempDir()
	const world = 5
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			s, err := OpenFile(root)
			if !assertNoError(t, err) {
				return
			}
			for round := range 20 {
				name := fmt.Sprintf("case-1/g%d", round)
				values, err := s.Gather(context.Background(), name, r, world, fmt.Append(nil, r*round))
				if !assertNoError(t, err) {
					return
				}
				for i, v := range values {
					if string(v) != fmt.Sprint(i*round) {
						t.Errorf("%s: rank %d gave %s", name, i, v)
					}
				}
				assertNoError(t, s.Barrier(context.Background(), name+"-b", r, world))
			}
		})
	}
	wg.Wait()
}

func assertNoError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func TestGatherRefusesAForeignRank(t *testing.T) {
	_, err := open(t, t.TempDir()).Gather(t.Context(), "g", 2, 2, nil)
	require.ErrorContains(t, err, "rank 2 of 2")
}
