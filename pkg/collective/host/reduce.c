// Reductions and copies of the host communicator. A tile that fits into the first level cache is
// reduced there over all ranks, then written to every destination: each input is read once from
// memory, and each output written once.
//
// Types of 8 and 16 bits are reduced in float and rounded once.

#include "reduce.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "../../numeric/numeric.h"

#define TILE 1024 // elements

// Converts a small float of MANT stored fraction bits and exponent bias BIAS: its bits, placed in a
// float, are scaled by a power of two, which a multiplication undoes. TOP is the smallest magnitude
// that is not finite.
static inline float widen(uint32_t v, int bits, int mant, int bias, uint32_t top) {
	uint32_t magnitude = v & ((1u << (bits - 1)) - 1);
	float f = float_of(magnitude << (23 - mant)) * float_of((uint32_t)(254 - bias) << 23);
	uint32_t special = 0x7f800000u | ((magnitude - top) << (23 - mant));
	uint32_t u = magnitude >= top ? special : bits_of(f);
	return float_of(u | (v >> (bits - 1)) << 31);
}

// Rounds to nearest even. LIMIT is the largest finite magnitude; floats of at least OVER become
// ABOVE; a NaN becomes NAN.
static inline uint32_t narrow(float x, int bits, int mant, int bias, uint32_t over, uint32_t above, uint32_t nan) {
	uint32_t u = bits_of(x), magnitude = u & 0x7fffffffu;
	// Below the smallest normal number, adding this makes the sum's last bit the smallest subnormal,
	// so that the addition rounds.
	uint32_t magic = (uint32_t)(23 - mant + 1 - bias + 127) << 23;
	uint32_t subnormal = bits_of(float_of(magnitude) + float_of(magic)) - magic;
	uint32_t rounded = magnitude + ((1u << (22 - mant)) - 1) + (magnitude >> (23 - mant) & 1);
	uint32_t normal = (rounded >> (23 - mant)) - ((uint32_t)(127 - bias) << mant);
	uint32_t v = magnitude < (uint32_t)(128 - bias) << 23 ? subnormal : normal;
	v = magnitude >= over ? above : v;
	v = magnitude > 0x7f800000u ? nan : v;
	return v | (u >> 31) << (bits - 1);
}

static inline float from_half(uint16_t v) { return widen(v, 16, 10, 15, 0x7c00); }
static inline uint16_t to_half(float x) { return (uint16_t)narrow(x, 16, 10, 15, 0x477ff000u, 0x7c00, 0x7fff); }

// 448 is 0x7e; values from half a step above it round up to 0x7f, which is NaN.
static inline float from_f8e4m3(uint8_t v) {
	float f = widen(v, 8, 3, 7, 0x80);
	return (v & 0x7f) == 0x7f ? float_of(0x7fc00000u) : f;
}
static inline uint8_t to_f8e4m3(float x) { return (uint8_t)narrow(x, 8, 3, 7, 0x43e00000u, 0x7e, 0x7f); }

static inline float from_f8e5m2(uint8_t v) { return widen(v, 8, 2, 15, 0x7c); }
static inline uint8_t to_f8e5m2(float x) { return (uint8_t)narrow(x, 8, 2, 15, 0x47600000u, 0x7b, 0x7f); }

#define SAME(x) (x)

