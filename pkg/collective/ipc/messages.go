package ipc

import (
	"context"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Open is OpenSchedule for operations that consist of messages only.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	return openRunner(ctx, s, c, func(p runner.Parts, k *comm) (rank.Runner, error) {
		p.Comm = k
		return runner.NewRunner(p)
	})
}

// listed reports whether Call.Exchange lists the messages of an operation.
func listed(op runner.Op) bool { return op == runner.P2P || op == runner.P2PBidir }

// Supports implements runner.Comm for operations that consist of messages only.
func (k *comm) Supports(c runner.Call) error {
	if listed(c.Op) || c.Op == runner.SendRecv || c.Op == runner.Hypercube {
		return nil
	}
	return rank.Refused("backend ipc has no %s: use a schedule, or the backend of a library", c.Op)
}

func (k *comm) Enqueue(s accel.Stream, calls []runner.Call, group int) error {
	if group > 1 {
		return rank.Refused("backend ipc has no group calls of several operations")
	}
	err := k.AsyncError()
	for i := 0; i < len(calls) && err == nil; i++ {
		if err = k.Supports(calls[i]); err == nil {
			err = k.enqueue(s, &calls[i])
		}
	}
	if err != nil {
		k.Abort() // other ranks may wait for messages that were not enqueued
	}
	return err
}

// Time implements runner.Comm; the caller waits for completion.
func (k *comm) Time(s accel.Stream, calls []runner.Call, group int) (runner.Elapsed, error) {
	return runner.Time(func() error { return k.Enqueue(s, calls, group) })
}

// enqueue enqueues the messages of an operation: one round or, for a hypercube, one for each step.
func (k *comm) enqueue(s accel.Stream, c *runner.Call) error {
	me, world := k.session.Rank, k.session.World
	bytes := c.Count * int64(c.Type.Size())
	switch {
	case listed(c.Op):
		raw := host.Bytes(accel.Ptr(c.Exchange), int64(4*world)*8)
		words := unsafe.Slice((*int64)(unsafe.Pointer(&raw[0])), 4*world)
		var round []message
		for peer := range world { // each list has at most one peer
			if words[peer] > 0 {
				round = append(round, message{peer: peer, from: c.Send, to: c.Recv, bytes: bytes})
			}
			if words[2*world+peer] > 0 {
				round = append(round, message{peer: peer, receives: true})
			}
		}
		return k.exchange(s, round)
	case c.Op == runner.SendRecv:
		return k.exchange(s, []message{
			{peer: (me + 1) % world, from: c.Send, to: c.Recv, bytes: bytes},
			{peer: (me + world - 1) % world, receives: true},
		})
	}
	// A hypercube. In each step, ranks that differ in one bit swap everything received so far.
	part := func(r int) accel.Ptr { return c.Recv.Add(int64(r) * bytes) }
	if part(me) != c.Send {
		if err := k.device.Copy(s, part(me), c.Send, bytes); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	for mask := 1; mask < world; mask *= 2 {
		mine := part(me &^ (mask - 1))
		if err := k.exchange(s, []message{
			{peer: me ^ mask, from: mine, to: mine, bytes: int64(mask) * bytes},
			{peer: me ^ mask, receives: true},
		}); err != nil {
			return err
		}
	}
	return nil
}

// message is a send or a receive of this rank. A send has the source address and, as destination, this
// rank's address that corresponds to the receiver's memory; see comm.on.
type message struct {
	peer     int
	receives bool
	from, to accel.Ptr
	bytes    int64
}

// exchange enqueues messages. The receiver sets the flag ready, the sender waits for it, copies, and
// sets the flag landed, for which the receiver waits. A flag becomes visible after all earlier writes of
// its stream. To avoid a deadlock, a rank sets all its ready flags before it waits.
func (k *comm) exchange(s accel.Stream, messages []message) error {
	for _, m := range messages {
		if m.receives {
			k.received[m.peer]++
			if err := k.flags.write(s, ready, m.peer, k.received[m.peer]); err != nil {
				return rank.Coded(result.ReasonDevice, err)
			}
		}
	}
	for _, m := range messages {
		if m.receives {
			continue
		}
		to, err := k.on(m.peer, m.to)
		if err != nil {
			return err
		}
		k.sent[m.peer]++
		err = k.flags.wait(s, ready, m.peer, k.sent[m.peer])
		if err == nil {
			err = k.device.Copy(s, to, m.from, m.bytes)
		}
		if err == nil {
			err = k.flags.write(s, landed, m.peer, k.sent[m.peer])
		}
		if err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	for _, m := range messages {
		if m.receives {
			if err := k.flags.wait(s, landed, m.peer, k.received[m.peer]); err != nil {
				return rank.Coded(result.ReasonDevice, err)
			}
		}
	}
	return nil
}
