package nccl

import (
	"cmp"
	"context"
	_ "embed" // device.cu
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	prelude "github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

//go:embed device.cu
var deviceKernels string

// Constants of device.cu. As in nccl-tests, there are 16 blocks of 512 threads unless the case limits
// them; a short message has fewer.
const (
	deviceBlocks  = 16 // by default
	deviceThreads = 512
	deviceCalls   = 128 // operations of a launch
	signalLine    = 128 // bytes, of which the first four are the number of signals from the peer
	messageBytes  = 16 * deviceThreads
)

// deviceWays has the numbers of algorithms in device.cu.
var deviceWays = map[string]int32{"device_lsa": 0, "device_lsa_vec": 1, "device_put": 2, deviceGet: 3, "device_ping_pong": 4, deviceWindow: 5}

const (
	deviceGet    = "device_get"
	deviceWindow = "device_put_window" // each block moves messages of its own
)

// kernels perform an operation over NCCL's device interface.
type kernels struct {
	comm      *comm
	op        runner.Op
	algorithm string
	limit     int // of blocks
	blocks    int // of the last launch
	scope     *accel.Scope
	one, many accel.Kernel // of one operation, and of up to deviceCalls
	signals   *memory
	stream    accel.Stream // of what is not timed
	work      *deviceWork
	at        *[deviceCalls]deviceAt
}

// deviceWork and deviceAt are cx_work and cx_at of device.cu.
type deviceWork struct {
	buffers, signals, stop      uintptr
	count                       int64
	calls, dtype, rank, world   int32
	peer, sends, receives, size int32
}

type deviceAt struct{ send, recv int64 }

// deviceSource returns the kernels of an operation as source for a run-time compiler. headers are those of the library.
func deviceSource(headers string, op runner.Op, algorithm string) string {
	return prelude.Complete(fmt.Sprintf("%s\n#define CX_OP %d\n#define CX_WAY %d\n%s", headers, op, deviceWays[algorithm], deviceKernels))
}

// useKernels makes kernels of this package perform an operation.
func (k *comm) useKernels(op runner.Op, algorithm string, ctas int) error {
	l := k.c.Library()
	lsa, err := k.c.LSARanks()
	if err != nil {
		return rank.Refused("%s %s has no device interface for %s: load NCCL 2.28 or newer", l.Kind, l.VersionString(), algorithm)
	}
	if lsa < k.c.World() {
		gin, err := k.c.GIN()
		if err != nil {
			return gpurank.NCCLError(err)
		}
		return rank.Refused("%s: kernels reach the memory of %d ranks, but the case has %d: use GPUs that NVLink joins (%s, and there are no kernels over it)", algorithm, lsa, k.c.World(), gin)
	}
	headers, err := l.DeviceHeaders()
	if err != nil {
		return rank.Refused("%s: %w", algorithm, err)
	}
	d := &kernels{comm: k, op: op, algorithm: algorithm, limit: cmp.Or(ctas, deviceBlocks), scope: accel.NewScope(k.device), work: new(deviceWork), at: new([deviceCalls]deviceAt)}
	if err := d.open(headers); err != nil {
		return errors.Join(err, d.close())
	}
	d.work.rank, d.work.world = int32(k.c.Rank()), int32(k.c.World())
	path := k.paths[op]
	k.kernels, k.paths[op] = d, "ncclGetPeerPointer"
	k.unchoose = func() error {
		k.kernels, k.paths[op] = nil, path
		return d.close()
	}
	return nil
}

// open compiles the kernels, and clears the signals.
func (d *kernels) open(headers string) error {
	ctx := context.Background()
	err := d.scope.Kernels(ctx, "device.cu", deviceSource(headers, d.op, d.algorithm), map[string]*accel.Kernel{"cx_one": &d.one, "cx_many": &d.many})
	if errors.Is(err, accel.ErrUnsupported) {
		return rank.Refused("compile kernels over NCCL's device interface: %w", err)
	}
	var word unsafe.Pointer
	if err == nil {
		word, err = d.scope.AllocHost(4)
	}
	if err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	d.work.stop = uintptr(word)
	d.comm.stop.at((*uint32)(word))
	bytes := int64(d.limit*signalLine) * int64(d.comm.c.World())
	m, err := d.comm.Alloc(ctx, bytes, vocab.SymmetricWindow)
	if err != nil {
		return err
	}
	d.signals = m.(*memory)
	if !m.Registered() {
		return noWindow()
	}
	d.work.signals = uintptr(d.signals.registration.Handle())
	if d.stream, err = d.scope.NewStream(); err == nil {
		err = errors.Join(d.scope.Set(d.stream, m.Ptr(), 0, bytes), d.stream.Synchronize())
	}
	return rank.Coded(result.ReasonDevice, err)
}

func noWindow() error {
	return rank.Refused("NCCL made no symmetric window, in which kernels reach other ranks: its log with NCCL_DEBUG=INFO says why")
}

// close waits for the kernels, which an abort ends, and frees what they use.
func (d *kernels) close() error {
	err := rank.Coded(result.ReasonDevice, d.scope.Synchronize())
	d.comm.stop.at(nil)
	if d.signals != nil {
		err = errors.Join(err, d.signals.Close())
	}
	return errors.Join(err, rank.Coded(result.ReasonDevice, d.scope.Close()))
}

// perform reports whether d performs the calls. It may be nil.
func (d *kernels) perform(calls []runner.Call) bool {
	return d != nil && len(calls) > 0 && calls[0].Op == d.op
}

// enqueue is runner.Comm.Enqueue. A group call is one launch, or several if it has more than deviceCalls operations.
func (d *kernels) enqueue(s accel.Stream, calls []runner.Call, group int) error {
	if _, err := d.comm.c.Handle(); err != nil {
		return rank.Coded(result.ReasonLibrary, err)
	}
	for len(calls) > 0 {
		n := min(len(calls), max(1, group), deviceCalls)
		if err := d.launch(s, calls[:n]); err != nil {
			return err
		}
		calls = calls[n:]
	}
	return nil
}

// launch enqueues operations that differ in their buffers alone.
func (d *kernels) launch(s accel.Stream, calls []runner.Call) error {
	c := &calls[0]
	if err := adds(c); err != nil {
		return err
	}
	m := d.comm.memoryAt(c.Send)
	if m == nil {
		return rank.Coded(result.ReasonInternal, errors.New("a buffer lies outside memory from Alloc"))
	}
	if m.registration == nil {
		return noWindow()
	}
	w := d.work
	w.buffers, w.count, w.calls = uintptr(m.registration.Handle()), c.Count, int32(len(calls))
	w.dtype, w.size = int32(c.Type), int32(c.Type.Size())
	d.between(c)
	for i := range calls {
		d.at[i] = deviceAt{int64(calls[i].Send - m.at), int64(calls[i].Recv - m.at)}
	}
	kernel := d.one
	if len(calls) > 1 {
		kernel = d.many
	}
	if d.blocks = d.limit; d.algorithm == deviceWindow {
		d.blocks = min(d.limit, len(calls))
	} else if w.peer >= 0 {
		d.blocks = int(min(int64(d.limit), max(1, (c.Count*int64(w.size)+messageBytes-1)/messageBytes)))
	}
	return rank.Coded(result.ReasonDevice, kernel.Launch(s, uint32(d.blocks), deviceThreads, 0, unsafe.Pointer(w), unsafe.Pointer(d.at)))
}

// between sets which messages a call between two ranks lists.
func (d *kernels) between(c *runner.Call) {
	w := d.work
	w.peer, w.sends, w.receives = -1, 0, 0
	if c.Exchange == 0 {
		return
	}
	words := unsafe.Slice((*int64)(accel.Ptr(c.Exchange).Pointer()), 6*w.world)
	for peer := range w.world {
		if words[4*w.world+peer] > 0 {
			w.peer, w.sends = peer, 1
		}
		if words[5*w.world+peer] > 0 {
			w.peer, w.receives = peer, 1
		}
	}
}

// Counts implements runner.Counter for messages between two ranks. A rank whose memory the peer reads counts the messages
// that the peer has taken.
func (k *comm) Counts(c runner.Call) bool {
	d := k.kernels
	if d == nil || d.op != c.Op || !c.Op.Pairwise() {
		return false
	}
	if d.between(&c); d.algorithm == deviceGet {
		return d.work.sends > 0
	}
	return d.work.receives > 0
}

// Arrived implements runner.Counter. The first block counts the messages that blocks move together.
func (k *comm) Arrived(c runner.Call) (messages uint32, err error) {
	d := k.kernels
	d.between(&c)
	blocks := 1
	if d.algorithm == deviceWindow {
		blocks = d.limit
	}
	words := signalLine / 4 * k.c.World()
	lines, err := accel.Read[uint32](k.device, d.stream, d.signals.Ptr(), blocks*words)
	if err != nil {
		return 0, rank.Coded(result.ReasonDevice, err)
	}
	for block := range blocks {
		messages += lines[block*words+int(d.work.peer)*signalLine/4]
	}
	return messages, nil
}

// adds refuses reductions that the kernels lack.
func adds(c *runner.Call) error {
	switch {
	case c.Op.Reduces() && c.RedOp != workload.Sum:
		return refused(c.RedOp, "use sum")
	case c.Op.Reduces() && slices.Contains([]numeric.Type{numeric.F8E4M3, numeric.F8E5M2}, c.Type):
		return refused(c.Type, "use another type")
	}
	return nil
}

// refused says in the reason what the kernels lack.
func refused(what fmt.Stringer, instead string) error {
	return &rank.Error{Reason: result.ReasonRefused.With("kernels of -D do not add %s", what), Err: fmt.Errorf("kernels of -D do not add %s: %s", what, instead)}
}

// memoryAt returns the memory that an address is in; nil for none.
func (k *comm) memoryAt(p accel.Ptr) *memory {
	for _, m := range k.live {
		if p >= m.at && p < m.at.Add(m.bytes) {
			return m
		}
	}
	return nil
}

// stop ends the waits of kernels.
type stop struct {
	mu   sync.Mutex
	word *uint32 // that they look at; nil for none
}

// at sets the word.
func (s *stop) at(word *uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.word = word; word != nil {
		*word = 0
	}
}

// waits ends all current and future waits.
func (s *stop) waits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.word != nil {
		atomic.StoreUint32(s.word, 1)
	}
}
