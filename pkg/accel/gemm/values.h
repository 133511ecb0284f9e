// The elements of matrices, in C for hosts and devices; Values in gemm.go defines them. CUDA, HIP and
// C compilers accept it unchanged. Include hash.h first.
#ifndef CX_GEMM_VALUES_H
#define CX_GEMM_VALUES_H

// Element types, with the values of package numeric.
enum { CX_HALF = 6, CX_FLOAT = 7, CX_BFLOAT16 = 9 };

// CX_PERIOD is the distance between possible columns of wide elements.
enum { CX_PERIOD = 16 };

// cx_wide returns the wide element of a row, and sets *column to its column. It returns 0 for a right
// matrix with one column, which has no wide elements.
CX_FN int cx_wide(int type, cx_u32 seed, int right, cx_u64 columns, cx_u64 row, cx_u64 *column) {
	int bits = type == CX_FLOAT ? 24 : type == CX_HALF ? 11 : 8;
	int top = 1 << (bits - 1), scale = type == CX_FLOAT ? 1 : 16;
	cx_u32 places = (cx_u32)((columns + CX_PERIOD - 1 - right) / CX_PERIOD), h = cx_hash(seed, ~row);
	if (places == 0)
		return 0;
	*column = (cx_u64)(h % places) * CX_PERIOD + right;
	return (top | (int)(cx_mix(h) & (top / 2 - 1)) | !right) * scale;
}

// cx_value returns the element in a row and column of a matrix.
CX_FN int cx_value(int type, cx_u32 seed, int right, cx_u64 columns, cx_u64 row, cx_u64 column) {
	int place = (int)(column % CX_PERIOD);
	if (place == !right)
		return right ? 1 : -1;
	if (place == right) {
		cx_u64 at = 0;
		int wide = cx_wide(type, seed, right, columns, row, &at);
		if (wide && at == column)
			return wide;
	}
	cx_u32 h = cx_hash(seed, row * columns + column);
	int magnitude = 1 + (int)(h >> 30 & 1);
	return h >> 31 ? -magnitude : magnitude;
}

#endif
