package nccl

/*
#include "exchange.h"

static int cx_exchange(const cx_nccl *f, cx_comm c, uintptr_t stream, int n, int type, size_t width, uintptr_t send, uintptr_t recv, const int64_t *lists) {
	return cx_nccl_exchange(f, c, (cx_stream)stream, n, type, width, send, recv, (const size_t *)lists);
}
static int cx_all_gather(const cx_nccl *f, cx_comm c, uintptr_t stream, int type, uintptr_t send, uintptr_t recv, size_t count) {
	return f->AllGather((const void *)send, (void *)recv, count, type, c, (cx_stream)stream);
}
static int cx_send_recv(const cx_nccl *f, cx_comm c, uintptr_t stream, const cx_message *messages, int64_t n) {
	return cx_nccl_send_recv(f, c, (cx_stream)stream, messages, n);
}
static int cx_group_start(const cx_nccl *f) { return f->GroupStart(); }
static int cx_group_end(const cx_nccl *f) { return f->GroupEnd(); }
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// GroupedSendRecv is the name in documents for point-to-point operations in one group call,
// used where the library has no entry point for the operation.
const GroupedSendRecv = "grouped-send-recv"

// Exchange enqueues, in one group call, a send to and a receive from each rank, in elements
// of type t. lists has four lists of World numbers: the elements to send to each rank, their
// offsets in send, the elements to receive from each rank, and their offsets in recv. The
// number that a rank sends to a peer must equal the number that the peer receives from it.
func (c *Communicator) Exchange(s accel.Stream, t numeric.Type, send, recv accel.Ptr, lists []int64) error {
	if len(lists) != 4*c.world {
		return fmt.Errorf("%s on rank %d: %d numbers in lists for %d ranks, want %d", GroupedSendRecv, c.rank, len(lists), c.world, 4*c.world)
	}
	if _, err := c.Handle(); err != nil {
		return err
	}
	if err := c.lib.Need("ncclSend", "ncclRecv"); err != nil {
		return err
	}
	return c.check(GroupedSendRecv, C.cx_exchange(c.lib.table, c.handle, C.uintptr_t(s.Handle()), C.int(c.world), C.int(t),
		C.size_t(t.Size()), C.uintptr_t(send), C.uintptr_t(recv), (*C.int64_t)(unsafe.Pointer(&lists[0]))))
}

// Message is a send or a receive. Its memory layout is that of cx_message.
type Message struct {
	Peer  int32
	Sends bool // false for a receive
	At    accel.Ptr
	Bytes int64
}

// SendRecv enqueues the messages on the stream in one group call. The n-th send of a rank to
// a peer matches the peer's n-th receive from that rank. Both must have the same size.
func (c *Communicator) SendRecv(s accel.Stream, messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	if _, err := c.Handle(); err != nil {
		return err
	}
	if err := c.lib.Need("ncclSend", "ncclRecv"); err != nil {
		return err
	}
	return c.check(GroupedSendRecv, C.cx_send_recv(c.lib.table, c.handle, C.uintptr_t(s.Handle()),
		(*C.cx_message)(unsafe.Pointer(&messages[0])), C.int64_t(len(messages))))
}

// AllGather enqueues an all-gather of count elements of type t from each rank. It is in place
// if send is this rank's part of recv.
func (c *Communicator) AllGather(s accel.Stream, t numeric.Type, send, recv accel.Ptr, count int64) error {
	if _, err := c.Handle(); err != nil {
		return err
	}
	return c.check("ncclAllGather", C.cx_all_gather(c.lib.table, c.handle, C.uintptr_t(s.Handle()), C.int(t),
		C.uintptr_t(send), C.uintptr_t(recv), C.size_t(count)))
}

// Group makes one group call of the operations that f enqueues.
func (c *Communicator) Group(f func() error) error {
	if err := c.check("ncclGroupStart", C.cx_group_start(c.lib.table)); err != nil {
		return err
	}
	err := f()
	// End the group even after a failure. Otherwise later operations would join it.
	return errors.Join(err, c.check("ncclGroupEnd", C.cx_group_end(c.lib.table)))
}
