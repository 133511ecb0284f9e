/* Settings, devices and which of them is current. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings settings;

static pthread_mutex_t global = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[MAX_DEVICES];
static int initialised;
static __thread struct device *current;

static long long number(const char *name, long long otherwise)
{
	const char *v = getenv(name);
	return v && *v ? atoll(v) : otherwise;
}

static void text(const char *name, const char *otherwise, char *out, size_t cap)
{
	const char *v = getenv(name);
	snprintf(out, cap, "%s", v && *v ? v : otherwise);
}

/* The devices that VARIABLE leaves of those that are there: numbers, separated by
 * commas, up to the first that is none. */
static void see(const char *variable, struct settings *s)
{
	const char *p = getenv(variable);
	int there = s->devices, n = 0, index, length;
	for (int i = 0; !p && i < there && i < MAX_DEVICES; i++)
		s->visible[i] = i;
	if (!p)
		return;
	for (; n < MAX_DEVICES && sscanf(p, "%d%n", &index, &length) == 1 && index >= 0 && index < there; n++) {
		s->visible[n] = index;
		p += length;
		p += *p == ',';
	}
	s->devices = n;
}

void fake_name(int index, char *out, size_t cap)
{
	const char *s = settings.name;
	for (const char *next; index > 0 && (next = strchr(s, '|')); index--)
		s = next + 1;
	snprintf(out, cap, "%.*s", (int)strcspn(s, "|"), s);
}

static int unused(void)
{
	for (int i = 0; i < settings.devices; i++)
		if (devices[i].retained)
			return 0;
	return 1;
}

/* A test process may start over with other settings once nothing is in use.
 * With the same ones it goes on: another thread may be about to use a device. */
static void forget(void)
{
	for (int i = 0; i < settings.devices; i++) {
		fake_unmap_device(&devices[i]);
		pthread_mutex_destroy(&devices[i].mutex);
		memset(&devices[i], 0, sizeof devices[i]);
	}
	initialised = 0;
}

int fake_init(const char *default_name, const char *default_arch, int default_version, const char *visible, int threads_start_on)
{
	int rc = OK;
	pthread_mutex_lock(&global);
	struct settings now;
	memset(&now, 0, sizeof now);
	text("CX_FAKE_DIR", "", now.dir, sizeof now.dir);
	text("CX_FAKE_NAME", default_name, now.name, sizeof now.name);
	text("CX_FAKE_ARCH", default_arch, now.arch, sizeof now.arch);
	now.devices = number("CX_FAKE_DEVICES", 2);
	see(visible, &now);
	now.memory = number("CX_FAKE_MEMORY", 2ll << 30);
	now.version = number("CX_FAKE_VERSION", default_version);
	now.threads_start_on = threads_start_on;
	if (initialised && unused() && memcmp(&now, &settings, sizeof now) != 0)
		forget();
	if (!initialised) {
		memcpy(&settings, &now, sizeof now);
		if (!settings.dir[0]) {
			fprintf(stderr, "fake driver: CX_FAKE_DIR is not set\n");
			rc = UNKNOWN;
		} else if (settings.devices < 1 || settings.devices > MAX_DEVICES) {
			rc = NO_DEVICE;
		} else {
			for (int i = 0; i < settings.devices; i++) {
				devices[i].index = i;
				pthread_mutex_init(&devices[i].mutex, NULL);
			}
			initialised = 1;
		}
	}
	pthread_mutex_unlock(&global);
	return rc;
}

/* Parses CX_FAKE_FAIL anew at each call: tests set it before the process
 * starts, and calls are few. */
int fake_injected(const char *function)
{
	static struct { char name[64]; int calls; } seen[64];
	const char *list = getenv("CX_FAKE_FAIL");
	size_t len = strlen(function);
	if (!list || !*list)
		return 0;
	for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		int nth = 0, code = 0, count = 0;
		const char *rest = p + len;
		if (strncmp(p, function, len) != 0)
			continue;
		if (sscanf(rest, "#%d=%d", &nth, &code) != 2 && sscanf(rest, "=%d", &code) != 1)
			continue;
		if (nth == 0)
			return code;
		pthread_mutex_lock(&global);
		for (int i = 0; i < 64; i++) {
			if (!seen[i].name[0])
				snprintf(seen[i].name, sizeof seen[i].name, "%s", function);
			if (strcmp(seen[i].name, function) == 0) {
				count = ++seen[i].calls;
				break;
			}
		}
		pthread_mutex_unlock(&global);
		if (count == nth)
			return code;
	}
	return 0;
}

int fake_count(int *count)
{
	if (!initialised)
		return NOT_INITIALIZED;
	*count = settings.devices;
	return OK;
}

struct device *fake_device(int index)
{
	return initialised && index >= 0 && index < settings.devices ? &devices[index] : NULL;
}

int fake_retain(int index, struct device **dev)
{
	int rc = OK;
	struct device *d = fake_device(index);
	if (!initialised)
		return NOT_INITIALIZED;
	if (!d)
		return INVALID_DEVICE;
	pthread_mutex_lock(&global);
	if (d->retained == 0) {
		d->sticky = 0;
		rc = fake_map_device(d);
	}
	if (rc == OK)
		d->retained++;
	pthread_mutex_unlock(&global);
	*dev = d;
	return rc;
}

/* The last reference takes all memory with it. */
int fake_release(int index)
{
	struct device *d = fake_device(index);
	int last;
	if (!d || d->retained == 0)
		return INVALID_CONTEXT;
	pthread_mutex_lock(&global);
	last = --d->retained == 0;
	pthread_mutex_unlock(&global);
	if (last) {
		fake_device_sync(d);
		fake_drop_memory(d);
	}
	return OK;
}

int fake_bind(struct device *dev)
{
	if (dev && dev->retained == 0)
		return INVALID_CONTEXT;
	current = dev;
	return OK;
}

/* HIP's way: a device stays retained once a thread used it. */
int fake_bind_index(int index)
{
	struct device *d = fake_device(index);
	int rc = OK;
	if (!initialised)
		return NOT_INITIALIZED;
	if (!d)
		return INVALID_DEVICE;
	if (d->retained == 0)
		rc = fake_retain(index, &d);
	if (rc == OK)
		current = d;
	return rc;
}

int fake_current(struct device **dev)
{
	if (!initialised)
		return NOT_INITIALIZED;
	if (!current && settings.threads_start_on >= 0)
		fake_bind_index(settings.threads_start_on);
	if (!current || current->retained == 0)
		return INVALID_CONTEXT;
	*dev = current;
	return current->sticky;
}

int cx_fake_current(int *index)
{
	struct device *d;
	int rc = fake_current(&d);
	if (!rc)
		*index = d->index;
	return rc;
}
