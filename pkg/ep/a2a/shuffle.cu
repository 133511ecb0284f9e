// The kernels around the operations of both modes. W is the world size, K top-k, H the
// hidden size; a row is moved 16 bytes at a time.

struct alignas(16) cx_vec {
	cx_u32 word[4];
};

enum { CX_MAX_TOPK = 32, CX_MAX_RANKS = 1024, CX_MAX_LOCAL = 1024, CX_MAX_VECTORS = 2048, CX_MAX_THREADS = 1024 };

// The parameters of a case, passed to all kernels.
struct cx_case {
	cx_i32 world, me, hidden, topk, per_rank, domain;
	cx_i32 value_bytes, scale_bytes; // of a dispatched row
	cx_i32 beside_bytes;             // of the metadata sent with a row of the shuffle
	cx_i32 row_bytes;                // of a token of the gather
	cx_i32 fp8, fnuz;                // whether rows are cast, and whether to the fnuz variant of e4m3
	float max;                       // largest value of the fp8 format
};

// cx_scan returns the sum of mine over the preceding threads of the block, and writes the
// total. All threads call it.
static __device__ cx_i32 cx_scan(cx_i32 mine, cx_i32 *total)
{
	__shared__ cx_i32 sums[CX_MAX_THREADS];
	cx_u32 at = threadIdx.x;
	sums[at] = mine;
	__syncthreads();
	for (cx_u32 step = 1; step < blockDim.x; step *= 2) {
		cx_i32 before = at >= step ? sums[at - step] : 0;
		__syncthreads();
		sums[at] += before;
		__syncthreads();
	}
	*total = sums[blockDim.x - 1];
	return sums[at] - mine;
}

static __device__ __forceinline__ cx_format cx_format_of(const cx_case &c) { return c.fnuz ? cx_e4m3fnuz() : cx_e4m3fn(); }

static __device__ __forceinline__ float cx_lane(const cx_vec &v, int i) { return cx_from_bf16((cx_u16)(v.word[i / 2] >> 16 * (i % 2))); }

static __device__ __forceinline__ cx_vec cx_round(const float *lanes)
{
	cx_vec v;
	for (int j = 0; j < 4; j++)
		v.word[j] = (cx_u32)cx_to_bf16(lanes[2 * j]) | (cx_u32)cx_to_bf16(lanes[2 * j + 1]) << 16;
	return v;
}

// cx_block_max writes the largest magnitude of each vector of a row. All threads of a
// block call it.
static __device__ void cx_block_max(const cx_vec *row, cx_i32 vectors, float *amax)
{
	__syncthreads();
	for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
		cx_vec v = row[i];
		float most = 0;
		for (int j = 0; j < 8; j++) {
			float magnitude = cx_float(cx_bits(cx_lane(v, j)) & 0x7fffffffu);
			most = magnitude > most ? magnitude : most;
		}
		amax[i] = most;
	}
	__syncthreads();
}

// cx_cast casts vector i of a row and returns the scale of its block of 128 columns, computed
// from a maximum magnitude of at least 1e-4.
static __device__ cx_u64 cx_cast(const cx_case &c, const cx_vec &v, const float *amax, cx_i32 i, float *scale)
{
	cx_i32 vectors = c.hidden / 8, first = i / 16 * 16, end = first + 16 < vectors ? first + 16 : vectors;
	float most = 1e-4f;
	for (cx_i32 j = first; j < end; j++)
		most = amax[j] > most ? amax[j] : most;
	float factor = c.max / most;
	*scale = most / c.max;
	cx_u64 codes = 0;
	for (int j = 0; j < 8; j++)
		codes |= (cx_u64)cx_encode(cx_format_of(c), cx_lane(v, j) * factor) << 8 * j;
	return codes;
}

// Rows: their values, and their metadata in separate rows.
struct cx_rows {
	cx_u8 *values;
	cx_u8 *beside;
};

// cx_decode_all converts all fp8 rows to bf16.
static __device__ void cx_decode_all(const cx_case &c, cx_rows from, cx_i32 beside_bytes, cx_vec *out, cx_i64 rows)
{
	cx_i64 vectors = c.hidden / 8;
	for (cx_i64 at = (cx_i64)cx_first(); at < rows * vectors; at += (cx_i64)cx_step()) {
		cx_i64 row = at / vectors, i = at % vectors;
		cx_u64 codes = ((const cx_u64 *)(from.values + row * c.value_bytes))[i];
		float scale = ((const float *)(from.beside + row * beside_bytes))[i / 16], lanes[8];
		for (int j = 0; j < 8; j++)
			lanes[j] = cx_decode(cx_format_of(c), (cx_u32)(codes >> 8 * j) & 0xff) * scale;
		out[at] = cx_round(lanes);
	}
}

