// The host communicator. Every rank is a process; its buffers are in a heap that all ranks map, so
// that data move without an intermediate copy.
//
// Ranks synchronise through the control memory. Each rank has two posts that it uses alternately. In
// step k a rank writes its post (k mod 2), marks it with k and waits for the marks of all other ranks.
// It cannot run two steps ahead, so it never overwrites data that a slower rank still reads. A small
// operation is one step: the posts contain the inputs, and each rank computes its own output from
// them. A large operation is two steps. The first exchanges the addresses of the buffers, and the
// second ends the operation. Between them each rank does its share of the work on all outputs.

#include "state.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "reduce.h"

#define LOOK_NS 50000000L // between two checks that the other ranks are alive
#define NAP_NS 50000L // sleep of a rank that no other rank wakes
#define SLOW_YIELD_NS 1000000L // a longer yield means that other programs used the processor
#define SLEEPS 20 // after such a yield, before the next one
#define CROWD_SLEEPS 1000

int64_t cx_control_bytes(int world) {
	size_t n = (size_t)world;
	return (int64_t)(sizeof(control) + n * sizeof(desk) + n * n * sizeof(box));
}

cx_comm *cx_open(void *memory, int rank, int world, void *const *heaps, int64_t heap_bytes, const int *pids, int crowded,
                 int64_t cache) {
	cx_comm *c = calloc(1, sizeof *c);
	if (!c) return NULL;
	size_t n = (size_t)world;
	*c = (cx_comm){.control = memory, .rank = rank, .world = world, .crowded = crowded, .heap_bytes = heap_bytes, .cache = cache};
	c->heaps = calloc(n, sizeof *c->heaps);
	c->lives = calloc(n, sizeof *c->lives);
	c->sources = calloc(n, sizeof *c->sources);
	c->targets = calloc(n, sizeof *c->targets);
	c->scalars = calloc(n, sizeof *c->scalars);
	c->turns = calloc(n, sizeof *c->turns);
	if (!c->heaps || !c->lives || !c->sources || !c->targets || !c->scalars || !c->turns) {
		cx_close(c);
		return NULL;
	}
	for (int r = 0; r < world; r++) {
		c->heaps[r] = heaps[r];
		c->lives[r].events = POLLIN;
		// Before Linux 5.3 there are no pidfds, and poll ignores −1.
		c->lives[r].fd = pids[r] == getpid() ? -1 : (int)syscall(SYS_pidfd_open, pids[r], 0);
	}
	return c;
}

void cx_close(cx_comm *c) {
	for (int r = 0; c->lives && r < c->world; r++)
		if (c->lives[r].fd > 0) close(c->lives[r].fd);
	free(c->heaps);
	free(c->lives);
	free(c->sources);
	free(c->targets);
	free(c->scalars);
	free(c->turns);
	free(c);
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout) {
	syscall(SYS_futex, (uint32_t *)word, op, value, timeout, NULL, 0);
}

static void end(control *k, int world, uint32_t why) {
	uint32_t none = 0;
	atomic_compare_exchange_strong(&k->aborted, &none, why);
	for (int r = 0; r < world; r++) {
		cx_wake(&k->desks[r].posts[0].mark);
		cx_wake(&k->desks[r].posts[1].mark);
	}
}

void cx_abort(cx_comm *c) { end(c->control, c->world, 1); }

static int64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

// Returns CX_OK unless the operation must end: a rank aborted it or died. It checks the other
// processes periodically; *next is 0 at first.
static int look(cx_comm *c, int64_t now, int64_t *next, int *culprit) {
	uint32_t why = atomic_load_explicit(&c->control->aborted, memory_order_acquire);
	if (!*next) *next = now + LOOK_NS;
	if (!why && now >= *next) {
		*next = now + LOOK_NS;
		if (poll(c->lives, (nfds_t)c->world, 0) > 0)
			for (int r = 0; r < c->world && !why; r++)
				if (c->lives[r].revents) why = 2 + (uint32_t)r;
		if (why) end(c->control, c->world, why);
	}
	if (!why) return CX_OK;
	if (why == 1) return CX_ABORTED;
	*culprit = (int)why - 2;
	return CX_DIED;
}

// Sleeps for a limited time unless the flag has changed from seen. A rank that raises a flag wakes
// only ranks that share processors.
static void sleep_on(cx_comm *c, flag *f, _Atomic uint32_t *sleepers, uint32_t seen) {
	const struct timespec timeout = {.tv_nsec = c->crowded ? LOOK_NS : NAP_NS};
	atomic_fetch_add(sleepers, 1);
	if (atomic_load(f) == seen && !atomic_load(&c->control->aborted)) futex(f, FUTEX_WAIT, seen, &timeout);
	atomic_fetch_sub(sleepers, 1);
}

