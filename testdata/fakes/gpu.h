/*
 * A make-believe accelerator in host memory, behind CUDA's and HIP's names.
 *
 * Device memory of a process is one sparse file per device under CX_FAKE_DIR,
 * so that another process can map it (cx_fake_locate). Device addresses are not
 * readable by the host: the mapping at those addresses opens only while a
 * kernel runs; the driver itself uses a second mapping of the same file.
 * Streams are worker threads; nothing runs in the calling thread.
 *
 * What it enforces are the drivers' own rules; see each function. It knows no
 * benchmark and no answer.
 *
 * Settings, read by cuInit or hipInit while no device is in use:
 *   CX_FAKE_DIR      directory for device memory and compiled kernels (required)
 *   CX_FAKE_DEVICES  number of devices (2)
 *   CX_FAKE_MEMORY   bytes of each device (2 GiB)
 *   CX_FAKE_NAME     product name; of devices in their order, separated by |,
 *                    where the last stands for all that follow
 *   CX_FAKE_ARCH     architecture (sm_90; gfx942:sramecc+:xnack-)
 *   CX_FAKE_VERSION  driver version code (13000; 60443483)
 *   CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES  which of them are seen, by number
 *   CX_FAKE_VMM_FD   0: devices cannot share virtual memory by file descriptors
 *   CX_FAKE_FABRIC   1: devices can share virtual memory with other hosts; no-channel: this process
 *                    has no IMEX channel for it
 *   CX_FAKE_GRAPH_DROP  name of a kernel whose launches are left out of graphs
 *   CX_FAKE_DISTURBED  kernel=n: beside the work of other streams, launches of this
 *                    kernel are delayed until n copies have ended, or that work
 *   CX_FAKE_SLOW     FROM:TO:US  copies from the memory of one device to another's take
 *                    so many microseconds longer
 *   CX_FAKE_FAIL     name=code or name#n=code, separated by commas: the (n-th)
 *                    call of an exported function returns the code
 */
#ifndef CX_FAKE_GPU_H
#define CX_FAKE_GPU_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* CUDA and HIP number these alike. */
enum {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_IMAGE = 200,
	INVALID_CONTEXT = 201,
	NO_BINARY = 209,
	INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401,
	NOT_FOUND = 500,
	NOT_READY = 600,
	ILLEGAL_ADDRESS = 700,
	ALREADY_REGISTERED = 712,
	NOT_REGISTERED = 713,
	LAUNCH_FAILED = 719,
	NOT_PERMITTED = 800,
	NOT_SUPPORTED = 801,
	SYSTEM_NOT_READY = 802, /* these two are CUDA's alone */
	SYSTEM_DRIVER_MISMATCH = 803,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_WRONG_THREAD = 908,
	UNKNOWN = 999,
};

enum { MAX_DEVICES = 64 };

typedef int (*work_fn)(void *arg); /* returns an error code, which stays with the device */

/* Every handle begins with its kind; a destroyed one keeps its memory and
 * loses its kind, so that using it again is found. */
enum kind { STREAM = 0x5354524d, EVENT = 0x45564e54, GRAPH = 0x47524150, EXEC = 0x45584543, MODULE = 0x4d4f444c, FUNCTION = 0x46554e43, DEAD = 0xdead };

struct block {
	size_t offset, bytes;
	int reserved; /* an address range of virtual memory management */
	struct physical *memory; /* … what is mapped there */
	uint64_t accessible; /* … and the devices that may use it, a bit each */
	struct block *next;
};

struct device {
	int index;
	int retained; /* references to the primary context */
	int sticky;   /* error of asynchronous work */
	char path[4096];
	int file; /* at that path */
	char *base; /* device addresses */
	char *host; /* the same memory for the driver */
	size_t span; /* bytes of the mapping: twice the memory, for reserved ranges */
	size_t total, used;
	long copied; /* copies on its streams that have ended */
	struct block *blocks; /* by offset */
	struct stream *streams;
	struct stream *null_stream;
	pthread_mutex_t mutex;
};

/* Work of another library: shared by all nodes that may still run it. */
struct foreign {
	void (*fn)(void *);
	void *arg;
	void (*release)(void *);
	int references;
};

struct node {
	work_fn fn;
	struct foreign *foreign; /* instead of fn */
	size_t bytes;
	struct node *next;
	char arg[] __attribute__((aligned(16)));
};

struct graph {
	enum kind kind;
	struct node *first, **last;
};

struct stream {
	enum kind kind;
	struct device *dev;
	pthread_t thread;
	int started, closing;
	pthread_mutex_t mutex;
	pthread_cond_t wake, idle;
	struct node *first, **last;
	int pending;
	struct graph *capture;
	pthread_t capture_thread;
	int capture_broken;
	struct stream *next;
};

struct settings {
	int devices;
	int visible[MAX_DEVICES]; /* the number of each among all that are there */
	size_t memory;
	char dir[3072];
	char name[256];
	char arch[64];
	int version;
	int threads_start_on; /* device of a thread that bound none; -1: none */
};

extern struct settings settings;

/* device.c */
int fake_init(const char *default_name, const char *default_arch, int default_version, const char *visible, int threads_start_on);
void fake_name(int index, char *out, size_t cap); /* by the number among all */
int fake_injected(const char *function);
int fake_count(int *count);
int fake_retain(int index, struct device **dev);
int fake_release(int index);
int fake_bind(struct device *dev);
struct device *fake_device(int index);
int fake_current(struct device **dev);  /* error without a current, live device */
int fake_bind_index(int index);

