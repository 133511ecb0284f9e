// The C ABI of NCCL EP as declared by this project, of nccl_ep.h 0.1.0 with API version 2;
// nothing here is a vendor header. A library reads only the part of a struct that it knows
// and that the size field covers, so older libraries accept the latest struct.
#ifndef CX_NCCL_EPLIB_ABI_H
#define CX_NCCL_EPLIB_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { CX_EP_API_VERSION = 2 };
static const uint32_t cx_ep_magic = 0xC00FFFEEu, cx_ep_tensor_magic = 0xCAFECAFEu;

enum { CX_EP_LOW_LATENCY, CX_EP_HIGH_THROUGHPUT };                          // ncclEpAlgorithm_t
enum { CX_EP_EXPERT_MAJOR = 1, CX_EP_RANK_MAJOR, CX_EP_FLAT };              // ncclEpLayout_t
enum { CX_EP_ZERO_COPY_ON = 2 };                                            // ncclEpZeroCopyMode_t
enum { CX_EP_LOCAL_IDS = 1 };                                               // ncclEpExpertIdKind_t
enum { CX_EP_QUANT_NONE, CX_EP_QUANT_FORWARD, CX_EP_QUANT_DS_FP8E3M4 };     // ncclEpDispQuant_t

// ncclEpTensor_t
typedef struct {
	uint32_t size, magic, ndim;
	int32_t type; // ncclDataType_t
	void *data, *window;
	uint64_t windowOffset;
	size_t *sizes; // [ndim]
} cx_ep_tensor;

// ncclEpGroupConfig_t. The library chooses the value of fields that are zero.
typedef struct {
	uint32_t size, magic, version;
	int32_t algorithm;
	uint32_t experts, maxSentTokens, maxReceivedTokens, maxTokenBytes;
	unsigned long rdmaBytes;
	uint32_t queuePairs, channels, sms;
	void *alloc, *free, *context;
	uint32_t enableMask;
	uint64_t timeoutNS;
	int32_t zeroCopy, overflow;
	uint32_t topk;
	uint8_t padding[4];
} cx_ep_group_config;

// ncclEpLayoutInfo_t
typedef struct {
	uint32_t size, magic;
	cx_ep_tensor *expertCounters, *sourceRankCounters, *expertOffsets, *receivedTotal;
	int32_t idKind;
	uint8_t padding[4];
} cx_ep_layout_info;

// ncclEpDispatchInputs_t and ncclEpCombineInputs_t
typedef struct {
	uint32_t size, magic;
	cx_ep_tensor *tokens, *weights, *scales;
} cx_ep_inputs;

// ncclEpDispatchOutputs_t
typedef struct {
	uint32_t size, magic;
	cx_ep_tensor *tokens, *weights, *scales, *ids;
} cx_ep_dispatch_outputs;

// ncclEpCombineOutputs_t
typedef struct {
	uint32_t size, magic;
	cx_ep_tensor *tokens, *weights;
} cx_ep_combine_outputs;

// ncclEpDispatchConfig_t
typedef struct {
	uint32_t size, magic, sendOnly, roundScales;
	int32_t direction, quantization;
} cx_ep_dispatch_config;

_Static_assert(sizeof(cx_ep_tensor) == 48, "ncclEpTensor_t, version 1");
_Static_assert(sizeof(cx_ep_group_config) == 112, "ncclEpGroupConfig_t, version 2");
_Static_assert(sizeof(cx_ep_layout_info) == 48, "ncclEpLayoutInfo_t, version 2");
_Static_assert(sizeof(cx_ep_inputs) == 32, "ncclEpDispatchInputs_t, version 1; ncclEpCombineInputs_t, version 2");
_Static_assert(sizeof(cx_ep_dispatch_outputs) == 40, "ncclEpDispatchOutputs_t, version 1");
_Static_assert(sizeof(cx_ep_combine_outputs) == 24, "ncclEpCombineOutputs_t, version 1");
_Static_assert(sizeof(cx_ep_dispatch_config) == 24, "ncclEpDispatchConfig_t, version 2");

// name, parameters. The symbol is the name with "ncclEp" before it; all return
// ncclResult_t. Arguments that are always NULL here have no type of their own.
#define CX_EP_FUNCTIONS(X) \
	X(GetVersion, (int *)) \
	X(CreateGroup, (void **, void *, const cx_ep_group_config *)) \
	X(GroupDestroy, (void *)) \
	X(InitHandle, (void **, void *, int, const void *, int, const cx_ep_tensor *)) \
	X(HandleDestroy, (void *)) \
	X(UpdateHandle, (void *, const cx_ep_tensor *, const cx_ep_layout_info *, void *)) \
	X(Dispatch, (void *, const cx_ep_inputs *, const cx_ep_dispatch_outputs *, const cx_ep_layout_info *, const cx_ep_dispatch_config *, void *)) \
	X(Combine, (void *, const cx_ep_inputs *, const cx_ep_combine_outputs *, const void *, void *)) \
	X(Complete, (void *, const void *, void *))

typedef struct {
#define CX_EP_FIELD(name, params) int (*name) params;
	CX_EP_FUNCTIONS(CX_EP_FIELD)
#undef CX_EP_FIELD
} cx_ep_library;

// How many entries the table has, and the symbol of entry i.
int cx_ep_count(void);
const char *cx_ep_symbol(int i);
// cx_ep_set fills entry i.
void cx_ep_set(cx_ep_library *f, int i, void *address);

// An array of a call, with its extents.
typedef struct {
	cx_ep_tensor tensor;
	size_t sizes[3];
} cx_ep_array;

enum { CX_EP_UPDATE, CX_EP_DISPATCH, CX_EP_COMBINE };

// A call with all that its arguments point at.
typedef struct {
	int kind;
	int used; // of arrays
	cx_ep_array arrays[8];
	cx_ep_tensor *ids; // of an update
	cx_ep_layout_info info;
	int hasInfo;
	cx_ep_inputs in;
	cx_ep_dispatch_outputs dispatched;
	cx_ep_combine_outputs combined;
	cx_ep_dispatch_config config;
} cx_ep_call;

// cx_ep_new_call returns a call without arrays; free() frees it.
cx_ep_call *cx_ep_new_call(int kind);
// cx_ep_add adds an array to a call, at the begin of a window unless that is NULL.
cx_ep_tensor *cx_ep_add(cx_ep_call *c, int type, uintptr_t data, void *window, int ndim, const size_t *sizes);
// cx_ep_enqueue makes the call, and completes it. It returns the result of the function
// that failed, and its name.
int cx_ep_enqueue(const cx_ep_library *f, void *handle, const cx_ep_call *c, uintptr_t stream, const char **name);

#endif
