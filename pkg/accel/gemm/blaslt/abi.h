// The C ABI of cuBLASLt and hipBLASLt as declared by this project, of cublasLt.h 13.0 and
// hipblaslt.h 1.0; nothing here is a vendor header. Both have the same functions, with other numbers.
#ifndef CX_GEMM_BLASLT_ABI_H
#define CX_GEMM_BLASLT_ABI_H

#include <stddef.h>
#include <stdint.h>

// name and parameters. The symbol is the name with "cublasLt" or "hipblasLt" before it, the
// result a status, and a void * without const an opaque handle or memory of the device.
#define CX_BLASLT_FUNCTIONS(X) \
	X(Create, (void **handle)) \
	X(Destroy, (void *handle)) \
	X(MatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading)) \
	X(MatrixLayoutDestroy, (void *layout)) \
	X(MatmulDescCreate, (void **desc, int compute, int scale)) \
	X(MatmulDescDestroy, (void *desc)) \
	X(MatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t bytes)) \
	X(MatmulPreferenceCreate, (void **preference)) \
	X(MatmulPreferenceDestroy, (void *preference)) \
	X(MatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value, size_t bytes)) \
	X(MatmulAlgoGetHeuristic, (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int most, void *found, int *count)) \
	X(Matmul, (void *handle, void *desc, const float *alpha, const void *a, void *layoutA, const void *b, void *layoutB, const float *beta, const void *c, void *layoutC, void *d, void *layoutD, const void *algorithm, void *workspace, size_t workspaceBytes, void *stream))

typedef struct {
#define CX_BLASLT_FIELD(name, params) int (*name) params;
	CX_BLASLT_FUNCTIONS(CX_BLASLT_FIELD)
#undef CX_BLASLT_FIELD
} cx_blaslt_library;

// How many entries the table has, and the name of entry i.
int cx_blaslt_count(void);
const char *cx_blaslt_name(int i);
// cx_blaslt_set fills entry i.
void cx_blaslt_set(cx_blaslt_library *f, int i, void *address);

// The version functions are the only ones that differ.
int cx_blaslt_version_of_cublas(void *function);
int cx_blaslt_version_of_hipblas(void *function, void *handle, int *version);

// The numbers of constants in one of the libraries.
typedef struct {
	int compute;         // the compute type float
	int transposeA;      // the attribute of a description that transposes A
	int transpose;       // the value of that attribute for a transposed matrix
	int maxWorkspace;    // the attribute of a preference: bytes
	int reductions;      // … the mask of reduction schemes, or −1 without one
	int reduceInCompute; // the scheme that reduces in the type of the computation
	int alignmentA;      // … the minimum alignment of A, followed by the attributes for B, C and D; or −1
} cx_blaslt_words;

// A product C [m, n] = A [m, k] times the transpose of B [n, k], by rows, of one element type.
typedef struct {
	int type;
	int64_t m, n, k;
	uint32_t alignmentA, alignmentB, alignmentC; // of the addresses, in bytes
	uint64_t workspace;                          // bytes at most
} cx_blaslt_product;

// A product that was prepared.
typedef struct {
	void *desc, *layoutA, *layoutB, *layoutC;
	// found is the result of the heuristic. It begins with the algorithm; what follows differs
	// between releases of hipBLASLt, and the size is more than any of them needs.
	uint64_t found[64];
} cx_blaslt_plan;

// The status for a product without an algorithm. The libraries do not use this number.
enum { CX_BLASLT_NONE = -1 };

// cx_blaslt_prepare returns the status of the failed or else the last call, and sets *call to its
// name. cx_blaslt_release frees the objects of a plan, also after cx_blaslt_prepare has failed.
int cx_blaslt_prepare(const cx_blaslt_library *f, void *handle, const cx_blaslt_words *w, const cx_blaslt_product *p, cx_blaslt_plan *plan, const char **call);
int cx_blaslt_release(const cx_blaslt_library *f, cx_blaslt_plan *plan, const char **call);

// cx_blaslt_multiply enqueues a product.
int cx_blaslt_multiply(const cx_blaslt_library *f, void *handle, const cx_blaslt_plan *plan, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t workspace, size_t workspaceBytes, uintptr_t stream);

#endif
