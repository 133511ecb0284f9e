/*
 * Our own declarations of the driver interface that CUDA's driver API and
 * HIP's runtime share: the same functions, argument for argument, under two
 * sets of names. The structure is filled by dlsym; a function that a library
 * lacks stays NULL. One trampoline per function calls through it.
 */
#ifndef CX_GPU_API_H
#define CX_GPU_API_H

#include <stddef.h>
#include <stdint.h>

#include "function.h"

typedef uint64_t cx_ptr; /* CUdeviceptr, hipDeviceptr_t */
typedef uint64_t cx_mem; /* CUmemGenericAllocationHandle, hipMemGenericAllocationHandle_t */

/* CUmemLocation and hipMemLocation. */
typedef struct {
	int type;
	int id;
} cx_location;

/* CUmemAllocationProp; hipMemAllocationProp since HIP 6.0. */
typedef struct {
	int type;
	int handle_types;
	cx_location location;
	void *win32_metadata;
	struct {
		unsigned char compression;
		unsigned char rdma_capable;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
} cx_mem_prop;

/* CUmemAccessDesc and hipMemAccessDesc. */
typedef struct {
	cx_location location;
	int flags;
} cx_access;

/* CUmemcpyAttributes; hints are left empty. */
typedef struct {
	int source_order; /* 1: the stream's */
	cx_location source, destination;
	unsigned flags;
} cx_copy_attributes;

/* CUipcMemHandle and hipIpcMemHandle_t, passed by value. */
typedef struct {
	unsigned char bytes[64];
} cx_shared;

/* The functions: slot, group, CUDA's name and HIP's (NULL: the vendor has none), type
 * of the result and parameters. Libraries have all that are required. The other groups
 * are used where a library has all of them, the optional one function by function. */
#define CX_GPU_FUNCTIONS(X) \
	X(init, required, "cuInit", "hipInit", int, (unsigned flags)) \
	X(version, required, "cuDriverGetVersion", "hipRuntimeGetVersion", int, (int *version)) \
	/* cuGetErrorName returns through its argument, hipGetErrorName directly. */ \
	X(error_name_out, required, "cuGetErrorName", NULL, int, (int code, const char **name)) \
	X(error_name, required, NULL, "hipGetErrorName", const char *, (int code)) \
	X(device_count, required, "cuDeviceGetCount", "hipGetDeviceCount", int, (int *count)) \
	X(device_get, required, "cuDeviceGet", "hipDeviceGet", int, (int *device, int index)) \
	X(device_name, required, "cuDeviceGetName", "hipDeviceGetName", int, (char *name, int cap, int device)) \
	X(device_bus_id, required, "cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId", int, (char *name, int cap, int device)) \
	X(device_attribute, required, "cuDeviceGetAttribute", "hipDeviceGetAttribute", int, (int *value, int attribute, int device)) \
	/* The plain name returns the structure of HIP 5, which has another layout. */ \
	X(device_properties, required, NULL, "hipGetDevicePropertiesR0600", int, (void *properties, int device)) \
	X(can_access_peer, required, "cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer", int, (int *can, int device, int peer)) \
	/* CUDA binds a context to the thread, HIP a device. */ \
	X(primary_retain, required, "cuDevicePrimaryCtxRetain", NULL, int, (void **context, int device)) \
	X(primary_release, required, "cuDevicePrimaryCtxRelease_v2", NULL, int, (int device)) \
	X(context_set, required, "cuCtxSetCurrent", NULL, int, (void *context)) \
	X(device_set, required, NULL, "hipSetDevice", int, (int device)) \
	X(synchronize, required, "cuCtxSynchronize", "hipDeviceSynchronize", int, (void)) \
	/* In CUDA the plain name of an old function is a form with 32-bit sizes, kept for old programs. */ \
	X(mem_info, required, "cuMemGetInfo_v2", "hipMemGetInfo", int, (size_t *free, size_t *total)) \
	X(mem_alloc, required, "cuMemAlloc_v2", "hipMalloc", int, (cx_ptr *p, size_t bytes)) \
	X(mem_free, required, "cuMemFree_v2", "hipFree", int, (cx_ptr p)) \
	X(host_alloc, required, "cuMemHostAlloc", "hipHostMalloc", int, (void **p, size_t bytes, unsigned flags)) \
	X(host_free, required, "cuMemFreeHost", "hipHostFree", int, (void *p)) \
	X(host_register, register, "cuMemHostRegister_v2", "hipHostRegister", int, (void *p, size_t bytes, unsigned flags)) \
	X(host_unregister, register, "cuMemHostUnregister", "hipHostUnregister", int, (void *p)) \
	X(host_device_pointer, flags, "cuMemHostGetDevicePointer_v2", "hipHostGetDevicePointer", int, (cx_ptr *device, void *p, unsigned flags)) \
	X(copy_in, required, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", int, (cx_ptr dst, const void *src, size_t bytes, void *stream)) \
	X(copy_out, required, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", int, (void *dst, cx_ptr src, size_t bytes, void *stream)) \
	X(copy, required, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", int, (cx_ptr dst, cx_ptr src, size_t bytes, void *stream)) \
	/* Since CUDA 12.8 and HIP 7.1; the second form, of CUDA 13, says of no failure which copy it was. */ \
	X(copy_batch, optional, "cuMemcpyBatchAsync", "hipMemcpyBatchAsync", int, (const cx_ptr *dst, const cx_ptr *src, const size_t *bytes, size_t n, const cx_copy_attributes *attributes, const size_t *firsts, size_t kinds, size_t *failed, void *stream)) \
	X(copy_batch_v2, optional, "cuMemcpyBatchAsync_v2", NULL, int, (const cx_ptr *dst, const cx_ptr *src, const size_t *bytes, size_t n, const cx_copy_attributes *attributes, const size_t *firsts, size_t kinds, void *stream)) \
	X(set, required, "cuMemsetD8Async", "hipMemsetD8Async", int, (cx_ptr dst, unsigned char value, size_t bytes, void *stream)) \
	X(stream_create, required, "cuStreamCreate", "hipStreamCreateWithFlags", int, (void **stream, unsigned flags)) \
	X(stream_destroy, required, "cuStreamDestroy_v2", "hipStreamDestroy", int, (void *stream)) \
	X(stream_synchronize, required, "cuStreamSynchronize", "hipStreamSynchronize", int, (void *stream)) \
	X(stream_query, required, "cuStreamQuery", "hipStreamQuery", int, (void *stream)) \
	X(stream_wait, required, "cuStreamWaitEvent", "hipStreamWaitEvent", int, (void *stream, void *event, unsigned flags)) \
	/* CUDA's plain names are an older form that many drivers refuse. HIP's wait has a mask. */ \
	X(wait_value, flags, "cuStreamWaitValue32_v2", NULL, int, (void *stream, cx_ptr at, uint32_t value, unsigned flags)) \
	X(wait_masked_value, flags, NULL, "hipStreamWaitValue32", int, (void *stream, cx_ptr at, uint32_t value, unsigned flags, uint32_t mask)) \
	X(write_value, flags, "cuStreamWriteValue32_v2", "hipStreamWriteValue32", int, (void *stream, cx_ptr at, uint32_t value, unsigned flags)) \
	X(event_create, required, "cuEventCreate", "hipEventCreateWithFlags", int, (void **event, unsigned flags)) \
	X(event_destroy, required, "cuEventDestroy_v2", "hipEventDestroy", int, (void *event)) \
	X(event_record, required, "cuEventRecord", "hipEventRecord", int, (void *event, void *stream)) \
	X(event_record_flags, optional, "cuEventRecordWithFlags", "hipEventRecordWithFlags", int, (void *event, void *stream, unsigned flags)) \
	X(event_query, required, "cuEventQuery", "hipEventQuery", int, (void *event)) \
	X(event_elapsed, required, "cuEventElapsedTime", "hipEventElapsedTime", int, (float *ms, void *start, void *end)) \
	X(capture_begin, graphs, "cuStreamBeginCapture_v2", "hipStreamBeginCapture", int, (void *stream, int mode)) \
	X(capture_end, graphs, "cuStreamEndCapture", "hipStreamEndCapture", int, (void *stream, void **graph)) \
	X(graph_instantiate, graphs, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags", int, (void **exec, void *graph, unsigned long long flags)) \
	X(graph_upload, optional, "cuGraphUpload", "hipGraphUpload", int, (void *exec, void *stream)) \
	X(graph_launch, graphs, "cuGraphLaunch", "hipGraphLaunch", int, (void *exec, void *stream)) \
	X(graph_destroy, graphs, "cuGraphDestroy", "hipGraphDestroy", int, (void *graph)) \
	X(graph_exec_destroy, graphs, "cuGraphExecDestroy", "hipGraphExecDestroy", int, (void *exec)) \
	X(module_load, required, "cuModuleLoadData", "hipModuleLoadData", int, (void **module, const void *image)) \
	X(module_unload, required, "cuModuleUnload", "hipModuleUnload", int, (void *module)) \
	X(module_function, required, "cuModuleGetFunction", "hipModuleGetFunction", int, (void **function, void *module, const char *name)) \
	X(launch, required, "cuLaunchKernel", "hipModuleLaunchKernel", int, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **extra)) \
	X(vmm_granularity, vmm, "cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity", int, (size_t *bytes, const cx_mem_prop *prop, int option)) \
	X(vmm_create, vmm, "cuMemCreate", "hipMemCreate", int, (cx_mem *handle, size_t bytes, const cx_mem_prop *prop, unsigned long long flags)) \
	X(vmm_release, vmm, "cuMemRelease", "hipMemRelease", int, (cx_mem handle)) \
	X(vmm_reserve, vmm, "cuMemAddressReserve", "hipMemAddressReserve", int, (cx_ptr *p, size_t bytes, size_t alignment, cx_ptr at, unsigned long long flags)) \
	X(vmm_address_free, vmm, "cuMemAddressFree", "hipMemAddressFree", int, (cx_ptr p, size_t bytes)) \
	X(vmm_map, vmm, "cuMemMap", "hipMemMap", int, (cx_ptr p, size_t bytes, size_t offset, cx_mem handle, unsigned long long flags)) \
	X(vmm_unmap, vmm, "cuMemUnmap", "hipMemUnmap", int, (cx_ptr p, size_t bytes)) \
	X(vmm_access, vmm, "cuMemSetAccess", "hipMemSetAccess", int, (cx_ptr p, size_t bytes, const cx_access *desc, size_t count)) \
	/* HIP's releases differ in what they take for the descriptor of an import, its value or its address. */ \
	X(vmm_export, vmm_share, "cuMemExportToShareableHandle", NULL, int, (void *descriptor, cx_mem handle, int type, unsigned long long flags)) \
	X(vmm_import, vmm_share, "cuMemImportFromShareableHandle", NULL, int, (cx_mem *handle, void *descriptor, int type)) \
	X(ipc_get, ipc, "cuIpcGetMemHandle", "hipIpcGetMemHandle", int, (cx_shared *handle, cx_ptr p)) \
	X(ipc_open, ipc, "cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle", int, (cx_ptr *p, cx_shared handle, unsigned flags)) \
	X(ipc_close, ipc, "cuIpcCloseMemHandle", "hipIpcCloseMemHandle", int, (cx_ptr p))

