// The host communicator: collectives among the processes of one machine over
// memory that they all map. See comm.c.
#ifndef CX_HOST_COMM_H
#define CX_HOST_COMM_H

#include <stdint.h>

// One operation; the layout of collective.Call.
typedef struct {
	uint32_t op, redop;
	int64_t type, root, count;
	double scalar;
	uintptr_t send, recv;
	const int64_t *exchange;
} cx_call;

// Results of cx_enqueue and cx_agree.
enum {
	CX_OK,
	CX_ABORTED,  // cx_abort was called in some rank
	CX_DIED,     // the process of a rank ended: *culprit
	CX_DISAGREE, // a rank called a different operation: *culprit
	CX_OUTSIDE,  // a buffer is not in the shared heap
};

typedef struct cx_comm cx_comm;

// Bytes of the control memory that a world needs; it starts as zeros.
int64_t cx_control_bytes(int world);

// Opens the communicator of rank. heaps are the addresses, in this process, of all ranks' heaps of
// heap_bytes bytes; pids are their processes. crowded means that ranks share processors. cache is the
// size of the last-level cache in bytes. Returns NULL if it is out of memory.
cx_comm *cx_open(void *control, int rank, int world, void *const *heaps, int64_t heap_bytes,
                 const int *pids, int crowded, int64_t cache);
void cx_close(cx_comm *c);

// Runs the calls to completion, in order.
int cx_enqueue(cx_comm *c, const cx_call *calls, int64_t n, int *culprit);

// A barrier that fails with CX_DISAGREE unless all ranks pass the same value.
int cx_agree(cx_comm *c, uint32_t value, int *culprit);

// Permanently ends all waits of all ranks. May be called from any thread.
void cx_abort(cx_comm *c);

#endif
