// Point-to-point operations as one group, for all who call the library in C.
#ifndef CX_NCCL_EXCHANGE_H
#define CX_NCCL_EXCHANGE_H

#include <stdbool.h>

#include "abi.h"

// cx_nccl_exchange enqueues what this rank sends to each of n ranks and receives
// from it, and returns the first result that is not success. Lists are four of n
// words, one behind another: elements to send to each rank and where they begin in
// send, elements to receive and where they go in recv. Elements have width bytes.
static inline int cx_nccl_exchange(const cx_nccl *f, cx_comm comm, cx_stream stream, int n, int type, size_t width,
                                   uintptr_t send, uintptr_t recv, const size_t *lists) {
	const size_t *sent = lists, *from = lists + n, *received = lists + 2 * n, *to = lists + 3 * n;
	int result = f->GroupStart();
	if (result != 0) return result;
	for (int r = 0; r < n && result == 0; r++) {
		if (sent[r] > 0) result = f->Send((const void *)(send + from[r] * width), sent[r], type, r, comm, stream);
		if (result == 0 && received[r] > 0) result = f->Recv((void *)(recv + to[r] * width), received[r], type, r, comm, stream);
	}
	int end = f->GroupEnd(); // also after a failure: an open group would swallow the abort that follows
	return result != 0 ? result : end;
}

// One end of a message, field by field nccl.Message.
typedef struct {
	int32_t peer;
	bool sends;
	uintptr_t at;
	int64_t bytes;
} cx_message;

// cx_nccl_send_recv enqueues n messages as one group, and returns the first result that is
// not success. They move as bytes, so that no type is too new for the library.
static inline int cx_nccl_send_recv(const cx_nccl *f, cx_comm comm, cx_stream stream, const cx_message *messages, int64_t n) {
	enum { UINT8 = 1 };
	int result = f->GroupStart();
	if (result != 0) return result;
	for (int64_t i = 0; i < n && result == 0; i++) {
		const cx_message *m = &messages[i];
		result = m->sends ? f->Send((const void *)m->at, (size_t)m->bytes, UINT8, m->peer, comm, stream)
		                  : f->Recv((void *)m->at, (size_t)m->bytes, UINT8, m->peer, comm, stream);
	}
	int end = f->GroupEnd(); // also after a failure
	return result != 0 ? result : end;
}

#endif
