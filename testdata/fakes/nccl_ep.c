// A stand-in for libnccl_ep: NCCL EP's C ABI, of nccl_ep.h 0.1.0, over the stand-in for
// NCCL. It moves and adds real data, in stream order, and keeps the rules of the real
// library, which returns an error for some broken ones and ends the process for others;
// here all of them are errors. It knows nothing of who calls it or what is expected.
//
// The environment orders faults. RANK:N is a rank and how many operations of their kind on
// its handle come before the first one that has the fault, from 0.
//   CX_FAKE_NCCL_EP_VERSION=CODE     ncclEpGetVersion (default 100)
//   CX_FAKE_NCCL_EP_SKIP=RANK:N      a dispatch delivers nothing
//   CX_FAKE_NCCL_EP_SWAP=RANK:N      a dispatch exchanges the first two rows of different tokens
//   CX_FAKE_NCCL_EP_TRUNCATE=RANK:N  a combine leaves the second half of each row as it was
//   CX_FAKE_NCCL_EP_ROUND=RANK:N     a combine rounds towards zero
//   CX_FAKE_NCCL_EP_REORDER=RANK:N   every Nth combine of a group adds in another order
//   CX_FAKE_NCCL_EP_ERROR=RANK:N     a dispatch returns ncclInternalError
//   CX_FAKE_NCCL_EP_GRAPHS=MODE      refuses communicators of another graph usage mode
//   CX_FAKE_NCCL_EP_COMPILER=1       a dispatch needs nvcc on PATH, and headers in NCCL_EP_HOME and NCCL_HOME

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Of the stand-in for NCCL.
typedef struct comm *ncclComm_t;
int ncclGetVersion(int *v);
int cx_fake_graph_mode(ncclComm_t c);
int ncclCommCount(ncclComm_t c, int *n);
int ncclCommUserRank(ncclComm_t c, int *r);
int ncclMemAlloc(void **p, size_t n);
int ncclMemFree(void *p);
int ncclAllGather(const void *s, void *r, size_t n, int t, ncclComm_t c, void *stream);
int ncclAlltoAll(const void *s, void *r, size_t n, int t, ncclComm_t c, void *stream);
char *cx_fake_view(const void *p, uint64_t bytes);                                     // device memory as this process sees it
int cx_fake_window(const void *window, const void *p, size_t n);                       // whether it is one with the memory
int cx_fake_launch(void *stream, void (*fn)(void *), void *arg, void (*release)(void *)); // a result
int cx_fake_fault(const char *name, int rank, uint64_t n);                             // whether RANK:M orders it for N ≥ M
uint64_t cx_fake_encode(double d, int type);

enum { Success, UnhandledCudaError, SystemError, InternalError, InvalidArgument, InvalidUsage };
enum { BYTES = 0, I32 = 2, I64 = 4, F32 = 7, BF16 = 9, E4M3 = 10 };
enum { LowLatency, HighThroughput };
enum { Unset, ExpertMajor, RankMajor, FlatRows };
enum { None, Forward, DSFP8E3M4 };
enum { ZeroCopyOn = 2 };
enum { MAX_TOPK = 32, SCALE_COLUMNS = 128, SMS = 132, MAX_EXPERTS_PER_SM = 14 };
#define MAGIC 0xC00FFFEEu
#define TENSOR_MAGIC 0xCAFECAFEu

typedef struct { unsigned size, magic, ndim; int type; void *data, *window; uint64_t offset; size_t *sizes; } tensor;
typedef struct {
	unsigned size, magic, version;
	int algorithm;
	unsigned experts, max_sent, max_received, max_bytes;
	unsigned long rdma;
	unsigned qps, channels, sms;
	void *alloc, *free, *context;
	unsigned mask;
	uint64_t timeout;
	int zero_copy, overflow;
	unsigned topk;
	unsigned char padding[4];
} group_config;
typedef struct { unsigned size, magic; tensor *counters, *src_counters, *offsets, *total; int kind; unsigned char padding[4]; } layout_info;
typedef struct { unsigned size, magic; tensor *tokens, *weights, *scales; } inputs;
typedef struct { unsigned size, magic; tensor *tokens, *weights, *scales, *ids; } dispatch_outputs;
typedef struct { unsigned size, magic; tensor *tokens, *weights; } combine_outputs;
typedef struct { unsigned size, magic, send_only, round_scales; int direction, recipe; } dispatch_config;
typedef struct { unsigned size, magic, send_only; int direction, recipe; } combine_config;
typedef struct { unsigned size, magic; } plain_config;

