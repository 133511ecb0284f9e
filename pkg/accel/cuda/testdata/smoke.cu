// Kernels that show that compiling, loading and launching work on a device.

// out[i] = in[i] * scale + (first + i), modulo 2^32; the number of elements is
// added to *count, one block at a time.
extern "C" __global__ void cx_smoke(const cx_u32 *in, cx_u32 *out, cx_u64 *count, cx_u64 n, cx_u32 scale, cx_u8 first)
{
	__shared__ cx_u32 seen[1024];
	cx_u32 mine = 0;
	for (cx_u64 i = cx_first(); i < n; i += cx_step(), mine++)
		out[i] = in[i] * scale + first + (cx_u32)i;
	seen[threadIdx.x] = mine;
	__syncthreads();
	for (cx_u32 half = blockDim.x / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			seen[threadIdx.x] += seen[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		atomicAdd(count, (cx_u64)seen[0]);
}

// Encodes x[i] in every format, 32 bits each: bf16, fp16, e4m3fn, e4m3fnuz, e5m2.
extern "C" __global__ void cx_smoke_encode(const float *x, cx_u32 *codes, cx_u64 n)
{
	for (cx_u64 i = cx_first(); i < n; i += cx_step()) {
		codes[5 * i] = cx_to_bf16(x[i]);
		codes[5 * i + 1] = cx_encode(cx_fp16(), x[i]);
		codes[5 * i + 2] = cx_encode(cx_e4m3fn(), x[i]);
		codes[5 * i + 3] = cx_encode(cx_e4m3fnuz(), x[i]);
		codes[5 * i + 4] = cx_encode(cx_e5m2(), x[i]);
	}
}

// Decodes code i (modulo the size of the format) in every format, as bits.
extern "C" __global__ void cx_smoke_decode(cx_u32 *bits, cx_u64 n)
{
	for (cx_u64 i = cx_first(); i < n; i += cx_step()) {
		bits[5 * i] = cx_bits(cx_from_bf16((cx_u16)i));
		bits[5 * i + 1] = cx_bits(cx_decode(cx_fp16(), (cx_u32)i & 0xffff));
		bits[5 * i + 2] = cx_bits(cx_decode(cx_e4m3fn(), (cx_u32)i & 0xff));
		bits[5 * i + 3] = cx_bits(cx_decode(cx_e4m3fnuz(), (cx_u32)i & 0xff));
		bits[5 * i + 4] = cx_bits(cx_decode(cx_e5m2(), (cx_u32)i & 0xff));
	}
}
