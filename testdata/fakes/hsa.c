/*
 * The HSA runtime: libhsa-runtime64.so.1, over the memory of the HIP stand-in.
 *
 * What it enforces is documented in hsa.h and hsa_ext_amd.h, or done by the runtime itself
 * (ROCR-Runtime c7785a6d): nothing works before hsa_init; handles are live ones; an engine id has
 * one bit, of an engine that the copying GPU has; a GPU's own engines copy from it, and those
 * for XGMI alone to another GPU; both ends are in live memory of the agents that are named,
 * which the copying agent may access; a copy begins when all signals before it are 0, and
 * lowers its own, or makes it negative. An engine makes its copies one after the other. Times
 * exist where profiling was enabled when the copy was submitted.
 *
 *   CX_FAKE_HSA_BUSY   mask of engines that another program has
 *   CX_FAKE_HSA_FAIL   n: the n-th copy fails after it was submitted
 *   CX_FAKE_HSA_CUT    n: from the n-th copy on, the last word does not arrive
 *   CX_FAKE_HSA_DENY   1: host memory is accessible to no GPU until it is allowed
 */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	ERROR = 0x1000, INVALID_ARGUMENT = 0x1001, INVALID_AGENT = 0x1004, INVALID_SIGNAL = 0x1006, OUT_OF_RESOURCES = 0x1008,
	NOT_OPEN = 0x100B,
};
enum { CPU = 0x1000, FIRST_GPU = 0x2000, ENGINES = 8, XGMI_FROM = 2, SIGNALS = 1 << 16, FREQUENCY = 100000000 };

typedef struct { uint64_t handle; } agent_t;
typedef struct { uint64_t handle; } signal_t;

struct info {
	uint32_t size;
	int type;
	void *agent_base, *host_base;
	size_t bytes;
	void *user;
	agent_t owner;
	uint32_t flags;
};

struct times {
	uint64_t start, end;
};

struct signal {
	int live, profiled;
	int64_t value;
	struct times times;
};

struct copy {
	void *dst;
	const void *src;
	size_t bytes;
	struct signal *done;
	int count, profiled, fails;
	struct copy *next;
	struct signal *after[];
};

/* One lock for all: every change of a signal wakes who waits. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int opened, profiling;
static long submitted;
static struct signal signals[SIGNALS];
static struct copy *queues[MAX_DEVICES][ENGINES];
static int started[MAX_DEVICES][ENGINES], busy[MAX_DEVICES][ENGINES];
static void *allowed; /* host memory that was allowed to all GPUs, if CX_FAKE_HSA_DENY is set */

static int (*find_memory)(const void *, struct place *);
static int (*count_devices)(int *);

static long setting(const char *name)
{
	const char *text = getenv(name);
	return text ? strtol(text, NULL, 0) : 0;
}

/* The caller holds the mutex. */
static void lower(struct signal *s, int64_t value)
{
	s->value = value;
	pthread_cond_broadcast(&changed);
}

static uint64_t ticks(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * (uint64_t)FREQUENCY + now.tv_nsec / (1000000000 / FREQUENCY) + 1;
}

EXPORT int hsa_init(void)
{
	void *hip;
	pthread_mutex_lock(&mutex);
	hip = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD);
	if (hip) {
		*(void **)&find_memory = dlsym(hip, "cx_fake_find");
		*(void **)&count_devices = dlsym(hip, "hipGetDeviceCount");
	}
	if (find_memory && count_devices)
		opened++;
	pthread_mutex_unlock(&mutex);
	return find_memory && count_devices ? 0 : OUT_OF_RESOURCES;
}

EXPORT int hsa_shut_down(void)
{
	int rc = NOT_OPEN;
	pthread_mutex_lock(&mutex);
	if (opened) {
		opened--;
		rc = 0;
	}
	pthread_mutex_unlock(&mutex);
	return rc;
}

/* First line of every function but hsa_init. */
#define OPEN()                  \
	do {                            \
		if (!opened)            \
			return NOT_OPEN; \
	} while (0)

