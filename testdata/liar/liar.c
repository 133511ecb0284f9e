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
// Sends and receives are passed on: their peers would wait for ever.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static unsigned long calls; // a rank is a process and calls from one thread

static void *real(const char *symbol) { return dlsym(dlopen(REAL, RTLD_NOW), symbol); }

// lie changes the arguments of a collective, or says that it is skipped.
static int lie(const void **send, void **recv, size_t *count) {
	const char *order = getenv("CX_LIE");
	calls++;
	if (order == NULL) return 0;
	if (strncmp(order, "every:", 6) == 0) return calls % strtoul(order + 6, NULL, 10) == 0;
	if (strncmp(order, "from:", 5) == 0) return calls >= strtoul(order + 5, NULL, 10);
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
