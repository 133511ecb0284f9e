/*
 * The exported functions of the make-believe accelerator: libcuda.so.1, or
 * libamdhip64.so.6 when compiled with HIP defined.
 */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HIP
#define FN(cuda, hip) hip
#define NAME "CX Fake AMD GPU"
#define ARCH "gfx942:sramecc+:xnack-"
#define VERSION 60443483
#define THREADS_START_ON 0 /* a thread that set no device uses the first */
#else
#define FN(cuda, hip) cuda
#define NAME "CX Fake NVIDIA GPU"
#define ARCH "sm_90"
#define VERSION 13000
#define THREADS_START_ON -1
#endif

/* Code, CUDA's name, HIP's name. */
static const struct { int code; const char *name; } names[] = {
	{OK, FN("CUDA_SUCCESS", "hipSuccess")},
	{INVALID_VALUE, FN("CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue")},
	{OUT_OF_MEMORY, FN("CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory")},
	{NOT_INITIALIZED, FN("CUDA_ERROR_NOT_INITIALIZED", "hipErrorNotInitialized")},
	{NO_DEVICE, FN("CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice")},
	{INVALID_DEVICE, FN("CUDA_ERROR_INVALID_DEVICE", "hipErrorInvalidDevice")},
	{INVALID_IMAGE, FN("CUDA_ERROR_INVALID_IMAGE", "hipErrorInvalidImage")},
	{INVALID_CONTEXT, FN("CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext")},
	{NO_BINARY, FN("CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorNoBinaryForGpu")},
	{INVALID_HANDLE, FN("CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle")},
	{ILLEGAL_STATE, FN("CUDA_ERROR_ILLEGAL_STATE", "hipErrorIllegalState")},
	{NOT_FOUND, FN("CUDA_ERROR_NOT_FOUND", "hipErrorNotFound")},
	{NOT_READY, FN("CUDA_ERROR_NOT_READY", "hipErrorNotReady")},
	{ILLEGAL_ADDRESS, FN("CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress")},
	{ALREADY_REGISTERED, FN("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "hipErrorHostMemoryAlreadyRegistered")},
	{NOT_REGISTERED, FN("CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "hipErrorHostMemoryNotRegistered")},
	{LAUNCH_FAILED, FN("CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure")},
	{NOT_PERMITTED, FN("CUDA_ERROR_NOT_PERMITTED", "hipErrorNotPermitted")},
	{NOT_SUPPORTED, FN("CUDA_ERROR_NOT_SUPPORTED", "hipErrorNotSupported")},
	{SYSTEM_NOT_READY, FN("CUDA_ERROR_SYSTEM_NOT_READY", NULL)},
	{SYSTEM_DRIVER_MISMATCH, FN("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", NULL)},
	{CAPTURE_UNSUPPORTED, FN("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "hipErrorStreamCaptureUnsupported")},
	{CAPTURE_INVALIDATED, FN("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "hipErrorStreamCaptureInvalidated")},
	{CAPTURE_WRONG_THREAD, FN("CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "hipErrorStreamCaptureWrongThread")},
	{UNKNOWN, FN("CUDA_ERROR_UNKNOWN", "hipErrorUnknown")},
};

static const char *error_name(int code)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].code == code)
			return names[i].name;
	return NULL;
}

#ifdef HIP
EXPORT const char *hipGetErrorName(int code)
{
	const char *name = error_name(code);
	return name ? name : "hipErrorUnknown";
}
#else
EXPORT int cuGetErrorName(int code, const char **name)
{
	*name = error_name(code);
	return *name ? OK : INVALID_VALUE;
}
#endif

EXPORT int FN(cuInit, hipInit)(unsigned flags)
{
	ENTER();
	return flags ? INVALID_VALUE : fake_init(NAME, ARCH, VERSION, FN("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), THREADS_START_ON);
}

EXPORT int FN(cuDriverGetVersion, hipRuntimeGetVersion)(int *version)
{
	ENTER();
	*version = settings.version;
	return OK;
}

EXPORT int FN(cuDeviceGetCount, hipGetDeviceCount)(int *count)
{
	ENTER();
	return fake_count(count);
}

EXPORT int FN(cuDeviceGet, hipDeviceGet)(int *device, int index)
{
	ENTER();
	*device = index;
	return fake_device(index) ? OK : INVALID_DEVICE;
}

EXPORT int FN(cuDeviceGetName, hipDeviceGetName)(char *name, int cap, int device)
{
	ENTER();
	if (!fake_device(device))
		return INVALID_DEVICE;
	fake_name(settings.visible[device], name, cap);
	return OK;
}

EXPORT int FN(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char *name, int cap, int device)
{
	ENTER();
	if (!fake_device(device))
		return INVALID_DEVICE;
	snprintf(name, cap, "0000:%02X:00.0", 0x10 + settings.visible[device]);
	return OK;
}

enum {
	ATTR_MULTIPROCESSORS = FN(16, 63),
	ATTR_L2_BYTES = FN(38, 19),
	ATTR_VMM = FN(102, 89),
	ATTR_VMM_FD = 103, /* CUDA's alone */
	ATTR_VMM_FABRIC = 128,
	ATTR_MAJOR = 75, /* CUDA's alone */
	ATTR_MINOR = 76,
};

EXPORT int FN(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *value, int attribute, int device)
{
	ENTER();
	int compute = 0;
	if (!fake_device(device))
		return INVALID_DEVICE;
	sscanf(settings.arch, "sm_%d", &compute);
	switch (attribute) {
	case ATTR_MULTIPROCESSORS: *value = 4; return OK;
	case ATTR_L2_BYTES: *value = 8 << 20; return OK;
	case ATTR_VMM: *value = 1; return OK;
#ifndef HIP
	case ATTR_VMM_FD: {
		const char *set = getenv("CX_FAKE_VMM_FD");
		*value = !set || strcmp(set, "0") != 0;
		return OK;
	}
	case ATTR_VMM_FABRIC: *value = getenv("CX_FAKE_FABRIC") != NULL; return OK;
#endif
	case ATTR_MAJOR: *value = compute / 10; return OK;
	case ATTR_MINOR: *value = compute % 10; return OK;
	}
	return INVALID_VALUE;
}

EXPORT int FN(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer)(int *can, int device, int peer)
{
	ENTER();
	if (!fake_device(device) || !fake_device(peer))
		return INVALID_DEVICE;
	*can = device != peer;
	return OK;
}

#ifdef HIP
EXPORT int hipSetDevice(int device)
{
	ENTER();
	return fake_bind_index(device);
}

/* hipDeviceProp_tR0600: name at 0, gcnArchName at 1160. */
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device)
{
	ENTER();
	if (!fake_device(device))
		return INVALID_DEVICE;
	memset(properties, 0, 1472);
	fake_name(settings.visible[device], properties, 256);
	snprintf((char *)properties + 1160, 256, "%s", settings.arch);
	return OK;
}
#else
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
	ENTER();
	return fake_retain(device, (struct device **)context);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
	ENTER();
	return fake_release(device);
}

EXPORT int cuCtxSetCurrent(void *context)
{
	ENTER();
	return fake_bind(context);
}
#endif

/* The current device, or the error of having none. */
#define CURRENT(d)                       \
	struct device *d;                \
	do {                             \
		int none = fake_current(&d); \
		if (none)                \
			return none;     \
	} while (0)

/* … for calls that a capture of this thread forbids. */
#define CURRENT_UNCAPTURED(d)             \
	CURRENT(d);                       \
	do {                              \
		int bad = fake_unsafe(d); \
		if (bad)                  \
			return bad;       \
	} while (0)

#define FIND(s, handle)                           \
	struct stream *s;                         \
	do {                                      \
		int bad = fake_stream_find(handle, &s); \
		if (bad)                          \
			return bad;               \
	} while (0)

EXPORT int FN(cuCtxSynchronize, hipDeviceSynchronize)(void)
{
	ENTER();
	CURRENT_UNCAPTURED(d);
	return fake_device_sync(d);
}

EXPORT int FN(cuMemGetInfo_v2, hipMemGetInfo)(size_t *free, size_t *total)
{
	ENTER();
	CURRENT(d);
	*total = d->total;
	*free = d->total - d->used;
	return OK;
}

EXPORT int FN(cuMemAlloc_v2, hipMalloc)(uint64_t *p, size_t bytes)
{
	ENTER();
	CURRENT_UNCAPTURED(d);
	return fake_alloc(d, bytes, p);
}

EXPORT int FN(cuMemFree_v2, hipFree)(uint64_t p)
{
	ENTER();
	CURRENT_UNCAPTURED(d);
	(void)d;
	return fake_free(p);
}

EXPORT int FN(cuMemHostAlloc, hipHostMalloc)(void **p, size_t bytes, unsigned flags)
{
	ENTER();
	(void)flags;
	CURRENT_UNCAPTURED(d);
	(void)d;
	return fake_host_alloc(p, bytes);
}

EXPORT int FN(cuMemFreeHost, hipHostFree)(void *p)
{
	ENTER();
	CURRENT_UNCAPTURED(d);
	(void)d;
	return fake_host_free(p);
}

EXPORT int FN(cuMemHostRegister_v2, hipHostRegister)(void *p, size_t bytes, unsigned flags)
{
	ENTER();
	(void)flags;
	CURRENT_UNCAPTURED(d);
	(void)d;
	return fake_host_register(p, bytes);
}

EXPORT int FN(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer)(uint64_t *device, void *p, unsigned flags)
{
	ENTER();
	CURRENT(d);
	(void)d;
	return flags == 0 ? fake_registered_address(device, p) : INVALID_VALUE;
}

EXPORT int FN(cuMemHostUnregister, hipHostUnregister)(void *p)
{
	ENTER();
	CURRENT_UNCAPTURED(d);
	(void)d;
	return fake_host_unregister(p);
}

EXPORT int FN(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(uint64_t dst, const void *src, size_t bytes, void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_copy_in(dst, src, bytes, s);
}

EXPORT int FN(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *dst, uint64_t src, size_t bytes, void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_copy_out(dst, src, bytes, s);
}

EXPORT int FN(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(uint64_t dst, uint64_t src, size_t bytes, void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_copy(dst, src, bytes, s);
}

/* The copies of a batch have no order, here the opposite one. The stream has a name, and the
 * attributes, where there are any, begin with the first copy. */
static int copy_batch(const uint64_t *dst, const uint64_t *src, const size_t *bytes, size_t n, const void *attributes, const size_t *firsts, size_t kinds, void *stream)
{
	FIND(s, stream);
	if (!stream || n == 0 || kinds > n || (kinds > 0 && (!attributes || !firsts || firsts[0] != 0)) || (FN(1, 0) && kinds == 0))
		return INVALID_VALUE;
	if (kinds > 0 && (*(const int *)attributes < 1 || *(const int *)attributes > 3)) /* when the sources are read */
		return INVALID_VALUE;
	for (size_t i = n; i-- > 0;) {
		int rc;
		if (bytes[i] == 0)
			return INVALID_VALUE;
		if (!fake_owner(src[i]))
			rc = fake_is_pinned((void *)src[i], bytes[i]) ? fake_copy_in(dst[i], (void *)src[i], bytes[i], s) : INVALID_VALUE;
		else if (!fake_owner(dst[i]))
			rc = fake_is_pinned((void *)dst[i], bytes[i]) ? fake_copy_out((void *)dst[i], src[i], bytes[i], s) : INVALID_VALUE;
		else
			rc = fake_copy(dst[i], src[i], bytes[i], s);
		if (rc)
			return rc;
	}
	return OK;
}

EXPORT int FN(cuMemcpyBatchAsync, hipMemcpyBatchAsync)(const uint64_t *dst, const uint64_t *src, const size_t *bytes, size_t n, const void *attributes, const size_t *firsts, size_t kinds, size_t *failed, void *stream)
{
	ENTER();
	return failed ? copy_batch(dst, src, bytes, n, attributes, firsts, kinds, stream) : INVALID_VALUE;
}

#ifndef HIP
EXPORT int cuMemcpyBatchAsync_v2(const uint64_t *dst, const uint64_t *src, const size_t *bytes, size_t n, const void *attributes, const size_t *firsts, size_t kinds, void *stream)
{
	ENTER();
	return copy_batch(dst, src, bytes, n, attributes, firsts, kinds, stream);
}
#endif

EXPORT int FN(cuMemsetD8Async, hipMemsetD8Async)(uint64_t dst, unsigned char value, size_t bytes, void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_set(dst, value, bytes, s);
}

EXPORT int FN(cuStreamCreate, hipStreamCreateWithFlags)(void **stream, unsigned flags)
{
	ENTER();
	CURRENT(d);
	return flags > 1 ? INVALID_VALUE : fake_stream_create(d, (struct stream **)stream);
}

EXPORT int FN(cuStreamDestroy_v2, hipStreamDestroy)(void *stream)
{
	ENTER();
	FIND(s, stream);
	return stream ? fake_stream_destroy(s) : INVALID_HANDLE;
}

EXPORT int FN(cuStreamSynchronize, hipStreamSynchronize)(void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_stream_sync(s);
}

EXPORT int FN(cuStreamQuery, hipStreamQuery)(void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_stream_query(s);
}

EXPORT int FN(cuEventCreate, hipEventCreateWithFlags)(void **event, unsigned flags)
{
	ENTER();
	CURRENT(d);
	(void)d;
	return fake_event_create(event, flags);
}

EXPORT int FN(cuEventDestroy_v2, hipEventDestroy)(void *event)
{
	ENTER();
	return fake_event_destroy(event);
}

EXPORT int FN(cuEventRecord, hipEventRecord)(void *event, void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_event_record(event, s);
}

EXPORT int FN(cuEventRecordWithFlags, hipEventRecordWithFlags)(void *event, void *stream, unsigned flags)
{
	ENTER();
	FIND(s, stream);
	return flags == 1 ? fake_event_record_external(event, s) : INVALID_VALUE;
}

EXPORT int FN(cuStreamWaitEvent, hipStreamWaitEvent)(void *stream, void *event, unsigned flags)
{
	ENTER();
	FIND(s, stream);
	return fake_stream_wait(s, event);
}

#ifdef HIP
EXPORT int hipStreamWaitValue32(void *stream, uint64_t at, uint32_t value, unsigned flags, uint32_t mask)
{
	ENTER();
	FIND(s, stream);
	return flags == 0 && mask == UINT32_MAX ? fake_wait_value(s, at, value) : INVALID_VALUE;
}
#else
EXPORT int cuStreamWaitValue32_v2(void *stream, uint64_t at, uint32_t value, unsigned flags)
{
	ENTER();
	FIND(s, stream);
	return flags == 0 ? fake_wait_value(s, at, value) : INVALID_VALUE;
}
#endif

EXPORT int FN(cuStreamWriteValue32_v2, hipStreamWriteValue32)(void *stream, uint64_t at, uint32_t value, unsigned flags)
{
	ENTER();
	FIND(s, stream);
	return flags == 0 ? fake_write_value(s, at, value) : INVALID_VALUE;
}

EXPORT int FN(cuEventQuery, hipEventQuery)(void *event)
{
	ENTER();
	return fake_event_query(event);
}

EXPORT int FN(cuEventElapsedTime, hipEventElapsedTime)(float *ms, void *start, void *end)
{
	ENTER();
	return fake_event_elapsed(ms, start, end);
}

EXPORT int FN(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void *stream, int mode)
{
	ENTER();
	FIND(s, stream);
	return mode == 1 ? fake_capture_begin(s) : INVALID_VALUE;
}

EXPORT int FN(cuStreamEndCapture, hipStreamEndCapture)(void *stream, void **graph)
{
	ENTER();
	FIND(s, stream);
	return fake_capture_end(s, (struct graph **)graph);
}

EXPORT int FN(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)(void **exec, void *graph, unsigned long long flags)
{
	ENTER();
	return flags ? INVALID_VALUE : fake_graph_instantiate(exec, graph);
}

EXPORT int FN(cuGraphUpload, hipGraphUpload)(void *exec, void *stream)
{
	ENTER();
	FIND(s, stream);
	(void)s;
	return exec ? OK : INVALID_VALUE;
}

EXPORT int FN(cuGraphLaunch, hipGraphLaunch)(void *exec, void *stream)
{
	ENTER();
	FIND(s, stream);
	return fake_graph_launch(exec, s);
}

EXPORT int FN(cuGraphDestroy, hipGraphDestroy)(void *graph)
{
	ENTER();
	return fake_graph_destroy(graph, GRAPH);
}

EXPORT int FN(cuGraphExecDestroy, hipGraphExecDestroy)(void *exec)
{
	ENTER();
	return fake_graph_destroy(exec, EXEC);
}

EXPORT int FN(cuModuleLoadData, hipModuleLoadData)(void **module, const void *image)
{
	ENTER();
	CURRENT_UNCAPTURED(d);
	(void)d;
	return fake_module_load(module, image);
}

EXPORT int FN(cuModuleUnload, hipModuleUnload)(void *module)
{
	ENTER();
	CURRENT_UNCAPTURED(d);
	(void)d;
	return fake_module_unload(module);
}

EXPORT int FN(cuModuleGetFunction, hipModuleGetFunction)(void **function, void *module, const char *name)
{
	ENTER();
	CURRENT(d);
	(void)d;
	return fake_module_function(function, module, name);
}

EXPORT int FN(cuLaunchKernel, hipModuleLaunchKernel)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, void *stream, void **params, void **extra)
{
	ENTER();
	FIND(s, stream);
	return fake_launch(f, gx, gy, gz, bx, by, bz, shared, s, params, extra);
}

/* CUmemAllocationProp, as far as it is looked at. */
struct prop {
	int type, handle_types, location_type, location_id;
};

static int good(const struct prop *p)
{
	return p && p->type == 1 && p->location_type == 1 && fake_device(p->location_id);
}

EXPORT int FN(cuMemGetAllocationGranularity, hipMemGetAllocationGranularity)(size_t *bytes, const struct prop *prop, int option)
{
	ENTER();
	*bytes = VMM_GRANULE;
	return good(prop) && (option == 0 || option == 1) ? OK : INVALID_VALUE;
}

EXPORT int FN(cuMemCreate, hipMemCreate)(uint64_t *handle, size_t bytes, const struct prop *prop, unsigned long long flags)
{
	ENTER();
	CURRENT(d);
	(void)d;
	return good(prop) && !flags ? fake_vmm_create(fake_device(prop->location_id), bytes, prop->handle_types, handle) : INVALID_VALUE;
}

EXPORT int FN(cuMemRelease, hipMemRelease)(uint64_t handle)
{
	ENTER();
	return fake_vmm_release(handle);
}

EXPORT int FN(cuMemAddressReserve, hipMemAddressReserve)(uint64_t *p, size_t bytes, size_t alignment, uint64_t at, unsigned long long flags)
{
	ENTER();
	CURRENT(d);
	return alignment > VMM_GRANULE || at || flags ? INVALID_VALUE : fake_vmm_reserve(d, bytes, p);
}

EXPORT int FN(cuMemAddressFree, hipMemAddressFree)(uint64_t p, size_t bytes)
{
	ENTER();
	return fake_vmm_address_free(p, bytes);
}

EXPORT int FN(cuMemMap, hipMemMap)(uint64_t p, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
	ENTER();
	return offset || flags ? INVALID_VALUE : fake_vmm_map(p, bytes, handle);
}

EXPORT int FN(cuMemUnmap, hipMemUnmap)(uint64_t p, size_t bytes)
{
	ENTER();
	return fake_vmm_unmap(p, bytes);
}

/* CUmemAccessDesc. */
struct access {
	int location_type, location_id, flags;
};

EXPORT int FN(cuMemSetAccess, hipMemSetAccess)(uint64_t p, size_t bytes, const struct access *desc, size_t count)
{
	ENTER();
	if (!desc || !count)
		return INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		int rc = desc[i].location_type == 1 && desc[i].flags == 3 ? fake_vmm_access(p, bytes, desc[i].location_id) : INVALID_VALUE;
		if (rc)
			return rc;
	}
	return OK;
}

#ifndef HIP
EXPORT int cuMemExportToShareableHandle(void *descriptor, uint64_t handle, int type, unsigned long long flags)
{
	ENTER();
	return type == VMM_FILE_DESCRIPTOR && !flags ? fake_vmm_export(descriptor, handle) : INVALID_VALUE;
}

/* The descriptor itself stands in the pointer. */
EXPORT int cuMemImportFromShareableHandle(uint64_t *handle, void *descriptor, int type)
{
	ENTER();
	CURRENT(d);
	return type == VMM_FILE_DESCRIPTOR ? fake_vmm_import(d, (int)(intptr_t)descriptor, handle) : INVALID_VALUE;
}
#endif

EXPORT int FN(cuIpcGetMemHandle, hipIpcGetMemHandle)(struct shared *handle, uint64_t p)
{
	ENTER();
	return fake_share(handle, p);
}

EXPORT int FN(cuIpcOpenMemHandle_v2, hipIpcOpenMemHandle)(uint64_t *p, struct shared handle, unsigned flags)
{
	ENTER();
	CURRENT(d);
	return flags == 1 ? fake_open_shared(d, p, &handle) : INVALID_VALUE;
}

EXPORT int FN(cuIpcCloseMemHandle, hipIpcCloseMemHandle)(uint64_t p)
{
	ENTER();
	return fake_close_shared(p);
}
