package dl

/*
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static const char *cx_variable(size_t i) { return environ == NULL ? NULL : environ[i]; }

struct cx_wanted { const char *prefix; char *path; };

static int cx_compare(struct dl_phdr_info *info, size_t size, void *data) {
	struct cx_wanted *w = data;
	const char *slash = strrchr(info->dlpi_name, '/');
	if (slash == NULL || strncmp(slash + 1, w->prefix, strlen(w->prefix)) != 0) return 0;
	w->path = strdup(info->dlpi_name);
	return 1;
}

static char *cx_loaded(const char *prefix) {
	struct cx_wanted w = {prefix, NULL};
	dl_iterate_phdr(cx_compare, &w);
	return w.path;
}
*/
import "C"

import "unsafe"

// Environ returns the variables of this process as C libraries see them ("NAME=value"). Unlike
// os.Environ, it has those that libraries set.
func Environ() (environ []string) {
	for i := C.size_t(0); ; i++ {
		kv := C.cx_variable(i)
		if kv == nil {
			return environ
		}
		environ = append(environ, C.GoString(kv))
	}
}

// Loaded returns the file of a loaded library whose name begins with prefix, or the zero File.
func Loaded(prefix string) (f File) {
	name := C.CString(prefix)
	defer C.free(unsafe.Pointer(name))
	path := C.cx_loaded(name)
	defer C.free(unsafe.Pointer(path))
	if path != nil {
		f.path = C.GoString(path)
		f.id, _ = readIdentity(f.path) // see open
	}
	return f
}
