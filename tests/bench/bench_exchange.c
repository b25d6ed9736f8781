/* Our side of bench-exchange (tests/bench/bench_exchange.py): the ring of comm.h, MPI's own
 * all-reduce, a push with its pull, and memcpy.
 *
 *   mpirun -np W+1 bench_exchange      reads lines on rank 0 and answers with seconds, and CPU
 * seconds (user, system) of the mean worker; the last rank is the server of a push
 *
 *   ring N TIMES | native N TIMES (MPI's own, polled as the ring is) | mpi N TIMES (MPI's own,
 * blocking) | push N TIMES | copy N TIMES       N floats
 *
 * Who has nothing to do sleeps, so that a peer that has its turn is not disturbed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "worker/exchange/transport/allreduce.h"
#include "worker/exchange/transport/comm_mpi.h"

enum { NAP_US = 500, TAG_ASK = 1, TAG_PUSH = 7, TAG_PULL = 8 };
struct request {
    char what[8];
    long n, times;
};
static struct comm comm;
static float *data, *copy;
static long room;

static void make_room(long n)
{
    if (n > room) {
        free(data);
        free(copy);
        data = malloc((size_t)n * sizeof(float));
        copy = malloc((size_t)n * sizeof(float));
        memset(data, 0, (size_t)n * sizeof(float));
        memset(copy, 0, (size_t)n * sizeof(float));
        room = n;
    }
}

static int ring(const struct request *q, struct err *e)
{
    struct allreduce a;
    int rc = 0;
    allreduce_init(&a, &comm, COMM_ALL, (size_t)q->n);
    for (long i = 0; i < q->times && rc == 0; i++) {
        allreduce_start(&a, data, (size_t)q->n, 0);
        rc = comm_wait(&comm, &a.op, e);
    }
    allreduce_release(&a);
    return rc;
}

/* Worker 0 gives the server a gradient and gets weights back. */
static int push(const struct request *q, struct err *e)
{
    char head[16] = "";
    struct message m;
    int rc = 0, peer = comm.rank == 0 ? comm.workers : 0;
    for (long i = 0; i < q->times && rc == 0 && (comm.rank == 0 || comm.rank == comm.workers);
         i++) {
        if (comm.rank == 0) {
            message_send(&m, &comm, peer, TAG_PUSH, head, sizeof head, data, (size_t)q->n);
        } else {
            message_recv(&m, &comm, peer, TAG_PUSH, head, sizeof head, data, (size_t)q->n);
        }
        rc = comm_wait(&comm, &m.op, e);
        if (rc == 0 && comm.rank == 0) {
            message_recv(&m, &comm, peer, TAG_PULL, head, sizeof head, copy, (size_t)q->n);
            rc = comm_wait(&comm, &m.op, e);
        } else if (rc == 0) {
            message_send(&m, &comm, peer, TAG_PULL, head, sizeof head, copy, (size_t)q->n);
            rc = comm_wait(&comm, &m.op, e);
        }
    }
    return rc;
}

static int perform(const struct request *q, MPI_Comm workers, struct err *e)
{
    bool worker = comm.rank < comm.workers;
    comm.native = strcmp(q->what, "native") == 0;
    if (comm.native || strcmp(q->what, "ring") == 0) {
        return worker ? ring(q, e) : 0;
    }
    if (strcmp(q->what, "push") == 0) {
        return push(q, e);
    }
    for (long i = 0; i < q->times && worker; i++) {
        if (strcmp(q->what, "mpi") == 0) {
            MPI_Allreduce(MPI_IN_PLACE, data, (int)q->n, MPI_FLOAT, MPI_SUM, workers);
        } else if (comm.rank == 0) {
            memcpy(i % 2 ? data : copy, i % 2 ? copy : data, (size_t)q->n * sizeof(float));
        }
    }
    return 0;
}

/* False: there is no more. */
static bool next_request(struct request *q)
{
    memset(q, 0, sizeof *q);
    if (comm.rank == 0) {
        char line[100];
        if (!fgets(line, sizeof line, stdin) ||
            sscanf(line, "%7s %ld %ld", q->what, &q->n, &q->times) != 3) {
            q->times = 0;
        }
        for (int r = 1; r <= comm.workers; r++) {
            MPI_Send(q, (int)sizeof *q, MPI_BYTE, r, TAG_ASK, MPI_COMM_WORLD);
        }
    } else {
        int there = 0;
        while (!there) {
            MPI_Iprobe(0, TAG_ASK, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            if (!there) {
                usleep(NAP_US);
            }
        }
        MPI_Recv(q, (int)sizeof *q, MPI_BYTE, 0, TAG_ASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return q->times > 0;
}

/* What this process has used of its cores: for itself, and in the kernel. */
static void cpu_now(double cpu[2])
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    cpu[0] = (double)r.ru_utime.tv_sec + 1e-6 * (double)r.ru_utime.tv_usec;
    cpu[1] = (double)r.ru_stime.tv_sec + 1e-6 * (double)r.ru_stime.tv_usec;
}

/* Rank 0's seconds, and CPU seconds of the mean worker, for itself and in the kernel; of one
 * exchange. */
static void answer(const struct request *q, MPI_Comm workers, double seconds,
                   const double before[2])
{
    double cpu[2], sum[2] = {0, 0}, each = 1 / (double)q->times;
    cpu_now(cpu);
    cpu[0] -= before[0];
    cpu[1] -= before[1];
    if (comm.rank < comm.workers) {
        MPI_Reduce(cpu, sum, 2, MPI_DOUBLE, MPI_SUM, 0, workers);
    }
    if (comm.rank == 0) {
        printf("%.9f %.9f %.9f\n", seconds * each, sum[0] * each / comm.workers,
               sum[1] * each / comm.workers);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int got, rank, ranks, rc = 0;
    struct err e = {0};
    struct request q;
    MPI_Comm workers;
    comm_mpi_prepare();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &got);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks - 1, rank, &workers);
    struct transport *t = comm_mpi_open(&e);
    if (!t || comm_init(&comm, t, ranks - 1, 1, &e) < 0 ||
        comm_mpi_use_native(t, ranks - 1, &e) < 0) {
        fprintf(stderr, "bench_exchange: %s\n", e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    while (rc == 0 && next_request(&q)) {
        make_room(q.n);
        MPI_Barrier(MPI_COMM_WORLD);
        double before[2], begin = clock_now();
        cpu_now(before);
        rc = perform(&q, workers, &e);
        answer(&q, workers, clock_now() - begin, before);
    }
    if (rc < 0) {
        fprintf(stderr, "bench_exchange: %s\n", e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    comm_release(&comm);
    comm_mpi_close(t);
    MPI_Comm_free(&workers);
    MPI_Finalize();
    return 0;
}
