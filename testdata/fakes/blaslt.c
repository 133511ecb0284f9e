/* cuBLASLt and, built with -DHIP, hipBLASLt, for the memory of the stand-in of the driver: they
 * multiply by columns, in stream order, and keep the rules of the real ones. Two are stricter here:
 * a handle cannot be destroyed while its thread has descriptions left, and an algorithm is
 * good for the shape that it was found for alone.
 *
 * Long sums are split into parts, which are added in float. cuBLASLt may add them in the output
 * type, which rounds twice, unless the preference forbids it.
 *
 * The environment orders faults.
 *   CX_FAKE_BLASLT_WRONG=N      product N of a handle, from 0, has one wrong element
 *   CX_FAKE_BLASLT_NONE=1       there is no algorithm for anything
 *   CX_FAKE_BLASLT_FAIL=N       product N of a handle fails to start
 *   CX_FAKE_BLASLT_BITS=N       factors are rounded to N bits of mantissa, the first one included
 *   CX_FAKE_BLASLT_SUMS=N       sums are rounded to N bits after every addition
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

#ifdef HIP
#define FN(name) hipblasLt##name
enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 3, EXECUTION_FAILED = 5, INTERNAL_ERROR = 6, NOT_SUPPORTED = 7 };
enum { OP_N = 111, OP_T = 112, COMPUTE_32F = 2, COMPUTE_TF32 = 6, TRANSA = 0, TRANSB = 1 };
#else
#define FN(name) cublasLt##name
enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, INTERNAL_ERROR = 14, NOT_SUPPORTED = 15 };
enum { OP_N = 0, OP_T = 1, COMPUTE_32F = 68, COMPUTE_TF32 = 77, TRANSA = 3, TRANSB = 4 };
#endif
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };
enum { TF32_BITS = 11 };
enum { MAX_WORKSPACE = 1, REDUCTIONS = 3, ALIGNMENT_A = 5, ALIGNMENT_D = 8 }; /* of preferences */
enum { IN_OUTPUT = 1 | 4 };                                                   /* reduction schemes that round to the output type */
enum { SPLIT = 2048 };                                                        /* longer sums are split */
enum { WORKSPACE = 1 << 16 };                                                 /* that splitting takes */

enum kind { HANDLE = 0x4c54484e, LAYOUT, DESC, PREFERENCE, DEAD };

struct handle {
	enum kind kind;
	int device, products;
};

struct layout {
	enum kind kind;
	int type;
	uint64_t rows, columns;
	int64_t leading;
};

struct desc {
	enum kind kind;
	int compute;
	int32_t transposed[2];
};

struct preference {
	enum kind kind;
	uint64_t workspace;
	uint32_t reductions, alignment[4];
};

struct algorithm {
	uint64_t magic, m, n, k;
	uint32_t workspace, parts, rounds; /* rounds: to the output type, each part */
	uint16_t alignment[4];
};

/* What the heuristic returns: in cuBLASLt the algorithm has 64 bytes, in hipBLASLt 24. */
struct found {
#ifdef HIP
	uint64_t algorithm[3];
#else
	uint64_t algorithm[8];
#endif
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

#ifdef HIP /* the algorithm is the number of a solution */
static struct algorithm solutions[4096];
static int solved;
#endif
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int live; /* descriptions of this thread */

static int (*locate)(const void *, char *, size_t, uint64_t *, uint64_t *);
static int (*enqueue)(void *, void (*)(void *), void *, void (*)(void *));
static int (*current)(int *);

static int ordered(const char *name)
{
	const char *text = getenv(name);
	return text && *text ? atoi(text) : -1;
}

static void *made(size_t bytes, enum kind kind)
{
	enum kind *object = calloc(1, bytes);
	*object = kind;
	live++;
	return object;
}

/* What was destroyed keeps its memory, so that a use is found. */
static int destroyed(void *object, enum kind kind)
{
	enum kind *is = object;
	if (!is || *is != kind)
		return INVALID_VALUE;
	*is = DEAD;
	live--;
	return OK;
}

API int FN(Create)(void **out)
{
#ifdef HIP
	void *driver = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD);
#else
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
#endif
	struct handle *h;
	int device;
	if (!driver)
		return NOT_INITIALIZED;
	*(void **)&locate = dlsym(driver, "cx_fake_locate");
	*(void **)&enqueue = dlsym(driver, "cx_fake_enqueue");
	*(void **)&current = dlsym(driver, "cx_fake_current");
	if (current(&device))
		return NOT_INITIALIZED;
	h = calloc(1, sizeof *h);
	*h = (struct handle){HANDLE, device, 0};
	*out = h;
	return OK;
}

