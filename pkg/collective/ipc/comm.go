// Package ipc runs schedules and messages between the GPUs of one host without a library: to send,
// a device copies into the memory of the receiver, which belongs to another process. Streams wait
// for each other with flags, without help from the host.
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

// OpenSchedule opens the runner of a rank for schedules, on CUDA, or on HIP where CUDA's driver
// is not installed; it is a rank.Opener. A rank drives the device of its local rank and has
// locked its OS thread.
func OpenSchedule(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	return openRunner(ctx, s, c, func(p runner.Parts, k *comm) (rank.Runner, error) { return stepsrunner.NewRunner(s, p, k) })
}

// OpenOverlap is OpenSchedule for matrix products beside a schedule.
func OpenOverlap(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	return openRunner(ctx, s, c, func(p runner.Parts, k *comm) (rank.Runner, error) { return overlaprunner.NewDeviceRunner(ctx, p, k) })
}

// openRunner opens a runner from its parts.
func openRunner(ctx context.Context, s *rank.Session, c plan.Case, newRunner func(runner.Parts, *comm) (rank.Runner, error)) (rank.Runner, error) {
	if c.Nodes > 1 {
		return nil, rank.Refused("devices of %d nodes: their drivers copy within a node only", c.Nodes)
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
	session *rank.Session // for exchanges between the ranks, over all cases
	flags   *flags
	allocs  int
	live    []*memory
	// closed is memory that this rank no longer uses. A driver frees it only when no other process has
	// it open.
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

// AsyncError implements runner.Comm. A driver reports what fails on a device itself.
func (k *comm) AsyncError() error {
	if k.aborted.Load() {
		return rank.Coded(result.ReasonLibrary, errors.New("aborted"))
	}
	return nil
}

// Abort implements runner.Comm: streams no longer wait for flags.
func (k *comm) Abort() {
	if !k.aborted.Swap(true) {
		k.flags.release()
	}
}

// Close implements runner.Comm. Memory that other ranks may have open is freed with the device.
func (k *comm) Close() error { return k.flags.close() }

// memory is an allocation that every rank has made, and that all have open.
type memory struct {
	comm  *comm
	at    accel.Ptr
	bytes int64
	peers []accel.Ptr // the allocations of all ranks, mapped in this process; its own is at
}

func (k *comm) Alloc(ctx context.Context, bytes int64, registration string) (runner.Memory, error) {
	if registration != vocab.Unregistered {
		return nil, rank.Refused("registration %q: there is no library to register with", registration)
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
	if err := k.free(); err != nil { // all ranks have closed their mappings before they come here
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

// free frees the memory that this rank has closed, after all ranks have closed theirs. After an
// abort that is unknown, and the memory is freed with the device.
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

// on returns the address, in this process, of a rank's counterpart of its own memory. All ranks have
// the same memory layout.
func (k *comm) on(r int, at accel.Ptr) (accel.Ptr, error) {
	for _, m := range k.live {
		if at >= m.at && at < m.at.Add(m.bytes) {
			return m.peers[r].Add(int64(at - m.at)), nil
		}
	}
	return 0, rank.Coded(result.ReasonInternal, errors.New("a buffer is not from Alloc"))
}
