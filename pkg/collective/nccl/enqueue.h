// The loop that runs many operations in one call from Go.
#ifndef CX_COLLECTIVE_NCCL_ENQUEUE_H
#define CX_COLLECTIVE_NCCL_ENQUEUE_H

#include "../../nccl/exchange.h"

// runner.Call, field by field: op, redop and type have its values (type is also the library's own),
// addresses are device memory.
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

// How an operation is performed: by an entry point or, if the library has none, by a substitute.
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
	// With cx_end.config.
	CX_ALL_REDUCE_CONFIG,
	CX_ALL_GATHER_CONFIG,
	CX_REDUCE_SCATTER_CONFIG,
	CX_BROADCAST_CONFIG,
	CX_REDUCE_CONFIG,
};

// Values shared by all operations of a communicator.
typedef struct {
	cx_comm comm;
	int rank, nranks;
	int how[32];     // by op
	int premul[16];  // by type: the library's reduction that multiplies first
	const cx_nccl_call_config *config;
} cx_end;

// cx_nccl_enqueue enqueues n operations on the stream, in group calls of group operations if that is
// more than 1, and returns the first result that is not success, with the index of its operation in
// *at.
int cx_nccl_enqueue(const cx_nccl *f, const cx_end *e, uintptr_t stream, const cx_call *calls, int n, int group, int *at);

// Nanoseconds from the start of a window until its last operation was enqueued, and until all
// operations ended; ended is 0 if they have not.
typedef struct {
	int64_t enqueued, ended;
} cx_elapsed;

// cx_nccl_time is cx_nccl_enqueue with a clock. It then polls the stream with query, which returns 0
// once the work has ended, until it has ended, failed, or patience nanoseconds have elapsed. In the
// last case the caller continues to wait, and also checks the communicator for errors.
int cx_nccl_time(const cx_nccl *f, const cx_end *e, uintptr_t stream, const cx_call *calls, int n, int group, int *at,
                 uintptr_t query, int64_t patience, cx_elapsed *elapsed);

#endif
