/* Ranks of one host that disagree about the length of a message, where the one copies from the
 * other's memory.
 * ranks: 3 */
#include "common/clock.h"
#include "tests/mpi/mpi_test.h"

enum { WORKERS = 2, TAG = 7, ROOM = 7, GUARD = 300000 };

static struct comm comm;

/* Rank 1 has room for fewer floats than rank 0 sends; nothing is written behind them. early: the
 * message is there first. */
static bool is_refused(size_t floats, bool early)
{
    struct message m;
    struct err e = {0};
    char none = 0;
    float *memory = calloc(GUARD, sizeof *memory);
    bool ok = true;
    int turn = 0, other = 1 - my_rank;
    for (size_t i = 0; i < floats && my_rank == 0; i++) {
        memory[i] = 1;
    }
    if ((my_rank == 0) != early) {
        MPI_Recv(&turn, 1, MPI_INT, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (my_rank == 0) {
        message_send(&m, &comm, 1, TAG, &none, 1, memory, floats);
    } else {
        message_recv(&m, &comm, 0, TAG, &none, 1, memory, ROOM);
    }
    if ((my_rank == 0) == early) {
        MPI_Send(&turn, 1, MPI_INT, other, TAG, MPI_COMM_WORLD);
    }
    if (my_rank == 0) {
        comm_wait_for(&comm, &m.op, 1, &e); /* it may end or not */
        comm_abandon(&comm);
    } else {
        ok = comm_wait(&comm, &m.op, &e) < 0 && e.code == ERR_PEER;
        for (size_t i = ROOM; i < GUARD; i++) {
            ok = ok && memory[i] == 0;
        }
    }
    free(memory);
    return ok;
}

/* Receives of one sender and tag that wait at once take its messages in their order. */
static bool come_in_order(void)
{
    enum { MESSAGES = 8 };
    struct message m[MESSAGES];
    float x[MESSAGES];
    char none[MESSAGES] = {0};
    bool ok = true;
    struct err e;
    for (int i = 0; i < MESSAGES; i++) {
        x[i] = my_rank == 0 ? (float)i : -1;
        if (my_rank == 0) {
            message_send(&m[i], &comm, 1, TAG, &none[i], 1, &x[i], 1);
            clock_sleep(0.001);
        } else {
            message_recv(&m[i], &comm, TRANSPORT_ANY, TAG, &none[i], 1, &x[i], 1);
        }
    }
    for (int i = 0; i < MESSAGES; i++) {
        ok = comm_wait(&comm, &m[i].op, &e) == 0 && x[i] == (float)i && ok;
    }
    return ok;
}

/* A sum in which ranks disagree how long it is. Whoever waits for another operation is told of the
 * one that failed. */
static bool unequal_sums_fail(void)
{
    struct allreduce a;
    struct err e = {0};
    size_t n = my_rank == 0 ? 3000 : ROOM;
    float *x = calloc(n, sizeof *x);
    char none = 0;
    struct message m;
    message_recv(&m, &comm, comm.workers, TAG, &none, 1, NULL, 0); /* nobody sends it */
    allreduce_init(&a, &comm, COMM_ALL, n);
    allreduce_start(&a, x, n, 0);
    bool ok = comm_wait(&comm, &m.op, &e) < 0 && e.code == ERR_CONFLICT;
    ok = ok && comm_wait(&comm, &a.op, &e) < 0 && e.code == ERR_CONFLICT;
    message_recv(&m, &comm, comm.workers, TAG, &none, 1, NULL, 0);
    ok = ok && comm_wait(&comm, &m.op, &e) < 0 && e.code == ERR_CONFLICT;
    allreduce_release(&a);
    free(x);
    return ok;
}

/* After a failure a rank exchanges nothing more, so each check has a transport of its own. */
static void of_workers(bool (*check)(void), const char *what)
{
    struct err e = {0};
    transport = transport ? transport : comm_mpi_open(&e);
    bool ok = transport && comm_init(&comm, transport, WORKERS, 1, &e) == 0;
    comm.deadline = 10;
    ok = ok && (my_rank >= WORKERS || check());
    comm_abandon(&comm); /* what nobody receives */
    MPI_Barrier(MPI_COMM_WORLD);
    comm_release(&comm);
    transport = NULL;
    check_all(ok, what);
}

static bool small_early(void)
{
    return is_refused(64, true);
}

static bool large_early(void)
{
    return is_refused(200000, true);
}

static bool large_late(void)
{
    return is_refused(200000, false);
}

int main(int argc, char **argv)
{
    /* tests/run sets another one, which does not need the right to read others' memory */
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "cma", 1);
    test_begin(&argc, &argv);
    of_workers(come_in_order, "messages of one tag come in order");
    of_workers(small_early, "a message that is longer than its room is an error");
    of_workers(large_early, "a long one writes nothing behind its room");
    of_workers(large_late, "nor one that was there before");
    of_workers(unequal_sums_fail, "a sum whose ranks disagree how long it is fails");
    MPI_Finalize();
    return failures ? 1 : 0;
}
