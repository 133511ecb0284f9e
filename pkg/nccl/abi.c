#include "abi.h"

static const struct {
	const char *symbol;
	size_t offset;
} entries[] = {
#define CX_ENTRY(name, ret, params) {"nccl" #name, offsetof(cx_nccl, name)},
	CX_NCCL_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};

int cx_nccl_count(void) { return sizeof entries / sizeof entries[0]; }

const char *cx_nccl_symbol(int i) { return entries[i].symbol; }

void cx_nccl_set(cx_nccl *f, int i, void *address) {
	*(void **)((char *)f + entries[i].offset) = address;
}
