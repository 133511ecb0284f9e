struct alignas(16) cx_pair {
	cx_u64 a, b;
};

// Copies words of 8 bytes, in pairs if alignment and length allow.
extern "C" __global__ void cx_copy(cx_u64 *__restrict__ dst, const cx_u64 *__restrict__ src, cx_u64 words)
{
	if ((((cx_u64)dst | (cx_u64)src | words * 8) & 15) != 0) {
		for (cx_u64 i = cx_first(); i < words; i += cx_step())
			dst[i] = src[i];
		return;
	}
	cx_pair *to = (cx_pair *)dst;
	const cx_pair *from = (const cx_pair *)src;
	for (cx_u64 i = cx_first(); i < words / 2; i += cx_step())
		to[i] = from[i];
}
