#include "abi.h"

static const struct {
	const char *symbol;
	size_t offset;
} entries[] = {
#define CX_ENTRY(result, name, params) {"nixl_capi_" #name, offsetof(cx_nixl_library, name)},
	CX_NIXL_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};

int cx_nixl_count(void) { return sizeof entries / sizeof entries[0]; }

const char *cx_nixl_symbol(int i) { return entries[i].symbol; }

void cx_nixl_set(cx_nixl_library *f, int i, void *address) { *(void **)((char *)f + entries[i].offset) = address; }

// CX_TRY makes a call unless an earlier one failed.
#define CX_TRY(name, args) \
	do { \
		if (status >= 0) { \
			*call = #name; \
			status = f->name args; \
		} \
	} while (0)

// CX_END makes a call that releases something, even after a failed call, whose status it keeps.
#define CX_END(name, args) \
	do { \
		int ended = f->name args; \
		if (status >= 0 && ended < 0) { \
			*call = #name; \
			status = ended; \
		} \
	} while (0)

int cx_nixl_probe(const cx_nixl_library *f, const char **call) {
	int status = 0;
	void *agent = NULL, *memories = NULL, *params = NULL;
	cx_nixl_config config = {0};
	CX_TRY(create_configured_agent, ("probe", &config, &agent));
	CX_TRY(get_plugin_params, (agent, "UCX", &memories, &params));
	if (memories)
		CX_END(destroy_mem_list, (memories));
	if (params)
		CX_END(destroy_params, (params));
	if (agent)
		CX_END(destroy_agent, (agent));
	return status;
}

int cx_nixl_open(const cx_nixl_library *f, const char *name, bool progress, cx_nixl_agent *a, const char **call) {
	int status = 0;
	void *memories = NULL, *params = NULL;
	cx_nixl_config config = {.progressThread = progress};
	CX_TRY(create_configured_agent, (name, &config, &a->agent));
	CX_TRY(get_plugin_params, (a->agent, "UCX", &memories, &params));
	CX_TRY(create_backend, (a->agent, "UCX", params, &a->backend));
	CX_TRY(create_opt_args, (&a->args));
	CX_TRY(opt_args_add_backend, (a->args, a->backend));
	if (memories)
		CX_END(destroy_mem_list, (memories));
	if (params)
		CX_END(destroy_params, (params));
	return status;
}

int cx_nixl_close(const cx_nixl_library *f, cx_nixl_agent *a, const char **call) {
	int status = 0;
	if (a->args)
		CX_END(destroy_opt_args, (a->args));
	if (a->backend)
		CX_END(destroy_backend, (a->backend));
	if (a->agent)
		CX_END(destroy_agent, (a->agent));
	*a = (cx_nixl_agent){0};
	return status;
}

int cx_nixl_register(const cx_nixl_library *f, const cx_nixl_agent *a, cx_nixl_memory m, uintptr_t at, size_t bytes, size_t piece, void **list, const char **call) {
	int status = 0;
	CX_TRY(create_reg_dlist, (m.type, list));
	for (size_t done = 0; done < bytes; done += piece)
		CX_TRY(reg_dlist_add_desc, (*list, at + done, bytes - done < piece ? bytes - done : piece, m.device, "", 0));
	CX_TRY(register_mem, (a->agent, *list, a->args));
	if (status < 0 && *list) {
		f->destroy_reg_dlist(*list);
		*list = NULL;
	}
	return status;
}

int cx_nixl_deregister(const cx_nixl_library *f, const cx_nixl_agent *a, void *list, const char **call) {
	int status = 0;
	CX_END(deregister_mem, (a->agent, list, a->args));
	CX_END(destroy_reg_dlist, (list));
	return status;
}

int cx_nixl_connect(const cx_nixl_library *f, const cx_nixl_agent *a, const void *metadata, size_t bytes, char **name, const char **call) {
	int status = 0;
	CX_TRY(load_remote_md, (a->agent, metadata, bytes, name));
	CX_TRY(agent_make_connection, (a->agent, *name, a->args));
	return status;
}

int cx_nixl_prepare(const cx_nixl_library *f, const cx_nixl_agent *a, int op, const char *name, cx_nixl_memory here, cx_nixl_memory there, const cx_nixl_block *blocks, size_t n, void **request, const char **call) {
	int status = 0;
	void *local = NULL, *remote = NULL;
	CX_TRY(create_xfer_dlist, (here.type, &local));
	CX_TRY(create_xfer_dlist, (there.type, &remote));
	for (size_t i = 0; i < n; i++) {
		CX_TRY(xfer_dlist_add_desc, (local, blocks[i].local, blocks[i].bytes, here.device));
		CX_TRY(xfer_dlist_add_desc, (remote, blocks[i].remote, blocks[i].bytes, there.device));
	}
	CX_TRY(create_xfer_req, (a->agent, op, local, remote, name, request, a->args));
	if (local)
		CX_END(destroy_xfer_dlist, (local));
	if (remote)
		CX_END(destroy_xfer_dlist, (remote));
	return status;
}

int cx_nixl_release(const cx_nixl_library *f, const cx_nixl_agent *a, void *request, const char **call) {
	int status = 0;
	CX_END(release_xfer_req, (a->agent, request)); // the library refuses the reverse order
	CX_END(destroy_xfer_req, (request));
	return status;
}
