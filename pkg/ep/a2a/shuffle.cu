// The kernels around the point-to-point operations of a token shuffle. W is the world
// size, K top-k, H the hidden size; a row of H values is moved 16 bytes at a time.

struct alignas(16) cx_vec {
	cx_u32 word[4];
};

enum { CX_MAX_TOPK = 32, CX_MAX_RANKS = 1024, CX_MAX_LOCAL = 1024, CX_MAX_VECTORS = 2048, CX_THREADS = 256 };

// cx_scan returns how much the threads of a block before this one have added, and
// writes the total. All threads call it.
static __device__ cx_i32 cx_scan(cx_i32 mine, cx_i32 *total)
{
	__shared__ cx_i32 sums[CX_THREADS];
	cx_u32 at = threadIdx.x;
	sums[at] = mine;
	__syncthreads();
	for (cx_u32 step = 1; step < CX_THREADS; step *= 2) {
		cx_i32 before = at >= step ? sums[at - step] : 0;
		__syncthreads();
		sums[at] += before;
		__syncthreads();
	}
	*total = sums[CX_THREADS - 1];
	return sums[at] - mine;
}

// Whether no slot before k of a token names the rank of slot k.
static __device__ bool cx_first_of_rank(const cx_i64 *expert, int k, int per_rank)
{
	cx_i64 rank = expert[k] / per_rank;
	for (int i = 0; i < k; i++)
		if (expert[i] >= 0 && expert[i] / per_rank == rank)
			return false;
	return true;
}

// cx_layout decides which tokens go to which rank, one block of CX_THREADS threads per
// rank. place [tokens][W] gets the row of a token among those of a rank, or −1; counts
// [W][1 + per_rank] the rows of a rank, then those of each of its experts.
extern "C" __global__ void cx_layout(const cx_i64 *expert, cx_i32 tokens, cx_i32 topk, cx_i32 per_rank, cx_i32 *place, cx_i32 *counts)
{
	__shared__ cx_u32 load[CX_MAX_LOCAL];
	cx_i64 rank = blockIdx.x, world = gridDim.x;
	for (cx_u32 e = threadIdx.x; e < (cx_u32)per_rank; e += CX_THREADS)
		load[e] = 0;
	__syncthreads();
	cx_i32 share = (tokens + CX_THREADS - 1) / CX_THREADS, rows = 0, total;
	cx_i32 first = (cx_i32)threadIdx.x * share, end = first + share < tokens ? first + share : tokens;
	for (cx_i32 t = first; t < end; t++) {
		bool goes = false;
		for (int k = 0; k < topk; k++) {
			cx_i64 local = expert[(cx_i64)t * topk + k] - rank * per_rank;
			if (local < 0 || local >= per_rank)
				continue;
			goes = true;
			atomicAdd(&load[local], 1u);
		}
		rows += goes;
	}
	cx_i32 row = cx_scan(rows, &total);
	for (cx_i32 t = first; t < end; t++) {
		bool goes = false;
		for (int k = 0; k < topk && !goes; k++)
			goes = expert[(cx_i64)t * topk + k] >= 0 && expert[(cx_i64)t * topk + k] / per_rank == rank;
		place[t * world + rank] = goes ? row++ : -1;
	}
	cx_i32 *mine = counts + rank * (1 + per_rank);
	if (threadIdx.x == 0)
		mine[0] = total;
	for (cx_u32 e = threadIdx.x; e < (cx_u32)per_rank; e += CX_THREADS)
		mine[1 + e] = (cx_i32)load[e];
}

// A block codec as the host has it: e4m3, one scale for 128 columns, at least 1e-4.
struct cx_codec {
	cx_i32 fp8; // 0: rows stay bf16
	cx_i32 fnuz;
	float max;
};

static __device__ __forceinline__ cx_format cx_format_of(cx_codec c) { return c.fnuz ? cx_e4m3fnuz() : cx_e4m3fn(); }

static __device__ __forceinline__ cx_u32 cx_half(const cx_vec *v, int i) { return v->word[i / 2] >> 16 * (i % 2) & 0xffff; }

