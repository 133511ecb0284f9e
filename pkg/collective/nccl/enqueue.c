#include "enqueue.h"

#include <sched.h>
#include <time.h>

// TRY returns the result of a call that failed.
#define TRY(call) \
	do { \
		int result = (call); \
		if (result != 0) return result; \
	} while (0)

// workload.RedOp values: the first five are the library's own.
enum { MULSUM = 5 };

// The result of CUDA and HIP for a stream with unfinished work.
enum { CX_NOT_READY = 600 };

static const int widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; // bytes, by type

// One operation to enqueue.
typedef struct {
	const cx_nccl *f;
	const cx_end *e;
	const cx_call *c;
	size_t count;
	int type, root;
	cx_stream stream;
	int mask; // of the current step of a hypercube
} job;

static int send_n(const job *j, uintptr_t from, size_t n, int to) {
	return j->f->Send((const void *)from, n, j->type, to, j->e->comm, j->stream);
}

static int recv_n(const job *j, uintptr_t to, size_t n, int from) {
	return j->f->Recv((void *)to, n, j->type, from, j->e->comm, j->stream);
}

static int send(const job *j, uintptr_t from, int to) { return send_n(j, from, j->count, to); }
static int recv(const job *j, uintptr_t to, int from) { return recv_n(j, to, j->count, from); }

// part is the address of rank r's part of a buffer.
static uintptr_t part(const job *j, uintptr_t buffer, int r) {
	return buffer + (size_t)r * j->count * (size_t)widths[j->type];
}

static int alltoall_parts(const job *j) {
	for (int r = 0; r < j->e->nranks; r++) {
		TRY(send(j, part(j, j->c->send, r), r));
		TRY(recv(j, part(j, j->c->recv, r), r));
	}
	return 0;
}

static int gather_parts(const job *j) {
	TRY(send(j, j->c->send, j->root));
	if (j->e->rank != j->root) return 0;
	for (int r = 0; r < j->e->nranks; r++) TRY(recv(j, part(j, j->c->recv, r), r));
	return 0;
}

static int scatter_parts(const job *j) {
	TRY(recv(j, j->c->recv, j->root));
	if (j->e->rank != j->root) return 0;
	for (int r = 0; r < j->e->nranks; r++) TRY(send(j, part(j, j->c->send, r), r));
	return 0;
}

static int ring_parts(const job *j) {
	int n = j->e->nranks;
	TRY(send(j, j->c->send, (j->e->rank + 1) % n));
	return recv(j, j->c->recv, (j->e->rank - 1 + n) % n);
}

static int exchange(const job *j) {
	return cx_nccl_exchange(j->f, j->e->comm, j->stream, j->e->nranks, j->type, (size_t)widths[j->type],
	                        j->c->send, j->c->recv, (const size_t *)j->c->exchange);
}

static int alltoallv(const job *j, int (*f)(const void *, const size_t *, const size_t *, void *, const size_t *, const size_t *, int, cx_comm, cx_stream)) {
	const size_t *x = (const size_t *)j->c->exchange;
	size_t n = (size_t)j->e->nranks;
	return f((const void *)j->c->send, x, x + n, (void *)j->c->recv, x + 2 * n, x + 3 * n, j->type, j->e->comm, j->stream);
}

// grouped ends the group call even if a part failed. Otherwise the following abort would join it.
static int grouped(const job *j, int (*parts)(const job *)) {
	TRY(j->f->GroupStart());
	int result = parts(j), end = j->f->GroupEnd();
	return result != 0 ? result : end;
}

// In each step, ranks that differ in one bit swap everything received so far. The first step also
// copies this rank's own part.
static int hypercube_parts(const job *j) {
	int rank = j->e->rank, mask = j->mask, peer = rank ^ mask;
	int mine = rank & ~(mask - 1), theirs = mine ^ mask;
	uintptr_t from = part(j, j->c->recv, mine);
	if (mask == 1 && from != j->c->send) {
		TRY(send(j, j->c->send, rank));
		TRY(recv(j, from, rank));
		from = j->c->send;
	}
	if (peer >= j->e->nranks) return 0; // one rank alone
	TRY(send_n(j, from, j->count * (size_t)mask, peer));
	return recv_n(j, part(j, j->c->recv, theirs), j->count * (size_t)mask, peer);
}

static int hypercube(job j) {
	for (j.mask = 1; j.mask == 1 || j.mask < j.e->nranks; j.mask <<= 1) TRY(grouped(&j, hypercube_parts));
	return 0;
}

