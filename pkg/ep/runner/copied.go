package runner

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/workload"
)

// copied makes and judges data on the host. It is used if kernels cannot be compiled, and otherwise
// to re-check their results.
type copied struct {
	device accel.Device
	stream accel.Stream
}

var _ data = (*copied)(nil)

// accepted caches results that the host accepted for an oracle. Comparing with them is cheaper than
// computing the expected values again.
type accepted struct {
	payload []uint16
	output  []uint16
	worst   float64 // maximum error of output
}

// values reads n bf16 values.
func (h *copied) values(at accel.Ptr, n int) ([]uint16, error) {
	return accel.Read[uint16](h.device, h.stream, at, n)
}

func bf16s(raw []byte) []uint16 {
	values := make([]uint16, len(raw)/2)
	for i := range values {
		values[i] = binary.NativeEndian.Uint16(raw[2*i:])
	}
	return values
}

func bytesOf(values []uint16) []byte {
	raw := make([]byte, 0, 2*len(values))
	for _, b := range values {
		raw = binary.NativeEndian.AppendUint16(raw, b)
	}
	return raw
}

// activations returns the rows of o's rank.
func (o *oracle) activations() []uint16 {
	hidden, tokens := len(o.pattern), o.trace.RankTokens(o.rank)
	x := make([]uint16, tokens*hidden)
	for i := range tokens {
		o.fill.row(x[i*hidden:(i+1)*hidden], o.trace.First[o.rank]+i)
	}
	return x
}

// values returns how many values a rank sends and gets back.
func (o *oracle) values() int { return o.trace.RankTokens(o.rank) * len(o.pattern) }

func (h *copied) fill(o *oracle, x accel.Ptr) error {
	return accel.Write(h.device, h.stream, x, bytesOf(o.activations()))
}

func (h *copied) filled(o *oracle, x accel.Ptr) (bool, error) {
	now, err := h.values(x, o.values())
	return err == nil && slices.Equal(now, o.activations()), err
}

// strided reads count pieces of the given number of bytes, at equal distances.
func (h *copied) strided(at accel.Ptr, count int, bytes, stride int64) ([]byte, error) {
	if count == 0 || bytes == 0 {
		return nil, nil
	}
	raw, err := accel.Read[byte](h.device, h.stream, at, int(int64(count-1)*stride+bytes))
	if err != nil {
		return nil, err
	}
	parts := make([]byte, 0, int64(count)*bytes)
	for i := range int64(count) {
		parts = append(parts, raw[i*stride:][:bytes]...)
	}
	return parts, nil
}

// decoded reads rows of hidden values as bf16.
func (h *copied) decoded(all []Rows, c Codec, hidden int) (rows []uint16, err error) {
	for _, p := range all {
		values, err := h.strided(p.Values, p.Count, int64(hidden*c.ValueBytes()), p.Stride)
		if err != nil {
			return nil, err
		}
		if c.Format == nil {
			rows = append(rows, bf16s(values)...)
			continue
		}
		n := c.Scales(hidden)
		raw, err := h.strided(p.Scales, p.Count, int64(4*n), p.ScaleStride)
		if err != nil {
			return nil, err
		}
		row, scales := make([]uint16, hidden), make([]float32, n)
		for i := range p.Count {
			for s := range scales {
				scales[s] = math.Float32frombits(binary.NativeEndian.Uint32(raw[4*(i*n+s):]))
			}
			c.Decode(row, values[i*hidden:(i+1)*hidden], scales)
			rows = append(rows, row...)
		}
	}
	return rows, nil
}

// received returns the received rows, which are read once.
func (h *copied) received(o *oracle, rx *Received) (rows []uint16, err error) {
	if rx.copied == nil {
		rx.copied, err = h.decoded(rx.Payload, rx.Codec, len(o.pattern))
	}
	return rx.copied, err
}

func (h *copied) sources(o *oracle, rx *Received) (tokens []int64, err error) {
	rows, err := h.received(o, rx)
	if err != nil {
		return nil, err
	}
	for row := range slices.Chunk(rows, len(o.pattern)) {
		token, err := workload.SourceToken(row)
		if err != nil {
			tokens = append(tokens, -1)
		} else {
			tokens = append(tokens, int64(token))
		}
	}
	return tokens, nil
}

