package planfile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// traced is a node as it is read back.
type traced struct {
	id, kind   uint64
	deps       []uint64
	attributes map[string]uint64
}

// fields calls f with each field of a message.
func fields(t *testing.T, b []byte, f func(n protowire.Number, v uint64, data []byte)) {
	for len(b) > 0 {
		n, kind, used := protowire.ConsumeTag(b)
		require.Positive(t, used)
		b = b[used:]
		var v uint64
		var data []byte
		if kind == protowire.VarintType {
			v, used = protowire.ConsumeVarint(b)
		} else {
			require.Equal(t, protowire.BytesType, kind)
			data, used = protowire.ConsumeBytes(b)
		}
		require.Positive(t, used)
		b = b[used:]
		f(n, v, data)
	}
}

func readTrace(t *testing.T, b []byte) (nodes []traced) {
	for first := true; len(b) > 0; first = false {
		message, used := protowire.ConsumeBytes(b)
		require.Positive(t, used)
		b = b[used:]
		if first {
			continue // the metadata
		}
		n := traced{attributes: map[string]uint64{}}
		fields(t, message, func(field protowire.Number, v uint64, data []byte) {
			switch field {
			case 1:
				n.id = v
			case 3:
				n.kind = v
			case 5:
				for len(data) > 0 {
					d, used := protowire.ConsumeVarint(data)
					n.deps, data = append(n.deps, d), data[used:]
				}
			case 10:
				name := ""
				fields(t, data, func(field protowire.Number, v uint64, data []byte) {
					if field == 1 {
						name = string(data)
					} else {
						n.attributes[name] = v
					}
				})
			}
		})
		nodes = append(nodes, n)
	}
	return nodes
}

// TestChakra reads traces back: every send has its receive of the same size, nodes wait for
// nodes before them, and the bytes are those of the program.
func TestChakra(t *testing.T) { chakra(t, few) }

func TestChakraOfManyRanks(t *testing.T) {
	need.Full(t)
	chakra(t, many)
}

func chakra(t *testing.T, ranks []int) {
	eachProgram(t, ranks, func(t *testing.T, p *schedule.Program) {
		type end struct{ from, to, tag uint64 }
		sizes := map[end][2][]uint64{}
		sent := make([]int64, p.Ranks)
		traces, err := Chakra(p, 1<<20)
		require.NoError(t, err)
		require.Len(t, traces, p.Ranks)
		for r, trace := range traces {
			seen := map[uint64]bool{}
			for _, n := range readTrace(t, trace) {
				for _, d := range n.deps {
					require.True(t, seen[d], "node %d waits for %d", n.id, d)
				}
				require.False(t, seen[n.id])
				seen[n.id] = true
				if n.kind == chakraCompute {
					continue
				}
				at := end{n.attributes["comm_src"], n.attributes["comm_dst"], n.attributes["comm_tag"]}
				both := sizes[at]
				both[n.kind-chakraSend] = append(both[n.kind-chakraSend], n.attributes["comm_size"])
				sizes[at] = both
				if n.kind == chakraSend {
					require.EqualValues(t, r, at.from)
					sent[r] += int64(n.attributes["comm_size"])
				}
			}
		}
		want, _ := p.SentBytes(1<<20, 1)
		require.Equal(t, want, sent)
		for _, both := range sizes {
			require.Equal(t, both[0], both[1])
		}
	})
}

func TestChakraRefusesSignals(t *testing.T) {
	p, err := ForMSCCLPP(program(t, "ring", schedule.AllGather, 2))
	require.NoError(t, err)
	_, err = Chakra(p, 1)
	require.EqualError(t, err, "program ring has a signal (op 0 of rank 0): Chakra traces support only sends, receives, copies and sums")
}