EXPORT int hsa_status_string(int status, const char **text)
{
	static const struct {
		int status;
		const char *text;
	} texts[] = {
		{ERROR, "HSA_STATUS_ERROR"}, {INVALID_ARGUMENT, "HSA_STATUS_ERROR_INVALID_ARGUMENT"},
		{INVALID_AGENT, "HSA_STATUS_ERROR_INVALID_AGENT"}, {INVALID_SIGNAL, "HSA_STATUS_ERROR_INVALID_SIGNAL"},
		{OUT_OF_RESOURCES, "HSA_STATUS_ERROR_OUT_OF_RESOURCES"}, {NOT_OPEN, "HSA_STATUS_ERROR_NOT_INITIALIZED"},
	};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		if (texts[i].status == status) {
			*text = texts[i].text;
			return 0;
		}
	return INVALID_ARGUMENT;
}

EXPORT int hsa_system_get_info(int attribute, void *value)
{
	OPEN();
	switch (attribute) {
	case 0: *(uint16_t *)value = 1; return 0;
	case 1: *(uint16_t *)value = 1; return 0;
	case 3: *(uint64_t *)value = FREQUENCY; return 0;
	}
	return INVALID_ARGUMENT;
}

static int gpu_of(agent_t a)
{
	int count = 0;
	if (a.handle < FIRST_GPU || count_devices(&count) || a.handle >= (uint64_t)(FIRST_GPU + count))
		return -1;
	return (int)(a.handle - FIRST_GPU);
}

static int is_agent(agent_t a) { return a.handle == CPU || gpu_of(a) >= 0; }

EXPORT int hsa_agent_get_info(agent_t a, int attribute, void *value)
{
	OPEN();
	if (!is_agent(a))
		return INVALID_AGENT;
	if (attribute != 17)
		return INVALID_ARGUMENT;
	*(int *)value = a.handle != CPU;
	return 0;
}

EXPORT int hsa_signal_create(int64_t value, uint32_t consumers, const agent_t *agents, signal_t *out)
{
	int rc = OUT_OF_RESOURCES;
	OPEN();
	if (!out || (consumers > 0 && !agents))
		return INVALID_ARGUMENT;
	pthread_mutex_lock(&mutex);
	for (int i = 1; i < SIGNALS && rc; i++)
		if (!signals[i].live) {
			signals[i] = (struct signal){.live = 1, .value = value};
			out->handle = i;
			rc = 0;
		}
	pthread_mutex_unlock(&mutex);
	return rc;
}

/* NULL unless it is live. */
static struct signal *signal_of(signal_t s)
{
	return s.handle > 0 && s.handle < SIGNALS && signals[s.handle].live ? &signals[s.handle] : NULL;
}

EXPORT int hsa_signal_destroy(signal_t handle)
{
	struct signal *s;
	OPEN();
	pthread_mutex_lock(&mutex);
	s = signal_of(handle);
	if (s)
		s->live = 0;
	pthread_mutex_unlock(&mutex);
	return s ? 0 : INVALID_SIGNAL;
}

EXPORT int64_t hsa_signal_load_scacquire(signal_t s)
{
	int64_t value;
	pthread_mutex_lock(&mutex);
	value = signals[s.handle].value;
	pthread_mutex_unlock(&mutex);
	return value;
}

EXPORT void hsa_signal_store_screlease(signal_t s, int64_t value)
{
	pthread_mutex_lock(&mutex);
	lower(&signals[s.handle], value);
	pthread_mutex_unlock(&mutex);
}

static int holds(int condition, int64_t a, int64_t b)
{
	switch (condition) {
	case 0: return a == b;
	case 1: return a != b;
	case 2: return a < b;
	default: return a >= b;
	}
}

