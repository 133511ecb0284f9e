// The loop that runs many operations in one call from Go.
#ifndef CX_COLLECTIVE_NCCL_ENQUEUE_H
#define CX_COLLECTIVE_NCCL_ENQUEUE_H

#include "../../nccl/exchange.h"

// collective.Call, field by field: op, redop and type are that package's
// values (type is the library's own too), addresses are device memory, which Go
// holds as numbers.
typedef struct {
	uint32_t op;
	uint32_t redop;
	int64_t type;
	int64_t root;
	int64_t count;
	double scalar;
	uintptr_t send;
	uintptr_t recv;
	const int64_t *exchange; // the four lists of Form.Exchange, or NULL
} cx_call;

// How an operation is done: by an entry point or, where the library has none,
// by what stands in for it.
enum {
	CX_ALL_REDUCE,
	CX_ALL_GATHER,
	CX_REDUCE_SCATTER,
	CX_BROADCAST,
	CX_REDUCE,
	CX_ALLTOALL,         // ncclAlltoAll
	CX_ALLTOALL_OLD,     // ncclAllToAll
	CX_ALLTOALL_GROUPED, // grouped send/recv
	CX_GATHER,
	CX_GATHER_GROUPED,
	CX_SCATTER,
	CX_SCATTER_GROUPED,
	CX_SENDRECV,         // ring: send to rank+1, receive from rank-1
	CX_ALLTOALLV,        // ncclAlltoAllv
	CX_ALLTOALLV_OLD,    // ncclAllToAllv
	CX_HYPERCUBE,        // grouped send/recv with rank^1, then rank^2, rank^4, …
	CX_EXCHANGE,         // grouped send/recv of what the call lists
};

// What the operations of one communicator have in common.
typedef struct {
	cx_comm comm;
	int rank, nranks;
	int how[32];     // by op
	int premul[16];  // by type: the library's reduction that multiplies first
} cx_end;

// cx_nccl_enqueue enqueues n operations on the stream, group at a time in one
// group call where that is more than 1, and returns the first result that is not
// success, with the index of its operation in *at.
int cx_nccl_enqueue(const cx_nccl *f, const cx_end *e, uintptr_t stream, const cx_call *calls, int n, int group, int *at);

// Nanoseconds from the start of a window until its last operation was enqueued,
// and until all have ended: 0 where they have not yet.
typedef struct {
	int64_t enqueued, ended;
} cx_elapsed;

// cx_nccl_time is cx_nccl_enqueue on a clock. It then asks the stream by query,
// which takes it and returns 0 at its end, until it has ended, failed, or patience
// nanoseconds are over: then the caller goes on waiting, who also looks for errors
// of the communicator, which another thread may end meanwhile.
int cx_nccl_time(const cx_nccl *f, const cx_end *e, uintptr_t stream, const cx_call *calls, int n, int group, int *at,
                 uintptr_t query, int64_t patience, cx_elapsed *elapsed);

#endif
