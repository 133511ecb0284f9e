/*
 * Our own declarations of the run-time compiler interface that NVRTC and
 * HIPRTC share.
 */
#ifndef CX_GPU_COMPILER_H
#define CX_GPU_COMPILER_H

#include <stddef.h>

#include "function.h"

/* The functions: slot, NVRTC's name and HIPRTC's, type of the result and parameters. */
#define CX_RTC_FUNCTIONS(X) \
	X(error_string, "nvrtcGetErrorString", "hiprtcGetErrorString", const char *, (int code)) \
	X(version, "nvrtcVersion", "hiprtcVersion", int, (int *major, int *minor)) \
	X(create, "nvrtcCreateProgram", "hiprtcCreateProgram", int, (void **program, const char *source, const char *name, int headers, const char *const *header_sources, const char *const *header_names)) \
	X(compile, "nvrtcCompileProgram", "hiprtcCompileProgram", int, (void *program, int count, const char *const *options)) \
	X(log_size, "nvrtcGetProgramLogSize", "hiprtcGetProgramLogSize", int, (void *program, size_t *bytes)) \
	X(log, "nvrtcGetProgramLog", "hiprtcGetProgramLog", int, (void *program, char *text)) \
	X(code_size, "nvrtcGetCUBINSize", "hiprtcGetCodeSize", int, (void *program, size_t *bytes)) \
	X(code, "nvrtcGetCUBIN", "hiprtcGetCode", int, (void *program, char *image)) \
	X(destroy, "nvrtcDestroyProgram", "hiprtcDestroyProgram", int, (void **program))

typedef struct {
#define CX_FIELD(name, nvrtc, hiprtc, ret, params) ret(*name) params;
	CX_RTC_FUNCTIONS(CX_FIELD)
#undef CX_FIELD
} cx_rtc;

enum {
#define CX_NUMBER(name, nvrtc, hiprtc, ret, params) cx_rtc_fn_##name,
	CX_RTC_FUNCTIONS(CX_NUMBER)
#undef CX_NUMBER
	cx_rtc_count
};

extern const cx_function cx_rtc_functions[cx_rtc_count];

static inline const char *cx_rtc_error(const cx_rtc *r, int rc) { return r->error_string(rc); }
static inline int cx_rtc_version(const cx_rtc *r, int *major, int *minor) { return r->version(major, minor); }
static inline int cx_rtc_create(const cx_rtc *r, void **p, const char *source, const char *name) {
	return r->create(p, source, name, 0, NULL, NULL);
}
static inline int cx_rtc_compile(const cx_rtc *r, void *p, int n, const char *const *options) { return r->compile(p, n, options); }
static inline int cx_rtc_log_size(const cx_rtc *r, void *p, size_t *n) { return r->log_size(p, n); }
static inline int cx_rtc_log(const cx_rtc *r, void *p, char *text) { return r->log(p, text); }
static inline int cx_rtc_code_size(const cx_rtc *r, void *p, size_t *n) { return r->code_size(p, n); }
static inline int cx_rtc_code(const cx_rtc *r, void *p, char *image) { return r->code(p, image); }
static inline int cx_rtc_destroy(const cx_rtc *r, void **p) { return r->destroy(p); }

#endif
