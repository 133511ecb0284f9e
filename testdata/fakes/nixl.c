/* NIXL with its UCX backend, for the memory of the stand-in of CUDA's driver: the calls in the
 * order that the library wants, its refusals, and the table in which UCX says what transport
 * it chose. Data move when the status is asked for.
 *
 * The environment orders faults. N is how many requests of an agent come before, from 0.
 *   CX_FAKE_UCX_TRANSPORT=NAME/DEVICE  the transport that the table names
 *   CX_FAKE_UCX_NO_CUDA=1              UCX's module for CUDA is missing
 *   CX_FAKE_NIXL_NO_PLUGIN=1           the plugin UCX does not open
 *   CX_FAKE_NIXL_FLIP=N                a request flips a bit
 *   CX_FAKE_NIXL_FAIL=N                a request cannot be posted
 *   CX_FAKE_NIXL_STRICT=1              memory that a peer knows cannot be deregistered, as the
 *                                      real library allows
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { OK = 0, IN_PROGRESS = 1, INVALID = -1, BACKEND = -2, STATE = -3, NOT_FOUND = -6 };
enum { VRAM = 1 };
enum { READ = 0 };
enum { MOST = 64 }; /* registrations of an agent */

/* A registered range, as a peer learns of it. */
struct range {
	uint64_t at, bytes, device;
	uint64_t offset; /* in the file that has the device's memory */
	char path[256];
};

struct agent {
	char name[64];
	struct range ranges[MOST];
	int count;
	struct peer {
		char name[64];
		struct range ranges[MOST];
		int count;
	} *peer;
	int requests;
	bool shown[2]; /* the table of an operation */
};

struct desc { uint64_t at, bytes, device; };

struct list {
	int memory;
	struct desc *descs;
	size_t count;
};

struct request {
	struct agent *agent;
	int op;
	struct desc *local, *remote;
	size_t count;
	int number; /* of the agent's */
	enum { MADE, POSTED, ASKED, DONE, RELEASED } state;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int (*locate)(const void *, char *, size_t, uint64_t *, uint64_t *);

static int ordered(const char *name)
{
	const char *text = getenv(name);
	return text && *text ? atoi(text) : -1;
}

/* UCX moves the memory of devices with these transports alone. */
static bool allowed(const char *transport)
{
	const char *tls = getenv("UCX_TLS");
	return !tls || strstr(tls, transport);
}

/* UCX reaches memory of another host over NVLink if it is told to, and the memory has handles for it. */
static bool over_fabric(void)
{
	const char *on = getenv("UCX_CUDA_IPC_ENABLE_MNNVL");
	return on && !strcmp(on, "y");
}

/* Adapters of AWS have srd, and others rc. */
static bool over_rdma(void) { return allowed("rc") || allowed("srd"); }

static const char *transport(const struct agent *a)
{
	const char *name = getenv("CX_FAKE_UCX_TRANSPORT"), *device = getenv("UCX_NET_DEVICES");
	static char rc[128];
	if (name && *name)
		return name;
	if (allowed("cuda_ipc"))
		return over_fabric() && !strstr(a->ranges[0].path, "/fabric-") ? "tcp/eth0" : "cuda_ipc/cuda";
	if (!over_rdma())
		return "tcp/lo";
	snprintf(rc, sizeof rc, "%s/%s", allowed("rc") ? "rc_mlx5" : "srd", device && *device ? device : "mlx5_0:1");
	return rc;
}

static void show_table(FILE *f, const char *title, const char *description, const char *transport)
{
	const char *stamp = "[1795413532.026915] [host:32202:1]   ";
	fprintf(f, "%s+---+---+---+\n%s| rank %s-node cfg#1 |\n%s| %s |\n", stamp, stamp, over_rdma() || over_fabric() ? "inter" : "intra", stamp, title);
	fprintf(f, "%s| Range | Description | Config |\n%s| 0..inf | %s | %s |\n%s+---+---+---+\n", stamp, stamp, description, transport, stamp);
}

static void show(const struct agent *a, const char *title)
{
	const char *path = getenv("UCX_LOG_FILE");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f)
		return;
	show_table(f, "remote memory write by ucp_put* from host memory to cuda/dev[3]", "software emulation", "tcp/lo"); // nobody asked for it
	show_table(f, title, "zero-copy", transport(a));
	fclose(f);
}

