// Computes on all multiprocessors without accessing memory, so that only work on the same
// multiprocessors slows it down. There is one block per multiprocessor, which leaves room for
// blocks of other kernels. Blocks take units of work dynamically, so a slower block takes fewer.
#define CX_VICTIM_THREADS 512
#define CX_VICTIM_CHAINS 8
#define CX_VICTIM_STEPS 128

// state[0] counts units that were taken, one in excess for each block, and state[1] adds up
// what they computed. The factor and the step are 1, which the compiler does not know. A block
// asks for its next unit before it computes, so that it never waits for memory.
extern "C" __global__ void __launch_bounds__(CX_VICTIM_THREADS) cx_victim(cx_u64 *state, cx_u64 units, float factor, float step)
{
	__shared__ cx_u64 taken[2];
	__shared__ cx_u64 sums[CX_VICTIM_THREADS];
	cx_u64 sum = 0;
	if (threadIdx.x == 0)
		taken[0] = atomicAdd(&state[0], (cx_u64)1);
	__syncthreads();
	for (int turn = 0;; turn ^= 1) {
		cx_u64 unit = taken[turn], next = 0;
		if (unit >= units)
			break;
		if (threadIdx.x == 0)
			next = atomicAdd(&state[0], (cx_u64)1);
		float x[CX_VICTIM_CHAINS];
		for (int i = 0; i < CX_VICTIM_CHAINS; i++)
			x[i] = (float)(int)((unit & 1023) + i);
		for (int n = 0; n < CX_VICTIM_STEPS; n++)
			for (int i = 0; i < CX_VICTIM_CHAINS; i++)
				x[i] = x[i] * factor + step;
		for (int i = 0; i < CX_VICTIM_CHAINS; i++)
			sum += (cx_u64)(int)x[i];
		if (threadIdx.x == 0)
			taken[turn ^ 1] = next;
		__syncthreads();
	}
	sums[threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	sum = 0;
	for (int t = 0; t < CX_VICTIM_THREADS; t++)
		sum += sums[t];
	atomicAdd(&state[1], sum);
}