int cx_rest(cx_comm *c, waiting *w, flag *f, _Atomic uint32_t *sleepers, uint32_t seen, int *culprit) {
	int64_t now = now_ns();
	int rc = look(c, now, &w->look, culprit);
	if (rc != CX_OK) return rc;
	if (c->sleeps || (c->crowded && w->yields == CROWD_YIELDS)) {
		sleep_on(c, f, sleepers, seen);
		if (c->sleeps) c->sleeps--;
		return CX_OK;
	}
	sched_yield();
	if (c->crowded) w->yields++;
	if (now_ns() - now > SLOW_YIELD_NS) c->sleeps = c->crowded ? CROWD_SLEEPS : SLEEPS;
	return CX_OK;
}

int cx_await_slowly(cx_comm *c, flag *f, _Atomic uint32_t *sleepers, uint32_t value, int *culprit) {
	for (waiting w = {0};;) {
		uint32_t seen = atomic_load_explicit(f, memory_order_acquire);
		if (seen == value) return CX_OK;
		int rc = cx_rest(c, &w, f, sleepers, seen, culprit);
		if (rc != CX_OK) return rc;
	}
}

void cx_wake(flag *f) { futex(f, FUTEX_WAKE, 1u << 30, NULL); }

static inline post *post_of(cx_comm *c, int r) { return &c->control->desks[r].posts[c->step & 1]; }

// Begins the next step; the caller writes the post that it returns, then calls meet.
static inline post *begin(cx_comm *c) {
	c->step++;
	return post_of(c, c->rank);
}

// Marks this rank's post and waits for all the others'.
static inline int meet(cx_comm *c, uint32_t what, int *culprit) {
	post *mine = post_of(c, c->rank);
	mine->what = what;
	cx_raise(c, &mine->mark, &c->control->desks[c->rank].sleepers, c->step);
	for (int r = 0; r < c->world; r++) {
		if (r == c->rank) continue;
		int rc = cx_await(c, &post_of(c, r)->mark, &c->control->desks[r].sleepers, c->step, culprit);
		if (rc != CX_OK) return rc;
		if (post_of(c, r)->what != what) {
			*culprit = r;
			return CX_DISAGREE;
		}
	}
	return CX_OK;
}

int cx_agree(cx_comm *c, uint32_t value, int *culprit) {
	begin(c);
	return meet(c, value, culprit);
}

static uint32_t fingerprint(const cx_call *k) {
	uint64_t h = (uint64_t)k->count * 0x9e3779b97f4a7c15u;
	h ^= (uint64_t)k->op << 8 | (uint64_t)k->redop << 16 | (uint64_t)k->type << 24 | (uint64_t)k->root << 32;
	h *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(h >> 32) | 1;
}

static int sends_all(int op) { return op == OP_REDUCE_SCATTER || op == OP_ALL_TO_ALL || op == OP_SCATTER; }
static int receives_all(int op) { return op == OP_ALL_GATHER || op == OP_ALL_TO_ALL || op == OP_GATHER; }

static int sends(const cx_comm *c, const cx_call *k) {
	return (k->op != OP_BROADCAST && k->op != OP_SCATTER) || k->root == c->rank;
}

static int receives(const cx_comm *c, const cx_call *k) {
	return (k->op != OP_REDUCE && k->op != OP_GATHER) || k->root == c->rank;
}

// One step: inputs in the posts.
static int small(cx_comm *c, const cx_call *k, int64_t part, int64_t bytes, uint32_t what, int *culprit) {
	post *mine = begin(c);
	mine->scalar = k->scalar;
	if (sends(c, k)) memcpy(bytes <= TINY ? mine->tiny : mine->eager, (const void *)k->send, (size_t)bytes);
	int rc = meet(c, what, culprit);
	if (rc != CX_OK || !receives(c, k)) return rc;
	for (int r = 0; r < c->world; r++) {
		post *p = post_of(c, r);
		c->sources[r] = bytes <= TINY ? p->tiny : p->eager;
		c->scalars[r] = p->scalar;
	}
	char *out = (char *)k->recv;
	int64_t mine_at = c->rank * part;
	switch (k->op) {
	case OP_REDUCE_SCATTER:
		for (int r = 0; r < c->world; r++) c->sources[r] = (const char *)c->sources[r] + mine_at;
		// fallthrough
	case OP_ALL_REDUCE:
	case OP_REDUCE:
		c->targets[0] = out;
		cx_reduce((int)k->type, (int)k->redop, c->sources, c->scalars, c->world, k->count, c->targets, 1, 0);
		break;
	case OP_ALL_GATHER:
	case OP_GATHER:
		for (int r = 0; r < c->world; r++) memcpy(out + r * part, c->sources[r], (size_t)part);
		break;
	case OP_ALL_TO_ALL:
		for (int r = 0; r < c->world; r++) memcpy(out + r * part, (const char *)c->sources[r] + mine_at, (size_t)part);
		break;
	case OP_BROADCAST:
		memcpy(out, c->sources[k->root], (size_t)part);
		break;
	case OP_SCATTER:
		memcpy(out, (const char *)c->sources[k->root] + mine_at, (size_t)part);
		break;
	}
	return CX_OK;
}

