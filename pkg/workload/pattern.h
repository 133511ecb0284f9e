// The data of collectives in C, for hosts and devices: the function that pattern.go
// documents. CUDA, HIP and C compilers accept it unchanged. It includes no header and
// requires hash.h before it. If no element has more than 4 bytes, define CX_WORD as
// unsigned int before including it: vector code is then twice as wide.
#ifndef CX_PATTERN_H
#define CX_PATTERN_H

#ifndef CX_WORD
#define CX_WORD unsigned long long
#endif

typedef CX_WORD cx_word; // the bits of an element

// workload.Params, field by field.
typedef struct {
	cx_u32 seed, world, type, redop, size, mantissa;
	int bias;
	cx_u32 is_signed, summands, mask, wiggle;
	int exponent, avg_shift, inverse_exponent;
	cx_u64 inverse_mantissa;
} cx_pattern;

// Values of workload.RedOp.
enum { CX_SUM, CX_PROD, CX_MAX, CX_MIN, CX_AVG, CX_MULSUM, CX_COPY };

// The rank number of the shared hash.
#define CX_SHARED 0xffffffffu

// The source of an element that is reduced over all ranks.
#define CX_ALL_RANKS (-1)

CX_FN cx_u32 cx_key(const cx_pattern *p, cx_u32 rank) { return cx_mix(p->seed ^ cx_mix(rank + 0x9e3779b9u)); }

CX_FN cx_word cx_truncate(const cx_pattern *p, cx_word v) {
	return p->size == sizeof v ? v : v & (((cx_word)1 << 8 * p->size) - 1);
}

CX_FN cx_word cx_raw(const cx_pattern *p, cx_u32 h) {
	return cx_truncate(p, sizeof(cx_word) == 8 ? (cx_word)(h | (cx_u64)cx_mix(h ^ 0x5bd1e995u) << 32) : (cx_word)h);
}

// The rank that begins the window of summands; g is the shared hash of the index.
CX_FN cx_u32 cx_first(const cx_pattern *p, cx_u32 g) { return (cx_u32)((cx_u64)cx_mix(g) * p->world >> 32); }

CX_FN int cx_contributes(const cx_pattern *p, cx_u32 rank, cx_u32 g) {
	if (p->summands == p->world) return 1;
	cx_u32 at = rank + p->world - cx_first(p, g);
	return (at >= p->world ? at - p->world : at) < p->summands;
}

// The bits of ±1.fraction · 2^exponent.
CX_FN cx_word cx_compose(const cx_pattern *p, cx_u32 negative, int exponent, cx_word fraction) {
	return (cx_word)negative << (8 * p->size - 1) | (cx_word)(cx_u32)(exponent + p->bias) << p->mantissa | fraction;
}

// The bits of k·2^s, which is exact and normal. |k| is at most 2^24, for double
// 2^30, so that k is exact as a float (double), which gives exponent and fraction.
CX_FN cx_word cx_encode(const cx_pattern *p, int k, int s) {
	cx_word v;
	if (sizeof(cx_word) == 8 && p->size == 8) {
		union { double f; cx_u64 u; } w;
		w.f = (double)k;
		v = cx_compose(p, k < 0, (int)(w.u >> 52 & 0x7ff) - 1023 + s, (cx_word)(w.u & 0xfffffffffffffull));
	} else {
		union { float f; cx_u32 u; } w;
		w.f = (float)k;
		v = cx_compose(p, k < 0, (int)(w.u >> 23 & 0xff) - 127 + s, (w.u & 0x7fffff) >> (23 - p->mantissa));
	}
	return k == 0 ? 0 : v;
}

// The signed k of a floating sum, mulsum or avg.
CX_FN int cx_summand(const cx_pattern *p, cx_u32 h) {
	int k = (int)(1 + (h & p->mask));
	return h >> 31 ? -k : k;
}

CX_FN int cx_exponent(const cx_pattern *p, cx_u32 g) { return p->exponent + (int)(g & p->wiggle); }

// The exponent of a floating prod; its sign is bit 31.
CX_FN int cx_power(cx_u32 h) { return (int)(h & 1) - (int)(h >> 1 & 1); }

CX_FN cx_word cx_finite(const cx_pattern *p, cx_word raw) {
	cx_word ones = ((cx_word)1 << (8 * p->size - 1 - p->mantissa)) - 1, e = raw >> p->mantissa & ones;
	cx_word step = (cx_word)1 << p->mantissa;
	return e == 0 ? raw | step : e == ones ? raw & ~step : raw;
}

// Whether the operation is a floating avg over a world that is not a power of two: only one
// rank contributes, and 1/world is rounded.
CX_FN int cx_inexact(const cx_pattern *p) { return p->redop == CX_AVG && p->mantissa && p->avg_shift < 0; }