// The shuffle.

// The number of int32 words that a rank sends another ahead of its rows: the row count, then
// the count for each expert.
static __device__ __forceinline__ cx_i64 cx_told(const cx_case &c) { return 1 + c.per_rank; }

// cx_layout decides which tokens go to which rank, one block per rank. place [tokens][W] gets the
// token's row index among the rows for that rank, or −1; told [W] gets the counts to send. A
// block reads the expert ids of a tile of tokens in memory order, because dispatch waits for
// this kernel.
extern "C" __global__ void cx_layout(cx_case c, const cx_i64 *expert, cx_i32 tokens, cx_i32 *place, cx_i32 *told)
{
	enum { READS = 4 }; // loads in flight per thread
	__shared__ cx_u32 load[CX_MAX_LOCAL];
	__shared__ cx_u8 goes[CX_MAX_THREADS];
	cx_i64 rank = blockIdx.x;
	cx_i32 me = (cx_i32)threadIdx.x, threads = (cx_i32)blockDim.x, rows = 0;
	for (cx_i32 e = me; e < c.per_rank; e += threads)
		load[e] = 0;
	for (cx_i32 first = 0; first < tokens; first += threads) {
		cx_i32 n = tokens - first < threads ? tokens - first : threads, slots = n * c.topk, total;
		const cx_i64 *ids = expert + (cx_i64)first * c.topk;
		goes[me] = 0;
		__syncthreads();
		for (cx_i32 begin = me; begin < slots; begin += READS * threads) {
			cx_i64 local[READS];
			for (int j = 0; j < READS; j++) {
				cx_i32 slot = begin + j * threads;
				local[j] = slot < slots ? ids[slot] - rank * c.per_rank : -1;
			}
			for (int j = 0; j < READS; j++)
				if (local[j] >= 0 && local[j] < c.per_rank) {
					goes[(begin + j * threads) / c.topk] = 1;
					atomicAdd(&load[local[j]], 1u);
				}
		}
		__syncthreads();
		cx_i32 row = rows + cx_scan(goes[me], &total);
		if (me < n)
			place[(cx_i64)(first + me) * c.world + rank] = goes[me] ? row : -1;
		rows += total;
	}
	__syncthreads();
	cx_i32 *mine = told + rank * cx_told(c);
	if (me == 0)
		mine[0] = rows;
	for (cx_i32 e = me; e < c.per_rank; e += threads)
		mine[1 + e] = (cx_i32)load[e];
}

// cx_begins_of writes where the rows for each rank begin among the rows that leave, in rank
// order without this rank.
static __device__ void cx_begins_of(const cx_case &c, const cx_i32 *told, cx_i32 *begin)
{
	if (threadIdx.x == 0)
		for (cx_i32 r = 0, sum = 0; r < c.world; r++) {
			begin[r] = sum;
			if (r != c.me)
				sum += told[r * cx_told(c)];
		}
	__syncthreads();
}

// Whether no slot before k of a token names the rank of slot k.
static __device__ bool cx_first_of_rank(const cx_i64 *expert, int k, cx_i32 per_rank)
{
	cx_i64 begin = (cx_i32)expert[k] / per_rank * (cx_i64)per_rank;
	for (int i = 0; i < k; i++)
		if (expert[i] >= begin && expert[i] < begin + per_rank)
			return false;
	return true;
}

// Which rows a cx_pack writes.
enum { CX_LEAVE = 1, CX_STAY = 2 };

