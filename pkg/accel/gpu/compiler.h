/*
 * Our own declarations of the run-time compiler interface that NVRTC and
 * HIPRTC share.
 */
#ifndef CX_GPU_COMPILER_H
#define CX_GPU_COMPILER_H

#include <stddef.h>

typedef struct {
	const char *(*error_string)(int code);
	int (*version)(int *major, int *minor);
	int (*create)(void **program, const char *source, const char *name, int headers,
		const char *const *header_sources, const char *const *header_names);
	int (*compile)(void *program, int count, const char *const *options);
	int (*log_size)(void *program, size_t *bytes);
	int (*log)(void *program, char *text);
	int (*code_size)(void *program, size_t *bytes);
	int (*code)(void *program, char *image);
	int (*destroy)(void **program);
} cx_rtc;

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
