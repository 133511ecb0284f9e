
// The gather. C is the maximum number of tokens of any rank, G = W·C; padding tokens have no
// experts.

// cx_begins writes the start offset of each of n parts of the given sizes, followed by their
// sum. All threads of a block call it, with n up to CX_MAX_LOCAL.
static __device__ void cx_begins(const cx_i32 *sizes, cx_i32 n, cx_i32 *begin)
{
	cx_i32 share = (n + (cx_i32)blockDim.x - 1) / (cx_i32)blockDim.x, sum = 0, total;
	cx_i32 first = (cx_i32)threadIdx.x * share, end = first + share < n ? first + share : n;
	for (cx_i32 i = first; i < end; i++)
		sum += sizes[i];
	cx_i32 at = cx_scan(sum, &total);
	for (cx_i32 i = first; i < end; i++) {
		begin[i] = at;
		at += sizes[i];
	}
	if (threadIdx.x == 0)
		begin[n] = total;
	__syncthreads();
}

// Expert ids of a gathered token. A token's row holds its values, its scales, its expert ids and its
// weights, in this order.
static __device__ __forceinline__ const cx_i32 *cx_ids(const cx_case &c, const cx_u8 *gathered, cx_i64 g)
{
	return (const cx_i32 *)(gathered + (g + 1) * c.row_bytes) - 2 * c.topk;
}

// cx_gather_pack writes this rank's tokens where the gather sends them from.
extern "C" __global__ void cx_gather_pack(cx_case c, const cx_vec *x, const cx_i64 *expert, const float *weight, cx_u8 *own, cx_i32 tokens,
                                          cx_i32 capacity)
{
	__shared__ float amax[CX_MAX_VECTORS];
	cx_i32 vectors = c.hidden / 8;
	for (cx_i32 t = blockIdx.x; t < capacity; t += gridDim.x) {
		cx_u8 *row = own + (cx_i64)t * c.row_bytes;
		cx_i32 *ids = (cx_i32 *)(row + c.row_bytes) - 2 * c.topk;
		for (cx_i32 k = threadIdx.x; k < c.topk; k += blockDim.x) {
			ids[k] = t < tokens ? (cx_i32)expert[(cx_i64)t * c.topk + k] : -1;
			((float *)ids)[c.topk + k] = t < tokens ? weight[(cx_i64)t * c.topk + k] : 0;
		}
		if (t >= tokens)
			continue;
		const cx_vec *source = x + (cx_i64)t * vectors;
		if (c.fp8)
			cx_block_max(source, vectors, amax);
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			if (!c.fp8) {
				((cx_vec *)row)[i] = source[i];
				continue;
			}
			float scale;
			((cx_u64 *)row)[i] = cx_cast(c, source[i], amax, i, &scale);
			if (i % 16 == 0)
				((float *)(row + c.value_bytes))[i / 16] = scale;
		}
	}
}

// cx_gather_layout numbers the rows of each local expert, one block per expert: row [G][K] gets
// the row's index within its expert, or −1 where another rank hosts the expert; counts gets the
// rows per expert.
extern "C" __global__ void cx_gather_layout(cx_case c, const cx_u8 *gathered, cx_i32 *row, cx_i32 *counts, cx_i32 slots)
{
	cx_i32 begin = c.me * c.per_rank, mine = begin + (cx_i32)blockIdx.x, total, n = 0;
	cx_i32 share = (slots + (cx_i32)blockDim.x - 1) / (cx_i32)blockDim.x;
	cx_i32 first = (cx_i32)threadIdx.x * share, end = first + share < slots ? first + share : slots;
	for (cx_i32 s = first; s < end; s++)
		n += cx_ids(c, gathered, s / c.topk)[s % c.topk] == mine;
	cx_i32 at = cx_scan(n, &total);
	for (cx_i32 s = first; s < end; s++) {
		cx_i32 e = cx_ids(c, gathered, s / c.topk)[s % c.topk];
		if (e == mine)
			row[s] = at++;
		else if (blockIdx.x == 0 && (e < begin || e >= begin + c.per_rank))
			row[s] = -1;
	}
	if (threadIdx.x == 0)
		counts[blockIdx.x] = total;
}

