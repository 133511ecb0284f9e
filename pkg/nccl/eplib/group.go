package eplib

/*
#include "abi.h"

static int cx_ep_create_group(const cx_ep_library *f, void **group, uintptr_t comm, cx_ep_group_config *c) {
	c->size = sizeof *c;
	c->magic = cx_ep_magic;
	c->version = CX_EP_API_VERSION;
	return f->CreateGroup(group, (void *)comm, c);
}
static int cx_ep_destroy_group(const cx_ep_library *f, void *group) { return f->GroupDestroy(group); }
static int cx_ep_init_handle(const cx_ep_library *f, void **handle, void *group, int layout, int topk) {
	return f->InitHandle(handle, group, layout, NULL, topk, NULL);
}
static int cx_ep_destroy_handle(const cx_ep_library *f, void *handle) { return f->HandleDestroy(handle); }
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/nccl"
)

// Algorithm selects the kernels of a group.
type Algorithm int

// The algorithms.
const (
	LowLatency     Algorithm = C.CX_EP_LOW_LATENCY
	HighThroughput Algorithm = C.CX_EP_HIGH_THROUGHPUT
)

// Layout is the arrangement of received rows. L is the number of experts of a rank, W the
// number of ranks, C the maximum number of tokens of a rank, K top-k and H the hidden size.
type Layout int

// The layouts.
const (
	// ExpertMajor is [L][W·C][H]: a row for each token and expert, in low latency.
	ExpertMajor Layout = C.CX_EP_EXPERT_MAJOR
	// RankMajor is [W][C][H]: a row for each token, in low latency.
	RankMajor Layout = C.CX_EP_RANK_MAJOR
	// Flat is [rows][H]: a row for each token, in high throughput.
	Flat Layout = C.CX_EP_FLAT
)

// Config holds the properties of a group. It must be the same on all ranks.
type Config struct {
	Algorithm   Algorithm
	Layout      Layout
	Experts     int // of all ranks together
	TopK        int
	MaxTokens   int // maximum tokens that a rank sends
	MaxReceived int // maximum rows that a rank receives; for HighThroughput only
	TokenBytes  int // maximum bytes of a row
	QueuePairs  int // for each rank; 0 lets the library choose
	// ZeroCopy makes senders write rows directly into the window of Dispatch.Received. It requires
	// bf16 and RankMajor, where all ranks can access each other's memory, or Flat, whose
	// Combine.Rows then are in a window too.
	ZeroCopy bool
}

// Group is one rank's object for a group of ranks, with one handle. It has only one because
// the library confuses several handles of one group.
type Group struct {
	lib    *Library
	comm   *nccl.Communicator
	group  unsafe.Pointer
	handle unsafe.Pointer
}

// NewGroup makes a group of the ranks of a communicator. All ranks call it.
func (l *Library) NewGroup(c *nccl.Communicator, config Config) (*Group, error) {
	comm, err := c.Handle()
	if err != nil {
		return nil, err
	}
	g := &Group{lib: l, comm: c}
	raw := C.cx_ep_group_config{
		algorithm: C.int32_t(config.Algorithm), experts: C.uint32_t(config.Experts), topk: C.uint32_t(config.TopK),
		maxSentTokens: C.uint32_t(config.MaxTokens), maxReceivedTokens: C.uint32_t(config.MaxReceived),
		maxTokenBytes: C.uint32_t(config.TokenBytes), queuePairs: C.uint32_t(config.QueuePairs),
	}
	if config.ZeroCopy {
		raw.zeroCopy = C.CX_EP_ZERO_COPY_ON
	}
	if err := g.check("ncclEpCreateGroup", C.cx_ep_create_group(l.table, &g.group, C.uintptr_t(uintptr(comm)), &raw)); err != nil {
		return nil, err
	}
	if err := g.check("ncclEpInitHandle", C.cx_ep_init_handle(l.table, &g.handle, g.group, C.int(config.Layout), C.int(config.TopK))); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close frees the group after its work is done. All ranks call it, before they close the
// communicator. If the communicator was aborted, Close does nothing.
func (g *Group) Close() (err error) {
	if _, err := g.comm.Handle(); err != nil {
		return nil //nolint:nilerr // the library cannot end a group whose communicator is gone
	}
	if g.handle != nil {
		err = g.check("ncclEpHandleDestroy", C.cx_ep_destroy_handle(g.lib.table, g.handle))
	}
	return errors.Join(err, g.check("ncclEpGroupDestroy", C.cx_ep_destroy_group(g.lib.table, g.group)))
}

func (g *Group) check(call string, result C.int) error {
	err := g.lib.nccl.Check(call, g.comm.Rank(), nccl.Result(result))
	if nccl.Result(result) == nccl.InternalError {
		return fmt.Errorf("%w: %w", err, compilerLacks())
	}
	return err
}