// cx_block_max writes the largest magnitude of each vector of a row. All threads of a
// block call it.
static __device__ void cx_block_max(const cx_vec *row, cx_i32 vectors, float *amax)
{
	__syncthreads();
	for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
		cx_vec v = row[i];
		cx_u32 most = 0;
		for (int j = 0; j < 8; j++) {
			cx_u32 magnitude = cx_half(&v, j) & 0x7fff;
			most = magnitude > most ? magnitude : most;
		}
		amax[i] = cx_float(most << 16);
	}
	__syncthreads();
}

// cx_encode_vec casts vector i of a row and tells the scale of its block.
static __device__ cx_u64 cx_encode_vec(cx_codec c, cx_vec v, const float *amax, cx_i32 i, cx_i32 vectors, float *scale)
{
	cx_i32 first = i / 16 * 16, end = first + 16 < vectors ? first + 16 : vectors;
	float most = 1e-4f;
	for (cx_i32 j = first; j < end; j++)
		most = amax[j] > most ? amax[j] : most;
	float factor = c.max / most;
	*scale = most / c.max;
	cx_u64 codes = 0;
	for (int j = 0; j < 8; j++)
		codes |= (cx_u64)cx_encode(cx_format_of(c), cx_from_bf16((cx_u16)cx_half(&v, j)) * factor) << 8 * j;
	return codes;
}

// A row as it travels: values, then what stands beside them in a row of its own:
// float32 scales, and for a token-rank layout K expert ids (−1 elsewhere) and weights.
struct cx_rows {
	cx_u8 *values;
	cx_u8 *beside;
};

// cx_pack writes each token once for each rank that has one of its experts: into own,
// where that is this rank, else into send, which holds the rows of one rank behind
// those of another, in the order of ranks, those of this rank left out.
extern "C" __global__ void cx_pack(const cx_vec *x, const cx_i64 *expert, const float *weight, const cx_i32 *place, const cx_i32 *counts,
                                   cx_rows send, cx_rows own, cx_codec codec, cx_i32 tokens, cx_i32 hidden, cx_i32 topk, cx_i32 per_rank,
                                   cx_i32 world, cx_i32 me, cx_i32 beside_bytes)
{
	__shared__ cx_i32 begin[CX_MAX_RANKS];
	__shared__ cx_u8 *to[CX_MAX_TOPK], *beside[CX_MAX_TOPK];
	__shared__ cx_i64 ranks[CX_MAX_TOPK];
	__shared__ float amax[CX_MAX_VECTORS];
	if (threadIdx.x == 0)
		for (cx_i32 r = 0, sum = 0; r < world; r++) {
			begin[r] = sum;
			if (r != me)
				sum += counts[(cx_i64)r * (1 + per_rank)];
		}
	cx_i64 value_bytes = codec.fp8 ? hidden : 2 * (cx_i64)hidden;
	cx_i32 vectors = hidden / 8;
	for (cx_i32 t = blockIdx.x; t < tokens; t += gridDim.x) {
		const cx_i64 *experts = expert + (cx_i64)t * topk;
		__syncthreads();
		for (cx_i32 k = threadIdx.x; k < topk; k += blockDim.x) {
			to[k] = 0;
			if (experts[k] < 0 || !cx_first_of_rank(experts, k, per_rank))
				continue;
			cx_i64 r = experts[k] / per_rank;
			cx_i64 row = place[(cx_i64)t * world + r] + (r == me ? 0 : begin[r]);
			const cx_rows *rows = r == me ? &own : &send;
			ranks[k] = r;
			to[k] = rows->values + row * value_bytes;
			beside[k] = rows->beside + row * beside_bytes;
		}
		const cx_vec *source = x + (cx_i64)t * vectors;
		if (codec.fp8)
			cx_block_max(source, vectors, amax);
		__syncthreads();
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			cx_vec v = source[i];
			if (!codec.fp8) {
				for (cx_i32 k = 0; k < topk; k++)
					if (to[k])
						((cx_vec *)to[k])[i] = v;
				continue;
			}
			float scale;
			cx_u64 codes = cx_encode_vec(codec, v, amax, i, vectors, &scale);
			for (cx_i32 k = 0; k < topk; k++) {
				if (!to[k])
					continue;
				((cx_u64 *)to[k])[i] = codes;
				if (i % 16 == 0)
					((float *)beside[k])[i / 16] = scale;
			}
		}
		cx_i32 scales = codec.fp8 ? (hidden + 127) / 128 : 0;
		for (cx_i32 i = threadIdx.x; i < topk * topk; i += blockDim.x) {
			cx_i32 k = i / topk, slot = i % topk;
			if (!to[k])
				continue;
			bool there = experts[slot] >= 0 && experts[slot] / per_rank == ranks[k];
			cx_i32 *ids = (cx_i32 *)beside[k] + scales;
			ids[slot] = there ? (cx_i32)experts[slot] : -1;
			((float *)ids)[topk + slot] = there ? weight[(cx_i64)t * topk + slot] : 0;
		}
	}
}

