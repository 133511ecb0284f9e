#include "loop.h"

#include <stdlib.h>
#include <string.h>

#include "../../workload/hash.h"
#include "values.h"

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

static int value(const cx_gemm_values *v, int64_t row, int64_t column)
{
	return cx_value(v->type, v->seed, v->right, (cx_u64)v->columns, (cx_u64)row, (cx_u64)column);
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

static void cx_store(int type, void *at, int64_t i, uint32_t bits)
{
	if (type != CX_FLOAT)
		((uint16_t *)at)[i] = (uint16_t)bits;
	else
		((uint32_t *)at)[i] = bits;
}

void cx_gemm_fill(cx_gemm_values v, void *at, int64_t first, int64_t count)
{
	int64_t row = first / v.columns, column = first % v.columns;
	for (int64_t i = 0; i < count; i++) {
		cx_store(v.type, at, i, cx_encode(v.type, value(&v, row, column)));
		if (++column == v.columns) {
			column = 0;
			row++;
		}
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

void cx_gemm_check(cx_gemm_values v, const void *at, int64_t first, int64_t count, cx_gemm_verdict *verdict)
{
	int64_t row = first / v.columns, column = first % v.columns;
	for (int64_t i = 0; i < count; i++) {
		cx_compare(verdict, cx_load(v.type, at, i), cx_encode(v.type, value(&v, row, column)), i);
		if (++column == v.columns) {
			column = 0;
			row++;
		}
	}
}

// The wide element of a row, and its column. It is 0 in column 0 for a row without one.
typedef struct {
	int32_t value;
	int64_t column;
} wide;

// cx_row writes the elements of a row to to, with 0 in the place of the wide one, which it returns.
static wide cx_row(int8_t *to, const cx_gemm_values *v, int64_t row)
{
	cx_u64 column = 0;
	int32_t found = cx_wide(v->type, v->seed, v->right, (cx_u64)v->columns, (cx_u64)row, &column);
	for (int64_t k = 0; k < v->columns; k++)
		to[k] = found && k == (int64_t)column ? 0 : (int8_t)value(v, row, k);
	return (wide){found, (int64_t)column};
}

int cx_gemm_check_products(const void *c, int64_t stride, int n, cx_gemm_shape s, cx_gemm_values a, cx_gemm_values b, cx_gemm_verdict *verdict)
{
	int8_t *left = malloc((size_t)s.k), *right = malloc((size_t)(s.n * s.k));
	wide *wides = malloc((size_t)s.n * sizeof *wides);
	int short_of_memory = left == NULL || right == NULL || wides == NULL;
	for (int64_t j = 0; j < s.n && !short_of_memory; j++)
		wides[j] = cx_row(right + j * s.k, &b, j);
	for (int64_t i = 0; i < s.m && !short_of_memory; i++) {
		wide x = cx_row(left, &a, i);
		for (int64_t j = 0; j < s.n; j++) {
			const int8_t *y = right + j * s.k;
			int32_t sum = x.value * y[x.column] + left[wides[j].column] * wides[j].value;
			for (int64_t k = 0; k < s.k; k++)
				sum += left[k] * y[k];
			uint32_t want = cx_encode(a.type, sum);
			for (int at = 0; at < n; at++)
				cx_compare(verdict, cx_load(a.type, (const char *)c + at * stride, i * s.n + j), want, i * s.n + j);
		}
	}
	free(left);
	free(right);
	free(wides);
	return short_of_memory ? -1 : 0;
}
