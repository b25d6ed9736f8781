/* What every MPI test shares: start and stop, one line per check on rank 0, a verdict that all
 * ranks agree on. */
#ifndef TESTS_MPI_MPI_TEST_H
#define TESTS_MPI_MPI_TEST_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/transport/allreduce.h"
#include "worker/exchange/transport/comm_mpi.h"

static struct transport *transport;
static int my_rank, all_ranks, failures;

static inline void test_begin(int *argc, char ***argv)
{
    int got;
    struct err e = {0};
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &got);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
    transport = comm_mpi_open(&e);
    if (!transport) {
        fprintf(stderr, "rank %d: %s\n", my_rank, e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Every rank calls it with its own verdict. */
static inline void check_all(int ok, const char *what)
{
    int all;
    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!ok) {
        fprintf(stderr, "rank %d: does not hold: %s\n", my_rank, what);
    }
    if (my_rank == 0) {
        printf("%s %s\n", all ? "ok  " : "FAIL", what);
        fflush(stdout);
    }
    failures += !all;
}

static inline int test_end(void)
{
    comm_mpi_close(transport);
    MPI_Finalize();
    return failures ? 1 : 0;
}

#endif
