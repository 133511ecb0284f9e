// Fills and checks memory that this process can reach; see data.c.
#ifndef CX_COLLECTIVE_DATA_H
#define CX_COLLECTIVE_DATA_H

#include <stdint.h>

#include "../../workload/hash.h"
#include "../../workload/pattern.h"

// workload.Region.
typedef struct {
	int64_t offset, count, first, source;
} cx_region;

// workload.Verdict.
typedef struct {
	int64_t checked, wrong, first;
} cx_verdict;

// Makes the n ≤ CX_BLOCK elements from index i on of a source; i and i + n − 1 must share their high
// word. For types of up to 4 bytes and of 8.
#define CX_BLOCK 512
void cx_make_32(const cx_pattern *p, int64_t source, cx_u64 i, int n, unsigned int *out);
void cx_make_64(const cx_pattern *p, int64_t source, cx_u64 i, int n, unsigned long long *out);

// Writes the region's elements at buf, or their complements.
void cx_write(const cx_pattern *p, void *buf, const cx_region *r, int complement);

// Compares the region's elements at buf and adds to v.
void cx_check(const cx_pattern *p, const void *buf, const cx_region *r, cx_verdict *v);

#endif
