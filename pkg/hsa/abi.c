#include "abi.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	size_t offset;
} entries[] = {
#define CX_ENTRY(result, name, params) {"hsa_" #name, offsetof(cx_hsa_library, name)},
	CX_HSA_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};

int cx_hsa_count(void) { return sizeof entries / sizeof entries[0]; }

const char *cx_hsa_name(int i) { return entries[i].name; }

void cx_hsa_set(cx_hsa_library *f, int i, void *address) { *(void **)((char *)f + entries[i].offset) = address; }

static cx_hsa_agent agent(uint64_t handle) { return (cx_hsa_agent){handle}; }
static cx_hsa_signal signal(uint64_t handle) { return (cx_hsa_signal){handle}; }

int cx_hsa_locate(const cx_hsa_library *f, uintptr_t p, cx_hsa_pointer_info *info, cx_hsa_agent *accessible, uint32_t *count) {
	cx_hsa_agent *list = NULL;
	memset(info, 0, sizeof *info);
	info->size = sizeof *info;
	*count = 0;
	int status = f->amd_pointer_info((const void *)p, info, malloc, count, &list);
	if (status == 0 && list) {
		if (*count > CX_HSA_MAX_AGENTS)
			*count = CX_HSA_MAX_AGENTS;
		memcpy(accessible, list, *count * sizeof *list);
	}
	free(list);
	return status;
}

const char *cx_hsa_text(const cx_hsa_library *f, int status) {
	const char *text = NULL;
	return f->status_string(status, &text) == 0 ? text : NULL;
}

int cx_hsa_init(const cx_hsa_library *f) { return f->init(); }
int cx_hsa_shut_down(const cx_hsa_library *f) { return f->shut_down(); }
int cx_hsa_system(const cx_hsa_library *f, int attribute, void *value) { return f->system_get_info(attribute, value); }
int cx_hsa_device_type(const cx_hsa_library *f, uint64_t a, int *type) { return f->agent_get_info(agent(a), CX_HSA_DEVICE_TYPE, type); }

int cx_hsa_signal_create(const cx_hsa_library *f, int64_t value, uint64_t *s) {
	cx_hsa_signal made = {0};
	int status = f->signal_create(value, 0, NULL, &made);
	*s = made.handle;
	return status;
}

int cx_hsa_signal_destroy(const cx_hsa_library *f, uint64_t s) { return f->signal_destroy(signal(s)); }
void cx_hsa_signal_store(const cx_hsa_library *f, uint64_t s, int64_t value) { f->signal_store_screlease(signal(s), value); }
int64_t cx_hsa_signal_load(const cx_hsa_library *f, uint64_t s) { return f->signal_load_scacquire(signal(s)); }

// A wait may end early.
int64_t cx_hsa_signal_wait(const cx_hsa_library *f, uint64_t s) {
	int64_t value;
	do
		value = f->signal_wait_scacquire(signal(s), CX_HSA_LESS, 1, UINT64_MAX, CX_HSA_ACTIVE);
	while (value >= 1);
	return value;
}

int cx_hsa_allow(const cx_hsa_library *f, uint32_t count, const uint64_t *agents, uintptr_t p) {
	return f->amd_agents_allow_access(count, (const cx_hsa_agent *)agents, NULL, (const void *)p);
}

int cx_hsa_engines(const cx_hsa_library *f, uint64_t dst, uint64_t src, uint32_t *engines) {
	return f->amd_memory_copy_engine_status(agent(dst), agent(src), engines);
}

int cx_hsa_copy(const cx_hsa_library *f, uintptr_t dst, uint64_t dstAgent, uintptr_t src, uint64_t srcAgent, size_t bytes, uint32_t count, const uint64_t *after, uint64_t done, uint32_t engine) {
	return f->amd_memory_async_copy_on_engine((void *)dst, agent(dstAgent), (const void *)src, agent(srcAgent), bytes,
		count, count ? (const cx_hsa_signal *)after : NULL, signal(done), (int)engine, true);
}

int cx_hsa_profile(const cx_hsa_library *f) { return f->amd_profiling_async_copy_enable(true); }
int cx_hsa_times(const cx_hsa_library *f, uint64_t s, cx_hsa_copy_time *time) { return f->amd_profiling_get_async_copy_time(signal(s), time); }
