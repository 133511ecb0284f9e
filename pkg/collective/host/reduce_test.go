package host

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// codec is a small floating-point type as package numeric has it.
type codec struct {
	dtype  numeric.Type
	encode func(float32) uint16
	decode func(uint16) float32
}

func fp8(f *numeric.FP8) (func(float32) uint16, func(uint16) float32) {
	return func(x float32) uint16 { return uint16(f.Encode(x)) }, func(v uint16) float32 { return f.Decode(byte(v)) }
}

func codecs() []codec {
	e4m3, fromE4M3 := fp8(numeric.E4M3FN)
	e5m2, fromE5M2 := fp8(numeric.E5M2)
	return []codec{
		{numeric.Half, numeric.FP16, numeric.FromFP16},
		{numeric.BFloat16, numeric.BF16, numeric.FromBF16},
		{numeric.F8E4M3, e4m3, fromE4M3},
		{numeric.F8E5M2, e5m2, fromE5M2},
	}
}

// pairs are inputs of two ranks: all pairs of bytes, and for 16 bits every
// value against a random one.
func pairs(dt numeric.Type) (a, b []uint16) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 1 << 16 {
		if dt.Size() == 1 {
			a, b = append(a, uint16(i&0xff)), append(b, uint16(i>>8))
		} else {
			a, b = append(a, uint16(i)), append(b, uint16(rng.Uint32()))
		}
	}
	return a, b
}

// Types of 8 and 16 bits are reduced in float and rounded once, exactly as the
// codecs of package numeric round.
func TestSmallFloatsRoundOnce(t *testing.T) {
	together(t, 2, func(r int, _ *hostdev.Device, c *Comm) error {
		mem, err := c.Alloc(t.Context(), 1<<20, "none")
		if err != nil {
			return err
		}
		for _, k := range codecs() {
			a, b := pairs(k.dtype)
			size := k.dtype.Size()
			in := [][]uint16{a, b}[r]
			send, recv := mem.Ptr(), mem.Ptr().Add(1<<19)
			bytes := int64(len(in) * size)
			for i, v := range in {
				put(hostdev.Bytes(send, bytes), i, size, v)
			}
			for _, op := range workload.RedOps() {
				call := runner.Call{
					Op: runner.AllReduce, RedOp: op, Type: k.dtype, Count: int64(len(in)),
					Scalar: float64(workload.MulSumScalar(r)), Send: send, Recv: recv,
				}
				if err := c.Enqueue(nil, []runner.Call{call}, 1); err != nil {
					return err
				}
				for i := range in {
					x, y := k.decode(a[i]), k.decode(b[i])
					want := k.encode(reduced(op, x, y))
					got := get(hostdev.Bytes(recv, bytes), i, size)
					if got != want && !(isNaN(k.decode(got)) && isNaN(k.decode(want))) {
						return fmt.Errorf("%s %s of %v and %v: %#x, want %#x", k.dtype, op, x, y, got, want)
					}
				}
				if err := c.agree("next"); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func reduced(op workload.RedOp, x, y float32) float32 {
	switch op {
	case workload.Prod:
		return x * y
	case workload.Max:
		if x > y {
			return x
		}
		return y
	case workload.Min:
		if x < y {
			return x
		}
		return y
	case workload.Avg:
		return (x + y) / 2
	case workload.MulSum:
		return x + 2*y
	default:
		return x + y
	}
}

func isNaN(x float32) bool { return math.IsNaN(float64(x)) }

func put(buf []byte, i, size int, v uint16) {
	if size == 1 {
		buf[i] = byte(v)
		return
	}
	binary.LittleEndian.PutUint16(buf[2*i:], v)
}

func get(buf []byte, i, size int) uint16 {
	if size == 1 {
		return uint16(buf[i])
	}
	return binary.LittleEndian.Uint16(buf[2*i:])
}

// Arithmetic of integers wraps; a signed average rounds to zero.
func TestIntegers(t *testing.T) {
	together(t, 3, func(r int, _ *hostdev.Device, c *Comm) error {
		mem, err := c.Alloc(t.Context(), 4096, "none")
		if err != nil {
			return err
		}
		for _, k := range []struct {
			op   workload.RedOp
			in   [3]int8
			want int8
		}{
			{workload.Sum, [3]int8{100, 100, 1}, -55},
			{workload.Prod, [3]int8{-128, -128, 3}, 0},
			{workload.Prod, [3]int8{17, -3, 5}, 1},
			{workload.Max, [3]int8{-128, -1, -5}, -1},
			{workload.Min, [3]int8{-128, 127, 0}, -128},
			{workload.Avg, [3]int8{-3, -3, -1}, -2},
			{workload.MulSum, [3]int8{1, 2, 3}, 8},
		} {
			hostdev.Bytes(mem.Ptr(), 1)[0] = byte(k.in[r])
			call := runner.Call{
				Op: runner.AllReduce, RedOp: k.op, Type: numeric.Int8, Count: 1,
				Scalar: float64(workload.MulSumScalar(r)), Send: mem.Ptr(), Recv: mem.Ptr().Add(64),
			}
			if err := c.Enqueue(nil, []runner.Call{call}, 1); err != nil {
				return err
			}
			require.Equal(t, k.want, int8(hostdev.Bytes(call.Recv, 1)[0]), "%s %v", k.op, k.in)
		}
		return nil
	})
}
