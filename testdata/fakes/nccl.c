// A stand-in for libnccl and librccl: the NCCL C ABI over the memory of the
// stand-in driver libraries, one process per rank. It moves and reduces real
// data, in stream order and in graphs, and keeps the rules of the real ones. It
// knows nothing of who calls it or what is expected.
//
// Built with -DCX_FAKE_RCCL it is RCCL: hipMalloc for memory and RCCL's extra
// symbols. What a library lacks is hidden by a version script.
//
// The environment orders faults. RANK:N is a rank and how many operations of a
// communicator come before the fault, from 0.
//   CX_FAKE_NCCL_VERSION=CODE         ncclGetVersion (default 22809); CX_FAKE_RCCL_VERSION likewise (22203)
//   CX_FAKE_NCCL_INIT_ERROR=RANK,…    communicator set-up fails there
//   CX_FAKE_NCCL_CALL_ERROR=RANK:N    the call returns ncclInternalError
//   CX_FAKE_NCCL_ASYNC_ERROR=RANK:N   the operation never ends, the communicator says ncclRemoteError
//   CX_FAKE_NCCL_HANG=RANK:N          the operation never ends
//   CX_FAKE_NCCL_FLIP=RANK:N          one bit of the middle of the result is wrong
//   CX_FAKE_NCCL_ARITHMETIC=HOW       truncates, flushes (subnormal numbers), loses-nan or drops (the last rank's
//                                     input where it is not exact to add)
//   CX_FAKE_NCCL_REORDER=RANK:N       every Nth operation of a communicator adds in another order there
//   CX_FAKE_NCCL_SLOW=FROM:TO:US      messages from a rank to another take so many microseconds longer
//   CX_FAKE_NCCL_MEMORY=BYTES         ncclMemAlloc fails beyond
//   CX_FAKE_NCCL_VIA=TRANSPORT        the log says that data go that way; empty: it says nothing
//   CX_FAKE_NCCL_NO_HANDLE=1          registrations succeed without a handle
//   CX_FAKE_NCCL_LSA=N                only N ranks each load and store each other's memory

#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	Success, UnhandledCudaError, SystemError, InternalError, InvalidArgument, InvalidUsage, RemoteError, InProgress
};
enum { Sum, Prod, Max, Min, Avg };
enum { MAX_RANKS = 16, MAIL = 256, MAX_OPS = 4096, MAX_REDOPS = 64, CHUNK = 1 << 20 };

// ---- element types ---------------------------------------------------------

struct format { int size, mantissa, bias, finite; };
static const struct format formats[] = {
	{1, 0, 0, 0}, {1, 0, 0, 0}, {4, 0, 0, 0}, {4, 0, 0, 0}, {8, 0, 0, 0}, {8, 0, 0, 0},
	{2, 10, 15, 0}, {4, 23, 127, 0}, {8, 52, 1023, 0}, {2, 7, 127, 0}, {1, 3, 7, 1}, {1, 2, 15, 0},
};
enum { TYPES = sizeof formats / sizeof formats[0] };
enum { F16 = 6, F32 = 7, F64 = 8, BF16 = 9, E4M3 = 10, E5M2 = 11 };

static uint64_t load(const char *p, int type) {
	uint64_t v = 0;
	memcpy(&v, p, formats[type].size);
	return v;
}

static void store(char *p, int type, uint64_t v) { memcpy(p, &v, formats[type].size); }

// Small floating types go through double, which holds each of them and the
// product or sum of two exactly enough to round once.
static double decode(uint64_t v, int type) {
	if (type == F32) { float f; memcpy(&f, &v, 4); return f; }
	if (type == F64) { double d; memcpy(&d, &v, 8); return d; }
	const struct format *f = &formats[type];
	int bits = 8 * f->size, width = bits - 1 - f->mantissa;
	int sign = v >> (bits - 1) & 1, exponent = v >> f->mantissa & ((1 << width) - 1);
	int fraction = v & ((1 << f->mantissa) - 1), ones = (1 << width) - 1;
	if (exponent == ones && (!f->finite || fraction == (1 << f->mantissa) - 1))
		return !f->finite && fraction == 0 ? (sign ? -INFINITY : INFINITY) : NAN;
	double m = exponent == 0 ? ldexp(fraction, 1 - f->bias - f->mantissa)
	                         : ldexp((1 << f->mantissa) | fraction, exponent - f->bias - f->mantissa);
	return sign ? -m : m;
}

static uint64_t encode(double d, int type) {
	uint64_t v = 0;
	if (type == F32) { float f = (float)d; memcpy(&v, &f, 4); return v; }
	if (type == F64) { memcpy(&v, &d, 8); return v; }
	const struct format *f = &formats[type];
	int bits = 8 * f->size, width = bits - 1 - f->mantissa, ones = (1 << width) - 1;
	uint64_t sign = (uint64_t)(signbit(d) != 0) << (bits - 1);
	d = fabs(d);
	if (isnan(d)) return sign | (uint64_t)ones << f->mantissa | ((1 << f->mantissa) - 1);
	int exponent = 0;
	if (d != 0) frexp(d, &exponent);
	exponent--; // d = 1.x * 2^exponent
	if (exponent < 1 - f->bias) exponent = 1 - f->bias;
	double scaled = nearbyint(ldexp(d, f->mantissa - exponent)); // to nearest, ties to even
	uint64_t m = isinf(d) ? UINT64_MAX >> 1 : (uint64_t)scaled;
	// A carry out of the fraction, or a subnormal that became normal, adds into the exponent.
	uint64_t magnitude = m < (uint64_t)1 << f->mantissa
		? m : m - ((uint64_t)1 << f->mantissa) + ((uint64_t)(exponent + f->bias) << f->mantissa);
	uint64_t limit = ((uint64_t)ones << f->mantissa) + (f->finite ? (1u << f->mantissa) - 1 : 0);
	if (isinf(d) || magnitude >= limit) {
		int saturates = type == E4M3 || type == E5M2;
		magnitude = saturates ? limit - 1 : limit;
	}
	return sign | magnitude;
}

static uint64_t truncated(uint64_t v, int type) {
	return formats[type].size == 8 ? v : v & (((uint64_t)1 << 8 * formats[type].size) - 1);
}

static int64_t extended(uint64_t v, int type) {
	int shift = 64 - 8 * formats[type].size;
	return (int64_t)(v << shift) >> shift;
}

static const char *arithmetic(void) {
	const char *how = getenv("CX_FAKE_NCCL_ARITHMETIC");
	return how == NULL ? "" : how;
}

// injured is what an ordered fault makes of an input.
static uint64_t injured(uint64_t v, int type, const char *how) {
	const struct format *f = &formats[type];
	if (f->mantissa == 0) return v;
	uint64_t exponent = v >> f->mantissa & (((uint64_t)1 << (8 * f->size - 1 - f->mantissa)) - 1);
	if (strcmp(how, "flushes") == 0 && exponent == 0) return 0;
	if (strcmp(how, "loses-nan") == 0 && isnan(decode(v, type))) return 0;
	return v;
}

// truncated_sum is x + y of two small floats, rounded towards zero.
static uint64_t truncated_sum(double x, double y, int type) {
	uint64_t v = encode(x + y, type);
	return isfinite(x + y) && fabs(decode(v, type)) > fabs(x + y) ? v - 1 : v;
}

// reduce2 is one step of a reduction, rounded to the element type.
static uint64_t reduce2(uint64_t a, uint64_t b, int type, int op) {
	if (formats[type].mantissa != 0) {
		double x = decode(a, type), y = decode(b, type);
		switch (op) {
		case Prod: return encode(x * y, type);
		case Max: return y > x ? b : a;
		case Min: return y < x ? b : a;
		default:
			// A float sum of two floats is rounded once: not through double twice.
			if (type == F32) return encode((float)x + (float)y, type);
			return encode(x + y, type);
		}
	}
	int is_signed = type == 0 || type == 2 || type == 4;
	switch (op) {
	case Prod: return truncated(a * b, type);
	case Max:
	case Min: {
		int less = is_signed ? extended(b, type) < extended(a, type) : b < a;
		return less == (op == Min) ? b : a;
	}
	default: return truncated(a + b, type);
	}
}

static uint64_t scaled(uint64_t v, uint64_t scalar, int type) {
	if (formats[type].mantissa != 0) return encode(decode(v, type) * decode(scalar, type), type);
	return truncated(v * scalar, type);
}