API bool nixl_capi_is_stub(void) { return false; }

struct config {
	bool progress, listen;
	int port, sync;
	uint32_t workers;
	uint64_t progress_us, listen_us;
	bool telemetry;
};

API int nixl_capi_create_configured_agent(const char *name, const struct config *config, void **agent)
{
	struct agent *a = calloc(1, sizeof *a);
	snprintf(a->name, sizeof a->name, "%s", name);
	*agent = a;
	return OK;
}

API int nixl_capi_destroy_agent(void *agent)
{
	free(agent);
	return OK;
}

API int nixl_capi_get_plugin_params(void *agent, const char *plugin, void **memories, void **params)
{
	if (strcmp(plugin, "UCX"))
		return NOT_FOUND;
	if (getenv("CX_FAKE_NIXL_NO_PLUGIN"))
		return BACKEND;
	*memories = malloc(1);
	*params = malloc(1);
	return OK;
}

API int nixl_capi_destroy_mem_list(void *memories) { free(memories); return OK; }
API int nixl_capi_destroy_params(void *params) { free(params); return OK; }

/* On a machine with GPUs, NIXL 1.5.1 refuses transports without any for their memory. */
API int nixl_capi_create_backend(void *agent, const char *plugin, void *params, void **backend)
{
	const char *devices = getenv("UCX_NET_DEVICES");
	if (getenv("CX_CUDA_LIB") && !allowed("cuda"))
		return BACKEND;
	if (devices && !strncmp(devices, "mlx", 3) && !allowed("rc"))
		return BACKEND; /* adapters have no tcp */
	if (devices && !strncmp(devices, "rdmap", 5) && !allowed("srd"))
		return BACKEND;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (driver && !getenv("CX_FAKE_UCX_NO_CUDA"))
		*(void **)&locate = dlsym(driver, "cx_fake_locate");
	*backend = malloc(1);
	return OK;
}

API int nixl_capi_destroy_backend(void *backend) { free(backend); return OK; }
API int nixl_capi_create_opt_args(void **args) { *args = malloc(1); return OK; }
API int nixl_capi_destroy_opt_args(void *args) { free(args); return OK; }
API int nixl_capi_opt_args_add_backend(void *args, void *backend) { return args && backend ? OK : INVALID; }

static int create_list(int memory, void **list)
{
	struct list *l = calloc(1, sizeof *l);
	l->memory = memory;
	*list = l;
	return OK;
}

static int destroy_list(struct list *l)
{
	free(l->descs);
	free(l);
	return OK;
}

static int add(struct list *l, uint64_t at, uint64_t bytes, uint64_t device)
{
	if (bytes == 0)
		return INVALID;
	l->descs = realloc(l->descs, (l->count + 1) * sizeof *l->descs);
	l->descs[l->count++] = (struct desc){at, bytes, device};
	return OK;
}

API int nixl_capi_create_reg_dlist(int memory, void **list) { return create_list(memory, list); }
API int nixl_capi_destroy_reg_dlist(void *list) { return destroy_list(list); }
API int nixl_capi_create_xfer_dlist(int memory, void **list) { return create_list(memory, list); }
API int nixl_capi_destroy_xfer_dlist(void *list) { return destroy_list(list); }

API int nixl_capi_reg_dlist_add_desc(void *list, uintptr_t at, size_t bytes, uint64_t device, const void *meta, size_t n)
{
	return meta ? add(list, at, bytes, device) : INVALID;
}

API int nixl_capi_xfer_dlist_add_desc(void *list, uintptr_t at, size_t bytes, uint64_t device)
{
	return add(list, at, bytes, device);
}

