// Package ipc runs schedules and messages between the GPUs of one host without a library. To send, a
// device copies into memory of the receiving process. Streams of different ranks synchronise with flags
// that devices write and read without the host.
package ipc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/overlap"
	overlaprunner "github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Backend is the IPC backend.
var Backend = backend.Backend{Name: "ipc", Open: map[plan.Family]rank.Opener{
	collective.Name: Open, steps.Name: OpenSchedule, overlap.Name: OpenOverlap,
}}

// OpenSchedule is a rank.Opener for schedules, on CUDA, or on HIP where CUDA's driver is not installed.
// A rank drives the device of its local rank and has locked its OS thread.
func OpenSchedule(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	return openRunner(ctx, s, c, func(p runner.Parts, k *comm) (rank.Runner, error) { return stepsrunner.NewRunner(s, p, k) })
}

// OpenOverlap is OpenSchedule for matrix products beside communication.
func OpenOverlap(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	return openRunner(ctx, s, c, func(p runner.Parts, k *comm) (rank.Runner, error) { return overlaprunner.NewDeviceRunner(ctx, p, k) })
}

// openRunner opens a runner from its parts.
func openRunner(ctx context.Context, s *rank.Session, c plan.Case, newRunner func(runner.Parts, *comm) (rank.Runner, error)) (rank.Runner, error) {
	if c.Nodes > 1 {
		return nil, rank.Refused("a case of %d nodes: device drivers copy within one node only", c.Nodes)
	}
	g, err := gpurank.OpenAny(s)
	if err != nil {
		return nil, err
	}
	d, err := data.New(ctx, g)
	if err != nil {
		return nil, errors.Join(rank.Coded(result.ReasonDevice, err), g.Close())
	}
	k, err := newComm(ctx, s, g.Device)
	if err != nil {
		return nil, errors.Join(err, d.Close(), g.Close())
	}
	r, err := newRunner(runner.Parts{Data: d, Device: g, Facts: g.Facts(g.DriverAs("ipc"))}, k)
	if err != nil {
		return nil, errors.Join(err, k.Close(), d.Close(), g.Close())
	}
	return g.Around(r), nil
}

// comm is the runner.Comm of one rank.
type comm struct {
	device  *gpu.Device
	session *rank.Session // of all cases of the group
	flags   *flags
	allocs  int
	live    []*memory
	// closed is memory that this rank no longer uses and frees once no other process has it open.
	closed []accel.Ptr
	// sent and received count the messages to and from each rank.
	sent, received []uint32
	aborted        atomic.Bool
}

var _ stepsrunner.Library = (*comm)(nil)

func newComm(ctx context.Context, s *rank.Session, d *gpu.Device) (*comm, error) {
	if err := d.Flags(); err != nil { // before any rank waits for another
		return nil, rank.Refused("%v: install a newer driver", err)
	}
	k := &comm{device: d, session: rank.NewSession(s.Place, s.Store, s.Scope+"/ipc", nil)}
	k.sent, k.received = make([]uint32, s.World), make([]uint32, s.World)
	places, err := rank.Gather(ctx, k.session, "places", s.Place)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		if p.Rank == s.Rank {
			continue
		}
		if err := gpurank.Reaches(d, s.LocalRank, p.LocalRank, ""); err != nil {
			return nil, err
		}
	}
	if k.flags, err = openFlags(ctx, k.session, d); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *comm) Path(runner.Op) string { return k.Steps().Path }

// AsyncError implements runner.Comm. It reports an abort; calls of the driver return errors of the
// device.
func (k *comm) AsyncError() error {
	if k.aborted.Load() {
		return rank.Coded(result.ReasonLibrary, errors.New("the communicator was aborted"))
	}
	return nil
}

// Abort implements runner.Comm. It makes streams stop waiting for flags.
func (k *comm) Abort() {
	if !k.aborted.Swap(true) {
		k.flags.release()
	}
}

// Close implements runner.Comm. Closing the device frees memory that other ranks may still have open.
func (k *comm) Close() error { return k.flags.close() }

// memory is one of the allocations that all ranks have made together. Each rank has mapped all of them.
type memory struct {
	comm  *comm
	at    accel.Ptr
	bytes int64
	peers []accel.Ptr // by rank: the addresses of all allocations in this process
}

func (k *comm) Alloc(ctx context.Context, bytes int64, registration string) (runner.Memory, error) {
	if registration != vocab.Unregistered {
		return nil, rank.Refused("registration %q: not supported without a library", registration)
	}
	at, handle, err := k.device.AllocShared(bytes)
	if err != nil {
		return nil, gpurank.AllocError(bytes, err)
	}
	k.allocs++
	handles, err := rank.Gather(ctx, k.session, fmt.Sprintf("memory-%d", k.allocs), handle)
	if err != nil {
		return nil, err
	}
	if err := k.free(); err != nil { // after Gather, all ranks have closed their mappings
		return nil, err
	}
	m := &memory{comm: k, at: at, bytes: bytes, peers: make([]accel.Ptr, len(handles))}
	k.live = append(k.live, m)
	for r, h := range handles {
		if r == k.session.Rank {
			m.peers[r] = at
		} else if m.peers[r], err = gpurank.OpenShared(k.device, r, h); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *memory) Ptr() accel.Ptr { return m.at }

func (m *memory) Registered() bool { return false }

func (m *memory) Close() error {
	k := m.comm
	k.live = slices.DeleteFunc(k.live, func(other *memory) bool { return other == m })
	k.closed = append(k.closed, m.at)
	var err error
	for r, p := range m.peers {
		if r != k.session.Rank {
			err = errors.Join(err, k.device.CloseShared(p))
		}
	}
	return rank.Coded(result.ReasonDevice, err)
}

// free frees the memory that this rank has closed. All ranks must have closed their mappings of it.
// After an abort this is not certain, so closing the device frees the memory.
func (k *comm) free() error {
	if k.aborted.Load() {
		return nil
	}
	var err error
	for _, p := range k.closed {
		err = errors.Join(err, k.device.Free(p))
	}
	k.closed = nil
	return rank.Coded(result.ReasonDevice, err)
}

// on returns the address, in this process, of rank r's memory that corresponds to address at of this
// rank. All ranks have the same memory layout.
func (k *comm) on(r int, at accel.Ptr) (accel.Ptr, error) {
	for _, m := range k.live {
		if at >= m.at && at < m.at.Add(m.bytes) {
			return m.peers[r].Add(int64(at - m.at)), nil
		}
	}
	return 0, rank.Coded(result.ReasonInternal, errors.New("a buffer lies outside memory from Alloc"))
}
