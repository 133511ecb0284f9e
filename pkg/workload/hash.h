// The hash that generates test data, in C for hosts and devices: the same function as in
// pattern.go. CUDA, HIP and C compilers accept it unchanged; it includes no header. Before
// including it, define CX_FN if functions need other specifiers than "static inline".
#ifndef CX_HASH_H
#define CX_HASH_H

#ifndef CX_FN
#define CX_FN static inline
#endif

typedef unsigned int cx_u32;
typedef unsigned long long cx_u64;

CX_FN cx_u32 cx_mix(cx_u32 x) {
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

CX_FN cx_u32 cx_hash(cx_u32 key, cx_u64 i) { return cx_mix(cx_mix(key ^ (cx_u32)i) + (cx_u32)(i >> 32)); }

#endif