// LOOPS makes the three steps of a tile for one type. IN is the type in memory, ACC the accumulator
// type, NUM the type of sums and products (unsigned, so that they wrap).
//   first  acc = a op b       next  acc = acc op b       finish  out = acc
#define STEP(EXPR) for (int64_t i = 0; i < n; i++) { EXPR; } break
#define LOOPS(NAME, IN, ACC, NUM, LOAD, STORE)                                                                       \
	CLONES static void first_##NAME(int redop, ACC *restrict acc, const IN *restrict a, const IN *restrict b, int64_t n, \
	                                double sa, double sb) {                                                          \
		NUM xa = (NUM)sa, xb = (NUM)sb;                                                                              \
		switch (redop) {                                                                                             \
		case RED_PROD: STEP(acc[i] = (ACC)((NUM)LOAD(a[i]) * (NUM)LOAD(b[i])));                                       \
		case RED_MAX: STEP(acc[i] = LOAD(a[i]) > LOAD(b[i]) ? LOAD(a[i]) : LOAD(b[i]));                               \
		case RED_MIN: STEP(acc[i] = LOAD(a[i]) < LOAD(b[i]) ? LOAD(a[i]) : LOAD(b[i]));                               \
		case RED_MULSUM: STEP(acc[i] = (ACC)((NUM)LOAD(a[i]) * xa + (NUM)LOAD(b[i]) * xb));                           \
		default: STEP(acc[i] = (ACC)((NUM)LOAD(a[i]) + (NUM)LOAD(b[i])));                                             \
		}                                                                                                            \
	}                                                                                                                \
	CLONES static void next_##NAME(int redop, ACC *restrict acc, const IN *restrict b, int64_t n, double sb) {        \
		NUM xb = (NUM)sb;                                                                                            \
		switch (redop) {                                                                                             \
		case RED_PROD: STEP(acc[i] = (ACC)((NUM)acc[i] * (NUM)LOAD(b[i])));                                           \
		case RED_MAX: STEP(acc[i] = acc[i] > LOAD(b[i]) ? acc[i] : LOAD(b[i]));                                       \
		case RED_MIN: STEP(acc[i] = acc[i] < LOAD(b[i]) ? acc[i] : LOAD(b[i]));                                       \
		case RED_MULSUM: STEP(acc[i] = (ACC)((NUM)acc[i] + (NUM)LOAD(b[i]) * xb));                                    \
		default: STEP(acc[i] = (ACC)((NUM)acc[i] + (NUM)LOAD(b[i])));                                                 \
		}                                                                                                            \
	}                                                                                                                \
	CLONES static void finish_##NAME(int redop, IN *restrict out, const ACC *restrict acc, int64_t n, int world) {    \
		if (redop == RED_AVG)                                                                                        \
			for (int64_t i = 0; i < n; i++) out[i] = STORE((ACC)(acc[i] / (ACC)world));                               \
		else                                                                                                         \
			for (int64_t i = 0; i < n; i++) out[i] = STORE(acc[i]);                                                   \
	}                                                                                                                \
	static const void *tile_##NAME(int redop, const void *const *s, const double *x, int world, int64_t at, int64_t n, \
	                               void *work, void *out) {                                                          \
		const IN *a = (const IN *)s[0] + at;                                                                         \
		if (world == 1 && redop != RED_MULSUM) return a;                                                             \
		if (world == 1) {                                                                                            \
			static const IN zeros[TILE];                                                                             \
			first_##NAME(redop, work, a, zeros, n, x[0], 0);                                                          \
		} else {                                                                                                     \
			first_##NAME(redop, work, a, (const IN *)s[1] + at, n, x[0], x[1]);                                       \
		}                                                                                                            \
		for (int r = 2; r < world; r++) next_##NAME(redop, work, (const IN *)s[r] + at, n, x[r]);                     \
		if (sizeof(IN) == sizeof(ACC) && redop != RED_AVG) return work;                                              \
		finish_##NAME(redop, out, work, n, world);                                                                   \
		return out;                                                                                                  \
	}

