#define _GNU_SOURCE
#include "python.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

/* PyMethodDef of the stable ABI. */
typedef PyObject *(*cx_method)(PyObject *self, PyObject *arg);
typedef struct {
	const char *name;
	cx_method method;
	int flags;
	const char *doc;
} cx_method_def;

enum { METHOD_ONE_ARGUMENT = 0x0008, FILE_INPUT = 257 };

#define CX_PY_FUNCTIONS(F)                                                                \
	F(const char *, Py_GetVersion, (void))                                            \
	F(void, Py_InitializeEx, (int))                                                   \
	F(void *, PyEval_SaveThread, (void))                                              \
	F(void, PyEval_RestoreThread, (void *))                                           \
	F(int, PyGILState_Ensure, (void))                                                 \
	F(void, PyGILState_Release, (int))                                                \
	F(PyObject *, PyImport_AddModule, (const char *))                                 \
	F(PyObject *, PyModule_GetDict, (PyObject *))                                     \
	F(PyObject *, PyImport_ImportModule, (const char *))                              \
	F(PyObject *, Py_CompileString, (const char *, const char *, int))                \
	F(PyObject *, PyEval_EvalCode, (PyObject *, PyObject *, PyObject *))              \
	F(PyObject *, PyEval_GetBuiltins, (void))                                         \
	F(int, PyDict_SetItemString, (PyObject *, const char *, PyObject *))              \
	F(PyObject *, PyObject_CallObject, (PyObject *, PyObject *))                      \
	F(PyObject *, PyObject_GetAttrString, (PyObject *, const char *))                 \
	F(int, PyObject_SetAttrString, (PyObject *, const char *, PyObject *))            \
	F(PyObject *, PyObject_Str, (PyObject *))                                         \
	F(PyObject *, PyTuple_New, (cx_ssize))                                            \
	F(int, PyTuple_SetItem, (PyObject *, cx_ssize, PyObject *))                       \
	F(PyObject *, PyLong_FromLongLong, (long long))                                   \
	F(long long, PyLong_AsLongLong, (PyObject *))                                     \
	F(PyObject *, PyUnicode_FromStringAndSize, (const char *, cx_ssize))              \
	F(PyObject *, PyUnicode_AsUTF8String, (PyObject *))                               \
	F(PyObject *, PyBytes_FromStringAndSize, (const char *, cx_ssize))                \
	F(int, PyBytes_AsStringAndSize, (PyObject *, char **, cx_ssize *))                \
	F(PyObject *, PyCFunction_NewEx, (cx_method_def *, PyObject *, PyObject *))       \
	F(void, PyErr_Fetch, (PyObject **, PyObject **, PyObject **))                     \
	F(void, PyErr_NormalizeException, (PyObject **, PyObject **, PyObject **))        \
	F(void, PyErr_SetString, (PyObject *, const char *))                              \
	F(PyObject *, PyErr_Occurred, (void))                                             \
	F(void, PyErr_Clear, (void))                                                      \
	F(void, Py_IncRef, (PyObject *))                                                  \
	F(void, Py_DecRef, (PyObject *))

static struct {
#define CX_MEMBER(ret, name, params) ret(*name) params;
	CX_PY_FUNCTIONS(CX_MEMBER)
#undef CX_MEMBER
} py;

const char *cx_py_name(int function)
{
	static const char *const names[] = {
#define CX_NAME(ret, name, params) #name,
		CX_PY_FUNCTIONS(CX_NAME) NULL
#undef CX_NAME
	};
	return names[function];
}

void cx_py_set(int function, void *address) { ((void **)&py)[function] = address; }

const char *cx_py_version(void) { return py.Py_GetVersion(); }

static PyObject *none;
static PyObject *describe; /* describe of host.py, the module that Go loads first */

void cx_py_start(void)
{
	py.Py_InitializeEx(0); /* no signal handlers */
	none = py.PyObject_GetAttrString(py.PyImport_AddModule("builtins"), "None");
	py.PyEval_SaveThread();
}

static void drop(PyObject *o)
{
	if (o)
		py.Py_DecRef(o);
}

/* Returns a copy of a str or bytes object, ended by a NUL; NULL if it is neither. */
static char *copy_text(PyObject *o, size_t *bytes)
{
	PyObject *encoded = NULL;
	char *data, *copy = NULL;
	cx_ssize n;
	if (!o)
		return NULL;
	if (py.PyBytes_AsStringAndSize(o, &data, &n) != 0) {
		py.PyErr_Clear();
		encoded = py.PyUnicode_AsUTF8String(o);
		if (!encoded || py.PyBytes_AsStringAndSize(encoded, &data, &n) != 0) {
			py.PyErr_Clear();
			drop(encoded);
			return NULL;
		}
	}
	copy = malloc(n + 1);
	memcpy(copy, data, n);
	copy[n] = 0;
	if (bytes)
		*bytes = n;
	drop(encoded);
	return copy;
}

/* Returns the current exception and clears it. */
static cx_result exception(void)
{
	cx_result r = {.failed = 1};
	PyObject *parts[3], *args = NULL, *text = NULL;
	py.PyErr_Fetch(&parts[0], &parts[1], &parts[2]);
	py.PyErr_NormalizeException(&parts[0], &parts[1], &parts[2]);
	if (describe && (args = py.PyTuple_New(3))) {
		for (int i = 0; i < 3; i++) {
			PyObject *part = parts[i] ? parts[i] : none;
			py.Py_IncRef(part);
			py.PyTuple_SetItem(args, i, part);
		}
		text = py.PyObject_CallObject(describe, args);
		if (!text)
			py.PyErr_Clear();
	}
	if (!text && parts[1]) {
		text = py.PyObject_Str(parts[1]);
		if (!text)
			py.PyErr_Clear();
	}
	r.text = copy_text(text, &r.bytes);
	drop(text);
	drop(args);
	for (int i = 0; i < 3; i++)
		drop(parts[i]);
	return r;
}