// cx_gather_expand writes each token once for each of its local experts, grouped by expert.
extern "C" __global__ void cx_gather_expand(cx_case c, const cx_u8 *gathered, const cx_i32 *row, const cx_i32 *counts, cx_rows out,
                                            cx_i32 tokens)
{
	__shared__ cx_i32 begin[CX_MAX_LOCAL + 1];
	cx_begins(counts, c.per_rank, begin);
	for (cx_i64 g = blockIdx.x; g < tokens; g += gridDim.x) {
		const cx_u8 *from = gathered + g * c.row_bytes;
		const cx_i32 *ids = cx_ids(c, gathered, g);
		for (cx_i32 k = 0; k < c.topk; k++) {
			cx_i32 r = row[g * c.topk + k];
			if (r < 0)
				continue;
			cx_i64 at = r + begin[ids[k] - c.me * c.per_rank];
			cx_vec *values = (cx_vec *)(out.values + at * c.value_bytes);
			for (cx_i32 i = threadIdx.x; i < c.value_bytes / 16; i += blockDim.x)
				values[i] = ((const cx_vec *)from)[i];
			cx_u32 *scales = (cx_u32 *)(out.beside + at * c.scale_bytes);
			for (cx_i32 i = threadIdx.x; i < c.scale_bytes / 4; i += blockDim.x)
				scales[i] = ((const cx_u32 *)(from + c.value_bytes))[i];
		}
	}
}

// cx_gather_convert makes bf16 rows of all that arrived.
extern "C" __global__ void cx_gather_convert(cx_case c, cx_rows from, cx_vec *out, const cx_i32 *counts)
{
	__shared__ cx_i32 begin[CX_MAX_LOCAL + 1];
	cx_begins(counts, c.per_rank, begin);
	cx_decode_all(c, from, c.scale_bytes, out, begin[c.per_rank]);
}

// cx_gather_weigh sums weight times row over the local experts of each token, in the order of its
// slots, in float32.
extern "C" __global__ void cx_gather_weigh(cx_case c, const cx_u8 *gathered, const cx_i32 *row, const cx_i32 *counts, const cx_vec *staged,
                                           float *part, cx_i32 tokens)
{
	__shared__ cx_i32 begin[CX_MAX_LOCAL + 1];
	cx_begins(counts, c.per_rank, begin);
	cx_i32 vectors = c.hidden / 8;
	for (cx_i64 g = blockIdx.x; g < tokens; g += gridDim.x) {
		const cx_i32 *ids = cx_ids(c, gathered, g), *rows = row + g * c.topk;
		const float *weights = (const float *)ids + c.topk;
		bool any = false;
		for (cx_i32 k = 0; k < c.topk; k++)
			any = any || rows[k] >= 0;
		if (!any)
			continue; // no rank reads its sum
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			float sum[8] = {0};
			for (cx_i32 k = 0; k < c.topk; k++) {
				if (rows[k] < 0)
					continue;
				cx_vec v = staged[(rows[k] + (cx_i64)begin[ids[k] - c.me * c.per_rank]) * vectors + i];
				for (int j = 0; j < 8; j++)
					sum[j] += weights[k] * cx_lane(v, j);
			}
			cx_vec *to = (cx_vec *)(part + (g * vectors + i) * 8);
			for (int j = 0; j < 8; j++)
				to[j / 4].word[j % 4] = cx_bits(sum[j]);
		}
	}
}

// cx_gather_sum adds the partial sums of each token in rank order: back [W][C] holds the sums of
// the other ranks, own the sums of this rank.
extern "C" __global__ void cx_gather_sum(cx_case c, const cx_i64 *expert, const float *back, const float *own, cx_vec *out, cx_i32 tokens,
                                         cx_i32 capacity)
{
	__shared__ const float *from[CX_MAX_RANKS];
	cx_i32 vectors = c.hidden / 8;
	for (cx_i32 t = blockIdx.x; t < tokens; t += gridDim.x) {
		__syncthreads();
		for (cx_i32 r = threadIdx.x; r < c.world; r += blockDim.x)
			from[r] = 0;
		__syncthreads();
		for (cx_i32 k = threadIdx.x; k < c.topk; k += blockDim.x) {
			cx_i32 e = (cx_i32)expert[(cx_i64)t * c.topk + k], r = e / c.per_rank;
			if (e >= 0)
				from[r] = r == c.me ? own + (cx_i64)t * c.hidden : back + ((cx_i64)r * capacity + t) * c.hidden;
		}
		__syncthreads();
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			float sum[8] = {0};
			for (cx_i32 r = 0; r < c.world; r++) {
				if (!from[r])
					continue;
				const cx_vec *v = (const cx_vec *)(from[r] + (cx_i64)i * 8);
				for (int j = 0; j < 8; j++)
					sum[j] += cx_float(v[j / 4].word[j % 4]);
			}
			out[(cx_i64)t * vectors + i] = cx_round(sum);
		}
	}
}