// cx_pack writes each token once for each rank that hosts one of its experts: rows for other
// ranks into send, rows for this rank into own. Each row's metadata holds its scales, the K
// expert ids (−1 where another rank hosts the expert) and their weights.
extern "C" __global__ void __launch_bounds__(CX_MAX_THREADS) cx_pack(cx_case c, const cx_vec *x, const cx_i64 *expert, const float *weight, const cx_i32 *place,
                                   const cx_i32 *told, cx_rows send, cx_rows own, cx_i32 tokens, cx_i32 which)
{
	__shared__ cx_i32 begin[CX_MAX_RANKS];
	__shared__ cx_u8 *to[CX_MAX_TOPK], *beside[CX_MAX_TOPK];
	__shared__ cx_i64 ranks[CX_MAX_TOPK];
	__shared__ float amax[CX_MAX_VECTORS];
	cx_begins_of(c, told, begin);
	cx_i32 vectors = c.hidden / 8;
	for (cx_i32 t = blockIdx.x; t < tokens; t += gridDim.x) {
		const cx_i64 *experts = expert + (cx_i64)t * c.topk;
		const cx_vec *source = x + (cx_i64)t * vectors;
		__syncthreads();
		for (cx_i32 k = threadIdx.x; k < c.topk; k += blockDim.x) {
			to[k] = 0;
			if (experts[k] < 0 || !cx_first_of_rank(experts, k, c.per_rank))
				continue;
			cx_i64 r = (cx_i32)experts[k] / c.per_rank;
			bool stays = r == c.me;
			if (!(which & (stays ? CX_STAY : CX_LEAVE)))
				continue;
			cx_i64 row = place[(cx_i64)t * c.world + r] + (stays ? 0 : begin[r]);
			ranks[k] = r;
			to[k] = (stays ? own : send).values + row * c.value_bytes;
			beside[k] = (stays ? own : send).beside + row * c.beside_bytes;
		}
		if (c.fp8)
			cx_block_max(source, vectors, amax);
		__syncthreads();
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			cx_vec v = source[i];
			float scale = 0;
			cx_u64 codes = c.fp8 ? cx_cast(c, v, amax, i, &scale) : 0;
			for (cx_i32 k = 0; k < c.topk; k++) {
				if (!to[k])
					continue;
				if (!c.fp8) {
					((cx_vec *)to[k])[i] = v;
					continue;
				}
				((cx_u64 *)to[k])[i] = codes;
				if (i % 16 == 0)
					((float *)beside[k])[i / 16] = scale;
			}
		}
		for (cx_i32 i = threadIdx.x; i < c.topk * c.topk; i += blockDim.x) {
			cx_i32 k = i / c.topk, slot = i % c.topk;
			if (!to[k])
				continue;
			bool there = experts[slot] >= 0 && (cx_i32)experts[slot] / c.per_rank == ranks[k];
			cx_i32 *ids = (cx_i32 *)(beside[k] + c.scale_bytes);
			ids[slot] = there ? (cx_i32)experts[slot] : -1;
			((float *)ids)[c.topk + slot] = there ? weight[(cx_i64)t * c.topk + slot] : 0;
		}
	}
}

// cx_convert converts all received rows to bf16.
extern "C" __global__ void cx_convert(cx_case c, cx_rows from, cx_vec *out, cx_i64 rows)
{
	cx_decode_all(c, from, c.beside_bytes, out, rows);
}

// cx_sum sums the rows that came back for each token: within a scale-up domain in float32,
// rounded to bf16, then over domains in float32. back holds rows of other ranks in the order
// in which they were sent, own the rows of this rank.
extern "C" __global__ void cx_sum(cx_case c, const cx_i32 *place, const cx_i32 *told, const cx_vec *back, const cx_vec *own, cx_vec *out,
                                  cx_i32 tokens)
{
	__shared__ cx_i32 begin[CX_MAX_RANKS];
	__shared__ const cx_vec *from[CX_MAX_RANKS];
	cx_begins_of(c, told, begin);
	cx_i32 vectors = c.hidden / 8;
	for (cx_i32 t = blockIdx.x; t < tokens; t += gridDim.x) {
		__syncthreads();
		for (cx_i32 r = threadIdx.x; r < c.world; r += blockDim.x) {
			cx_i64 row = place[(cx_i64)t * c.world + r];
			from[r] = row < 0 ? 0 : (r == c.me ? own : back + (cx_i64)begin[r] * vectors) + row * vectors;
		}
		__syncthreads();
		for (cx_i32 i = threadIdx.x; i < vectors; i += blockDim.x) {
			float total[8] = {0}, inside[8] = {0};
			for (cx_i32 r = 0; r < c.world; r++) {
				if (from[r]) {
					cx_vec v = from[r][i];
					for (int j = 0; j < 8; j++)
						inside[j] += cx_lane(v, j);
				}
				if (r + 1 == c.world || (r + 1) % c.domain == 0)
					for (int j = 0; j < 8; j++) {
						total[j] += cx_from_bf16(cx_to_bf16(inside[j]));
						inside[j] = 0;
					}
			}
			out[(cx_i64)t * vectors + i] = cx_round(total);
		}
	}
}
