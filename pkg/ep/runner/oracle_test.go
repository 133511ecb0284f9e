package runner

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

const testHidden = 64

// testOracle is rank 1 of 2, with 3 tokens on each rank.
func testOracle(t *testing.T, d Description) *oracle {
	r, err := workload.NewRouting("uniform", workload.Shape{Seed: 67, World: 2, Experts: 8, TopK: 3})
	require.NoError(t, err)
	return &oracle{arithmetic: newArithmetic(d, r.Trace(3), contract, testHidden, 1), rank: 1}
}

// hostData works on the memory of a host device.
func hostData(t *testing.T) *copied {
	d, err := host.Open(0, 1<<10) // more than there are processors: this thread is not pinned
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(s.Close(), d.Close())) })
	return &copied{d, s}
}

// write allocates memory of the device and writes data to it.
func (h *copied) write(t *testing.T, data []byte) accel.Ptr {
	at, err := h.device.Alloc(int64(max(1, len(data))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.device.Free(at)) })
	require.NoError(t, accel.Write(h.device, h.stream, at, data))
	return at
}

// arrival is what a rank received, before its rows are on a device.
type arrival struct {
	Received
	payload []uint16
}

// on puts the rows on the device, in two parts.
func (a *arrival) on(t *testing.T, h *copied) *Received {
	at, rows := h.write(t, bytesOf(a.payload)), len(a.payload)/testHidden
	first := min(2, rows)
	a.Payload = []Rows{
		{Count: first, Values: at, Stride: 2 * testHidden},
		{Count: rows - first, Values: at.Add(int64(2 * testHidden * first)), Stride: 2 * testHidden},
	}
	return &a.Received
}

// arrived is what rank 1 must receive, last token first.
func arrived(o *oracle) *arrival {
	rx := &arrival{Received: Received{Counts: make([]int32, o.trace.ExpertsPerRank())}}
	row := make([]uint16, testHidden)
	for token := o.trace.Tokens() - 1; token >= 0; token-- {
		o.source(row, token)
		ids, weights := []int32{-1, -1, -1}, make([]float32, 3)
		experts, parts := o.trace.Row(token)
		for slot, e := range experts {
			if !o.here(e) {
				continue
			}
			rx.Counts[int(e)-o.rank*len(rx.Counts)]++
			if o.Receive == TokenExpert {
				rx.payload = append(rx.payload, row...)
				rx.Expert = append(rx.Expert, e)
			}
			ids[slot], weights[slot] = e, parts[slot]
		}
		if o.Receive == TokenRank && slices.Max(ids) >= 0 {
			rx.payload = append(rx.payload, row...)
			rx.Expert = append(rx.Expert, ids...)
			rx.Weight = append(rx.Weight, weights...)
		}
	}
	return rx
}

// returned is what combine must return for the tokens of rank 1.
func returned(o *oracle) (out []uint16) {
	for token := o.trace.First[1]; token < o.trace.First[2]; token++ {
		for _, v := range o.combined(token, o.messages(transformed)) {
			out = append(out, numeric.BF16(v))
		}
	}
	return out
}

var layouts = map[Layout]Description{
	TokenRank:   {Receive: TokenRank, Combine: UnweightedRankSum, Reduction: DomainFP32},
	TokenExpert: {Receive: TokenExpert, Combine: WeightedKernelSum, Reduction: DomainFP32},
}

