// The C ABI of the HSA runtime as declared by this project, of hsa.h 1.2 and hsa_ext_amd.h 1.x;
// nothing here is a vendor header.
#ifndef CX_HSA_ABI_H
#define CX_HSA_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { uint64_t handle; } cx_hsa_agent;
typedef struct { uint64_t handle; } cx_hsa_signal;

// hsa_amd_pointer_info_t. size is that of this structure.
typedef struct {
	uint32_t size;
	int type;
	void *agentBase, *hostBase;
	size_t bytes;
	void *user;
	cx_hsa_agent owner;
	uint32_t flags;
} cx_hsa_pointer_info;

// hsa_amd_profiling_async_copy_time_t, in ticks of the system's clock.
typedef struct { uint64_t start, end; } cx_hsa_copy_time;

enum {
	CX_HSA_VERSION_MAJOR = 0, CX_HSA_VERSION_MINOR = 1, CX_HSA_TIMESTAMP_FREQUENCY = 3, // of the system
	CX_HSA_DEVICE_TYPE = 17, CX_HSA_GPU = 1,                                            // of an agent
	CX_HSA_LESS = 2, CX_HSA_ACTIVE = 1,                                                 // of waits for a signal
};

// result, name after "hsa_" and parameters. A result of type int is a status.
#define CX_HSA_FUNCTIONS(X) \
	X(int, init, (void)) \
	X(int, shut_down, (void)) \
	X(int, status_string, (int status, const char **text)) \
	X(int, system_get_info, (int attribute, void *value)) \
	X(int, agent_get_info, (cx_hsa_agent agent, int attribute, void *value)) \
	X(int, signal_create, (int64_t initial, uint32_t consumers, const cx_hsa_agent *agents, cx_hsa_signal *signal)) \
	X(int, signal_destroy, (cx_hsa_signal signal)) \
	X(int64_t, signal_load_scacquire, (cx_hsa_signal signal)) \
	X(void, signal_store_screlease, (cx_hsa_signal signal, int64_t value)) \
	X(int64_t, signal_wait_scacquire, (cx_hsa_signal signal, int condition, int64_t value, uint64_t timeout, int state)) \
	X(int, amd_pointer_info, (const void *p, cx_hsa_pointer_info *info, void *(*alloc)(size_t), uint32_t *count, cx_hsa_agent **accessible)) \
	X(int, amd_agents_allow_access, (uint32_t count, const cx_hsa_agent *agents, const uint32_t *flags, const void *p)) \
	X(int, amd_memory_copy_engine_status, (cx_hsa_agent dst, cx_hsa_agent src, uint32_t *engines)) \
	X(int, amd_memory_async_copy_on_engine, (void *dst, cx_hsa_agent dstAgent, const void *src, cx_hsa_agent srcAgent, size_t bytes, uint32_t count, const cx_hsa_signal *after, cx_hsa_signal done, int engine, bool force)) \
	X(int, amd_profiling_async_copy_enable, (bool enable)) \
	X(int, amd_profiling_get_async_copy_time, (cx_hsa_signal signal, cx_hsa_copy_time *time))

typedef struct {
#define CX_HSA_FIELD(result, name, params) result (*name) params;
	CX_HSA_FUNCTIONS(CX_HSA_FIELD)
#undef CX_HSA_FIELD
} cx_hsa_library;

// How many entries the table has, and the name of entry i.
int cx_hsa_count(void);
const char *cx_hsa_name(int i);
// cx_hsa_set fills entry i.
void cx_hsa_set(cx_hsa_library *f, int i, void *address);

enum { CX_HSA_MAX_AGENTS = 64 };

// cx_hsa_locate returns the allocation at p, and the agents that may access it, at most
// CX_HSA_MAX_AGENTS.
int cx_hsa_locate(const cx_hsa_library *f, uintptr_t p, cx_hsa_pointer_info *info, cx_hsa_agent *accessible, uint32_t *count);

// Calls by numbers, as Go makes them.
const char *cx_hsa_text(const cx_hsa_library *f, int status);
int cx_hsa_init(const cx_hsa_library *f);
int cx_hsa_shut_down(const cx_hsa_library *f);
int cx_hsa_system(const cx_hsa_library *f, int attribute, void *value);
int cx_hsa_device_type(const cx_hsa_library *f, uint64_t agent, int *type);
int cx_hsa_signal_create(const cx_hsa_library *f, int64_t value, uint64_t *signal);
int cx_hsa_signal_destroy(const cx_hsa_library *f, uint64_t signal);
void cx_hsa_signal_store(const cx_hsa_library *f, uint64_t signal, int64_t value);
int64_t cx_hsa_signal_load(const cx_hsa_library *f, uint64_t signal);
int64_t cx_hsa_signal_wait(const cx_hsa_library *f, uint64_t signal);
int cx_hsa_allow(const cx_hsa_library *f, uint32_t count, const uint64_t *agents, uintptr_t p);
int cx_hsa_engines(const cx_hsa_library *f, uint64_t dst, uint64_t src, uint32_t *engines);
int cx_hsa_copy(const cx_hsa_library *f, uintptr_t dst, uint64_t dstAgent, uintptr_t src, uint64_t srcAgent, size_t bytes, uint32_t count, const uint64_t *after, uint64_t done, uint32_t engine);
int cx_hsa_profile(const cx_hsa_library *f);
int cx_hsa_times(const cx_hsa_library *f, uint64_t signal, cx_hsa_copy_time *time);

#endif