// ---- the stand-in driver ---------------------------------------------------

static struct {
	// Says which file holds the memory at p, and where in it.
	int (*locate)(const void *p, char *path, size_t cap, uint64_t *offset, uint64_t *length);
	// Runs fn(arg) in stream order, once for each time the work is launched. release
	// is called when nothing can launch it again.
	int (*enqueue)(void *stream, void (*fn)(void *), void *arg, void (*release)(void *));
	int (*alloc)(void **p, size_t bytes);
	int (*free)(void *p);
} driver;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void driver_bind(void) {
#ifdef CX_FAKE_RCCL
	const char *names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so", NULL};
	const char *alloc = "hipMalloc", *release = "hipFree";
#else
	const char *names[] = {"libcuda.so.1", NULL};
	const char *alloc = "cuMemAlloc_v2", *release = "cuMemFree_v2";
#endif
	void *handle = NULL;
	for (int i = 0; names[i] != NULL && handle == NULL; i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
	if (handle == NULL) return;
	*(void **)&driver.locate = dlsym(handle, "cx_fake_locate");
	*(void **)&driver.enqueue = dlsym(handle, "cx_fake_enqueue");
	*(void **)&driver.alloc = dlsym(handle, alloc);
	*(void **)&driver.free = dlsym(handle, release);
}

static int driver_ok(void) {
	pthread_once(&driver_once, driver_bind);
	return driver.locate != NULL && driver.enqueue != NULL;
}

// ---- orders from the environment -------------------------------------------

static long ordered(const char *name, long otherwise) {
	const char *text = getenv(name);
	return text != NULL && *text != 0 ? strtol(text, NULL, 0) : otherwise;
}

// fault_at reports whether the order RANK:N names this operation.
static int fault_at(const char *name, int rank, uint64_t n) {
	const char *text = getenv(name);
	char *rest;
	if (text == NULL || *text == 0) return 0;
	long at = strtol(text, &rest, 0);
	return at == rank && *rest == ':' && strtoull(rest + 1, NULL, 0) == n;
}

static int version(void) {
#ifdef CX_FAKE_RCCL
	return (int)ordered("CX_FAKE_RCCL_VERSION", 22203);
#else
	return (int)ordered("CX_FAKE_NCCL_VERSION", 22809);
#endif
}

static __thread char last_error[256];

static int fail(int result, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(last_error, sizeof last_error, format, args);
	va_end(args);
	return result;
}

// ---- what the ranks of a communicator share --------------------------------

struct place { char path[512]; uint64_t offset; };

// One collective as one rank calls it. All but the places, what is read there and the scalar have
// to be equal on all ranks.
struct post {
	int32_t kind, type, op, root, premul;
	uint64_t count, scalar;
	struct place send;
	uint64_t read; // bytes at send
};

struct mail { int32_t type; uint64_t count; struct place send; };

// A bell is rung after a change of what ranks wait for. A rank sleeps until it hears it.
struct bell { _Atomic uint32_t rings, sleepers; };

struct pair {
	struct bell bell;
	_Atomic uint64_t posted, taken;
	struct mail box[MAIL];
};

struct shared {
	_Atomic int joined, nranks;
	_Atomic int aborts; // ranks whose communicator was aborted
	_Atomic int claimed[MAX_RANKS];
	struct bell host_bell, stream_bell;
	_Atomic uint64_t host_phase[MAX_RANKS], stream_phase[MAX_RANKS];
	int64_t host_value[MAX_RANKS][2];
	uint64_t ids[MAX_RANKS]; // of all unique ids that a rank was given
	struct place windows[MAX_RANKS];
	struct post posts[MAX_RANKS];
	struct pair pairs[MAX_RANKS][MAX_RANKS]; // [from][to]
};

struct redop { int used; int type; uint64_t scalar; };

struct comm {
	uint32_t alive; // LIVING until destroyed; the memory stays so that later use is seen
	int rank, nranks;
	char path[128];
	struct shared *shared;
	_Atomic int async;
	_Atomic uint32_t aborted;
	uint64_t ops; // operations called
	uint64_t splits, shrinks, host_phase, stream_phase;
	struct redop redops[MAX_REDOPS];
	unsigned algos[5], protos[5]; // allowed by the environment: a bit for each, by function
	int sends_to[MAX_RANKS]; // connections that were made
	int graph_mode; // graphUsageMode; 2 by default
	int min_ctas, max_ctas;
};

int cx_fake_graph_mode(struct comm *c) { return c->graph_mode; }

enum { LIVING = 0x11fe11fe, GONE = 0xdeadc033 };

static void ring(struct bell *b) {
	atomic_fetch_add(&b->rings, 1);
	if (atomic_load(&b->sleepers) > 0) syscall(SYS_futex, &b->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// sleep_until_rung returns after the bell was rung since it had rung so often, or for no reason.
static void sleep_until_rung(struct bell *b, uint32_t rings) {
	atomic_fetch_add(&b->sleepers, 1);
	syscall(SYS_futex, &b->rings, FUTEX_WAIT, rings, NULL, NULL, 0);
	atomic_fetch_sub(&b->sleepers, 1);
}

// UNTIL sleeps until the condition holds. It gives up, and is 0, when this rank's communicator is
// aborted.
#define UNTIL(c, b, condition) ({ \
	int holds_; \
	for (;;) { \
		uint32_t rings_ = atomic_load(&(b)->rings); \
		if ((holds_ = (condition)) || atomic_load(&(c)->aborted)) break; \
		sleep_until_rung(b, rings_); \
	} \
	holds_; \
})

static int all_came(struct comm *c, _Atomic uint64_t *phases, uint64_t so_far) {
	for (int r = 0; r < c->nranks; r++)
		if (atomic_load(&phases[r]) < so_far) return 0;
	return 1;
}

// await_phase waits until all ranks have come as far as this one. The last one rings.
static int await_phase(struct comm *c, struct bell *b, _Atomic uint64_t *phases, uint64_t mine) {
	atomic_store(&phases[c->rank], mine);
	if (all_came(c, phases, mine)) { ring(b); return 1; }
	return UNTIL(c, b, all_came(c, phases, mine));
}

static int stream_barrier(struct comm *c) { return await_phase(c, &c->shared->stream_bell, c->shared->stream_phase, ++c->stream_phase); }
static int host_barrier(struct comm *c) { return await_phase(c, &c->shared->host_bell, c->shared->host_phase, ++c->host_phase); }

// hang_until_abort is how an operation that cannot end behaves on a device.
static void hang_until_abort(struct comm *c) { UNTIL(c, &c->shared->stream_bell, 0); }

// abort_waits ends all waits of this rank.
static void abort_waits(struct comm *c) {
	atomic_store(&c->aborted, 1);
	ring(&c->shared->host_bell);
	ring(&c->shared->stream_bell);
	for (int r = 0; r < c->nranks; r++) {
		ring(&c->shared->pairs[c->rank][r].bell);
		ring(&c->shared->pairs[r][c->rank].bell);
	}
}

static void broken(struct comm *c, int result) {
	int none = Success;
	atomic_compare_exchange_strong(&c->async, &none, result);
	hang_until_abort(c);
}

// ---- other ranks' memory ---------------------------------------------------

struct mapping { char path[512]; char *base; uint64_t length; struct mapping *next; };
static struct mapping *mappings;
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

// at maps the file of a place and returns the address of n bytes there.
static char *at(const struct place *p, uint64_t n) {
	pthread_mutex_lock(&mappings_lock);
	struct mapping *m = mappings;
	while (m != NULL && (strcmp(m->path, p->path) != 0 || m->length < p->offset + n)) m = m->next;
	if (m == NULL) {
		struct stat s;
		int fd = open(p->path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && fstat(fd, &s) == 0 && (uint64_t)s.st_size >= p->offset + n) {
			void *base = mmap(NULL, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			if (base != MAP_FAILED) {
				m = calloc(1, sizeof *m);
				snprintf(m->path, sizeof m->path, "%s", p->path);
				m->base = base;
				m->length = s.st_size;
				m->next = mappings;
				mappings = m;
			}
		}
		if (fd >= 0) close(fd);
	}
	pthread_mutex_unlock(&mappings_lock);
	return m == NULL ? NULL : m->base + p->offset;
}

// place_of finds the file behind n bytes of device memory.
static int place_of(const void *p, uint64_t n, struct place *place) {
	uint64_t length = 0;
	memset(place, 0, sizeof *place);
	if (n == 0) return 1;
	return driver.locate(p, place->path, sizeof place->path, &place->offset, &length) == 0 && length >= n;
}

// ---- operations ------------------------------------------------------------

enum kind { AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, AlltoAll, Gather, Scatter, Send, Recv };

struct op {
	struct comm *comm;
	int kind, type, op, root, premul; // root is the peer of Send and Recv
	uint64_t scalar;
	const char *send;
	char *recv;
	uint64_t count;
	int hang, async, flip, reorder;
	const char *selection; // of algorithms for this call, or NULL
	int ctas;              // for this call, or 0
};

struct work { int n; struct op ops[]; };

// A block of a result: count elements from rank source's input, or reduced over all ranks.
enum { REDUCED = -1 };

static char *peer_input(struct comm *c, int r, uint64_t first, uint64_t count) {
	struct post *p = &c->shared->posts[r];
	int size = formats[p->type].size;
	struct place q = p->send;
	q.offset += first * size;
	return at(&q, count * size);
}

static int reduce_into(struct comm *c, const struct op *o, char *to, uint64_t first, uint64_t count) {
	int size = formats[o->type].size, op = o->op;
	const char *in[MAX_RANKS];
	uint64_t average = 0;
	int floating = formats[o->type].mantissa != 0;
	for (int r = 0; r < c->nranks; r++)
		if ((in[r] = peer_input(c, r, first, count)) == NULL) return 0;
	if (op == Avg && floating) average = encode(1.0 / c->nranks, o->type);
	const char *how = arithmetic();
	for (uint64_t i = 0; i < count; i++) {
		uint64_t acc = 0;
		for (int k = 0; k < c->nranks; k++) {
			// As in a ring, each part of a buffer is reduced in another order.
			int r = (int)((k + (first + i) / 1024) % c->nranks);
			if (o->reorder) r = c->nranks - 1 - r;
			struct post *p = &c->shared->posts[r];
			uint64_t v = injured(load(in[r] + i * size, o->type), o->type, how);
			if (p->premul) v = scaled(v, p->scalar, o->type);
			if (average != 0) v = scaled(v, average, o->type);
			uint64_t next = k == 0 ? v : reduce2(acc, v, o->type, op == Avg ? Sum : op);
			if (k > 0 && floating && op == Sum && *how != 0) {
				double x = decode(acc, o->type), y = decode(v, o->type);
				if (strcmp(how, "truncates") == 0) next = truncated_sum(x, y, o->type);
				if (strcmp(how, "drops") == 0 && decode(next, o->type) != x + y) next = acc;
			}
			acc = next;
		}
		if (op == Avg && !floating) {
			int is_signed = o->type == 0 || o->type == 2 || o->type == 4;
			acc = is_signed ? truncated((uint64_t)(extended(acc, o->type) / c->nranks), o->type) : acc / c->nranks;
		}
		store(to + i * size, o->type, acc);
	}
	return 1;
}

// produce writes count elements of the result, from element first on.
static int produce(struct comm *c, const struct op *o, char *to, int source, uint64_t first, uint64_t count) {
	if (source == REDUCED) return reduce_into(c, o, to, first, count);
	char *in = peer_input(c, source, first, count);
	if (in == NULL && count > 0) return 0;
	if (count > 0) memcpy(to, in, count * formats[o->type].size);
	return 1;
}

struct block { uint64_t to; int source; uint64_t first, count; };

// layout is what each rank's receive buffer consists of.
static int layout(const struct comm *c, const struct op *o, struct block *b) {
	int n = c->nranks, rank = c->rank;
	uint64_t k = o->count;
	switch (o->kind) {
	case AllReduce: b[0] = (struct block){0, REDUCED, 0, k}; return 1;
	case Reduce: b[0] = (struct block){0, REDUCED, 0, k}; return rank == o->root;
	case ReduceScatter: b[0] = (struct block){0, REDUCED, (uint64_t)rank * k, k}; return 1;
	case Broadcast: b[0] = (struct block){0, o->root, 0, k}; return 1;
	case Scatter: b[0] = (struct block){0, o->root, (uint64_t)rank * k, k}; return 1;
	case AllGather:
	case Gather:
		for (int r = 0; r < n; r++) b[r] = (struct block){(uint64_t)r * k, r, 0, k};
		return o->kind == AllGather || rank == o->root ? n : 0;
	default: // AlltoAll
		for (int r = 0; r < n; r++) b[r] = (struct block){(uint64_t)r * k, r, (uint64_t)rank * k, k};
		return n;
	}
}

// input is how many elements of the send buffer are read.
static uint64_t input(const struct comm *c, const struct op *o) {
	switch (o->kind) {
	case ReduceScatter:
	case AlltoAll: return o->count * (uint64_t)c->nranks;
	case Broadcast: return c->rank == o->root ? o->count : 0;
	case Scatter: return c->rank == o->root ? o->count * (uint64_t)c->nranks : 0;
	default: return o->count;
	}
}

static uint64_t output(const struct comm *c, const struct op *o) {
	switch (o->kind) {
	case AllGather:
	case AlltoAll: return o->count * (uint64_t)c->nranks;
	case Gather: return c->rank == o->root ? o->count * (uint64_t)c->nranks : 0;
	case Reduce: return c->rank == o->root ? o->count : 0;
	default: return o->count;
	}
}

// overlaps reports whether n bytes of a result lie where a rank's input is.
static int overlaps(const struct comm *c, const struct place *result, uint64_t n) {
	for (int r = 0; r < c->nranks; r++) {
		const struct post *p = &c->shared->posts[r];
		if (strcmp(p->send.path, result->path) == 0 && p->send.offset < result->offset + n && result->offset < p->send.offset + p->read) return 1;
	}
	return 0;
}

static void run_collective(const struct op *o) {
	struct comm *c = o->comm;
	struct shared *s = c->shared;
	struct post *mine = &s->posts[c->rank];
	struct block blocks[MAX_RANKS];
	struct place target;
	int size = formats[o->type].size;
	memset(mine, 0, sizeof *mine);
	*mine = (struct post){o->kind, o->type, o->op, o->root, o->premul, o->count, o->scalar, {{0}, 0}, input(c, o) * size};
	char *recv = NULL;
	int known = place_of(o->send, input(c, o) * size, &mine->send) && place_of(o->recv, output(c, o) * size, &target);
	if (known && output(c, o) > 0) known = (recv = at(&target, output(c, o) * size)) != NULL;
	if (!stream_barrier(c)) return;
	if (!known) { broken(c, UnhandledCudaError); return; }
	for (int r = 0; r < c->nranks; r++) {
		struct post *p = &s->posts[r];
		if (p->kind != o->kind || p->type != o->type || p->op != o->op || p->root != o->root || p->premul != o->premul || p->count != o->count) {
			broken(c, InvalidUsage);
			return;
		}
	}
	int n = layout(c, o, blocks);
	uint64_t most = o->count; // every block has count elements, on all ranks alike
	// What others still read, a result may not replace. No larger than needed: a large block comes
	// from the kernel page by page each time.
	int aside = output(c, o) > 0 && overlaps(c, &target, output(c, o) * size);
	size_t span = (size_t)(most < CHUNK ? most : CHUNK) * size;
	char *part = aside ? malloc(n * span + 1) : NULL;
	for (uint64_t first = 0; first == 0 || first < most; first += CHUNK) {
		uint64_t count = most - first < CHUNK ? most - first : CHUNK;
		int ok = 1;
		for (int b = 0; b < n && ok; b++)
			ok = produce(c, o, aside ? part + b * span : recv + (blocks[b].to + first) * size, blocks[b].source, blocks[b].first + first, count);
		if (!stream_barrier(c)) break;
		if (!ok) { broken(c, UnhandledCudaError); break; }
		for (int b = 0; b < n && aside && count > 0; b++)
			memcpy(recv + (blocks[b].to + first) * size, part + b * span, count * size);
	}
	if (o->flip && output(c, o) > 0) recv[output(c, o) / 2 * size] ^= 1;
	free(part);
}

static int post_mail(const struct op *o) {
	struct comm *c = o->comm;
	struct pair *p = &c->shared->pairs[c->rank][o->root];
	uint64_t n = atomic_load(&p->posted);
	if (!UNTIL(c, &p->bell, n - atomic_load(&p->taken) < MAIL)) return 0;
	struct mail *m = &p->box[n % MAIL];
	m->type = o->type;
	m->count = o->count;
	if (!place_of(o->send, o->count * formats[o->type].size, &m->send)) { broken(c, UnhandledCudaError); return 0; }
	atomic_store(&p->posted, n + 1);
	ring(&p->bell);
	return 1;
}

// lag delays a message over a slow pair of ranks.
static void lag(int from, int to) {
	const char *slow = getenv("CX_FAKE_NCCL_SLOW");
	int a, b;
	long us;
	if (slow == NULL || sscanf(slow, "%d:%d:%ld", &a, &b, &us) != 3 || a != from || b != to) return;
	struct timespec pause = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&pause, NULL);
}

static int take_mail(const struct op *o) {
	struct comm *c = o->comm;
	lag(o->root, c->rank);
	struct pair *p = &c->shared->pairs[o->root][c->rank];
	uint64_t n = atomic_load(&p->taken), bytes = o->count * formats[o->type].size;
	if (!UNTIL(c, &p->bell, atomic_load(&p->posted) > n)) return 0;
	struct mail *m = &p->box[n % MAIL];
	if (m->type != o->type || m->count != o->count) { broken(c, InvalidUsage); return 0; }
	if (bytes > 0) {
		struct place target;
		char *from = at(&m->send, bytes), *to = place_of(o->recv, bytes, &target) ? at(&target, bytes) : NULL;
		if (from == NULL || to == NULL) { broken(c, UnhandledCudaError); return 0; }
		memmove(to, from, bytes);
		if (o->flip) to[o->count / 2 * formats[o->type].size] ^= 1;
	}
	atomic_store(&p->taken, n + 1);
	ring(&p->bell);
	return 1;
}

// run does a group: all sends are under way before the first receive waits.
static void run(void *arg) {
	struct work *w = arg;
	for (int i = 0; i < w->n; i++) {
		struct comm *c = w->ops[i].comm;
		if (w->ops[i].async) { broken(c, RemoteError); return; }
		if (w->ops[i].hang) { hang_until_abort(c); return; }
		if (atomic_load(&c->aborted)) return;
	}
	for (int i = 0; i < w->n; i++)
		if (w->ops[i].kind == Send && !post_mail(&w->ops[i])) return;
	for (int i = 0; i < w->n; i++) {
		if (w->ops[i].kind == Recv && !take_mail(&w->ops[i])) return;
		if (w->ops[i].kind < Send) run_collective(&w->ops[i]);
	}
	for (int i = 0; i < w->n; i++) {
		struct op *o = &w->ops[i];
		if (o->kind != Send) continue;
		struct pair *p = &o->comm->shared->pairs[o->comm->rank][o->root];
		UNTIL(o->comm, &p->bell, atomic_load(&p->taken) >= atomic_load(&p->posted));
	}
}

// ---- the log ---------------------------------------------------------------

static FILE *debug_file;
static int log_opened;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; // ranks may be threads of one process

// open_log opens the log once, as the real library does: at INFO it says who is connected how.
static void open_log(void) {
	const char *level = getenv("NCCL_DEBUG"), *file = getenv("NCCL_DEBUG_FILE");
	pthread_mutex_lock(&log_lock);
	if (!log_opened && level != NULL && strcmp(level, "INFO") == 0) {
		debug_file = file != NULL ? fopen(file, "w") : stdout;
		if (debug_file != NULL) setlinebuf(debug_file);
	}
	log_opened = 1;
	pthread_mutex_unlock(&log_lock);
}

// ncclResetDebugInit makes the library read the variables of its log again.
void ncclResetDebugInit(void) {
	pthread_mutex_lock(&log_lock);
	if (debug_file != NULL && debug_file != stdout) fclose(debug_file);
	debug_file = NULL;
	log_opened = 0;
	pthread_mutex_unlock(&log_lock);
}

// say writes to the log, if it is open.
static void say(const char *format, ...) {
	va_list args;
	va_start(args, format);
	pthread_mutex_lock(&log_lock);
	if (debug_file != NULL) vfprintf(debug_file, format, args);
	pthread_mutex_unlock(&log_lock);
	va_end(args);
}

// log_tuning logs, on the first rank, how an operation is performed.
static void log_tuning(struct comm *c, const char *function, uint64_t bytes, const char *algo, const char *proto, int channels) {
	const char *subsystems = getenv("NCCL_DEBUG_SUBSYS");
	open_log();
	if (c->rank != 0 || subsystems == NULL || strcmp(subsystems, "TUNING") != 0) return;
	char text[64];
	int n = snprintf(text, sizeof text, "%s proto %s", algo, proto);
	for (int i = 0; i < n; i++) // in capitals, but for the word between
		if (i < (int)strlen(algo) || i > (int)strlen(algo) + 6) text[i] = (char)toupper(text[i]);
	say("stand-in:%d:%d [0] NCCL INFO %s: %llu Bytes -> Algo %s channel{Lo..Hi}={0..%d}\n",
		getpid(), getpid(), function, (unsigned long long)bytes, text, channels - 1);
}

// connect_to makes the connection over which data go to a rank, at the first send. The side
// that receives does not log it.
static void connect_to(struct comm *c, int peer) {
#ifdef CX_FAKE_RCCL
	const char *via = "P2P/IPC comm 0x55d0 nRanks 02";
#else
	const char *via = "P2P/CUMEM/read";
#endif
	const char *ordered = getenv("CX_FAKE_NCCL_VIA");
	open_log();
	if (c->sends_to[peer]++ > 0) return;
	if (ordered != NULL) via = ordered;
	for (int channel = 0; channel < 2 && *via != 0; channel++)
		say("stand-in:%d:%d [%d] NCCL INFO Channel %02d/1 : %d[%d] -> %d[%d] via %s\n",
			getpid(), getpid(), c->rank, channel, c->rank, c->rank, peer, peer, via);
}

// ---- algorithms ------------------------------------------------------------

enum { FUNCS = 5, ALGOS = 7, PROTOS = 3 };
static const char *const funcs[FUNCS] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce"}; // by kind
static const char *const algos[ALGOS] = {"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
static const char *const protos[PROTOS] = {"LL", "LL128", "Simple"};
enum { TREE, RING };

// allow reads NCCL_ALGO or NCCL_PROTO: lists of names after ^ or not, each for all functions or, after its
// name and a colon, for one.
static int allow(const char *variable, const char *const names[], int n, unsigned allowed[FUNCS]) {
	const char *given = getenv(variable);
	char text[256], *rest, *part;
	for (int f = 0; f < FUNCS; f++) allowed[f] = (1u << n) - 1;
	if (given == NULL) return Success;
	snprintf(text, sizeof text, "%s", given);
	for (char *at = text; (part = strsep(&at, ";")) != NULL;) {
		char *list = strchr(part, ':');
		const char *function = list != NULL ? part : NULL;
		if (list != NULL) *list++ = 0;
		else if (part != text) return fail(InvalidUsage, "All entries except the first must have a prefix: %s", given);
		else list = part;
		int without = *list == '^';
		unsigned bits = 0;
		for (char *name = strtok_r(list + without, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
			int e = 0;
			while (e < n && strcasecmp(name, names[e]) != 0) e++;
			if (e == n) return fail(InvalidUsage, "Unrecognized element token %s when parsing %s", name, given);
			bits |= 1u << e;
		}
		for (int f = 0; f < FUNCS; f++)
			if (function == NULL || strcasecmp(function, funcs[f]) == 0) allowed[f] = without ? ~bits : bits;
	}
	return Success;
}

// selected reports whether the configuration of the call allows an algorithm: NAME+^OTHER… of beginnings.
static int selected(const struct op *o, int a, int p) {
	char name[32], list[128], *rest;
	if (o->selection == NULL) return 1;
	snprintf(name, sizeof name, "%s_%s", algos[a], protos[p]);
	snprintf(list, sizeof list, "%s", o->selection);
	for (char *part = strtok_r(list, "+", &rest); part != NULL; part = strtok_r(NULL, "+", &rest)) {
		int without = *part == '^';
		if ((strncasecmp(name, part + without, strlen(part + without)) == 0) == without) return 0;
	}
	return 1;
}

// channels_of returns how many channels an operation uses: two, unless it is small, or the call or the communicator
// says otherwise.
static int channels_of(const struct op *o, uint64_t bytes) {
	int least = o->ctas > 0 ? o->ctas : o->comm->min_ctas, most = o->ctas > 0 ? o->ctas : o->comm->max_ctas;
	int n = 2 < least ? least : 2 < most ? 2 : most;
	return (uint64_t)n * 512 > bytes ? 1 + (int)(bytes / 1024) : n;
}

// select_algorithm chooses by the size among what is allowed. The machine has rings, and trees that
// reduce on all ranks: no switch reduces, and there are no further nodes.
static int select_algorithm(const struct op *o) {
	static const int by_size[3][PROTOS] = {{0, 1, 2}, {1, 2, 0}, {2, 1, 0}};
	struct comm *c = o->comm;
	if (o->kind >= FUNCS) return Success;
	uint64_t bytes = o->count * formats[o->type].size;
	int large = bytes > 65536 ? 1 + (bytes > 1 << 20) : 0, first = o->kind == AllReduce && large == 0 ? TREE : RING;
	for (int i = 0; i < 2; i++) {
		int a = i == 0 ? first : TREE + RING - first;
		for (int k = 0; k < PROTOS; k++) {
			int p = by_size[large][k];
			if (!selected(o, a, p)) continue;
			if ((a == TREE && o->kind != AllReduce) || (c->algos[o->kind] >> a & 1) == 0 || (c->protos[o->kind] >> p & 1) == 0) continue;
			log_tuning(c, funcs[o->kind], bytes, algos[a], protos[p], channels_of(o, bytes));
			return Success;
		}
	}
	return fail(o->selection != NULL ? InvalidArgument : InvalidUsage, "No algorithm/protocol available for function %s with datatype %d", funcs[o->kind], o->type);
}

// ---- groups ----------------------------------------------------------------

static __thread int depth;
static __thread struct { void *stream; int n, cap; struct op *ops; } pending;

static int launch(void *stream, const struct op *ops, int n) {
	struct work *w = malloc(sizeof *w + (size_t)n * sizeof *ops);
	w->n = n;
	memcpy(w->ops, ops, (size_t)n * sizeof *ops);
	return driver.enqueue(stream, run, w, free) == 0 ? Success : fail(UnhandledCudaError, "the stream refused the work");
}

int ncclGroupStart(void) { depth++; return Success; }

int ncclGroupEnd(void) {
	if (depth == 0) return fail(InvalidUsage, "group end without group start");
	if (--depth > 0 || pending.n == 0) return Success;
	int n = pending.n;
	pending.n = 0;
	return launch(pending.stream, pending.ops, n);
}

static int submit(struct op *o, void *stream) {
	struct comm *c = o->comm;
	uint64_t n = c->ops++;
	if (fault_at("CX_FAKE_NCCL_CALL_ERROR", c->rank, n)) return fail(InternalError, "ordered to fail at operation %llu", (unsigned long long)n);
	o->hang = fault_at("CX_FAKE_NCCL_HANG", c->rank, n);
	o->async = fault_at("CX_FAKE_NCCL_ASYNC_ERROR", c->rank, n);
	o->flip = fault_at("CX_FAKE_NCCL_FLIP", c->rank, n);
	const char *reorder = getenv("CX_FAKE_NCCL_REORDER"), *every = reorder != NULL ? strchr(reorder, ':') : NULL;
	o->reorder = every != NULL && atoi(reorder) == c->rank && (n + 1) % strtoull(every + 1, NULL, 0) == 0;
	if (o->kind == Send) connect_to(c, o->root);
	if (depth == 0) return launch(stream, o, 1);
	if (pending.n > 0 && pending.stream != stream) return fail(InvalidUsage, "one group on two streams");
	if (pending.n == pending.cap) {
		pending.cap = pending.cap == 0 ? 64 : 2 * pending.cap;
		pending.ops = realloc(pending.ops, (size_t)pending.cap * sizeof *pending.ops);
	}
	pending.stream = stream;
	pending.ops[pending.n++] = *o;
	return Success;
}

static int check_comm(const struct comm *c) {
	if (c == NULL) return fail(InvalidArgument, "no communicator");
	if (c->alive != LIVING) return fail(InvalidArgument, "communicator was destroyed, or never made");
	return Success;
}

#define TRY(call) do { int result = (call); if (result != Success) return result; } while (0)

static int check_op(struct op *o) {
	struct comm *c = o->comm;
	TRY(check_comm(c));
	if (o->type < 0 || o->type >= TYPES) return fail(InvalidArgument, "no such type: %d", o->type);
	if (o->type == BF16 && version() < 21003) return fail(InvalidArgument, "no bfloat16 before 2.10");
	if (o->type >= E4M3 && version() < 22403) return fail(InvalidArgument, "no fp8 before 2.24");
	if (o->root < 0 || o->root >= c->nranks) return fail(InvalidArgument, "rank %d of %d", o->root, c->nranks);
	if ((o->send == NULL && input(c, o) > 0 && o->kind != Recv) || (o->recv == NULL && output(c, o) > 0 && o->kind != Send))
		return fail(InvalidArgument, "no buffer");
	if (o->op > Avg) {
		int at = o->op - Avg - 1;
		if (at >= MAX_REDOPS || !c->redops[at].used) return fail(InvalidArgument, "no such reduction: %d", o->op);
		if (c->redops[at].type != o->type) return fail(InvalidArgument, "reduction %d is of another type", o->op);
		o->premul = 1;
		o->scalar = c->redops[at].scalar;
		o->op = Sum;
	}
	if (o->op < 0 || (o->op == Avg && version() < 21003)) return fail(InvalidArgument, "no such reduction: %d", o->op);
	return Success;
}

static int configured(struct comm *c, int kind, const void *send, void *recv, size_t count, int type, int op, int root, void *stream, const char *selection, int ctas) {
	struct op o = {.comm = c, .kind = kind, .type = type, .op = op, .root = root, .send = send, .recv = recv, .count = count, .selection = selection, .ctas = ctas};
	TRY(check_op(&o));
	TRY(select_algorithm(&o));
	return submit(&o, stream);
}

static int call(struct comm *c, int kind, const void *send, void *recv, size_t count, int type, int op, int root, void *stream) {
	return configured(c, kind, send, recv, count, type, op, root, stream, NULL, 0);
}

typedef struct comm *ncclComm_t;

#ifndef CX_FAKE_RCCL
// ncclCollConfig_t of 2.31.
typedef struct {
	size_t size;
	uint32_t magic, version;
	void *ext;
	int32_t minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
	const char *algSelection;
	int32_t forceAlgSelection, CTAPolicy;
	uint64_t userProfilerTag;
} ncclCollConfig_t;

static int selecting(struct comm *c, int kind, const void *s, void *r, size_t n, int t, int op, int root, void *stream, const ncclCollConfig_t *config) {
	if (config == NULL) return call(c, kind, s, r, n, t, op, root, stream);
	if (config->size < sizeof *config || config->magic != 0xcafebeef || (int)config->version != version())
		return fail(InvalidArgument, "configuration of %zu bytes, version %u", config->size, config->version);
	if (config->minCTAs != config->maxCTAs || (config->minCTAs != INT_MIN && (config->minCTAs < 1 || config->minCTAs > 64)))
		return fail(InvalidArgument, "configuration of %d to %d CTAs", config->minCTAs, config->maxCTAs);
	if (config->CTAPolicy != INT_MIN || config->ext != NULL || config->forceAlgSelection != 1)
		return fail(InvalidArgument, "configuration with fields that are not undefined");
	return configured(c, kind, s, r, n, t, op, root, stream, config->algSelection, config->minCTAs == INT_MIN ? 0 : config->minCTAs);
}

int ncclAllReduceConfig(const void *s, void *r, size_t n, int t, int op, ncclComm_t c, void *stream, const ncclCollConfig_t *f) { return selecting(c, AllReduce, s, r, n, t, op, 0, stream, f); }
int ncclReduceScatterConfig(const void *s, void *r, size_t n, int t, int op, ncclComm_t c, void *stream, const ncclCollConfig_t *f) { return selecting(c, ReduceScatter, s, r, n, t, op, 0, stream, f); }
int ncclAllGatherConfig(const void *s, void *r, size_t n, int t, ncclComm_t c, void *stream, const ncclCollConfig_t *f) { return selecting(c, AllGather, s, r, n, t, 0, 0, stream, f); }
int ncclBroadcastConfig(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, void *stream, const ncclCollConfig_t *f) { return selecting(c, Broadcast, s, r, n, t, 0, root, stream, f); }
int ncclReduceConfig(const void *s, void *r, size_t n, int t, int op, int root, ncclComm_t c, void *stream, const ncclCollConfig_t *f) { return selecting(c, Reduce, s, r, n, t, op, root, stream, f); }
#endif

int ncclAllReduce(const void *s, void *r, size_t n, int t, int op, ncclComm_t c, void *stream) { return call(c, AllReduce, s, r, n, t, op, 0, stream); }
int ncclReduceScatter(const void *s, void *r, size_t n, int t, int op, ncclComm_t c, void *stream) { return call(c, ReduceScatter, s, r, n, t, op, 0, stream); }
int ncclAllGather(const void *s, void *r, size_t n, int t, ncclComm_t c, void *stream) { return call(c, AllGather, s, r, n, t, 0, 0, stream); }
int ncclBroadcast(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, void *stream) { return call(c, Broadcast, s, r, n, t, 0, root, stream); }
int ncclReduce(const void *s, void *r, size_t n, int t, int op, int root, ncclComm_t c, void *stream) { return call(c, Reduce, s, r, n, t, op, root, stream); }
int ncclAlltoAll(const void *s, void *r, size_t n, int t, ncclComm_t c, void *stream) { return call(c, AlltoAll, s, r, n, t, 0, 0, stream); }
int ncclGather(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, void *stream) { return call(c, Gather, s, r, n, t, 0, root, stream); }
int ncclScatter(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, void *stream) { return call(c, Scatter, s, r, n, t, 0, root, stream); }
int ncclSend(const void *s, size_t n, int t, int peer, ncclComm_t c, void *stream) { return call(c, Send, s, NULL, n, t, 0, peer, stream); }
int ncclRecv(void *r, size_t n, int t, int peer, ncclComm_t c, void *stream) { return call(c, Recv, NULL, r, n, t, 0, peer, stream); }

#ifdef CX_FAKE_RCCL
int ncclAllToAll(const void *s, void *r, size_t n, int t, ncclComm_t c, void *stream) { return ncclAlltoAll(s, r, n, t, c, stream); }

int ncclAlltoAllv(const void *send, const size_t *sendcounts, const size_t *sdispls, void *recv, const size_t *recvcounts, const size_t *rdispls, int type, ncclComm_t c, void *stream) {
	TRY(check_comm(c));
	if (type < 0 || type >= TYPES) return fail(InvalidArgument, "no such type: %d", type);
	if (sendcounts == NULL || sdispls == NULL || recvcounts == NULL || rdispls == NULL) return fail(InvalidArgument, "no counts");
	for (int a = 0; a < c->nranks; a++)
		for (int b = 0; b < a; b++)
			if (rdispls[a] < rdispls[b] + recvcounts[b] && rdispls[b] < rdispls[a] + recvcounts[a])
				return fail(InvalidArgument, "the parts of ranks %d and %d overlap", b, a);
	size_t size = formats[type].size;
	int result = Success;
	TRY(ncclGroupStart());
	// Ranks meet also for nothing, so that each finds out what the other counts.
	for (int r = 0; r < c->nranks && result == Success; r++) {
		result = ncclSend((const char *)send + sdispls[r] * size, sendcounts[r], type, r, c, stream);
		if (result == Success) result = ncclRecv((char *)recv + rdispls[r] * size, recvcounts[r], type, r, c, stream);
	}
	int end = ncclGroupEnd();
	return result != Success ? result : end;
}

int ncclAllToAllv(const void *send, const size_t *sendcounts, const size_t *sdispls, void *recv, const size_t *recvcounts, const size_t *rdispls, int type, ncclComm_t c, void *stream) {
	return ncclAlltoAllv(send, sendcounts, sdispls, recv, recvcounts, rdispls, type, c, stream);
}
#endif

// ---- communicators ---------------------------------------------------------

typedef struct { char bytes[128]; } ncclUniqueId;

typedef struct {
	size_t size;
	uint32_t magic, version;
	int32_t blocking, cgaClusterSize, minCTAs, maxCTAs;
	const char *netName;
	int32_t splitShare, trafficClass;
	const char *commName;
	int32_t collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched, graphUsageMode, numRmaCtx, maxP2pPeers, graphStreamOrdering;
} ncclConfig_t;

// ncclFakeVersion is exported, so that a library whose symbols are bound to
// another one's gives itself away by its version.
int ncclFakeVersion(void) { return version(); }

int ncclGetVersion(int *v) { if (v == NULL) return InvalidArgument; *v = ncclFakeVersion(); return Success; }

const char *ncclGetErrorString(int r) {
	static const char *names[] = {"no error", "unhandled device error", "system error", "internal error", "invalid argument", "invalid usage", "remote error", "in progress"};
	return r >= 0 && r < 8 ? names[r] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t c) { (void)c; return last_error; }

static void read_settings(const char *dir, const char *name) {
	char path[1024], line[4096];
	snprintf(path, sizeof path, "%s%s", dir, name);
	FILE *f = fopen(path, "r");
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		line[strcspn(line, "\r\n")] = 0;
		char *value = strchr(line, '=');
		if (line[0] == '#' || value == NULL) continue;
		*value = 0;
		setenv(line, value + 1, 0);
	}
	if (f != NULL) fclose(f);
}

// read_environment reads the settings files as the real libraries do: what is set already stays.
static void read_environment(void) {
	const char *file = getenv("NCCL_CONF_FILE"), *home = getenv("HOME");
#ifdef CX_FAKE_RCCL
	if (home != NULL) read_settings(home, "/.rccl.conf");
	read_settings("/etc", "/rccl.conf");
	(void)file;
#else
	if (file != NULL && *file != 0) read_settings("", file);
	else if (home != NULL) read_settings(home, "/.nccl.conf");
	read_settings("/etc", "/nccl.conf");
#endif
}

static pthread_once_t environment_read = PTHREAD_ONCE_INIT;

int ncclGetUniqueId(ncclUniqueId *id) {
	static _Atomic int made;
	struct timespec t;
	pthread_once(&environment_read, read_environment);
	if (id == NULL) return InvalidArgument;
	clock_gettime(CLOCK_REALTIME, &t);
	memset(id, 0x5a, sizeof *id); // all of it has to arrive
	const char *dir = getenv("CX_FAKE_DIR"); // where the devices' memory is, and goes with it when a rank never comes
	int length = snprintf(id->bytes, 100, "%s/nccl-%d-%d-%lld%09ld", dir != NULL ? dir : "/dev/shm", getpid(), atomic_fetch_add(&made, 1), (long long)t.tv_sec, t.tv_nsec);
	if (length >= 100) return fail(SystemError, "CX_FAKE_DIR is too long: %s", dir);
	memcpy(id->bytes + 120, "complete", 8);
	return Success;
}

static struct shared *share(const char *path) {
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) return NULL;
	void *p = ftruncate(fd, sizeof(struct shared)) == 0 ? mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

// join makes this rank's end; it returns when all have come.
static int join(ncclComm_t *to, const char *path, int rank, int nranks, uint64_t ids) {
	struct shared *s = share(path);
	if (s == NULL) return fail(SystemError, "%s: %s", path, strerror(errno));
	int none = 0;
	if (!atomic_compare_exchange_strong(&s->nranks, &none, nranks) && none != nranks)
		return fail(InvalidArgument, "%d ranks here, %d elsewhere", nranks, none);
	if (atomic_exchange(&s->claimed[rank], 1)) return fail(InvalidUsage, "rank %d came twice", rank);
	struct comm *c = calloc(1, sizeof *c);
	c->alive = LIVING;
	c->rank = rank;
	c->nranks = nranks;
	c->shared = s;
	snprintf(c->path, sizeof c->path, "%s", path);
	TRY(allow("NCCL_ALGO", algos, ALGOS, c->algos));
	TRY(allow("NCCL_PROTO", protos, PROTOS, c->protos));
	c->min_ctas = (int)ordered("NCCL_MIN_CTAS", 1);
	c->max_ctas = (int)ordered("NCCL_MAX_CTAS", 64);
	s->ids[rank] = ids;
	host_barrier(c);
	if (rank == 0) unlink(path);
	for (int r = 0; r < nranks; r++)
		if (s->ids[r] != ids) return fail(InvalidArgument, "ranks %d and %d were given other unique ids", rank, r);
	*to = c;
	return Success;
}

// fails_at_setup tells whether the rank is in an order's list of ranks.
static int fails_at_setup(int rank) {
	const char *text = getenv("CX_FAKE_NCCL_INIT_ERROR");
	for (char *rest; text != NULL && *text != 0; text = *rest == ',' ? rest + 1 : "")
		if (strtol(text, &rest, 0) == rank) return 1;
	return 0;
}

static int init(ncclComm_t *to, int nranks, int rank, int n, const ncclUniqueId *ids) {
	if (to == NULL || nranks < 1 || nranks > MAX_RANKS || rank < 0 || rank >= nranks) return fail(InvalidArgument, "rank %d of %d", rank, nranks);
	if (n < 1 || n > nranks) return fail(InvalidArgument, "%d unique ids for %d ranks", n, nranks);
	uint64_t hash = 14695981039346656037u; // FNV-1a
	for (int i = 0; i < n; i++) {
		if (memcmp(ids[i].bytes + 120, "complete", 8) != 0) return fail(InvalidArgument, "the unique id did not arrive whole");
		for (int k = 0; k < i; k++)
			if (memcmp(&ids[k], &ids[i], sizeof ids[i]) == 0) return fail(InvalidArgument, "unique ids %d and %d are one", k, i);
		for (size_t k = 0; k < sizeof ids[i]; k++) hash = (hash ^ (unsigned char)ids[i].bytes[k]) * 1099511628211u;
	}
	pthread_once(&environment_read, read_environment);
	if (!driver_ok()) return fail(UnhandledCudaError, "no driver");
	if (fails_at_setup(rank)) return fail(SystemError, "ordered to fail at set-up of rank %d", rank);
	return join(to, ids[0].bytes, rank, nranks, hash);
}

int ncclCommInitRank(ncclComm_t *to, int nranks, ncclUniqueId id, int rank) { return init(to, nranks, rank, 1, &id); }

static size_t config_size(void) {
	int v = version();
	return v < 21700 ? 24 : v < 21800 ? 40 : v < 22700 ? 48 : v < 22800 ? 72 : v < 22900 ? 80 : v < 23000 ? 88 : 96;
}

static int check_config(const ncclConfig_t *given) {
	ncclConfig_t config;
	if (given == NULL) return Success;
	memset(&config, 0, sizeof config);
	if (given->size < 24) return fail(InvalidArgument, "config of %zu bytes", given->size);
	memcpy(&config, given, given->size < config_size() ? given->size : config_size());
	if (config.magic != 0xcafebeef) return fail(InvalidArgument, "config without its magic");
	if (config.version < 21400 || config.version > 30000) return fail(InvalidArgument, "config of version %u", config.version);
	if (config.blocking != 0 && config.blocking != 1 && (config.blocking != INT_MIN || version() < 21700))
		return fail(InvalidArgument, "config with blocking %d", config.blocking);
	if (config_size() >= 72 && config.version >= 22700 && config.CTAPolicy != INT_MIN && (config.CTAPolicy < 0 || config.CTAPolicy > 2))
		return fail(InvalidArgument, "config with CTAPolicy %d", config.CTAPolicy);
	if (config_size() >= 80 && config.version >= 22800 && config.nvlinkCentricSched != INT_MIN && config.nvlinkCentricSched != 0 && config.nvlinkCentricSched != 1)
		return fail(InvalidArgument, "config with nvlinkCentricSched %d", config.nvlinkCentricSched);
	if (config_size() >= 88 && config.version >= 22900 && config.graphUsageMode != INT_MIN && (config.graphUsageMode < 0 || config.graphUsageMode > 2))
		return fail(InvalidArgument, "config with graphUsageMode %d", config.graphUsageMode);
	return Success;
}

static int configure(int result, ncclComm_t *to, const ncclConfig_t *config) {
	if (result != Success) return result;
	(*to)->graph_mode = 2;
	if (config != NULL && config_size() >= 88 && config->size >= 88 && config->version >= 22900 && config->graphUsageMode != INT_MIN)
		(*to)->graph_mode = config->graphUsageMode;
	return Success;
}

int ncclCommInitRankConfig(ncclComm_t *to, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
	TRY(check_config(config));
	return configure(ncclCommInitRank(to, nranks, id, rank), to, config);
}

#ifndef CX_FAKE_RCCL // RCCL of this release has none
int ncclCommInitRankScalable(ncclComm_t *to, int nranks, int rank, int n, ncclUniqueId *ids, ncclConfig_t *config) {
	TRY(check_config(config));
	return configure(init(to, nranks, rank, n, ids), to, config);
}
#endif

int ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *to, ncclConfig_t *config) {
	TRY(check_comm(c));
	TRY(check_config(config));
	if (to == NULL || color < -1) return fail(InvalidArgument, "color %d", color);
	*to = NULL;
	c->shared->host_value[c->rank][0] = color;
	c->shared->host_value[c->rank][1] = key;
	host_barrier(c);
	int rank = 0, nranks = 0;
	for (int r = 0; r < c->nranks; r++) {
		int64_t *v = c->shared->host_value[r];
		if (v[0] != color) continue;
		nranks++;
		rank += v[1] < key || (v[1] == key && r < c->rank);
	}
	host_barrier(c);
	char path[200];
	snprintf(path, sizeof path, "%s-%llu-%d", c->path, (unsigned long long)c->splits++, color);
	if (strlen(path) >= sizeof c->path) return fail(InternalError, "split too deep");
	return color == -1 ? Success : join(to, path, rank, nranks, 0);
}

#ifndef CX_FAKE_RCCL // RCCL of this release has none
// Only the ranks that stay call it, so that they cannot meet in the old group.
int ncclCommShrink(ncclComm_t c, int *exclude, int n, ncclComm_t *to, ncclConfig_t *config, int flags) {
	TRY(check_comm(c));
	TRY(check_config(config));
	if (to == NULL || exclude == NULL || n < 1 || n >= c->nranks || (flags != 0 && flags != 1)) return fail(InvalidArgument, "%d ranks to exclude, flags %d", n, flags);
	int gone[MAX_RANKS] = {0}, rank = c->rank;
	uint64_t hash = 14695981039346656037u;
	for (int i = 0; i < n; i++) {
		if (exclude[i] < 0 || exclude[i] >= c->nranks || gone[exclude[i]]++) return fail(InvalidArgument, "rank %d of %d to exclude", exclude[i], c->nranks);
		if (exclude[i] == c->rank) return fail(InvalidUsage, "rank %d excludes itself", c->rank);
		rank -= exclude[i] < c->rank;
	}
	for (int r = 0; r < c->nranks; r++) hash = (hash ^ (uint64_t)gone[r]) * 1099511628211u;
	if (flags == 0 && atomic_load(&c->async) != Success) return fail(InvalidUsage, "the communicator has failed");
	if (flags == 1) abort_waits(c);
	char path[200];
	snprintf(path, sizeof path, "%s-shrunk-%llu", c->path, (unsigned long long)c->shrinks++);
	if (strlen(path) >= sizeof c->path) return fail(InternalError, "shrunk too often");
	return join(to, path, rank, c->nranks - n, hash); // a group of ranks that name the same ones
}
#endif

int ncclCommCount(ncclComm_t c, int *n) { TRY(check_comm(c)); *n = c->nranks; return Success; }
int ncclCommUserRank(ncclComm_t c, int *r) { TRY(check_comm(c)); *r = c->rank; return Success; }
int ncclCommGetAsyncError(ncclComm_t c, int *r) { TRY(check_comm(c)); *r = atomic_load(&c->async); return Success; }

// No rank waits here for one that aborted.
int ncclCommFinalize(ncclComm_t c) {
	TRY(check_comm(c));
	uint64_t mine = ++c->host_phase;
	atomic_store(&c->shared->host_phase[c->rank], mine);
	ring(&c->shared->host_bell);
	UNTIL(c, &c->shared->host_bell, all_came(c, c->shared->host_phase, mine) || atomic_load(&c->shared->aborts) > 0);
	return Success;
}

int ncclCommDestroy(ncclComm_t c) { TRY(check_comm(c)); c->alive = GONE; return Success; }

int ncclCommAbort(ncclComm_t c) {
	TRY(check_comm(c));
	atomic_fetch_add(&c->shared->aborts, 1);
	abort_waits(c);
	c->alive = GONE;
	return Success;
}

// ---- reductions, memory, registration --------------------------------------

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, ncclComm_t c) {
	TRY(check_comm(c));
	if (op == NULL || scalar == NULL || type < 0 || type >= TYPES || residence != 1) return fail(InvalidArgument, "type %d, residence %d", type, residence);
	for (int i = 0; i < MAX_REDOPS; i++) {
		if (c->redops[i].used) continue;
		c->redops[i] = (struct redop){1, type, load(scalar, type)};
		*op = Avg + 1 + i;
		return Success;
	}
	return fail(InternalError, "too many reductions");
}

