// Paints a pool and finds its wrong words. A word has 8 bytes.

// cx_pool_paint writes base + i to each of count words.
extern "C" __global__ void cx_pool_paint(cx_u64 *words, cx_u64 base, cx_u64 count)
{
	for (cx_u64 i = cx_first(); i < count; i += cx_step())
		words[i] = base + i;
}

// count ascending words from word at on. The first must equal want.
struct cx_stretch {
	cx_u64 at, count, want;
};

// cx_pool_check sets wrong[k] if stretch k of the n stretches has a wrong word. A block of threads
// checks one stretch at a time.
extern "C" __global__ void cx_pool_check(const cx_u64 *words, const cx_stretch *stretches, cx_u64 n, cx_u8 *wrong)
{
	for (cx_u64 k = blockIdx.x; k < n; k += gridDim.x) {
		cx_stretch s = stretches[k];
		for (cx_u64 i = threadIdx.x; i < s.count; i += blockDim.x)
			if (words[s.at + i] != s.want + i)
				wrong[k] = 1;
	}
}
