// What the library leaves to the experts: bf16 rows of fp8 ones.

struct alignas(16) cx_eight {
	cx_u32 word[4]; // two bf16 values each
};

// cx_ep_convert makes bf16 rows of those that arrived, code times scale. All three arrays
// have blocks with room for capacity rows each; counts says how many there are. A scale is
// that of 128 columns.
extern "C" __global__ void cx_ep_convert(const cx_u64 *codes, const float *scales, const cx_i32 *counts, cx_eight *out, cx_i32 blocks,
                                         cx_i32 capacity, cx_i32 hidden)
{
	cx_i32 vectors = hidden / 8;
	cx_i64 at = blockIdx.x; // of the rows of this block and those behind it
	for (cx_i32 b = 0; b < blocks; b++) {
		for (; at < counts[b]; at += gridDim.x) {
			cx_i64 first = ((cx_i64)b * capacity + at) * vectors;
			for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
				cx_u64 eight = codes[first + i];
				float scale = scales[(first + i) / 16];
				cx_eight values = {{0, 0, 0, 0}};
				for (int j = 0; j < 8; j++) {
					float v = cx_decode(cx_e4m3fn(), (cx_u32)(eight >> 8 * j) & 0xff) * scale;
					values.word[j / 2] |= (cx_u32)cx_to_bf16(v) << 16 * (j % 2);
				}
				out[first + i] = values;
			}
		}
		at -= counts[b];
	}
}
