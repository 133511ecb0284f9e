/* Capture and replay. */
#include "gpu.h"

#include <stdlib.h>

static struct graph *new_graph(enum kind kind)
{
	struct graph *g = calloc(1, sizeof *g);
	g->kind = kind;
	g->last = &g->first;
	return g;
}

static void add(struct graph *g, struct node *n)
{
	*g->last = n;
	g->last = &n->next;
}

int fake_capture_begin(struct stream *s)
{
	if (s == s->dev->null_stream)
		return CAPTURE_UNSUPPORTED;
	if (s->capture)
		return ILLEGAL_STATE;
	s->capture_thread = pthread_self();
	s->capture_broken = 0;
	s->capture = new_graph(GRAPH);
	return OK;
}

int fake_capture_end(struct stream *s, struct graph **out)
{
	struct graph *g = s->capture;
	*out = NULL;
	if (!g)
		return ILLEGAL_STATE;
	if (!pthread_equal(s->capture_thread, pthread_self()))
		return CAPTURE_WRONG_THREAD;
	s->capture = NULL;
	if (s->capture_broken) {
		fake_graph_destroy(g, GRAPH);
		return CAPTURE_INVALIDATED;
	}
	*out = g;
	return OK;
}

int fake_graph_instantiate(void **exec, struct graph *g)
{
	struct graph *e;
	if (!g || g->kind != GRAPH)
		return INVALID_VALUE;
	e = new_graph(EXEC);
	for (struct node *n = g->first; n; n = n->next)
		add(e, fake_copy_node(n));
	*exec = e;
	return OK;
}

/* Nodes run in the order they were captured, each as work of the stream. */
int fake_graph_launch(void *exec, struct stream *s)
{
	struct graph *g = exec;
	int rc = OK;
	if (!g || g->kind != EXEC)
		return INVALID_VALUE;
	for (struct node *n = g->first; n && rc == OK; n = n->next)
		rc = fake_enqueue_node(s, fake_copy_node(n));
	return rc;
}

int fake_graph_destroy(void *handle, enum kind kind)
{
	struct graph *g = handle;
	if (!g || g->kind != kind)
		return INVALID_VALUE;
	g->kind = DEAD;
	while (g->first) {
		struct node *n = g->first;
		g->first = n->next;
		fake_free_node(n);
	}
	return OK;
}