typedef struct {
#define CX_FIELD(name, group, cuda, hip, ret, params) ret(*name) params;
	CX_GPU_FUNCTIONS(CX_FIELD)
#undef CX_FIELD
} cx_gpu;

/* cx_fn_NAME is the number of a function, in the order of the table. */
enum {
#define CX_NUMBER(name, group, cuda, hip, ret, params) cx_fn_##name,
	CX_GPU_FUNCTIONS(CX_NUMBER)
#undef CX_NUMBER
	cx_gpu_count
};

extern const cx_function cx_gpu_functions[cx_gpu_count];

static inline int cx_init(const cx_gpu *g) { return g->init(0); }
static inline int cx_version(const cx_gpu *g, int *v) { return g->version(v); }
static inline const char *cx_error_name(const cx_gpu *g, int code) {
	const char *name = NULL;
	if (g->error_name)
		return g->error_name(code);
	return g->error_name_out(code, &name) == 0 ? name : NULL;
}

static inline int cx_device_count(const cx_gpu *g, int *n) { return g->device_count(n); }
static inline int cx_device_get(const cx_gpu *g, int *dev, int i) { return g->device_get(dev, i); }
static inline int cx_device_name(const cx_gpu *g, char *s, int cap, int dev) { return g->device_name(s, cap, dev); }
static inline int cx_device_bus_id(const cx_gpu *g, char *s, int cap, int dev) { return g->device_bus_id(s, cap, dev); }
static inline int cx_device_attribute(const cx_gpu *g, int *v, int a, int dev) { return g->device_attribute(v, a, dev); }
static inline int cx_device_properties(const cx_gpu *g, void *p, int dev) { return g->device_properties(p, dev); }
static inline int cx_can_access_peer(const cx_gpu *g, int *can, int dev, int peer) { return g->can_access_peer(can, dev, peer); }
static inline int cx_synchronize(const cx_gpu *g) { return g->synchronize(); }

