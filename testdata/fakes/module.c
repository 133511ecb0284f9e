/* Images made by the fake run-time compiler, and launches of their kernels. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel.h"

struct module {
	enum kind kind;
	void *lib;
	int fd; /* open as long as lib: dlopen takes a file of the same name for the same library */
};

struct function {
	enum kind kind;
	const struct cx_kernel *kernel;
	char name[64];
};

/* An image comes without a size; it ends with its section headers. */
static size_t image_bytes(const void *image)
{
	const Elf64_Ehdr *h = image;
	return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 ? h->e_shoff + (size_t)h->e_shnum * h->e_shentsize : 0;
}

int fake_module_load(void **out, const void *image)
{
	struct module *m;
	char path[64];
	const char *arch;
	size_t bytes = image ? image_bytes(image) : 0;
	int fd;
	if (!bytes)
		return INVALID_IMAGE;
	fd = memfd_create("fake-kernel", 0);
	if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
		return UNKNOWN;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	m = calloc(1, sizeof *m);
	m->fd = fd;
	m->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!m->lib) {
		fprintf(stderr, "fake driver: %s\n", dlerror());
		close(fd);
		free(m);
		return INVALID_IMAGE;
	}
	arch = dlsym(m->lib, "cx_kernel_arch");
	if (!arch || strcmp(arch, settings.arch) != 0) {
		dlclose(m->lib);
		close(fd);
		free(m);
		return arch ? NO_BINARY : INVALID_IMAGE;
	}
	m->kind = MODULE;
	*out = m;
	return OK;
}

int fake_module_unload(void *handle)
{
	struct module *m = handle;
	if (!m || m->kind != MODULE)
		return INVALID_HANDLE;
	m->kind = DEAD;
	dlclose(m->lib);
	close(m->fd);
	return OK;
}

int fake_module_function(void **out, void *handle, const char *name)
{
	struct module *m = handle;
	char symbol[512];
	struct function *f;
	if (!m || m->kind != MODULE)
		return INVALID_HANDLE;
	f = calloc(1, sizeof *f);
	snprintf(symbol, sizeof symbol, "cx_kernel_%s", name);
	f->kind = FUNCTION;
	snprintf(f->name, sizeof f->name, "%s", name);
	f->kernel = dlsym(m->lib, symbol);
	if (!f->kernel) {
		free(f);
		return NOT_FOUND;
	}
	*out = f;
	return OK;
}

struct launch {
	const struct cx_kernel *kernel;
	unsigned grid[3], block[3];
	struct stream *stream;
	long disturbed; /* see CX_FAKE_DISTURBED; 0: by nothing */
	char params[] __attribute__((aligned(16)));
};

static int run(void *arg)
{
	struct launch *l = arg;
	fake_open_memory();
	if (l->disturbed)
		fake_disturb(l->stream, l->disturbed);
	l->kernel->run(l->grid, l->block, l->params);
	return OK;
}

enum { MAX_THREADS = 1024, MAX_SHARED = 48 << 10 };

int fake_launch(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, struct stream *s, void **params, void **extra)
{
	struct function *f = handle;
	struct launch *l;
	const char *dropped, *disturbed;
	int rc;
	if (!f || f->kind != FUNCTION)
		return INVALID_HANDLE;
	if (extra || !gx || !gy || !gz || !bx || !by || !bz || (uint64_t)bx * by * bz > MAX_THREADS || shared > MAX_SHARED)
		return INVALID_VALUE;
	for (int i = 0; i < f->kernel->count; i++)
		if (!params || !params[i])
			return INVALID_VALUE;
	dropped = getenv("CX_FAKE_GRAPH_DROP");
	if (s->capture && dropped && strcmp(dropped, f->name) == 0)
		return OK;
	l = calloc(1, sizeof *l + f->kernel->bytes);
	l->kernel = f->kernel;
	memcpy(l->grid, (unsigned[]){gx, gy, gz}, sizeof l->grid);
	memcpy(l->block, (unsigned[]){bx, by, bz}, sizeof l->block);
	l->stream = s;
	disturbed = getenv("CX_FAKE_DISTURBED");
	if (disturbed && strncmp(disturbed, f->name, strlen(f->name)) == 0 && disturbed[strlen(f->name)] == '=')
		l->disturbed = atol(disturbed + strlen(f->name) + 1);
	f->kernel->pack(params, l->params);
	rc = fake_enqueue(s, run, l, sizeof *l + f->kernel->bytes);
	free(l);
	return rc;
}
