// Adds received data to local data. A sum is rounded once to its type; integers wrap.

// Types of package numeric.
enum { CX_INT8, CX_UINT8, CX_INT32, CX_UINT32, CX_INT64, CX_UINT64, CX_HALF, CX_FLOAT, CX_DOUBLE, CX_BFLOAT16, CX_E4M3, CX_E5M2 };

#define CX_SAME(x) (x)
#define CX_FROM_HALF(x) cx_decode(cx_fp16(), x)
#define CX_TO_HALF(x) cx_encode(cx_fp16(), x)
#define CX_FROM_E4M3(x) cx_decode(cx_e4m3fn(), x)
#define CX_TO_E4M3(x) cx_encode(cx_e4m3fn(), x)
#define CX_FROM_E5M2(x) cx_decode(cx_e5m2(), x)
#define CX_TO_E5M2(x) cx_encode(cx_e5m2(), x)

#define CX_ADD(TYPE, LOAD, STORE)                                                                   \
	for (cx_u64 i = cx_first(); i < count; i += cx_step())                                          \
		((TYPE *)to)[i] = (TYPE)STORE(LOAD(((const TYPE *)to)[i]) + LOAD(((const TYPE *)from)[i])); \
	break

extern "C" __global__ void cx_add(void *to, const void *from, cx_u64 count, int type)
{
	switch (type) {
	case CX_INT8:
	case CX_UINT8: CX_ADD(cx_u8, CX_SAME, CX_SAME);
	case CX_INT32:
	case CX_UINT32: CX_ADD(cx_u32, CX_SAME, CX_SAME);
	case CX_INT64:
	case CX_UINT64: CX_ADD(cx_u64, CX_SAME, CX_SAME);
	case CX_HALF: CX_ADD(cx_u16, CX_FROM_HALF, CX_TO_HALF);
	case CX_FLOAT: CX_ADD(float, CX_SAME, CX_SAME);
	case CX_DOUBLE: CX_ADD(double, CX_SAME, CX_SAME);
	case CX_BFLOAT16: CX_ADD(cx_u16, cx_from_bf16, cx_to_bf16);
	case CX_E4M3: CX_ADD(cx_u8, CX_FROM_E4M3, CX_TO_E4M3);
	case CX_E5M2: CX_ADD(cx_u8, CX_FROM_E5M2, CX_TO_E5M2);
	}
}
