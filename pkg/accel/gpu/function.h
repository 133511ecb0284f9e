/*
 * A function that a vendor's library exports, and the slot of its address in a
 * structure of function pointers.
 */
#ifndef CX_GPU_FUNCTION_H
#define CX_GPU_FUNCTION_H

#include <stddef.h>

enum { cx_cuda, cx_hip, cx_vendors };

enum cx_group { cx_required, cx_graphs, cx_vmm, cx_vmm_share, cx_ipc, cx_register, cx_flags, cx_optional, cx_groups };

typedef struct {
	const char *names[cx_vendors]; /* NULL: the vendor has no such function */
	size_t offset;
	enum cx_group group;
} cx_function;

#endif
