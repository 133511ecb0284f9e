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

// Reads one word of src after another, each 16 words behind the one before, and writes it to its place in dst. Words count up
// by one, so that the place of a word follows from its value, and no read begins before the one before it has ended. words
// is a power of two, so that no value leads outside.
extern "C" __global__ void cx_chase(cx_u64 *__restrict__ dst, const cx_u64 *__restrict__ src, cx_u64 words)
{
	if (cx_first() != 0)
		return;
	cx_u64 word = src[0];
	cx_u32 mask = (cx_u32)words - 1, further = 16 - (cx_u32)word;
	dst[0] = word;
	for (cx_u32 n = 16; n <= mask; n += 16) {
		cx_u32 at = ((cx_u32)word + further) & mask;
		word = src[at];
		dst[at] = word;
	}
}
