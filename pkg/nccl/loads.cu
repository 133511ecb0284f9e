// NCCL's template for these has arrays of no elements, which run-time compilers reject.
#ifdef _NCCL_DEVICE_UTILITY_H_
namespace nccl {
namespace utility {
template <> __device__ __forceinline__ char *loadConst(char *const *p) { return (char *)__ldg((const unsigned long long *)p); }
template <> __device__ __forceinline__ uint32_t loadConst(const uint32_t *p) { return __ldg(p); }
template <> __device__ __forceinline__ int loadConst(const int *p) { return __ldg(p); }
}
}
#endif

