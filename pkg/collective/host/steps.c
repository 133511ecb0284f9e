// Steps of a schedule. A lane here is a place in memory for messages from one rank over one channel;
// it is not the lane of a transfer. The sender writes the address of its data to the lane. The receiver
// copies the data from the sender's heap and acknowledges, which ends the send.
//
// A rank has one thread, which advances its streams in turn. After some time without progress, it asks
// its peers to wake it after changes, checks once more, and sleeps.

#include "steps.h"

#include <stdlib.h>
#include <string.h>

#include "reduce.h"
#include "state.h"

typedef struct {
	_Alignas(128) flag sent; // by the sender: the sequence number
	int64_t at, bytes;       // at: offset in its heap
	_Alignas(128) flag taken; // by the receiver
} lane;

typedef struct {
	_Alignas(128) flag bell;
	_Atomic uint32_t sleepers; // above 0 while the rank sleeps
	lane lanes[]; // by sender and channel
} board;

struct cx_lanes {
	cx_comm *c;
	int channels;
	board **boards; // of all ranks
	uint32_t *sent, *taken; // counters of the lanes with each rank, before this call
	uint32_t *sent_now, *taken_now; // counters within this call
};

int64_t cx_lanes_bytes(int world, int channels) {
	return (int64_t)(sizeof(board) + (size_t)world * (size_t)channels * sizeof(lane));
}

cx_lanes *cx_lanes_open(cx_comm *c, uintptr_t memory, int channels) {
	size_t world = (size_t)c->world, n = world * (size_t)channels;
	cx_lanes *l = calloc(1, sizeof *l);
	if (!l) return NULL;
	*l = (cx_lanes){.c = c, .channels = channels, .boards = calloc(world, sizeof *l->boards), .sent = calloc(4 * n, sizeof *l->sent)};
	if (!l->boards || !l->sent) {
		cx_lanes_close(l);
		return NULL;
	}
	l->taken = l->sent + n;
	l->sent_now = l->taken + n;
	l->taken_now = l->sent_now + n;
	int64_t offset = (char *)memory - c->heaps[c->rank];
	for (int r = 0; r < c->world; r++) l->boards[r] = (board *)(void *)(c->heaps[r] + offset);
	memset(l->boards[c->rank], 0, (size_t)cx_lanes_bytes(c->world, channels));
	return l;
}

void cx_lanes_close(cx_lanes *l) {
	free(l->boards);
	free(l->sent);
	free(l);
}

// Sets a flag for which a rank may wait. A rank with its own processor is not woken, since it never
// sleeps for long.
static void publish(cx_lanes *l, int r, flag *f, uint32_t value) {
	board *b = l->boards[r];
	if (!l->c->crowded) {
		atomic_store_explicit(f, value, memory_order_release);
		return;
	}
	atomic_store(f, value);
	if (!atomic_load(&b->sleepers)) return;
	atomic_fetch_add(&b->bell, 1);
	cx_wake(&b->bell);
}

// A call in progress.
typedef struct {
	cx_lanes *l;
	const cx_steps *s;
	char *buffers[STEP_BUFFERS];
	size_t size; // of an element
	uint8_t *ended, *posted; // steps
	uint8_t *over;           // nodes
	int *culprit;
} call;

static void add(call *k, char *to, const char *from, int64_t count) {
	static const double ones[2] = {1, 1};
	const void *sources[2] = {to, from};
	void *target = to;
	cx_reduce(k->s->type, RED_SUM, sources, ones, 2, count, &target, 1, 0);
}

// Tries a step; *moved is set if anything was done.
static int step(call *k, int i, int *moved) {
	const cx_step *s = &k->s->steps[i];
	cx_lanes *l = k->l;
	cx_comm *c = l->c;
	char *from = k->buffers[s->from_buffer] + s->from * (int64_t)k->size, *to = k->buffers[s->to_buffer] + s->to * (int64_t)k->size;
	int64_t bytes = s->count * (int64_t)k->size;
	int at = s->peer * l->channels + s->channel;
	switch (s->kind) {
	case STEP_COPY: cx_copy(c, to, from, bytes); break;
	case STEP_ADD: add(k, to, from, s->count); break;
	case STEP_SEND: {
		lane *x = &l->boards[s->peer]->lanes[c->rank * l->channels + s->channel];
		uint32_t turn = l->sent[at] + (uint32_t)s->turn;
		uint32_t taken = atomic_load_explicit(&x->taken, memory_order_acquire);
		if (!k->posted[i]) {
			if (l->sent_now[at] != (uint32_t)s->turn || taken != turn) return CX_OK;
			x->at = from - c->heaps[c->rank];
			x->bytes = bytes;
			publish(l, s->peer, &x->sent, turn + 1);
			k->posted[i] = 1;
			l->sent_now[at]++;
			*moved = 1;
			return CX_OK;
		}
		if ((int32_t)(taken - turn) <= 0) return CX_OK;
		break;
	}
	default: {
		lane *x = &l->boards[c->rank]->lanes[at];
		uint32_t turn = l->taken[at] + (uint32_t)s->turn;
		if (l->taken_now[at] != (uint32_t)s->turn || atomic_load_explicit(&x->sent, memory_order_acquire) != turn + 1) return CX_OK;
		if (x->bytes != bytes) {
			*k->culprit = s->peer;
			return CX_DISAGREE;
		}
		if (s->kind == STEP_RECV)
			cx_copy(c, to, c->heaps[s->peer] + x->at, bytes);
		else
			add(k, to, c->heaps[s->peer] + x->at, s->count);
		publish(l, s->peer, &x->taken, turn + 1);
		l->taken_now[at]++;
	}
	}
	k->ended[i] = 1;
	*moved = 1;
	return CX_OK;
}

