// A stand-in for libmscclpp_nccl: what MSCCL++ 0.9 makes of the NCCL ABI, over a
// stand-in of NCCL or RCCL (CX_FAKE_INNER, beside it), none of whose names it
// shows. It has all_reduce and all_gather of its own, and no fallback; takes part
// in groups without grouping; registers nothing; never tells of an error of its
// own accord; and cannot abort. An element type that it does not have ends the
// process, as the exception does that MSCCL++ throws through C.
//
// The faults of nccl.c can be ordered here too.
//   CX_FAKE_MSCCLPP_VERSION=CODE      ncclGetVersion (default 900)

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { Success, InternalError = 3, InvalidArgument = 4, InvalidUsage = 5 };
enum { Sum = 0, Min = 3 };
enum { I8 = 0, I64 = 4, U64 = 5, F64 = 8, TYPES = 12 };

typedef struct comm *ncclComm_t;
typedef struct { char bytes[128]; } ncclUniqueId;

static void *library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_inner(void) {
	Dl_info self;
	char path[4096];
	if (dladdr(&library, &self) == 0) abort();
	snprintf(path, sizeof path, "%s", self.dli_fname);
	snprintf(strrchr(path, '/'), 64, "/%s", CX_FAKE_INNER);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) abort();
}

static void *inner(const char *name) {
	pthread_once(&once, open_inner);
	return dlsym(library, name);
}

// INNER is the function of the same name and type in the library underneath.
#define INNER(name) ((__typeof__(&name))inner(#name))

API int ncclGetVersion(int *v) {
	const char *text = getenv("CX_FAKE_MSCCLPP_VERSION");
	if (v == NULL) return InvalidArgument;
	*v = text != NULL ? atoi(text) : 900;
	return Success;
}

API const char *ncclGetErrorString(int r) { return INNER(ncclGetErrorString)(r); }
API const char *ncclGetLastError(ncclComm_t c) { (void)c; return ""; }
API int ncclGetUniqueId(ncclUniqueId *id) { return INNER(ncclGetUniqueId)(id); }

// ---- communicators ---------------------------------------------------------

API int ncclCommInitRank(ncclComm_t *to, int nranks, ncclUniqueId id, int rank) { return INNER(ncclCommInitRank)(to, nranks, id, rank); }

API int ncclCommInitRankConfig(ncclComm_t *to, int nranks, ncclUniqueId id, int rank, void *config) {
	(void)config;
	return ncclCommInitRank(to, nranks, id, rank);
}

API int ncclCommInitRankScalable(ncclComm_t *to, int nranks, int rank, int n, ncclUniqueId *ids, void *config) {
	(void)to, (void)nranks, (void)rank, (void)n, (void)ids, (void)config;
	return InternalError;
}

API int ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *to, void *config) {
	(void)config;
	return INNER(ncclCommSplit)(c, color, key, to, NULL);
}

API int ncclCommFinalize(ncclComm_t c) { return INNER(ncclCommFinalize)(c); }
API int ncclCommDestroy(ncclComm_t c) { return INNER(ncclCommDestroy)(c); }
API int ncclCommAbort(ncclComm_t c) { (void)c; return Success; }
API int ncclCommCount(ncclComm_t c, int *n) { return INNER(ncclCommCount)(c, n); }
API int ncclCommUserRank(ncclComm_t c, int *r) { return INNER(ncclCommUserRank)(c, r); }

API int ncclCommGetAsyncError(ncclComm_t c, int *r) {
	(void)c;
	if (r == NULL) return InvalidArgument;
	*r = Success;
	return Success;
}

// ---- memory, registration, reductions --------------------------------------

