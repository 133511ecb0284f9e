/* Streams, events and copies. */
#define _GNU_SOURCE
#include "gpu.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct node *new_node(work_fn fn, const void *arg, size_t bytes)
{
	struct node *n = calloc(1, sizeof *n + bytes);
	n->fn = fn;
	n->bytes = bytes;
	if (bytes)
		memcpy(n->arg, arg, bytes);
	return n;
}

struct node *fake_copy_node(const struct node *n)
{
	struct node *copy = new_node(n->fn, n->arg, n->bytes);
	copy->foreign = n->foreign;
	if (copy->foreign)
		__atomic_add_fetch(&copy->foreign->references, 1, __ATOMIC_SEQ_CST);
	return copy;
}

void fake_free_node(struct node *n)
{
	struct foreign *f = n->foreign;
	if (f && __atomic_sub_fetch(&f->references, 1, __ATOMIC_SEQ_CST) == 0) {
		if (f->release)
			f->release(f->arg);
		free(f);
	}
	free(n);
}

static int run_node(struct node *n)
{
	if (!n->foreign)
		return n->fn(n->arg);
	n->foreign->fn(n->foreign->arg);
	return OK;
}

static void *work(void *arg)
{
	struct stream *s = arg;
	pthread_mutex_lock(&s->mutex);
	for (;;) {
		while (!s->first && !s->closing)
			pthread_cond_wait(&s->wake, &s->mutex);
		if (!s->first)
			break;
		struct node *n = s->first;
		s->first = n->next;
		if (!s->first)
			s->last = &s->first;
		pthread_mutex_unlock(&s->mutex);
		int rc = run_node(n);
		if (rc)
			s->dev->sticky = rc;
		fake_free_node(n);
		pthread_mutex_lock(&s->mutex);
		if (s->pending == 1)
			fake_close_memory(); /* before anyone hears that the stream is idle */
		if (--s->pending == 0)
			pthread_cond_broadcast(&s->idle);
	}
	pthread_mutex_unlock(&s->mutex);
	return NULL;
}

int fake_stream_create(struct device *d, struct stream **out)
{
	struct stream *s = calloc(1, sizeof *s);
	s->kind = STREAM;
	s->dev = d;
	s->last = &s->first;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->wake, NULL);
	pthread_cond_init(&s->idle, NULL);
	pthread_mutex_lock(&d->mutex);
	s->next = d->streams;
	d->streams = s;
	pthread_mutex_unlock(&d->mutex);
	*out = s;
	return OK;
}

/* Work that was enqueued still runs. */
int fake_stream_destroy(struct stream *s)
{
	struct stream **link;
	pthread_mutex_lock(&s->dev->mutex);
	for (link = &s->dev->streams; *link && *link != s; link = &(*link)->next)
		;
	if (*link)
		*link = s->next;
	pthread_mutex_unlock(&s->dev->mutex);
	pthread_mutex_lock(&s->mutex);
	s->closing = 1;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->mutex);
	if (s->started)
		pthread_join(s->thread, NULL);
	s->kind = DEAD;
	return OK;
}

/* A stream belongs to one device, which must be current. */
int fake_stream_find(void *handle, struct stream **out)
{
	struct device *d;
	struct stream *s = handle;
	int rc = fake_current(&d);
	if (rc)
		return rc;
	if (!s) {
		pthread_mutex_lock(&d->mutex);
		s = d->null_stream;
		pthread_mutex_unlock(&d->mutex);
		if (!s) {
			fake_stream_create(d, &s);
			d->null_stream = s;
		}
	}
	if (s->kind != STREAM || s->dev != d)
		return INVALID_HANDLE;
	*out = s;
	return OK;
}

int fake_enqueue(struct stream *s, work_fn fn, const void *arg, size_t bytes)
{
	return fake_enqueue_node(s, new_node(fn, arg, bytes));
}

/* Takes the node over. */
int fake_enqueue_node(struct stream *s, struct node *n)
{
	pthread_mutex_lock(&s->mutex);
	if (s->capture) {
		*s->capture->last = n;
		s->capture->last = &n->next;
		pthread_mutex_unlock(&s->mutex);
		return OK;
	}
	*s->last = n;
	s->last = &n->next;
	s->pending++;
	if (!s->started) {
		s->started = 1;
		pthread_create(&s->thread, NULL, work, s);
	}
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->mutex);
	return OK;
}

