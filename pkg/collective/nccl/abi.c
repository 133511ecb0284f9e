#include "abi.h"

static const struct {
	const char *symbol;
	size_t offset;
} entries[] = {
#define CX_ENTRY(name, ret, params) {"nccl" #name, offsetof(cx_nccl, name)},
	CX_NCCL_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};

int cx_nccl_count(void) { return sizeof entries / sizeof entries[0]; }

const char *cx_nccl_symbol(int i) { return entries[i].symbol; }

void cx_nccl_set(cx_nccl *f, int i, void *address) {
	*(void **)((char *)f + entries[i].offset) = address;
}

// TRY leaves the function with the result of a call that failed.
#define TRY(call) \
	do { \
		int result = (call); \
		if (result != 0) return result; \
	} while (0)

// What all operations of one enqueue have in common.
typedef struct {
	const cx_nccl *f;
	cx_comm comm;
	int rank, nranks;
	cx_stream stream;
	const size_t *vector;
} context;

static int send(const context *x, const cx_call *c, uintptr_t from, size_t count, int to) {
	return x->f->Send((const void *)from, count, c->dtype, to, x->comm, x->stream);
}

static int recv(const context *x, const cx_call *c, uintptr_t to, size_t count, int from) {
	return x->f->Recv((void *)to, count, c->dtype, from, x->comm, x->stream);
}

static size_t block(const cx_call *c) { return c->count * (size_t)c->width; }

// The bodies of group calls. One that fails is closed by its caller: an open
// group would swallow the abort that follows.

static int alltoall_parts(const context *x, const cx_call *c) {
	for (int r = 0; r < x->nranks; r++) {
		TRY(send(x, c, c->send + (size_t)r * block(c), c->count, r));
		TRY(recv(x, c, c->recv + (size_t)r * block(c), c->count, r));
	}
	return 0;
}

static int alltoallv_parts(const context *x, const cx_call *c) {
	const size_t *sendcounts = x->vector, *senddispls = sendcounts + x->nranks;
	const size_t *recvcounts = senddispls + x->nranks, *recvdispls = recvcounts + x->nranks;
	size_t width = (size_t)c->width;
	for (int r = 0; r < x->nranks; r++) {
		if (sendcounts[r] != 0) TRY(send(x, c, c->send + senddispls[r] * width, sendcounts[r], r));
		if (recvcounts[r] != 0) TRY(recv(x, c, c->recv + recvdispls[r] * width, recvcounts[r], r));
	}
	return 0;
}

static int gather_parts(const context *x, const cx_call *c) {
	TRY(send(x, c, c->send, c->count, c->root));
	if (x->rank != c->root) return 0;
	for (int r = 0; r < x->nranks; r++)
		TRY(recv(x, c, c->recv + (size_t)r * block(c), c->count, r));
	return 0;
}

static int scatter_parts(const context *x, const cx_call *c) {
	TRY(recv(x, c, c->recv, c->count, c->root));
	if (x->rank != c->root) return 0;
	for (int r = 0; r < x->nranks; r++)
		TRY(send(x, c, c->send + (size_t)r * block(c), c->count, r));
	return 0;
}

static int ring_parts(const context *x, const cx_call *c) {
	TRY(send(x, c, c->send, c->count, (x->rank + 1) % x->nranks));
	return recv(x, c, c->recv, c->count, (x->rank - 1 + x->nranks) % x->nranks);
}

static int pair_parts(const context *x, const cx_call *c) {
	if (x->rank == c->root) TRY(send(x, c, c->send, c->count, c->peer));
	if (x->rank == c->peer) TRY(recv(x, c, c->recv, c->count, c->root));
	return 0;
}

static int close_group(const context *x, int result) {
	int end = x->f->GroupEnd();
	return result != 0 ? result : end;
}

static int grouped(const context *x, const cx_call *c, int (*parts)(const context *, const cx_call *)) {
	TRY(x->f->GroupStart());
	return close_group(x, parts(x, c));
}

// Each step exchanges, with the rank that differs in one bit, all blocks that
// both gathered so far. The rank's own block is already in place.
static int hypercube(const context *x, const cx_call *c) {
	for (int mask = 1; mask < x->nranks; mask <<= 1) {
		int peer = x->rank ^ mask;
		uintptr_t mine = c->recv + (size_t)(x->rank & ~(mask - 1)) * block(c);
		uintptr_t theirs = c->recv + (size_t)(peer & ~(mask - 1)) * block(c);
		size_t count = c->count * (size_t)mask;
		TRY(x->f->GroupStart());
		int result = send(x, c, mine, count, peer);
		if (result == 0) result = recv(x, c, theirs, count, peer);
		TRY(close_group(x, result));
	}
	return 0;
}

static int one(const context *x, const cx_call *c) {
	const cx_nccl *f = x->f;
	const void *from = (const void *)c->send;
	void *to = (void *)c->recv;
	const size_t *v = x->vector;
	switch (c->how) {
	case CX_ALL_REDUCE: return f->AllReduce(from, to, c->count, c->dtype, c->redop, x->comm, x->stream);
	case CX_ALL_GATHER: return f->AllGather(from, to, c->count, c->dtype, x->comm, x->stream);
	case CX_REDUCE_SCATTER: return f->ReduceScatter(from, to, c->count, c->dtype, c->redop, x->comm, x->stream);
	case CX_BROADCAST: return f->Broadcast(from, to, c->count, c->dtype, c->root, x->comm, x->stream);
	case CX_REDUCE: return f->Reduce(from, to, c->count, c->dtype, c->redop, c->root, x->comm, x->stream);
	case CX_ALLTOALL: return f->AlltoAll(from, to, c->count, c->dtype, x->comm, x->stream);
	case CX_ALLTOALL_OLD: return f->AllToAll(from, to, c->count, c->dtype, x->comm, x->stream);
	case CX_ALLTOALL_GROUPED: return grouped(x, c, alltoall_parts);
	case CX_ALLTOALLV:
	case CX_ALLTOALLV_OLD:
		return (c->how == CX_ALLTOALLV ? f->AlltoAllv : f->AllToAllv)(
			from, v, v + x->nranks, to, v + 2 * x->nranks, v + 3 * x->nranks, c->dtype, x->comm, x->stream);
	case CX_ALLTOALLV_GROUPED: return grouped(x, c, alltoallv_parts);
	case CX_GATHER: return f->Gather(from, to, c->count, c->dtype, c->root, x->comm, x->stream);
	case CX_GATHER_GROUPED: return grouped(x, c, gather_parts);
	case CX_SCATTER: return f->Scatter(from, to, c->count, c->dtype, c->root, x->comm, x->stream);
	case CX_SCATTER_GROUPED: return grouped(x, c, scatter_parts);
	case CX_SENDRECV: return grouped(x, c, ring_parts);
	case CX_HYPERCUBE: return hypercube(x, c);
	default: return grouped(x, c, pair_parts);
	}
}

int cx_nccl_enqueue(const cx_nccl *f, cx_comm comm, int rank, int nranks, uintptr_t stream,
                    const size_t *vector, const cx_call *calls, int n, int group, int *at) {
	context x = {f, comm, rank, nranks, (cx_stream)stream, vector};
	for (int i = 0; i < n;) {
		int end = i + group < n ? i + group : n;
		int result = 0;
		*at = i;
		if (group > 1) TRY(f->GroupStart());
		for (; i < end && result == 0; i++) {
			*at = i;
			result = one(&x, &calls[i]);
		}
		if (group > 1) result = close_group(&x, result);
		if (result != 0) return result;
	}
	return 0;
}