// An element of rank's input, for the hash h of rank and index and the shared hash g.
CX_FN cx_word cx_element(const cx_pattern *p, cx_u32 rank, cx_u32 h, cx_u32 g) {
	if (p->redop == CX_COPY) return cx_raw(p, h);
	if (!p->mantissa) {
		if (p->redop == CX_AVG) return cx_contributes(p, rank, g) ? h & p->mask : 0;
		return p->redop == CX_PROD ? cx_raw(p, h) | 1 : cx_raw(p, h);
	}
	if (p->redop == CX_MIN || p->redop == CX_MAX) return cx_finite(p, cx_raw(p, h));
	int in = cx_contributes(p, rank, g);
	if (p->redop == CX_PROD) return in ? cx_compose(p, h >> 31, cx_power(h), 0) : cx_compose(p, 0, 0, 0);
	if (!in) return 0;
	if (cx_inexact(p)) return cx_compose(p, h >> 31, p->exponent + (int)(h & p->mask), 0);
	return cx_encode(p, cx_summand(p, h), cx_exponent(p, g));
}

// Element i of rank's input.
CX_FN cx_word cx_value(const cx_pattern *p, cx_u32 rank, cx_u64 i) {
	return cx_element(p, rank, cx_hash(cx_key(p, rank), i), cx_hash(cx_key(p, CX_SHARED), i));
}

// Maps the bits of an element to a number that rises with its value.
CX_FN cx_word cx_order(const cx_pattern *p, cx_word v) {
	cx_word sign = (cx_word)1 << (8 * p->size - 1);
	if (!p->mantissa) return p->is_signed ? v ^ sign : v;
	return v & sign ? sign - (v & ~sign) : v | sign;
}

// A reduction under way. Ranks may come in any order.
typedef struct {
	cx_word bits; // integers, min and max: the result so far; otherwise the bits of the only rank
	int sum;     // of summands, or of exponents of a prod
	cx_u32 negative;
} cx_acc;

CX_FN cx_acc cx_begin(const cx_pattern *p) {
	cx_acc a;
	a.bits = p->redop == CX_PROD ? 1 : 0;
	a.sum = 0;
	a.negative = 0;
	return a;
}

// Adds rank's element to the reduction. first is 1 for the first element added.
CX_FN void cx_add(const cx_pattern *p, cx_acc *a, cx_u32 rank, cx_u32 h, cx_u32 g, int first) {
	if (p->redop == CX_MIN || p->redop == CX_MAX) {
		cx_word v = cx_element(p, rank, h, g);
		int less = cx_order(p, v) < cx_order(p, a->bits);
		if (first || less == (p->redop == CX_MIN)) a->bits = v;
		return;
	}
	if (!p->mantissa && p->redop != CX_AVG) {
		cx_word v = cx_element(p, rank, h, g);
		if (p->redop == CX_PROD)
			a->bits *= v;
		else
			a->bits += p->redop == CX_MULSUM ? v << (rank & 1) : v;
		return;
	}
	if (!cx_contributes(p, rank, g)) return;
	if (!p->mantissa) {
		a->bits += h & p->mask;
	} else if (p->redop == CX_PROD) {
		a->sum += cx_power(h);
		a->negative ^= h >> 31;
	} else if (cx_inexact(p)) {
		a->bits = cx_compose(p, h >> 31, p->exponent + (int)(h & p->mask) + p->inverse_exponent, (cx_word)p->inverse_mantissa);
	} else {
		int k = cx_summand(p, h);
		a->sum += p->redop == CX_MULSUM ? k * (int)(1 + (rank & 1)) : k;
	}
}

CX_FN cx_word cx_end(const cx_pattern *p, const cx_acc *a, cx_u32 g) {
	if (p->redop == CX_MIN || p->redop == CX_MAX || cx_inexact(p)) return a->bits;
	if (!p->mantissa) return p->redop == CX_AVG ? a->bits / p->world : cx_truncate(p, a->bits);
	if (p->redop == CX_PROD) return cx_compose(p, a->negative, a->sum, 0);
	return cx_encode(p, a->sum, cx_exponent(p, g) - (p->redop == CX_AVG ? p->avg_shift : 0));
}

// Element i of the reduction over all ranks. It skips ranks that do not contribute.
CX_FN cx_word cx_expected(const cx_pattern *p, cx_u64 i) {
	cx_u32 g = cx_hash(cx_key(p, CX_SHARED), i);
	cx_u32 rank = p->summands < p->world ? cx_first(p, g) : 0;
	cx_acc a = cx_begin(p);
	for (cx_u32 n = 0; n < p->summands; n++) {
		cx_add(p, &a, rank, cx_hash(cx_key(p, rank), i), g, n == 0);
		if (++rank == p->world) rank = 0;
	}
	return cx_end(p, &a, g);
}

// Element i of a region's source: a rank, or CX_ALL_RANKS.
CX_FN cx_word cx_at(const cx_pattern *p, int source, cx_u64 i) {
	return source == CX_ALL_RANKS ? cx_expected(p, i) : cx_value(p, (cx_u32)source, i);
}

// Whether got is a correct result if want is expected.
CX_FN int cx_matches(const cx_pattern *p, cx_word got, cx_word want) {
	if (got == want) return 1;
	if (!cx_inexact(p)) return 0;
	cx_word x = cx_order(p, got), y = cx_order(p, want);
	return (x < y ? y - x : x - y) <= 1;
}

#endif
