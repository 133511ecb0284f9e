// Matrix products on a processor.
#ifndef CX_GEMM_LOOP_H
#define CX_GEMM_LOOP_H

#include <stdint.h>

typedef struct {
	int64_t m, n, k;
} cx_gemm_shape;

typedef struct {
	int64_t checked, wrong, first;
} cx_gemm_verdict;

// cx_gemm_multiply computes c = a times the transpose of b, of floats.
void cx_gemm_multiply(cx_gemm_shape s, const float *a, const float *b, float *c);

// The values of a matrix; see Values in gemm.go.
typedef struct {
	int type, right;
	uint32_t seed;
	int64_t columns;
} cx_gemm_values;

// cx_gemm_fill writes elements first to first+count of a matrix.
void cx_gemm_fill(cx_gemm_values v, void *at, int64_t first, int64_t count);

// cx_gemm_check compares these elements with what cx_gemm_fill writes.
void cx_gemm_check(cx_gemm_values v, const void *at, int64_t first, int64_t count, cx_gemm_verdict *verdict);

// cx_gemm_check_products compares n matrices, stride bytes apart, with the product of the matrices of a and b, which it
// computes in integers. It returns 0, or −1 if it is out of memory.
int cx_gemm_check_products(const void *c, int64_t stride, int n, cx_gemm_shape s, cx_gemm_values a, cx_gemm_values b, cx_gemm_verdict *verdict);

#endif