LOOPS(int8, int8_t, int8_t, uint32_t, SAME, SAME)
LOOPS(uint8, uint8_t, uint8_t, uint32_t, SAME, SAME)
LOOPS(int32, int32_t, int32_t, uint32_t, SAME, SAME)
LOOPS(uint32, uint32_t, uint32_t, uint32_t, SAME, SAME)
LOOPS(int64, int64_t, int64_t, uint64_t, SAME, SAME)
LOOPS(uint64, uint64_t, uint64_t, uint64_t, SAME, SAME)
LOOPS(half, uint16_t, float, float, from_half, to_half)
LOOPS(float, float, float, float, SAME, SAME)
LOOPS(double, double, double, double, SAME, SAME)
LOOPS(bfloat16, uint16_t, float, float, from_bfloat16, to_bfloat16)
LOOPS(f8e4m3, uint8_t, float, float, from_f8e4m3, to_f8e4m3)
LOOPS(f8e5m2, uint8_t, float, float, from_f8e5m2, to_f8e5m2)

// Returns n reduced elements from element at on: in work, in out or, if there is nothing to do, in
// the source.
typedef const void *(*tile_fn)(int redop, const void *const *s, const double *x, int world, int64_t at, int64_t n, void *work, void *out);

static const struct {
	size_t size;
	tile_fn tile;
} types[] = {
	[T_INT8] = {1, tile_int8},         [T_UINT8] = {1, tile_uint8},   [T_INT32] = {4, tile_int32},
	[T_UINT32] = {4, tile_uint32},     [T_INT64] = {8, tile_int64},   [T_UINT64] = {8, tile_uint64},
	[T_HALF] = {2, tile_half},         [T_FLOAT] = {4, tile_float},   [T_DOUBLE] = {8, tile_double},
	[T_BFLOAT16] = {2, tile_bfloat16}, [T_F8E4M3] = {1, tile_f8e4m3}, [T_F8E5M2] = {1, tile_f8e5m2},
};

size_t cx_type_size(int type) { return types[type].size; }

#if defined(__x86_64__)
void cx_drain(void) { _mm_sfence(); }

// Copies with stores that bypass the caches.
static void stream_copy(void *destination, const void *source, int64_t bytes) {
	char *d = destination;
	const char *s = source;
	int64_t head = (int64_t)(-(uintptr_t)d & 15);
	if (head > bytes) head = bytes;
	memcpy(d, s, (size_t)head);
	int64_t i = head;
	for (; i + 64 <= bytes; i += 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)(s + i)), b = _mm_loadu_si128((const __m128i *)(s + i + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(s + i + 32)), e = _mm_loadu_si128((const __m128i *)(s + i + 48));
		_mm_stream_si128((__m128i *)(d + i), a);
		_mm_stream_si128((__m128i *)(d + i + 16), b);
		_mm_stream_si128((__m128i *)(d + i + 32), c);
		_mm_stream_si128((__m128i *)(d + i + 48), e);
	}
	memcpy(d + i, s + i, (size_t)(bytes - i));
}
#else
void cx_drain(void) {}
static void stream_copy(void *d, const void *s, int64_t bytes) { memcpy(d, s, (size_t)bytes); }
#endif

static void put(const void *source, int64_t bytes, void *const *destinations, int64_t at, int nd, int stream) {
	for (int i = 0; i < nd; i++) {
		char *d = (char *)destinations[i] + at;
		if (d == source) continue;
		if (stream)
			stream_copy(d, source, bytes);
		else
			memcpy(d, source, (size_t)bytes);
	}
}

void cx_reduce(int type, int redop, const void *const *sources, const double *scalars, int world, int64_t n,
               void *const *destinations, int nd, int stream) {
	_Alignas(64) char work[TILE * 8], out[TILE * 8];
	int64_t size = (int64_t)types[type].size;
	for (int64_t at = 0; at < n; at += TILE) {
		int64_t k = n - at < TILE ? n - at : TILE;
		const void *tile = types[type].tile(redop, sources, scalars, world, at, k, work, out);
		put(tile, k * size, destinations, at * size, nd, stream);
	}
}

void cx_multicast(const void *source, int64_t bytes, void *const *destinations, int nd, int stream) {
	const int64_t step = 8 * TILE;
	for (int64_t at = 0; at < bytes; at += step)
		put((const char *)source + at, bytes - at < step ? bytes - at : step, destinations, at, nd, stream);
}