/* Binds the device to the calling thread, by its primary context where the
 * interface has contexts. */
static inline int cx_bind(const cx_gpu *g, int dev) {
	void *context = NULL;
	int rc;
	if (g->device_set)
		return g->device_set(dev);
	rc = g->primary_retain(&context, dev);
	if (rc)
		return rc;
	rc = g->context_set(context);
	if (rc)
		g->primary_release(dev);
	return rc;
}
static inline int cx_unbind(const cx_gpu *g, int dev) { return g->device_set ? 0 : g->primary_release(dev); }

static inline int cx_mem_info(const cx_gpu *g, size_t *f, size_t *t) { return g->mem_info(f, t); }
static inline int cx_mem_alloc(const cx_gpu *g, cx_ptr *p, size_t n) { return g->mem_alloc(p, n); }
static inline int cx_mem_free(const cx_gpu *g, cx_ptr p) { return g->mem_free(p); }
static inline int cx_host_alloc(const cx_gpu *g, void **p, size_t n) { return g->host_alloc(p, n, 0); }
static inline int cx_host_free(const cx_gpu *g, void *p) { return g->host_free(p); }
static inline int cx_host_register(const cx_gpu *g, void *p, size_t n) { return g->host_register(p, n, 0); }
static inline int cx_host_device_pointer(const cx_gpu *g, cx_ptr *device, void *p) { return g->host_device_pointer(device, p, 0); }
static inline int cx_host_unregister(const cx_gpu *g, void *p) { return g->host_unregister(p); }
static inline int cx_copy_in(const cx_gpu *g, cx_ptr d, const void *s, size_t n, uintptr_t st) { return g->copy_in(d, s, n, (void *)st); }
static inline int cx_copy_out(const cx_gpu *g, void *d, cx_ptr s, size_t n, uintptr_t st) { return g->copy_out(d, s, n, (void *)st); }
static inline int cx_copy(const cx_gpu *g, cx_ptr d, cx_ptr s, size_t n, uintptr_t st) { return g->copy(d, s, n, (void *)st); }
static inline int cx_can_batch(const cx_gpu *g) { return g->copy_batch || g->copy_batch_v2; }
static inline int cx_copy_batch(const cx_gpu *g, const cx_ptr *d, const cx_ptr *s, const size_t *n, size_t count, uintptr_t st) {
	const cx_copy_attributes all = {1, {0, 0}, {0, 0}, 0};
	const size_t first = 0;
	size_t failed = 0;
	if (g->copy_batch_v2)
		return g->copy_batch_v2(d, s, n, count, &all, &first, 1, (void *)st);
	if (g->device_set) /* HIP before 7.13 takes no attributes */
		return g->copy_batch(d, s, n, count, NULL, NULL, 0, &failed, (void *)st);
	return g->copy_batch(d, s, n, count, &all, &first, 1, &failed, (void *)st);
}
static inline int cx_set(const cx_gpu *g, cx_ptr d, unsigned char v, size_t n, uintptr_t st) { return g->set(d, v, n, (void *)st); }

