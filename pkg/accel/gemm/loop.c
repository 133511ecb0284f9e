#include "loop.h"

#include <stdlib.h>
#include <string.h>

#include "../../workload/hash.h"

// cx_gemm_lanes is the number of partial sums of an element, which a processor adds at the same time.
// All sums are exact, so their order does not matter.
enum { cx_gemm_lanes = 16 };

void cx_gemm_multiply(cx_gemm_shape s, const float *a, const float *b, float *c)
{
	for (int64_t i = 0; i < s.m; i++)
		for (int64_t j = 0; j < s.n; j++) {
			const float *x = a + i * s.k, *y = b + j * s.k;
			float part[cx_gemm_lanes] = {0}, sum = 0;
			int64_t k = 0;
			for (; k + cx_gemm_lanes <= s.k; k += cx_gemm_lanes)
				for (int l = 0; l < cx_gemm_lanes; l++)
					part[l] += x[k + l] * y[k + l];
			for (; k < s.k; k++)
				sum += x[k] * y[k];
			for (int l = 0; l < cx_gemm_lanes; l++)
				sum += part[l];
			c[i * s.n + j] = sum;
		}
}

static int cx_value(uint32_t seed, int64_t i)
{
	cx_u32 h = cx_hash(seed, (cx_u64)i);
	int magnitude = 1 + (int)(h >> 30 & 1);
	return h >> 31 ? -magnitude : magnitude;
}

// cx_encode returns the bits of a whole number as an element, rounded to nearest even.
static uint32_t cx_encode(int type, int32_t value)
{
	float x = (float)value;
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	if (type == CX_BFLOAT16)
		return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	if (type == CX_HALF) {
		enum { exponents = 127 - 15, infinity = 0x7c00 };
		uint32_t sign = bits >> 31 << 15, magnitude = bits & 0x7fffffff, code;
		if (magnitude == 0) // else no less than 1, which is normal
			return sign;
		code = ((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - (exponents << 10);
		return sign | (code < infinity ? code : infinity);
	}
	return bits;
}

static uint32_t cx_load(int type, const void *at, int64_t i)
{
	if (type != CX_FLOAT)
		return ((const uint16_t *)at)[i];
	return ((const uint32_t *)at)[i];
}

void cx_gemm_fill(int type, void *at, uint32_t seed, int64_t first, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		uint32_t bits = cx_encode(type, cx_value(seed, first + i));
		if (type != CX_FLOAT)
			((uint16_t *)at)[i] = (uint16_t)bits;
		else
			((uint32_t *)at)[i] = bits;
	}
}

static void cx_compare(cx_gemm_verdict *v, uint32_t got, uint32_t want, int64_t i)
{
	v->checked++;
	if (got == want)
		return;
	if (v->wrong++ == 0)
		v->first = i;
}

void cx_gemm_check(int type, const void *at, uint32_t seed, int64_t first, int64_t count, cx_gemm_verdict *v)
{
	for (int64_t i = 0; i < count; i++)
		cx_compare(v, cx_load(type, at, i), cx_encode(type, cx_value(seed, first + i)), i);
}

int cx_gemm_check_products(int type, const void *c, int64_t stride, int n, cx_gemm_shape s, uint32_t a, uint32_t b, cx_gemm_verdict *v)
{
	int8_t *left = malloc((size_t)s.k), *right = malloc((size_t)(s.n * s.k));
	if (left == NULL || right == NULL) {
		free(left);
		free(right);
		return -1;
	}
	for (int64_t i = 0; i < s.n * s.k; i++)
		right[i] = (int8_t)cx_value(b, i);
	for (int64_t i = 0; i < s.m; i++) {
		for (int64_t k = 0; k < s.k; k++)
			left[k] = (int8_t)cx_value(a, i * s.k + k);
		for (int64_t j = 0; j < s.n; j++) {
			const int8_t *y = right + j * s.k;
			int32_t sum = 0;
			for (int64_t k = 0; k < s.k; k++)
				sum += left[k] * y[k];
			uint32_t want = cx_encode(type, sum);
			for (int at = 0; at < n; at++)
				cx_compare(v, cx_load(type, (const char *)c + at * stride, i * s.n + j), want, i * s.n + j);
		}
	}
	free(left);
	free(right);
	return 0;
}
