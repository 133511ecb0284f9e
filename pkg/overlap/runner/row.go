package runner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// row holds the buffers of one size, and the work of its contenders.
type row struct {
	*bench
	number   int
	shape    gemm.Shape // of each product of form beside, or of the whole product of a linear layer
	memory   collective.Memory
	exchange exchange
	input    accel.Ptr // A of form beside, X of a linear layer
	weights  accel.Ptr
	products gemm.Outputs
	// inPieces is the computation of a window, and inOne the same computation in one piece. They differ
	// only for a linear layer.
	inPieces, inOne []Task
	copier          *copier // nil: products are computed
}

// alignment of buffers, in bytes.
const alignment = 512

func align(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

// memoryShare is the fraction of the free memory that the buffers of a row may take.
const memoryShare = 0.8

// newRow allocates the buffers of a row.
func newRow(ctx context.Context, b *bench, number int, asked overlap.Row) (_ *row, err error) {
	copier, _ := b.engine.Engine.(*copier)
	r := &row{bench: b, copier: copier, number: number, shape: gemm.Shape{M: asked.ProductM, N: asked.ProductN, K: asked.ProductK}}
	if err := r.shape.Check(); err != nil {
		return nil, rank.Coded(result.ReasonRefused, err)
	}
	beside := b.block.Form == overlap.Beside
	form := collective.Form{Op: b.op, Type: b.dtype, World: b.session.World}
	extent := form.Extent(asked.Bytes)
	if beside && extent.Count == 0 {
		return nil, rank.Refused("%d bytes are too few for %s: each of %d ranks needs at least one element", asked.Bytes, b.op, b.session.World)
	}
	outputs := 1
	if beside {
		outputs = asked.Products
	}
	inputBytes, weightBytes, productBytes := align(r.shape.M*r.shape.K*b.size), align(r.shape.N*r.shape.K*b.size), align(r.shape.M*r.shape.N*b.size)
	bytes := inputBytes + weightBytes + int64(outputs)*productBytes
	if beside {
		bytes += int64(asked.Communications) * slotBytes(extent, b.size)
	}
	if err := b.fits(bytes); err != nil {
		return nil, err
	}
	if r.memory, err = b.Comm.Alloc(ctx, bytes, vocab.Unregistered); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.memory.Close())
		}
	}()
	r.input = r.memory.Ptr()
	r.weights = r.input.Add(inputBytes)
	r.products = gemm.Outputs{At: r.weights.Add(weightBytes), Stride: productBytes, Count: outputs}
	if beside {
		r.exchange, err = newCollectives(ctx, b, number, form, extent, b.redop, r.product(outputs), asked.Communications)
	} else {
		r.exchange, err = newGathering(ctx, b, r.input, r.shape.M*r.shape.K)
	}
	if err != nil {
		return nil, err
	}
	if err = r.prepareProducts(); copier == nil {
		err = rank.Coded(result.ReasonLibrary, err)
	}
	if err == nil {
		err = rank.Coded(result.ReasonDevice, b.Matrix.Fill(b.stream, r.weights, r.weight(), 0, r.shape.N*r.shape.K))
	}
	if err != nil {
		return nil, errors.Join(err, r.exchange.close())
	}
	return r, nil
}

// fits returns an error if buffers exceed memoryShare of the rank's free memory.
func (b *bench) fits(bytes int64) error {
	free, _, err := b.Device.Memory()
	if err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	limit := int64(memoryShare * float64(free))
	if b.Device.Info().SharedHostMem {
		limit /= int64(max(1, b.session.World))
	}
	if bytes > limit {
		return &rank.Error{Reason: result.ReasonMemory.With("%d bytes", bytes), Err: fmt.Errorf("buffers need %d bytes, but only %d are available for a rank: choose smaller sizes or fewer products", bytes, limit)}
	}
	return nil
}

// product returns the address of a product.
func (r *row) product(i int) accel.Ptr { return r.products.At.Add(int64(i) * r.products.Stride) }

func (r *row) close() error {
	err := errors.Join(r.exchange.close(), r.memory.Close())
	if r.copier != nil {
		err = errors.Join(err, r.copier.Close()) // its copies are of this row
	}
	return err
}

// Buffer numbers for seeds. Collectives use the numbers from 0 on.
const (
	inputBuffer  = -1
	weightBuffer = -2
)

// seed returns the seed for the data of one buffer in one window. It differs between windows, so that
// stale data fail the check.
func (b *bench) seed(t turn, buffer int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %d %d %s %d", b.planned.CaseID, t.Row, t.Iteration, t.Contender, buffer)
	if t.Repeat > 0 {
		fmt.Fprintf(h, " %d", t.Repeat)
	}
	return h.Sum32()
}

// weight returns the values of the second matrix, which are the same in all windows.
func (r *row) weight() gemm.Values {
	return gemm.Values{Type: r.dtype, Seed: r.seed(turn{Row: r.number}, weightBuffer), Columns: r.block.Hidden, Right: true}
}

