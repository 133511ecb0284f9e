/*
 * libnvidia-ml.so.1: NVML's answers for the devices that the stand-in for
 * libcuda has, in the same settings. All hang on NVLink switches.
 *
 *   CX_FAKE_NVML_FAIL=CODE  nvmlInit_v2 returns it
 *   CX_FAKE_MIG=1           MIG is on
 *   CX_FAKE_REASONS=BITS    why clocks are held down; each answer adds a
 *                           millisecond to the counters of these reasons
 *   CX_FAKE_UNCORRECTED=N   each answer finds N uncorrected errors more
 *   CX_FAKE_USED=BYTES      memory in use
 *   CX_FAKE_SM_CLOCKS=A,B   MHz of the devices in their order; the last stands
 *                           for all that follow
 *   CX_FAKE_NVML_LOST=N     device N answers only that it is lost
 *   CX_FAKE_PROCESSES=A,B   other processes that compute on every device
 *   CX_FAKE_SELF=PID        as which the driver lists this process, which it
 *                           does always; 0: it does not
 *   CX_FAKE_GRAPHICS=PID    a process that draws
 *   CX_FAKE_MPS=PID         a client of MPS
 *   CX_FAKE_BUSY=PERCENT    utilisation
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15 };
enum { LINKS = 18 };

struct device { int index; unsigned long long held, uncorrected; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct field { unsigned id, scope; long long timestamp, latency; unsigned type, ret; unsigned long long value; };
struct memory { unsigned long long total, free, used; };

static struct device devices[64];
static _Atomic int started;

static long long number(const char *name, long long otherwise)
{
	const char *v = getenv(name);
	return v && *v ? atoll(v) : otherwise;
}

static int count(void) { return (int)number("CX_FAKE_DEVICES", 2); }

static int bad(const struct device *d)
{
	if (!started)
		return UNINITIALIZED;
	if (!d || d < devices || d >= devices + count())
		return INVALID_ARGUMENT;
	return d->index == number("CX_FAKE_NVML_LOST", -1) ? LOST : OK;
}

/* Answers v about d, or says what is wrong with d. */
#define ANSWER(d, out, v)            \
	do {                         \
		int wrong = bad(d);  \
		if (wrong)           \
			return wrong; \
		*(out) = (v);        \
		return OK;           \
	} while (0)

EXPORT int nvmlInit_v2(void)
{
	int code = (int)number("CX_FAKE_NVML_FAIL", 0);
	if (code)
		return code;
	for (int i = 0; i < 64; i++)
		devices[i].index = i;
	started++;
	return OK;
}

EXPORT int nvmlShutdown(void)
{
	if (!started)
		return UNINITIALIZED;
	started--;
	return OK;
}

EXPORT int nvmlSystemGetDriverVersion(char *s, unsigned cap)
{
	snprintf(s, cap, "580.95.05");
	return started ? OK : UNINITIALIZED;
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *v)
{
	*v = (int)number("CX_FAKE_VERSION", 13000);
	return started ? OK : UNINITIALIZED;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = count();
	return started ? OK : UNINITIALIZED;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct device **d)
{
	*d = i < 64 ? &devices[i] : NULL;
	return bad(*d);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct device **d)
{
	unsigned domain, bus, device, function;
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 || domain || device || function)
		return INVALID_ARGUMENT;
	if (bus < 0x10 || bus >= 0x10 + (unsigned)count())
		return NOT_FOUND;
	*d = &devices[bus - 0x10];
	return bad(*d);
}

EXPORT int nvmlDeviceGetName(struct device *d, char *s, unsigned cap)
{
	const char *name = getenv("CX_FAKE_NAME");
	if (!name || !*name)
		name = "CX Fake NVIDIA GPU";
	int before = d ? d->index : 0;
	for (const char *next; before > 0 && (next = strchr(name, '|')); before--)
		name = next + 1;
	snprintf(s, cap, "%.*s", (int)strcspn(name, "|"), name);
	return bad(d);
}

static int pci(struct pci *p, int bus)
{
	memset(p, 0, sizeof *p);
	p->bus = bus;
	snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", bus);
	return OK;
}

EXPORT int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *p)
{
	int wrong = bad(d);
	return wrong ? wrong : pci(p, 0x10 + d->index);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(struct device *d, int *major, int *minor)
{
	const char *arch = getenv("CX_FAKE_ARCH");
	int n = 90;
	if (arch)
		sscanf(arch, "sm_%d", &n);
	*major = n / 10;
	*minor = n % 10;
	return bad(d);
}

EXPORT int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *m)
{
	m->total = number("CX_FAKE_MEMORY", 2ll << 30);
	m->used = number("CX_FAKE_USED", 0);
	m->free = m->total - m->used;
	return bad(d);
}

EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(struct device *d, unsigned *v) { ANSWER(d, v, 5); }
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(struct device *d, unsigned *v) { ANSWER(d, v, 16); }
EXPORT int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned *v) { ANSWER(d, v, 700000); }
EXPORT int nvmlDeviceGetPowerUsage(struct device *d, unsigned *v) { ANSWER(d, v, 123456); }
EXPORT int nvmlDeviceGetMaxClockInfo(struct device *d, unsigned c, unsigned *v) { ANSWER(d, v, c == 2 ? 3201 : 1980); }

static unsigned sm_clock(int index)
{
	const char *s = getenv("CX_FAKE_SM_CLOCKS");
	if (!s || !*s)
		return 1755;
	for (const char *next; index > 0 && (next = strchr(s, ',')); index--)
		s = next + 1;
	return atoi(s);
}

EXPORT int nvmlDeviceGetClockInfo(struct device *d, unsigned c, unsigned *v)
{
	ANSWER(d, v, c == 2 ? 3201 : sm_clock(d->index));
}
EXPORT int nvmlDeviceGetTemperature(struct device *d, unsigned sensor, unsigned *v) { ANSWER(d, v, sensor == 0 ? 33 : 99); }

static unsigned long long reasons(void) { return number("CX_FAKE_REASONS", 0); }

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, unsigned long long *v) { ANSWER(d, v, reasons()); }

/* As a driver of 2026 does: counters by reason, and none for others. */
EXPORT int nvmlDeviceGetFieldValues(struct device *d, int n, struct field *f)
{
	int wrong = bad(d);
	if (wrong)
		return wrong;
	d->held += 1000000;
	for (int i = 0; i < n; i++) {
		unsigned long long bit = f[i].id == 74 ? 0x04 : f[i].id == 76 ? 0x10 : f[i].id == 269 ? 0x20 : f[i].id == 270 ? 0x40 : f[i].id == 271 ? 0x80 : 0;
		if (f[i].id == 164) { /* of an unsigned int the driver writes four bytes */
			f[i].ret = OK;
			f[i].value = 0xdead00000000 | 26562;
			continue;
		}
		f[i].ret = bit ? OK : NOT_SUPPORTED;
		f[i].value = reasons() & bit ? d->held : 0;
	}
	return OK;
}

struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };

/* Lists the processes in s, a list with commas, behind first, if that is one. */
static int processes(struct device *d, unsigned *n, struct process *p, long long first, const char *s)
{
	int wrong = bad(d);
	if (wrong)
		return wrong;
	unsigned room = *n;
	*n = 0;
	if (first && (*n)++ < room)
		p[0].pid = first;
	while (s && *s) {
		if ((*n)++ < room)
			p[*n - 1].pid = strtoul(s, NULL, 10);
		s = strchr(s, ',');
		s = s ? s + 1 : NULL;
	}
	return *n > room ? INSUFFICIENT_SIZE : OK;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process *p)
{
	return processes(d, n, p, number("CX_FAKE_SELF", getpid()), getenv("CX_FAKE_PROCESSES"));
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process *p)
{
	return processes(d, n, p, 0, getenv("CX_FAKE_MPS"));
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned *n, struct process *p)
{
	return processes(d, n, p, 0, getenv("CX_FAKE_GRAPHICS"));
}

EXPORT int nvmlDeviceGetUtilizationRates(struct device *d, unsigned *percent)
{
	percent[1] = 0;
	ANSWER(d, percent, (unsigned)number("CX_FAKE_BUSY", 0));
}

EXPORT int nvmlDeviceGetMemoryBusWidth(struct device *d, unsigned *v) { ANSWER(d, v, 6144); }

EXPORT int nvmlDeviceGetEccMode(struct device *d, unsigned *current, unsigned *pending)
{
	*pending = 0;
	ANSWER(d, current, 1);
}

EXPORT int nvmlDeviceGetMigMode(struct device *d, unsigned *current, unsigned *pending)
{
	*pending = 0;
	ANSWER(d, current, (unsigned)number("CX_FAKE_MIG", 0));
}

EXPORT int nvmlDeviceGetTotalEccErrors(struct device *d, unsigned kind, unsigned counter, unsigned long long *v)
{
	if (counter != 0)
		return INVALID_ARGUMENT;
	if (d && kind)
		d->uncorrected += number("CX_FAKE_UNCORRECTED", 0);
	ANSWER(d, v, kind == 0 ? 7 : d->uncorrected);
}

EXPORT int nvmlDeviceGetNvLinkState(struct device *d, unsigned link, unsigned *v)
{
	if (link >= LINKS)
		return INVALID_ARGUMENT;
	ANSWER(d, v, 1);
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *d, unsigned link, struct pci *p)
{
	int wrong = bad(d);
	return wrong ? wrong : link >= LINKS ? INVALID_ARGUMENT : pci(p, 0x05);
}