static int enqueue(const job *j) {
	const cx_nccl *f = j->f;
	const void *from = (const void *)j->c->send;
	void *to = (void *)j->c->recv;
	int redop = j->c->redop == MULSUM ? j->e->premul[j->type] : (int)j->c->redop;
	switch (j->e->how[j->c->op]) {
	case CX_ALL_REDUCE: return f->AllReduce(from, to, j->count, j->type, redop, j->e->comm, j->stream);
	case CX_ALL_GATHER: return f->AllGather(from, to, j->count, j->type, j->e->comm, j->stream);
	case CX_REDUCE_SCATTER: return f->ReduceScatter(from, to, j->count, j->type, redop, j->e->comm, j->stream);
	case CX_BROADCAST: return f->Broadcast(from, to, j->count, j->type, j->root, j->e->comm, j->stream);
	case CX_REDUCE: return f->Reduce(from, to, j->count, j->type, redop, j->root, j->e->comm, j->stream);
	case CX_ALLTOALL: return f->AlltoAll(from, to, j->count, j->type, j->e->comm, j->stream);
	case CX_ALLTOALL_OLD: return f->AllToAll(from, to, j->count, j->type, j->e->comm, j->stream);
	case CX_ALLTOALL_GROUPED: return grouped(j, alltoall_parts);
	case CX_GATHER: return f->Gather(from, to, j->count, j->type, j->root, j->e->comm, j->stream);
	case CX_GATHER_GROUPED: return grouped(j, gather_parts);
	case CX_SCATTER: return f->Scatter(from, to, j->count, j->type, j->root, j->e->comm, j->stream);
	case CX_SCATTER_GROUPED: return grouped(j, scatter_parts);
	case CX_ALLTOALLV: return alltoallv(j, f->AlltoAllv);
	case CX_ALLTOALLV_OLD: return alltoallv(j, f->AllToAllv);
	case CX_HYPERCUBE: return hypercube(*j);
	case CX_EXCHANGE: return exchange(j);
	case CX_ALL_REDUCE_CONFIG: return f->AllReduceConfig(from, to, j->count, j->type, redop, j->e->comm, j->stream, j->e->config);
	case CX_ALL_GATHER_CONFIG: return f->AllGatherConfig(from, to, j->count, j->type, j->e->comm, j->stream, j->e->config);
	case CX_REDUCE_SCATTER_CONFIG: return f->ReduceScatterConfig(from, to, j->count, j->type, redop, j->e->comm, j->stream, j->e->config);
	case CX_BROADCAST_CONFIG: return f->BroadcastConfig(from, to, j->count, j->type, j->root, j->e->comm, j->stream, j->e->config);
	case CX_REDUCE_CONFIG: return f->ReduceConfig(from, to, j->count, j->type, redop, j->root, j->e->comm, j->stream, j->e->config);
	default: return grouped(j, ring_parts);
	}
}

// run enqueues the operations from *at up to end.
static int run(const cx_nccl *f, const cx_end *e, uintptr_t stream, const cx_call *calls, int end, int *at) {
	for (; *at < end; ++*at) {
		const cx_call *c = &calls[*at];
		job j = {f, e, c, (size_t)c->count, (int)c->type, (int)c->root, (cx_stream)stream, 0};
		TRY(enqueue(&j));
	}
	return 0;
}

int cx_nccl_enqueue(const cx_nccl *f, const cx_end *e, uintptr_t stream, const cx_call *calls, int n, int group, int *at) {
	*at = 0;
	if (group <= 1) return run(f, e, stream, calls, n, at);
	while (*at < n) {
		int first = *at, left = n - first;
		TRY(f->GroupStart());
		int result = run(f, e, stream, calls, first + (left < group ? left : group), at);
		int closed = f->GroupEnd(); // also after a failure: see grouped
		if (result == 0 && closed != 0) *at = first;
		if (result != 0 || closed != 0) return result != 0 ? result : closed;
	}
	return 0;
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int cx_nccl_time(const cx_nccl *f, const cx_end *e, uintptr_t stream, const cx_call *calls, int n, int group, int *at,
                 uintptr_t query, int64_t patience, cx_elapsed *elapsed) {
	int (*ask)(void *) = (int (*)(void *))query;
	int64_t start = now();
	TRY(cx_nccl_enqueue(f, e, stream, calls, n, group, at));
	elapsed->enqueued = now() - start;
	for (;;) {
		int pending = ask((void *)stream);
		int64_t passed = now() - start;
		if (pending == 0) elapsed->ended = passed;
		if (pending != CX_NOT_READY || passed > patience) return 0;
		sched_yield();
	}
}