static int fail(int result, const char *why) {
	fprintf(stderr, "stand-in NCCL EP: %s\n", why);
	return result;
}
#define RULE(holds, why) do { if (!(holds)) return fail(InvalidArgument, why); } while (0)
#define USAGE(holds, why) do { if (!(holds)) return fail(InvalidUsage, why); } while (0)
#define TRY(call) do { int result_ = (call); if (result_ != Success) return result_; } while (0)

// A block that is at least as long as its first version, which ends behind a field.
#define BLOCK(p, first) RULE((p) != NULL && (p)->size >= (first) && (p)->magic == MAGIC, "a block without its size or magic")

// What work keeps of a tensor, whose descriptor ends with the call.
struct array { const void *data; int type; uint64_t bytes; };

struct row { int rank, token, slot; }; // slot −1: all of the token's on this rank

typedef struct group {
	ncclComm_t comm;
	int rank, ranks, local; // local experts
	group_config config;
	struct handle *handle;
	uint64_t combines;
} *group_t;

typedef struct handle {
	group_t group;
	int layout, topk, tokens, routed, dispatched, pending;
	struct array ids;
	int blocks, capacity;  // of rows: of each expert, of each rank, or one; and how many have room in each
	size_t row_bytes;      // of a message: values and scales, and the weights
	char *own, *all;       // device memory: [C] ids or rows of this rank, [W][C] of all
	char *leaving, *back;  // device memory: [W][C][slots][H] bf16
	uint64_t dispatches, combines;
	// Of the last routing, in stream order:
	int32_t *all_ids;      // [W][1+C·K]: the number of tokens, and their experts
	struct row *rows;      // by place in what is received
	int *counts, total;    // of each local expert, and rows in all
	int *filled;           // rows of each block
	uint32_t random;       // decides the order of rows in low latency
} *handle_t;

// ---- tensors ---------------------------------------------------------------

static int check_tensor(const tensor *t, int type, int ndim, size_t a, size_t b, size_t c) {
	RULE(t != NULL, "a tensor is missing");
	RULE(t->size >= 48 && t->magic == TENSOR_MAGIC, "a tensor without its size or magic");
	RULE(t->type == type, "a tensor of another type");
	size_t want[3] = {a, b, c};
	RULE(t->ndim == (unsigned)ndim && t->sizes != NULL, "a tensor of another rank");
	for (int i = 0; i < ndim; i++)
		RULE(t->sizes[i] == want[i], "a tensor of another size");
	RULE(t->data != NULL || a == 0, "a tensor without memory");
	return Success;
}

static size_t size_of(int type) { return type == I64 ? 8 : type == BF16 ? 2 : type == E4M3 ? 1 : 4; }

static struct array hold(const tensor *t) {
	struct array a = {t->data, t->type, size_of(t->type)};
	for (unsigned i = 0; i < t->ndim; i++)
		a.bytes *= t->sizes[i];
	return a;
}

static char *memory(const struct array *a) { return a->bytes == 0 ? NULL : cx_fake_view(a->data, a->bytes); }

