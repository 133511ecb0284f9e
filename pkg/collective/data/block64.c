#define CX_WORD unsigned long long
#define MAKE cx_make_64
#include "block.h"
