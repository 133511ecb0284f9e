/* The stand-in's header, as far as kernels need it. */
#ifndef NCCL_H_
#define NCCL_H_

#define NCCL_VERSION_CODE 22809

typedef struct ncclWindow_vidmem *ncclWindow_t;

#endif
