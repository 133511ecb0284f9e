// Declarations shared by the files of the host communicator: its memory, and how ranks wait for each
// other.
#ifndef CX_HOST_STATE_H
#define CX_HOST_STATE_H

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

#include "comm.h"

#define TINY 32    // bytes that fit into the cache line of the mark
#define EAGER 4096 // bytes that fit into a post
#define SPINS 2000 // checks before a rank with its own processor yields it
#define CROWD_SPINS 20
#define CROWD_YIELDS 20

// A counter that one rank raises and others wait for.
typedef _Atomic uint32_t flag;

typedef struct {
	flag mark;
	uint32_t what; // fingerprint of the operation
	int64_t send, recv;
	double scalar;
	char tiny[TINY];
	char eager[EAGER];
} post;

typedef struct {
	_Alignas(128) post posts[2];
	_Alignas(128) _Atomic uint32_t sleepers; // ranks waiting for this one in the kernel
} desk;

// A message slot from one rank to another.
typedef struct {
	_Alignas(128) flag sent; // by the sender: the sequence number
	uint32_t what;           // fingerprint of the part
	int64_t at;              // offset of the part in the sender's heap
	_Alignas(128) flag taken; // by the receiver
	_Atomic uint32_t sleepers; // number of the two ranks that wait in the kernel
} box;

typedef struct {
	_Alignas(128) _Atomic uint32_t aborted; // 1, or 2 + the rank that died
	_Alignas(128) desk desks[];             // followed by the boxes, by sender and receiver
} control;

// Counters of the parts that this rank has exchanged with a peer.
typedef struct {
	uint32_t sent, taken;
} turns;

struct cx_comm {
	control *control;
	int rank, world, crowded;
	int64_t heap_bytes, cache;
	uint32_t step;
	int sleeps; // sleeps to do before the next yield
	char **heaps;
	struct pollfd *lives; // pidfds of the other ranks; −1 for this process
	turns *turns;         // by rank
	const void **sources; // scratch memory of an operation
	void **targets;
	double *scalars;
};

// Exchanges the parts that the call lists; see exchange.c.
int cx_exchange(cx_comm *c, const cx_call *k, int *culprit);

// Gathers from all ranks, of a power of two, in steps; see exchange.c.
int cx_hypercube(cx_comm *c, const cx_call *k, int *culprit);
int cx_ring(cx_comm *c, const cx_call *k, int *culprit);

// Reports whether bytes at p lie in this rank's heap.
int cx_inside(const cx_comm *c, uintptr_t p, int64_t bytes);

void cx_wake(flag *f);

// A wait in progress; zero at first.
typedef struct {
	int64_t look; // when to check the other processes
	int yields;
} waiting;

// Gives up the processor briefly, unless the flag has changed from seen. A rank with its own
// processor yields; one that shares its processor sleeps after some yields. Next to busy programs a
// yield costs a scheduling turn of each: after a slow one, both sleep some times first. Returns
// CX_OK, or why the operation must end.
int cx_rest(cx_comm *c, waiting *w, flag *f, _Atomic uint32_t *sleepers, uint32_t seen, int *culprit);

// Copies bytes, bypassing the caches if two of the parts do not fit into them.
void cx_copy(const cx_comm *c, char *to, const char *from, int64_t bytes);

static inline void cx_raise(const cx_comm *c, flag *f, _Atomic uint32_t *sleepers, uint32_t value) {
	if (!c->crowded) {
		atomic_store_explicit(f, value, memory_order_release);
		return;
	}
	atomic_store(f, value);
	if (atomic_load(sleepers)) cx_wake(f);
}

static inline void cx_pause(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

int cx_await_slowly(cx_comm *c, flag *f, _Atomic uint32_t *sleepers, uint32_t value, int *culprit);

// Waits for a value. Returns CX_OK, or why the operation must end.
static inline int cx_await(cx_comm *c, flag *f, _Atomic uint32_t *sleepers, uint32_t value, int *culprit) {
	for (int n = c->crowded ? CROWD_SPINS : SPINS; n > 0; n--) {
		if (atomic_load_explicit(f, memory_order_acquire) == value) return CX_OK;
		cx_pause();
	}
	return cx_await_slowly(c, f, sleepers, value, culprit);
}

#endif
