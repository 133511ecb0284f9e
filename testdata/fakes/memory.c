/* Device memory in a file, page-locked memory, virtual memory management. */
#define _GNU_SOURCE
#include "gpu.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the drivers promise; small allocations share pages, as they do there. */
enum { ALIGNMENT = 256 };
enum { POISON = 0xa5, POISON_ALL = 1 << 20 };

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static pthread_mutex_t map_mutex = PTHREAD_MUTEX_INITIALIZER;
static int open_streams;             /* whose kernels may read device addresses */
static __thread int holds_open; /* this thread's stream is one of them */

/* The addresses of all devices, one behind the other, so that one call changes what can be done
 * with them. A device has none before it is used. */
static char *addresses;
static int mapped; /* devices */

static size_t addresses_bytes(size_t span) { return settings.devices * span + VMM_GRANULE; }

int fake_map_device(struct device *d)
{
	int fd;
	if (d->base)
		return OK;
	d->total = settings.memory;
	d->span = round_up(2 * d->total, VMM_GRANULE);
	if (snprintf(d->path, sizeof d->path, "%s/memory-%d-%d", settings.dir, (int)getpid(), d->index) >= (int)sizeof d->path)
		return INVALID_VALUE;
	fd = open(d->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, d->span) != 0) {
		perror(d->path);
		return UNKNOWN;
	}
	if (mapped == 0)
		addresses = mmap(NULL, addresses_bytes(d->span), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	d->host = mmap(NULL, d->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (d->host == MAP_FAILED || addresses == MAP_FAILED)
		return OUT_OF_MEMORY;
	/* The first starts at a multiple of the largest alignment asked for, and so do the others. */
	char *base = (char *)round_up((size_t)addresses, VMM_GRANULE) + d->index * d->span;
	pthread_mutex_lock(&map_mutex);
	if (mmap(base, d->span, open_streams ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) != MAP_FAILED) {
		d->base = base;
		mapped++;
	}
	pthread_mutex_unlock(&map_mutex);
	if (!d->base)
		return OUT_OF_MEMORY;
	d->file = fd;
	return OK;
}

/* No device is in use. */
void fake_unmap_device(struct device *d)
{
	if (!d->base)
		return;
	munmap(d->host, d->span);
	close(d->file);
	if (--mapped == 0)
		munmap(addresses, addresses_bytes(d->span));
}

/* Puts a file behind the addresses of a range: that of the device, or one of other memory. */
static int back(struct device *d, size_t at, size_t bytes, int file, size_t offset)
{
	void *host = mmap(d->host + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, offset), *base;
	pthread_mutex_lock(&map_mutex);
	base = mmap(d->base + at, bytes, open_streams ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, offset);
	pthread_mutex_unlock(&map_mutex);
	return host == MAP_FAILED || base == MAP_FAILED ? OUT_OF_MEMORY : OK;
}

void fake_drop_memory(struct device *d)
{
	pthread_mutex_lock(&d->mutex);
	while (d->blocks) {
		struct block *b = d->blocks;
		d->blocks = b->next;
		if (b->memory)
			back(d, b->offset, b->bytes, d->file, b->offset);
		free(b);
	}
	d->used = 0;
	madvise(d->host, d->span, MADV_REMOVE);
	pthread_mutex_unlock(&d->mutex);
}

static void protect_devices(int protection)
{
	for (int i = 0, n; i < settings.devices; i += n + 1) {
		struct device *d = fake_device(i);
		for (n = 0; i + n < settings.devices && fake_device(i + n)->base; n++)
			;
		if (n > 0)
			mprotect(d->base, n * d->span, protection);
	}
}

/* An allocation of another process, and the device that opened it. */
struct opened {
	uint64_t base; /* device address */
	char *file, *view;
	size_t span, bytes;
	struct device *dev;
	int owner; /* number of the device that has it, in the process that does */
	struct opened *next;
};

static struct opened *opened;
static pthread_mutex_t opened_mutex = PTHREAD_MUTEX_INITIALIZER;

/* The mapping of an opened allocation at device addresses is of all that lies before it, too. */
static void protect(struct opened *o, int protection) { mprotect((char *)o->base - (o->span - o->bytes), o->span, protection); }

static void each_opened(int protection)
{
	pthread_mutex_lock(&opened_mutex);
	for (struct opened *o = opened; o; o = o->next)
		protect(o, protection);
	pthread_mutex_unlock(&opened_mutex);
}

void fake_open_memory(void)
{
	if (holds_open)
		return;
	holds_open = 1;
	pthread_mutex_lock(&map_mutex);
	if (open_streams++ == 0) {
		protect_devices(PROT_READ | PROT_WRITE);
		each_opened(PROT_READ | PROT_WRITE);
	}
	pthread_mutex_unlock(&map_mutex);
}

void fake_close_memory(void)
{
	if (!holds_open)
		return;
	holds_open = 0;
	pthread_mutex_lock(&map_mutex);
	if (--open_streams == 0) {
		protect_devices(PROT_NONE);
		each_opened(PROT_NONE);
	}
	pthread_mutex_unlock(&map_mutex);
}

/* The opened allocation that has these bytes, if its dev is not NULL. */
static struct opened find_opened(uint64_t p, size_t bytes)
{
	struct opened found = {0};
	pthread_mutex_lock(&opened_mutex);
	for (struct opened *o = opened; o; o = o->next)
		if (p >= o->base && p + bytes <= o->base + o->bytes)
			found = *o;
	pthread_mutex_unlock(&opened_mutex);
	return found;
}

struct device *fake_owner(uint64_t p)
{
	struct opened o = find_opened(p, 1);
	if (o.dev)
		return o.dev;
	for (int i = 0; i < settings.devices; i++) {
		struct device *d = fake_device(i);
		if (d->base && p >= (uint64_t)d->base && p < (uint64_t)d->base + d->span)
			return d;
	}
	return NULL;
}

/* First fit. The caller holds the mutex. */
static struct block *insert(struct device *d, size_t bytes, size_t align)
{
	size_t at = 0;
	struct block **link = &d->blocks, *b;
	for (; *link; link = &(*link)->next) {
		if (at + bytes <= (*link)->offset)
			break;
		at = round_up((*link)->offset + (*link)->bytes, align);
	}
	if (at + bytes > d->span)
		return NULL;
	b = calloc(1, sizeof *b);
	b->offset = at;
	b->bytes = bytes;
	b->next = *link;
	*link = b;
	return b;
}

static struct block **find(struct device *d, uint64_t p)
{
	struct block **link = &d->blocks;
	while (*link && (uint64_t)d->base + (*link)->offset != p)
		link = &(*link)->next;
	return *link ? link : NULL;
}

/* Gives the pages back; they read as zero when used again. */
static void punch(struct device *d, size_t offset, size_t bytes)
{
	size_t from = round_up(offset, 4096), to = (offset + bytes) / 4096 * 4096;
	if (to > from)
		madvise(d->host + from, to - from, MADV_REMOVE);
}

/* New memory holds anything but zeros, at its ends at least. */
static void poison(struct device *d, size_t offset, size_t bytes)
{
	if (bytes <= POISON_ALL) {
		memset(d->host + offset, POISON, bytes);
	} else {
		memset(d->host + offset, POISON, 4096);
		memset(d->host + offset + bytes - 4096, POISON, 4096);
	}
}

int fake_alloc(struct device *d, size_t bytes, uint64_t *p)
{
	struct block *b;
	if (bytes == 0)
		return INVALID_VALUE;
	pthread_mutex_lock(&d->mutex);
	/* From two MiB on an allocation has pages of its own. */
	b = d->used + bytes <= d->total ? insert(d, bytes, bytes < VMM_GRANULE ? ALIGNMENT : VMM_GRANULE) : NULL;
	if (b) {
		d->used += bytes;
		poison(d, b->offset, bytes);
		*p = (uint64_t)d->base + b->offset;
	}
	pthread_mutex_unlock(&d->mutex);
	return b ? OK : OUT_OF_MEMORY;
}

int fake_free(uint64_t p)
{
	struct device *d = fake_owner(p);
	struct block **link, *b;
	int rc = INVALID_VALUE;
	if (p == 0)
		return OK;
	if (!d)
		return INVALID_VALUE;
	fake_device_sync(d);
	pthread_mutex_lock(&d->mutex);
	link = find(d, p);
	if (link && !(*link)->reserved) {
		b = *link;
		*link = b->next;
		d->used -= b->bytes;
		punch(d, b->offset, b->bytes);
		free(b);
		rc = OK;
	}
	pthread_mutex_unlock(&d->mutex);
	return rc;
}

char *fake_host_view(struct device *d, uint64_t p, size_t bytes)
{
	char *view = NULL;
	size_t offset;
	struct opened o = find_opened(p, bytes);
	if (o.dev)
		return o.dev == d ? o.view + (p - o.base) : NULL;
	if (!d || fake_owner(p) != d)
		return NULL;
	offset = p - (uint64_t)d->base;
	pthread_mutex_lock(&d->mutex);
	for (struct block *b = d->blocks; b; b = b->next)
		if (offset >= b->offset && offset + bytes <= b->offset + b->bytes && (!b->reserved || b->accessible >> d->index & 1))
			view = d->host + offset;
	pthread_mutex_unlock(&d->mutex);
	return view;
}

struct pinned {
	char *p;
	size_t bytes;
	int registered; /* memory of the process, not the driver's */
	struct pinned *next;
};

static struct pinned *pinned;
static pthread_mutex_t pinned_mutex = PTHREAD_MUTEX_INITIALIZER;

int fake_host_alloc(void **p, size_t bytes)
{
	struct pinned *h;
	if (bytes == 0)
		return INVALID_VALUE;
	h = calloc(1, sizeof *h);
	h->bytes = bytes;
	h->p = aligned_alloc(4096, round_up(bytes, 4096));
	if (!h->p) {
		free(h);
		return OUT_OF_MEMORY;
	}
	memset(h->p, POISON, bytes < POISON_ALL ? bytes : 4096);
	pthread_mutex_lock(&pinned_mutex);
	h->next = pinned;
	pinned = h;
	pthread_mutex_unlock(&pinned_mutex);
	*p = h->p;
	return OK;
}

int fake_host_free(void *p)
{
	struct pinned **link, *h = NULL;
	if (!p)
		return OK;
	pthread_mutex_lock(&pinned_mutex);
	for (link = &pinned; *link && ((*link)->p != p || (*link)->registered); link = &(*link)->next)
		;
	if (*link) {
		h = *link;
		*link = h->next;
		free(h->p);
		free(h);
	}
	pthread_mutex_unlock(&pinned_mutex);
	return h ? OK : INVALID_VALUE;
}

/* Pages are locked once at a time. */
int fake_host_register(void *p, size_t bytes)
{
	struct pinned *h;
	if (!p || bytes == 0 || fake_owner((uint64_t)p))
		return INVALID_VALUE;
	pthread_mutex_lock(&pinned_mutex);
	for (h = pinned; h; h = h->next)
		if ((char *)p < h->p + h->bytes && h->p < (char *)p + bytes) {
			pthread_mutex_unlock(&pinned_mutex);
			return ALREADY_REGISTERED;
		}
	h = calloc(1, sizeof *h);
	h->p = p;
	h->bytes = bytes;
	h->registered = 1;
	h->next = pinned;
	pinned = h;
	pthread_mutex_unlock(&pinned_mutex);
	return OK;
}

int fake_host_unregister(void *p)
{
	struct pinned **link, *h;
	for (int i = 0; i < settings.devices; i++)
		if (fake_device(i)->base)
			fake_device_sync(fake_device(i));
	pthread_mutex_lock(&pinned_mutex);
	for (link = &pinned; *link && ((*link)->p != p || !(*link)->registered); link = &(*link)->next)
		;
	h = *link;
	if (h)
		*link = h->next;
	pthread_mutex_unlock(&pinned_mutex);
	free(h);
	return h ? OK : NOT_REGISTERED;
}

int fake_is_pinned(const void *p, size_t bytes)
{
	int found = 0;
	pthread_mutex_lock(&pinned_mutex);
	for (struct pinned *h = pinned; h; h = h->next)
		if ((char *)p >= h->p && (char *)p + bytes <= h->p + h->bytes)
			found = 1;
	pthread_mutex_unlock(&pinned_mutex);
	return found;
}

/* Registered memory is at another address for devices than for the host, as it may be. */
static const uint64_t DEVICE_VIEW = UINT64_C(1) << 62;

int fake_registered_address(uint64_t *at, void *p)
{
	int rc = INVALID_VALUE;
	pthread_mutex_lock(&pinned_mutex);
	for (struct pinned *h = pinned; h; h = h->next)
		if (h->registered && (char *)p >= h->p && (char *)p < h->p + h->bytes) {
			*at = (uint64_t)p | DEVICE_VIEW;
			rc = OK;
		}
	pthread_mutex_unlock(&pinned_mutex);
	return rc;
}

uint32_t *fake_flag(uint64_t at)
{
	struct device *d = fake_owner(at);
	if (at % sizeof(uint32_t))
		return NULL;
	if (d)
		return (uint32_t *)(void *)fake_host_view(d, at, sizeof(uint32_t));
	at ^= DEVICE_VIEW;
	return fake_is_pinned((void *)at, sizeof(uint32_t)) ? (uint32_t *)at : NULL;
}

/* Memory that virtual memory management has made, here or in another process. It is in a file of
 * its own, which the system keeps for as long as any process maps it or has a descriptor of it. */
struct physical {
	struct device *dev; /* on which it is, or which has imported it */
	size_t bytes;
	int file, shareable, imported;
	int mappings, released;
	char path[4096];
};

/* This process has no more use for memory that is released and that no range maps. */
static void drop_physical(struct physical *m)
{
	if (!m->released || m->mappings)
		return;
	close(m->file);
	if (m->imported)
		return;
	unlink(m->path);
	m->dev->used -= m->bytes;
}

int fake_vmm_create(struct device *d, size_t bytes, int handle_types, uint64_t *handle)
{
	static int made;
	char page[4096];
	struct physical *m;
	memset(page, POISON, sizeof page);
	const char *fabric = getenv("CX_FAKE_FABRIC");
	if (bytes == 0 || bytes % VMM_GRANULE || (handle_types != 0 && handle_types != VMM_FILE_DESCRIPTOR && handle_types != VMM_FABRIC))
		return INVALID_VALUE;
	if (handle_types == VMM_FABRIC && !fabric)
		return NOT_SUPPORTED;
	if (handle_types == VMM_FABRIC && strcmp(fabric, "no-channel") == 0)
		return NOT_PERMITTED; /* the process has no IMEX channel */
	pthread_mutex_lock(&d->mutex);
	if (d->used + bytes > d->total) {
		pthread_mutex_unlock(&d->mutex);
		return OUT_OF_MEMORY;
	}
	d->used += bytes;
	pthread_mutex_unlock(&d->mutex);
	m = calloc(1, sizeof *m);
	m->dev = d;
	m->bytes = bytes;
	m->shareable = handle_types == VMM_FILE_DESCRIPTOR;
	if (snprintf(m->path, sizeof m->path, "%s/%s-%d-%d-%d", settings.dir, handle_types == VMM_FABRIC ? "fabric" : "vmm", __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED), (int)getpid(), settings.visible[d->index]) >= (int)sizeof m->path)
		return INVALID_VALUE;
	m->file = open(m->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (m->file < 0 || ftruncate(m->file, bytes) != 0 || pwrite(m->file, page, sizeof page, 0) < 0 || pwrite(m->file, page, sizeof page, bytes - sizeof page) < 0) {
		perror(m->path);
		return UNKNOWN;
	}
	*handle = (uint64_t)m;
	return OK;
}

int fake_vmm_release(uint64_t handle)
{
	struct physical *m = (struct physical *)handle;
	if (!m || m->released)
		return INVALID_VALUE;
	pthread_mutex_lock(&m->dev->mutex);
	m->released = 1;
	drop_physical(m);
	pthread_mutex_unlock(&m->dev->mutex);
	return OK;
}

/* The caller owns the descriptor. Memory has those kinds of handles that it was made with. */
int fake_vmm_export(int *descriptor, uint64_t handle)
{
	struct physical *m = (struct physical *)handle;
	if (!m || m->released || !m->shareable)
		return INVALID_VALUE;
	*descriptor = fcntl(m->file, F_DUPFD_CLOEXEC, 0);
	return *descriptor < 0 ? UNKNOWN : OK;
}

/* The descriptor remains the caller's. Any process may import memory of a device that it sees. */
int fake_vmm_import(struct device *d, int descriptor, uint64_t *handle)
{
	char link[64], path[4096];
	int number, pid, index, seen = 0;
	struct physical *m;
	struct stat s;
	ssize_t n;
	snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
	n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return INVALID_VALUE;
	path[n] = 0;
	if (strncmp(path, settings.dir, strlen(settings.dir)) != 0 || sscanf(path + strlen(settings.dir), "/vmm-%d-%d-%d", &number, &pid, &index) != 3)
		return INVALID_VALUE;
	for (int i = 0; i < settings.devices; i++)
		seen |= settings.visible[i] == index;
	if (!seen || fstat(descriptor, &s) != 0)
		return NOT_SUPPORTED;
	m = calloc(1, sizeof *m);
	m->dev = d;
	m->bytes = s.st_size;
	m->imported = 1;
	m->file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
	*handle = (uint64_t)m;
	return OK;
}

int fake_vmm_reserve(struct device *d, size_t bytes, uint64_t *p)
{
	struct block *b;
	if (bytes == 0 || bytes % VMM_GRANULE)
		return INVALID_VALUE;
	pthread_mutex_lock(&d->mutex);
	b = insert(d, bytes, VMM_GRANULE);
	if (b) {
		b->reserved = 1;
		*p = (uint64_t)d->base + b->offset;
	}
	pthread_mutex_unlock(&d->mutex);
	return b ? OK : OUT_OF_MEMORY;
}

/* The reserved block at p with this size, mapped or not; NULL otherwise. */
static struct block *range(struct device *d, uint64_t p, size_t bytes, int mapped)
{
	struct block **link = d ? find(d, p) : NULL;
	return link && (*link)->reserved && (*link)->bytes == bytes && !(*link)->memory == !mapped ? *link : NULL;
}

/* One memory object behind each range, as this project uses it. Nobody has access to it yet. */
int fake_vmm_map(uint64_t p, size_t bytes, uint64_t handle)
{
	struct physical *m = (struct physical *)handle;
	struct device *d = fake_owner(p);
	struct block *b;
	int rc = INVALID_VALUE;
	if (!d || !m || m->released || m->bytes != bytes || m->dev != d)
		return INVALID_VALUE;
	pthread_mutex_lock(&d->mutex);
	b = range(d, p, bytes, 0);
	if (b)
		rc = back(d, b->offset, bytes, m->file, 0);
	if (rc == OK) {
		b->memory = m;
		m->mappings++;
	}
	pthread_mutex_unlock(&d->mutex);
	return rc;
}

/* Gives a device access to mapped memory. */
int fake_vmm_access(uint64_t p, size_t bytes, int device)
{
	struct device *d = fake_owner(p);
	struct block *b;
	if (!d || !fake_device(device))
		return INVALID_VALUE;
	pthread_mutex_lock(&d->mutex);
	b = range(d, p, bytes, 1);
	if (b)
		b->accessible |= UINT64_C(1) << device;
	pthread_mutex_unlock(&d->mutex);
	return b ? OK : INVALID_VALUE;
}

/* Unmaps a reserved range. As with the driver (580.159.04 on an H100), unmapping a range in which
 * nothing is mapped succeeds. */
int fake_vmm_unmap(uint64_t p, size_t bytes)
{
	struct device *d = fake_owner(p);
	struct block *b;
	int reserved;
	if (!d)
		return INVALID_VALUE;
	fake_device_sync(d);
	pthread_mutex_lock(&d->mutex);
	b = range(d, p, bytes, 1);
	reserved = b || range(d, p, bytes, 0);
	if (b) {
		back(d, b->offset, bytes, d->file, b->offset);
		b->memory->mappings--;
		drop_physical(b->memory);
		b->memory = NULL;
		b->accessible = 0;
	}
	pthread_mutex_unlock(&d->mutex);
	return reserved ? OK : INVALID_VALUE;
}

/* Addresses are free again when nothing is mapped there. */
int fake_vmm_address_free(uint64_t p, size_t bytes)
{
	struct device *d = fake_owner(p);
	struct block *b, **link;
	if (!d)
		return INVALID_VALUE;
	pthread_mutex_lock(&d->mutex);
	b = range(d, p, bytes, 0);
	if (b) {
		link = find(d, p);
		*link = b->next;
		free(b);
	}
	pthread_mutex_unlock(&d->mutex);
	return b ? OK : INVALID_VALUE;
}

int cx_fake_locate(const void *p, char *path, size_t cap, uint64_t *offset, uint64_t *length)
{
	struct device *d = fake_owner((uint64_t)p);
	uint64_t at = d ? (uint64_t)p - (uint64_t)d->base : 0;
	int rc = INVALID_VALUE;
	if (!d)
		return INVALID_VALUE;
	pthread_mutex_lock(&d->mutex);
	for (struct block *b = d->blocks; b; b = b->next)
		if (at >= b->offset && at < b->offset + b->bytes && (!b->reserved || b->accessible >> d->index & 1)) {
			*offset = b->memory ? at - b->offset : at;
			*length = b->offset + b->bytes - at;
			rc = snprintf(path, cap, "%s", b->memory ? b->memory->path : d->path) < (int)cap ? OK : INVALID_VALUE;
		}
	pthread_mutex_unlock(&d->mutex);
	return rc;
}

int cx_fake_find(const void *p, struct place *out)
{
	struct opened o = find_opened((uint64_t)p, 1);
	struct device *d = fake_owner((uint64_t)p);
	int rc = INVALID_VALUE;
	if (o.dev) {
		*out = (struct place){PLACE_OPENED, o.dev->index, o.owner, o.view, o.base, o.bytes};
		return OK;
	}
	if (d) {
		uint64_t at = (uint64_t)p - (uint64_t)d->base;
		pthread_mutex_lock(&d->mutex);
		for (struct block *b = d->blocks; b; b = b->next)
			if (at >= b->offset && at < b->offset + b->bytes && (!b->reserved || b->accessible)) {
				*out = (struct place){PLACE_DEVICE, d->index, d->index, d->host + b->offset, (uint64_t)d->base + b->offset, b->bytes};
				rc = OK;
			}
		pthread_mutex_unlock(&d->mutex);
		return rc;
	}
	pthread_mutex_lock(&pinned_mutex);
	for (struct pinned *h = pinned; h; h = h->next)
		if ((char *)p >= h->p && (char *)p < h->p + h->bytes) {
			*out = (struct place){PLACE_PINNED, -1, -1, h->p, (uint64_t)h->p, h->bytes};
			rc = OK;
		}
	pthread_mutex_unlock(&pinned_mutex);
	return rc;
}

/* What a handle says: which memory of which process. */
struct share {
	char magic[8];
	int pid, device;
	uint64_t offset, bytes;
};

/* Only plain allocations have a handle, and only their first address. */
int fake_share(struct shared *handle, uint64_t p)
{
	struct device *d = fake_owner(p);
	struct block **link;
	struct share s = {"sharing", (int)getpid(), 0, 0, 0};
	if (!d)
		return INVALID_VALUE;
	pthread_mutex_lock(&d->mutex);
	link = find(d, p);
	if (link && !(*link)->reserved) {
		s.device = d->index;
		s.offset = (*link)->offset;
		s.bytes = (*link)->bytes;
	}
	pthread_mutex_unlock(&d->mutex);
	memset(handle, 0, sizeof *handle);
	memcpy(handle, &s, sizeof s);
	return s.bytes ? OK : INVALID_VALUE;
}

/* The drivers open an allocation in another process than its own alone. */
int fake_open_shared(struct device *d, uint64_t *p, const struct shared *handle)
{
	struct share s;
	char path[4096];
	struct opened *o;
	char *devices;
	int fd;
	memcpy(&s, handle, sizeof s);
	if (strcmp(s.magic, "sharing") != 0)
		return INVALID_VALUE;
	if (s.pid == (int)getpid())
		return INVALID_CONTEXT;
	if (kill(s.pid, 0) != 0) /* the memory went with its process */
		return INVALID_VALUE;
	snprintf(path, sizeof path, "%s/memory-%d-%d", settings.dir, s.pid, s.device);
	fd = open(path, O_RDWR);
	if (fd < 0)
		return INVALID_VALUE;
	o = calloc(1, sizeof *o);
	o->dev = d;
	o->owner = s.device;
	o->bytes = s.bytes;
	o->span = s.offset + s.bytes;
	o->file = mmap(NULL, o->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	devices = mmap(NULL, o->span, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	if (o->file == MAP_FAILED || devices == MAP_FAILED) {
		free(o);
		return OUT_OF_MEMORY;
	}
	o->view = o->file + s.offset;
	o->base = (uint64_t)devices + s.offset;
	pthread_mutex_lock(&map_mutex);
	pthread_mutex_lock(&opened_mutex);
	o->next = opened;
	opened = o;
	if (open_streams > 0)
		protect(o, PROT_READ | PROT_WRITE);
	pthread_mutex_unlock(&opened_mutex);
	pthread_mutex_unlock(&map_mutex);
	*p = o->base;
	return OK;
}

int fake_close_shared(uint64_t p)
{
	struct opened **link, *o;
	struct opened found = find_opened(p, 1);
	if (!found.dev)
		return INVALID_VALUE;
	fake_device_sync(found.dev);
	pthread_mutex_lock(&opened_mutex);
	for (link = &opened; *link && (*link)->base != p; link = &(*link)->next)
		;
	o = *link;
	if (o)
		*link = o->next;
	pthread_mutex_unlock(&opened_mutex);
	if (!o)
		return INVALID_VALUE;
	munmap(o->file, o->span);
	munmap((char *)o->base - (o->span - o->bytes), o->span);
	free(o);
	return OK;
}
