// Device work that a library leaves to its caller: casting rows before a dispatch, and converting
// received rows to bf16.

struct alignas(16) cx_eight {
	cx_u32 word[4]; // two bf16 values each
};

static __device__ __forceinline__ float cx_lane(const cx_eight &v, int j)
{
	return cx_from_bf16((cx_u16)(v.word[j / 2] >> 16 * (j % 2)));
}

static __device__ __forceinline__ cx_format cx_format_of(cx_i32 fnuz) { return fnuz ? cx_e4m3fnuz() : cx_e4m3fn(); }

#define CX_MAX_VECTORS 2048

// cx_py_cast casts bf16 rows to codes, with a scale for each 128 columns or, without scales,
// plainly. most is the largest value of the format.
extern "C" __global__ void cx_py_cast(const cx_eight *x, cx_u64 *codes, float *scales, cx_i32 rows, cx_i32 hidden, cx_i32 fnuz, float most)
{
	__shared__ float amax[CX_MAX_VECTORS];
	cx_i32 vectors = hidden / 8;
	for (cx_i32 row = blockIdx.x; row < rows; row += gridDim.x) {
		const cx_eight *from = x + (cx_i64)row * vectors;
		__syncthreads();
		for (cx_i32 i = threadIdx.x; scales && i < vectors; i += blockDim.x) {
			cx_eight v = from[i];
			float largest = 0;
			for (int j = 0; j < 8; j++) {
				float magnitude = cx_float(cx_bits(cx_lane(v, j)) & 0x7fffffffu);
				largest = magnitude > largest ? magnitude : largest;
			}
			amax[i] = largest;
		}
		__syncthreads();
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			cx_eight v = from[i];
			float factor = 1;
			if (scales) {
				cx_i32 first = i / 16 * 16;
				float largest = 1e-4f;
				for (cx_i32 j = first; j < first + 16 && j < vectors; j++)
					largest = amax[j] > largest ? amax[j] : largest;
				factor = most / largest;
				if (i == first)
					scales[(cx_i64)row * ((vectors + 15) / 16) + i / 16] = largest / most;
			}
			cx_u64 eight = 0;
			for (int j = 0; j < 8; j++)
				eight |= (cx_u64)cx_encode(cx_format_of(fnuz), cx_lane(v, j) * factor) << 8 * j;
			codes[(cx_i64)row * vectors + i] = eight;
		}
	}
}

// cx_arrived locates the rows of a dispatch: groups of capacity rows each.
struct cx_arrived {
	const void *values;
	const float *scales;  // 0: none
	const cx_i32 *counts; // rows of each group, from its first one on; 0: rows in all
	const cx_i32 *present; // topk ids of each row, all negative for an empty row; 0: no row is empty
	cx_i64 group_scales, row_scales, column_scales; // strides of scales, in floats
	cx_i32 groups, capacity, rows, topk, hidden, fp8, fnuz;
};

// cx_py_stage converts all received rows to bf16, at the same indices of out.
extern "C" __global__ void cx_py_stage(cx_arrived a, cx_eight *out)
{
	cx_i32 vectors = a.hidden / 8;
	cx_i64 at = blockIdx.x; // index into the rows of this group and the following ones
	for (cx_i32 g = 0; g < a.groups; g++) {
		cx_i32 count = a.counts ? a.counts[g] : a.rows;
		count = count < a.capacity ? count : a.capacity;
		for (; at < count; at += gridDim.x) {
			cx_i64 row = (cx_i64)g * a.capacity + at, first = row * vectors;
			bool there = !a.present;
			for (cx_i32 k = 0; k < a.topk && !there; k++)
				there = a.present[row * a.topk + k] >= 0;
			if (!there)
				continue;
			for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
				if (!a.fp8) {
					out[first + i] = ((const cx_eight *)a.values)[first + i];
					continue;
				}
				cx_u64 eight = ((const cx_u64 *)a.values)[first + i];
				float scale = a.scales ? a.scales[g * a.group_scales + at * a.row_scales + i / 16 * a.column_scales] : 1;
				cx_eight values = {{0, 0, 0, 0}};
				for (int j = 0; j < 8; j++) {
					float v = cx_decode(cx_format_of(a.fnuz), (cx_u32)(eight >> 8 * j) & 0xff) * scale;
					values.word[j / 2] |= (cx_u32)cx_to_bf16(v) << 16 * (j % 2);
				}
				out[first + i] = values;
			}
		}
		at -= count;
	}
}

// cx_py_scales copies the scales of all row slots, row after row. The library's memory may end with
// the rows that arrived.
extern "C" __global__ void cx_py_scales(cx_arrived a, float *out)
{
	cx_i32 columns = (a.hidden + 127) / 128;
	cx_u64 n = (cx_u64)a.groups * (a.groups == 1 && a.rows >= 0 ? a.rows : a.capacity) * columns;
	for (cx_u64 i = cx_first(); i < n; i += cx_step()) {
		cx_i64 row = i / columns, column = i % columns, g = row / a.capacity;
		out[i] = a.scales[g * a.group_scales + row % a.capacity * a.row_scales + column * a.column_scales];
	}
}
