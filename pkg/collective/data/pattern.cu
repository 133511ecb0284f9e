// Fills, poisons and checks buffers with the data of pattern.h, which precedes this text.

// cx_pattern_write writes count elements, from element first of the source on, at offset of buf,
// each XORed with flip.
extern "C" __global__ void cx_pattern_write(void *buf, cx_pattern p, cx_u64 offset, cx_u64 count, cx_u64 first, int source,
                                            cx_u64 flip)
{
	for (cx_u64 j = cx_first(); j < count; j += cx_step()) {
		cx_u64 at = offset + j, v = cx_at(&p, source, first + j) ^ flip;
		switch (p.size) {
		case 1: ((cx_u8 *)buf)[at] = (cx_u8)v; break;
		case 2: ((cx_u16 *)buf)[at] = (cx_u16)v; break;
		case 4: ((cx_u32 *)buf)[at] = (cx_u32)v; break;
		default: ((cx_u64 *)buf)[at] = v;
		}
	}
}

// cx_pattern_check compares count elements. It adds the wrong ones to verdict[0] and lowers
// verdict[1] to the offset of the first.
extern "C" __global__ void cx_pattern_check(const void *buf, cx_pattern p, cx_u64 offset, cx_u64 count, cx_u64 first, int source,
                                            cx_u64 *verdict)
{
	cx_u64 wrong = 0, where = ~(cx_u64)0;
	for (cx_u64 j = cx_first(); j < count; j += cx_step()) {
		cx_u64 at = offset + j, got;
		switch (p.size) {
		case 1: got = ((const cx_u8 *)buf)[at]; break;
		case 2: got = ((const cx_u16 *)buf)[at]; break;
		case 4: got = ((const cx_u32 *)buf)[at]; break;
		default: got = ((const cx_u64 *)buf)[at];
		}
		if (cx_matches(&p, got, cx_at(&p, source, first + j)))
			continue;
		wrong++;
		if (at < where)
			where = at;
	}
	if (wrong) {
		atomicAdd(&verdict[0], wrong);
		atomicMin(&verdict[1], where);
	}
}
