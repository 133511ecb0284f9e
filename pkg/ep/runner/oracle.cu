// Makes and judges the data of the EP oracle in device memory, bit for bit as the Go functions of
// packages runner and workload do. H is the hidden size, K top-k.

enum { CX_TILE = 1024, CX_PART = 8, CX_BLOCK = 128, CX_MAX_TOPK = 64 };

// How rows are coded: format 0 is bf16; block is one scale for each CX_BLOCK columns.
struct cx_codec {
	cx_i32 format, block;
	float max; // largest value of the format
};

// The activations of a side and what dispatch does to them.
struct cx_side {
	cx_u64 seed;
	cx_i32 scaled, hidden;
	cx_codec codec;
	cx_i32 unused;
};

// Rows at arbitrary addresses: the address of each row's values, and of its scales.
struct cx_rows {
	const cx_u64 *values, *scales;
	cx_codec codec;
	cx_i32 unused;
};

// A row that comes back for a token. part is the index of its rank among the token's ranks, or its
// slot; −1 is none. end marks the last term of a group; groups are summed first.
struct cx_term {
	float scale, a, b, weight;
	cx_i32 part, end;
};

// How combine adds the terms of a token.
struct cx_sum {
	cx_i32 topk, weighted, tree, rounds; // rounds: round the sum of each group to bf16
};

// The rows that come back; the first two as in Go.
enum { CX_RECEIVED, CX_TRANSFORMED, CX_CHOSEN };

// A chosen row: the index of its part and the number of parts of the token.
struct cx_choice {
	cx_u64 token;
	cx_i32 part, parts;
};

static __device__ __forceinline__ cx_u64 cx_double_bits(double x)
{
	union { double f; cx_u64 u; } v;
	v.f = x;
	return v.u;
}

static __device__ __forceinline__ double cx_double(cx_u64 bits)
{
	union { double f; cx_u64 u; } v;
	v.u = bits;
	return v.f;
}

static __device__ __forceinline__ double cx_magnitude(double x) { return cx_double(cx_double_bits(x) & ~(1ull << 63)); }

// Activations.