API int ncclMemAlloc(void **p, size_t n) { return p == NULL || n == 0 ? InvalidArgument : INNER(ncclMemAlloc)(p, n); }
API int ncclMemFree(void *p) { return p == NULL ? InvalidUsage : INNER(ncclMemFree)(p); }
API int ncclCommRegister(ncclComm_t c, void *p, size_t n, void **handle) { (void)c, (void)p, (void)n, (void)handle; return InternalError; }
API int ncclCommDeregister(ncclComm_t c, void *handle) { (void)c, (void)handle; return InternalError; }
API int ncclCommWindowRegister(ncclComm_t c, void *p, size_t n, void **w, int flags) { (void)c, (void)p, (void)n, (void)w, (void)flags; return InternalError; }
API int ncclCommWindowDeregister(ncclComm_t c, void *w) { (void)c, (void)w; return InternalError; }
API int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, ncclComm_t c) { (void)op, (void)scalar, (void)type, (void)residence, (void)c; return InternalError; }
API int ncclRedOpDestroy(int op, ncclComm_t c) { (void)op, (void)c; return InternalError; }

// ---- operations ------------------------------------------------------------

// has ends the process for a type that MSCCL++ does not have.
static void has(int type) {
	if (type == I8 || type == I64 || type == U64 || type == F64 || type < 0 || type >= TYPES) abort();
}

static int alone(ncclComm_t c) {
	int n = 0;
	return c != NULL && INNER(ncclCommCount)(c, &n) == Success && n == 1;
}

API int ncclAllReduce(const void *s, void *r, size_t n, int type, int op, ncclComm_t c, void *stream) {
	if (alone(c)) return INNER(ncclAllReduce)(s, r, n, type, op, c, stream);
	if (s == NULL || r == NULL || n == 0 || c == NULL) return InvalidArgument;
	has(type);
	if (op != Sum && op != Min) return InvalidArgument;
	return INNER(ncclAllReduce)(s, r, n, type, op, c, stream);
}

API int ncclAllGather(const void *s, void *r, size_t n, int type, ncclComm_t c, void *stream) {
	if (alone(c)) return INNER(ncclAllGather)(s, r, n, type, c, stream);
	if (s == NULL || r == NULL || n == 0 || c == NULL) return InvalidArgument;
	has(type);
	return INNER(ncclAllGather)(s, r, n, type, c, stream);
}

API int ncclBroadcast(const void *s, void *r, size_t n, int type, int root, ncclComm_t c, void *stream) { (void)s, (void)r, (void)n, (void)type, (void)root, (void)c, (void)stream; return InvalidUsage; }
API int ncclReduceScatter(const void *s, void *r, size_t n, int type, int op, ncclComm_t c, void *stream) { (void)s, (void)r, (void)n, (void)type, (void)op, (void)c, (void)stream; return InternalError; }
API int ncclReduce(const void *s, void *r, size_t n, int type, int op, int root, ncclComm_t c, void *stream) { (void)s, (void)r, (void)n, (void)type, (void)op, (void)root, (void)c, (void)stream; return InternalError; }
API int ncclSend(const void *s, size_t n, int type, int peer, ncclComm_t c, void *stream) { (void)s, (void)n, (void)type, (void)peer, (void)c, (void)stream; return InternalError; }
API int ncclRecv(void *r, size_t n, int type, int peer, ncclComm_t c, void *stream) { (void)r, (void)n, (void)type, (void)peer, (void)c, (void)stream; return InternalError; }
API int ncclAllToAll(const void *s, void *r, size_t n, int type, ncclComm_t c, void *stream) { (void)s, (void)r, (void)n, (void)type, (void)c, (void)stream; return InternalError; }
API int ncclAllToAllv(const void *s, const size_t *sn, const size_t *sd, void *r, const size_t *rn, const size_t *rd, int type, ncclComm_t c, void *stream) {
	(void)s, (void)sn, (void)sd, (void)r, (void)rn, (void)rd, (void)type, (void)c, (void)stream;
	return InternalError;
}
API int ncclGroupStart(void) { return Success; }
API int ncclGroupEnd(void) { return Success; }
