package runner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// onKernels runs body with the kernels and the host on one stand-in of each vendor, or with
// CX_TEST_CUDA=real on this machine's GPU.
func onKernels(t *testing.T, body func(t *testing.T, k *kernelData, h *copied)) {
	vendors := map[string]func() (*gpu.Driver, error){"cuda": cuda.Load}
	if os.Getenv("CX_TEST_CUDA") != "real" {
		fakes.Build(t).Use(t)
		vendors["hip"] = hip.Load
	}
	for name, load := range vendors {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // a device is current on a thread, for what gives memory back too
			t.Cleanup(runtime.UnlockOSThread)
			driver, err := load()
			require.NoError(t, err)
			d, err := driver.Open(0, t.TempDir())
			require.NoError(t, err)
			s, err := d.NewStream()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, errors.Join(s.Close(), d.Close())) })
			k, err := newKernelData(t.Context(), d, s)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, k.close()) })
			body(t, k, &copied{d, s})
		})
	}
}

var codecs = []Codec{
	{},
	{Format: numeric.E4M3FN},
	{Format: numeric.E4M3FN, Block: true},
	{Format: numeric.E4M3FNUZ, Block: true},
	{Format: numeric.E5M2, Block: true},
}

// widths are hidden sizes around those of vectors, blocks and tiles.
var widths = []int{32, 100, 256, 1100}

// sideOfRank is rank 1 of 4, with 2 tokens of 5 experts on each rank.
func sideOfRank(t *testing.T, d Description, scaled bool, hidden int) *oracle {
	r, err := workload.NewRouting("uniform", workload.Shape{Seed: 67, World: 4, Experts: 16, TopK: 5})
	require.NoError(t, err)
	return &oracle{arithmetic: newArithmetic(d, r.Trace(2), activations{67, scaled}, hidden, 2), rank: 1}
}

// name tells cases of a test apart.
func (c Codec) name() string {
	if c.Format == nil {
		return "bf16"
	}
	return fmt.Sprint(c.Format.Max, c.Block)
}

func TestKernelsFill(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		for _, hidden := range widths {
			for _, scaled := range []bool{false, true} {
				o := sideOfRank(t, layouts[TokenRank], scaled, hidden)
				x := h.write(t, make([]byte, 2*o.values()))
				require.NoError(t, k.fill(o, x))
				got, err := h.values(x, o.values())
				require.NoError(t, err)
				require.Equal(t, o.activations(), got)
				for _, at := range []int{-1, 0, hidden + 1, o.values() - 1} {
					if at >= 0 {
						got[at] ^= 1
						h.overwrite(t, x, got)
					}
					device, err := k.filled(o, x)
					require.NoError(t, err)
					host, err := h.filled(o, x)
					require.NoError(t, err)
					require.Equal(t, at < 0, device)
					require.Equal(t, host, device)
				}
			}
		}
	})
}

// coded are rows as a codec leaves them, with bytes between the rows.
func coded(t *testing.T, h *copied, c Codec, rows [][]uint16) *Received {
	var values, scales []byte
	hidden := len(rows[0])
	stride, scaleStride := 2*((hidden*c.ValueBytes()+7)/2), 4*(c.Scales(hidden)+1)
	for _, row := range rows {
		raw, factors := bytesOf(row), make([]float32, c.Scales(hidden))
		if c.Format != nil {
			raw = make([]byte, hidden)
			c.Encode(raw, factors, row)
		}
		values = append(values, append(raw, make([]byte, stride-len(raw))...)...)
		scales = append(appendFloats(scales, factors...), 0xff, 0xff, 0xff, 0xff)
	}
	at, factors := h.write(t, values), h.write(t, scales)
	part := Rows{Count: 1, Values: at, Stride: int64(stride), Scales: factors, ScaleStride: int64(scaleStride)}
	rest := part
	rest.Count, rest.Values, rest.Scales = len(rows)-1, at.Add(part.Stride), factors.Add(part.ScaleStride)
	return &Received{Payload: []Rows{part, rest}, Codec: c}
}