static __device__ __forceinline__ cx_u64 cx_split_mix(cx_u64 key, cx_u64 n)
{
	cx_u64 x = key + (n + 1) * 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// The value of column c in the activation row of a token, as FillActivation or FillScaled.
static __device__ cx_u16 cx_activation(const cx_side &s, cx_u32 token, cx_i32 c)
{
	if (c < 32)
		return token >> c & 1 ? 0x3f80 : 0xbf80;
	if (!s.scaled) {
		cx_u64 at = (131 * (cx_u64)token + 17 * (cx_u64)c + 19 * (s.seed % 257)) % 257;
		return cx_to_bf16((float)((int)at - 128) / 64);
	}
	cx_i32 at = c / CX_BLOCK * CX_BLOCK, end = at + CX_BLOCK < s.hidden ? at + CX_BLOCK : s.hidden;
	cx_u64 key = cx_split_mix(s.seed, token), h = cx_split_mix(key, (cx_u64)at);
	cx_i32 exponent = (cx_i32)(h % 13) - 6;
	if (at < 32 && exponent < 0)
		exponent = -exponent;
	float scale = cx_float((cx_u32)(exponent - 6 + 127) << 23);
	cx_i32 first = at < 32 ? 32 : at;
	if (c == first + (cx_i32)((h >> 32) % (cx_u64)(end - first)))
		return cx_to_bf16((float)(1 - 2 * (int)(h >> 31 & 1)) * 128 * scale);
	return cx_to_bf16((float)((int)(cx_split_mix(~key, (cx_u64)c) % 255) - 127) * scale);
}

static __device__ __forceinline__ cx_format cx_format_of(cx_i32 format)
{
	return format == 1 ? cx_e4m3fn() : format == 2 ? cx_e4m3fnuz() : cx_e5m2();
}

// cx_tile writes n columns of a token's row, starting at column at, as a receiver sees them. All
// threads of a block call it.
static __device__ void cx_tile(const cx_side &s, cx_u32 token, cx_i32 at, cx_i32 n, cx_u16 *x)
{
	__shared__ float most[CX_TILE / CX_PART];
	__syncthreads();
	for (cx_i32 c = threadIdx.x; c < n; c += blockDim.x)
		x[c] = cx_activation(s, token, at + c);
	__syncthreads();
	if (!s.codec.format)
		return;
	if (s.codec.block) {
		for (cx_i32 i = threadIdx.x; i * CX_PART < n; i += blockDim.x) {
			float m = 0;
			for (cx_i32 c = i * CX_PART; c < n && c < (i + 1) * CX_PART; c++) {
				float v = cx_from_bf16(x[c] & 0x7fff);
				m = v > m ? v : m;
			}
			most[i] = m;
		}
		__syncthreads();
	}
	cx_format f = cx_format_of(s.codec.format);
	for (cx_i32 c = threadIdx.x; c < n; c += blockDim.x) {
		float v = cx_from_bf16(x[c]);
		if (!s.codec.block) {
			x[c] = cx_to_bf16(cx_decode(f, cx_encode(f, v)));
			continue;
		}
		float m = 1e-4f;
		cx_i32 first = c / CX_BLOCK * CX_BLOCK, end = first + CX_BLOCK < n ? first + CX_BLOCK : n;
		for (cx_i32 i = first / CX_PART; i * CX_PART < end; i++)
			m = most[i] > m ? most[i] : m;
		x[c] = cx_to_bf16(cx_decode(f, cx_encode(f, v * (s.codec.max / m))) * (m / s.codec.max));
	}
	__syncthreads();
}

// Column c of row i, in bf16.
static __device__ cx_u16 cx_column(const cx_rows &rows, cx_u64 i, cx_i32 c)
{
	if (!rows.codec.format)
		return ((const cx_u16 *)rows.values[i])[c];
	float scale = rows.codec.block ? ((const float *)rows.scales[i])[c / CX_BLOCK] : 1;
	return cx_to_bf16(cx_decode(cx_format_of(rows.codec.format), ((const cx_u8 *)rows.values[i])[c]) * scale);
}

// cx_ep_fill writes n activation values, starting with token first.
extern "C" __global__ void cx_ep_fill(cx_side s, cx_u16 *x, cx_u64 first, cx_u64 n)
{
	for (cx_u64 i = cx_first(); i < n; i += cx_step())
		x[i] = cx_activation(s, (cx_u32)(first + i / s.hidden), (cx_i32)(i % s.hidden));
}

// cx_ep_filled adds the number of differing values to found[0].
extern "C" __global__ void cx_ep_filled(cx_side s, const cx_u16 *x, cx_u64 first, cx_u64 n, cx_u64 *found)
{
	cx_u64 wrong = 0;
	for (cx_u64 i = cx_first(); i < n; i += cx_step())
		wrong += x[i] != cx_activation(s, (cx_u32)(first + i / s.hidden), (cx_i32)(i % s.hidden));
	if (wrong)
		atomicAdd(&found[0], wrong);
}

// cx_ep_sources writes the token that each row names, or −1.
extern "C" __global__ void cx_ep_sources(cx_rows rows, cx_i64 *token, cx_u64 n)
{
	for (cx_u64 i = cx_first(); i < n; i += cx_step()) {
		cx_u32 named = 0;
		bool valid = true;
		for (cx_i32 c = 0; c < 32; c++) {
			cx_u16 b = cx_column(rows, i, c), magnitude = b & 0x7fff;
			valid = valid && magnitude >= 0x3e80 && magnitude < 0x7f80; // finite and at least 0.25
			named |= (cx_u32)(b >> 15 ^ 1) << c;
		}
		token[i] = valid ? (cx_i64)named : -1;
	}
}

// cx_ep_payload adds the number of values that do not match the row's token to found[0].
extern "C" __global__ void cx_ep_payload(cx_side s, cx_rows rows, const cx_i64 *token, cx_u64 n, cx_u64 *found)
{
	__shared__ cx_u16 x[CX_TILE];
	cx_u64 tiles = (s.hidden + CX_TILE - 1) / CX_TILE, wrong = 0;
	for (cx_u64 i = blockIdx.x; i < n * tiles; i += gridDim.x) {
		cx_u64 row = i / tiles;
		cx_i32 at = (cx_i32)(i % tiles) * CX_TILE, columns = s.hidden - at < CX_TILE ? s.hidden - at : CX_TILE;
		cx_tile(s, (cx_u32)token[row], at, columns, x);
		for (cx_i32 c = threadIdx.x; c < columns; c += blockDim.x)
			wrong += x[c] != cx_column(rows, row, at + c);
	}
	if (wrong)
		atomicAdd(&found[0], wrong);
}

// The experts.

static __device__ __forceinline__ cx_u16 cx_apply(cx_u16 x, float scale, float a, float b, cx_i32 c)
{
	float pattern = (float)(13 * (cx_i64)c % 17 - 8) / 8;
	return cx_to_bf16(cx_from_bf16(x) * scale + a + b * pattern);
}

// cx_ep_transform writes the experts' output for each row to the addresses of to.
extern "C" __global__ void cx_ep_transform(cx_rows rows, const float *by, const cx_u64 *to, cx_u64 n, cx_i32 hidden)
{
	for (cx_u64 i = cx_first(); i < n * hidden; i += cx_step()) {
		cx_u64 row = i / hidden;
		cx_i32 c = (cx_i32)(i % hidden);
		((cx_u16 *)to[row])[c] = cx_apply(cx_column(rows, row, c), by[3 * row], by[3 * row + 1], by[3 * row + 2], c);
	}
}

// The chosen rows.

static __device__ __forceinline__ cx_u16 cx_power(cx_u64 h, cx_i32 exponent)
{
	return (cx_u16)((h & 0x8000) | (cx_u64)(exponent + 127) << 7 | (h & 0x7f));
}

static __device__ cx_u16 cx_small(cx_u64 h, cx_i32 part)
{
	h = cx_split_mix(h, (cx_u64)part);
	return cx_power(h, (cx_i32)((h >> 32) % 4) - 3);
}

// cx_places draws three indices below n, ascending, in three columns of four.
static __device__ bool cx_places(cx_u64 h, cx_i32 n, cx_i32 *p)
{
	cx_u64 triples = n < 3 ? 0 : (cx_u64)n * (n - 1) * (n - 2) / 6;
	if (!triples || h >> 62 == 0)
		return false;
	cx_u64 at = (h << 2 >> 32) * triples >> 32;
	for (p[0] = 0;; p[0]++) {
		cx_u64 with = (cx_u64)(n - 1 - p[0]) * (n - 2 - p[0]) / 2;
		if (at < with)
			break;
		at -= with;
	}
	for (p[1] = p[0] + 1;; p[1]++) {
		cx_u64 with = (cx_u64)(n - 1 - p[1]);
		if (at < with)
			break;
		at -= with;
	}
	p[2] = p[1] + 1 + (cx_i32)at;
	return true;
}

// Column c of a chosen row. weights has the token's slot weights if rows are weighted.
static __device__ cx_u16 cx_chosen(cx_choice at, cx_i32 weighted, const float *weights, cx_i32 c)
{
	cx_u64 h = cx_split_mix(cx_split_mix(0x636f6d62696e65ull, at.token), (cx_u64)c);
	cx_i32 p[3];
	if (!cx_places(h, at.parts, p) || (at.part != p[0] && at.part != p[1] && (!weighted || at.part != p[2])))
		return cx_small(h, at.part);
	cx_u16 v = cx_power(h, 20);
	if (!weighted)
		return at.part == p[0] ? v : v ^ 0x8000;
	double rest = 0;
	for (int i = 1; at.part != p[i - 1]; i++) {
		rest += (double)cx_from_bf16(v) * (double)weights[p[i - 1]];
		v = cx_to_bf16((float)(-rest / (double)weights[p[i]]));
	}
	return v;
}

// cx_ep_choose writes chosen rows to the addresses of to; a row without a part is zero. weights
// [n][K] has the weights of the rows' tokens.
extern "C" __global__ void cx_ep_choose(const cx_choice *of, const float *weights, const cx_u64 *to, cx_u64 n, cx_i32 hidden, cx_sum sum)
{
	for (cx_u64 i = cx_first(); i < n * hidden; i += cx_step()) {
		cx_u64 row = i / hidden;
		cx_i32 c = (cx_i32)(i % hidden);
		((cx_u16 *)to[row])[c] = of[row].part < 0 ? 0 : cx_chosen(of[row], sum.weighted, weights + row * sum.topk, c);
	}
}

// The sums of combine.

// cx_add_fused adds w·y to sum and rounds once.
static __device__ float cx_add_fused(float sum, float y, float w)
{
	double p = (double)y * (double)w, s = (double)sum, total = p + s, low = total - p;
	double lost = (p - (total - low)) + (s - low);
	cx_u64 bits = cx_double_bits(total);
	bool finite = (bits >> 52 & 0x7ff) != 0x7ff;
	if (lost != 0 && (bits & 1) == 0 && finite) // half way between two floats, apart from lost
		total = cx_double((lost > 0) == (total > 0) ? bits + 1 : bits - 1);
	return (float)total;
}

// A token whose sums are computed.
struct cx_token {
	cx_choice of; // part is not set
	const cx_term *terms;
	const float *weights;
};

static __device__ float cx_value(const cx_token &t, const cx_sum &sum, cx_i32 what, cx_i32 k, cx_u16 x, cx_i32 c)
{
	const cx_term &term = t.terms[k];
	if (what == CX_TRANSFORMED)
		x = cx_apply(x, term.scale, term.a, term.b, c);
	if (what == CX_CHOSEN) {
		cx_choice of = t.of;
		of.part = term.part;
		x = cx_chosen(of, sum.weighted, t.weights, c);
	}
	return cx_from_bf16(x);
}

// The expected result of combine in column c, for activation x.
static __device__ float cx_combined(const cx_token &t, const cx_sum &sum, cx_i32 what, bool fused, cx_u16 x, cx_i32 c)
{
	float level[CX_MAX_TOPK], total = 0, part = 0;
	if (sum.tree) {
		for (cx_i32 k = 0; k < sum.topk; k++)
			level[k] = t.terms[k].part < 0 ? 0 : cx_value(t, sum, what, k, x, c);
		for (cx_i32 n = sum.topk; n > 1; n = (n + 1) / 2) {
			for (cx_i32 k = 0; k < n / 2; k++)
				level[k] = cx_from_bf16(cx_to_bf16(level[2 * k] + level[2 * k + 1]));
			if (n % 2)
				level[n / 2] = level[n - 1];
		}
		return level[0];
	}
	for (cx_i32 k = 0; k < sum.topk; k++) {
		if (t.terms[k].part < 0)
			continue;
		float y = cx_value(t, sum, what, k, x, c), w = t.terms[k].weight;
		part = fused ? cx_add_fused(part, y, w) : part + y * w;
		if (t.terms[k].end) {
			total += sum.rounds ? cx_from_bf16(cx_to_bf16(part)) : part;
			part = 0;
		}
	}
	return total;
}

// An error as a word whose order is like math.Max: numbers, NaN, infinity.
static __device__ __forceinline__ cx_u64 cx_ordered(double error)
{
	const cx_u64 infinity = 0x7ffull << 52;
	if (error != error)
		return infinity;
	cx_u64 bits = cx_double_bits(cx_magnitude(error));
	return bits == infinity ? infinity + 1 : bits;
}

static __device__ __forceinline__ cx_u64 cx_error(cx_u16 got, float want)
{
	double size = cx_magnitude((double)want);
	return cx_ordered(cx_magnitude((double)cx_from_bf16(got) - (double)want) / (size > 0.02 ? size : 0.02));
}

// cx_ep_combined raises found[0] to the largest error of out, the result of combine for the tokens
// from first on.
extern "C" __global__ void cx_ep_combined(cx_side s, cx_sum sum, cx_i32 what, cx_u64 first, const cx_term *terms, const cx_u16 *out,
                                          cx_u64 tokens, cx_u64 *found)
{
	__shared__ cx_u16 x[CX_TILE];
	cx_u64 tiles = (s.hidden + CX_TILE - 1) / CX_TILE, worst = 0;
	for (cx_u64 i = blockIdx.x; i < tokens * tiles; i += gridDim.x) {
		cx_u64 row = i / tiles;
		cx_i32 at = (cx_i32)(i % tiles) * CX_TILE, columns = s.hidden - at < CX_TILE ? s.hidden - at : CX_TILE;
		cx_tile(s, (cx_u32)(first + row), at, columns, x);
		cx_token t = {{first + row, 0, 0}, terms + row * sum.topk, 0};
		for (cx_i32 c = threadIdx.x; c < columns; c += blockDim.x) {
			cx_u64 e = cx_error(out[row * s.hidden + at + c], cx_combined(t, sum, what, false, x[c], at + c));
			worst = e > worst ? e : worst;
		}
	}
	if (worst)
		atomicMax(&found[0], worst);
}

// The distance of got from want in units in the last place of bf16.
static __device__ double cx_ulps(cx_u16 got, float want)
{
	double v = (double)cx_from_bf16(got), infinity = cx_double(0x7ffull << 52);
	if ((got & 0x7f80) == 0x7f80)
		return infinity;
	double size = cx_magnitude(v - (double)want);
	if (size == 0)
		return 0;
	cx_i32 exponent = (cx_i32)(cx_double_bits(want == 0 ? v : (double)want) >> 52 & 0x7ff) - 1023;
	exponent = exponent > -126 ? exponent : -126;
	size /= cx_double((cx_u64)(exponent - 7 + 1023) << 52);
	return size == size ? size : infinity;
}

// cx_ep_declared raises found[0] to the largest distance of out from the declared sum of the
// chosen rows, and adds the number of values further than half a unit to found[1].
extern "C" __global__ void cx_ep_declared(cx_sum sum, cx_u64 first, const cx_term *terms, const float *weights, const cx_i32 *parts,
                                          const cx_u16 *out, cx_u64 tokens, cx_i32 hidden, cx_u64 *found)
{
	cx_u64 worst = 0, wrong = 0;
	for (cx_u64 i = cx_first(); i < tokens * hidden; i += cx_step()) {
		cx_u64 row = i / hidden;
		cx_i32 c = (cx_i32)(i % hidden);
		cx_token t = {{first + row, 0, parts[row]}, terms + row * sum.topk, weights + row * sum.topk};
		double e = cx_ulps(out[i], cx_combined(t, sum, CX_CHOSEN, false, 0, c));
		if (sum.weighted && e > 0) {
			double other = cx_ulps(out[i], cx_combined(t, sum, CX_CHOSEN, true, 0, c));
			e = other < e ? other : e;
		}
		wrong += e > 0.5;
		cx_u64 bits = cx_ordered(e);
		worst = bits > worst ? bits : worst;
	}
	if (worst)
		atomicMax(&found[0], worst);
	if (wrong)
		atomicAdd(&found[1], wrong);
}

// cx_ep_compare raises found[0] to the largest error of got against reference.
extern "C" __global__ void cx_ep_compare(const cx_u16 *got, const cx_u16 *reference, cx_u64 n, cx_u64 *found)
{
	cx_u64 worst = 0;
	for (cx_u64 i = cx_first(); i < n; i += cx_step()) {
		cx_u64 e = cx_error(got[i], cx_from_bf16(reference[i]));
		worst = e > worst ? e : worst;
	}
	if (worst)
		atomicMax(&found[0], worst);
}
