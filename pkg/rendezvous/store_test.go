package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stores are all kinds of stores. Each opens a new store and returns what opens it again,
// as another process would.
var stores = map[string]func(t *testing.T) func() Store{
	"files": func(t *testing.T) func() Store {
		root := t.TempDir()
		return func() Store { return open(t, root) }
	},
	"memory": func(t *testing.T) func() Store {
		l := lead(t)
		return func() Store { return l }
	},
	"TCP": func(t *testing.T) func() Store {
		l := lead(t)
		return func() Store {
			s, err := Join(l.Address(), func(name string) string { return l.Env()[name] })
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
	},
	"files on NFS":                         onNFS(&nfsServer{}, time.Hour),
	"files on NFS that loses replies":      onNFS(&nfsServer{LoseReplies: true}, time.Hour),
	"files on NFS with a clock for change": onNFS(&nfsServer{Tick: 64}, time.Millisecond),
}

// lead starts a leader on this host.
func lead(t *testing.T) *Leader {
	t.Helper()
	l, err := Lead("127.0.0.1", 16)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// onNFS opens stores on a file server, each on a mount of its own. Only where the server
// counts changes by a clock, a store may change a directory to learn what is in it.
func onNFS(server *nfsServer, nudge time.Duration) func(t *testing.T) func() Store {
	var mu sync.Mutex
	n := 0
	return func(t *testing.T) func() Store {
		mu.Lock()
		defer mu.Unlock()
		n++
		root := fmt.Sprintf("/store-%d", n)
		return func() Store {
			f, err := openFile(server.Mount(), root, nudge)
			require.NoError(t, err)
			return f
		}
	}
}

// each runs a test of the contract on every kind of store.
func each(t *testing.T, test func(t *testing.T, open func() Store)) {
	t.Helper()
	for name, kind := range stores {
		t.Run(name, func(t *testing.T) { test(t, kind(t)) })
	}
}

func TestPutIsOnce(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		a, b := open(), open()
		require.NoError(t, a.Put(t.Context(), "a", []byte("1")))
		require.NoError(t, b.Put(t.Context(), "a/b", []byte("2")), "a key and keys below it live side by side")
		require.ErrorIs(t, b.Put(t.Context(), "a", []byte("3")), fs.ErrExist)
		for _, s := range []Store{a, b} {
			v, err := s.Get(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, "1", string(v), "the first value stands")
		}
	})
}

func TestConcurrentPutsOfOneKeyHaveOneWinner(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		both := []Store{open(), open()}
		for round := range 50 {
			key := fmt.Sprintf("k/%d", round)
			var wg sync.WaitGroup
			errs := make([]error, len(both))
			for i, s := range both {
				wg.Go(func() { errs[i] = s.Put(t.Context(), key, fmt.Append(nil, i)) })
			}
			wg.Wait()
			v, err := both[0].Get(t.Context(), key)
			require.NoError(t, err)
			for i, err := range errs {
				if string(v) == fmt.Sprint(i) {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, fs.ErrExist)
				}
			}
		}
	})
}

// A reader that has looked for a key and found nothing, and still looks, finds it.
func TestGetWaitsUntilTheKeyExists(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		a, b := open(), open()
		absent, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := a.Get(absent, "case/late")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "get case/late")
		got := make(chan string, 1)
		go func() {
			v, err := a.Get(context.WithoutCancel(t.Context()), "case/late")
			got <- fmt.Sprint(string(v), err)
		}()
		runtime.Gosched()
		require.NoError(t, b.Put(t.Context(), "case/late", []byte("x")))
		require.Equal(t, "x<nil>", <-got)
	})
}

func TestKeysStayInsideTheStore(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		s := open()
		for _, key := range []string{"", "/a", "a//b", "..", "a/../b", ".hidden", "a@value"} {
			require.Error(t, s.Put(t.Context(), key, nil), key)
			require.Error(t, s.Append(key, nil), key)
			_, err := s.Get(t.Context(), key)
			require.Error(t, err, key)
			_, _, err = s.Records(key, 0)
			require.Error(t, err, key)
		}
	})
}

