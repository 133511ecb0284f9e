#include <stdlib.h>

#include "abi.h"

static const struct {
	const char *symbol;
	size_t offset;
} entries[] = {
#define CX_ENTRY(name, params) {"ncclEp" #name, offsetof(cx_ep_library, name)},
	CX_EP_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};

int cx_ep_count(void) { return sizeof entries / sizeof entries[0]; }

const char *cx_ep_symbol(int i) { return entries[i].symbol; }

void cx_ep_set(cx_ep_library *f, int i, void *address) { *(void **)((char *)f + entries[i].offset) = address; }

#define CX_BEGIN(block) ((block).size = sizeof(block), (block).magic = cx_ep_magic)

cx_ep_call *cx_ep_new_call(int kind) {
	cx_ep_call *c = calloc(1, sizeof *c);
	c->kind = kind;
	CX_BEGIN(c->info);
	CX_BEGIN(c->in);
	CX_BEGIN(c->dispatched);
	CX_BEGIN(c->combined);
	CX_BEGIN(c->config);
	return c;
}

cx_ep_tensor *cx_ep_add(cx_ep_call *c, int type, uintptr_t data, void *window, int ndim, const size_t *sizes) {
	cx_ep_array *a = &c->arrays[c->used++];
	for (int i = 0; i < ndim; i++)
		a->sizes[i] = sizes[i];
	a->tensor = (cx_ep_tensor){
		.size = sizeof a->tensor, .magic = cx_ep_tensor_magic, .ndim = ndim, .type = type, .data = (void *)data, .window = window, .sizes = a->sizes,
	};
	return &a->tensor;
}

int cx_ep_enqueue(const cx_ep_library *f, void *handle, const cx_ep_call *c, uintptr_t on, const char **name) {
	const cx_ep_layout_info *info = c->hasInfo ? &c->info : NULL;
	void *stream = (void *)on;
	int result;
	switch (c->kind) {
	case CX_EP_UPDATE:
		*name = "ncclEpUpdateHandle";
		return f->UpdateHandle(handle, c->ids, info, stream);
	case CX_EP_DISPATCH:
		*name = "ncclEpDispatch";
		result = f->Dispatch(handle, &c->in, &c->dispatched, info, &c->config, stream);
		break;
	default:
		*name = "ncclEpCombine";
		result = f->Combine(handle, &c->in, &c->combined, NULL, stream);
	}
	if (result != 0)
		return result;
	*name = "ncclEpComplete";
	return f->Complete(handle, NULL, stream);
}
