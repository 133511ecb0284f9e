package python

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// request is the argument of a module's prepare.
type request struct {
	Mode       string    `json:"mode"`
	Hidden     int       `json:"hidden"`
	TopK       int       `json:"topk"`
	Experts    int       `json:"experts"` // of all ranks
	Tokens     int       `json:"tokens"`  // maximum of a rank
	Capacity   int       `json:"capacity"`
	IndexBytes int       `json:"index_bytes"`
	FP8        bool      `json:"fp8"`
	Cast       string    `json:"cast"` // format of the bound rows; empty: bf16
	MNNVL      bool      `json:"mnnvl"`
	PerNode    int       `json:"ranks_per_node"`
	Across     bool      `json:"across"` // scale-up domains
	Kernel     string    `json:"kernel"` // see mode
	Sync       bool      `json:"sync"`   // dispatch waits for the number of rows to arrive
	Tuning     ep.Tuning `json:"tuning"`
}

func (a *adapter) Prepare(ctx context.Context, s *rank.Session, c plan.Case, need runner.Capacity) (err error) {
	if a.d, a.mode, err = a.describe(c, a.gpu.Info(), a.versions); err != nil {
		return err
	}
	if a.session != s {
		a.session, a.gathers = s, 0
	}
	a.ctx, a.problem = ctx, nil
	if err := a.use(a.mode.module, c); err != nil {
		return err
	}
	if a.memory != nil {
		if err := a.memory.device.Close(); err != nil {
			return err
		}
		a.memory = nil
	}
	if a.kernels == nil && (a.d.Codec.Format != nil || a.mode.stages) {
		if a.kernels, err = newKernels(ctx, a.device); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	b := ep.Of(&c)
	if b.TimingMode == vocab.Graph && a.meeting == nil {
		if err := a.meet(ctx); err != nil {
			return err
		}
	}
	of := request{
		Mode: b.Mode, Hidden: b.Hidden, TopK: b.TopK, Experts: need.Experts, Tokens: need.Tokens,
		Capacity: max(need.Tokens, a.mode.capacity), IndexBytes: a.d.IndexType.Size(), FP8: a.d.Codec.Format != nil,
		MNNVL: c.ScaleUpTransport == "mnnvl", PerNode: c.RanksPerNode, Across: c.Scope == vocab.ScopeOut,
		Kernel: a.mode.kernel, Sync: !a.mode.unsynced,
	}
	if b.Tuning != nil {
		of.Tuning = *b.Tuning
	}
	if of.FP8 && !a.mode.cast.inKernel {
		of.Cast = "e4m3fn"
		if a.d.Codec.Format == numeric.E4M3FNUZ {
			of.Cast = "e4m3fnuz"
		}
	}
	a.geometry = geometry{}
	if err := a.python.JSON(a.call.Prepare, of, &a.geometry); err != nil {
		return err
	}
	a.memory, err = newMemory(a.gpu, a.mode, a.d.Codec, a.geometry, need.Tokens, b.Hidden)
	return err
}

func (a *adapter) Bind(p *runner.Problem) error {
	a.problem = p
	x, scales := p.X, accel.Ptr(0)
	if a.memory.codes != 0 {
		x, scales = a.memory.codes, a.memory.scales
	}
	_, err := a.python.Call(a.call.Bind, int64(x), int64(scales), int64(p.Expert), int64(p.Weight), int64(p.Tokens), int64(p.Capacity))
	for i := 1; i < len(p.Inputs) && err == nil && a.memory.codes == 0; i++ {
		_, err = a.python.Call(a.call.Input, int64(p.Inputs[i]))
	}
	return err
}

// Choose implements runner.Chooser. Rows that are cast first have one place.
func (a *adapter) Choose() error {
	if a.memory.codes != 0 {
		return nil
	}
	_, err := a.python.Call(a.call.Choose, int64(a.problem.Input))
	return err
}

// Tuning implements runner.Tuned.
func (a *adapter) Tuning() *result.Tuning { return a.geometry.Tuning }

// handle identifies a dispatch. A rank has at most one at a time.
type handle struct{}

func (a *adapter) Dispatch() (runner.Handle, error) { return a.send(a.call.Dispatch) }

func (a *adapter) DispatchCached(runner.Handle) (runner.Handle, error) { return a.send(a.call.Cached) }

func (a *adapter) send(f *pyhost.Function) (runner.Handle, error) {
	if a.memory.codes != 0 {
		if err := a.castRows(); err != nil {
			return nil, err
		}
	}
	_, err := a.python.Call(f)
	return handle{}, err
}

// staging returns where to write staged rows.
func (a *adapter) staging() (accel.Ptr, error) {
	if a.memory.others != 0 {
		return a.memory.others, nil
	}
	at, err := a.python.Call(a.call.Staging)
	return accel.Ptr(at), err
}

// Stage implements runner.Adapter. The staged value is the address of the rows, 0 if they are in
// place.
func (a *adapter) Stage(runner.Handle) (runner.Staged, error) {
	if !a.d.StageWorks {
		return accel.Ptr(0), nil
	}
	to, err := a.staging()
	if err != nil {
		return nil, err
	}
	of, err := a.arrived()
	if err != nil {
		return nil, err
	}
	return to, a.kernels.stage.Launch(a.stream, a.kernels.blocks, accel.BlockThreads, 0, accel.Arg(of), accel.Arg(to))
}

func (a *adapter) Combine(_ runner.Handle, s runner.Staged) (accel.Ptr, error) {
	out, err := a.python.Call(a.call.Combine, int64(s.(accel.Ptr)))
	return accel.Ptr(out), err
}

// arrived locates the rows of the last dispatch.
func (a *adapter) arrived() (of arrived, err error) {
	g, p := a.geometry, a.problem
	of = arrived{
		groupScales: g.GroupScales, rowScales: g.RowScales, columnScales: g.ColumnScales,
		groups: int32(g.Groups), capacity: int32(g.Capacity), topk: int32(p.TopK), hidden: int32(p.Hidden),
	}
	if a.d.Codec.Format != nil {
		of.fp8 = 1
	}
	if a.d.Codec.Format == numeric.E4M3FNUZ {
		of.fnuz = 1
	}
	for _, q := range []struct {
		f  *pyhost.Function
		at *accel.Ptr
	}{{a.call.ValuesAt, &of.values}, {a.call.ScalesAt, &of.scales}, {a.call.CountsAt, &of.counts}} {
		at, err := a.python.Call(q.f)
		if err != nil {
			return of, err
		}
		*q.at = accel.Ptr(at)
	}
	rows, err := a.python.Call(a.call.RowsOf)
	of.rows = int32(rows)
	if g.Sparse && err == nil {
		at, err := a.python.Call(a.call.ExpertsAt)
		of.present = accel.Ptr(at)
		return of, err
	}
	return of, err
}

// run is a range of consecutive rows of a group.
type run struct{ group, first, rows int }

// runs returns the ranges of received rows, and reads back how many each group has.
func (a *adapter) runs(of arrived, ids []int32) (runs []run, counts []int32, err error) {
	g := a.geometry
	switch {
	case g.Sparse:
		topk := a.problem.TopK
		for row := range int(of.rows) {
			if slices.Max(ids[row*topk:(row+1)*topk]) < 0 {
				continue
			}
			if n := len(runs); n > 0 && runs[n-1].first+runs[n-1].rows == row {
				runs[n-1].rows++
			} else {
				runs = append(runs, run{0, row, 1})
			}
		}
		return runs, nil, nil
	case of.counts != 0:
		counts, err = accel.Read[int32](a.gpu, a.stream, of.counts, g.Groups)
	default:
		counts = []int32{of.rows}
	}
	for i, n := range counts {
		if n < 0 || int(n) > g.Capacity {
			return nil, nil, &rank.Error{
				Reason: result.ReasonLibrary.With("%s row count", a.name),
				Err:    fmt.Errorf("%s reports %d received rows, but there is room for %d", a.name, n, g.Capacity),
			}
		}
		runs = append(runs, run{i, i * g.Capacity, int(n)})
	}
	return runs, counts, err
}

func (a *adapter) Inspect(runner.Handle) (*runner.Received, error) {
	of, err := a.arrived()
	if err != nil {
		return nil, err
	}
	rx := &runner.Received{Codec: a.d.Codec}
	var ids []int32
	var weights []float32
	if a.d.Receive == runner.TokenRank {
		if ids, weights, err = a.beside(of); err != nil {
			return nil, err
		}
	}
	runs, counts, err := a.runs(of, ids)
	if err != nil {
		return nil, err
	}
	hidden, topk := a.problem.Hidden, a.problem.TopK
	if err := a.sortScales(of); err != nil {
		return nil, err
	}
	perRank := a.problem.Experts / a.problem.World
	for _, r := range runs {
		bytes := int64(hidden * a.d.Codec.ValueBytes())
		rows := runner.Rows{Count: r.rows, Values: of.values.Add(int64(r.first) * bytes), Stride: bytes}
		if n := int64(4 * a.d.Codec.Scales(hidden)); n > 0 {
			rows.Scales, rows.ScaleStride = a.memory.arrivedScales.Add(int64(r.first)*n), n
		}
		rx.Payload = append(rx.Payload, rows)
		if a.d.Receive == runner.TokenExpert {
			for range r.rows {
				rx.Expert = append(rx.Expert, int32(a.session.Rank*perRank+r.group))
			}
			continue
		}
		rx.Expert = append(rx.Expert, ids[r.first*topk:(r.first+r.rows)*topk]...)
		rx.Weight = append(rx.Weight, weights[r.first*topk:(r.first+r.rows)*topk]...)
	}
	if a.d.Receive == runner.TokenExpert {
		rx.Counts = counts
		return rx, nil
	}
	return rx, a.localize(rx, perRank)
}

// beside reads the ids and weights of the rows.
func (a *adapter) beside(of arrived) (ids []int32, weights []float32, err error) {
	rows := int(of.rows)
	if rows < 0 {
		rows = a.geometry.rows()
	}
	n := rows * a.problem.TopK
	at, err := a.python.Call(a.call.ExpertsAt)
	if err != nil {
		return nil, nil, err
	}
	if a.d.IndexType == numeric.Int32 {
		ids, err = accel.Read[int32](a.gpu, a.stream, accel.Ptr(at), n)
	} else {
		var wide []int64
		wide, err = accel.Read[int64](a.gpu, a.stream, accel.Ptr(at), n)
		for _, id := range wide {
			ids = append(ids, int32(id))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if at, err = a.python.Call(a.call.WeightsAt); err != nil {
		return nil, nil, err
	}
	weights, err = accel.Read[float32](a.gpu, a.stream, accel.Ptr(at), n)
	return ids, weights, err
}

// sortScales copies the scales of the rows into an order that Rows can describe.
func (a *adapter) sortScales(of arrived) error {
	if a.memory.arrivedScales == 0 {
		return nil
	}
	return a.kernels.scales.Launch(a.stream, a.kernels.blocks, accel.BlockThreads, 0, accel.Arg(of), accel.Arg(a.memory.arrivedScales))
}

// localize makes the expert ids of received rows global and sets the ids of other ranks' experts to
// −1. If the library has not counted the rows of each expert, it does so.
func (a *adapter) localize(rx *runner.Received, perRank int) error {
	first := int32(a.session.Rank * perRank)
	rx.Counts = make([]int32, perRank)
	for i, id := range rx.Expert {
		switch {
		case !a.mode.globalIDs && id >= 0:
			rx.Expert[i] = id + first
		case a.mode.globalIDs && (id < first || id >= first+int32(perRank)):
			rx.Expert[i], rx.Weight[i] = -1, 0
		}
		if here := rx.Expert[i] - first; rx.Expert[i] >= 0 && here >= 0 && int(here) < perRank {
			rx.Counts[here]++
		}
	}
	if a.mode.globalIDs {
		return nil
	}
	var errs error
	for e := range rx.Counts {
		n, err := a.python.Call(a.call.Count, int64(e))
		rx.Counts[e], errs = int32(n), errors.Join(errs, err)
	}
	return errs
}

func (a *adapter) StageRows(_ runner.Handle, fill func(to []runner.Rows) error) (runner.Staged, error) {
	of, err := a.arrived()
	if err != nil {
		return nil, err
	}
	var ids []int32
	if a.geometry.Sparse {
		if ids, _, err = a.beside(of); err != nil {
			return nil, err
		}
	}
	runs, _, err := a.runs(of, ids)
	if err != nil {
		return nil, err
	}
	at, err := a.staging()
	if err != nil {
		return nil, err
	}
	bytes := int64(2 * a.problem.Hidden)
	var to []runner.Rows
	for _, r := range runs {
		to = append(to, runner.Rows{Count: r.rows, Values: at.Add(int64(r.first) * bytes), Stride: bytes})
	}
	return at, fill(to)
}