/* May end before the condition holds, as documented; this one does every time it is woken. */
EXPORT int64_t hsa_signal_wait_scacquire(signal_t handle, int condition, int64_t value, uint64_t timeout, int state)
{
	struct signal *s = &signals[handle.handle];
	int64_t now;
	(void)timeout, (void)state;
	pthread_mutex_lock(&mutex);
	if (!holds(condition, s->value, value))
		pthread_cond_wait(&changed, &mutex);
	now = s->value;
	pthread_mutex_unlock(&mutex);
	return now;
}

static agent_t owner_of(const struct place *p)
{
	return (agent_t){p->kind == PLACE_DEVICE ? (uint64_t)FIRST_GPU + p->device : p->kind == PLACE_OPENED ? (uint64_t)FIRST_GPU + p->owner : CPU};
}

/* A device's memory is its own, and of the one that opened it. Page-locked memory is everyone's. */
static int accessible(const struct place *p, int gpu)
{
	if (p->kind == PLACE_PINNED)
		return !setting("CX_FAKE_HSA_DENY") || allowed == (void *)p->base;
	return p->device == gpu;
}

EXPORT int hsa_amd_pointer_info(const void *p, struct info *info, void *(*alloc)(size_t), uint32_t *count, agent_t **list)
{
	struct place at;
	int gpus = 0;
	OPEN();
	if (!p || !info || info->size != sizeof *info)
		return INVALID_ARGUMENT;
	info->type = 0;
	if (find_memory(p, &at))
		return 0;
	info->type = at.kind == PLACE_OPENED ? 4 : 1;
	info->agent_base = info->host_base = (void *)at.base;
	info->bytes = at.bytes;
	info->owner = owner_of(&at);
	if (!alloc || !count || !list)
		return 0;
	count_devices(&gpus);
	*list = alloc((gpus + 1) * sizeof **list);
	*count = 0;
	if (at.kind == PLACE_PINNED)
		(*list)[(*count)++] = (agent_t){CPU};
	for (int i = 0; i < gpus; i++)
		if (accessible(&at, i))
			(*list)[(*count)++] = (agent_t){FIRST_GPU + i};
	return 0;
}

EXPORT int hsa_amd_agents_allow_access(uint32_t count, const agent_t *agents, const uint32_t *flags, const void *p)
{
	struct place at;
	OPEN();
	if (count == 0 || !agents || flags || find_memory(p, &at))
		return INVALID_ARGUMENT;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_agent(agents[i]))
			return INVALID_AGENT;
		if (agents[i].handle != CPU && at.kind == PLACE_PINNED)
			allowed = (void *)at.base;
	}
	return 0;
}

/* Engines of a GPU that can make a copy: all with a host, those for XGMI with another GPU. */
static uint32_t engines_for(agent_t dst, agent_t src)
{
	uint32_t all = (1u << ENGINES) - 1;
	return gpu_of(dst) >= 0 && gpu_of(src) >= 0 ? all & ~((1u << XGMI_FROM) - 1) : all;
}

static int copying(agent_t dst, agent_t src) { return gpu_of(src) >= 0 ? gpu_of(src) : gpu_of(dst); }

EXPORT int hsa_amd_memory_copy_engine_status(agent_t dst, agent_t src, uint32_t *mask)
{
	int gpu;
	OPEN();
	if (!is_agent(dst) || !is_agent(src) || dst.handle == src.handle)
		return INVALID_AGENT;
	gpu = copying(dst, src);
	*mask = engines_for(dst, src) & ~(uint32_t)setting("CX_FAKE_HSA_BUSY");
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < ENGINES; i++)
		if (queues[gpu][i] || busy[gpu][i])
			*mask &= ~(1u << i);
	pthread_mutex_unlock(&mutex);
	return *mask ? 0 : OUT_OF_RESOURCES;
}

struct engine {
	int gpu, number;
};

