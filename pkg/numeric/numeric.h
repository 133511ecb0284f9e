// Small floats in C loops of the host backends. The loops are plain C, which the
// compiler turns into the vector code of several generations of processors; with
// CLONES the right one is chosen when the program starts. In the C standard mode the
// compiler does not fuse multiplications with additions.
#ifndef CX_NUMERIC_H
#define CX_NUMERIC_H

#include <stdint.h>

#if defined(__x86_64__)
#define CLONES __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define CLONES
#endif

typedef union {
	float f;
	uint32_t u;
} word;

static inline float float_of(uint32_t u) {
	word w = {.u = u};
	return w.f;
}

static inline uint32_t bits_of(float f) {
	word w = {.f = f};
	return w.u;
}

static inline float from_bfloat16(uint16_t v) { return float_of((uint32_t)v << 16); }

// Rounds to nearest even.
static inline uint16_t to_bfloat16(float x) {
	uint32_t u = bits_of(x);
	uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	return (u & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (uint16_t)rounded;
}

#endif
