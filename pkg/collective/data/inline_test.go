package data

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

func ptr(buf []byte) accel.Ptr { return accel.Ptr(uintptr(unsafe.Pointer(&buf[0]))) }

func TestLayout(t *testing.T) {
	require.Equal(t, unsafe.Sizeof(workload.Params{}), unsafe.Sizeof(pattern(workload.Pattern{})))
}

// The C of pattern.h is the same function as the Go of package workload: for
// every type, reduction, kind of world and source, over blocks and across 2^32.
func TestAgreesWithTheReference(t *testing.T) {
	const n = 700
	for _, dt := range numeric.Types() {
		for _, op := range append(workload.RedOps(), workload.NoRedOp) {
			for _, world := range []int{1, 2, 3, 4, 7, 72, 100} {
				sources := []int{0, world - 1}
				if op != workload.NoRedOp {
					sources = append(sources, workload.AllRanks)
				}
				for _, source := range sources {
					t.Run(fmt.Sprintf("%s/%s/%d/%d", dt, op, world, source), func(t *testing.T) {
						p, err := workload.NewPattern(dt, op, world, 0xfeed)
						require.NoError(t, err)
						regions := []workload.Region{
							{Offset: 0, Count: n, First: 5, Source: source},
							{Offset: n, Count: n, First: 1<<32 - n/2, Source: source},
						}
						want := make([]byte, 2*n*dt.Size())
						got := make([]byte, len(want))
						ReferenceOf(p).Fill(want, regions)
						require.NoError(t, Inline{}.Fill(nil, p, ptr(got), regions))
						require.Equal(t, want, got)
						ReferenceOf(p).Poison(want, regions)
						require.NoError(t, Inline{}.Poison(nil, p, ptr(got), regions))
						require.Equal(t, want, got)
					})
				}
			}
		}
	}
}

func TestCheckAgreesWithTheReference(t *testing.T) {
	const n = 2000
	for _, dt := range numeric.Types() {
		for _, op := range append(workload.RedOps(), workload.NoRedOp) {
			for _, world := range []int{2, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", dt, op, world), func(t *testing.T) {
					p, err := workload.NewPattern(dt, op, world, 0xfeed)
					require.NoError(t, err)
					source := workload.AllRanks
					if op == workload.NoRedOp {
						source = 1
					}
					regions := []workload.Region{{Offset: n / 2, Count: n / 2, Source: source}, {Count: n / 2, First: 1 << 40, Source: source}}
					buf := make([]byte, n*dt.Size())
					ReferenceOf(p).Fill(buf, regions)
					for step := range 4 { // 0: right; then 1, 2 and 3 units more at some elements
						if step > 0 {
							for _, at := range []int{17, 1400, 1999} {
								buf[at*dt.Size()]++
							}
						}
						got, err := Inline{}.Check(nil, p, ptr(buf), regions)
						require.NoError(t, err)
						require.Equal(t, ReferenceOf(p).Check(buf, regions), got)
						require.Equal(t, step > p.ToleranceULP(), got.Wrong > 0)
					}
				})
			}
		}
	}
}

func BenchmarkData(b *testing.B) {
	const n = 1 << 20
	for _, c := range []struct {
		dt    numeric.Type
		op    workload.RedOp
		world int
	}{
		{numeric.Float, workload.Sum, 2},
		{numeric.Float, workload.Sum, 8},
		{numeric.BFloat16, workload.Avg, 2},
		{numeric.Int64, workload.Prod, 2},
		{numeric.F8E4M3, workload.Max, 2},
		{numeric.Float, workload.NoRedOp, 2},
	} {
		p, err := workload.NewPattern(c.dt, c.op, c.world, 1)
		require.NoError(b, err)
		source := workload.AllRanks
		if c.op == workload.NoRedOp {
			source = 0
		}
		in := []workload.Region{{Count: n, Source: 0}}
		out := []workload.Region{{Count: n, Source: source}}
		buf := make([]byte, n*c.dt.Size())
		b.Run(fmt.Sprintf("fill/%s/%s/%d", c.dt, c.op, c.world), func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				_ = Inline{}.Fill(nil, p, ptr(buf), in)
			}
		})
		b.Run(fmt.Sprintf("check/%s/%s/%d", c.dt, c.op, c.world), func(b *testing.B) {
			_ = Inline{}.Fill(nil, p, ptr(buf), out)
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				_, _ = Inline{}.Check(nil, p, ptr(buf), out)
			}
		})
	}
}
