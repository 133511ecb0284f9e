#define CX_WORD unsigned int
#define MAKE cx_make_32
#include "block.h"
