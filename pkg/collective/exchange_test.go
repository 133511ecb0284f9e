package collective_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel"
	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// exchangeOf is the four lists of a call, or nil.
func exchangeOf(c collective.Call, world int) []int64 {
	if c.Exchange == 0 {
		return nil
	}
	bytes := hostdev.Bytes(accel.Ptr(c.Exchange), int64(4*world)*8)
	return unsafe.Slice((*int64)(unsafe.Pointer(&bytes[0])), 4*world)
}

// What a library could do wrong with parts of unequal sizes, each caught by the
// check of the timed buffers.
func TestWrongExchanges(t *testing.T) {
	const world = 2
	for name, harm := range map[string]func(rank int, words []int64){
		"forgets one pair": func(rank int, words []int64) {
			if rank == 0 {
				words[1] = 0 // sent to rank 1
			} else {
				words[2*world] = 0 // received from rank 0
			}
		},
		"swaps what it received": func(rank int, words []int64) {
			if received := words[2*world:]; rank == 1 {
				words[3*world], words[3*world+1] = received[1], 0
			}
		},
		"sends the wrong part": func(rank int, words []int64) {
			if rank == 0 {
				words[world+1] = 0 // what goes to rank 1 begins where what goes to rank 0 does
			}
		},
		"nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			d, _, err := run(t, aCase(func(c *plan.Case) {
				c.Op, c.RedOp = "alltoallv", ""
				c.Traffic = [][]int64{{8192, 4096}, {1024, 8}}
				c.Sizes = []int64{12288}
			}), false, func(c *comm, s accel.Stream, calls []collective.Call) error {
				for _, call := range calls {
					if words := exchangeOf(call, world); words != nil && harm != nil {
						harm(c.rank, words)
					}
				}
				return c.Comm.Enqueue(s, calls, 1)
			})
			require.NoError(t, err)
			if harm == nil {
				require.Equal(t, result.Success, d.Outcome.Status)
				require.EqualValues(t, 12288, d.Measurement.Rows[0].Bytes)
				require.EqualValues(t, 3072, d.Measurement.Rows[0].Count)
				require.InDelta(t, d.Measurement.Rows[0].Pipelined.AlgBW/2, d.Measurement.Rows[0].Pipelined.BusBW, 1e-9)
				return
			}
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, []string{string(result.ReasonSemantics)}, d.Outcome.Reasons)
			require.False(t, d.Measurement.Rows[0].Check.Passed)
		})
	}
}