// Rows that are right, and rows with one wrong bit, anywhere.
func TestKernelsPayload(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		for _, codec := range codecs {
			for i, hidden := range widths {
				d := layouts[TokenRank]
				d.Codec = codec
				o := sideOfRank(t, d, i%2 == 0, hidden)
				tokens := []int64{7, 0, 3}
				var rows [][]uint16
				for _, token := range tokens {
					row := make([]uint16, hidden)
					o.fill.row(row, int(token))
					rows = append(rows, row)
				}
				for _, wrong := range [][2]int{{-1, 0}, {0, 33 % hidden}, {1, hidden - 1}, {2, 0}} {
					rx := coded(t, h, codec, rows)
					if row, column := wrong[0], wrong[1]; row >= 0 {
						p := rx.Payload[min(row, 1)]
						at := p.Values.Add(p.Stride*int64(max(0, row-1)) + int64(column*codec.ValueBytes()))
						one, err := h.strided(at, 1, 1, 1)
						require.NoError(t, err)
						h.overwriteBytes(t, at, []byte{one[0] ^ 1})
					}
					named, err := k.sources(o, rx)
					require.NoError(t, err)
					want, err := h.sources(o, rx)
					require.NoError(t, err)
					require.Equal(t, want, named)
					device, err := k.payload(o, rx, tokens)
					require.NoError(t, err)
					host, err := h.payload(o, rx, tokens)
					require.NoError(t, err)
					require.Equal(t, host, device, "%s, %d columns, %v", codec.name(), hidden, wrong)
					require.Equal(t, wrong[0] < 0, device, "%s, %d columns, %v", codec.name(), hidden, wrong)
				}
			}
		}
	})
}

// every is rows with every bf16 value, of which the first columns name a source now and
// then.
func every(hidden, rows int) (all [][]uint16) {
	r := rand.New(rand.NewPCG(1, uint64(hidden)))
	edges := []uint16{0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x3e7f, 0x3e80, 0xbe80, 0x7f7f, 0x7f80, 0xff80, 0x7f81, 0x7fc0, 0xffff}
	for i := range rows {
		row := make([]uint16, hidden)
		for c := range row {
			row[c] = uint16(r.Uint32())
			if i%2 == 0 && c < workload.SourceColumns {
				row[c] = uint16(r.Uint32())&0x80ff | 0x3f00
			}
			if r.IntN(8) == 0 && (i%4 != 0 || c >= workload.SourceColumns) {
				row[c] = edges[r.IntN(len(edges))]
			}
		}
		all = append(all, row)
	}
	return all
}

// What nobody expects to receive: infinities, NaN, subnormal numbers, zeros of both
// signs, every code of fp8.
func TestKernelsDecodeAndTransform(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		const rows = 12
		for _, codec := range codecs {
			for _, hidden := range widths {
				o := sideOfRank(t, layouts[TokenRank], false, hidden)
				rx := coded(t, h, Codec{}, every(hidden, rows))
				if codec.Format != nil {
					raw := make([]byte, rows*hidden)
					for i := range raw {
						raw[i] = byte(i)
					}
					var scales []byte
					for i := range rows * codec.Scales(hidden) {
						scales = appendFloats(scales, []float32{1, 0.25, 0x1p-140, 3e38, float32(math.Inf(1)), float32(math.NaN()), -1}[i%7])
					}
					rx = &Received{Codec: codec, Payload: []Rows{{
						Count: rows, Values: h.write(t, raw), Stride: int64(hidden), Scales: h.write(t, scales), ScaleStride: int64(4 * codec.Scales(hidden)),
					}}}
				}
				device, err := k.sources(o, rx)
				require.NoError(t, err)
				host, err := h.sources(o, rx)
				require.NoError(t, err)
				require.Equal(t, host, device)

				var by []workload.Affine
				for e := range int32(rows) {
					by = append(by, workload.Expert(e))
				}
				by[1], by[2] = workload.Affine{Scale: 3e38, A: -3e38, B: 1}, workload.Affine{Scale: 0x1p-100}
				a, b := h.room(t, rows, hidden), h.room(t, rows, hidden)
				require.NoError(t, k.transform(o, rx, by, a))
				require.NoError(t, h.transform(o, rx, by, b))
				h.requireEqual(t, a, b, hidden)
			}
		}
	})
}

// sums are all ways in which a combine may be declared to add.
var sums = map[string]Description{
	"domains":       {Receive: TokenRank, Combine: UnweightedRankSum, Reduction: DomainFP32},
	"tree":          {Receive: TokenRank, Combine: UnweightedRankSum, Reduction: TopKSlotTree},
	"ranks":         {Receive: TokenRank, Combine: UnweightedRankSum, Reduction: RankFP32},
	"weighted":      {Receive: TokenExpert, Combine: WeightedKernelSum, Reduction: DomainFP32},
	"rank partials": {Receive: TokenExpert, Combine: WeightedKernelSum, Reduction: RankPartialFP32},
}

