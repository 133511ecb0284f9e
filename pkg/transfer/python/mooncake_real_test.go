package python

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/pyrank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

const (
	blockBytes = 64
	manyBlocks = 8192
)

// end is a registered pool, whose memory continues behind it, with an engine of its own.
type end struct {
	*library
	words []uint64
	at    uintptr
	bytes int64 // registered
}

// modules is how many pairs there were.
var modules int

// pinned keeps the memory of all pairs until the process ends: a transfer that the library refused in
// part may still write after the test that made it.
var pinned runtime.Pinner

// pair returns two ends in this process, the first connected to the second. Their words say
// where they are from.
func pair(t *testing.T, python *pyrank.Library) (a, b end) {
	t.Helper()
	modules++
	ends := []*end{&a, &b}
	for i, e := range ends {
		var err error
		e.library, err = newLibrary(python, withMooncake(), fmt.Sprintf("mooncake_%d_%d", modules, i), given{Address: "127.0.0.1", Protocol: vocab.LaneTCP})
		require.NoError(t, err)
		e.words = make([]uint64, 2*manyBlocks*blockBytes/8)
		for k := range e.words {
			e.words[k] = origin(i).Word(k)
		}
		pinned.Pin(&e.words[0])
		e.at, e.bytes = uintptr(unsafe.Pointer(&e.words[0])), manyBlocks*blockBytes
		require.NoError(t, e.call("register", e.Register, int64(e.at), e.bytes))
	}
	a.connectTo(t, b.address(t))
	return a, b
}

func withMooncake() *settings {
	s := libraries["mooncake"][0]
	return &s
}

// address is where the engine of an end listens.
func (e *end) address(t *testing.T) string {
	t.Helper()
	address, err := e.Text(e.Metadata, "")
	require.NoError(t, err)
	return address
}

func (e *end) connectTo(t *testing.T, address string) {
	t.Helper()
	_, err := e.Text(e.Connect, address)
	require.NoError(t, err)
}

func origin(i int) pool.Origin { return pool.Origin{Pool: pool.Of(i), Nonce: 1} }

// pull moves blocks in one batch.
func (e *end) pull(blocks ...span) error {
	number, err := e.lists(blocks)
	if err != nil {
		return err
	}
	id, err := e.start(number, 0, len(blocks), false)
	if err != nil {
		return err
	}
	_, err = e.ended(id)
	return err
}