API int FN(Destroy)(void *handle)
{
	struct handle *h = handle;
	if (!h || h->kind != HANDLE)
		return INVALID_VALUE;
	if (live)
		return INTERNAL_ERROR;
	h->kind = DEAD;
	return OK;
}

#ifdef HIP
API int hipblasLtGetVersion(void *handle, int *version)
{
	struct handle *h = handle;
	if (!h || h->kind != HANDLE)
		return NOT_INITIALIZED;
	*version = 100102;
	return OK;
}
#else
API size_t cublasLtGetVersion(void) { return 130102; }
#endif

API int FN(MatrixLayoutCreate)(void **out, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
	struct layout *l;
	if (!out || rows == 0 || columns == 0 || leading < (int64_t)rows)
		return INVALID_VALUE;
	if (type != R_32F && type != R_16F && type != R_16BF)
		return NOT_SUPPORTED;
	*out = l = made(sizeof *l, LAYOUT);
	l->type = type;
	l->rows = rows;
	l->columns = columns;
	l->leading = leading;
	return OK;
}

API int FN(MatrixLayoutDestroy)(void *layout) { return destroyed(layout, LAYOUT); }

API int FN(MatmulDescCreate)(void **out, int compute, int scale)
{
	struct desc *d;
	if (!out || (compute != COMPUTE_32F && compute != COMPUTE_TF32) || scale != R_32F)
		return INVALID_VALUE;
	*out = d = made(sizeof *d, DESC);
	d->compute = compute;
	d->transposed[0] = d->transposed[1] = OP_N;
	return OK;
}

API int FN(MatmulDescDestroy)(void *desc) { return destroyed(desc, DESC); }

API int FN(MatmulDescSetAttribute)(void *desc, int attribute, const void *value, size_t bytes)
{
	struct desc *d = desc;
	int32_t op;
	if (!d || d->kind != DESC || (attribute != TRANSA && attribute != TRANSB) || bytes != sizeof op)
		return INVALID_VALUE;
	memcpy(&op, value, sizeof op);
	if (op != OP_N && op != OP_T)
		return INVALID_VALUE;
	d->transposed[attribute - TRANSA] = op;
	return OK;
}

API int FN(MatmulPreferenceCreate)(void **out)
{
	struct preference *p;
	if (!out)
		return INVALID_VALUE;
	*out = p = made(sizeof *p, PREFERENCE);
	p->reductions = 7;
	for (int i = 0; i < 4; i++)
		p->alignment[i] = 256;
	return OK;
}

API int FN(MatmulPreferenceDestroy)(void *preference) { return destroyed(preference, PREFERENCE); }

API int FN(MatmulPreferenceSetAttribute)(void *preference, int attribute, const void *value, size_t bytes)
{
	struct preference *p = preference;
	void *to;
	size_t size = sizeof(uint32_t);
	if (!p || p->kind != PREFERENCE)
		return INVALID_VALUE;
	if (attribute == MAX_WORKSPACE) {
		to = &p->workspace;
		size = sizeof p->workspace;
	}
#ifndef HIP
	else if (attribute == REDUCTIONS)
		to = &p->reductions;
	else if (attribute >= ALIGNMENT_A && attribute <= ALIGNMENT_D)
		to = &p->alignment[attribute - ALIGNMENT_A];
#endif
	else
		return INVALID_VALUE;
	if (bytes != size)
		return INVALID_VALUE;
	memcpy(to, value, size);
	return OK;
}

/* The shape of op(A) times op(B) = D, or an error. */
static int shape(const struct desc *d, const struct layout *a, const struct layout *b, const struct layout *c, const struct layout *out, struct algorithm *s)
{
	int ta, tb;
	if (!d || d->kind != DESC || !a || a->kind != LAYOUT || !b || b->kind != LAYOUT || !c || c->kind != LAYOUT || !out || out->kind != LAYOUT)
		return INVALID_VALUE;
	ta = d->transposed[0] == OP_T;
	tb = d->transposed[1] == OP_T;
	s->m = ta ? a->columns : a->rows;
	s->k = ta ? a->rows : a->columns;
	s->n = tb ? b->rows : b->columns;
	if (s->k != (tb ? b->columns : b->rows) || out->rows != s->m || out->columns != s->n || c->rows != s->m || c->columns != s->n)
		return INVALID_VALUE;
	return a->type == b->type && a->type == c->type && a->type == out->type ? OK : NOT_SUPPORTED;
}

API int FN(MatmulAlgoGetHeuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int most, struct found *found, int *count)
{
	struct handle *h = handle;
	struct preference *p = preference;
	struct algorithm s = {.magic = 0x416c676f, .parts = 1};
	int rc;
	if (!h || h->kind != HANDLE)
		return NOT_INITIALIZED;
	if (!p || p->kind != PREFERENCE || most < 1 || !found || !count)
		return INVALID_VALUE;
	rc = shape(desc, a, b, c, d, &s);
	if (rc)
		return rc;
	*count = 0;
	if (ordered("CX_FAKE_BLASLT_NONE") > 0) {
#ifdef HIP
		return OK;
#else
		return NOT_SUPPORTED;
#endif
	}
	for (int i = 0; i < 4; i++) {
#ifdef HIP
		s.alignment[i] = ((struct layout *)a)->type == R_32F ? 4 : 2;
#else
		if (p->alignment[i] == 0 || p->alignment[i] & (p->alignment[i] - 1))
			return INVALID_VALUE;
		s.alignment[i] = p->alignment[i] < 16 ? p->alignment[i] : 16; /* what loads of a vector need */
#endif
	}
	if (s.k >= SPLIT && p->workspace >= WORKSPACE) {
		s.workspace = WORKSPACE;
		s.parts = 4;
#ifndef HIP
		s.rounds = p->reductions & IN_OUTPUT;
#endif
	}
	memset(found, 0, sizeof *found);
#ifdef HIP
	pthread_mutex_lock(&mutex);
	solutions[solved % 4096] = s;
	found->algorithm[0] = solved++ % 4096;
	pthread_mutex_unlock(&mutex);
#else
	_Static_assert(sizeof s <= sizeof found->algorithm, "an algorithm has room");
	memcpy(found->algorithm, &s, sizeof s);
#endif
	found->workspace = s.workspace;
	*count = 1;
	return OK;
}

/* Memory of a device: a part of a file. */
struct range {
	char path[4096];
	uint64_t offset, bytes;
};

static int located(const void *p, uint64_t bytes, struct range *r)
{
	uint64_t length;
	if (!p || locate(p, r->path, sizeof r->path, &r->offset, &length) || length < bytes)
		return INVALID_VALUE;
	r->bytes = bytes;
	return OK;
}

struct work {
	struct algorithm s;
	int type, transposed[2], wrong, bits, sums;
	float alpha, beta;
	int64_t leading[3];
	struct range memory[3];
};

static char *mapped(const struct range *r, char **map, size_t *span)
{
	uint64_t page = r->offset / 4096 * 4096;
	int fd = open(r->path, O_RDWR);
	*span = r->offset - page + r->bytes;
	*map = mmap(NULL, *span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page);
	close(fd);
	return *map == MAP_FAILED ? NULL : *map + (r->offset - page);
}

static size_t size_of(int type) { return type == R_32F ? 4 : 2; }

static float load(const char *at, int64_t i, int type)
{
	union { float f; uint32_t u; } v;
	uint16_t half;
	if (type == R_32F) {
		memcpy(&v, at + 4 * i, 4);
		return v.f;
	}
	memcpy(&half, at + 2 * i, 2);
	if (type == R_16F) {
		_Float16 h;
		memcpy(&h, &half, sizeof h);
		return h;
	}
	v.u = (uint32_t)half << 16;
	return v.f;
}

static void store(char *at, int64_t i, int type, float x)
{
	union { float f; uint32_t u; } v = {x};
	uint16_t half;
	if (type == R_32F) {
		memcpy(at + 4 * i, &v, 4);
		return;
	}
	if (type == R_16F) {
		_Float16 h = x;
		memcpy(&half, &h, sizeof h);
	} else {
		half = (v.u + 0x7fff + (v.u >> 16 & 1)) >> 16;
	}
	memcpy(at + 2 * i, &half, 2);
}

static float rounded(int type, float x)
{
	char bits[4];
	store(bits, 0, type, x);
	return load(bits, 0, type);
}

/* x rounded to so many bits of mantissa, to nearest even; as it is for 0. */
static float narrowed(float x, int bits)
{
	union { float f; uint32_t u; } v = {x};
	int drop = 24 - bits;
	if (bits <= 0 || drop <= 0)
		return x;
	v.u = (v.u + (1u << (drop - 1)) - 1 + (v.u >> drop & 1)) >> drop << drop;
	return v.f;
}

