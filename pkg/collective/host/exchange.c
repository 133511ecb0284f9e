// Operations in which only some ranks take part, or with parts of unequal size. Each pair of ranks has
// a box for each direction. A sender posts the address of its part there and continues. Before the
// operation ends, it waits until the receiver has copied the part. Ranks with nothing to exchange
// do not synchronise. Small parts are exchanged in the same way: from 128 bytes on, one copy and an
// acknowledgement are faster than a copy into the box and one out of it.

#include <string.h>

#include "reduce.h"
#include "state.h"

static box *box_of(const cx_comm *c, int from, int to) {
	box *all = (box *)(void *)&c->control->desks[c->world];
	return &all[from * c->world + to];
}

// Values on which sender and receiver must agree; op and type fit into a byte.
static uint32_t fingerprint(const cx_call *k, int64_t bytes) {
	uint64_t h = (uint64_t)bytes * 0x9e3779b97f4a7c15u ^ ((uint64_t)k->op << 8 | (uint64_t)k->type);
	h *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(h >> 32);
}

static void put(cx_comm *c, const cx_call *k, int to, const char *part, int64_t bytes) {
	box *b = box_of(c, c->rank, to);
	b->what = fingerprint(k, bytes);
	b->at = part - c->heaps[c->rank];
	cx_raise(c, &b->sent, &b->sleepers, ++c->turns[to].sent);
}

void cx_copy(const cx_comm *c, char *to, const char *from, int64_t bytes) {
	void *target = to;
	int stream = 2 * bytes > c->cache;
	cx_multicast(from, bytes, &target, 1, stream);
	if (stream) cx_drain();
}

static int take(cx_comm *c, const cx_call *k, int from, char *part, int64_t bytes, int *culprit) {
	box *b = box_of(c, from, c->rank);
	uint32_t turn = ++c->turns[from].taken;
	int rc = cx_await(c, &b->sent, &b->sleepers, turn, culprit);
	if (rc != CX_OK) return rc;
	if (b->what != fingerprint(k, bytes)) {
		*culprit = from;
		return CX_DISAGREE;
	}
	cx_copy(c, part, c->heaps[from] + b->at, bytes);
	cx_raise(c, &b->taken, &b->sleepers, turn);
	return CX_OK;
}

// Waits until the receiver has taken what was posted for it.
static int settle(cx_comm *c, int to, int *culprit) {
	box *b = box_of(c, c->rank, to);
	return cx_await(c, &b->taken, &b->sleepers, c->turns[to].sent, culprit);
}

// In each step, ranks that differ in one bit swap everything received so far.
int cx_hypercube(cx_comm *c, const cx_call *k, int *culprit) {
	int64_t part = k->count * (int64_t)cx_type_size((int)k->type);
	int me = c->rank, rc;
	char *recv = (char *)k->recv;
	if (!cx_inside(c, k->send, part) || !cx_inside(c, k->recv, part * c->world)) return CX_OUTSIDE;
	cx_copy(c, recv + me * part, (const char *)k->send, part);
	for (int mask = 1; mask < c->world; mask <<= 1) {
		int peer = me ^ mask, mine = me & ~(mask - 1), theirs = mine ^ mask;
		put(c, k, peer, recv + mine * part, mask * part);
		if ((rc = take(c, k, peer, recv + theirs * part, mask * part, culprit)) != CX_OK) return rc;
		if ((rc = settle(c, peer, culprit)) != CX_OK) return rc;
	}
	return CX_OK;
}

// Sends to the next rank and receives from the previous one.
int cx_ring(cx_comm *c, const cx_call *k, int *culprit) {
	int64_t part = k->count * (int64_t)cx_type_size((int)k->type);
	int next = (c->rank + 1) % c->world, before = (c->rank + c->world - 1) % c->world, rc;
	if (!cx_inside(c, k->send, part) || !cx_inside(c, k->recv, part)) return CX_OUTSIDE;
	if (c->world == 1) {
		cx_copy(c, (char *)k->recv, (const char *)k->send, part);
		return CX_OK;
	}
	put(c, k, next, (const char *)k->send, part);
	if ((rc = take(c, k, before, (char *)k->recv, part, culprit)) != CX_OK) return rc;
	return settle(c, next, culprit);
}

int cx_exchange(cx_comm *c, const cx_call *k, int *culprit) {
	int64_t size = (int64_t)cx_type_size((int)k->type);
	int w = c->world, me = c->rank, rc;
	// The four lists of Form.Exchange.
	const int64_t *sent = k->exchange, *sent_at = sent + w, *received = sent_at + w, *received_at = received + w;
	const char *send = (const char *)k->send;
	char *recv = (char *)k->recv;
	for (int r = 0; r < w; r++) {
		if (sent[r] && !cx_inside(c, k->send + (uintptr_t)(sent_at[r] * size), sent[r] * size)) return CX_OUTSIDE;
		if (received[r] && !cx_inside(c, k->recv + (uintptr_t)(received_at[r] * size), received[r] * size)) return CX_OUTSIDE;
	}
	for (int i = 1; i < w; i++) {
		int to = (me + i) % w;
		if (sent[to]) put(c, k, to, send + sent_at[to] * size, sent[to] * size);
	}
	if (sent[me]) cx_copy(c, recv + received_at[me] * size, send + sent_at[me] * size, sent[me] * size);
	for (int i = 1; i < w; i++) {
		int from = (me + w - i) % w;
		if (received[from] && (rc = take(c, k, from, recv + received_at[from] * size, received[from] * size, culprit)) != CX_OK) return rc;
	}
	for (int to = 0; to < w; to++) {
		if (to != me && (rc = settle(c, to, culprit)) != CX_OK) return rc;
	}
	return CX_OK;
}