func TestOracle(t *testing.T) {
	removeRow := func(rx *arrival, i int) {
		k := len(rx.Expert) * testHidden / len(rx.payload)
		rx.payload = slices.Delete(rx.payload, i*testHidden, (i+1)*testHidden)
		rx.Expert = slices.Delete(rx.Expert, i*k, (i+1)*k)
		if rx.Weight != nil {
			rx.Weight = slices.Delete(rx.Weight, i*k, (i+1)*k)
		}
	}
	h := hostData(t)
	for _, c := range []struct {
		name   string
		layout Layout
		spoil  func(o *oracle, rx *arrival, out []uint16)
		want   []string
	}{
		{"all well", TokenRank, func(*oracle, *arrival, []uint16) {}, nil},
		{"all well", TokenExpert, func(*oracle, *arrival, []uint16) {}, nil},
		{"bit of a value", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.payload[40] ^= 1 }, []string{CheckPayload}},
		{"bit of a value", TokenExpert, func(_ *oracle, rx *arrival, _ []uint16) { rx.payload[40] ^= 1 }, []string{CheckPayload}},
		{"sign of the source", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.payload[5] ^= 0x8000 }, []string{CheckSourceSet, CheckMetadata, CheckMultiplicity, CheckPayload}},
		{"source that is no token", TokenExpert, func(_ *oracle, rx *arrival, _ []uint16) { rx.payload[31] ^= 0x8000 }, []string{CheckSourceSet, CheckMultiplicity, CheckPayload}},
		{"source that is no number", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.payload[3] = 0x7fc0 }, []string{CheckSource}},
		{"source that is no sign", TokenExpert, func(_ *oracle, rx *arrival, _ []uint16) { rx.payload[3] = 0 }, []string{CheckSource}},
		{"row missing", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { removeRow(rx, 0) }, []string{CheckSourceSet}},
		{"row missing", TokenExpert, func(_ *oracle, rx *arrival, _ []uint16) { removeRow(rx, 0) }, []string{CheckSourceSet, CheckMultiplicity}},
		{"row twice", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) {
			rx.payload = append(rx.payload, rx.payload[:testHidden]...)
			rx.Expert = append(rx.Expert, rx.Expert[:3]...)
			rx.Weight = append(rx.Weight, rx.Weight[:3]...)
		}, []string{CheckSourceSet}},
		{"other expert", TokenRank, func(o *oracle, rx *arrival, _ []uint16) {
			i := slices.IndexFunc(rx.Expert, o.here)
			for e := int32(4); e < 8; e++ {
				if !slices.Contains(rx.Expert[:3], e) {
					rx.Expert[i] = e
				}
			}
		}, []string{CheckMetadata, CheckWeights}},
		{"other expert", TokenExpert, func(o *oracle, rx *arrival, _ []uint16) { rx.Expert[0] = 4 + (rx.Expert[0]+1)%4 }, []string{CheckSourceSet, CheckMultiplicity}},
		{"expert of another rank", TokenExpert, func(_ *oracle, rx *arrival, _ []uint16) { rx.Expert[0] = 1 }, []string{CheckSourceSet, CheckMetadata, CheckMultiplicity}},
		{"expert missing", TokenRank, func(o *oracle, rx *arrival, _ []uint16) {
			rx.Expert[slices.IndexFunc(rx.Expert, o.here)] = -1
		}, []string{CheckMetadata, CheckMultiplicity, CheckWeights}},
		{"no expert but not −1", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.Expert[slices.Index(rx.Expert, -1)] = -2 }, []string{CheckMetadata}},
		{"last bit of a weight", TokenRank, func(o *oracle, rx *arrival, _ []uint16) {
			i := slices.IndexFunc(rx.Expert, o.here)
			rx.Weight[i] = math.Nextafter32(rx.Weight[i], 2)
		}, []string{CheckWeights}},
		{"count", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.Counts[0]++ }, []string{CheckCounts}},
		{"count", TokenExpert, func(_ *oracle, rx *arrival, _ []uint16) { rx.Counts[3]-- }, []string{CheckCounts}},
		{"counts missing", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.Counts = nil }, []string{CheckCounts}},
		{"counts of ranks", TokenRank, func(o *oracle, rx *arrival, _ []uint16) { rx.Counts, rx.RankCounts = nil, o.fromRanks() }, nil},
		{"count of a rank", TokenRank, func(o *oracle, rx *arrival, _ []uint16) {
			rx.Counts, rx.RankCounts = nil, o.fromRanks()
			rx.RankCounts[0]--
		}, []string{CheckCounts}},
		{"torn payload", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.payload = rx.payload[testHidden:] }, []string{CheckMetadata}},
		{"torn weights", TokenRank, func(_ *oracle, rx *arrival, _ []uint16) { rx.Weight = rx.Weight[1:] }, []string{CheckMetadata}},
		{"sum", TokenRank, func(_ *oracle, _ *arrival, out []uint16) { out[50] = numeric.BF16(numeric.FromBF16(out[50]) + 1) }, []string{CheckCombine}},
		{"sum is no number", TokenExpert, func(_ *oracle, _ *arrival, out []uint16) { out[0] = 0x7fc0 }, []string{CheckCombine}},
	} {
		t.Run(c.name+" "+string(c.layout), func(t *testing.T) {
			o := testOracle(t, layouts[c.layout])
			rx, out := arrived(o), returned(o)
			rows := len(rx.payload) / testHidden
			c.spoil(o, rx, out)
			by, v, err := o.received(h, rx.on(t, h))
			require.NoError(t, err)
			if by != nil {
				require.Len(t, by, len(rx.payload)/testHidden)
				require.NoError(t, o.combinedValues(h, &v, h.write(t, bytesOf(out)), transformed))
			}
			slices.SortFunc(v.Failed, func(a, b string) int { return slices.Index(checkNames, a) - slices.Index(checkNames, b) })
			require.Equal(t, c.want, v.Failed)
			require.Equal(t, c.want == nil, v.Passed)
			if c.want == nil {
				require.Equal(t, rows, v.Rows)
				require.Less(t, *v.Error, 0.004)
			}
			if slices.Contains(c.want, CheckSource) {
				require.Zero(t, v.Rows)
				require.Nil(t, by, "the pair is completed with what arrived")
				require.Nil(t, v.Error)
			}
		})
	}
}

// What the experts send back is what the expectation adds up.
func TestMessagesAreTheTransform(t *testing.T) {
	h, o := hostData(t), testOracle(t, layouts[TokenExpert])
	rx := arrived(o)
	by, _, err := o.received(h, rx.on(t, h))
	require.NoError(t, err)
	to := h.write(t, make([]byte, 2*len(rx.payload)))
	require.NoError(t, h.transform(o, &rx.Received, by, []Rows{{Count: len(by), Values: to, Stride: 2 * testHidden}}))
	messages, err := h.values(to, len(rx.payload))
	require.NoError(t, err)
	x := make([]uint16, testHidden)
	want := make([]uint16, testHidden)
	for i, e := range rx.Expert {
		token, err := workload.SourceToken(rx.payload[i*testHidden:])
		require.NoError(t, err)
		o.source(x, int(token))
		o.apply(want, x, workload.Expert(e))
		require.Equal(t, want, messages[i*testHidden:(i+1)*testHidden])
	}
}

func TestEmptyOutputPasses(t *testing.T) {
	h, o := hostData(t), testOracle(t, layouts[TokenRank])
	o.trace.First = []int{0, 6, 6}
	v := Verdict{Passed: true}
	require.NoError(t, o.combinedValues(h, &v, 0, transformed))
	require.True(t, v.Passed)
	require.Zero(t, *v.Error)
}
