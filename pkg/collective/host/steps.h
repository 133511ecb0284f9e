// Collectives as explicit steps among the processes of one machine; see steps.c.
#ifndef CX_HOST_STEPS_H
#define CX_HOST_STEPS_H

#include "comm.h"

// Kinds of steps, and buffers: the values of package steps.
enum { STEP_COPY, STEP_ADD, STEP_SEND, STEP_RECV, STEP_RECV_ADD };
enum { STEP_SEND_BUFFER, STEP_RECV_BUFFER, STEP_SCRATCH, STEP_BUFFERS };

// A step; places and count are in elements.
typedef struct {
	int32_t kind, peer, channel, turn;
	int32_t from_buffer, to_buffer;
	int64_t from, to, count;
} cx_step;

// Steps that start and end together, once other nodes have ended.
typedef struct {
	int32_t first, count; // of the steps
	int32_t after, afters; // first and number of the nodes in cx_steps.after
} cx_node;

// What a rank does in a call: the nodes of a stream one after another, all streams at
// once, with the first and the last steps before and after all of them.
typedef struct {
	int32_t type, before, after_all, streams; // before: steps from 0 on; after_all: the last steps
	const cx_step *steps;
	int32_t count;           // steps
	const cx_node *nodes;
	const int32_t *after;    // nodes
	const int32_t *ends;     // of each stream: the number of its nodes and those of the streams before
} cx_steps;

// What one rank has for the other ranks and channels of a program.
typedef struct cx_lanes cx_lanes;

// Bytes of the memory that each rank needs for its lanes; all ranks have it at the same
// offset of their heaps. Before a call, all have opened their lanes.
int64_t cx_lanes_bytes(int world, int channels);
cx_lanes *cx_lanes_open(cx_comm *c, uintptr_t memory, int channels);
void cx_lanes_close(cx_lanes *l);

// Runs the steps n times, each time with another pair of buffers, send and receive.
// progress has room for the nodes and twice for the steps.
int cx_steps_run(cx_lanes *l, const cx_steps *s, const uintptr_t *buffers, int64_t n, uintptr_t scratch, uint8_t *progress,
                 int *culprit);

#endif
