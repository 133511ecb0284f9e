// Package device provides the pools of transfers in device memory. Kernels paint and check them or, if
// kernels cannot be compiled, the host does on copies.
package device

import (
	"context"
	_ "embed" // pool.cu
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

//go:embed pool.cu
var poolKernels string

// source returns the source of the pool kernels with its dependencies.
func source() string { return kernels.Complete(poolKernels) }

// wordBytes is the size of a word of a pool.
const wordBytes = 8

// Pools makes the pools of a rank.
type Pools struct {
	device       *accel.Scope
	stream       accel.Stream
	paint, check accel.Kernel // nil: kernels cannot be compiled here
}

// NewPools returns the pools of a device. Its errors have a reason code.
func NewPools(ctx context.Context, d accel.Device) (*Pools, error) {
	p := &Pools{device: accel.NewScope(d)}
	var err error
	if p.stream, err = p.device.NewStream(); err == nil {
		err = p.device.Kernels(ctx, "pool.cu", source(), map[string]*accel.Kernel{"cx_pool_paint": &p.paint, "cx_pool_check": &p.check})
	}
	if err != nil && !errors.Is(err, accel.ErrUnsupported) {
		return nil, errors.Join(rank.Coded(result.ReasonDevice, err), p.Close())
	}
	return p, nil
}

// Close implements io.Closer. The pools must have been closed.
func (p *Pools) Close() error { return rank.Coded(result.ReasonDevice, p.device.Close()) }

// Pool is a pool and its address.
type Pool struct {
	pool.Memory
	Base  accel.Ptr
	Bytes int64
	free  func() error
}

// AllocPool returns a pool of the given size. Its errors have a reason code.
func (p *Pools) AllocPool(bytes int64) (*Pool, error) {
	at, err := p.device.Device.Alloc(bytes)
	if err != nil {
		return nil, rank.OutOfMemory(bytes, err)
	}
	return p.NewPool(at, bytes), nil
}

// NewPool returns memory of the device as a pool, which then owns it.
func (p *Pools) NewPool(at accel.Ptr, bytes int64) *Pool {
	copied := &copiedWords{device: p.device.Device, stream: p.stream, base: at, words: int(bytes / wordBytes)}
	free := func() error { return rank.Coded(result.ReasonDevice, p.device.Free(at)) }
	if p.paint == nil {
		return &Pool{copied, at, bytes, free}
	}
	words := &kernelWords{copiedWords: copied, pools: p, scratch: accel.Scratch{Device: copied.device}}
	return &Pool{words, at, bytes, func() error { return errors.Join(free(), rank.Coded(result.ReasonDevice, words.scratch.Free())) }}
}

// Close frees the pool.
func (p *Pool) Close() error { return p.free() }

// copiedWords makes and checks the words of a pool on copies.
type copiedWords struct {
	device accel.Device
	stream accel.Stream
	base   accel.Ptr
	words  int
}

// pieceWords is the maximum part of a pool that is on the host at a time, in words.
const pieceWords = 1 << 17

func (m *copiedWords) at(word int) accel.Ptr { return m.base.Add(int64(word) * wordBytes) }

func (m *copiedWords) Words() int { return m.words }

func (*copiedWords) CheckedBy() string { return "host" }

func (m *copiedWords) Read(at, n int) ([]uint64, error) {
	return accel.Read[uint64](m.device, m.stream, m.at(at), n)
}

func (m *copiedWords) Write(at int, words []uint64) error {
	return accel.Write(m.device, m.stream, m.at(at), bytesOf(words))
}

func (m *copiedWords) Paint(base uint64) error {
	piece := make([]uint64, min(m.words, pieceWords))
	for at := 0; at < m.words; at += len(piece) {
		piece = piece[:min(len(piece), m.words-at)]
		for i := range piece {
			piece[i] = base + uint64(at+i)
		}
		if err := m.Write(at, piece); err != nil {
			return err
		}
	}
	return nil
}

// Wrong implements pool.Memory. It reads the pool in pieces; a piece usually covers many stretches.
func (m *copiedWords) Wrong(stretches []pool.Stretch) (wrong []int, err error) {
	var piece []uint64
	from := 0 // first word of the piece
	for i, s := range stretches {
		for done := 0; done < s.N; {
			at := s.At + done
			if at >= from+len(piece) {
				if piece, err = m.Read(at, min(pieceWords, m.words-at)); err != nil {
					return nil, err
				}
				from = at
			}
			n := min(s.N-done, from+len(piece)-at)
			if !s.Counts(piece[at-from:at-from+n], done) {
				wrong = append(wrong, i)
				break
			}
			done += n
		}
	}
	return wrong, nil
}

// kernelWords makes and checks words with kernels. The host re-checks the first words that are
// checked.
type kernelWords struct {
	*copiedWords
	pools   *Pools
	scratch accel.Scratch // arguments and results of a check
	seconds bool          // whether the host has re-checked
}

// secondWords is how many words the host re-checks once even if the kernels found nothing.
const secondWords = 1 << 17

func (*kernelWords) CheckedBy() string { return "device" }

func (k *kernelWords) Paint(base uint64) error {
	err := k.pools.paint.Launch(k.stream, accel.BlocksFor(k.device, int64(k.words)), accel.BlockThreads, 0,
		accel.Arg(k.base), accel.Arg(base), accel.Arg(uint64(k.words)))
	return errors.Join(err, k.stream.Synchronize())
}

func (k *kernelWords) Wrong(stretches []pool.Stretch) ([]int, error) {
	wrong, err := k.find(stretches)
	if err != nil || k.seconds {
		return wrong, err
	}
	k.seconds = true
	n, words := 0, 0
	for n < len(stretches) && words+stretches[n].N <= secondWords {
		words += stretches[n].N
		n++
	}
	for range looks {
		second, err := k.copiedWords.Wrong(stretches[:n])
		if err != nil {
			return nil, err
		}
		first := slices.DeleteFunc(slices.Clone(wrong), func(i int) bool { return i >= n })
		if slices.Equal(first, second) {
			return wrong, nil
		}
		// Words that arrived in the meantime are right in a third look.
		third, err := k.find(stretches[:n])
		if err != nil {
			return nil, err
		}
		if slices.Equal(third, second) {
			wrong = append(wrong, second...)
			slices.Sort(wrong)
			return slices.Compact(wrong), nil
		}
	}
	return nil, rank.Coded(result.ReasonInternal, fmt.Errorf("%w: the device and the host find different ones of the first %d stretches wrong", pool.ErrDisagree, n))
}

// looks is the number of times that the device and the host compare their findings before they disagree.
const looks = 3

// tileWords is the part of a stretch, in words, that a block of threads checks at a time.
const tileWords = 1 << 14

// find checks the stretches, each cut into tiles, with the kernel.
func (k *kernelWords) find(stretches []pool.Stretch) (wrong []int, err error) {
	var tiles []pool.Stretch
	var of []int // the stretch of each tile
	for i, s := range stretches {
		for done := 0; done < s.N; done += tileWords {
			tiles = append(tiles, pool.Stretch{At: s.At + done, N: min(tileWords, s.N-done), Want: s.Want + uint64(done)})
			of = append(of, i)
		}
	}
	if len(tiles) == 0 {
		return nil, nil
	}
	list := bytesOf(tiles)
	need := int64(len(list) + len(tiles))
	if err := k.scratch.Grow(need); err != nil {
		return nil, rank.OutOfMemory(need, err)
	}
	marks := k.scratch.At.Add(int64(len(list)))
	if err := accel.Write(k.device, k.stream, k.scratch.At, list); err != nil {
		return nil, err
	}
	if err := k.device.Set(k.stream, marks, 0, int64(len(tiles))); err != nil {
		return nil, err
	}
	if err := k.pools.check.Launch(k.stream, uint32(min(len(tiles), accel.Blocks(k.device))), accel.BlockThreads, 0,
		accel.Arg(k.base), accel.Arg(k.scratch.At), accel.Arg(uint64(len(tiles))), accel.Arg(marks)); err != nil {
		return nil, err
	}
	found, err := accel.Read[byte](k.device, k.stream, marks, len(tiles))
	if err != nil {
		return nil, err
	}
	for i, mark := range found {
		if mark != 0 && (len(wrong) == 0 || wrong[len(wrong)-1] != of[i]) {
			wrong = append(wrong, of[i])
		}
	}
	return wrong, nil
}

// bytesOf returns the memory of values without pointers.
func bytesOf[T any](values []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(*new(T))))
}
