/* What a compiled fake kernel offers the fake driver; C and C++. */
#ifndef CX_FAKE_KERNEL_H
#define CX_FAKE_KERNEL_H

#include <stddef.h>

struct cx_kernel {
	int count;    /* parameters */
	size_t bytes; /* of all parameters, packed */
	void (*pack)(void **params, char *packed);
	void (*run)(const unsigned grid[3], const unsigned block[3], const char *packed);
};

#endif
