// Operations over NCCL's device interface: each rank loads and stores the others' memory, which is in symmetric windows.
// A launch performs up to CX_CALLS operations, one after another. Block b of a rank waits for block b of other ranks
// alone, so that blocks need not run at the same time. CX_OP (runner.Op) and CX_WAY are defined before this source:
// kernels of one operation need fewer registers.

enum { CX_THREADS = 512, CX_CALLS = 128 };

// runner.Op.
enum { CX_ALL_REDUCE = 0, CX_ALL_GATHER = 1, CX_ALLTOALL = 3 };

// How an operation is performed: element by element or in words of 16 bytes, or between two ranks: by the sender, by the
// receiver, by senders in turns, of which each waits for the message of the other, or by a sender whose blocks move
// messages of their own, so that as many are in flight. A message of no bytes is a signal alone.
enum { CX_ELEMENTS, CX_VECTORS, CX_PUT, CX_GET, CX_TURNS, CX_WINDOW };

struct cx_work {
	ncclWindow_t buffers, signals;
	const volatile cx_u32 *stop; // page-locked; ends all waits
	cx_u64 count;                // elements, as runner.Call has them
	cx_i32 calls, type, rank, world;
	cx_i32 peer, sends, receives; // between two ranks; peer is -1 otherwise
	cx_i32 size;                  // bytes of an element
};

// The buffers of an operation, in bytes from the beginning of their window.
struct cx_at {
	cx_u64 send, recv;
};

template <int N> struct cx_calls {
	cx_at at[N];
};

