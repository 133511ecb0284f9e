// What NCCL's headers for kernels take from those of C and CUDA, which a run-time compiler may not find. Templates that
// nothing instantiates need no definition. Functions of the host are declared, but never called.
#ifndef CX_FAKE_DEVICE
#undef __host__
#define __host__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef long ptrdiff_t;
typedef struct CUstream_st *cudaStream_t;
typedef int CUmemLocationType;
#ifndef NULL
#define NULL 0
#endif
#define INT_MIN (-2147483647 - 1)

namespace cuda {
enum memory_order { memory_order_relaxed, memory_order_consume, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
template <class T, thread_scope scope = thread_scope_system> struct atomic_ref {
	__device__ explicit atomic_ref(T &);
	__device__ T load(memory_order) const;
	__device__ void store(T, memory_order) const;
};
__device__ void atomic_thread_fence(memory_order, thread_scope = thread_scope_system);
}
#endif

