package planfile

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Types of nodes in a Chakra execution trace.
const (
	chakraCompute = 4
	chakraSend    = 5
	chakraReceive = 6
)

// Chakra returns the Chakra execution trace of each rank of a verified program, for a whole vector of the given
// number of bytes. A trace has a GlobalMetadata and a Node for each op, each preceded by its length. Node 2i is
// op i; if the op is a receive that adds, node 2i+1 is the addition. A trace does not name memory, so it cannot
// be verified again. Chakra fails if the program has puts, gets or signals.
func Chakra(p *schedule.Program, bytes int64) (traces [][]byte, err error) {
	flow := schedule.NewFlow(p)
	for r := range p.Ranks {
		trace, err := chakraOf(flow, r, bytes)
		if err != nil {
			return nil, err
		}
		traces = append(traces, trace)
	}
	return traces, nil
}

// chakraOf returns the trace of rank r.
func chakraOf(p *schedule.Flow, r int, bytes int64) ([]byte, error) {
	var out []byte
	delimited := func(message []byte) { out = protowire.AppendBytes(out, message) }
	delimited(text(nil, 1, "0.0.4"))
	before := map[uint8][]uint64{} // by stream: the nodes of its previous group
	ops := p.Ops[r]
	ends := make([]uint64, len(ops))
	for from, to := 0, 0; from < len(ops); from = to {
		to = schedule.NodeEnd(ops, from)
		after := before[ops[from].Stream]
		for i := from; i < to; i++ {
			for _, d := range p.Deps(&ops[i]) {
				after = append(slices.Clip(after), ends[d])
			}
		}
		var group []uint64
		for i := from; i < to; i++ {
			o := &ops[i]
			id := uint64(2 * i)
			ends[i] = id
			switch o.Kind {
			case schedule.Send:
				delimited(message(id, o, chakraSend, r, int(o.Peer), p.Bytes(o.Src, o.Count, bytes, 1), after))
			case schedule.Recv, schedule.RecvReduce:
				sent := &p.Ops[o.Peer][p.Partner(r, i)] // its chunks determine the size of the message
				size := p.Bytes(sent.Src, o.Count, bytes, 1)
				delimited(message(id, o, chakraReceive, int(o.Peer), r, size, after))
				if o.Kind == schedule.RecvReduce {
					ends[i] = id + 1
					delimited(compute(id+1, o, size, []uint64{id}))
				}
			case schedule.Reduce, schedule.Copy:
				delimited(compute(id, o, p.Bytes(o.Dst, o.Count, bytes, 1), after))
			default:
				return nil, fmt.Errorf("program %s has a %s (op %d of rank %d): Chakra traces support only sends, receives, copies and sums", p.Name, o.Kind, i, r)
			}
			group = append(group, ends[i])
		}
		before[ops[from].Stream] = group
	}
	return out, nil
}

// text appends a string field to a message.
func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// number appends an integer field to a message.
func number(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// chakraNode returns a node without attributes.
func chakraNode(id uint64, o *schedule.Op, kind uint64, after []uint64) []byte {
	b := number(nil, 1, id)
	b = text(b, 2, o.String())
	b = number(b, 3, kind)
	var deps []byte
	for _, d := range after {
		deps = protowire.AppendVarint(deps, d)
	}
	if len(deps) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), deps)
	}
	return attribute(b, "is_cpu_op", 27, 0)
}

// attribute appends an attribute. field is the member of the value's oneof, such as int64Value.
func attribute(b []byte, name string, field protowire.Number, v uint64) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, 10, protowire.BytesType), number(text(nil, 1, name), field, v))
}

// Fields of the values of attributes.
const (
	int32Value = 7
	int64Value = 9
)

// message returns the node of a send or receive of size bytes.
func message(id uint64, o *schedule.Op, kind uint64, from, to int, size int64, after []uint64) []byte {
	b := chakraNode(id, o, kind, after)
	b = attribute(b, "comm_size", int64Value, uint64(size))
	b = attribute(b, "comm_src", int32Value, uint64(from))
	b = attribute(b, "comm_dst", int32Value, uint64(to))
	return attribute(b, "comm_tag", int32Value, uint64(o.Channel))
}

// compute returns the node of a sum or copy of size bytes.
func compute(id uint64, o *schedule.Op, size int64, after []uint64) []byte {
	b := chakraNode(id, o, chakraCompute, after)
	return attribute(b, "tensor_size", int64Value, uint64(size))
}
