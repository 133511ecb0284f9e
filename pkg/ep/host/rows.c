#include "rows.h"

#include "../../numeric/numeric.h"

// e4m3fn: 3 mantissa bits, bias 7, largest 448 (0x7e), NaN 0x7f.
static inline uint8_t to_e4m3(float x) {
	uint32_t u = bits_of(x), magnitude = u & 0x7fffffffu;
	// Below the smallest normal number the last bit of a sum with 2^14 is the smallest
	// subnormal, so that the addition rounds.
	uint32_t subnormal = bits_of(float_of(magnitude) + 0x1p14f) - 0x46800000u;
	uint32_t normal = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120u << 3);
	uint32_t v = magnitude < 0x3c800000u ? subnormal : normal;
	v = v > 0x7e ? 0x7e : v;
	uint32_t sign = u >> 24 & 0x80;
	return magnitude > 0x7f800000u ? 0x7f : (uint8_t)(v | sign);
}

static inline float from_e4m3(uint8_t v) {
	// The code as the bits of a float is 2^-120 of its value.
	float f = float_of((uint32_t)(v & 0x7f) << 20) * 0x1p120f;
	uint32_t u = (v & 0x7f) == 0x7f ? 0x7fc00000u : bits_of(f);
	return float_of(u | (uint32_t)(v & 0x80) << 24);
}

CLONES static void encode(uint8_t *restrict codes, const uint16_t *restrict row, int64_t n, float factor) {
	for (int64_t i = 0; i < n; i++) codes[i] = to_e4m3(from_bfloat16(row[i]) * factor);
}

CLONES static uint32_t largest(const uint16_t *restrict row, int64_t n) {
	uint32_t most = 0; // magnitudes of bf16 are in the order of their bits
	for (int64_t i = 0; i < n; i++) {
		uint32_t v = row[i] & 0x7fff;
		most = v > most ? v : most;
	}
	return most;
}

void cx_row_encode(uint8_t *codes, float *scales, const uint16_t *row, int64_t n, int64_t block, float least) {
	if (block == 0) {
		encode(codes, row, n, 1);
		return;
	}
	for (int64_t at = 0; at < n; at += block) {
		int64_t len = n - at < block ? n - at : block;
		float amax = from_bfloat16((uint16_t)largest(row + at, len));
		amax = amax > least ? amax : least;
		encode(codes + at, row + at, len, 448.0f / amax);
		scales[at / block] = amax / 448.0f;
	}
}

CLONES static void decode(uint16_t *restrict row, const uint8_t *restrict codes, int64_t n, float scale) {
	for (int64_t i = 0; i < n; i++) row[i] = to_bfloat16(from_e4m3(codes[i]) * scale);
}

void cx_row_decode(uint16_t *row, const uint8_t *codes, const float *scales, int64_t n, int64_t block) {
	if (block == 0) {
		decode(row, codes, n, 1);
		return;
	}
	for (int64_t at = 0; at < n; at += block)
		decode(row + at, codes + at, n - at < block ? n - at : block, scales[at / block]);
}

CLONES void cx_row_add(float *restrict sum, const uint16_t *restrict row, int64_t n) {
	for (int64_t i = 0; i < n; i++) sum[i] += from_bfloat16(row[i]);
}

CLONES void cx_row_add_weighted(float *restrict sum, const uint16_t *restrict row, float weight, int64_t n) {
	for (int64_t i = 0; i < n; i++) sum[i] += from_bfloat16(row[i]) * weight;
}

CLONES void cx_row_flush(float *restrict sum, float *restrict part, int64_t n) {
	for (int64_t i = 0; i < n; i++) {
		sum[i] += from_bfloat16(to_bfloat16(part[i]));
		part[i] = 0;
	}
}

CLONES void cx_row_add_rounded(float *restrict sum, const float *restrict part, int64_t n) {
	for (int64_t i = 0; i < n; i++) sum[i] = from_bfloat16(to_bfloat16(sum[i] + part[i]));
}

CLONES void cx_row_round(uint16_t *restrict row, const float *restrict sum, int64_t n) {
	for (int64_t i = 0; i < n; i++) row[i] = to_bfloat16(sum[i]);
}