static float from_bf16(uint16_t b) {
	uint32_t bits = (uint32_t)b << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

static uint16_t to_bf16(float f, int to_zero) {
	uint32_t bits;
	memcpy(&bits, &f, 4);
	if (!to_zero && !isnan(f))
		bits += 0x7fff + (bits >> 16 & 1);
	return (uint16_t)(bits >> 16);
}

// ---- groups and handles ----------------------------------------------------

int ncclEpGetVersion(int *v) {
	RULE(v != NULL, "no place for the version");
	const char *text = getenv("CX_FAKE_NCCL_EP_VERSION");
	*v = text != NULL ? atoi(text) : 100;
	return Success;
}

int ncclEpCreateGroup(group_t *to, ncclComm_t comm, const group_config *given) {
	int version = 0, ranks = 0, rank = 0;
	RULE(to != NULL && comm != NULL, "no communicator");
	BLOCK(given, 96);
	TRY(ncclCommCount(comm, &ranks));
	TRY(ncclCommUserRank(comm, &rank));
	TRY(ncclGetVersion(&version));
	USAGE(version >= 22900, "NCCL has no device interface before 2.29");
	const char *mode = getenv("CX_FAKE_NCCL_EP_GRAPHS");
	USAGE(mode == NULL || atoi(mode) == cx_fake_graph_mode(comm), "a communicator of another graph usage mode");
	group_config c = {0};
	memcpy(&c, given, given->size < sizeof c ? given->size : sizeof c);
	RULE(c.algorithm == LowLatency || c.algorithm == HighThroughput, "no such algorithm");
	RULE(c.experts > 0 && c.experts % ranks == 0, "experts do not divide among the ranks");
	RULE(c.max_sent > 0 && c.max_bytes > 0, "a group without capacity");
	RULE(c.algorithm == LowLatency || c.max_bytes % 16 == 0, "rows of HT have a multiple of 16 bytes");
	RULE(c.algorithm == LowLatency || c.max_received == 0 || c.max_received >= c.max_sent, "fewer rows received than sent");
	USAGE(c.algorithm == HighThroughput || c.experts <= SMS * MAX_EXPERTS_PER_SM, "too many experts for LL");
	if (c.max_received == 0)
		c.max_received = ranks * c.max_sent;
	group_t g = calloc(1, sizeof *g);
	*g = (struct group){comm, rank, ranks, c.experts / ranks, c, NULL};
	*to = g;
	return Success;
}

int ncclEpGroupDestroy(group_t g) {
	RULE(g != NULL, "no group");
	USAGE(g->handle == NULL, "a group that still has a handle");
	free(g);
	return Success;
}

int ncclEpInitHandle(handle_t *to, group_t g, int layout, const void *config, int topk, const tensor *mem) {
	RULE(to != NULL && g != NULL && config == NULL && mem == NULL, "no group, or options that this stand-in lacks");
	int ll = g->config.algorithm == LowLatency;
	RULE(layout == ExpertMajor || layout == (ll ? RankMajor : FlatRows), "the algorithm has no such layout");
	RULE(ll || layout == FlatRows, "this stand-in lacks the layout");
	RULE(topk > 0 && (unsigned)topk <= g->config.experts && topk <= MAX_TOPK, "no such top-k");
	USAGE(g->config.topk == 0 || (unsigned)topk <= g->config.topk, "more top-k than the group has");
	// The real one lets a second handle be made and mixes up the two.
	USAGE(g->handle == NULL, "a second handle of a group");
	handle_t h = calloc(1, sizeof *h);
	h->group = g;
	h->layout = layout;
	h->topk = topk;
	size_t sent = g->config.max_sent;
	h->blocks = layout == ExpertMajor ? g->local : layout == RankMajor ? g->ranks : 1;
	h->capacity = layout == ExpertMajor ? (int)(g->ranks * sent) : layout == RankMajor ? (int)sent : (int)g->config.max_received;
	h->row_bytes = g->config.max_bytes + 4 * (size_t)topk;
	size_t ids = 4 * (1 + sent * topk), rows = sent * h->row_bytes, message = ids > rows ? ids : rows;
	size_t back = sent * (layout == ExpertMajor ? topk : 1) * g->config.max_bytes * g->ranks;
	h->all_ids = calloc(g->ranks, ids);
	h->rows = calloc((size_t)h->capacity * h->blocks, sizeof *h->rows);
	h->filled = calloc(h->blocks, sizeof *h->filled);
	h->counts = calloc(g->local, sizeof *h->counts);
	if (ncclMemAlloc((void **)&h->own, message) || ncclMemAlloc((void **)&h->all, message * g->ranks) ||
	    ncclMemAlloc((void **)&h->leaving, back) || ncclMemAlloc((void **)&h->back, back))
		return fail(UnhandledCudaError, "out of memory");
	g->handle = h;
	*to = h;
	return Success;
}

int ncclEpHandleDestroy(handle_t h) {
	if (h == NULL) return Success;
	ncclMemFree(h->own);
	ncclMemFree(h->all);
	ncclMemFree(h->leaving);
	ncclMemFree(h->back);
	free(h->all_ids);
	free(h->rows);
	free(h->counts);
	free(h->filled);
	h->group->handle = NULL;
	free(h);
	return Success;
}

// ---- routing ---------------------------------------------------------------

// What one piece of work needs.
struct work {
	handle_t h;
	int tokens, truncate, to_zero, reorder, skip, swap, fp8, columns;
	struct array ids, x, weights, received, scales, received_ids, received_weights, counters, from_ranks, total, rows, out;
};

static int enqueue(void *stream, void (*fn)(void *), const struct work *w) {
	struct work *copy = malloc(sizeof *copy);
	*copy = *w;
	return cx_fake_launch(stream, fn, copy, free);
}

static size_t ids_words(handle_t h) { return 1 + (size_t)h->group->config.max_sent * h->topk; }

static void pack_ids(void *arg) {
	struct work *w = arg;
	handle_t h = w->h;
	int32_t *to = (int32_t *)cx_fake_view(h->own, 4 * ids_words(h));
	const char *ids = memory(&w->ids);
	to[0] = w->tokens;
	for (int i = 0; i < w->tokens * h->topk; i++)
		to[1 + i] = w->ids.type == I64 ? (int32_t)((const int64_t *)ids)[i] : ((const int32_t *)ids)[i];
}

static void add_row(handle_t h, int block, struct row r) { h->rows[block * h->capacity + h->filled[block]++] = r; }

// plan_rows gives each row that arrives its place: ranks in turn, beginning behind this one.
static void plan_rows(void *arg) {
	struct work *w = arg;
	handle_t h = w->h;
	group_t g = h->group;
	size_t words = ids_words(h);
	memcpy(h->all_ids, cx_fake_view(h->all, 4 * words * g->ranks), 4 * words * g->ranks);
	memset(h->counts, 0, g->local * sizeof *h->counts);
	memset(h->filled, 0, h->blocks * sizeof *h->filled);
	h->total = 0;
	for (int i = 1; i <= g->ranks; i++) {
		int rank = (g->rank + i) % g->ranks;
		const int32_t *of = h->all_ids + rank * words;
		for (int t = 0; t < of[0]; t++) {
			int here = 0;
			for (int k = 0; k < h->topk; k++) {
				int e = of[1 + t * h->topk + k], local = e - g->rank * g->local;
				if (e < 0 || local < 0 || local >= g->local) continue;
				h->counts[local]++;
				if (h->layout == ExpertMajor) add_row(h, local, (struct row){rank, t, k});
				here = 1;
			}
			if (here && h->layout != ExpertMajor) add_row(h, h->layout == RankMajor ? rank : 0, (struct row){rank, t, -1});
			h->total += here;
		}
	}
	if (w->from_ranks.data != NULL) memcpy(memory(&w->from_ranks), h->filled, 4 * h->blocks);
	if (w->counters.data != NULL) memcpy(memory(&w->counters), h->counts, 4 * g->local);
	if (w->total.data != NULL) memcpy(memory(&w->total), &h->total, 4);
}

static int route(handle_t h, const struct work *w, void *stream) {
	TRY(enqueue(stream, pack_ids, w));
	TRY(ncclAllGather(h->own, h->all, 4 * ids_words(h), BYTES, h->group->comm, stream));
	return enqueue(stream, plan_rows, w);
}

int ncclEpUpdateHandle(handle_t h, const tensor *ids, const layout_info *info, void *stream) {
	RULE(h != NULL && ids != NULL, "no routing");
	group_t g = h->group;
	RULE(ids->type == I32 || ids->type == I64, "expert ids of another type");
	TRY(check_tensor(ids, ids->type, 2, ids->sizes[0], h->topk, 0));
	RULE(ids->sizes[0] <= g->config.max_sent, "more tokens than the group has room for");
	h->tokens = (int)ids->sizes[0];
	h->ids = hold(ids);
	h->routed = 1;
	h->dispatched = 0;
	if (g->config.algorithm == LowLatency) {
		RULE(info == NULL, "LL takes no layout information here");
		return Success;
	}
	struct work w = {.h = h, .tokens = h->tokens, .ids = h->ids};
	if (info != NULL) {
		BLOCK(info, 40);
		if (info->counters != NULL) {
			TRY(check_tensor(info->counters, I32, 1, g->local, 0, 0));
			w.counters = hold(info->counters);
		}
		if (info->total != NULL) {
			TRY(check_tensor(info->total, I32, 1, 1, 0, 0));
			w.total = hold(info->total);
		}
	}
	return route(h, &w, stream);
}

// ---- dispatch --------------------------------------------------------------

// A message is the values of a row, its scales, and its weights.
static size_t message_bytes(handle_t h, const struct work *w) {
	return (size_t)w->columns * (w->fp8 ? 1 : 2) + (w->fp8 ? 4 * (size_t)(w->columns / SCALE_COLUMNS) : 0) + 4 * (size_t)h->topk;
}

static void cast_row(uint8_t *codes, float *scales, const uint16_t *row, int columns) {
	for (int b = 0; b < columns; b += SCALE_COLUMNS) {
		float most = 1e-4f;
		for (int i = b; i < b + SCALE_COLUMNS; i++)
			most = fmaxf(most, fabsf(from_bf16(row[i])));
		float factor = 448.0f / most;
		for (int i = b; i < b + SCALE_COLUMNS; i++)
			codes[i] = (uint8_t)cx_fake_encode(from_bf16(row[i]) * factor, E4M3);
		scales[b / SCALE_COLUMNS] = most * (1 / 448.0f);
	}
}

static void pack_rows(void *arg) {
	struct work *w = arg;
	handle_t h = w->h;
	size_t bytes = message_bytes(h, w);
	if (w->tokens == 0) return;
	char *to = cx_fake_view(h->own, bytes * w->tokens), *weights = w->weights.data == NULL ? NULL : memory(&w->weights);
	const uint16_t *x = (const uint16_t *)memory(&w->x);
	for (int t = 0; t < w->tokens; t++, to += bytes) {
		if (w->fp8)
			cast_row((uint8_t *)to, (float *)(to + w->columns), x + (size_t)t * w->columns, w->columns);
		else
			memcpy(to, x + (size_t)t * w->columns, 2 * (size_t)w->columns);
		if (weights != NULL) memcpy(to + bytes - 4 * h->topk, weights + 4 * (size_t)t * h->topk, 4 * h->topk);
	}
}

static void place_row(const struct work *w, int at, struct row from) {
	handle_t h = w->h;
	group_t g = h->group;
	size_t bytes = message_bytes(h, w), values = (size_t)w->columns * (w->fp8 ? 1 : 2), scales = 4 * (size_t)(w->columns / SCALE_COLUMNS);
	const char *message = cx_fake_view(h->all, bytes * g->config.max_sent * g->ranks) + bytes * ((size_t)from.rank * g->config.max_sent + from.token);
	memcpy(memory(&w->received) + at * values, message, values);
	if (w->fp8) memcpy(memory(&w->scales) + at * scales, message + values, scales);
	if (w->received_ids.data == NULL) return;
	char *ids = memory(&w->received_ids) + (size_t)at * h->topk * size_of(w->received_ids.type);
	float *weights = (float *)memory(&w->received_weights) + (size_t)at * h->topk;
	const int32_t *of = h->all_ids + from.rank * ids_words(h) + 1 + from.token * h->topk;
	for (int k = 0; k < h->topk; k++) {
		int local = of[k] - g->rank * g->local, here = of[k] >= 0 && local >= 0 && local < g->local;
		if (h->layout == RankMajor) ((int32_t *)ids)[k] = here ? local : -1;
		else ((int64_t *)ids)[k] = here ? local : -1;
		float weight = ((const float *)(message + bytes - 4 * h->topk))[k];
		weights[k] = here || h->layout == RankMajor ? weight : 0; // rank-major: those of other ranks too
	}
}

// Low latency places the rows of a block in another order at each dispatch, which atomic
// counters decide in the real library.
static void mix_rows(handle_t h) {
	for (int block = 0; block < h->blocks; block++) {
		struct row *rows = h->rows + (size_t)block * h->capacity;
		for (int i = h->filled[block] - 1; i > 0; i--) {
			h->random = h->random * 1664525 + 1013904223;
			int other = (int)((h->random >> 16) % (uint32_t)(i + 1));
			struct row moved = rows[i];
			rows[i] = rows[other];
			rows[other] = moved;
		}
	}
}

static void place_rows(void *arg) {
	struct work *w = arg;
	handle_t h = w->h;
	int first = -1;
	if (h->group->config.algorithm == LowLatency) mix_rows(h);
	for (int block = 0; block < h->blocks; block++)
		for (int i = 0; i < h->filled[block] && !w->skip; i++) {
			int at = block * h->capacity + i;
			place_row(w, at, h->rows[at]);
			if (!w->swap) continue;
			if (first < 0) {
				first = at;
			} else if (h->rows[first].token != h->rows[at].token || h->rows[first].rank != h->rows[at].rank) {
				place_row(w, at, h->rows[first]);
				place_row(w, first, h->rows[at]);
				w->swap = 0;
			}
		}
}

static int in_home(const char *home, const char *path) {
	char file[4096];
	return getenv(home) != NULL && snprintf(file, sizeof file, "%s/%s", getenv(home), path) < (int)sizeof file && access(file, R_OK) == 0;
}

static int compiles(void) {
	return in_home("NCCL_EP_HOME", "include/nccl_ep") && in_home("NCCL_HOME", "include/nccl.h") && system("nvcc --version >/dev/null 2>&1") == 0;
}

int ncclEpDispatch(handle_t h, const inputs *in, const dispatch_outputs *out, const layout_info *info, const dispatch_config *config, void *stream) {
	RULE(h != NULL, "no handle");
	group_t g = h->group;
	int ll = g->config.algorithm == LowLatency, recipe = None;
	BLOCK(in, 32);
	BLOCK(out, 40);
	if (info != NULL) BLOCK(info, 40);
	if (config != NULL) {
		BLOCK(config, 20);
		recipe = config->size >= 24 ? config->recipe : None;
		RULE(config->send_only == 0 && config->round_scales == 0 && config->direction == 0, "options that this stand-in lacks");
	}
	USAGE(h->routed, "a dispatch before the first update");
	USAGE(!h->pending, "a dispatch before the last operation was completed");
	RULE(in->tokens != NULL && in->tokens->ndim == 2, "no tokens");
	size_t columns = in->tokens->sizes[1];
	TRY(check_tensor(in->tokens, BF16, 2, h->tokens, columns, 0));
	RULE(columns % (ll ? 256 : 8) == 0 && 2 * columns <= g->config.max_bytes, "no such hidden size");
	RULE(recipe == None || (recipe == DSFP8E3M4 && ll && columns % 512 == 0), "no such quantization here");
	RULE(in->scales == NULL && (recipe == None) == (out->scales == NULL), "scales where there are none, or the reverse");
	struct work w = {.h = h, .tokens = h->tokens, .columns = (int)columns, .fp8 = recipe == DSFP8E3M4, .ids = h->ids, .x = hold(in->tokens)};
	int type = w.fp8 ? E4M3 : BF16;
	if (ll) {
		TRY(check_tensor(out->tokens, type, 3, h->blocks, h->capacity, columns));
		if (h->layout == ExpertMajor) {
			RULE(in->weights == NULL && out->weights == NULL && out->ids == NULL, "expert-major LL sends no weights");
			RULE(info != NULL && info->src_counters == NULL, "expert-major LL counts the rows of each expert");
			TRY(check_tensor(info->counters, I32, 1, g->local, 0, 0));
			w.counters = hold(info->counters);
		} else {
			RULE(info == NULL || info->counters == NULL, "rank-major LL counts the rows from each rank");
			TRY(check_tensor(in->weights, F32, 2, h->tokens, h->topk, 0));
			TRY(check_tensor(out->weights, F32, 3, h->blocks, h->capacity, h->topk));
			TRY(check_tensor(out->ids, I32, 3, h->blocks, h->capacity, h->topk));
			w.weights = hold(in->weights);
			w.received_weights = hold(out->weights);
			w.received_ids = hold(out->ids);
			if (info != NULL && info->src_counters != NULL) {
				TRY(check_tensor(info->src_counters, I32, 1, g->ranks, 0, 0));
				w.from_ranks = hold(info->src_counters);
			}
		}
		if (w.fp8) {
			RULE(columns + 4 * (columns / SCALE_COLUMNS) <= g->config.max_bytes, "codes and scales of a row are more than the group has room for");
			TRY(check_tensor(out->scales, F32, 3, h->blocks, h->capacity, columns / SCALE_COLUMNS));
			w.scales = hold(out->scales);
		}
	} else {
		RULE(g->ranks * g->local % 4 == 0, "HT takes a multiple of 4 experts");
		RULE(out->tokens != NULL && out->tokens->sizes != NULL && out->tokens->sizes[0] >= (size_t)h->capacity, "less room than the group receives");
		size_t rows = out->tokens->sizes[0];
		TRY(check_tensor(out->tokens, BF16, 2, rows, columns, 0));
		TRY(check_tensor(in->weights, F32, 2, h->tokens, h->topk, 0));
		TRY(check_tensor(out->weights, F32, 2, rows, h->topk, 0));
		TRY(check_tensor(out->ids, I64, 2, rows, h->topk, 0));
		w.weights = hold(in->weights);
		w.received_weights = hold(out->weights);
		w.received_ids = hold(out->ids);
	}
	RULE(info == NULL || info->size < 48 || info->kind < 2, "this stand-in numbers experts as a rank does");
	w.received = hold(out->tokens);
	if (g->config.zero_copy == ZeroCopyOn) {
		RULE(h->layout != ExpertMajor && recipe == None, "zero copy is of rank-major LL without quantization, and of HT");
		RULE(out->tokens->offset == 0 && cx_fake_window(out->tokens->window, out->tokens->data, w.received.bytes), "zero copy needs rows in a window");
	}
	if (getenv("CX_FAKE_NCCL_EP_COMPILER") != NULL && !compiles()) return fail(InternalError, "no kernel");
	uint64_t n = h->dispatches++;
	if (cx_fake_fault("CX_FAKE_NCCL_EP_ERROR", g->rank, n)) return fail(InternalError, "ordered to fail");
	w.skip = cx_fake_fault("CX_FAKE_NCCL_EP_SKIP", g->rank, n);
	w.swap = cx_fake_fault("CX_FAKE_NCCL_EP_SWAP", g->rank, n);
	if (ll) TRY(route(h, &w, stream));
	TRY(enqueue(stream, pack_rows, &w));
	TRY(ncclAllGather(h->own, h->all, message_bytes(h, &w) * g->config.max_sent, BYTES, g->comm, stream));
	TRY(enqueue(stream, place_rows, &w));
	h->dispatched = h->pending = 1;
	return Success;
}

int ncclEpComplete(handle_t h, const plain_config *config, void *stream) {
	(void)stream;
	RULE(h != NULL, "no handle");
	if (config != NULL) BLOCK(config, 8);
	h->pending = 0;
	return Success;
}

// ---- combine ---------------------------------------------------------------

// Where the row of a token stands among those of a rank that leave or came back.
static char *slot_of(const struct work *w, char *base, int rank, int token, int slot) {
	handle_t h = w->h;
	int slots = h->layout == ExpertMajor ? h->topk : 1;
	return base + 2 * (size_t)w->columns * (((size_t)rank * h->group->config.max_sent + token) * slots + (slot < 0 ? 0 : slot));
}

static size_t back_bytes(const struct work *w) { return (size_t)(slot_of(w, NULL, 1, 0, 0) - (char *)NULL); }

static void send_back(void *arg) {
	struct work *w = arg;
	handle_t h = w->h;
	size_t bytes = 2 * (size_t)w->columns;
	char *base = cx_fake_view(h->leaving, back_bytes(w) * h->group->ranks);
	const char *rows = memory(&w->rows);
	for (int block = 0; block < h->blocks; block++)
		for (int i = 0; i < h->filled[block]; i++) {
			size_t at = (size_t)block * h->capacity + i;
			struct row r = h->rows[at];
			memcpy(slot_of(w, base, r.rank, r.token, r.slot), rows + at * bytes, bytes);
		}
}

// add_up adds the rows of each token in float32, in the order of its slots: of expert-major
// ones weight times row, of rank-major ones the row of a rank in its first slot. Flat ones
// are added in the order of the ranks.
static void add_up(void *arg) {
	struct work *w = arg;
	handle_t h = w->h;
	group_t g = h->group;
	char *base = cx_fake_view(h->back, back_bytes(w) * g->ranks);
	uint16_t *out = (uint16_t *)memory(&w->out);
	const float *weights = w->weights.data == NULL ? NULL : (const float *)memory(&w->weights);
	float *sum = malloc(w->columns * sizeof *sum);
	for (int t = 0; t < w->tokens; t++) {
		const int32_t *ids = h->all_ids + g->rank * ids_words(h) + 1 + t * h->topk;
		memset(sum, 0, w->columns * sizeof *sum);
		int parts = h->layout == FlatRows ? g->ranks : h->topk;
		for (int n = 0; n < parts; n++) {
			int part = w->reorder ? parts - 1 - n : n, from = part, sends = 0;
			if (h->layout != FlatRows) {
				from = ids[part] / g->local;
				sends = ids[part] >= 0;
			}
			for (int k = 0; k < h->topk && h->layout == FlatRows; k++)
				sends |= ids[k] >= 0 && ids[k] / g->local == part;
			for (int k = 0; k < part && h->layout == RankMajor; k++)
				sends &= ids[k] < 0 || ids[k] / g->local != from;
			if (!sends) continue;
			const uint16_t *row = (const uint16_t *)slot_of(w, base, from, t, weights != NULL ? part : -1);
			for (int i = 0; i < w->columns; i++) {
				float term = weights != NULL ? from_bf16(row[i]) * weights[t * h->topk + part] : from_bf16(row[i]);
				sum[i] += term;
			}
		}
		for (int i = 0; i < (w->truncate ? w->columns / 2 : w->columns); i++)
			out[(size_t)t * w->columns + i] = to_bf16(sum[i], w->to_zero);
	}
	free(sum);
}

int ncclEpCombine(handle_t h, const inputs *in, const combine_outputs *out, const combine_config *config, void *stream) {
	RULE(h != NULL, "no handle");
	group_t g = h->group;
	int ll = g->config.algorithm == LowLatency;
	BLOCK(in, 24);
	BLOCK(out, 24);
	RULE(config == NULL, "options that this stand-in lacks");
	USAGE(h->dispatched, "a combine before the dispatch");
	USAGE(!h->pending, "a combine before the last operation was completed");
	RULE(out->tokens != NULL && out->tokens->ndim == 2 && in->weights == NULL, "no output, or weights of a backward pass");
	size_t columns = out->tokens->sizes[1];
	TRY(check_tensor(out->tokens, BF16, 2, h->tokens, columns, 0));
	struct work w = {.h = h, .tokens = h->tokens, .columns = (int)columns, .out = hold(out->tokens)};
	if (ll) {
		TRY(check_tensor(in->tokens, BF16, 3, h->blocks, h->capacity, columns));
		if (h->layout == ExpertMajor) { // rank-major rows are weighted already
			TRY(check_tensor(out->weights, F32, 2, h->tokens, h->topk, 0));
			w.weights = hold(out->weights);
		}
	} else {
		RULE(in->tokens != NULL && in->tokens->ndim == 2, "no rows");
		TRY(check_tensor(in->tokens, BF16, 2, in->tokens->sizes[0], columns, 0));
		RULE(in->tokens->sizes[0] >= (size_t)h->capacity, "fewer rows than the dispatch has room for");
	}
	w.rows = hold(in->tokens);
	if (g->config.zero_copy == ZeroCopyOn && !ll)
		RULE(in->tokens->offset == 0 && cx_fake_window(in->tokens->window, in->tokens->data, w.rows.bytes), "zero copy of HT needs the rows to combine in a window");
	uint64_t n = h->combines++;
	w.truncate = cx_fake_fault("CX_FAKE_NCCL_EP_TRUNCATE", g->rank, n);
	w.to_zero = cx_fake_fault("CX_FAKE_NCCL_EP_ROUND", g->rank, n);
	const char *reorder = getenv("CX_FAKE_NCCL_EP_REORDER"), *every = reorder != NULL ? strchr(reorder, ':') : NULL;
	w.reorder = ++g->combines > 0 && every != NULL && atoi(reorder) == g->rank && g->combines % strtoull(every + 1, NULL, 0) == 0;
	TRY(enqueue(stream, send_back, &w));
	TRY(ncclAlltoAll(h->leaving, h->back, back_bytes(&w), BYTES, g->comm, stream));
	TRY(enqueue(stream, add_up, &w));
	h->pending = 1;
	return Success;
}
