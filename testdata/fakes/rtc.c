/*
 * The run-time compiler: libnvrtc.so.13, or libhiprtc.so.6 when compiled with
 * HIP defined. It compiles the source it is given with g++ (CX_FAKE_CXX) through
 * shim.h, which lies beside this library, into an image for the fake driver.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef HIP
#define FN(nvrtc, hiprtc) hiprtc
#else
#define FN(nvrtc, hiprtc) nvrtc
#endif

extern char **environ;

/* NVRTC and HIPRTC number these alike. */
enum { OK = 0, OUT_OF_MEMORY = 1, CREATION_FAILED = 2, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

static const char *const architectures[] = {
#ifdef HIP
	"gfx90a", "gfx942", "gfx950",
#else
	"sm_80", "sm_90", "sm_100", "sm_103",
#endif
	NULL,
};

struct program {
	char *source, *name, *log, *image;
	size_t image_bytes;
};

EXPORT const char *FN(nvrtcGetErrorString, hiprtcGetErrorString)(int code)
{
	static const char *const names[] = {"SUCCESS", "ERROR_OUT_OF_MEMORY", "ERROR_PROGRAM_CREATION_FAILURE",
		"ERROR_INVALID_INPUT", "ERROR_INVALID_PROGRAM", "ERROR_INVALID_OPTION", "ERROR_COMPILATION"};
	static char text[64];
	if (code < 0 || code > COMPILATION)
		return "ERROR unknown";
	snprintf(text, sizeof text, FN("NVRTC_%s", "HIPRTC_%s"), names[code]);
	return text;
}

EXPORT int FN(nvrtcVersion, hiprtcVersion)(int *major, int *minor)
{
	*major = FN(13, 6);
	*minor = FN(0, 4);
	return OK;
}

EXPORT int FN(nvrtcCreateProgram, hiprtcCreateProgram)(void **out, const char *source, const char *name, int headers,
	const char *const *header_sources, const char *const *header_names)
{
	struct program *p;
	(void)header_sources, (void)header_names;
	if (!out || !source || headers != 0)
		return INVALID_INPUT;
	p = calloc(1, sizeof *p);
	p->source = strdup(source);
	p->name = strdup(name ? name : "default_program");
	p->log = strdup("");
	*out = p;
	return OK;
}

EXPORT int FN(nvrtcDestroyProgram, hiprtcDestroyProgram)(void **program)
{
	struct program *p = program ? *program : NULL;
	if (!p)
		return INVALID_PROGRAM;
	free(p->source);
	free(p->name);
	free(p->log);
	free(p->image);
	free(p);
	*program = NULL;
	return OK;
}

static int word(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void blank_comments(char *source)
{
	for (char *p = source; *p; p++) {
		const char *ends = p[0] != '/' ? NULL : p[1] == '/' ? "\n" : p[1] == '*' ? "*/" : NULL;
		char *end = ends ? strstr(p + 2, ends) : NULL;
		if (!ends)
			continue;
		end = end ? end + strlen(ends) : p + strlen(p);
		memset(p, ' ', end - p);
		p = end - 1;
	}
}

/* Appends a CX_FAKE_KERNEL line for each kernel: the word behind __global__
 * that an opening parenthesis follows, past any __launch_bounds__(…). */
static void list_kernels(FILE *out, const char *source)
{
	char *plain = strdup(source);
	blank_comments(plain);
	for (const char *p = plain; (p = strstr(p, "__global__")) != NULL;) {
		const char *open = strchr(p, '('), *bounds = strstr(p, "__launch_bounds__"), *end, *start;
		if (open && bounds && bounds < open) {
			const char *close = strchr(open, ')');
			open = close ? strchr(close, '(') : NULL;
		}
		if (!open)
			break;
		for (end = open; !word(end[-1]); end--)
			;
		for (start = end; word(start[-1]); start--)
			;
		fprintf(out, "CX_FAKE_KERNEL(%.*s)\n", (int)(end - start), start);
		p = open;
	}
	free(plain);
}

static char *slurp(const char *path, size_t *bytes)
{
	struct stat st;
	char *data;
	FILE *f = fopen(path, "rb");
	if (!f || fstat(fileno(f), &st) != 0)
		return NULL;
	data = calloc(1, st.st_size + 1);
	*bytes = fread(data, 1, st.st_size, f);
	fclose(f);
	return data;
}

static int say(struct program *p, int rc, const char *text)
{
	free(p->log);
	p->log = strdup(text);
	return rc;
}

static int read_options(struct program *p, int count, const char *const *options, char *arch, size_t cap)
{
	static const char prefix[] = FN("--gpu-architecture=", "--offload-arch=");
	char text[512];
	arch[0] = 0;
	for (int i = 0; i < count; i++) {
		if (strncmp(options[i], prefix, sizeof prefix - 1) == 0) {
			snprintf(arch, cap, "%s", options[i] + sizeof prefix - 1);
		} else if (strcmp(options[i], FN("--std=c++17", "-std=c++17")) != 0 &&
			   strcmp(options[i], FN("--device-as-default-execution-space", "")) != 0 &&
			   strcmp(options[i], FN("--fmad=false", "-ffp-contract=off")) != 0) {
			snprintf(text, sizeof text, "error: unrecognized option %s found", options[i]);
			return say(p, INVALID_OPTION, text);
		}
	}
	for (int i = 0; architectures[i]; i++) {
		size_t n = strlen(architectures[i]);
		if (strncmp(arch, architectures[i], n) == 0 && (arch[n] == 0 || arch[n] == ':'))
			return OK;
	}
	snprintf(text, sizeof text, "error: invalid value for %s (%s)", prefix, arch);
	return say(p, INVALID_OPTION, text);
}

EXPORT int FN(nvrtcCompileProgram, hiprtcCompileProgram)(void *program, int count, const char *const *options)
{
	struct program *p = program;
	char dir[4096], source[4200], image[4200], log[4200], shim[4200], include[4200], arch[128], *slash;
	const char *cxx = getenv("CX_FAKE_CXX");
	posix_spawn_file_actions_t files;
	size_t bytes;
	FILE *f;
	Dl_info self;
	pid_t pid;
	int status, rc = read_options(p, count, options, arch, sizeof arch);
	if (rc)
		return rc;

	snprintf(dir, sizeof dir, "%s/rtc-XXXXXX", getenv("CX_FAKE_DIR") ? getenv("CX_FAKE_DIR") : "/tmp");
	if (!mkdtemp(dir) || !dladdr((void *)list_kernels, &self))
		return say(p, CREATION_FAILED, strerror(errno));
	snprintf(source, sizeof source, "%s/kernel.cpp", dir);
	snprintf(image, sizeof image, "%s/kernel.so", dir);
	snprintf(log, sizeof log, "%s/log", dir);
	snprintf(include, sizeof include, "%s", self.dli_fname);
	slash = strrchr(include, '/');
	*slash = 0;
	snprintf(shim, sizeof shim, "%s/shim.h", include);

	f = fopen(source, "w");
	if (!f)
		return say(p, CREATION_FAILED, strerror(errno));
	fprintf(f, "#line 1 \"%s\"\n%s\n", p->name, p->source);
	list_kernels(f, p->source);
	fprintf(f, "extern \"C\" __attribute__((visibility(\"default\"))) const char cx_kernel_arch[] = \"%s\";\n", arch);
	fclose(f);

	char *argv[] = {(char *)(cxx && *cxx ? cxx : "g++"), "-O2", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden",
		"-fno-gnu-unique", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-w", "-include", shim, "-o", image, source, NULL};
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	rc = posix_spawnp(&pid, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (rc)
		return say(p, CREATION_FAILED, strerror(rc));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	free(p->log);
	p->log = slurp(log, &bytes);
	if (!p->log)
		p->log = strdup("error: the compiler left no log");
	free(p->image);
	p->image = status == 0 ? slurp(image, &p->image_bytes) : NULL;
	unlink(source);
	unlink(image);
	unlink(log);
	rmdir(dir);
	return p->image ? OK : COMPILATION;
}

EXPORT int FN(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize)(void *program, size_t *bytes)
{
	struct program *p = program;
	*bytes = strlen(p->log) + 1;
	return OK;
}

EXPORT int FN(nvrtcGetProgramLog, hiprtcGetProgramLog)(void *program, char *text)
{
	struct program *p = program;
	strcpy(text, p->log);
	return OK;
}

EXPORT int FN(nvrtcGetCUBINSize, hiprtcGetCodeSize)(void *program, size_t *bytes)
{
	struct program *p = program;
	*bytes = p->image_bytes;
	return p->image ? OK : INVALID_PROGRAM;
}

EXPORT int FN(nvrtcGetCUBIN, hiprtcGetCode)(void *program, char *image)
{
	struct program *p = program;
	if (!p->image)
		return INVALID_PROGRAM;
	memcpy(image, p->image, p->image_bytes);
	return OK;
}