/* Without its module for CUDA, or with the wrong device, UCX does not know the memory. */
static int resolve(const struct desc *d, struct range *r)
{
	uint64_t length;
	const char *index;
	*r = (struct range){d->at, d->bytes, d->device};
	if (!locate || locate((void *)d->at, r->path, sizeof r->path, &r->offset, &length) != 0 || length < d->bytes)
		return BACKEND;
	index = strrchr(r->path, '-');
	return index && strtoull(index + 1, NULL, 10) == d->device ? OK : BACKEND;
}

API int nixl_capi_register_mem(void *agent, void *list, void *args)
{
	struct agent *a = agent;
	struct list *l = list;
	int rc = OK;
	if (l->memory != VRAM || a->count + l->count > MOST)
		return BACKEND;
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < l->count && rc == OK; i++)
		rc = resolve(&l->descs[i], &a->ranges[a->count + i]);
	if (rc == OK)
		a->count += l->count;
	pthread_mutex_unlock(&mutex);
	return rc;
}

/* The file that is there while a peer knows the range. */
static const char *mark_of(const struct range *r, char mark[static 300])
{
	snprintf(mark, 300, "%s.known", r->path);
	return mark;
}

static bool known(const struct agent *a)
{
	char mark[300];
	for (int i = 0; i < a->count; i++)
		if (access(mark_of(&a->ranges[i], mark), F_OK) == 0)
			return true;
	return false;
}

API int nixl_capi_deregister_mem(void *agent, void *list, void *args)
{
	struct agent *a = agent;
	struct list *l = list;
	int kept = 0;
	if (ordered("CX_FAKE_NIXL_STRICT") == 1 && known(a))
		return BACKEND;
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < a->count; i++) {
		bool gone = false;
		for (size_t k = 0; k < l->count; k++)
			gone = gone || l->descs[k].at == a->ranges[i].at;
		if (!gone)
			a->ranges[kept++] = a->ranges[i];
	}
	a->count = kept;
	pthread_mutex_unlock(&mutex);
	return OK;
}

API int nixl_capi_get_local_md(void *agent, void **data, size_t *bytes)
{
	struct agent *a = agent;
	struct peer *p = calloc(1, sizeof *p);
	pthread_mutex_lock(&mutex);
	memcpy(p->name, a->name, sizeof p->name);
	memcpy(p->ranges, a->ranges, sizeof p->ranges);
	p->count = a->count;
	pthread_mutex_unlock(&mutex);
	*data = p;
	*bytes = sizeof *p;
	return OK;
}