/* Flag 1 is CU_STREAM_NON_BLOCKING and hipStreamNonBlocking. */
static inline int cx_stream_create(const cx_gpu *g, uintptr_t *s) { return g->stream_create((void **)s, 1); }
static inline int cx_stream_destroy(const cx_gpu *g, uintptr_t s) { return g->stream_destroy((void *)s); }
static inline int cx_stream_synchronize(const cx_gpu *g, uintptr_t s) { return g->stream_synchronize((void *)s); }
static inline int cx_stream_wait(const cx_gpu *g, uintptr_t s, uintptr_t e) { return g->stream_wait((void *)s, (void *)e, 0); }

/* The number of the function that waits, for errors. */
static inline int cx_wait_function(const cx_gpu *g) { return g->wait_value ? cx_fn_wait_value : cx_fn_wait_masked_value; }
/* Flags 0 wait for a value that is at least so large, and write after all that the stream
 * has written before. */
static inline int cx_wait_value(const cx_gpu *g, uintptr_t s, cx_ptr at, uint32_t value) {
	return g->wait_value ? g->wait_value((void *)s, at, value, 0) : g->wait_masked_value((void *)s, at, value, 0, UINT32_MAX);
}
static inline int cx_write_value(const cx_gpu *g, uintptr_t s, cx_ptr at, uint32_t value) { return g->write_value((void *)s, at, value, 0); }
static inline int cx_stream_query(const cx_gpu *g, uintptr_t s) { return g->stream_query((void *)s); }

static inline int cx_event_create(const cx_gpu *g, uintptr_t *e) { return g->event_create((void **)e, 0); }
static inline int cx_event_destroy(const cx_gpu *g, uintptr_t e) { return g->event_destroy((void *)e); }
static inline int cx_event_record(const cx_gpu *g, uintptr_t e, uintptr_t s) { return g->event_record((void *)e, (void *)s); }
/* Flag 1 is CU_EVENT_RECORD_EXTERNAL and hipEventRecordExternal. */
static inline int cx_event_record_external(const cx_gpu *g, uintptr_t e, uintptr_t s) { return g->event_record_flags((void *)e, (void *)s, 1); }
static inline int cx_event_query(const cx_gpu *g, uintptr_t e) { return g->event_query((void *)e); }
static inline int cx_event_elapsed(const cx_gpu *g, float *ms, uintptr_t a, uintptr_t b) { return g->event_elapsed(ms, (void *)a, (void *)b); }

