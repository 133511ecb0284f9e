/*
 * Lets g++ compile kernel source that CUDA and HIP compile too, and runs it
 * block by block. A fiber runs the threads of a block one after another until
 * one of them comes to __syncthreads(); the threads after it have the next
 * fiber, and nobody passes before all have arrived.
 */
#ifndef CX_FAKE_SHIM_H
#define CX_FAKE_SHIM_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

#include "kernel.h"

#define CX_FAKE_DEVICE 1
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__ static thread_local

namespace cx_fake {

struct dim3 {
	unsigned x, y, z;
};

/* Of __builtin_setjmp, which is faster than setjmp: many kernels do little but change fibers. */
typedef void *place[5];

struct fiber {
	place at;
	int waiting; /* at a barrier */
	int started;
	dim3 thread;
};

/* Stacks are apart by no power of two: what is at the top of each would otherwise share a few
 * lines of the caches. */
enum { MAX_FIBERS = 1024, STACK = (64 << 10) + 5 * 64 };

struct machine {
	dim3 grid_dim, block_dim, block;
	unsigned threads, next; /* of the block, and the first that has not begun */
	int used;               /* fibers of the block */
	fiber *self;
	fiber fibers[MAX_FIBERS];
	char *stacks;
	place scheduler;
	ucontext_t start;
	void (*body)(const char *packed);
	const char *packed;
};

static thread_local machine *current;

/* The fiber that goes on after f: one for the threads that have not begun, until there are
 * none, and then the next one that waits. All begin before one of them passes a barrier, and
 * each round takes those that wait to the next barrier. NULL: the scheduler has to start a
 * fiber, or the block has ended. */
inline fiber *after(machine *m, fiber *f)
{
	fiber *end = m->fibers + m->used;
	if (m->next < m->threads)
		return end->started ? m->used++, end : nullptr;
	for (fiber *other = f + 1; other < end; other++)
		if (other->waiting)
			return other;
	for (fiber *other = m->fibers; other <= f; other++)
		if (other->waiting)
			return other;
	return nullptr;
}

/* The compiler drops a __builtin_setjmp whose function jumps too. */
[[noreturn]] __attribute__((noinline)) inline void jump(machine *m, fiber *to)
{
	m->self = to;
	__builtin_longjmp(to ? to->at : m->scheduler, 1);
}

__attribute__((noinline)) inline void yield(int waiting)
{
	machine *m = current;
	fiber *f = m->self;
	f->waiting = waiting;
	fiber *to = after(m, f);
	if (to != f && __builtin_setjmp(f->at) == 0)
		jump(m, to);
}

/* A fiber lives on from block to block, so that its stack is made once. */
inline void live()
{
	machine *m = current;
	fiber *f = m->self;
	for (;;) {
		while (m->next < m->threads) {
			unsigned t = m->next++;
			f->thread = {t % m->block_dim.x, t / m->block_dim.x % m->block_dim.y, t / m->block_dim.x / m->block_dim.y};
			m->body(m->packed);
		}
		yield(0);
	}
}

/* Returns when no fiber can go on to another one. */
__attribute__((noinline)) inline void resume(machine *m, fiber *f)
{
	if (__builtin_setjmp(m->scheduler) != 0)
		return;
	if (f->started)
		jump(m, f);
	m->self = f;
	f->started = 1;
	getcontext(&m->start);
	m->start.uc_stack.ss_sp = m->stacks + (size_t)(f - m->fibers) * STACK;
	m->start.uc_stack.ss_size = STACK;
	m->start.uc_link = nullptr;
	makecontext(&m->start, live, 0);
	setcontext(&m->start);
}

inline void run(const unsigned grid[3], const unsigned block[3], const char *packed, void (*body)(const char *))
{
	machine *m = current;
	if (!m) {
		m = current = (machine *)calloc(1, sizeof *m);
		m->stacks = (char *)mmap(nullptr, (size_t)MAX_FIBERS * STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	m->grid_dim = {grid[0], grid[1], grid[2]};
	m->block_dim = {block[0], block[1], block[2]};
	m->threads = block[0] * block[1] * block[2];
	m->body = body;
	m->packed = packed;
	for (unsigned z = 0; z < grid[2]; z++)
		for (unsigned y = 0; y < grid[1]; y++)
			for (unsigned x = 0; x < grid[0]; x++) {
				m->block = {x, y, z};
				m->next = m->used = 0;
				while (m->next < m->threads)
					resume(m, &m->fibers[m->used++]);
			}
}

template <class F> struct bridge;

template <class... A> struct bridge<void (*)(A...)> {
	static constexpr int count = sizeof...(A);
	static constexpr size_t bytes = (sizeof(A) + ... + 0);

	static void pack(void **params, char *packed)
	{
		int i = 0;
		(void)i;
		((__builtin_memcpy(packed, params[i++], sizeof(A)), packed += sizeof(A)), ...);
	}

	template <class T> static T take(const char *&packed)
	{
		T v;
		__builtin_memcpy(&v, packed, sizeof v);
		packed += sizeof v;
		return v;
	}

	struct call {
		call(void (*kernel)(A...), A... args) { kernel(args...); }
	};

	/* Braces, unlike a call, evaluate in order. */
	static void invoke(void (*kernel)(A...), const char *packed) { call{kernel, take<A>(packed)...}; }
};

} // namespace cx_fake

#define threadIdx (cx_fake::current->self->thread)
#define blockIdx (cx_fake::current->block)
#define blockDim (cx_fake::current->block_dim)
#define gridDim (cx_fake::current->grid_dim)

static inline void __syncthreads() { cx_fake::yield(1); }
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

static inline int atomicAdd(int *p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static inline unsigned atomicAdd(unsigned *p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static inline unsigned long long atomicMin(unsigned long long *p, unsigned long long v)
{
	unsigned long long old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
	while (v < old && !__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
	}
	return old;
}

static inline unsigned long long atomicMax(unsigned long long *p, unsigned long long v)
{
	unsigned long long old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
	while (v > old && !__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
	}
	return old;
}

/* One per kernel; the fake compiler appends these to the source. */
#define CX_FAKE_KERNEL(name)                                                                                  \
	static void cx_body_##name(const char *packed) { cx_fake::bridge<decltype(&name)>::invoke(name, packed); } \
	static void cx_run_##name(const unsigned g[3], const unsigned b[3], const char *packed)                   \
	{                                                                                                         \
		cx_fake::run(g, b, packed, cx_body_##name);                                                       \
	}                                                                                                         \
	extern "C" __attribute__((visibility("default"))) const struct cx_kernel cx_kernel_##name = {             \
		cx_fake::bridge<decltype(&name)>::count, cx_fake::bridge<decltype(&name)>::bytes,                 \
		cx_fake::bridge<decltype(&name)>::pack, cx_run_##name};

#endif