API int nixl_capi_load_remote_md(void *agent, const void *data, size_t bytes, char **name)
{
	struct agent *a = agent;
	if (bytes != sizeof *a->peer || a->peer)
		return BACKEND;
	a->peer = malloc(bytes);
	memcpy(a->peer, data, bytes);
	*name = strdup(a->peer->name);
	for (int i = 0; i < a->peer->count; i++) {
		char mark[300];
		int fd = open(mark_of(&a->peer->ranges[i], mark), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			return BACKEND;
		close(fd);
	}
	return OK;
}

API int nixl_capi_invalidate_remote_md(void *agent, const char *name)
{
	struct agent *a = agent;
	if (!a->peer || strcmp(a->peer->name, name))
		return NOT_FOUND;
	for (int i = 0; i < a->peer->count; i++) {
		char mark[300];
		unlink(mark_of(&a->peer->ranges[i], mark));
	}
	free(a->peer);
	a->peer = NULL;
	return OK;
}

API int nixl_capi_agent_make_connection(void *agent, const char *name, void *args)
{
	struct agent *a = agent;
	return a->peer && !strcmp(a->peer->name, name) ? OK : NOT_FOUND;
}

/* The registered range that has all of d. */
static const struct range *in(const struct range *ranges, int count, const struct desc *d)
{
	for (int i = 0; i < count; i++)
		if (ranges[i].device == d->device && d->at >= ranges[i].at && d->at + d->bytes <= ranges[i].at + ranges[i].bytes)
			return &ranges[i];
	return NULL;
}

API int nixl_capi_create_xfer_req(void *agent, int op, void *local, void *remote, const char *name, void **request, void *args)
{
	struct agent *a = agent;
	struct list *l = local, *r = remote;
	struct request *q;
	if (!a->peer || strcmp(a->peer->name, name))
		return NOT_FOUND;
	if (l->memory != VRAM || r->memory != VRAM || l->count != r->count || l->count == 0)
		return BACKEND;
	for (size_t i = 0; i < l->count; i++)
		if (l->descs[i].bytes != r->descs[i].bytes || !in(a->ranges, a->count, &l->descs[i]) || !in(a->peer->ranges, a->peer->count, &r->descs[i]))
			return BACKEND;
	q = calloc(1, sizeof *q);
	*q = (struct request){.agent = a, .op = op, .count = l->count, .number = a->requests++};
	q->local = memcpy(malloc(l->count * sizeof *l->descs), l->descs, l->count * sizeof *l->descs);
	q->remote = memcpy(malloc(l->count * sizeof *l->descs), r->descs, l->count * sizeof *l->descs);
	*request = q;
	return OK;
}

API int nixl_capi_post_xfer_req(void *agent, void *request, void *args)
{
	struct request *q = request;
	struct agent *a = agent;
	if (q->state != MADE || q->number == ordered("CX_FAKE_NIXL_FAIL"))
		return BACKEND;
	q->state = POSTED;
	if (!a->shown[q->op])
		show(a, q->op == READ ? "remote memory read by ucp_get*(multi) into cuda/GPU1 from cuda/dev[2]" : "remote memory write by ucp_put*(multi) from cuda/GPU1 to cuda/dev[2]");
	a->shown[q->op] = true;
	return IN_PROGRESS;
}

/* The bytes of d, in the file that has them. */
static char *view(const struct range *r, const struct desc *d, char **map, size_t *span)
{
	uint64_t offset = r->offset + (d->at - r->at), page = offset / 4096 * 4096;
	int fd = open(r->path, O_RDWR);
	*span = offset - page + d->bytes;
	*map = mmap(NULL, *span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page);
	close(fd);
	return *map == MAP_FAILED ? NULL : *map + (offset - page);
}

static int move(struct request *q)
{
	struct agent *a = q->agent;
	for (size_t i = 0; i < q->count; i++) {
		char *maps[2];
		size_t spans[2];
		char *local = view(in(a->ranges, a->count, &q->local[i]), &q->local[i], &maps[0], &spans[0]);
		char *remote = view(in(a->peer->ranges, a->peer->count, &q->remote[i]), &q->remote[i], &maps[1], &spans[1]);
		char *to = q->op == READ ? local : remote;
		if (!local || !remote)
			return BACKEND;
		memcpy(to, q->op == READ ? remote : local, q->local[i].bytes);
		if (i == 0 && q->number == ordered("CX_FAKE_NIXL_FLIP"))
			to[7] ^= 4; /* of a word, where no place of a pool is */
		for (int k = 0; k < 2; k++)
			munmap(maps[k], spans[k]);
	}
	return OK;
}

API int nixl_capi_get_xfer_status(void *agent, void *request)
{
	struct request *q = request;
	int rc = IN_PROGRESS;
	pthread_mutex_lock(&mutex);
	if (q->state == POSTED) {
		q->state = ASKED;
	} else if (q->state == ASKED) {
		rc = move(q);
		q->state = DONE;
	} else {
		rc = q->state == DONE ? OK : STATE;
	}
	pthread_mutex_unlock(&mutex);
	return rc;
}

API int nixl_capi_release_xfer_req(void *agent, void *request)
{
	struct request *q = request;
	q->state = RELEASED;
	return OK;
}

API int nixl_capi_destroy_xfer_req(void *request)
{
	struct request *q = request;
	if (q->state != RELEASED)
		return STATE;
	free(q->local);
	free(q->remote);
	free(q);
	return OK;
}