// values returns the values of the first matrix in a window.
func (b *bench) values(t turn) gemm.Values {
	return gemm.Values{Type: b.dtype, Seed: b.seed(t, inputBuffer), Columns: b.block.Hidden}
}

func computes(contender string) bool {
	return contender != overlap.OnlyCommunication && contender != overlap.WholeCommunication
}

func communicates(contender string) bool {
	return contender != overlap.OnlyCompute && contender != overlap.WholeCompute
}

// prepare writes the data of a window to the buffers of both sides, even if the contender uses only
// one of them, so that all contenders start with the same caches.
func (r *row) prepare(t turn) error {
	if err := r.Device.Set(r.stream, r.products.At, poison, int64(r.products.Count)*r.products.Stride); err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	if err := r.exchange.fill(t); err != nil {
		return err
	}
	if r.block.Form == overlap.Beside {
		err := rank.Coded(result.ReasonDevice, r.Matrix.Fill(r.stream, r.input, r.values(t), 0, r.shape.M*r.shape.K))
		if err == nil && r.copier != nil {
			err = r.copier.fill(r.stream)
		}
		return err
	}
	if !communicates(t.Contender) {
		return r.exchange.deliver(t)
	}
	return nil
}

// window returns the work of a contender.
func (r *row) window(contender string) Window {
	var w Window
	if communicates(contender) {
		w.Communication = r.exchange.tasks(contender == overlap.WholeCommunication)
	}
	if computes(contender) {
		w.Compute = slices.Clone(r.inPieces)
		if contender == overlap.WholeCompute {
			w.Compute = slices.Clone(r.inOne)
		}
	}
	for i := range w.Compute {
		switch contender {
		case overlap.Serial:
			w.Compute[i].After = len(w.Communication) - 1
		case overlap.Together:
		default:
			w.Compute[i].After = -1
		}
	}
	w.Early = r.session.HasFault(FaultEarly)
	return w
}

// prepareProducts makes the tasks of the computation. Form beside has one task with all products. A
// linear layer has one task for each part of X, in the order in which the parts arrive.
func (r *row) prepareProducts() (err error) {
	var all []gemm.Product
	for i := range r.products.Count {
		all = append(all, gemm.Product{Shape: r.shape, Type: r.dtype, A: r.input, B: r.weights, C: r.product(i)})
	}
	whole, err := r.task(all, -1)
	r.inOne = []Task{whole}
	if err != nil || r.block.Form == overlap.Beside {
		r.inPieces = r.inOne
		return err
	}
	world := r.session.World
	rows := r.shape.M / int64(world)
	for i := range world {
		part, after := i, i
		if r.block.Form == overlap.LinearRotation {
			part, after = (r.session.Rank+i)%world, i-1 // the first part is the rank's own
		}
		first := int64(part) * rows
		p := gemm.Product{
			Shape: gemm.Shape{M: rows, N: r.shape.N, K: r.shape.K}, Type: r.dtype,
			A: r.input.Add(first * r.shape.K * r.size), B: r.weights, C: r.products.At.Add(first * r.shape.N * r.size),
		}
		piece, err := r.task([]gemm.Product{p}, after)
		if err != nil {
			return err
		}
		r.inPieces = append(r.inPieces, piece)
	}
	return nil
}

// task returns a task that computes products one after another; see Task for after.
func (r *row) task(products []gemm.Product, after int) (Task, error) {
	var all []gemm.Multiply
	for _, p := range products {
		multiply, err := r.engine.Prepare(p)
		if err != nil {
			return Task{}, err
		}
		all = append(all, multiply)
	}
	return Task{After: after, Enqueue: func(s accel.Stream) error {
		for _, multiply := range all {
			if err := multiply(s); err != nil {
				return rank.Coded(result.ReasonDevice, err)
			}
		}
		return nil
	}}, nil
}

// check compares the results of a window.
func (r *row) check(t turn, s *sample) error {
	if computes(t.Contender) && r.copier != nil {
		if err := r.copier.collect(r.stream); err != nil {
			return err
		}
	}
	if err := r.injectFaults(t); err != nil {
		return err
	}
	if computes(t.Contender) {
		v, err := r.checkProducts(t)
		if err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
		s.Products = &v
	}
	if communicates(t.Contender) {
		v, err := r.exchange.check(t)
		if err != nil {
			return err
		}
		s.Communicated = &v
	}
	return nil
}

// checkProducts compares the products of a window, or the copies in their place.
func (r *row) checkProducts(t turn) (workload.Verdict, error) {
	if r.copier != nil {
		return r.copier.check(r.stream, r.Matrix, r.values(t))
	}
	return r.Matrix.CheckProducts(r.stream, r.products, r.shape, r.values(t), r.weight())
}
