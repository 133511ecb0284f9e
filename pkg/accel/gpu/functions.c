#include "api.h"
#include "compiler.h"

const cx_function cx_gpu_functions[cx_gpu_count] = {
#define CX_ENTRY(name, group, cuda, hip, ret, params) {{cuda, hip}, offsetof(cx_gpu, name), cx_##group},
	CX_GPU_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};

const cx_function cx_rtc_functions[cx_rtc_count] = {
#define CX_ENTRY(name, nvrtc, hiprtc, ret, params) {{nvrtc, hiprtc}, offsetof(cx_rtc, name), cx_required},
	CX_RTC_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};
