// Collectives as explicit steps among the processes of one machine; see steps.c.
#ifndef CX_HOST_STEPS_H
#define CX_HOST_STEPS_H

#include "comm.h"

// Kinds of steps, and buffers: the values of package steps.
enum { STEP_COPY, STEP_ADD, STEP_SEND, STEP_RECV, STEP_RECV_ADD };
enum { STEP_SEND_BUFFER, STEP_RECV_BUFFER, STEP_SCRATCH, STEP_BUFFERS };

// A step; at and count are in elements.
typedef struct {
	int32_t kind, peer, channel, turn;
	int32_t from_buffer, to_buffer;
	int64_t from, to, count;
} cx_step;

// Steps that start and end together, after other nodes have ended.
typedef struct {
	int32_t first, count; // of the steps
	int32_t after, afters; // first and number of the nodes in cx_steps.after
} cx_node;

// A rank's work in a call: the nodes of a stream run in order, all streams at once. The first and
// last steps run before and after all of them.
typedef struct {
	int32_t type, before, after_all, streams; // before: number of first steps; after_all: number of last steps
	const cx_step *steps;
	int32_t count;           // steps
	const cx_node *nodes;
	const int32_t *after;    // nodes
	const int32_t *ends;     // for each stream, the number of nodes up to its end
} cx_steps;

// One rank's lanes from the other ranks and channels of a program.
typedef struct cx_lanes cx_lanes;

// Bytes of memory that each rank needs for its lanes, at the same offset in all heaps. All ranks
// must open their lanes before the first call.
int64_t cx_lanes_bytes(int world, int channels);
cx_lanes *cx_lanes_open(cx_comm *c, uintptr_t memory, int channels);
void cx_lanes_close(cx_lanes *l);

// Runs the steps n times, each time with another pair of buffers, send and receive. progress needs
// one byte per node and two per step.
int cx_steps_run(cx_lanes *l, const cx_steps *s, const uintptr_t *buffers, int64_t n, uintptr_t scratch, uint8_t *progress,
                 int *culprit);

#endif