// Outputs as declared, with values that are off by a little, by much, and no numbers.
func TestKernelsJudgeSums(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		for _, d := range sums {
			for i, codec := range codecs {
				d.Codec = codec
				o := sideOfRank(t, d, i%2 == 1, widths[1+i%3])
				for _, kind := range []messages{asReceived, transformed, constant} {
					h.requireVerdicts(t, o, o.messages(kind), func(at accel.Ptr) ([]float64, error) {
						worst, err := k.combined(o, kind, at)
						return []float64{worst}, err
					}, func(at accel.Ptr) ([]float64, error) {
						worst, err := h.combined(o, kind, at)
						return []float64{worst}, err
					})
				}
				declared := func(d data) func(at accel.Ptr) ([]float64, error) {
					return func(at accel.Ptr) ([]float64, error) {
						worst, wrong, err := d.declared(o, at)
						return []float64{worst, float64(wrong)}, err
					}
				}
				h.requireVerdicts(t, o, o.chosen(), declared(k), declared(h))
			}
		}
	})
}

// requireVerdicts compares two judges of the output of a combine of messages, right and
// spoilt.
func (h *copied) requireVerdicts(t *testing.T, o *oracle, m message, device, host func(at accel.Ptr) ([]float64, error)) {
	var out []uint16
	for token := o.trace.First[1]; token < o.trace.First[2]; token++ {
		for _, v := range o.combined(token, m) {
			out = append(out, numeric.BF16(v))
		}
	}
	at := h.write(t, bytesOf(out))
	for step, spoil := range []func(){
		func() {},
		func() { out[5]++ },
		func() { out[len(out)-1] ^= 0x8000 },
		func() { out[7] = 0x7fc0 },
		func() { out[9] = 0xff80 },
		func() { out[7] = 0 },
	} {
		spoil()
		h.overwrite(t, at, out)
		want, err := host(at)
		require.NoError(t, err)
		got, err := device(at)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.True(t, same(want[i], got[i]), "%+v, step %d: %v, not %v", o.Description, step, got, want)
		}
		if step == 0 {
			require.Less(t, want[0], 0.51, "what was declared")
		} else {
			require.False(t, want[0] == 0)
		}
	}
}

// A sum with fused multiplications and additions is as declared too.
func TestKernelsTakeFusedSums(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		o := sideOfRank(t, sums["weighted"], false, 1100)
		var out []uint16
		fused := 0
		for token := o.trace.First[1]; token < o.trace.First[2]; token++ {
			both := o.weightedSums(token, o.chosen(), addFused, addRounded)
			for c, v := range both[0] {
				out = append(out, numeric.BF16(v))
				if v != both[1][c] {
					fused++
				}
			}
		}
		require.Positive(t, fused)
		at := h.write(t, bytesOf(out))
		worst, wrong, err := k.declared(o, at)
		require.NoError(t, err)
		require.Zero(t, wrong)
		want, _, err := h.declared(o, at)
		require.NoError(t, err)
		require.Equal(t, want, worst)
	})
}

func TestKernelsChoose(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		for _, d := range sums {
			for _, hidden := range widths {
				o := sideOfRank(t, d, false, hidden)
				rows := []choice{{-1, -1}}
				for token := range o.trace.Tokens() {
					parts := o.ranksOf(token)
					if d.Combine == WeightedKernelSum {
						parts = slots(o.trace.TopK)
					}
					for _, part := range parts {
						rows = append(rows, choice{token, part})
					}
				}
				a, b := h.room(t, len(rows), hidden), h.room(t, len(rows), hidden)
				require.NoError(t, k.choose(o, rows, a))
				require.NoError(t, h.choose(o, rows, b))
				h.requireEqual(t, a, b, hidden)
			}
		}
	})
}

func TestKernelsCompare(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		all := every(1000, 1)[0]
		for _, change := range []func([]uint16){
			func(v []uint16) {},
			func(v []uint16) { v[999] ^= 1 },
			func(v []uint16) {
				for i := range v { // finite alone
					v[i] &= 0xbfff
				}
			},
		} {
			got := append([]uint16(nil), all...)
			change(got)
			a, b := h.write(t, bytesOf(got)), h.write(t, bytesOf(all))
			device, err := k.compare(a, b, len(all))
			require.NoError(t, err)
			host, err := h.compare(a, b, len(all))
			require.NoError(t, err)
			require.True(t, same(host, device), "%v, not %v", device, host)
			for i := range all {
				all[i] &= 0xbfff
			}
		}
	})
}