// The real library's answers to what is wrong, which the documents and this backend count on,
// and what it leaves to this backend.
func TestWhatMooncakeRefuses(t *testing.T) {
	if !alone(t) {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, withMooncake().configure())
	python, err := pyrank.Open(t.Context(), &Mooncake, adapters)
	require.NoError(t, err)

	for name, tc := range map[string]struct {
		make func(a, b end) error
		want string // empty: the library does it
	}{
		"local memory that is not registered":  {func(a, b end) error { return a.pull(span{a.at + uintptr(a.bytes), b.at, blockBytes}) }, ""},
		"nothing":                              {func(a, _ end) error { return a.pull() }, ""},
		"remote memory that is not registered": {func(a, b end) error { return a.pull(span{a.at, b.at + uintptr(b.bytes), blockBytes}) }, "returned -1"},
		"past the end of the remote memory":    {func(a, b end) error { return a.pull(span{a.at, b.at + uintptr(b.bytes) - 8, blockBytes}) }, "returned -1"},
		"memory that is registered":            {func(a, _ end) error { return a.call("register", a.Register, int64(a.at), a.bytes) }, "register of Mooncake returned -7"},
		"a peer that is gone": {func(a, b end) error {
			a.connectTo(t, "127.0.0.1:1")
			return a.pull(span{a.at, b.at, blockBytes})
		}, "post of Mooncake returned -1"},
		"a target that has deregistered": {func(a, b end) error {
			require.NoError(t, b.call("unregister", b.Unregister))
			return a.pull(span{a.at, b.at, blockBytes})
		}, "returned -1"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, python)
			err := tc.make(a, b)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			f, err := pool.Unchanged(origin(0), pool.HostMemory(bytesOf(a.words)), "late")
			require.NoError(t, err)
			require.Zero(t, f.Wrong.Total(), "nothing moved")
		})
	}

	// Of more blocks than are queued a part arrives, unless the error comes before the first one;
	// then it is tried again. The check says what is missing.
	t.Run("a queue that overflows", func(t *testing.T) {
		for tries, part := 0, false; !part; tries++ {
			require.Less(t, tries, 100)
			a, b := pair(t, python)
			last := uintptr((manyBlocks - 1) * blockBytes)
			require.NoError(t, a.pull(span{a.at + last, b.at + last, blockBytes}), "it connects")
			blocks, want := []span(nil), []pool.Span(nil)
			for i := range manyBlocks - 1 {
				at := uintptr(i * blockBytes)
				blocks = append(blocks, span{a.at + at, b.at + at, blockBytes})
				want = append(want, pool.Span{Dst: i * blockBytes / 8, Src: i * blockBytes / 8, N: blockBytes / 8})
			}
			err := a.pull(blocks...)
			if err == nil { // the queue was emptied faster than it was filled
				continue
			}
			require.ErrorContains(t, err, "poll of Mooncake returned -1")
			var f pool.Finding
			for checked := false; !checked; {
				var err error
				f, err = pool.Destination(origin(0), origin(1), pool.HostMemory(bytesOf(a.words)[:last]), want)
				if checked = err == nil; !checked { // blocks arrive behind the error
					require.ErrorContains(t, err, "the checks of a pool disagree")
				}
				require.NoError(t, t.Context().Err())
			}
			require.NotEmpty(t, f.Class)
			part = f.Wrong.Total() < int64(last/8)
			require.NoError(t, t.Context().Err())
		}
	})

	// What the library lets pass is refused before it is called.
	t.Run("the backend", func(t *testing.T) {
		a, b := pair(t, python)
		e := &engine{settings: *withMooncake(), library: a.library, ctx: t.Context(), pool: a.at, remote: b.at}
		for _, blocks := range [][]runner.Block{nil, {{Local: 0, Remote: 0, Bytes: 8}}} {
			_, err := e.Prepare(transfer.Pull, blocks)
			require.Error(t, err, "no pool is registered")
		}
		e.bytes, e.moved = a.bytes, map[string]int64{}
		for _, block := range []runner.Block{{Local: a.bytes, Bytes: 8}, {Remote: a.bytes - 8, Bytes: 16}, {Local: -8, Bytes: 8}, {Bytes: 0}} {
			_, err := e.Prepare(transfer.Pull, []runner.Block{block})
			require.ErrorContains(t, err, "internal-error", block)
		}
		of, err := json.Marshal(metadata{b.at, b.address(t)})
		require.NoError(t, err)
		for cut := range len(of) {
			require.Error(t, e.Connect(of[:cut]))
		}
		require.NoError(t, e.Connect(of))

		var blocks []runner.Block
		for i := range int64(manyBlocks) {
			blocks = append(blocks, runner.Block{Local: i * blockBytes, Remote: i * blockBytes, Bytes: blockBytes})
		}
		r, err := e.Prepare(transfer.Pull, blocks)
		require.NoError(t, err)
		require.NoError(t, r.Post())
		require.LessOrEqual(t, e.inFlight(), e.flyingBlocks)
		done, err := r.Done()
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, r.Release())
		n := int(a.bytes / 8)
		require.Equal(t, b.words[:n], a.words[:n])
		require.Equal(t, origin(0).Word(n), a.words[n])

		lane, err := e.Lane()
		require.NoError(t, err)
		require.Equal(t, runner.Lane{Name: vocab.LaneTCP}, lane)
		e.moved[transfer.Pull] = math.MaxInt64 / 2
		lane, err = e.Lane()
		require.NoError(t, err)
		require.Equal(t, runner.Lane{Name: runner.UnknownLane}, lane, "the sockets have not moved as much")
	})
	require.NoError(t, python.Flush())
}

func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
}
