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

// The bodies of group calls. One that fails is closed by its caller: an open
// group would swallow the abort that follows.

static int alltoall_parts(const cx_nccl *f, cx_comm comm, int nranks, cx_stream stream, const cx_call *c) {
	size_t block = c->count * (size_t)c->width;
	for (int r = 0; r < nranks; r++) {
		TRY(f->Send(c->send + (size_t)r * block, c->count, c->dtype, r, comm, stream));
		TRY(f->Recv(c->recv + (size_t)r * block, c->count, c->dtype, r, comm, stream));
	}
	return 0;
}

static int alltoallv_parts(const cx_nccl *f, cx_comm comm, int nranks, cx_stream stream, const cx_call *c) {
	const size_t *sendcounts = c->vector, *senddispls = sendcounts + nranks;
	const size_t *recvcounts = senddispls + nranks, *recvdispls = recvcounts + nranks;
	size_t width = (size_t)c->width;
	for (int r = 0; r < nranks; r++) {
		if (sendcounts[r] != 0)
			TRY(f->Send(c->send + senddispls[r] * width, sendcounts[r], c->dtype, r, comm, stream));
		if (recvcounts[r] != 0)
			TRY(f->Recv(c->recv + recvdispls[r] * width, recvcounts[r], c->dtype, r, comm, stream));
	}
	return 0;
}

static int gather_parts(const cx_nccl *f, cx_comm comm, int rank, int nranks, cx_stream stream, const cx_call *c) {
	size_t block = c->count * (size_t)c->width;
	TRY(f->Send(c->send, c->count, c->dtype, c->root, comm, stream));
	if (rank != c->root) return 0;
	for (int r = 0; r < nranks; r++)
		TRY(f->Recv(c->recv + (size_t)r * block, c->count, c->dtype, r, comm, stream));
	return 0;
}

static int scatter_parts(const cx_nccl *f, cx_comm comm, int rank, int nranks, cx_stream stream, const cx_call *c) {
	size_t block = c->count * (size_t)c->width;
	TRY(f->Recv(c->recv, c->count, c->dtype, c->root, comm, stream));
	if (rank != c->root) return 0;
	for (int r = 0; r < nranks; r++)
		TRY(f->Send(c->send + (size_t)r * block, c->count, c->dtype, r, comm, stream));
	return 0;
}

static int exchange(const cx_nccl *f, cx_comm comm, cx_stream stream, const cx_call *c,
                    const char *send, int to, char *recv, int from, size_t count) {
	TRY(f->Send(send, count, c->dtype, to, comm, stream));
	TRY(f->Recv(recv, count, c->dtype, from, comm, stream));
	return 0;
}

static int pair(const cx_nccl *f, cx_comm comm, int rank, cx_stream stream, const cx_call *c) {
	if (rank == c->root) TRY(f->Send(c->send, c->count, c->dtype, c->peer, comm, stream));
	if (rank == c->peer) TRY(f->Recv(c->recv, c->count, c->dtype, c->root, comm, stream));
	return 0;
}

static int close_group(const cx_nccl *f, int result) {
	int end = f->GroupEnd();
	return result != 0 ? result : end;
}

// Each step exchanges, with the rank that differs in one bit, all blocks that
// both gathered so far. The rank's own block is already in place.
static int hypercube(const cx_nccl *f, cx_comm comm, int rank, int nranks, cx_stream stream, const cx_call *c) {
	size_t block = c->count * (size_t)c->width;
	for (int mask = 1; mask < nranks; mask <<= 1) {
		int peer = rank ^ mask;
		char *mine = c->recv + (size_t)(rank & ~(mask - 1)) * block;
		char *theirs = c->recv + (size_t)(peer & ~(mask - 1)) * block;
		TRY(f->GroupStart());
		TRY(close_group(f, exchange(f, comm, stream, c, mine, peer, theirs, peer, c->count * (size_t)mask)));
	}
	return 0;
}

static int one(const cx_nccl *f, cx_comm comm, int rank, int nranks, cx_stream stream, const cx_call *c) {
	const size_t *v = c->vector;
	switch (c->how) {
	case CX_ALL_REDUCE:
		return f->AllReduce(c->send, c->recv, c->count, c->dtype, c->redop, comm, stream);
	case CX_ALL_GATHER:
		return f->AllGather(c->send, c->recv, c->count, c->dtype, comm, stream);
	case CX_REDUCE_SCATTER:
		return f->ReduceScatter(c->send, c->recv, c->count, c->dtype, c->redop, comm, stream);
	case CX_BROADCAST:
		return f->Broadcast(c->send, c->recv, c->count, c->dtype, c->root, comm, stream);
	case CX_REDUCE:
		return f->Reduce(c->send, c->recv, c->count, c->dtype, c->redop, c->root, comm, stream);
	case CX_ALLTOALL:
		return f->AlltoAll(c->send, c->recv, c->count, c->dtype, comm, stream);
	case CX_ALLTOALL_OLD:
		return f->AllToAll(c->send, c->recv, c->count, c->dtype, comm, stream);
	case CX_ALLTOALLV:
		return f->AlltoAllv(c->send, v, v + nranks, c->recv, v + 2 * nranks, v + 3 * nranks, c->dtype, comm, stream);
	case CX_ALLTOALLV_OLD:
		return f->AllToAllv(c->send, v, v + nranks, c->recv, v + 2 * nranks, v + 3 * nranks, c->dtype, comm, stream);
	case CX_GATHER:
		return f->Gather(c->send, c->recv, c->count, c->dtype, c->root, comm, stream);
	case CX_SCATTER:
		return f->Scatter(c->send, c->recv, c->count, c->dtype, c->root, comm, stream);
	case CX_HYPERCUBE:
		return hypercube(f, comm, rank, nranks, stream, c);
	}
	TRY(f->GroupStart());
	switch (c->how) {
	case CX_ALLTOALL_GROUPED:
		return close_group(f, alltoall_parts(f, comm, nranks, stream, c));
	case CX_ALLTOALLV_GROUPED:
		return close_group(f, alltoallv_parts(f, comm, nranks, stream, c));
	case CX_GATHER_GROUPED:
		return close_group(f, gather_parts(f, comm, rank, nranks, stream, c));
	case CX_SCATTER_GROUPED:
		return close_group(f, scatter_parts(f, comm, rank, nranks, stream, c));
	case CX_SENDRECV:
		return close_group(f, exchange(f, comm, stream, c, c->send, (rank + 1) % nranks,
		                               c->recv, (rank - 1 + nranks) % nranks, c->count));
	default: // CX_PAIR
		return close_group(f, pair(f, comm, rank, stream, c));
	}
}

int cx_nccl_enqueue(const cx_nccl *f, cx_comm comm, int rank, int nranks, cx_stream stream,
                    const cx_call *calls, int n, int group, int *at) {
	for (int i = 0; i < n;) {
		int end = i + group < n ? i + group : n;
		*at = i;
		if (group > 1) TRY(f->GroupStart());
		int result = 0;
		for (; i < end && result == 0; i++) {
			*at = i;
			result = one(f, comm, rank, nranks, stream, &calls[i]);
		}
		if (group > 1) result = close_group(f, result);
		if (result != 0) return result;
	}
	return 0;
}
