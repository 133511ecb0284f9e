// A library with the functions of NIXL, none of which does anything.
#include "../abi.h"

#ifndef STUB
#define STUB 0
#endif

#define CX_DEFINE(result, name, params) result nixl_capi_##name params { return STUB; }
CX_NIXL_FUNCTIONS(CX_DEFINE)

#ifdef SORTED
int nixl_capi_xfer_dlist_is_sorted(void *list, bool *sorted) { return 0; }
#endif