func (h *copied) payload(o *oracle, rx *Received, tokens []int64) (bool, error) {
	hidden := len(o.pattern)
	rows, err := h.received(o, rx)
	if err != nil {
		return false, err
	}
	if o.accepted != nil && o.accepted.payload != nil && slices.Equal(rows, o.accepted.payload) {
		return true, nil
	}
	want := make([]uint16, hidden)
	for i, token := range tokens {
		o.source(want, int(token))
		if !slices.Equal(rows[i*hidden:(i+1)*hidden], want) {
			return false, nil
		}
	}
	if o.accepted != nil {
		o.accepted.payload = rows
	}
	return true, nil
}

// rowsOf writes row i.
type rowsOf func(dst []uint16, i int)

func (h *copied) transformedRows(o *oracle, rx *Received, by []workload.Affine) func() (rowsOf, error) {
	return func() (rowsOf, error) {
		hidden := len(o.pattern)
		rows, err := h.received(o, rx)
		return func(dst []uint16, i int) { o.apply(dst, rows[i*hidden:(i+1)*hidden], by[i]) }, err
	}
}

func (h *copied) chosenRows(o *oracle, rows []choice) func() (rowsOf, error) {
	return func() (rowsOf, error) {
		m := o.chosen()
		return func(dst []uint16, i int) {
			if rows[i].part < 0 {
				clear(dst)
			} else {
				m(dst, rows[i].token, rows[i].part)
			}
		}, nil
	}
}

func (h *copied) transform(o *oracle, rx *Received, by []workload.Affine, to []Rows) error {
	return h.put(to, len(o.pattern), h.transformedRows(o, rx, by))
}

func (h *copied) choose(o *oracle, rows []choice, to []Rows) error {
	return h.put(to, len(o.pattern), h.chosenRows(o, rows))
}

// put writes rows to device memory.
func (h *copied) put(to []Rows, hidden int, make func() (rowsOf, error)) error {
	return each(to, hidden, make, func(at accel.Ptr, row []uint16) error {
		return accel.Write(h.device, h.stream, at, bytesOf(row))
	})
}

// holds returns an error unless the memory of to holds the rows.
func (h *copied) holds(what string, to []Rows, hidden int, make func() (rowsOf, error)) error {
	return each(to, hidden, make, func(at accel.Ptr, row []uint16) error {
		there, err := h.values(at, hidden)
		if err == nil && !slices.Equal(there, row) {
			err = disagree(what, "its own rows", "others")
		}
		return err
	})
}

// each calls do with each row and its address.
func each(to []Rows, hidden int, rows func() (rowsOf, error), do func(at accel.Ptr, row []uint16) error) error {
	of, err := rows()
	if err != nil {
		return err
	}
	n, row := 0, make([]uint16, hidden)
	for _, p := range to {
		for i := range p.Count {
			of(row, n)
			n++
			if err := do(p.Values.Add(int64(i)*p.Stride), row); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *copied) combined(o *oracle, kind messages, out accel.Ptr) (float64, error) {
	values, err := h.values(out, o.values())
	if err != nil {
		return 0, err
	}
	if o.accepted != nil && o.accepted.output != nil && slices.Equal(values, o.accepted.output) {
		return o.accepted.worst, nil
	}
	worst := o.combinedError(values, o.messages(kind))
	if o.accepted != nil && within(worst) {
		o.accepted.output, o.accepted.worst = values, worst
	}
	return worst, nil
}

func (h *copied) declared(o *oracle, out accel.Ptr) (worst float64, wrong int, err error) {
	values, err := h.values(out, o.values())
	if err != nil {
		return 0, 0, err
	}
	worst, wrong = o.declared(values)
	return worst, wrong, nil
}

func (h *copied) compare(got, reference accel.Ptr, n int) (float64, error) {
	a, err := h.values(got, n)
	if err != nil {
		return 0, err
	}
	b, err := h.values(reference, n)
	if err != nil {
		return 0, err
	}
	return compareOutputs(a, b), nil
}

func (h *copied) close() error { return nil }
