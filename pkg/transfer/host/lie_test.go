package host

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
)

// liar is an engine that reports success for blocks that it does not move.
type liar struct {
	*engine
	posted *int
	skips  func(post int, dst, src uint64) bool // by the first words of a block
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
	*r.of.posted++
	word := binary.LittleEndian.Uint64
	r.list = slices.DeleteFunc(r.list, func(p pair) bool { return r.of.skips(*r.of.posted, word(p.dst), word(p.src)) })
	return r.copies.Post()
}

// What was timed is checked in the state in which it was timed: rows, small transfers and sustained
// bursts of an engine that skips blocks do not pass.
func TestEnginesThatSkip(t *testing.T) {
	// A rank posts once to connect. Of the small transfers it posts two and one more of each size,
	// and of both rows two.
	const (
		small     = 2
		block     = small + 3
		rows      = block + 3
		sustained = rows + 4
	)
	between := func(from, to int) func(int, uint64, uint64) bool {
		return func(post int, _, _ uint64) bool { return post >= from && post < to }
	}
	for name, tc := range map[string]struct {
		skips                          func(post int, dst, src uint64) bool
		small, block, paged, sustained string // classes of wrong words
	}{
		"the last transfer of 8 bytes that is timed": {skips: between(small+1, small+2), small: "misplaced"},
		"the one after it":                           {skips: between(small+2, small+3), small: "not written"},
		"the last transfer of a block that is timed": {skips: between(block+1, block+2), block: "misplaced"},
		"the last burst of a row":                    {skips: between(sustained-1, sustained), paged: "not written"},
		"all but the first sustained burst":          {skips: between(sustained+1, math.MaxInt), sustained: "not written"},
		"blocks where something of the same burst is": {
			skips: func(_ int, dst, src uint64) bool { return dst>>40 == src>>40 },
			small: "misplaced", block: "torn", sustained: "misplaced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range transfer.Ops() {
				d := skipping(t, op, tc.skips)
				require.Equal(t, result.Invalid, d.Outcome.Status)
				m := &d.Measurement
				verdicts := map[*result.Verify]string{
					m.First[0].Verify: tc.small, m.First[1].Verify: tc.block,
					&m.Rows[0].Verify: "", &m.Rows[1].Verify: tc.paged, &m.Sustained[0].Verify: tc.sustained,
				}
				for v, class := range verdicts {
					require.Equal(t, class == "", v.Passed, "%s: %s", op, v.Detail)
					for _, c := range v.Wrong.Classes() {
						require.True(t, c.Name != class || *c.Count > 0, "%s: %s", op, v.Detail)
					}
				}
			}
		})
	}
}

// An engine that skips blocks whose first word is already there has none to skip.
func TestNoBlockArrivesTwice(t *testing.T) {
	for _, op := range transfer.Ops() {
		skipped := 0
		d := skipping(t, op, func(post int, dst, src uint64) bool {
			if dst == src {
				skipped++
			}
			return dst == src
		})
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		require.Zero(t, skipped)
	}
}

// skipping runs a small case over an engine that skips blocks.
func skipping(t *testing.T, op string, skips func(post int, dst, src uint64) bool) *transfer.Document {
	open := func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		end, err := NewEnd(ctx, s, c)
		if err != nil {
			return nil, err
		}
		return end.Runner(liar{&engine{End: end, lane: transfer.Of(&c).Mode}, new(int), skips}, rank.Library{}), nil
	}
	return transfertest.Goroutines(open)(t, "", transfertest.Small(transfertest.Few, func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{op} }))[0]
}
