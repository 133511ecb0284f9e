// The elements of pattern.h in blocks, rank after rank, so that the compiler can vectorise the
// loops; the variant for the processor is selected at program start. The file is compiled twice, for
// elements of up to 4 bytes and of 8: CX_WORD is the word and MAKE the name of the function.

// No conversion here can trap; without this option the compiler would not vectorise conditional
// conversions.
#pragma GCC optimize("no-trapping-math")

// Without inlining the loops would not be vectorised.
#define CX_FN static inline __attribute__((always_inline))

#include "data.h"

#if defined(__x86_64__)
#define CLONES __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define CLONES
#endif

#define INLINE static inline __attribute__((always_inline))

// Hashes of n indices from i on, which share their high word.
CLONES static void hashes(cx_u32 key, cx_u64 i, int n, cx_u32 *restrict out) {
	cx_u32 low = (cx_u32)i, high = (cx_u32)(i >> 32);
	for (int j = 0; j < n; j++) out[j] = cx_mix(cx_mix(key ^ (low + (cx_u32)j)) + high);
}

// A block in progress; sum and negative are fields of its cx_acc.
typedef struct {
	cx_u32 g[CX_BLOCK], h[CX_BLOCK];
	int sum[CX_BLOCK];
	cx_u32 negative[CX_BLOCK];
} block;

// FOR_KINDS runs LOOP with a pattern q whose reduction and kind of type are compile-time constants,
// so that the compiler can drop everything else from the loop.
#define KIND(REDOP, LOOP)                                       \
	case REDOP: {                                               \
		cx_pattern q = *p;                                      \
		q.redop = REDOP;                                        \
		if (sizeof(cx_word) == 8) q.size = 8;                   \
		if (!q.mantissa) {                                      \
			q.mantissa = 0;                                     \
			LOOP;                                               \
		} else {                                                \
			if (sizeof(cx_word) == 8) q.mantissa = 52;          \
			if (q.mantissa == 0) __builtin_unreachable();       \
			LOOP;                                               \
		}                                                       \
		break;                                                  \
	}
#define FOR_KINDS(LOOP)                                         \
	switch (p->redop) {                                         \
		KIND(CX_SUM, LOOP)                                      \
		KIND(CX_PROD, LOOP)                                     \
		KIND(CX_MAX, LOOP)                                      \
		KIND(CX_MIN, LOOP)                                      \
		KIND(CX_AVG, LOOP)                                      \
		KIND(CX_MULSUM, LOOP)                                   \
		KIND(CX_COPY, LOOP)                                     \
	}

INLINE void elements_loop(const cx_pattern q, cx_u32 rank, const block *restrict b, int n, cx_word *restrict out) {
	for (int j = 0; j < n; j++) out[j] = cx_element(&q, rank, b->h[j], b->g[j]);
}

CLONES static void elements(const cx_pattern *p, cx_u32 rank, const block *b, int n, cx_word *out) {
	FOR_KINDS(elements_loop(q, rank, b, n, out))
}

INLINE void add_loop(const cx_pattern q, cx_u32 rank, int first, block *restrict b, int n, cx_word *restrict out) {
	for (int j = 0; j < n; j++) {
		cx_acc a = {out[j], b->sum[j], b->negative[j]};
		cx_add(&q, &a, rank, b->h[j], b->g[j], first);
		out[j] = a.bits, b->sum[j] = a.sum, b->negative[j] = a.negative;
	}
}

CLONES static void add(const cx_pattern *p, cx_u32 rank, block *b, int n, cx_word *out) {
	int first = rank == 0;
	FOR_KINDS(add_loop(q, rank, first, b, n, out))
}

INLINE void end_loop(const cx_pattern q, const block *restrict b, int n, cx_word *restrict out) {
	for (int j = 0; j < n; j++) {
		cx_acc a = {out[j], b->sum[j], b->negative[j]};
		out[j] = cx_end(&q, &a, b->g[j]);
	}
}

CLONES static void end(const cx_pattern *p, const block *b, int n, cx_word *out) {
	FOR_KINDS(end_loop(q, b, n, out))
}

void MAKE(const cx_pattern *p, int64_t source, cx_u64 i, int n, cx_word *out) {
	block b;
	hashes(cx_key(p, CX_SHARED), i, n, b.g);
	if (source != CX_ALL_RANKS) {
		hashes(cx_key(p, (cx_u32)source), i, n, b.h);
		elements(p, (cx_u32)source, &b, n, out);
		return;
	}
	for (int j = 0; j < n; j++) {
		cx_acc a = cx_begin(p);
		out[j] = a.bits, b.sum[j] = a.sum, b.negative[j] = a.negative;
	}
	for (cx_u32 r = 0; r < p->world; r++) {
		hashes(cx_key(p, r), i, n, b.h);
		add(p, r, &b, n, out);
	}
	end(p, &b, n, out);
}