// Tries the steps of a node; *over is set when all of them have ended.
static int node(call *k, int n, int *moved, int *over) {
	const cx_node *x = &k->s->nodes[n];
	*over = 0;
	for (int i = 0; i < x->afters; i++)
		if (!k->over[k->s->after[x->after + i]]) return CX_OK;
	*over = 1;
	for (int i = x->first; i < x->first + x->count; i++) {
		if (k->ended[i]) continue;
		int rc = step(k, i, moved);
		if (rc != CX_OK) return rc;
		if (!k->ended[i]) *over = 0;
	}
	if (*over) k->over[n] = 1, *moved = 1;
	return CX_OK;
}

// Advances each stream once. *left is the number of streams that have not ended.
static int pass(call *k, int *at, int *moved, int *left) {
	const cx_steps *s = k->s;
	*moved = *left = 0;
	for (int i = 0; i < s->streams; i++) {
		for (int over = 1; over && at[i] < s->ends[i]; at[i] += over) {
			int rc = node(k, at[i], moved, &over);
			if (rc != CX_OK) return rc;
		}
		*left += at[i] < s->ends[i];
	}
	return CX_OK;
}

// Repeats passes until something has moved, after one without progress.
static int await(call *k, int *at, int *left) {
	cx_comm *c = k->l->c;
	board *b = k->l->boards[c->rank];
	int rc = CX_OK, moved = 0;
	for (int n = c->crowded ? CROWD_SPINS : SPINS; n > 0; n--) {
		cx_pause();
		if ((rc = pass(k, at, &moved, left)) != CX_OK || moved) return rc;
	}
	waiting w = {0};
	atomic_fetch_add(&b->sleepers, 1);
	atomic_thread_fence(memory_order_seq_cst); // changes made before the others check the flag are visible below
	for (;;) {
		uint32_t seen = atomic_load(&b->bell);
		if ((rc = pass(k, at, &moved, left)) != CX_OK || moved) break;
		if ((rc = cx_rest(c, &w, &b->bell, &b->sleepers, seen, k->culprit)) != CX_OK) break;
	}
	atomic_fetch_sub(&b->sleepers, 1);
	return rc;
}

static int run(call *k) {
	const cx_steps *s = k->s;
	int at[s->streams + 1], rc, moved, left;
	for (int i = 0; i < s->before; i++)
		if ((rc = step(k, i, &moved)) != CX_OK) return rc;
	for (int i = 0; i < s->streams; i++) at[i] = i ? s->ends[i - 1] : 0;
	do {
		if ((rc = pass(k, at, &moved, &left)) != CX_OK) return rc;
		if (left && !moved && (rc = await(k, at, &left)) != CX_OK) return rc;
	} while (left);
	for (int i = s->count - s->after_all; i < s->count; i++)
		if ((rc = step(k, i, &moved)) != CX_OK) return rc;
	return CX_OK;
}

int cx_steps_run(cx_lanes *l, const cx_steps *s, const uintptr_t *buffers, int64_t n, uintptr_t scratch, uint8_t *progress,
                 int *culprit) {
	int nodes = s->streams ? s->ends[s->streams - 1] : 0, lanes = l->c->world * l->channels;
	call k = {
		.l = l, .s = s, .size = cx_type_size(s->type), .ended = progress, .posted = progress + s->count,
		.over = progress + 2 * s->count, .culprit = culprit,
	};
	for (int64_t i = 0; i < n; i++) {
		k.buffers[STEP_SEND_BUFFER] = (char *)buffers[2 * i];
		k.buffers[STEP_RECV_BUFFER] = (char *)buffers[2 * i + 1];
		k.buffers[STEP_SCRATCH] = (char *)scratch;
		memset(progress, 0, (size_t)(2 * s->count + nodes));
		int rc = run(&k);
		if (rc != CX_OK) return rc;
		for (int j = 0; j < lanes; j++) {
			l->sent[j] += l->sent_now[j];
			l->taken[j] += l->taken_now[j];
			l->sent_now[j] = l->taken_now[j] = 0;
		}
	}
	return CX_OK;
}
