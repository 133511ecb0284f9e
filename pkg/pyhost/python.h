/*
 * CPython through its stable ABI, in functions that take and return plain C types. Each acquires
 * and releases the GIL. A process has one interpreter, and so one table of functions.
 */
#ifndef CX_PYTHON_H
#define CX_PYTHON_H

#include <stddef.h>
#include <stdint.h>

typedef struct _object PyObject;

/* Py_ssize_t on Linux. */
typedef intptr_t cx_ssize;

/* A result or an exception. The caller frees text. */
typedef struct {
	PyObject *object; /* a new reference, or NULL */
	int64_t number;
	char *text;       /* of an exception: "type\nmessage\nplace" */
	size_t bytes;     /* of text */
	int failed;
} cx_result;

/* cx_py_name returns the name of a required function of libpython, NULL after the last one.
 * cx_py_set stores its address. */
const char *cx_py_name(int function);
void cx_py_set(int function, void *address);

const char *cx_py_version(void);

/* Starts the interpreter and releases the GIL. */
void cx_py_start(void);

/* Runs source as a new module called name and returns the module. */
cx_result cx_py_load(const char *name, const char *source);
cx_result cx_py_attribute(PyObject *of, const char *name);
/* Defines a callable in a module that passes its argument, bytes, to cxPythonCallback. */
cx_result cx_py_callback(const char *module, const char *name, int64_t number);
/* Calls with integers; the result is an integer or None, which is 0. */
cx_result cx_py_call(PyObject *callable, const int64_t *args, int count);
/* Calls with one string; the result is a string or None, which is empty. */
cx_result cx_py_text(PyObject *callable, const char *arg, size_t bytes);
void cx_py_flush(void);

/* The signal handlers of this process. */
typedef struct cx_signals cx_signals;
cx_signals *cx_signals_save(void);
void cx_signals_restore(cx_signals *); /* and frees */

#endif
