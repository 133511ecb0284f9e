// Conversion of received fp8 rows to bf16, which the library leaves to its caller.

struct alignas(16) cx_eight {
	cx_u32 word[4]; // two bf16 values each
};

// cx_ep_convert converts received rows to bf16: code times scale, one scale for 128 columns. All
// three arrays have blocks with room for capacity rows each. counts holds the number of rows in each
// block.
extern "C" __global__ void cx_ep_convert(const cx_u64 *codes, const float *scales, const cx_i32 *counts, cx_eight *out, cx_i32 blocks,
                                         cx_i32 capacity, cx_i32 hidden)
{
	cx_i32 vectors = hidden / 8;
	cx_i64 at = blockIdx.x; // index into the rows of this block and the following ones
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