static void *work(void *arg)
{
	struct engine e = *(struct engine *)arg;
	free(arg);
	pthread_mutex_lock(&mutex);
	for (;;) {
		struct copy *c = queues[e.gpu][e.number];
		if (!c) {
			pthread_cond_wait(&changed, &mutex);
			continue;
		}
		queues[e.gpu][e.number] = c->next;
		busy[e.gpu][e.number] = 1;
		for (int i = 0; i < c->count; i++)
			while (c->after[i]->value != 0)
				pthread_cond_wait(&changed, &mutex);
		pthread_mutex_unlock(&mutex);
		struct times t = {ticks(), 0};
		if (!c->fails)
			memmove(c->dst, c->src, c->bytes);
		t.end = ticks();
		pthread_mutex_lock(&mutex);
		c->done->profiled = c->profiled;
		c->done->times = t;
		busy[e.gpu][e.number] = 0;
		lower(c->done, c->fails ? -1 : c->done->value - 1);
		free(c);
	}
	return NULL;
}

/* Where the host sees n bytes that begin at p, in memory that the agent owns; NULL else. */
static char *view(const void *p, size_t n, agent_t owner, int gpu)
{
	struct place at;
	if (find_memory(p, &at) || owner_of(&at).handle != owner.handle || !accessible(&at, gpu))
		return NULL;
	return (uint64_t)p + n <= at.base + at.bytes ? at.view + ((uint64_t)p - at.base) : NULL;
}

EXPORT int hsa_amd_memory_async_copy_on_engine(void *dst, agent_t to, const void *src, agent_t from, size_t bytes,
	uint32_t count, const signal_t *after, signal_t done, int engine, bool force)
{
	int gpu, number = __builtin_ffs(engine) - 1, rc = 0;
	struct copy *c;
	OPEN();
	if (!dst || !src || (count == 0) != (after == NULL) || done.handle == 0)
		return INVALID_ARGUMENT;
	if (!is_agent(to) || !is_agent(from) || copying(to, from) < 0)
		return INVALID_AGENT;
	if (__builtin_popcount(engine) != 1 || !(engines_for(to, from) & (uint32_t)engine) || !force)
		return INVALID_ARGUMENT;
	if (bytes == 0)
		return 0;
	gpu = copying(to, from);
	c = calloc(1, sizeof *c + count * sizeof *c->after);
	c->dst = view(dst, bytes, to, gpu);
	c->src = view(src, bytes, from, gpu);
	c->bytes = bytes;
	pthread_mutex_lock(&mutex);
	c->count = count;
	c->done = signal_of(done);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (!(c->after[i] = signal_of(after[i])))
			rc = INVALID_SIGNAL;
	if (!c->done || c->done->value < 1) /* it would become negative, which means failure */
		rc = INVALID_SIGNAL;
	if (!c->dst || !c->src)
		rc = INVALID_ARGUMENT;
	if (rc == 0) {
		struct copy **last = &queues[gpu][number];
		long n = ++submitted, cut = setting("CX_FAKE_HSA_CUT");
		c->profiled = profiling;
		c->fails = n == setting("CX_FAKE_HSA_FAIL");
		if (cut && n >= cut)
			c->bytes -= 8;
		while (*last)
			last = &(*last)->next;
		*last = c;
		if (!started[gpu][number]) {
			struct engine *e = malloc(sizeof *e);
			pthread_t thread;
			*e = (struct engine){gpu, number};
			started[gpu][number] = 1;
			pthread_create(&thread, NULL, work, e);
			pthread_detach(thread);
		}
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	if (rc)
		free(c);
	return rc;
}

EXPORT int hsa_amd_profiling_async_copy_enable(bool enable)
{
	OPEN();
	pthread_mutex_lock(&mutex);
	profiling = enable;
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* Of the last copy that lowered the signal, if it was profiled. */
EXPORT int hsa_amd_profiling_get_async_copy_time(signal_t handle, struct times *out)
{
	struct signal *s;
	int rc = 0;
	OPEN();
	if (!out)
		return INVALID_ARGUMENT;
	pthread_mutex_lock(&mutex);
	s = signal_of(handle);
	if (!s)
		rc = INVALID_SIGNAL;
	else if (!s->profiled)
		rc = ERROR;
	else
		*out = s->times;
	pthread_mutex_unlock(&mutex);
	return rc;
}
