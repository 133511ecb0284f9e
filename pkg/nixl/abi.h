// This project's declarations of the C ABI of NIXL, libnixl_capi.so 1.5.1. They are not taken from a
// vendor header.
#ifndef CX_NIXL_ABI_H
#define CX_NIXL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CX_NIXL_SUCCESS = 0, CX_NIXL_IN_PROGRESS = 1 }; // nixl_capi_status_t; errors are negative
enum { CX_NIXL_DRAM = 0, CX_NIXL_VRAM = 1 };           // nixl_capi_mem_type_t
enum { CX_NIXL_READ = 0, CX_NIXL_WRITE = 1 };          // nixl_capi_xfer_op_t

// nixl_capi_agent_config_t
typedef struct {
	bool progressThread, listenThread;
	int listenPort;
	int sync; // synchronization of calls from several threads; 0: none
	uint32_t workers;
	uint64_t progressMicros, listenMicros; // intervals of the threads
	bool telemetry;
} cx_nixl_config;

// Return type, name, parameters. The symbol is "nixl_capi_" followed by the name. An int is a
// nixl_capi_status_t, and a void * an opaque handle.
#define CX_NIXL_FUNCTIONS(X) \
	X(bool, is_stub, (void)) \
	X(int, create_configured_agent, (const char *name, const cx_nixl_config *config, void **agent)) \
	X(int, destroy_agent, (void *agent)) \
	X(int, get_plugin_params, (void *agent, const char *plugin, void **memories, void **params)) \
	X(int, destroy_mem_list, (void *memories)) \
	X(int, destroy_params, (void *params)) \
	X(int, create_backend, (void *agent, const char *plugin, void *params, void **backend)) \
	X(int, destroy_backend, (void *backend)) \
	X(int, create_opt_args, (void **args)) \
	X(int, destroy_opt_args, (void *args)) \
	X(int, opt_args_add_backend, (void *args, void *backend)) \
	X(int, create_reg_dlist, (int memory, void **list)) \
	X(int, destroy_reg_dlist, (void *list)) \
	X(int, reg_dlist_add_desc, (void *list, uintptr_t at, size_t bytes, uint64_t device, const void *meta, size_t metaBytes)) \
	X(int, register_mem, (void *agent, void *list, void *args)) \
	X(int, deregister_mem, (void *agent, void *list, void *args)) \
	X(int, get_local_md, (void *agent, void **data, size_t *bytes)) \
	X(int, load_remote_md, (void *agent, const void *data, size_t bytes, char **name)) \
	X(int, invalidate_remote_md, (void *agent, const char *name)) \
	X(int, agent_make_connection, (void *agent, const char *name, void *args)) \
	X(int, create_xfer_dlist, (int memory, void **list)) \
	X(int, destroy_xfer_dlist, (void *list)) \
	X(int, xfer_dlist_add_desc, (void *list, uintptr_t at, size_t bytes, uint64_t device)) \
	X(int, create_xfer_req, (void *agent, int op, void *local, void *remote, const char *name, void **request, void *args)) \
	X(int, post_xfer_req, (void *agent, void *request, void *args)) \
	X(int, get_xfer_status, (void *agent, void *request)) \
	X(int, release_xfer_req, (void *agent, void *request)) \
	X(int, destroy_xfer_req, (void *request))

typedef struct {
#define CX_NIXL_FIELD(result, name, params) result (*name) params;
	CX_NIXL_FUNCTIONS(CX_NIXL_FIELD)
#undef CX_NIXL_FIELD
} cx_nixl_library;

// The number of entries of the table, and the symbol of entry i.
int cx_nixl_count(void);
const char *cx_nixl_symbol(int i);
// cx_nixl_set fills entry i.
void cx_nixl_set(cx_nixl_library *f, int i, void *address);

// The functions below return the status of the first call that failed, or else of the last call, and
// set *call to its name.

// An agent with the UCX backend.
typedef struct {
	void *agent, *backend;
	void *args; // parameters of the backend
} cx_nixl_agent;

int cx_nixl_open(const cx_nixl_library *f, const char *name, bool progress, cx_nixl_agent *a, const char **call);
// cx_nixl_close undoes cx_nixl_open, also if that failed halfway.
int cx_nixl_close(const cx_nixl_library *f, cx_nixl_agent *a, const char **call);

// cx_nixl_probe opens the plugin UCX, and creates no backend.
int cx_nixl_probe(const cx_nixl_library *f, const char **call);

// A kind of memory, and the number of its device.
typedef struct {
	int type;
	uint64_t device;
} cx_nixl_memory;

// cx_nixl_register registers memory in pieces of at most piece bytes. It sets *list, the argument of
// cx_nixl_deregister.
int cx_nixl_register(const cx_nixl_library *f, const cx_nixl_agent *a, cx_nixl_memory m, uintptr_t at, size_t bytes, size_t piece, void **list, const char **call);
int cx_nixl_deregister(const cx_nixl_library *f, const cx_nixl_agent *a, void *list, const char **call);

// cx_nixl_connect loads the metadata of a peer and connects. Once the metadata are loaded, *name is
// the peer's name, which the caller frees with free().
int cx_nixl_connect(const cx_nixl_library *f, const cx_nixl_agent *a, const void *metadata, size_t bytes, char **name, const char **call);

// A range of bytes, by its addresses in two processes.
typedef struct {
	uintptr_t local, remote;
	size_t bytes;
} cx_nixl_block;

// cx_nixl_prepare makes a request that moves n blocks between two memories.
int cx_nixl_prepare(const cx_nixl_library *f, const cx_nixl_agent *a, int op, const char *name, cx_nixl_memory here, cx_nixl_memory there, const cx_nixl_block *blocks, size_t n, void **request, const char **call);
// cx_nixl_release releases a request, which may be in flight.
int cx_nixl_release(const cx_nixl_library *f, const cx_nixl_agent *a, void *request, const char **call);

#endif