/* memory.c */
int fake_map_device(struct device *dev);
void fake_unmap_device(struct device *dev);
void fake_drop_memory(struct device *dev);
int fake_alloc(struct device *dev, size_t bytes, uint64_t *p);
int fake_free(uint64_t p);
int fake_host_alloc(void **p, size_t bytes);
int fake_host_free(void *p);
int fake_host_register(void *p, size_t bytes);
int fake_host_unregister(void *p);
int fake_is_pinned(const void *p, size_t bytes);
uint32_t *fake_flag(uint64_t at); /* NULL unless an aligned word that a device may wait for */
int fake_registered_address(uint64_t *at, void *p); /* of registered memory, for a device */
char *fake_host_view(struct device *dev, uint64_t p, size_t bytes); /* NULL unless inside one live allocation */
struct device *fake_owner(uint64_t p);
/* A stream's first kernel makes device addresses readable, until the stream is idle:
 * to change the protection of every page at each kernel would take longer than the kernels. */
void fake_open_memory(void);
void fake_close_memory(void);
int fake_vmm_create(struct device *dev, size_t bytes, int handle_types, uint64_t *handle);
int fake_vmm_release(uint64_t handle);
int fake_vmm_export(int *descriptor, uint64_t handle);
int fake_vmm_import(struct device *dev, int descriptor, uint64_t *handle);
int fake_vmm_reserve(struct device *dev, size_t bytes, uint64_t *p);
int fake_vmm_address_free(uint64_t p, size_t bytes);
int fake_vmm_map(uint64_t p, size_t bytes, uint64_t handle);
int fake_vmm_unmap(uint64_t p, size_t bytes);
int fake_vmm_access(uint64_t p, size_t bytes, int device);
enum { VMM_GRANULE = 2 << 20, VMM_FILE_DESCRIPTOR = 1, VMM_FABRIC = 8 };
struct shared { char bytes[64]; };
int fake_share(struct shared *handle, uint64_t p);
int fake_open_shared(struct device *dev, uint64_t *p, const struct shared *handle);
int fake_close_shared(uint64_t p);

/* stream.c */
int fake_stream_create(struct device *dev, struct stream **s);
int fake_stream_destroy(struct stream *s);
int fake_stream_find(void *handle, struct stream **s); /* checks the handle; NULL is the default stream */
int fake_enqueue(struct stream *s, work_fn fn, const void *arg, size_t bytes);
int fake_enqueue_node(struct stream *s, struct node *n);
struct node *fake_copy_node(const struct node *n);
void fake_free_node(struct node *n);
int fake_stream_sync(struct stream *s);
int fake_stream_query(struct stream *s);
int fake_device_sync(struct device *dev);
void fake_disturb(struct stream *s, long copies);
int fake_unsafe(struct device *dev); /* a call that a capture of this thread forbids */
int fake_event_create(void **e, unsigned flags);
int fake_event_destroy(void *e);
int fake_event_record(void *e, struct stream *s);
int fake_event_record_external(void *e, struct stream *s);
int fake_stream_wait(struct stream *s, void *e);
int fake_wait_value(struct stream *s, uint64_t at, uint32_t value);
int fake_write_value(struct stream *s, uint64_t at, uint32_t value);
int fake_event_query(void *e);
int fake_event_elapsed(float *ms, void *a, void *b);
int fake_copy_in(uint64_t dst, const void *src, size_t bytes, struct stream *s);
int fake_copy_out(void *dst, uint64_t src, size_t bytes, struct stream *s);
int fake_copy(uint64_t dst, uint64_t src, size_t bytes, struct stream *s);
int fake_set(uint64_t dst, unsigned char value, size_t bytes, struct stream *s);

/* graph.c */
int fake_capture_begin(struct stream *s);
int fake_capture_end(struct stream *s, struct graph **g);
int fake_graph_instantiate(void **exec, struct graph *g);
int fake_graph_launch(void *exec, struct stream *s);
int fake_graph_destroy(void *g, enum kind kind);

/* module.c */
int fake_module_load(void **module, const void *image);
int fake_module_unload(void *module);
int fake_module_function(void **function, void *module, const char *name);
int fake_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, struct stream *s, void **params, void **extra);

/*
 * For other fakes, which find these in this library by dlsym.
 *
 * cx_fake_locate says in which file device memory at p lies, at which offset, and
 * how many bytes of its allocation follow; 0, or an error when p is none.
 * cx_fake_enqueue runs fn(arg) in stream order, once for each time the work is
 * launched (a captured stream's work with each launch of the graph), and
 * release(arg) when nothing can launch it again.
 * cx_fake_capturing says whether a stream is being captured.
 * cx_fake_relax lets this thread do while it captures what thread-local mode forbids, or not.
 * cx_fake_current says which device is current on the calling thread.
 * cx_fake_find says what memory p is in: of a device, of another process's device that this
 * one opened, or page-locked; 0, or an error when it is none.
 */
struct place {
	enum { PLACE_DEVICE, PLACE_OPENED, PLACE_PINNED } kind;
	int device, owner; /* that may access it, and that has it; -1 for page-locked memory */
	char *view;        /* of the allocation, for the host */
	uint64_t base, bytes;
};
EXPORT int cx_fake_find(const void *p, struct place *out);
EXPORT int cx_fake_locate(const void *p, char *path, size_t cap, uint64_t *offset, uint64_t *length);
EXPORT int cx_fake_enqueue(void *stream, void (*fn)(void *), void *arg, void (*release)(void *));
EXPORT int cx_fake_capturing(void *stream);
EXPORT void cx_fake_relax(int on);
EXPORT int cx_fake_current(int *device);

/* First line of every exported driver function. */
#define ENTER()                                     \
	do {                                        \
		int injected = fake_injected(__func__); \
		if (injected)                       \
			return injected;            \
	} while (0)

#endif