// Divides n elements among the ranks at multiples of 64 bytes.
static void share(const cx_comm *c, int64_t n, int64_t size, int64_t *from, int64_t *count) {
	int64_t line = 64 / size;
	int64_t each = ((n + c->world - 1) / c->world + line - 1) / line * line;
	*from = c->rank * each < n ? c->rank * each : n;
	*count = *from + each < n ? each : n - *from;
}

// This rank's share of a large operation, after the exchange of buffer addresses.
static void work(cx_comm *c, const cx_call *k, int64_t size, int64_t part, int stream) {
	int w = c->world, me = c->rank, root = (int)k->root;
	int64_t from = 0, n = k->count;
	char *send[w], *recv[w];
	for (int r = 0; r < w; r++) {
		post *p = post_of(c, r);
		send[r] = c->heaps[r] + p->send;
		recv[r] = c->heaps[r] + p->recv;
		c->scalars[r] = p->scalar;
	}
	switch (k->op) {
	case OP_REDUCE_SCATTER:
		for (int r = 0; r < w; r++) c->sources[r] = send[r] + me * part;
		c->targets[0] = recv[me];
		cx_reduce((int)k->type, (int)k->redop, c->sources, c->scalars, w, n, c->targets, 1, stream);
		break;
	case OP_ALL_REDUCE:
	case OP_REDUCE:
		share(c, k->count, size, &from, &n);
		for (int r = 0; r < w; r++) {
			c->sources[r] = send[r] + from * size;
			c->targets[r] = recv[(me + r) % w] + from * size;
		}
		if (k->op == OP_REDUCE) c->targets[0] = recv[root] + from * size;
		cx_reduce((int)k->type, (int)k->redop, c->sources, c->scalars, w, n, c->targets, k->op == OP_REDUCE ? 1 : w, stream);
		break;
	case OP_ALL_GATHER:
		for (int r = 0; r < w; r++) c->targets[r] = recv[(me + r) % w] + me * part;
		cx_multicast(send[me], part, c->targets, w, stream);
		break;
	case OP_BROADCAST:
		share(c, k->count, size, &from, &n);
		for (int r = 0; r < w; r++) c->targets[r] = recv[(me + r) % w] + from * size;
		cx_multicast(send[root] + from * size, n * size, c->targets, w, stream);
		break;
	case OP_ALL_TO_ALL:
		for (int r = 0; r < w; r++) {
			int to = (me + r) % w;
			c->targets[0] = recv[to] + me * part;
			cx_multicast(send[me] + to * part, part, c->targets, 1, stream);
		}
		break;
	case OP_GATHER:
		c->targets[0] = recv[root] + me * part;
		cx_multicast(send[me], part, c->targets, 1, stream);
		break;
	case OP_SCATTER:
		c->targets[0] = recv[me];
		cx_multicast(send[root] + me * part, part, c->targets, 1, stream);
		break;
	}
	if (stream) cx_drain();
}

// Two steps: the exchange of buffer addresses, and the end of the work.
static int large(cx_comm *c, const cx_call *k, int64_t size, int64_t part, uint32_t what, int *culprit) {
	post *mine = begin(c);
	mine->scalar = k->scalar;
	mine->send = (char *)k->send - c->heaps[c->rank];
	mine->recv = (char *)k->recv - c->heaps[c->rank];
	int rc = meet(c, what, culprit);
	if (rc != CX_OK) return rc;
	int64_t in = sends_all((int)k->op) ? part * c->world : part, out = receives_all((int)k->op) ? part * c->world : part;
	work(c, k, size, part, (in + out) * c->world > c->cache);
	begin(c);
	return meet(c, ~what, culprit);
}

int cx_inside(const cx_comm *c, uintptr_t p, int64_t bytes) {
	uintptr_t heap = (uintptr_t)c->heaps[c->rank];
	return p >= heap && p + (uintptr_t)bytes <= heap + (uintptr_t)c->heap_bytes;
}

static int run(cx_comm *c, const cx_call *k, int *culprit) {
	if (k->exchange) return cx_exchange(c, k, culprit);
	switch (k->op) {
	case OP_HYPERCUBE: return cx_hypercube(c, k, culprit);
	case OP_SENDRECV: return cx_ring(c, k, culprit);
	}
	int64_t size = (int64_t)cx_type_size((int)k->type), part = k->count * size;
	int64_t in = sends_all((int)k->op) ? part * c->world : part;
	int64_t out = receives_all((int)k->op) ? part * c->world : part;
	if ((sends(c, k) && !cx_inside(c, k->send, in)) || (receives(c, k) && !cx_inside(c, k->recv, out))) return CX_OUTSIDE;
	uint32_t what = fingerprint(k);
	if (in <= EAGER) return small(c, k, part, in, what, culprit);
	return large(c, k, size, part, what, culprit);
}

int cx_enqueue(cx_comm *c, const cx_call *calls, int64_t n, int *culprit) {
	for (int64_t i = 0; i < n; i++) {
		int rc = run(c, &calls[i], culprit);
		if (rc != CX_OK) return rc;
	}
	return CX_OK;
}