// A reader sees all records that were appended before it looks, though it looked before
// the stream existed.
func TestRecordsAreSeenAtOnce(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		w, r := open(), open()
		records, next, err := r.Records("case/s", 0)
		require.NoError(t, err)
		require.Empty(t, records)
		require.Zero(t, next, "a stream nobody wrote is empty")
		for i := range 20 {
			want := strings.Repeat("x", i)
			require.NoError(t, w.Append("case/s", []byte(want)))
			for looks := 0; len(records) == 0 && looks < 1e6; looks++ { // one, unless the server counts changes by a clock
				records, next, err = r.Records("case/s", next)
				require.NoError(t, err)
			}
			require.Equal(t, [][]byte{[]byte(want)}, records)
			records, next, err = r.Records("case/s", next)
			require.NoError(t, err)
			require.Empty(t, records)
		}
		all, end, err := open().Records("case/s", 0)
		require.NoError(t, err)
		require.Len(t, all, 20)
		require.Equal(t, next, end)
	})
}

func TestARecordIsOneLine(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		require.ErrorContains(t, open().Append("s", []byte("a\nb")), "newline")
	})
}

func TestGatherIsInRankOrder(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		const world = 5
		var wg sync.WaitGroup
		for r := range world {
			s := open()
			wg.Go(func() {
				for round := range 10 {
					name := fmt.Sprintf("case-1/g%d", round)
					values, err := s.Gather(context.WithoutCancel(t.Context()), name, r, world, fmt.Append(nil, r*round))
					if err == nil && len(values) != world {
						err = fmt.Errorf("%d values", len(values))
					}
					for i, v := range values {
						if string(v) != fmt.Sprint(i*round) {
							err = errors.Join(err, fmt.Errorf("%s: rank %d gave %s", name, i, v))
						}
					}
					if err = errors.Join(err, s.Barrier(context.WithoutCancel(t.Context()), name+"-b", r, world)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestGatherRefusesAForeignRank(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		_, err := open().Gather(t.Context(), "g", 2, 2, nil)
		require.ErrorContains(t, err, "rank 2 of 2")
	})
}

// Every rank that waited in vain knows which ranks did not come.
func TestATimeoutNamesTheMissingRanks(t *testing.T) {
	each(t, func(t *testing.T, open func() Store) {
		const world = 8
		come := []int{0, 1, 6}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		errs := make([]error, len(come))
		var wg sync.WaitGroup
		for i, r := range come {
			s := open()
			wg.Go(func() { errs[i] = s.Barrier(ctx, "case/b", r, world) })
		}
		look := open()
		for _, r := range come { // what they put is there, even if the reply is still under way
			_, err := look.Get(t.Context(), memberKey("case/b", r))
			require.NoError(t, err)
		}
		cancel()
		wg.Wait()
		for _, err := range errs {
			missing, ok := errors.AsType[*MissingError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, []int{2, 3, 4, 5, 7}, missing.Ranks)
			require.ErrorIs(t, err, context.Canceled)
			require.EqualError(t, err, "gather case/b: missing ranks of 8: 2-5, 7: context canceled")
		}
	})
}

func TestWhatIsGatheredButNotCollected(t *testing.T) {
	err := &MissingError{Name: "g", World: 2, Err: context.Canceled}
	require.EqualError(t, err, "gather g: all 2 ranks have come, but rank 0 has not collected their values: context canceled")
}

// The pauses between looks grow with the wait, up to lastPoll.
func TestPollsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nfsServer{}
		d := &counting{nfsClient: server.Mount()}
		f, err := openFile(d, "/store", firstNudge)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = f.Get(ctx, "never")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, d.reads, 2*(2*3600+200), "two looks at each poll, two polls a second")
		require.Greater(t, d.reads, 2*3600)
		require.Less(t, d.creates, 2*3600/16+20, "a nudge every 16 seconds")
		require.Greater(t, d.creates, 200)
	})
}

// counting counts what a store asks of a client.
type counting struct {
	*nfsClient
	reads, creates int
}

func (c *counting) Read(path string, offset, limit int64) ([]byte, error) {
	c.reads++
	return c.nfsClient.Read(path, offset, limit)
}

func (c *counting) Create(path string) (io.WriteCloser, error) {
	c.creates++
	return c.nfsClient.Create(path)
}
