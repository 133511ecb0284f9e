package host

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
)

// liar is an engine that reports success for blocks that it does not move, or not yet.
type liar struct {
	*engine
	rules
	*posts
}

// rules are what a liar does with a request.
type rules struct {
	skips func(p *posts, b pair) bool // whether a block is never moved; nil: none
	when  moment                      // of the others
	gbps  float64                     // limit of the link; 0: unknown
}

// moment is when data move.
type moment int

const (
	atPost    moment = iota
	atRelease        // when the request is released
	inTime           // before a check looks for them, or when the request is released
	atLook           // once a check has looked for them, or before the next request is posted
	knowing          // when the request is released, unless the burst will be checked
)

// posts counts the requests of both ranks. Data that are due later wait in it.
type posts struct {
	sync.Mutex
	n, flying int
	sustained int // the first request that was posted while another was in flight; 0: none yet
	due       []func() error
	chance    *rand.Rand // as the ranks draw
	checked   []int      // bursts of this trial
}

// Warm-up bursts and timed ones of a trial of a liar.
const warmup, reps = 1, 8

// link is how long the data of a burst take that the liar has no choice but to move.
const link = 4 * time.Millisecond

// willBeChecked draws as the ranks do whether the request just posted, in a burst of its own, will be
// checked.
func (p *posts) willBeChecked() bool {
	n := (p.n - 2) % (warmup + reps) // the first one connects
	if n == 0 {
		p.checked = p.chance.Perm(reps)[:transfer.CheckedReps]
	}
	return slices.Contains(p.checked, n-warmup)
}

// overheard is a store on which a liar learns how the ranks will draw.
type overheard struct {
	rendezvous.Store
	by *posts
}

func (o overheard) Gather(ctx context.Context, name string, rank, world int, value []byte) ([][]byte, error) {
	all, err := o.Store.Gather(ctx, name, rank, world, value)
	if err == nil && rank == 1 && strings.HasSuffix(name, "/chance") {
		var seed [32]byte
		if err := json.Unmarshal(all[0], &seed); err != nil {
			return nil, err
		}
		o.by.chance = rand.New(rand.NewChaCha8(seed))
	}
	return all, err
}

// arrive moves what is due.
func (p *posts) arrive() (err error) {
	p.Lock()
	defer p.Unlock()
	for ; len(p.due) > 0 && err == nil; p.due = p.due[1:] {
		err = p.due[0]()
	}
	return err
}

// watched is a pool whose checks let the data arrive that are due, in time or once they have missed them. The check of
// the other pool may come first.
type watched struct {
	pool.Memory
	of liar
}

func (w watched) Wrong(stretches []pool.Stretch) ([]int, error) {
	if w.of.when == inTime {
		if err := w.of.posts.arrive(); err != nil {
			return nil, err
		}
	}
	wrong, err := w.Memory.Wrong(stretches)
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	return wrong, w.of.posts.arrive()
}

func (l liar) Register(ctx context.Context, bytes int64, handle string) (pool.Memory, error) {
	words, err := l.engine.Register(ctx, bytes, handle)
	if err == nil && (l.when == atLook || l.when == inTime) {
		words = watched{words, l}
	}
	return words, err
}

type lie struct {
	*copies
	of liar
}

func (l liar) Prepare(op string, blocks []runner.Block) (runner.Request, error) {
	r, err := l.engine.Prepare(op, blocks)
	return &lie{r.(*copies), l}, err
}

func (r *lie) Post() error {
	p := r.of.posts
	if err := p.arrive(); err != nil {
		return err
	}
	p.n++
	if p.flying++; p.flying > 1 && p.sustained == 0 {
		p.sustained = p.n
	}
	if r.of.skips != nil {
		r.list = slices.DeleteFunc(r.list, func(b pair) bool { return r.of.skips(p, b) })
	}
	switch {
	case r.of.when == knowing && p.n > 1 && p.sustained == 0 && p.willBeChecked():
		time.Sleep(link)
		return r.copies.Post()
	case r.of.when == atPost, r.of.when == knowing && (p.n == 1 || p.sustained > 0):
		return r.copies.Post()
	}
	p.Lock()
	defer p.Unlock()
	p.due = append(p.due, r.copies.Post)
	return nil
}

