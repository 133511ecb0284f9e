/* The part of NCCL's device interface that kernels use, for windows of the stand-in (nccl.c). A kernel that
 * uses a window that is none, a rank out of its team or an address beyond its end, is at fault, and dies. */
#ifndef _NCCL_DEVICE_CORE__FUNCS_H_
#define _NCCL_DEVICE_CORE__FUNCS_H_
#include <nccl.h>

struct ncclWindow_vidmem {
	uint32_t alive;
	int rank, nranks;
	uint64_t bytes;
	char *base[16];
};

static inline void *ncclGetPeerPointer(ncclWindow_t w, size_t offset, int peer)
{
	if (!w || w->alive != 0x3173d0 || peer < 0 || peer >= w->nranks || offset >= w->bytes) {
		fprintf(stderr, "fake NCCL: a kernel uses a window at fault: rank %d, offset %zu\n", peer, offset);
		abort();
	}
	return w->base[peer] + offset;
}

static inline void *ncclGetLocalPointer(ncclWindow_t w, size_t offset) { return ncclGetPeerPointer(w, offset, w->rank); }

#endif