int cx_fake_enqueue(void *handle, void (*fn)(void *), void *arg, void (*release)(void *))
{
	struct stream *s;
	struct node *n;
	int rc = fake_stream_find(handle, &s);
	if (rc)
		return rc;
	n = new_node(NULL, NULL, 0);
	n->foreign = calloc(1, sizeof *n->foreign);
	*n->foreign = (struct foreign){fn, arg, release, 1};
	return fake_enqueue_node(s, n);
}

int cx_fake_capturing(void *handle)
{
	struct stream *s;
	return fake_stream_find(handle, &s) == OK && s->capture != NULL;
}

static __thread int relaxed; /* the capture mode of this thread */

void cx_fake_relax(int on) { relaxed = on; }

/* Waiting for a stream that captures is forbidden and spoils the capture. */
static int spoiled(struct stream *s)
{
	if (!s->capture)
		return 0;
	s->capture_broken = 1;
	return CAPTURE_UNSUPPORTED;
}

static int drain(struct stream *s)
{
	pthread_mutex_lock(&s->mutex);
	while (s->pending)
		pthread_cond_wait(&s->idle, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
	return s->dev->sticky;
}

int fake_stream_sync(struct stream *s)
{
	int rc = spoiled(s);
	return rc ? rc : drain(s);
}

/* Who asks asks again. Each answer that is not the last one takes a moment, in which the work may
 * have the processor of the one that asks. */
static void doze(pthread_cond_t *change, pthread_mutex_t *mutex)
{
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += 50000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	pthread_cond_clockwait(change, mutex, CLOCK_MONOTONIC, &end);
}

int fake_stream_query(struct stream *s)
{
	int rc = spoiled(s), pending;
	if (rc)
		return rc;
	pthread_mutex_lock(&s->mutex);
	if (s->pending)
		doze(&s->idle, &s->mutex);
	pending = s->pending;
	pthread_mutex_unlock(&s->mutex);
	return pending ? NOT_READY : s->dev->sticky;
}

int fake_device_sync(struct device *d)
{
	struct stream *all[256];
	int n = 0;
	pthread_mutex_lock(&d->mutex);
	for (struct stream *s = d->streams; s && n < 256; s = s->next)
		all[n++] = s;
	pthread_mutex_unlock(&d->mutex);
	for (int i = 0; i < n; i++)
		drain(all[i]);
	return d->sticky;
}

static double milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static int others_busy(struct stream *s)
{
	int busy = 0;
	pthread_mutex_lock(&s->dev->mutex);
	for (struct stream *other = s->dev->streams; other; other = other->next)
		if (other != s) {
			pthread_mutex_lock(&other->mutex);
			busy |= other->pending > 0;
			pthread_mutex_unlock(&other->mutex);
		}
	pthread_mutex_unlock(&s->dev->mutex);
	return busy;
}

/* Delays work of s beside that of other streams until so many copies have ended. If the other
 * streams are idle before, the delay ends after twice the time that they took. */
void fake_disturb(struct stream *s, long copies)
{
	struct timespec pause = {0, 20000};
	long until = __atomic_load_n(&s->dev->copied, __ATOMIC_RELAXED) + copies;
	double start = milliseconds(), took;
	while (__atomic_load_n(&s->dev->copied, __ATOMIC_RELAXED) < until) {
		if (!others_busy(s)) {
			took = milliseconds() - start;
			pause.tv_sec = took / 1e3;
			pause.tv_nsec = (took - pause.tv_sec * 1e3) * 1e6;
			nanosleep(&pause, NULL);
			return;
		}
		nanosleep(&pause, NULL);
	}
}

/* Calls such as allocations are forbidden to a thread that captures in
 * thread-local mode, and spoil the capture. */
int fake_unsafe(struct device *d)
{
	int rc = OK;
	if (relaxed)
		return OK;
	pthread_mutex_lock(&d->mutex);
	for (struct stream *s = d->streams; s; s = s->next)
		if (s->capture && pthread_equal(s->capture_thread, pthread_self())) {
			s->capture_broken = 1;
			rc = CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&d->mutex);
	return rc;
}

struct event {
	enum kind kind;
	int timed;
	pthread_mutex_t mutex;
	pthread_cond_t moved;
	long recorded, reached; /* the n-th record was enqueued, was reached */
	double ms;
};

struct record {
	struct event *event;
	long number;
};

int fake_event_create(void **out, unsigned flags)
{
	struct event *e = calloc(1, sizeof *e);
	e->kind = EVENT;
	e->timed = !(flags & 2);
	pthread_mutex_init(&e->mutex, NULL);
	pthread_cond_init(&e->moved, NULL);
	*out = e;
	return OK;
}

int fake_event_destroy(void *handle)
{
	struct event *e = handle;
	if (!e || e->kind != EVENT)
		return INVALID_HANDLE;
	e->kind = DEAD;
	return OK;
}

static int reach(void *arg)
{
	struct record *r = arg;
	double now = milliseconds();
	pthread_mutex_lock(&r->event->mutex);
	if (r->number > r->event->reached) {
		r->event->reached = r->number;
		r->event->ms = now;
		pthread_cond_broadcast(&r->event->moved);
	}
	pthread_mutex_unlock(&r->event->mutex);
	return OK;
}

static int reach_external(void *arg)
{
	struct event *e = *(struct event **)arg;
	double now;
	if (e->kind != EVENT)
		return INVALID_HANDLE; /* destroyed before the graph */
	now = milliseconds();
	pthread_mutex_lock(&e->mutex);
	e->reached = ++e->recorded;
	e->ms = now;
	pthread_cond_broadcast(&e->moved);
	pthread_mutex_unlock(&e->mutex);
	return OK;
}

/* An external record is a node of the graph: each launch takes the time. */
int fake_event_record_external(void *handle, struct stream *s)
{
	struct event *e = handle;
	if (!e || e->kind != EVENT)
		return INVALID_HANDLE;
	return s->capture ? fake_enqueue(s, reach_external, &e, sizeof e) : ILLEGAL_STATE;
}

/* An event recorded into a graph only orders; it has no time. */
int fake_event_record(void *handle, struct stream *s)
{
	struct event *e = handle;
	struct record r;
	if (!e || e->kind != EVENT)
		return INVALID_HANDLE;
	pthread_mutex_lock(&e->mutex);
	if (s->capture) {
		e->recorded = e->reached = 0;
		pthread_mutex_unlock(&e->mutex);
		return OK;
	}
	r.event = e;
	r.number = ++e->recorded;
	pthread_mutex_unlock(&e->mutex);
	return fake_enqueue(s, reach, &r, sizeof r);
}

struct wait {
	struct event *event;
	long number;
};

static int await(void *arg)
{
	struct wait *w = arg;
	pthread_mutex_lock(&w->event->mutex);
	while (w->event->reached < w->number)
		pthread_cond_wait(&w->event->moved, &w->event->mutex);
	pthread_mutex_unlock(&w->event->mutex);
	return OK;
}

/* What s does next waits for the work before the last record. A wait cannot be
 * captured here: there is one stream in a capture. */
int fake_stream_wait(struct stream *s, void *handle)
{
	struct event *e = handle;
	struct wait w = {e, 0};
	int rc;
	if (!e || e->kind != EVENT)
		return INVALID_HANDLE;
	rc = spoiled(s);
	if (rc)
		return rc;
	pthread_mutex_lock(&e->mutex);
	w.number = e->recorded;
	pthread_mutex_unlock(&e->mutex);
	return fake_enqueue(s, await, &w, sizeof w);
}

struct flag {
	uint32_t *at;
	uint32_t value;
};

/* Hosts write flags too, and wake nobody: a wait looks from time to time, less and less often. */
static int await_flag(void *arg)
{
	enum { FIRST = 20000, LAST = 500000 };
	struct flag *f = arg;
	struct timespec pause = {0, FIRST};
	for (;;) {
		uint32_t now = __atomic_load_n(f->at, __ATOMIC_ACQUIRE);
		if ((int32_t)(now - f->value) >= 0)
			return OK;
		syscall(SYS_futex, f->at, FUTEX_WAIT, now, &pause, NULL, 0);
		pause.tv_nsec = pause.tv_nsec < LAST ? 2 * pause.tv_nsec : LAST;
	}
}

static int set_flag(void *arg)
{
	struct flag *f = arg;
	__atomic_store_n(f->at, f->value, __ATOMIC_RELEASE);
	syscall(SYS_futex, f->at, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return OK;
}

/* What s does next waits for a number at least so large: for ever, if nobody writes it. */
int fake_wait_value(struct stream *s, uint64_t at, uint32_t value)
{
	struct flag f = {fake_flag(at), value};
	return f.at ? fake_enqueue(s, await_flag, &f, sizeof f) : INVALID_VALUE;
}

int fake_write_value(struct stream *s, uint64_t at, uint32_t value)
{
	struct flag f = {fake_flag(at), value};
	return f.at ? fake_enqueue(s, set_flag, &f, sizeof f) : INVALID_VALUE;
}

int fake_event_query(void *handle)
{
	struct event *e = handle;
	int pending;
	if (!e || e->kind != EVENT)
		return INVALID_HANDLE;
	pthread_mutex_lock(&e->mutex);
	if (e->reached < e->recorded)
		doze(&e->moved, &e->mutex);
	pending = e->reached < e->recorded;
	pthread_mutex_unlock(&e->mutex);
	return pending ? NOT_READY : OK;
}

int fake_event_elapsed(float *ms, void *first, void *second)
{
	struct event *a = first, *b = second;
	if (!a || !b || a->kind != EVENT || b->kind != EVENT || !a->timed || !b->timed)
		return INVALID_HANDLE;
	if (!a->recorded || !b->recorded)
		return INVALID_HANDLE;
	if (a->reached < a->recorded || b->reached < b->recorded)
		return NOT_READY;
	*ms = (float)(b->ms - a->ms);
	return OK;
}

struct copy {
	void *dst;
	const void *src;
	size_t bytes;
	int value; /* for a fill, where src is NULL */
	struct device *dev; /* that copies */
	long lag; /* in microseconds */
};

static int copy(void *arg)
{
	struct copy *c = arg;
	if (c->lag) {
		struct timespec pause = {c->lag / 1000000, c->lag % 1000000 * 1000};
		nanosleep(&pause, NULL);
	}
	if (c->src)
		memmove(c->dst, c->src, c->bytes);
	else
		memset(c->dst, c->value, c->bytes);
	__atomic_add_fetch(&c->dev->copied, 1, __ATOMIC_RELAXED);
	return OK;
}

struct staged {
	void *dst;
	size_t bytes;
	char data[];
};

static int unstage(void *arg)
{
	struct staged *c = arg;
	memcpy(c->dst, c->data, c->bytes);
	return OK;
}

/* Page-locked memory is read when the copy runs, pageable memory before the
 * call returns. */
int fake_copy_in(uint64_t dst, const void *src, size_t bytes, struct stream *s)
{
	char *to = fake_host_view(fake_owner(dst), dst, bytes);
	struct copy c = {to, src, bytes, 0, s->dev};
	struct staged *staged;
	int rc;
	if (!to || !src || fake_owner((uint64_t)src))
		return INVALID_VALUE;
	if (s->capture || fake_is_pinned(src, bytes))
		return fake_enqueue(s, copy, &c, sizeof c);
	staged = malloc(sizeof *staged + bytes);
	if (!staged)
		return OUT_OF_MEMORY;
	staged->dst = to;
	staged->bytes = bytes;
	memcpy(staged->data, src, bytes);
	rc = fake_enqueue(s, unstage, staged, sizeof *staged + bytes);
	free(staged);
	return rc;
}

int fake_copy_out(void *dst, uint64_t src, size_t bytes, struct stream *s)
{
	char *from = fake_host_view(fake_owner(src), src, bytes);
	struct copy c = {dst, from, bytes, 0, s->dev};
	int rc;
	if (!from || !dst || fake_owner((uint64_t)dst))
		return INVALID_VALUE;
	rc = fake_enqueue(s, copy, &c, sizeof c);
	if (rc == OK && !s->capture && !fake_is_pinned(dst, bytes))
		rc = drain(s);
	return rc;
}

/* See CX_FAKE_SLOW. */
static long lag(uint64_t dst, uint64_t src)
{
	const char *slow = getenv("CX_FAKE_SLOW");
	struct place to, from;
	int a, b;
	long us;
	if (!slow || sscanf(slow, "%d:%d:%ld", &a, &b, &us) != 3 || cx_fake_find((void *)dst, &to) || cx_fake_find((void *)src, &from))
		return 0;
	return from.owner == a && to.owner == b ? us : 0;
}

int fake_copy(uint64_t dst, uint64_t src, size_t bytes, struct stream *s)
{
	struct copy c = {fake_host_view(fake_owner(dst), dst, bytes), fake_host_view(fake_owner(src), src, bytes), bytes, 0, s->dev};
	if (!c.dst || !c.src)
		return INVALID_VALUE;
	c.lag = lag(dst, src);
	return fake_enqueue(s, copy, &c, sizeof c);
}

int fake_set(uint64_t dst, unsigned char value, size_t bytes, struct stream *s)
{
	struct copy c = {fake_host_view(fake_owner(dst), dst, bytes), NULL, bytes, value, s->dev};
	if (!c.dst)
		return INVALID_VALUE;
	return fake_enqueue(s, copy, &c, sizeof c);
}
