/*
 * What the stand-in libraries do in C: they map each other's device memory, meet, and work
 * on rows. The caller has synchronised its stream; all work is done when a call returns.
 */
#define _GNU_SOURCE
#include "rows.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The whole of a file, for ever; NULL if that fails. */
void *standin_map(const char *path)
{
	struct stat st;
	void *at;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	at = fstat(fd, &st) == 0 ? mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

/* The file of a group begins with this. */
struct meeting {
	_Atomic int arrived, round;
};

void standin_barrier(struct meeting *m, int world)
{
	int round = atomic_load(&m->round);
	if (atomic_fetch_add(&m->arrived, 1) + 1 == world) {
		atomic_store(&m->arrived, 0);
		atomic_store(&m->round, round + 1);
		return;
	}
	for (int spins = 0; atomic_load(&m->round) == round; spins++) {
		if (spins < 5) /* beside busy programs, each takes milliseconds */
			sched_yield();
		else
			usleep(100);
	}
}

/* The sum of n bf16 rows in float32, weighted where there are weights, rounded to bf16. */
void standin_sum(uint16_t *out, const uint16_t *const *rows, const float *weights, int n, int64_t hidden)
{
	float *sum = calloc(hidden, sizeof *sum);
	for (int i = 0; i < n; i++) {
		if (weights)
			cx_row_add_weighted(sum, rows[i], weights[i], hidden);
		else
			cx_row_add(sum, rows[i], hidden);
	}
	cx_row_round(out, sum, hidden);
	free(sum);
}

/* Codes and scales of a row; scales are columns floats apart. */
void standin_cast(uint8_t *codes, float *scales, int64_t columns, const uint16_t *row, int64_t hidden)
{
	float *all = malloc(hidden / 128 * sizeof *all);
	cx_row_encode(codes, all, row, hidden, 128, 1e-4f);
	for (int64_t i = 0; i < hidden / 128; i++)
		scales[i * columns] = all[i];
	free(all);
}
