// Matrix products on a processor; see gemm.go for the values.
#ifndef CX_GEMM_LOOP_H
#define CX_GEMM_LOOP_H

#include <stdint.h>

// Element types, with the values of package numeric.
enum { CX_HALF = 6, CX_FLOAT = 7, CX_BFLOAT16 = 9 };

typedef struct {
	int64_t m, n, k;
} cx_gemm_shape;

typedef struct {
	int64_t checked, wrong, first;
} cx_gemm_verdict;

// cx_gemm_multiply computes c = a times the transpose of b, of floats.
void cx_gemm_multiply(cx_gemm_shape s, const float *a, const float *b, float *c);

// cx_gemm_fill writes elements first to first+count of a matrix of a type.
void cx_gemm_fill(int type, void *at, uint32_t seed, int64_t first, int64_t count);

// cx_gemm_check compares these elements with what cx_gemm_fill writes.
void cx_gemm_check(int type, const void *at, uint32_t seed, int64_t first, int64_t count, cx_gemm_verdict *v);

// cx_gemm_check_products compares n matrices, stride bytes apart, with the product of the matrices of seeds a and b, which
// it computes in integers. It returns 0, or −1 if it is out of memory.
int cx_gemm_check_products(int type, const void *c, int64_t stride, int n, cx_gemm_shape s, uint32_t a, uint32_t b, cx_gemm_verdict *v);

#endif
