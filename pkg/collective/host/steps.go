package host

/*
#include <stdlib.h>
#include <string.h>
#include "steps.h"
*/
import "C"

import (
	"context"
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// OpenSchedule is a rank.Opener for schedules; see Open.
func OpenSchedule(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	p, err := openParts(ctx, s, c)
	if err != nil {
		return nil, err
	}
	return stepsrunner.NewRunner(s, p, p.Comm.(*Comm))
}

var _ stepsrunner.Library = (*Comm)(nil)

// Steps implements stepsrunner.Library: one thread advances all streams of the rank.
func (c *Comm) Steps() stepsrunner.Way { return stepsrunner.Way{Path: "shared-memory-steps"} }

// loaded holds lists of steps in C memory.
type loaded struct {
	lists    []*C.cx_steps
	progress unsafe.Pointer // progress of a running list, of the size that the longest list needs
	lanes    *C.cx_lanes
	memory   []runner.Memory // lanes, and scratch memory
}

// Load implements stepsrunner.Library.
func (c *Comm) Load(ctx context.Context, all []*stepsrunner.Lowered, t numeric.Type, scratch int64) (stepsrunner.Loaded, error) {
	l := &loaded{}
	channels, progress := 1, 1
	for _, list := range all {
		channels = max(channels, list.Channels)
		made, size := newSteps(list, t)
		l.lists, progress = append(l.lists, made), max(progress, size)
	}
	l.progress = C.malloc(C.size_t(progress))
	for _, bytes := range []int64{int64(C.cx_lanes_bytes(C.int(len(c.group.Peers)), C.int(channels))), max(1, scratch)} {
		m, err := c.Alloc(ctx, bytes, vocab.Unregistered)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.memory = append(l.memory, m)
	}
	if l.lanes = C.cx_lanes_open(c.c, C.uintptr_t(l.memory[0].Ptr()), C.int(channels)); l.lanes == nil {
		return nil, errors.Join(rank.Coded(result.ReasonMemory, errors.New("allocate the channels of a schedule: out of host memory")), l.Close())
	}
	if err := c.agree("lanes"); err != nil { // all ranks must have opened the lanes
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Run implements stepsrunner.Loaded. It returns when the steps have ended.
func (l *loaded) Run(_ accel.Stream, i int, buffers []stepsrunner.Buffers) error {
	var culprit C.int
	rc := C.cx_steps_run(l.lanes, l.lists[i], (*C.uintptr_t)(unsafe.Pointer(&buffers[0])), C.int64_t(len(buffers)),
		C.uintptr_t(l.memory[1].Ptr()), (*C.uint8_t)(l.progress), &culprit)
	return failure(rc, culprit)
}

func (l *loaded) Close() error {
	var err error
	if l.lanes != nil {
		C.cx_lanes_close(l.lanes)
	}
	for _, m := range l.memory {
		err = errors.Join(err, m.Close())
	}
	for _, list := range l.lists {
		freeSteps(list)
	}
	C.free(l.progress)
	return err
}

// newSteps copies a list to C memory. It returns the copy and the size, in bytes, of its progress.
func newSteps(l *stepsrunner.Lowered, t numeric.Type) (*C.cx_steps, int) {
	var all []C.cx_step
	add := func(list []stepsrunner.Step) {
		for _, s := range list {
			all = append(all, C.cx_step{
				kind: C.int32_t(s.Kind), peer: C.int32_t(s.Peer), channel: C.int32_t(s.Channel), turn: C.int32_t(s.Turn),
				from_buffer: C.int32_t(s.From.Buffer), to_buffer: C.int32_t(s.To.Buffer),
				from: C.int64_t(s.From.Element), to: C.int64_t(s.To.Element), count: C.int64_t(s.Count),
			})
		}
	}
	firsts := make([]int, len(l.Streams)+1) // index of each stream's first node
	for i, nodes := range l.Streams {
		firsts[i+1] = firsts[i] + len(nodes)
	}
	var nodes []C.cx_node
	var after, ends []C.int32_t
	add(l.Before)
	for i, stream := range l.Streams {
		for _, n := range stream {
			nodes = append(nodes, C.cx_node{
				first: C.int32_t(len(all)), count: C.int32_t(len(n.Steps)), after: C.int32_t(len(after)), afters: C.int32_t(len(n.After)),
			})
			for _, d := range n.After {
				after = append(after, C.int32_t(firsts[d.Stream]+d.Node))
			}
			add(n.Steps)
		}
		ends = append(ends, C.int32_t(firsts[i+1]))
	}
	add(l.After)
	out := (*C.cx_steps)(C.calloc(1, C.sizeof_cx_steps))
	*out = C.cx_steps{
		_type: C.int32_t(t), before: C.int32_t(len(l.Before)), after_all: C.int32_t(len(l.After)), streams: C.int32_t(len(l.Streams)),
		steps: inC(all), count: C.int32_t(len(all)), nodes: inC(nodes), after: inC(after), ends: inC(ends),
	}
	return out, 2*len(all) + len(nodes)
}

func freeSteps(l *C.cx_steps) {
	for _, p := range []unsafe.Pointer{unsafe.Pointer(l.steps), unsafe.Pointer(l.nodes), unsafe.Pointer(l.after), unsafe.Pointer(l.ends), unsafe.Pointer(l)} {
		C.free(p)
	}
}

// inC copies a list to C memory. It returns NULL for an empty list.
func inC[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	var one T
	bytes := C.size_t(len(list)) * C.size_t(unsafe.Sizeof(one))
	p := C.malloc(bytes)
	C.memcpy(p, unsafe.Pointer(&list[0]), bytes)
	return (*T)(p)
}
