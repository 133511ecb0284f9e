#include "data.h"

// Length of the next block: at most what is left, and not across a multiple of 2^32.
static int length(cx_u64 i, int64_t left) {
	cx_u64 to = (i | 0xffffffffu) - i + 1;
	cx_u64 n = left < CX_BLOCK ? (cx_u64)left : CX_BLOCK;
	return (int)(n < to ? n : to);
}

// A block of elements, as words of the right size.
typedef union {
	unsigned int w32[CX_BLOCK];
	unsigned long long w64[CX_BLOCK];
} words;

static void make(const cx_pattern *p, int64_t source, cx_u64 i, int n, words *w) {
	if (p->size == 8)
		cx_make_64(p, source, i, n, w->w64);
	else
		cx_make_32(p, source, i, n, w->w32);
}

#define STORE(TYPE, WORDS)                                                        \
	{                                                                             \
		TYPE *out = (TYPE *)buf + at;                                             \
		for (int j = 0; j < n; j++) out[j] = (TYPE)(w.WORDS[j] ^ (TYPE)flip);     \
	}                                                                             \
	break

void cx_write(const cx_pattern *p, void *buf, const cx_region *r, int complement) {
	words w;
	cx_u64 flip = complement ? ~(cx_u64)0 : 0;
	for (int64_t done = 0; done < r->count;) {
		cx_u64 i = (cx_u64)(r->first + done);
		int n = length(i, r->count - done);
		int64_t at = r->offset + done;
		make(p, r->source, i, n, &w);
		switch (p->size) {
		case 1: STORE(uint8_t, w32);
		case 2: STORE(uint16_t, w32);
		case 4: STORE(uint32_t, w32);
		case 8: STORE(uint64_t, w64);
		}
		done += n;
	}
}

#define DIFFER(TYPE, WORDS)                                                       \
	{                                                                             \
		const TYPE *in = (const TYPE *)buf + at;                                  \
		TYPE differ = 0;                                                          \
		for (int j = 0; j < n; j++) differ |= in[j] ^ (TYPE)w.WORDS[j];           \
		if (!differ) break;                                                       \
		for (int j = 0; j < n; j++) {                                             \
			if (cx_matches(p, in[j], w.WORDS[j])) continue;                       \
			if (v->wrong == 0 || at + j < v->first) v->first = at + j;            \
			v->wrong++;                                                           \
		}                                                                         \
	}                                                                             \
	break

void cx_check(const cx_pattern *p, const void *buf, const cx_region *r, cx_verdict *v) {
	words w;
	for (int64_t done = 0; done < r->count;) {
		cx_u64 i = (cx_u64)(r->first + done);
		int n = length(i, r->count - done);
		int64_t at = r->offset + done;
		make(p, r->source, i, n, &w);
		switch (p->size) {
		case 1: DIFFER(uint8_t, w32);
		case 2: DIFFER(uint16_t, w32);
		case 4: DIFFER(uint32_t, w32);
		case 8: DIFFER(uint64_t, w64);
		}
		v->checked += n;
		done += n;
	}
}
