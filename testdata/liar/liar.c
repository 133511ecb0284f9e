// A library that lies: it is NCCL or RCCL but for what CX_LIE orders, and returns
// success all the same. It is linked with the real library (or its stand-in), where
// all symbols but these are found; REAL is that file.
//
//   cc -shared -fPIC -DREAL='"/usr/lib/x86_64-linux-gnu/libnccl.so.2"' -o libliar.so liar.c \
//      -Wl,--no-as-needed,-rpath,/usr/lib/x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/libnccl.so.2 -ldl
//   CX_NCCL_LIB=$PWD/libliar.so CX_LIE=every:37 cxrun bench all_reduce -b 1K -e 16M -f 2
//
// CX_LIE is one of
//   every:N  every N-th collective of the process is skipped
//   from:N   all from the N-th on are
//   half     half of the elements are moved
//   swap     each result goes into the send buffer
//   lost:N, cut:N, turned:N  from the N-th receive of the thread on, what is received goes
//            nowhere, only its first half is written, or its halves are exchanged;
//            receives of int32 do not count, which may be sizes that ranks must agree on
//   known:N  from the N-th receive of the thread on, what is received goes nowhere if the last byte
//            of the first 8 is there already
// Sends and receives take place all the same: their peers would wait for ever.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static __thread unsigned long calls; // a rank calls from one thread

static void *real(const char *symbol) { return dlsym(dlopen(REAL, RTLD_NOW), symbol); }

// number returns the N of an order KIND:N, 0 where the order is another.
static unsigned long number(const char *kind) {
	const char *order = getenv("CX_LIE");
	size_t n = strlen(kind);
	return order != NULL && strncmp(order, kind, n) == 0 && order[n] == ':' ? strtoul(order + n + 1, NULL, 10) : 0;
}

// lie changes the arguments of a collective, or says that it is skipped.
static int lie(const void **send, void **recv, size_t *count) {
	const char *order = getenv("CX_LIE");
	calls++;
	if (order == NULL) return 0;
	if (number("every")) return calls % number("every") == 0;
	if (number("from")) return calls >= number("from");
	if (strcmp(order, "half") == 0) *count /= 2;
	if (strcmp(order, "swap") == 0) {
		void *to = (void *)*send;
		*send = *recv;
		*recv = to;
	}
	return 0;
}

#define PARAMS(...) (const void *send, void *recv, size_t count, int type, __VA_ARGS__)
#define LYING(name, params, ...) \
	int name params { \
		static int (*f) params; \
		if (f == NULL) *(void **)&f = real(#name); \
		return lie(&send, &recv, &count) ? 0 : f(send, recv, count, type, __VA_ARGS__); \
	}

LYING(ncclAllReduce, PARAMS(int op, void *comm, void *stream), op, comm, stream)
LYING(ncclReduceScatter, PARAMS(int op, void *comm, void *stream), op, comm, stream)
LYING(ncclReduce, PARAMS(int op, int root, void *comm, void *stream), op, root, comm, stream)
LYING(ncclBroadcast, PARAMS(int root, void *comm, void *stream), root, comm, stream)
LYING(ncclAllGather, PARAMS(void *comm, void *stream), comm, stream)
#ifdef NATIVE_2_28 // the real library has these
LYING(ncclAlltoAll, PARAMS(void *comm, void *stream), comm, stream)
LYING(ncclGather, PARAMS(int root, void *comm, void *stream), root, comm, stream)
LYING(ncclScatter, PARAMS(int root, void *comm, void *stream), root, comm, stream)
#endif

// What a receive lies about arrives in scratch memory. When the group ends, the part of it
// that is to be seen is copied to its place, in the order of the stream.
enum { SCRATCH = 64 << 20, RECEIVES = 64 };

static __thread struct {
	char *memory;
	size_t used;
	unsigned long received;
	int depth, n;
	struct { char *to, *at; size_t bytes; void *stream; } of[RECEIVES];
} receives;

// driver returns a function of the library's driver, by its name in CUDA or in HIP.
static void *driver(const char *cuda, const char *hip) {
	if (strstr(REAL, "librccl") == NULL) return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), cuda);
	void *of = dlopen("libamdhip64.so", RTLD_NOW | RTLD_NOLOAD);
	return dlsym(of != NULL ? of : dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD), hip);
}

static void copy(char *to, const char *from, size_t bytes, void *stream) {
	int (*f)(unsigned long long, unsigned long long, size_t, void *) = driver("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync");
	if (f == NULL || f((unsigned long long)to, (unsigned long long)from, bytes, stream) != 0) abort();
}

// last returns the last of the first 8 bytes of memory, once the stream has come so far.
static char last(const char *memory, void *stream) {
	char bytes[8];
	int (*f)(void *, unsigned long long, size_t, void *) = driver("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync");
	int (*wait)(void *) = driver("cuStreamSynchronize", "hipStreamSynchronize");
	if (f == NULL || wait == NULL || f(bytes, (unsigned long long)memory, sizeof bytes, stream) != 0 || wait(stream) != 0) abort();
	return bytes[7];
}

int ncclRecv(void *recv, size_t count, int type, int peer, void *comm, void *stream) {
	static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	int (*f)(void *, size_t, int, int, void *, void *) = real("ncclRecv");
	unsigned long from = number("lost") + number("cut") + number("turned") + number("known");
	size_t bytes = count * sizes[type];
	if (type == 2) from = 0;
	if (receives.memory == NULL && from) {
		int (*alloc)(void **, size_t) = real("ncclMemAlloc");
		if (alloc((void **)&receives.memory, SCRATCH) != 0) abort();
	}
	if (!from || ++receives.received < from || receives.n == RECEIVES || receives.used + bytes > SCRATCH)
		return f(recv, count, type, peer, comm, stream);
	char *at = receives.memory + receives.used;
	receives.used += (bytes + 255) / 256 * 256;
	receives.of[receives.n].to = recv;
	receives.of[receives.n].at = at;
	receives.of[receives.n].bytes = bytes;
	receives.of[receives.n++].stream = stream;
	return f(at, count, type, peer, comm, stream);
}

int ncclGroupStart(void) {
	receives.depth++;
	return ((int (*)(void))real("ncclGroupStart"))();
}

int ncclGroupEnd(void) {
	int result = ((int (*)(void))real("ncclGroupEnd"))();
	if (--receives.depth > 0) return result;
	for (int i = 0; i < receives.n; i++) {
		size_t half = receives.of[i].bytes / 2;
		char *to = receives.of[i].to, *at = receives.of[i].at;
		void *stream = receives.of[i].stream;
		if (number("known") && last(to, stream) != last(at, stream)) copy(to, at, 2 * half, stream);
		if (number("cut") && half > 0) copy(to, at, half, stream);
		if (number("turned") && half > 0) {
			copy(to, at + half, half, stream);
			copy(to + half, at, half, stream);
		}
	}
	receives.n = 0;
	receives.used = 0;
	return result;
}
