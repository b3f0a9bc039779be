// SPDX-License-Identifier: BSD-3-Clause
// Ranks of MPI that send each other data and look at every byte. Usage: mpi_data LARGEST, in bytes.
// Compiled by mpi_test.py with the system's mpicc; it knows nothing of the adapter.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks, wrong;

static unsigned char byte_of(int from, size_t i, int round) {
  return (unsigned char)(i * 31 + (i >> 8) * 7 + (size_t)from * 101 + (size_t)round * 13);
}

static void look(const unsigned char* at, size_t n, int from, int round) {
  for (size_t i = 0; i < n; i++) {
    if (at[i] == byte_of(from, i, round)) continue;
    printf("rank %d: byte %zu of %zu from rank %d is wrong\n", rank, i, n, from);
    wrong++;
    return;
  }
}

// To the next rank and from the one before, all at once.
static void ring(unsigned char* out, unsigned char* in, size_t n, int round) {
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (size_t i = 0; i < n; i++) {
    out[i] = byte_of(rank, i, round);
    in[i] = 0;
  }
  MPI_Sendrecv(out, (int)n, MPI_BYTE, next, round, in, (int)n, MPI_BYTE, before, round,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  look(in, n, before, round);
}

static void sums_and_exchanges(void) {
  double mine[64], sum[64];
  for (int i = 0; i < 64; i++) mine[i] = rank * 64 + i;
  MPI_Allreduce(mine, sum, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < 64; i++)
    wrong += sum[i] != 64.0 * ranks * (ranks - 1) / 2 + (double)ranks * i;
  int out[16], in[16];
  for (int i = 0; i < ranks; i++) out[i] = rank * 16 + i;
  MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; i++) wrong += in[i] != i * 16 + rank;
}

// One-sided: into the next rank's window, and out of it.
static void windows(void) {
  int* memory;
  MPI_Win window;
  MPI_Win_allocate(2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memory[0] = memory[1] = 0;
  const int next = (rank + 1) % ranks, value = 1000 + rank, one = 1;
  int got = 0;
  MPI_Win_fence(0, window);
  MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, window);
  MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, window);
  MPI_Win_fence(0, window);
  MPI_Get(&got, 1, MPI_INT, next, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  wrong += memory[0] != 1000 + (rank + ranks - 1) % ranks || got != value;
  wrong += rank == 0 && memory[1] != ranks;
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t largest = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
  unsigned char *out = malloc(largest + 1), *in = malloc(largest + 1);
  int round = 0;
  for (size_t n = 1; n <= largest; n = n * 8 - (n > 64)) ring(out, in, n, round++);
  ring(out, in, largest, round++);
  sums_and_exchanges();
  windows();
  int all = 0;
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %d messages each, %d wrong\n", ranks, round, all);
  free(out);
  free(in);
  MPI_Finalize();
  return all != 0;
}
