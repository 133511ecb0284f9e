// Reductions and copies over tiles; see reduce.c.
#ifndef CX_HOST_REDUCE_H
#define CX_HOST_REDUCE_H

#include <stddef.h>
#include <stdint.h>

// Values of collective.Op, workload.RedOp and numeric.Type.
enum {
	OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_TO_ALL, OP_BROADCAST, OP_SENDRECV, OP_REDUCE, OP_GATHER, OP_SCATTER,
	OP_ALL_TO_ALL_V, OP_P2P, OP_P2P_BIDIR, OP_HYPERCUBE
};
enum { RED_SUM, RED_PROD, RED_MAX, RED_MIN, RED_AVG, RED_MULSUM, RED_NONE };
enum { T_INT8, T_UINT8, T_INT32, T_UINT32, T_INT64, T_UINT64, T_HALF, T_FLOAT, T_DOUBLE, T_BFLOAT16, T_F8E4M3, T_F8E5M2 };

size_t cx_type_size(int type);

// Reduces n elements of sources[0..world), in this order, into each of the nd destinations. Source r
// is multiplied by scalars[r] in a mulsum. A destination may be one of the sources. stream: writes
// to the destinations bypass the caches.
void cx_reduce(int type, int redop, const void *const *sources, const double *scalars, int world,
               int64_t n, void *const *destinations, int nd, int stream);

// Copies bytes of source to each destination that is not the source.
void cx_multicast(const void *source, int64_t bytes, void *const *destinations, int nd, int stream);

// Makes streamed stores visible before later stores.
void cx_drain(void);

#endif