func (r *lie) Release() error {
	r.of.posts.flying--
	if slices.Contains([]moment{atRelease, inTime, knowing}, r.of.when) {
		return r.of.posts.arrive()
	}
	return nil
}

// word returns the first word of a side of a block.
func word(side []byte) uint64 { return binary.LittleEndian.Uint64(side) }

// paintOf returns the part of a word that names its pool and the paint of it.
func paintOf(side []byte) uint64 { return word(side) >> 40 }

// What an engine gains time by is found: data that move when nobody measures, data that move after
// they were reported, and bursts that do not move their data, in whatever way it selects them.
func TestLies(t *testing.T) {
	var moved uint64 // paint that a row has moved
	for name, tc := range map[string]struct {
		rules
		reason string
	}{
		"all data move when the request is released":                       {rules{when: atRelease}, "check-failed: "},
		"all data come after they were reported":                           {rules{when: atLook}, "check-failed: late, "},
		"data of bursts that are not checked move when they are released":  {rules{when: knowing}, "implausible: "},
		"all data come after they were reported, but before a check looks": {rules{when: inTime, gbps: largestBlock / link.Seconds() / 1e9}, "implausible: "},
		"of a row, only the first burst after paint moves": {rules{skips: func(p *posts, b pair) bool {
			if len(b.src) <= largestBlock || p.sustained > 0 {
				return false
			}
			defer func() { moved = paintOf(b.src) }()
			return paintOf(b.src) == moved
		}}, "check-failed: "},
		"nothing moves in the middle of the sustained run": {rules{skips: func(p *posts, _ pair) bool {
			return p.sustained > 0 && p.n > p.sustained+8 && p.n < p.sustained+5000
		}}, "check-failed: "},
		"blocks where words of the same paint are do not move": {rules{skips: func(_ *posts, b pair) bool { return paintOf(b.dst) == paintOf(b.src) }}, "check-failed: "},
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range transfer.Ops() {
				moved = 0
				trials := 1
				if tc.when == knowing { // by chance, one is not enough
					trials = 4
				}
				d := lying(t, op, trials, tc.rules)
				require.Equal(t, result.Invalid, d.Outcome.Status, "%s: %v", op, d.Outcome.Reasons)
				require.Contains(t, d.Outcome.Reasons.String(), tc.reason, op)
			}
		})
	}
}

// largestBlock is the size of the blocks of a paged row in the cases of a liar. A bulk row moves all of
// them as one.
const largestBlock = 16 * 1152

// An engine that skips blocks whose first word is already there has none to skip.
func TestNoBlockArrivesTwice(t *testing.T) {
	for _, op := range transfer.Ops() {
		skipped := 0
		d := lying(t, op, 1, rules{skips: func(_ *posts, b pair) bool {
			there := word(b.dst) == word(b.src)
			if there {
				skipped++
			}
			return there
		}})
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		require.Zero(t, skipped)
	}
}

// limited is a runner that reports the limit of its link, as ranks on devices do.
type limited struct {
	rank.Runner
	gbps float64
}

func (l limited) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	if err := s.Emit(rank.KindDevice, result.RankDevice{Rank: s.Rank, Limits: []result.Limit{{Of: result.LimitLink, GBps: l.gbps}}}); err != nil {
		return err
	}
	return l.Runner.Run(ctx, s, c)
}

// lying runs a small case over a liar.
func lying(t *testing.T, op string, trials int, of rules) *transfer.Document {
	p := &posts{}
	open := func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		end, err := NewEnd(ctx, s, c)
		if err != nil {
			return nil, err
		}
		s.Store = overheard{s.Store, p}
		return limited{end.Runner(liar{&engine{End: end, lane: transfer.Of(&c).Mode}, of, p}, rank.Library{}), of.gbps}, nil
	}
	return transfertest.Goroutines(open)(t, "", transfertest.Small(func(c *plan.Case) {
		t := transfer.Of(c)
		t.Ops, t.BatchSizes, t.SustainMillis = transfer.Words{op}, plan.Ladder{1}, 20
		t.Timing = plan.Repetitions{Warmup: warmup, Reps: reps, Trials: trials}
	}))[0]
}