/* Mode 1 is thread-local: libraries may allocate on their own threads meanwhile. */
static inline int cx_capture_begin(const cx_gpu *g, uintptr_t s) { return g->capture_begin((void *)s, 1); }
static inline int cx_capture_end(const cx_gpu *g, uintptr_t s, uintptr_t *graph) { return g->capture_end((void *)s, (void **)graph); }
static inline int cx_graph_instantiate(const cx_gpu *g, uintptr_t *exec, uintptr_t graph) { return g->graph_instantiate((void **)exec, (void *)graph, 0); }
static inline int cx_graph_upload(const cx_gpu *g, uintptr_t exec, uintptr_t s) { return g->graph_upload((void *)exec, (void *)s); }
static inline int cx_graph_launch(const cx_gpu *g, uintptr_t exec, uintptr_t s) { return g->graph_launch((void *)exec, (void *)s); }
static inline int cx_graph_destroy(const cx_gpu *g, uintptr_t graph) { return g->graph_destroy((void *)graph); }
static inline int cx_graph_exec_destroy(const cx_gpu *g, uintptr_t exec) { return g->graph_exec_destroy((void *)exec); }

static inline int cx_module_load(const cx_gpu *g, uintptr_t *m, const void *image) { return g->module_load((void **)m, image); }
static inline int cx_module_unload(const cx_gpu *g, uintptr_t m) { return g->module_unload((void *)m); }
static inline int cx_module_function(const cx_gpu *g, uintptr_t *f, uintptr_t m, const char *name) { return g->module_function((void **)f, (void *)m, name); }

/* Arguments one by one, so that each may point at Go memory for the call's
 * length: an array of them in Go memory may not. */
static inline int cx_launch(const cx_gpu *g, uintptr_t f, unsigned grid, unsigned block, unsigned shared, uintptr_t s,
	void *a0, void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7,
	void *a8, void *a9, void *a10, void *a11, void *a12, void *a13, void *a14, void *a15) {
	void *params[16] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15};
	return g->launch((void *)f, grid, 1, 1, block, 1, 1, shared, (void *)s, params, NULL);
}

static inline int cx_vmm_granularity(const cx_gpu *g, size_t *n, const cx_mem_prop *p) { return g->vmm_granularity(n, p, 1); }
static inline int cx_vmm_create(const cx_gpu *g, cx_mem *h, size_t n, const cx_mem_prop *p) { return g->vmm_create(h, n, p, 0); }
static inline int cx_vmm_release(const cx_gpu *g, cx_mem h) { return g->vmm_release(h); }
static inline int cx_vmm_reserve(const cx_gpu *g, cx_ptr *p, size_t n, size_t align) { return g->vmm_reserve(p, n, align, 0, 0); }
static inline int cx_vmm_address_free(const cx_gpu *g, cx_ptr p, size_t n) { return g->vmm_address_free(p, n); }
static inline int cx_vmm_map(const cx_gpu *g, cx_ptr p, size_t n, cx_mem h) { return g->vmm_map(p, n, 0, h, 0); }
static inline int cx_vmm_unmap(const cx_gpu *g, cx_ptr p, size_t n) { return g->vmm_unmap(p, n); }
static inline int cx_vmm_access(const cx_gpu *g, cx_ptr p, size_t n, const cx_access *d, size_t count) { return g->vmm_access(p, n, d, count); }

/* Type 1 is CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. */
static inline int cx_vmm_export(const cx_gpu *g, int *descriptor, cx_mem h) { return g->vmm_export(descriptor, h, 1, 0); }
static inline int cx_vmm_import(const cx_gpu *g, cx_mem *h, int descriptor) { return g->vmm_import(h, (void *)(intptr_t)descriptor, 1); }

static inline int cx_ipc_get(const cx_gpu *g, cx_shared *h, cx_ptr p) { return g->ipc_get(h, p); }
/* Flag 1 enables access to the memory of a peer device. It is the one flag. */
static inline int cx_ipc_open(const cx_gpu *g, cx_ptr *p, const cx_shared *h) { return g->ipc_open(p, *h, 1); }
static inline int cx_ipc_close(const cx_gpu *g, cx_ptr p) { return g->ipc_close(p); }

#endif
