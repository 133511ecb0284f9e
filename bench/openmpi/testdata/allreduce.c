// Times MPI_Allreduce of floats as collectivex's pipelined mode does: operations
// back to back on reused buffers, host time divided by their number, the
// slowest rank. Prints one line of microseconds per trial.
//
//   allreduce BYTES WARMUP ITERATIONS TRIALS
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	if (argc != 5) {
		fprintf(stderr, "usage: allreduce BYTES WARMUP ITERATIONS TRIALS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	int rank, world;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &world);
	int n = (int)(atol(argv[1]) / (long)sizeof(float)), warmup = atoi(argv[2]), iterations = atoi(argv[3]), trials = atoi(argv[4]);
	float *send = malloc((size_t)n * sizeof *send), *recv = malloc((size_t)n * sizeof *recv);
	for (int trial = 0; trial < trials; trial++) {
		for (int i = 0; i < n; i++) send[i] = (float)(rank + trial + i % 64), recv[i] = -1;
		for (int i = 0; i < warmup; i++) MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();
		for (int i = 0; i < iterations; i++) MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		double us = (MPI_Wtime() - start) * 1e6 / iterations, slowest;
		for (int i = 0; i < n; i++) {
			float want = (float)(world * (trial + i % 64) + world * (world - 1) / 2);
			if (recv[i] != want) {
				fprintf(stderr, "rank %d element %d: %g, want %g\n", rank, i, recv[i], want);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
		}
		MPI_Reduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		if (rank == 0) printf("%.4f\n", slowest), fflush(stdout);
	}
	MPI_Finalize();
	return 0;
}
