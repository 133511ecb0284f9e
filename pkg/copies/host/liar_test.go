package host

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/copytest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// move is a copy that was asked for.
type move struct{ to, from []byte }

// liar is the host with a gate, which leaves out copies.
type liar struct {
	copier
	// does reports whether the copy is made.
	does func(l *liar, m move) bool
	// of reduces the copies since the last wait to those that are made; nil: each is made at once.
	of      func([]move) []move
	waiting []move
	calls   int            // since the last wait
	seen    map[*byte]byte // by source
	held    bool
	skipped int
}

func (l *liar) move(to, from unsafe.Pointer, n int64) error {
	m := move{unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(from), n)}
	l.calls++
	switch {
	case l.of != nil:
		l.waiting = append(l.waiting, m)
	case l.does(l, m):
		copy(m.to, m.from)
	default:
		l.skipped++
	}
	return nil
}

func (l *liar) CopyIn(_ accel.Stream, to accel.Ptr, from unsafe.Pointer, n int64) error {
	return l.move(to.Pointer(), from, n)
}

func (l *liar) CopyOut(_ accel.Stream, to unsafe.Pointer, from accel.Ptr, n int64) error {
	return l.move(to, from.Pointer(), n)
}

func (l *liar) Copy(_ accel.Stream, to, from accel.Ptr, n int64) error {
	return l.move(to.Pointer(), from.Pointer(), n)
}

func (l *liar) Hold(accel.Stream) error { l.held = true; return nil }
func (l *liar) Open()                   { l.held = false }

func (l *liar) NewStream() (accel.Stream, error) {
	s, err := l.copier.NewStream()
	return lying{s, l}, err
}

type lying struct {
	accel.Stream
	*liar
}

func (s lying) Synchronize() error {
	if s.of != nil {
		made := s.of(s.waiting)
		s.skipped += len(s.waiting) - len(made)
		for _, m := range made {
			copy(m.to, m.from)
		}
		s.waiting = nil
	}
	s.calls = 0
	return nil
}

// needed leaves out of each copy what the next one overwrites.
func needed(all []move) []move {
	all = slices.Clone(all)
	for i := range all[:max(1, len(all))-1] {
		next := uintptr(unsafe.Pointer(&all[i+1].to[0])) - uintptr(unsafe.Pointer(&all[i].to[0]))
		if next < uintptr(len(all[i].to)) {
			all[i] = move{all[i].to[:next], all[i].from[:next]}
		}
	}
	return all
}

// each returns a lie that needs no other copies.
func each(does func(l *liar, m move) bool) liar { return liar{does: does} }

// A backend that leaves out copies is found, by either clock, or finds none that it could leave out. One that leaves out
// what the next copy of a window overwrites is not found, since nothing that it leaves out can be seen.
func TestLiars(t *testing.T) {
	for name, lie := range map[string]liar{
		"the first word is there": each(func(_ *liar, m move) bool { return !bytes.Equal(m.to[:8], m.from[:8]) }),
		"the last word is there":  each(func(_ *liar, m move) bool { return !bytes.HasSuffix(m.to, m.from[len(m.from)-8:]) }),
		"copied before": each(func(l *liar, m move) bool {
			seen := l.seen[&m.from[0]]
			l.seen[&m.from[0]] = m.from[5]
			return seen != m.from[5]
		}),
		"every second copy":             each(func(l *liar, _ move) bool { return l.calls%2 == 0 }),
		"all but the first of a window": each(func(l *liar, _ move) bool { return l.calls == 1 }),
		"the second of a window":        each(func(l *liar, _ move) bool { return l.calls != 2 }),
		"behind the gate":               each(func(l *liar, _ move) bool { return !l.held }),
		"by the host's clock":           each(func(l *liar, _ move) bool { return l.held || l.calls == 1 }),
		"all but the last of a window":  {of: func(all []move) []move { return all[max(1, len(all))-1:] }},
		"what is overwritten":           {of: needed},
	} {
		for _, test := range []string{"device_local_copy", "device_to_device_memcpy_write_ce"} {
			t.Run(name+" in "+test, func(t *testing.T) {
				liars := make([]liar, 2)
				d := copytest.Goroutines(t, func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
					p, err := parts(ctx, s, c)
					l := &liars[s.Rank]
					*l = lie
					l.copier, l.seen = copier{p.Device.(copier).Device}, map[*byte]byte{}
					p.Device, p.Gate = l, l
					return runner.NewRunner(p), err
				}, "", plantest.Copy("host", test, func(c *plan.Case) { copies.Of(c).Sizes = []int64{8, 64 << 10} }))
				skipped := liars[0].skipped + liars[1].skipped
				t.Logf("%d skipped: %s %v", skipped, d.Outcome.Status, d.Outcome.Reasons)
				if skipped == 0 {
					require.Equal(t, result.Success, d.Outcome.Status)
					return
				}
				require.Equal(t, result.Invalid, d.Outcome.Status)
				require.Equal(t, result.ReasonCheck, d.Outcome.Code())
				for _, r := range d.Measurement.Rows {
					require.False(t, r.Verify.Passed, r.Name())
				}
			})
		}
	}
}