static void multiply(void *arg)
{
	struct work *w = arg;
	char *at[3], *maps[3];
	size_t spans[3];
	for (int i = 0; i < 3; i++) {
		at[i] = mapped(&w->memory[i], &maps[i], &spans[i]);
		if (!at[i]) {
			fprintf(stderr, "fake BLASLt: cannot map %s\n", w->memory[i].path);
			return; /* and the check finds the product missing */
		}
	}
	for (uint64_t j = 0; j < w->s.n; j++)
		for (uint64_t i = 0; i < w->s.m; i++) {
			float total = 0;
			for (uint32_t part = 0; part < w->s.parts; part++) {
				float sum = 0;
				for (uint64_t k = w->s.k * part / w->s.parts; k < w->s.k * (part + 1) / w->s.parts; k++) {
					float a = load(at[0], w->transposed[0] ? i * w->leading[0] + k : k * w->leading[0] + i, w->type);
					float b = load(at[1], w->transposed[1] ? k * w->leading[1] + j : j * w->leading[1] + k, w->type);
					sum = narrowed(sum + narrowed(a, w->bits) * narrowed(b, w->bits), w->sums);
				}
				total += w->s.rounds ? rounded(w->type, sum) : sum;
			}
			if (w->wrong && i == w->s.m / 2 && j == w->s.n / 2)
				total = -total - 1;
			float before = w->beta ? w->beta * load(at[2], j * w->leading[2] + i, w->type) : 0;
			store(at[2], j * w->leading[2] + i, w->type, w->alpha * total + before);
		}
	for (int i = 0; i < 3; i++)
		munmap(maps[i], spans[i]);
}

static int take(const void *algorithm, struct algorithm *s)
{
#ifdef HIP
	uint64_t number;
	memcpy(&number, algorithm, sizeof number);
	pthread_mutex_lock(&mutex);
	if (number < 4096)
		*s = solutions[number];
	pthread_mutex_unlock(&mutex);
#else
	memcpy(s, algorithm, sizeof *s);
#endif
	return s->magic == 0x416c676f ? OK : INVALID_VALUE;
}

API int FN(Matmul)(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb, const void *beta, const void *c, void *lc, void *out, void *lout,
	const void *algorithm, void *workspace, size_t bytes, void *stream)
{
	struct handle *h = handle;
	struct desc *d = desc;
	struct layout *layouts[] = {la, lb, lout};
	const void *addresses[] = {a, b, out, c};
	struct work *w;
	struct algorithm asked = {0};
	struct range room;
	int device, product, rc;
	if (!h || h->kind != HANDLE || current(&device))
		return NOT_INITIALIZED;
	if (device != h->device || !algorithm || c != out || lc != lout)
		return INVALID_VALUE;
	rc = shape(d, la, lb, lc, lout, &asked);
	if (rc)
		return rc;
	w = calloc(1, sizeof *w);
	rc = take(algorithm, &w->s);
	if (!rc && (w->s.m != asked.m || w->s.n != asked.n || w->s.k != asked.k))
		rc = INVALID_VALUE;
	for (int i = 0; i < 4 && !rc; i++)
		if ((uintptr_t)addresses[i] % w->s.alignment[i])
			rc = INVALID_VALUE;
	if (!rc && (bytes < w->s.workspace || (bytes && ((uintptr_t)workspace % 16 || located(workspace, bytes, &room)))))
		rc = INVALID_VALUE;
	w->type = layouts[0]->type;
	for (int i = 0; i < 3 && !rc; i++) {
		w->leading[i] = layouts[i]->leading;
		rc = located(addresses[i], ((layouts[i]->columns - 1) * layouts[i]->leading + layouts[i]->rows) * size_of(w->type), &w->memory[i]);
		if (!rc && strcmp(w->memory[i].path, w->memory[0].path))
			rc = INVALID_VALUE; /* of another device */
	}
	memcpy(&w->alpha, alpha, sizeof w->alpha);
	memcpy(&w->beta, beta, sizeof w->beta);
	w->transposed[0] = d->transposed[0] == OP_T;
	w->transposed[1] = d->transposed[1] == OP_T;
	product = h->products++;
	w->wrong = product == ordered("CX_FAKE_BLASLT_WRONG");
	w->bits = d->compute == COMPUTE_TF32 && w->type == R_32F ? TF32_BITS : ordered("CX_FAKE_BLASLT_BITS");
	w->sums = ordered("CX_FAKE_BLASLT_SUMS");
	if (!rc && product == ordered("CX_FAKE_BLASLT_FAIL"))
		rc = EXECUTION_FAILED;
	if (!rc && enqueue(stream, multiply, w, free)) /* a stream of another device */
		rc = INVALID_VALUE;
	if (rc)
		free(w);
	return rc;
}