static cx_result returned(PyObject *o)
{
	if (!o)
		return exception();
	return (cx_result){.object = o};
}

cx_result cx_py_load(const char *name, const char *source)
{
	int gil = py.PyGILState_Ensure();
	cx_result r;
	PyObject *module = py.PyImport_AddModule(name); /* borrowed */
	PyObject *dict = module ? py.PyModule_GetDict(module) : NULL;
	PyObject *code = NULL, *value = NULL;
	if (dict && py.PyDict_SetItemString(dict, "__builtins__", py.PyEval_GetBuiltins()) == 0)
		code = py.Py_CompileString(source, name, FILE_INPUT);
	if (code)
		value = py.PyEval_EvalCode(code, dict, dict);
	if (value) {
		py.Py_IncRef(module);
		r = returned(module);
		if (!describe)
			describe = py.PyObject_GetAttrString(module, "describe");
	} else {
		r = exception();
	}
	drop(value);
	drop(code);
	py.PyGILState_Release(gil);
	return r;
}

cx_result cx_py_attribute(PyObject *of, const char *name)
{
	int gil = py.PyGILState_Ensure();
	cx_result r = returned(py.PyObject_GetAttrString(of, name));
	py.PyGILState_Release(gil);
	return r;
}

cx_result cx_py_call(PyObject *callable, const int64_t *values, int count)
{
	int gil = py.PyGILState_Ensure();
	PyObject *args = count ? py.PyTuple_New(count) : NULL;
	cx_result r;
	for (int i = 0; i < count; i++)
		py.PyTuple_SetItem(args, i, py.PyLong_FromLongLong(values[i]));
	r = returned(py.PyObject_CallObject(callable, args));
	drop(args);
	if (!r.failed) {
		PyObject *o = r.object;
		r.object = NULL;
		if (o != none) {
			r.number = py.PyLong_AsLongLong(o);
			if (r.number == -1 && py.PyErr_Occurred())
				r = exception();
		}
		drop(o);
	}
	py.PyGILState_Release(gil);
	return r;
}

cx_result cx_py_text(PyObject *callable, const char *arg, size_t bytes)
{
	int gil = py.PyGILState_Ensure();
	PyObject *args = py.PyTuple_New(1);
	cx_result r;
	py.PyTuple_SetItem(args, 0, py.PyUnicode_FromStringAndSize(arg, bytes));
	r = returned(py.PyObject_CallObject(callable, args));
	drop(args);
	if (!r.failed) {
		PyObject *o = r.object;
		r.object = NULL;
		if (o != none)
			r.text = copy_text(o, &r.bytes);
		drop(o);
	}
	py.PyGILState_Release(gil);
	return r;
}

/* Other Python threads can run during the Go call. */
static PyObject *call_go(PyObject *self, PyObject *arg)
{
	long long number = py.PyLong_AsLongLong(self);
	size_t bytes = 0;
	char *text = copy_text(arg, &bytes);
	PyObject *value = NULL, *error;
	struct cxPythonCallback_return answer;
	void *state;
	if (!text) {
		error = py.PyObject_GetAttrString(py.PyImport_AddModule("builtins"), "TypeError");
		py.PyErr_SetString(error, "a callback takes bytes");
		drop(error);
		return NULL;
	}
	state = py.PyEval_SaveThread();
	answer = cxPythonCallback(number, text, bytes);
	py.PyEval_RestoreThread(state);
	free(text);
	if (answer.r2) {
		error = py.PyObject_GetAttrString(py.PyImport_AddModule("builtins"), "RuntimeError");
		py.PyErr_SetString(error, answer.r0);
		drop(error);
	} else {
		value = py.PyBytes_FromStringAndSize(answer.r0, answer.r1);
	}
	free(answer.r0);
	return value;
}

cx_result cx_py_callback(const char *module, const char *name, int64_t number)
{
	static cx_method_def call = {"callback", call_go, METHOD_ONE_ARGUMENT, NULL};
	int gil = py.PyGILState_Ensure();
	PyObject *self = py.PyLong_FromLongLong(number);
	PyObject *function = self ? py.PyCFunction_NewEx(&call, self, NULL) : NULL;
	PyObject *of = py.PyImport_AddModule(module); /* borrowed */
	cx_result r = {0};
	if (!function || !of || py.PyObject_SetAttrString(of, name, function) != 0)
		r = exception();
	drop(function);
	drop(self);
	py.PyGILState_Release(gil);
	return r;
}

void cx_py_flush(void) { fflush(NULL); }

struct cx_signals {
	struct sigaction of[65];
	int known[65];
};

cx_signals *cx_signals_save(void)
{
	cx_signals *s = calloc(1, sizeof *s);
	for (int n = 1; n < 65; n++)
		s->known[n] = sigaction(n, NULL, &s->of[n]) == 0;
	return s;
}

void cx_signals_restore(cx_signals *s)
{
	struct sigaction now;
	for (int n = 1; n < 65; n++)
		if (s->known[n] && sigaction(n, NULL, &now) == 0 &&
			(now.sa_sigaction != s->of[n].sa_sigaction || now.sa_flags != s->of[n].sa_flags))
			sigaction(n, &s->of[n], NULL);
	free(s);
}