// cx_decode_all makes bf16 rows of fp8 ones.
static __device__ void cx_decode_all(cx_rows from, cx_vec *out, cx_codec codec, cx_i64 rows, cx_i32 hidden, cx_i32 beside_bytes)
{
	cx_i64 vectors = hidden / 8;
	for (cx_i64 at = (cx_i64)cx_first(); at < rows * vectors; at += (cx_i64)cx_step()) {
		cx_i64 row = at / vectors, i = at % vectors;
		cx_u64 codes = ((const cx_u64 *)(from.values + row * hidden))[i];
		float scale = ((const float *)(from.beside + row * beside_bytes))[i / 16];
		cx_vec v;
		for (int j = 0; j < 4; j++) {
			cx_u32 low = cx_to_bf16(cx_decode(cx_format_of(codec), (cx_u32)(codes >> 16 * j) & 0xff) * scale);
			cx_u32 high = cx_to_bf16(cx_decode(cx_format_of(codec), (cx_u32)(codes >> (16 * j + 8)) & 0xff) * scale);
			v.word[j] = low | high << 16;
		}
		out[at] = v;
	}
}

extern "C" __global__ void cx_decode_rows(cx_rows from, cx_vec *out, cx_codec codec, cx_i64 rows, cx_i32 hidden, cx_i32 beside_bytes)
{
	cx_decode_all(from, out, codec, rows, hidden, beside_bytes);
}

// cx_sum adds what came back for each token: the rows of one scale-up domain in
// float32, their sum rounded to bf16, those of the domains in float32. back holds
// rows as cx_pack's send does; those of this rank stand in own.
extern "C" __global__ void cx_sum(const cx_i32 *place, const cx_i32 *counts, const cx_vec *back, const cx_vec *own, cx_vec *out,
                                  cx_i32 tokens, cx_i32 hidden, cx_i32 per_rank, cx_i32 world, cx_i32 me, cx_i32 domain)
{
	__shared__ cx_i32 begin[CX_MAX_RANKS];
	__shared__ const cx_vec *from[CX_MAX_RANKS];
	if (threadIdx.x == 0)
		for (cx_i32 r = 0, sum = 0; r < world; r++) {
			begin[r] = sum;
			if (r != me)
				sum += counts[(cx_i64)r * (1 + per_rank)];
		}
	cx_i32 vectors = hidden / 8;
	for (cx_i32 t = blockIdx.x; t < tokens; t += gridDim.x) {
		__syncthreads();
		for (cx_i32 r = threadIdx.x; r < world; r += blockDim.x) {
			cx_i64 row = place[(cx_i64)t * world + r];
			from[r] = row < 0 ? 0 : (r == me ? own : back + (cx_i64)begin[r] * vectors) + row * vectors;
		}
		__syncthreads();
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			float total[8] = {0}, inside[8] = {0};
			for (cx_i32 r = 0; r < world; r++) {
				if (from[r]) {
					cx_vec v = from[r][i];
					for (int j = 0; j < 8; j++)
						inside[j] += cx_from_bf16((cx_u16)cx_half(&v, j));
				}
				if (r + 1 == world || (r + 1) % domain == 0)
					for (int j = 0; j < 8; j++) {
						total[j] += cx_from_bf16(cx_to_bf16(inside[j]));
						inside[j] = 0;
					}
			}
			cx_vec v;
			for (int j = 0; j < 4; j++)
				v.word[j] = (cx_u32)cx_to_bf16(total[2 * j]) | (cx_u32)cx_to_bf16(total[2 * j + 1]) << 16;
			out[(cx_i64)t * vectors + i] = v;
		}
	}
}
