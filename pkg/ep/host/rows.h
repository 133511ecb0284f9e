// Casts and sums of rows of bf16 values. Every function computes exactly what its Go counterpart
// in package runner does.
#pragma once

#include <stdint.h>

// Casts a row to e4m3fn. If block is not 0, each group of block columns shares a scale. amax is the
// largest magnitude of the group, but not below least; codes are value·(448/amax) and the scale is
// amax/448.
void cx_row_encode(uint8_t *codes, float *scales, const uint16_t *row, int64_t n, int64_t block, float least);
void cx_row_decode(uint16_t *row, const uint8_t *codes, const float *scales, int64_t n, int64_t block);

// sum += row
void cx_row_add(float *sum, const uint16_t *row, int64_t n);
// sum += weight · row, each product rounded to float
void cx_row_add_weighted(float *sum, const uint16_t *row, float weight, int64_t n);
// sum += bf16(part); part = 0
void cx_row_flush(float *sum, float *part, int64_t n);
// sum = bf16(sum + part)
void cx_row_add_rounded(float *sum, const float *part, int64_t n);
// row = bf16(sum)
void cx_row_round(uint16_t *row, const float *sum, int64_t n);
