#include "abi.h"

static const struct {
	const char *name;
	size_t offset;
} entries[] = {
#define CX_ENTRY(name, params) {#name, offsetof(cx_blaslt_library, name)},
	CX_BLASLT_FUNCTIONS(CX_ENTRY)
#undef CX_ENTRY
};

int cx_blaslt_count(void) { return sizeof entries / sizeof entries[0]; }

const char *cx_blaslt_name(int i) { return entries[i].name; }

void cx_blaslt_set(cx_blaslt_library *f, int i, void *address) { *(void **)((char *)f + entries[i].offset) = address; }

int cx_blaslt_version_of_cublas(void *function) { return (int)((size_t (*)(void))function)(); }

int cx_blaslt_version_of_hipblas(void *function, void *handle, int *version) { return ((int (*)(void *, int *))function)(handle, version); }

// CX_TRY makes a call unless an earlier one has failed.
#define CX_TRY(name, args) \
	do { \
		if (status == 0) { \
			*call = #name; \
			status = f->name args; \
		} \
	} while (0)

// CX_END frees an object, also after a failed call. It keeps the status of the failed call.
#define CX_END(name, object) \
	do { \
		int ended = (object) ? f->name(object) : 0; \
		if (status == 0 && ended != 0) { \
			*call = #name; \
			status = ended; \
		} \
	} while (0)

// The matrices are row-major, but the libraries expect column-major ones. A row-major [m, k] is a
// column-major [k, m]. The libraries therefore compute the transpose of C, a column-major [n, m],
// as the transpose of their first matrix, B, times their second matrix, A.
int cx_blaslt_prepare(const cx_blaslt_library *f, void *handle, const cx_blaslt_words *w, const cx_blaslt_product *p, cx_blaslt_plan *plan, const char **call) {
	enum { cx_float = 0 }; // CUDA_R_32F and HIP_R_32F
	int status = 0, found = 0;
	int32_t transpose = w->transpose;
	void *preference = NULL;
	CX_TRY(MatmulDescCreate, (&plan->desc, w->compute, cx_float));
	CX_TRY(MatmulDescSetAttribute, (plan->desc, w->transposeA, &transpose, sizeof transpose));
	CX_TRY(MatrixLayoutCreate, (&plan->layoutB, p->type, p->k, p->n, p->k));
	CX_TRY(MatrixLayoutCreate, (&plan->layoutA, p->type, p->k, p->m, p->k));
	CX_TRY(MatrixLayoutCreate, (&plan->layoutC, p->type, p->n, p->m, p->n));
	CX_TRY(MatmulPreferenceCreate, (&preference));
	CX_TRY(MatmulPreferenceSetAttribute, (preference, w->maxWorkspace, &p->workspace, sizeof p->workspace));
	if (w->reductions >= 0) {
		uint32_t mask = w->reduceInCompute;
		CX_TRY(MatmulPreferenceSetAttribute, (preference, w->reductions, &mask, sizeof mask));
	}
	if (w->alignmentA >= 0) {
		const uint32_t alignments[] = {p->alignmentB, p->alignmentA, p->alignmentC, p->alignmentC};
		for (int i = 0; i < 4; i++)
			CX_TRY(MatmulPreferenceSetAttribute, (preference, w->alignmentA + i, &alignments[i], sizeof alignments[i]));
	}
	CX_TRY(MatmulAlgoGetHeuristic, (handle, plan->desc, plan->layoutB, plan->layoutA, plan->layoutC, plan->layoutC, preference, 1, plan->found, &found));
	if (status == 0 && found < 1)
		status = CX_BLASLT_NONE;
	CX_END(MatmulPreferenceDestroy, preference);
	return status;
}

int cx_blaslt_release(const cx_blaslt_library *f, cx_blaslt_plan *plan, const char **call) {
	int status = 0;
	CX_END(MatrixLayoutDestroy, plan->layoutC);
	CX_END(MatrixLayoutDestroy, plan->layoutA);
	CX_END(MatrixLayoutDestroy, plan->layoutB);
	CX_END(MatmulDescDestroy, plan->desc);
	return status;
}

int cx_blaslt_multiply(const cx_blaslt_library *f, void *handle, const cx_blaslt_plan *plan, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t workspace, size_t workspaceBytes, uintptr_t stream) {
	static const float one = 1, zero = 0;
	return f->Matmul(handle, plan->desc, &one, (void *)b, plan->layoutB, (void *)a, plan->layoutA, &zero, (void *)c, plan->layoutC, (void *)c, plan->layoutC,
		plan->found, (void *)workspace, workspaceBytes, (void *)stream);
}
