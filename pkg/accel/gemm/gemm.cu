// Matrix products C [m, n] = A [m, k] times the transpose of B [n, k], by rows, and their
// data.

// A block computes a tile of CX_TILE x CX_TILE elements at a time, in steps of CX_DEPTH along k. Each of
// its 256 threads has CX_SIDE x CX_SIDE of them. A row of a step in shared memory is padded, so that
// threads which store a column do not meet in one bank.
#define CX_TILE 64
#define CX_DEPTH 16
#define CX_SIDE 4
#define CX_ROW (CX_TILE + 4)
#define CX_THREADS 256

__device__ __forceinline__ float cx_load(const void *at, cx_u64 i, int type)
{
	if (type == CX_BFLOAT16)
		return cx_from_bf16(((const cx_u16 *)at)[i]);
	if (type == CX_HALF)
		return cx_decode(cx_fp16(), ((const cx_u16 *)at)[i]);
	return ((const float *)at)[i];
}

__device__ __forceinline__ cx_u32 cx_element(float x, int type)
{
	if (type == CX_BFLOAT16)
		return cx_to_bf16(x);
	if (type == CX_HALF)
		return cx_encode(cx_fp16(), x);
	return cx_bits(x);
}

__device__ __forceinline__ cx_u32 cx_raw(const void *at, cx_u64 i, int type)
{
	if (type != CX_FLOAT)
		return ((const cx_u16 *)at)[i];
	return ((const cx_u32 *)at)[i];
}

__device__ __forceinline__ void cx_store(void *at, cx_u64 i, cx_u32 bits, int type)
{
	if (type != CX_FLOAT)
		((cx_u16 *)at)[i] = (cx_u16)bits;
	else
		((cx_u32 *)at)[i] = bits;
}

extern "C" __global__ void __launch_bounds__(CX_THREADS) cx_gemm(const void *a, const void *b, void *c, cx_u64 m, cx_u64 n, cx_u64 k, int type)
{
	__shared__ float left[CX_DEPTH][CX_ROW];
	__shared__ float right[CX_DEPTH][CX_ROW];
	cx_u64 across = (n + CX_TILE - 1) / CX_TILE, tiles = (m + CX_TILE - 1) / CX_TILE * across;
	int row = threadIdx.x / (CX_TILE / CX_SIDE) * CX_SIDE, column = threadIdx.x % (CX_TILE / CX_SIDE) * CX_SIDE;
	for (cx_u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		cx_u64 top = tile / across * CX_TILE, first = tile % across * CX_TILE;
		float sum[CX_SIDE][CX_SIDE] = {};
		for (cx_u64 from = 0; from < k; from += CX_DEPTH) {
			for (int e = threadIdx.x; e < CX_TILE * CX_DEPTH; e += CX_THREADS) {
				int line = e / CX_DEPTH, step = e % CX_DEPTH;
				cx_u64 i = top + line, j = first + line, at = from + step;
				left[step][line] = i < m && at < k ? cx_load(a, i * k + at, type) : 0;
				right[step][line] = j < n && at < k ? cx_load(b, j * k + at, type) : 0;
			}
			__syncthreads();
			for (int step = 0; step < CX_DEPTH; step++)
				for (int i = 0; i < CX_SIDE; i++)
					for (int j = 0; j < CX_SIDE; j++)
						sum[i][j] += left[step][row + i] * right[step][column + j];
			__syncthreads();
		}
		for (int i = 0; i < CX_SIDE; i++)
			for (int j = 0; j < CX_SIDE; j++)
				if (top + row + i < m && first + column + j < n)
					cx_store(c, (top + row + i) * n + first + column + j, cx_element(sum[i][j], type), type);
	}
}

extern "C" __global__ void cx_gemm_fill(void *at, int type, cx_u32 seed, int right, cx_u64 columns, cx_u64 first, cx_u64 count)
{
	for (cx_u64 i = cx_first(); i < count; i += cx_step()) {
		cx_u64 row = (first + i) / columns, column = (first + i) % columns;
		cx_store(at, i, cx_element((float)cx_value(type, seed, right, columns, row, column), type), type);
	}
}

// Adds wrong elements to verdict[0], and lowers verdict[1] to the first of them.
__device__ __forceinline__ void cx_report(cx_u64 *verdict, cx_u64 wrong, cx_u64 first)
{
	if (wrong == 0)
		return;
	atomicAdd(&verdict[0], wrong);
	atomicMin(&verdict[1], first);
}

extern "C" __global__ void cx_gemm_check(const void *at, int type, cx_u32 seed, int right, cx_u64 columns, cx_u64 first, cx_u64 count, cx_u64 *verdict)
{
	cx_u64 wrong = 0, where = ~(cx_u64)0;
	for (cx_u64 i = cx_first(); i < count; i += cx_step()) {
		cx_u64 row = (first + i) / columns, column = (first + i) % columns;
		if (cx_raw(at, i, type) == cx_element((float)cx_value(type, seed, right, columns, row, column), type))
			continue;
		wrong++;
		if (i < where)
			where = i;
	}
	cx_report(verdict, wrong, where);
}

// Computes the product of the matrices of two seeds in whole numbers, and compares it with
// count matrices that lie stride bytes apart. It shares nothing with cx_gemm, whose mistakes it
// has to find.
extern "C" __global__ void __launch_bounds__(CX_THREADS) cx_gemm_check_products(const char *c, cx_u64 stride, int count, cx_u64 m, cx_u64 n, cx_u64 k,
                                                                             cx_u32 a, cx_u32 b, int type, cx_u64 *verdict)
{
	__shared__ int left[CX_DEPTH][CX_ROW];
	__shared__ int right[CX_DEPTH][CX_ROW];
	cx_u64 wrong = 0, where = ~(cx_u64)0;
	cx_u64 across = (n + CX_TILE - 1) / CX_TILE, tiles = (m + CX_TILE - 1) / CX_TILE * across;
	int row = threadIdx.x / (CX_TILE / CX_SIDE) * CX_SIDE, column = threadIdx.x % (CX_TILE / CX_SIDE) * CX_SIDE;
	for (cx_u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		cx_u64 top = tile / across * CX_TILE, first = tile % across * CX_TILE;
		int sum[CX_SIDE][CX_SIDE] = {};
		for (cx_u64 from = 0; from < k; from += CX_DEPTH) {
			for (int e = threadIdx.x; e < CX_TILE * CX_DEPTH; e += CX_THREADS) {
				int line = e / CX_DEPTH, step = e % CX_DEPTH;
				cx_u64 at = from + step;
				left[step][line] = at < k ? cx_value(type, a, 0, k, top + line, at) : 0;
				right[step][line] = at < k ? cx_value(type, b, 1, k, first + line, at) : 0;
			}
			__syncthreads();
			for (int step = 0; step < CX_DEPTH; step++)
				for (int i = 0; i < CX_SIDE; i++)
					for (int j = 0; j < CX_SIDE; j++)
						sum[i][j] += left[step][row + i] * right[step][column + j];
			__syncthreads();
		}
		for (int i = 0; i < CX_SIDE; i++)
			for (int j = 0; j < CX_SIDE; j++) {
				if (top + row + i >= m || first + column + j >= n)
					continue;
				cx_u64 at = (top + row + i) * n + first + column + j;
				cx_u32 want = cx_element((float)sum[i][j], type);
				for (int of = 0; of < count; of++) {
					if (cx_raw(c + of * stride, at, type) == want)
						continue;
					wrong++;
					if (at < where)
						where = at;
				}
			}
	}
	cx_report(verdict, wrong, where);
}