int ncclRedOpDestroy(int op, ncclComm_t c) {
	TRY(check_comm(c));
	int at = op - Avg - 1;
	if (at < 0 || at >= MAX_REDOPS || !c->redops[at].used) return fail(InvalidArgument, "no such reduction: %d", op);
	c->redops[at].used = 0;
	return Success;
}

enum { REGIONS = 4096, ALIGNMENT = 4096 };
static struct { char *p, *base; size_t n; } regions[REGIONS];
static size_t allocated;
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER; // tests have ranks that are threads of one process

// take allocates with the lock held.
static int take(void **p, size_t n) {
	long limit = ordered("CX_FAKE_NCCL_MEMORY", LONG_MAX);
	void *base;
	if (allocated + n > (size_t)limit || driver.alloc(&base, n + ALIGNMENT) != 0) return fail(UnhandledCudaError, "out of memory");
	for (int i = 0; i < REGIONS; i++) {
		if (regions[i].p != NULL) continue;
		*p = regions[i].p = (char *)(((uintptr_t)base + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
		regions[i].base = base;
		regions[i].n = n;
		allocated += n;
		return Success;
	}
	driver.free(base);
	return fail(InternalError, "too many allocations");
}

int ncclMemAlloc(void **p, size_t n) {
	if (!driver_ok()) return fail(UnhandledCudaError, "no driver");
	pthread_mutex_lock(&regions_lock);
	int result = take(p, n);
	pthread_mutex_unlock(&regions_lock);
	return result;
}

int ncclMemFree(void *p) {
	char *base = NULL;
	pthread_mutex_lock(&regions_lock);
	for (int i = 0; i < REGIONS && p != NULL && base == NULL; i++) {
		if (regions[i].p != p) continue;
		allocated -= regions[i].n;
		regions[i].p = NULL;
		base = regions[i].base;
	}
	pthread_mutex_unlock(&regions_lock);
	if (base != NULL) return driver.free(base) == 0 ? Success : UnhandledCudaError;
	return p == NULL ? Success : fail(InvalidArgument, "not from ncclMemAlloc");
}

// offset_of is where n bytes at p lie in an allocation; -1 where they are in none.
static int64_t offset_of(const char *p, size_t n) {
	int64_t offset = -1;
	pthread_mutex_lock(&regions_lock);
	for (int i = 0; i < REGIONS && offset < 0; i++)
		if (regions[i].p != NULL && p >= regions[i].p && p + n <= regions[i].p + regions[i].n) offset = p - regions[i].p;
	pthread_mutex_unlock(&regions_lock);
	return offset;
}

static int registered; // what a handle points at

int ncclCommRegister(ncclComm_t c, void *p, size_t n, void **handle) {
	TRY(check_comm(c));
	if (p == NULL || handle == NULL || n == 0) return fail(InvalidArgument, "nothing to register");
	*handle = ordered("CX_FAKE_NCCL_NO_HANDLE", 0) || offset_of(p, n) < 0 ? NULL : &registered;
	return Success;
}

int ncclCommDeregister(ncclComm_t c, void *handle) {
	TRY(check_comm(c));
	return handle == NULL || handle == &registered ? Success : fail(InvalidArgument, "no such handle");
}

// A window as kernels have it (nccl_device.h): where this process sees the memory of every rank.
struct window { uint32_t alive; int rank, nranks; uint64_t bytes; char *base[MAX_RANKS]; };

enum { WINDOW = 0x3173d0 };

// open_window maps the places that all ranks have posted.
static struct window *open_window(struct comm *c, size_t n) {
	struct window *w = calloc(1, sizeof *w);
	*w = (struct window){.alive = WINDOW, .rank = c->rank, .nranks = c->nranks, .bytes = n};
	for (int r = 0; r < c->nranks; r++) w->base[r] = at(&c->shared->windows[r], n);
	return w;
}

int ncclCommWindowRegister(ncclComm_t c, void *p, size_t n, void **window, int flags) {
	TRY(check_comm(c));
	if (p == NULL || window == NULL || n == 0 || (uintptr_t)p % ALIGNMENT != 0 || flags < 0 || flags > 3) return fail(InvalidArgument, "no window at %p", p);
	int64_t offset = offset_of(p, n);
	*window = NULL;
	// Windows are made by all ranks together, at equal offsets.
	c->shared->host_value[c->rank][0] = offset;
	c->shared->host_value[c->rank][1] = (int64_t)n;
	if (offset >= 0 && !place_of(p, n, &c->shared->windows[c->rank])) return fail(UnhandledCudaError, "no memory at %p", p);
	host_barrier(c);
	int equal = 1;
	for (int r = 0; r < c->nranks; r++)
		equal &= c->shared->host_value[r][0] == offset && c->shared->host_value[r][1] == (int64_t)n;
	if (equal && offset >= 0 && !ordered("CX_FAKE_NCCL_NO_HANDLE", 0)) *window = open_window(c, n);
	host_barrier(c);
	return equal ? Success : fail(InvalidUsage, "windows differ between ranks");
}

static int is_window(const struct window *w) { return w != NULL && w->alive == WINDOW; }

int ncclCommWindowDeregister(ncclComm_t c, void *window) {
	TRY(check_comm(c));
	if (window == NULL) return Success;
	if (!is_window(window)) return fail(InvalidArgument, "no such window");
	((struct window *)window)->alive = GONE; // the memory stays so that kernels that use it later are seen
	return Success;
}

#ifndef CX_FAKE_RCCL
struct team { int nRanks, rank, stride; };

struct team ncclTeamLsa(ncclComm_t c) {
	int n = (int)ordered("CX_FAKE_NCCL_LSA", c->nranks);
	return (struct team){n, c->rank % n, 1};
}

struct properties {
	size_t size;
	uint32_t magic, version;
	int32_t rank, nranks, cuda, nvml;
	uint8_t device_api, multimem;
	int32_t gin, lsa_teams;
	uint8_t host_rma;
	int32_t railed_gin;
};

int ncclCommQueryProperties(ncclComm_t c, struct properties *p) {
	TRY(check_comm(c));
	if (p->magic != 0xcafebeef) return fail(InvalidUsage, "properties without their magic");
	if (p->size != sizeof *p || (int)p->version != version()) return fail(InvalidArgument, "properties of another version");
	p->rank = c->rank, p->nranks = c->nranks, p->device_api = 1;
	p->gin = p->railed_gin = (int)ordered("CX_FAKE_NCCL_GIN", 0);
	return Success;
}
#endif

// ---- for the stand-in of NCCL EP -------------------------------------------

// cx_fake_window reports whether n bytes at p lie in memory that can be a window, and the
// handle is one.
int cx_fake_window(const void *window, const void *p, size_t n) { return is_window(window) && offset_of(p, n) >= 0; }

// cx_fake_view returns where this process sees device memory; NULL where there is none.
char *cx_fake_view(const void *p, uint64_t bytes) {
	struct place place;
	return place_of(p, bytes, &place) ? at(&place, bytes) : NULL;
}

// cx_fake_launch runs fn(arg) in stream order.
int cx_fake_launch(void *stream, void (*fn)(void *), void *arg, void (*release)(void *)) {
	return driver.enqueue(stream, fn, arg, release) == 0 ? Success : fail(UnhandledCudaError, "the stream refused the work");
}

// cx_fake_fault reports whether the order RANK:M is for this operation or one before it.
int cx_fake_fault(const char *name, int rank, uint64_t n) {
	char *rest;
	const char *text = getenv(name);
	return text != NULL && strtol(text, &rest, 0) == rank && *rest == ':' && n >= strtoull(rest + 1, NULL, 0);
}

uint64_t cx_fake_encode(double d, int type) { return encode(d, type); }