// Loads that no cache of this device answers, and accesses that order all others, between devices. A relaxed one orders
// none.
#ifdef CX_FAKE_DEVICE
template <class T> static inline T cx_load(const T *p) { return *p; }
static inline cx_u32 cx_acquire(const cx_u32 *p) { return sched_yield(), __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void cx_release(cx_u32 *p, cx_u32 v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline void cx_relaxed(cx_u32 *p, cx_u32 v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
static inline float cx_from_half(cx_u16 h) { return cx_decode(cx_fp16(), h); }
static inline cx_u16 cx_to_half(float f) { return (cx_u16)cx_encode(cx_fp16(), f); }
struct alignas(16) cx_word {
	cx_u64 a, b;
};
#else
struct alignas(16) cx_word {
	cx_u64 a, b;
};
template <class T> __device__ __forceinline__ T cx_load(const T *p) { return *(const volatile T *)p; }
__device__ __forceinline__ cx_word cx_load(const cx_word *p)
{
	cx_word v;
	asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.a), "=l"(v.b) : "l"(p) : "memory");
	return v;
}
__device__ __forceinline__ cx_u32 cx_acquire(const cx_u32 *p)
{
	cx_u32 v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}
__device__ __forceinline__ void cx_release(cx_u32 *p, cx_u32 v)
{
	asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void cx_relaxed(cx_u32 *p, cx_u32 v)
{
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ float cx_from_half(cx_u16 h)
{
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}
__device__ __forceinline__ cx_u16 cx_to_half(float f)
{
	cx_u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
	return h;
}
#endif

// Signals that data are there, that buffers are ready, and that a block has come to a barrier. For each block, peer and
// kind, a line of a rank's window of signals has the number of signals from the peer, which the peer writes, and the
// numbers that this rank has sent there and waited for. The rank's own line has its number of barriers.
enum { CX_DATA, CX_READY, CX_BARRIER };
enum { CX_LINE = 128, CX_FROM = 32, CX_SENT = 96, CX_SEEN = 100, CX_OWN = 8 };

__device__ __forceinline__ cx_u64 cx_line(const cx_work &w, int of) { return ((cx_u64)blockIdx.x * w.world + of) * CX_LINE; }

// Signals a peer, after all that this thread has written or has seen written.
__device__ __forceinline__ void cx_signal(const cx_work &w, int peer, int kind)
{
	cx_u32 *sent = (cx_u32 *)ncclGetLocalPointer(w.signals, cx_line(w, peer) + CX_SENT + kind * CX_OWN);
	*sent += 1;
	cx_release((cx_u32 *)ncclGetPeerPointer(w.signals, cx_line(w, w.rank) + kind * CX_FROM, peer), *sent);
}

// Waits until a number of signals have come.
__device__ __forceinline__ void cx_await(const cx_work &w, const cx_u32 *from, cx_u32 number)
{
	for (cx_u32 tries = 1; (cx_i32)(cx_acquire(from) - number) < 0; tries++)
		if (tries % 1024 == 0 && *w.stop != 0)
			return;
}

// Waits for a signal of a peer.
__device__ __forceinline__ void cx_wait(const cx_work &w, int peer, int kind)
{
	char *line = (char *)ncclGetLocalPointer(w.signals, cx_line(w, peer));
	cx_u32 *seen = (cx_u32 *)(line + CX_SEEN + kind * CX_OWN);
	*seen += 1;
	cx_await(w, (cx_u32 *)(line + kind * CX_FROM), *seen);
}

// Waits until the same block of every rank has come to the barrier with this number. The caller keeps the number in a
// register, since a barrier takes little longer than an access of memory. The first barrier of a launch has nothing to
// order, since what earlier kernels wrote is visible: without a release it takes 1.5 us less.
__device__ __forceinline__ void cx_barrier(const cx_work &w, cx_u32 number, bool first)
{
	__syncthreads();
	for (int peer = threadIdx.x; peer < w.world; peer += blockDim.x) {
		if (peer == w.rank)
			continue;
		cx_u32 *to = (cx_u32 *)ncclGetPeerPointer(w.signals, cx_line(w, w.rank) + CX_BARRIER * CX_FROM, peer);
		if (first)
			cx_relaxed(to, number);
		else
			cx_release(to, number);
		cx_await(w, (cx_u32 *)ncclGetLocalPointer(w.signals, cx_line(w, peer) + CX_BARRIER * CX_FROM), number);
	}
	__syncthreads();
}

template <class T> __device__ __forceinline__ T *cx_buffer(const cx_work &w, cx_u64 at, int rank)
{
	return (T *)ncclGetPeerPointer(w.buffers, at, rank);
}

enum { CX_LOADS = 8 }; // of a copy in flight

// Copies this thread's share.
template <class T> __device__ __forceinline__ void cx_copy(const cx_work &w, void *to, const void *from, cx_u64 n)
{
	T *dst = (T *)to;
	const T *src = (const T *)from;
	bool alone = CX_WAY == CX_WINDOW;
	cx_u64 i = alone ? threadIdx.x : cx_first(), step = alone ? blockDim.x : cx_step();
	for (; i + (CX_LOADS - 1) * step < n; i += CX_LOADS * step) {
		T v[CX_LOADS];
#pragma unroll
		for (int j = 0; j < CX_LOADS; j++)
			v[j] = cx_load(src + i + j * step);
#pragma unroll
		for (int j = 0; j < CX_LOADS; j++)
			dst[i + j * step] = v[j];
	}
	for (; i < n; i += step)
		dst[i] = cx_load(src + i);
}

// Copies this thread's share of bytes of whole elements.
__device__ void cx_move(const cx_work &w, void *to, const void *from, cx_u64 bytes)
{
	cx_u64 whole = bytes & ~(cx_u64)15;
	if (CX_WAY != CX_ELEMENTS && (((cx_u64)to | (cx_u64)from) & 15) == 0) {
		cx_copy<cx_word>(w, to, from, whole / 16);
		cx_copy<cx_u8>(w, (char *)to + whole, (const char *)from + whole, bytes - whole);
		return;
	}
	switch (w.size) {
	case 1: return cx_copy<cx_u8>(w, to, from, bytes);
	case 2: return cx_copy<cx_u16>(w, to, from, bytes / 2);
	case 4: return cx_copy<cx_u32>(w, to, from, bytes / 4);
	default: return cx_copy<cx_u64>(w, to, from, bytes / 8);
	}
}

// Numbers as they are stored and as they are added. Small floats are added as floats, and rounded once.
template <class T> struct cx_plain {
	typedef T raw, sum;
	static __device__ __forceinline__ T in(T v) { return v; }
	static __device__ __forceinline__ T out(T v) { return v; }
};
struct cx_half {
	typedef cx_u16 raw;
	typedef float sum;
	static __device__ __forceinline__ float in(cx_u16 v) { return cx_from_half(v); }
	static __device__ __forceinline__ cx_u16 out(float v) { return cx_to_half(v); }
};
struct cx_bfloat {
	typedef cx_u16 raw;
	typedef float sum;
	static __device__ __forceinline__ float in(cx_u16 v) { return cx_from_bf16(v); }
	static __device__ __forceinline__ cx_u16 out(float v) { return cx_to_bf16(v); }
};

// The first element or word of this thread among all threads of all ranks, and how many these are.
__device__ __forceinline__ cx_u64 cx_mine(const cx_work &w) { return threadIdx.x + (cx_u64)blockDim.x * (w.rank + (cx_u64)blockIdx.x * w.world); }
__device__ __forceinline__ cx_u64 cx_threads(const cx_work &w) { return cx_step() * w.world; }

// Adds the elements from begin on, and stores the sums on every rank.
template <class N> __device__ void cx_add_elements(const cx_work &w, cx_at at, cx_u64 begin)
{
	typedef typename N::raw raw;
	for (cx_u64 i = begin + cx_mine(w); i < w.count; i += cx_threads(w)) {
		typename N::sum v = N::in(cx_load(cx_buffer<raw>(w, at.send, 0) + i));
		for (int p = 1; p < w.world; p++)
			v = (typename N::sum)(v + N::in(cx_load(cx_buffer<raw>(w, at.send, p) + i)));
		for (int p = 0; p < w.world; p++)
			cx_buffer<raw>(w, at.recv, p)[i] = N::out(v);
	}
}

// Adds whole words of 16 bytes, with as many loads in flight as registers hold. Returns the number of elements in them.
template <class N> __device__ cx_u64 cx_add_words(const cx_work &w, cx_at at)
{
	enum { EACH = 16 / sizeof(typename N::raw), LOADS = EACH > 4 ? 4 : 8 };
	union word {
		cx_word bits;
		typename N::raw of[EACH];
	};
	cx_u64 words = w.count / EACH, step = cx_threads(w);
	for (cx_u64 i = cx_mine(w); i < words; i += LOADS * step) {
		typename N::sum v[LOADS][EACH];
		for (int p = 0; p < w.world; p++) {
			const cx_word *from = cx_buffer<const cx_word>(w, at.send, p);
			word in[LOADS];
#pragma unroll
			for (int j = 0; j < LOADS; j++)
				in[j].bits = i + j * step < words ? cx_load(from + i + j * step) : cx_word{0, 0};
#pragma unroll
			for (int j = 0; j < LOADS; j++)
#pragma unroll
				for (int e = 0; e < EACH; e++)
					v[j][e] = p == 0 ? N::in(in[j].of[e]) : (typename N::sum)(v[j][e] + N::in(in[j].of[e]));
		}
		word out[LOADS];
#pragma unroll
		for (int j = 0; j < LOADS; j++)
#pragma unroll
			for (int e = 0; e < EACH; e++)
				out[j].of[e] = N::out(v[j][e]);
		for (int p = 0; p < w.world; p++) {
			cx_word *to = cx_buffer<cx_word>(w, at.recv, p);
#pragma unroll
			for (int j = 0; j < LOADS; j++)
				if (i + j * step < words)
					to[i + j * step] = out[j].bits;
		}
	}
	return words * EACH;
}

template <class N> __device__ void cx_add(const cx_work &w, cx_at at)
{
	bool words = CX_WAY == CX_VECTORS && ((at.send | at.recv) & 15) == 0;
	cx_add_elements<N>(w, at, words ? cx_add_words<N>(w, at) : 0);
}

__device__ void cx_all_reduce(const cx_work &w, cx_at at)
{
	switch (w.type) {
	case 0:
	case 1: return cx_add<cx_plain<cx_u8>>(w, at);
	case 2:
	case 3: return cx_add<cx_plain<cx_u32>>(w, at);
	case 4:
	case 5: return cx_add<cx_plain<cx_u64>>(w, at);
	case 6: return cx_add<cx_half>(w, at);
	case 7: return cx_add<cx_plain<float>>(w, at);
	case 8: return cx_add<cx_plain<double>>(w, at);
	default: return cx_add<cx_bfloat>(w, at);
	}
}

// Stores this rank's part, or its part for each rank, in every rank's buffer, from the next rank on. What all threads
// have in flight goes to each rank in turn, so that its own memory and the links work at the same time.
__device__ void cx_scatter(const cx_work &w, cx_at at)
{
	cx_u64 part = w.count * w.size, turn = CX_LOADS * sizeof(cx_word) * cx_step();
	for (cx_u64 done = 0; done < part; done += turn)
		for (int k = 1; k <= w.world; k++) {
			int p = (w.rank + k) % w.world;
			char *to = cx_buffer<char>(w, at.recv + w.rank * part, p);
			const char *from = cx_buffer<char>(w, at.send + (CX_OP == CX_ALLTOALL ? p * part : 0), w.rank);
			if (to != from)
				cx_move(w, to + done, from + done, part - done < turn ? part - done : turn);
		}
}

template <int N> __device__ __forceinline__ void cx_together(const cx_work &w, const cx_calls<N> &calls)
{
	cx_u32 *barriers = (cx_u32 *)ncclGetLocalPointer(w.signals, cx_line(w, w.rank) + CX_SENT);
	cx_u32 number = *barriers;
	cx_barrier(w, ++number, true);
	for (int i = 0; i < w.calls; i++) {
		if (CX_OP == CX_ALL_REDUCE)
			cx_all_reduce(w, calls.at[i]);
		else
			cx_scatter(w, calls.at[i]);
		cx_barrier(w, ++number, false);
	}
	if (threadIdx.x == 0)
		*barriers = number;
}

// Moves one message of a pair.
__device__ __forceinline__ void cx_message(const cx_work &w, cx_at at)
{
	int dst = CX_WAY == CX_GET ? w.rank : w.peer, src = CX_WAY == CX_GET ? w.peer : w.rank;
	cx_move(w, cx_buffer<void>(w, at.recv, dst), cx_buffer<void>(w, at.send, src), w.count * w.size);
	__syncthreads();
	if (threadIdx.x == 0)
		cx_signal(w, w.peer, CX_DATA);
}

__device__ __forceinline__ void cx_hear(const cx_work &w, int kind)
{
	if (threadIdx.x == 0)
		cx_wait(w, w.peer, kind);
	__syncthreads();
}

// A rank that is accessed signals when its buffers are ready, and waits for each message.
template <int N> __device__ __forceinline__ void cx_pair(const cx_work &w, const cx_calls<N> &calls)
{
	bool accesses = CX_WAY == CX_GET ? w.receives : w.sends, accessed = CX_WAY == CX_GET ? w.sends : w.receives;
	bool second = CX_WAY == CX_TURNS && w.rank > w.peer;
	if (accessed && threadIdx.x == 0)
		cx_signal(w, w.peer, CX_READY);
	if (accesses)
		cx_hear(w, CX_READY);
	bool alone = CX_WAY == CX_WINDOW;
	for (int i = alone ? blockIdx.x : 0; i < w.calls; i += alone ? gridDim.x : 1) {
		if (second)
			cx_hear(w, CX_DATA);
		if (accesses)
			cx_message(w, calls.at[i]);
		if (accessed && !second)
			cx_hear(w, CX_DATA);
	}
}

template <int N> __device__ __forceinline__ void cx_perform(const cx_work &w, const cx_calls<N> &calls)
{
	if (CX_WAY <= CX_VECTORS)
		cx_together(w, calls);
	else
		cx_pair(w, calls);
}

extern "C" __global__ void __launch_bounds__(512) cx_one(const cx_work w, const cx_calls<1> calls) { cx_perform(w, calls); }
extern "C" __global__ void __launch_bounds__(512) cx_many(const cx_work w, const cx_calls<CX_CALLS> calls) { cx_perform(w, calls); }
