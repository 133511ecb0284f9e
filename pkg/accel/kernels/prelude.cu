// The beginning of every kernel source. Kernels use only what CUDA and HIP share:
// no includes, no library types, no warp intrinsics (so a warp may have any number
// of threads), and only static __shared__ arrays. A kernel is declared as
//
//	extern "C" __global__ void cx_name(parameters)
//
// and loops over its elements with cx_first() and cx_step(), so any grid works.

typedef signed char cx_i8;
typedef unsigned char cx_u8;
typedef unsigned short cx_u16;
typedef int cx_i32;
typedef unsigned int cx_u32;
typedef long long cx_i64;
typedef unsigned long long cx_u64;

// What C that hosts compile too declares its functions with; see workload/hash.h.
#define CX_FN static __device__ __forceinline__

__device__ __forceinline__ cx_u64 cx_first() { return (cx_u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ cx_u64 cx_step() { return (cx_u64)gridDim.x * blockDim.x; }

__device__ __forceinline__ cx_u32 cx_bits(float x)
{
	union { float f; cx_u32 u; } v;
	v.f = x;
	return v.u;
}

__device__ __forceinline__ float cx_float(cx_u32 bits)
{
	union { float f; cx_u32 u; } v;
	v.u = bits;
	return v.f;
}

// Small floats, bit for bit as package numeric has them.

// A format: sign, exponent, mantissa. max is the code of the largest finite value,
// inf what an infinity becomes, nan the canonical NaN, over what is rounded
// beyond max.
struct cx_format {
	int exponent, mantissa, bias;
	cx_u32 max, inf, nan, over;
	bool ieee;          // the largest exponent holds infinities and NaNs
	bool unsigned_zero; // the code of -0 is the only NaN
};

__device__ __forceinline__ cx_format cx_fp16() { return {5, 10, 15, 0x7bff, 0x7c00, 0x7fff, 0x7c00, true, false}; }
__device__ __forceinline__ cx_format cx_e4m3fn() { return {4, 3, 7, 0x7e, 0x7e, 0x7f, 0x7e, false, false}; }
__device__ __forceinline__ cx_format cx_e4m3fnuz() { return {4, 3, 8, 0x7f, 0x80, 0x80, 0x7f, false, true}; }
__device__ __forceinline__ cx_format cx_e5m2() { return {5, 2, 15, 0x7b, 0x7b, 0x7f, 0x7b, true, false}; }

// Shifts right and rounds what is lost to nearest even.
__device__ __forceinline__ cx_u32 cx_round_shift(cx_u32 v, int places)
{
	return (v + (1u << (places - 1)) - 1 + ((v >> places) & 1)) >> places;
}

__device__ __forceinline__ cx_u32 cx_encode(cx_format f, float x)
{
	cx_u32 bits = cx_bits(x), abs = bits & 0x7fffffffu, code;
	cx_u32 sign = (bits >> 31) << (f.exponent + f.mantissa);
	int e = (int)(abs >> 23) - 127 + f.bias;
	if (abs > 0x7f800000u)
		return f.nan;
	if (abs == 0x7f800000u) {
		code = f.inf;
	} else if (e >= 1) {
		code = cx_round_shift(abs, 23 - f.mantissa) - ((cx_u32)(127 - f.bias) << f.mantissa);
		if (code > f.max)
			code = f.over;
	} else {
		// Subnormal: one place further right for every exponent below the smallest.
		int places = 24 - f.mantissa - e;
		code = cx_round_shift((abs & 0x7fffffu) | 0x800000u, places < 25 ? places : 25);
	}
	if (f.unsigned_zero && (code == 0 || code == f.nan))
		return code;
	return code | sign;
}

__device__ __forceinline__ float cx_decode(cx_format f, cx_u32 code)
{
	int sign_at = f.exponent + f.mantissa;
	cx_u32 sign = (code >> sign_at) << 31, m;
	int e;
	if (f.unsigned_zero && code == f.nan)
		return cx_float(0x7fc00000u);
	code &= (1u << sign_at) - 1;
	e = (int)(code >> f.mantissa);
	m = code & ((1u << f.mantissa) - 1);
	if ((f.ieee && e == (1 << f.exponent) - 1) || (!f.ieee && !f.unsigned_zero && code == f.nan))
		return cx_float(sign | 0x7f800000u | m << (23 - f.mantissa));
	if (e == 0) {
		// m · 2^(1 − bias − mantissa): both factors and the product are exact.
		float unit = cx_float((cx_u32)(128 - f.bias - f.mantissa) << 23);
		return cx_float(sign | cx_bits((float)m * unit));
	}
	return cx_float(sign | (cx_u32)(e - f.bias + 127) << 23 | m << (23 - f.mantissa));
}

__device__ __forceinline__ cx_u16 cx_to_bf16(float x)
{
	cx_u32 bits = cx_bits(x);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return 0x7fff;
	return (cx_u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ __forceinline__ float cx_from_bf16(cx_u16 b) { return cx_float((cx_u32)b << 16); }