// A kernel that finds other than the host ends the case: what it found is not taken.
func TestSecondOpinion(t *testing.T) {
	onKernels(t, func(t *testing.T, k *kernelData, h *copied) {
		o := sideOfRank(t, layouts[TokenRank], false, 256)
		x := h.write(t, make([]byte, 2*o.values()))
		tokens := []int64{1}
		row := make([]uint16, 256)
		o.fill.row(row, 1)
		rx := coded(t, h, Codec{}, [][]uint16{row})
		honest := forCase(k, o.trace.TopK)
		require.NoError(t, honest.fill(o, x))
		same, err := honest.filled(o, x)
		require.NoError(t, err)
		require.True(t, same)

		for name, ask := range map[string]func(d data) error{
			"fill":                        func(d data) error { return d.fill(o, x) },
			"inputs unchanged":            func(d data) error { _, err := d.filled(o, x); return err },
			"payload":                     func(d data) error { _, err := d.payload(o, rx, tokens); return err },
			"transform":                   func(d data) error { return d.transform(o, rx, []workload.Affine{{}}, h.room(t, 1, 256)) },
			"chosen rows":                 func(d data) error { return d.choose(o, []choice{{1, o.ranksOf(1)[0]}}, h.room(t, 1, 256)) },
			"combined values as received": func(d data) error { _, err := d.combined(o, asReceived, x); return err },
			"declared arithmetic":         func(d data) error { _, _, err := d.declared(o, x); return err },
		} {
			lying := &seconded{liar{k}, h, map[opinion]bool{}}
			require.NoError(t, ask(honest), name)
			require.NoError(t, k.fill(o, x))
			require.ErrorContains(t, ask(lying), name+": the device finds ", name)
		}
	})
}

// liar is kernels that do nothing and find nothing.
type liar struct{ *kernelData }

func (l liar) fill(o *oracle, x accel.Ptr) error {
	return l.device.Set(l.stream, x, 0x11, int64(2*o.values()))
}
func (liar) filled(*oracle, accel.Ptr) (bool, error)                           { return false, nil }
func (liar) payload(*oracle, *Received, []int64) (bool, error)                 { return false, nil }
func (liar) transform(*oracle, *Received, []workload.Affine, []Rows) error     { return nil }
func (liar) choose(*oracle, []choice, []Rows) error                            { return nil }
func (liar) combined(*oracle, messages, accel.Ptr) (float64, error)            { return 0, nil }
func (liar) declared(*oracle, accel.Ptr) (worst float64, wrong int, err error) { return 0, 0, nil }

func (h *copied) overwrite(t *testing.T, at accel.Ptr, values []uint16) {
	h.overwriteBytes(t, at, bytesOf(values))
}

// room is where as many rows fit, with bytes between them.
func (h *copied) room(t *testing.T, rows, hidden int) []Rows {
	stride := 2*hidden + 6
	return []Rows{{Count: rows, Values: h.write(t, bytes.Repeat([]byte{0x5a}, rows*stride)), Stride: int64(stride)}}
}

// requireEqual compares rows and what is between them.
func (h *copied) requireEqual(t *testing.T, a, b []Rows, hidden int) {
	for i := range a {
		got, err := h.strided(a[i].Values, a[i].Count, a[i].Stride, a[i].Stride)
		require.NoError(t, err)
		want, err := h.strided(b[i].Values, b[i].Count, b[i].Stride, b[i].Stride)
		require.NoError(t, err)
		for at := 0; at < len(want); at += 2 {
			if g, w := binary.NativeEndian.Uint16(got[at:]), binary.NativeEndian.Uint16(want[at:]); g != w {
				require.Equal(t, w, g, "row %d, column %d of %d", at/int(a[i].Stride), at%int(a[i].Stride)/2, hidden)
			}
		}
	}
}

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "oracle.cu", source()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "oracle.cu", source()) })
}

func (h *copied) overwriteBytes(t *testing.T, at accel.Ptr, data []byte) {
	require.NoError(t, accel.Write(h.device, h.stream, at, data))
}
