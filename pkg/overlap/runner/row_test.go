package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/rank"
	steps "github.com/collectivex/collectivex/pkg/steps/runner"
)

// counting is parts of a backend that count what is open, and fail where a test says so.
type counting struct {
	steps.Library
	gemm.Engine
	gemm.Data
	open                    int
	failsPrepare, failsFill bool
}

var errPlanted = errors.New("planted")

func (*counting) Close() error                   { return nil }
func (*counting) Steps() steps.Way               { return steps.Way{} }
func (*counting) Supports(collective.Call) error { return nil }

func (c *counting) Alloc(context.Context, int64, string) (collective.Memory, error) {
	c.open++
	return opened{c}, nil
}

func (c *counting) Load(context.Context, []*steps.Lowered, numeric.Type, int64) (steps.Loaded, error) {
	c.open++
	return opened{c}, nil
}

func (c *counting) Prepare(gemm.Product) (gemm.Multiply, error) {
	if c.failsPrepare {
		return nil, errPlanted
	}
	return func(accel.Stream) error { return nil }, nil
}

func (c *counting) Fill(accel.Stream, accel.Ptr, gemm.Values, int64, int64) error {
	if c.failsFill {
		return errPlanted
	}
	return nil
}

// machine is a device with memory.
type machine struct{ accel.Device }

func (machine) Info() accel.Info              { return accel.Info{} }
func (machine) Memory() (int64, int64, error) { return 1 << 30, 1 << 30, nil }

// opened is something that is open.
type opened struct{ of *counting }

func (o opened) Close() error                               { o.of.open--; return nil }
func (opened) Ptr() accel.Ptr                               { return 0 }
func (opened) Registered() bool                             { return false }
func (opened) Run(accel.Stream, int, []steps.Buffers) error { return nil }

// A row that cannot be made leaves nothing open.
func TestRowsCloseWhatTheyOpened(t *testing.T) {
	planned := plantest.Overlap("host", overlap.LinearRotation, 2)
	for _, c := range []*counting{{}, {failsPrepare: true}, {failsFill: true}} {
		op, redop, dtype, err := parse(&planned)
		require.NoError(t, err)
		b := &bench{
			Parts:   Parts{Comm: c, Device: machine{}, Matrix: c},
			session: rank.NewSession(rank.Place{World: 2}, nil, "case", nil), planned: &planned, block: overlap.Of(&planned),
			op: op, redop: redop, dtype: dtype, size: int64(dtype.Size()), engine: Multiplier{Engine: c},
		}
		r, err := newRow(t.Context(), b, 0, overlap.Asked(&planned)[0])
		if c.failsPrepare || c.failsFill {
			require.ErrorIs(t, err, errPlanted)
			require.Nil(t, r)
		} else {
			require.NoError(t, err)
			require.Equal(t, 2, c.open)
			require.NoError(t, r.close())
		}
		require.Zero(t, c.open)
	}
}
