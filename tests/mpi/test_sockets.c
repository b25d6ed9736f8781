/* Ranks each on a host of its own: TCP between them, messages in pieces, waits for sockets instead
 * of polls.
 * ranks: 2 4
 * All are on this machine. So MPI uses TCP by a setting, and no two of them are on one
 * host: this file answers MPI_Get_processor_name, as MPI's profiling interface allows. The
 * last rank is the keeper.
 *
 * The exchange thread waits in ppoll for at most 50 ms, after which it polls anyway. Here that call
 * is the test's: it says whether the thread waits, and can make the wait PATIENCE long, so that a
 * wait which nothing ends shows as a count and not as a delay. */
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/mpi/mpi_test.h"
#include "worker/exchange/transport/mpi_sockets.h"

enum { TAG_LATE = 5, TAG_NEVER = 6, ROUNDS = 100, PATIENCE = 30 };
static const double LATE_SECONDS = 0.5;
static struct comm comm;
static atomic_bool waits, patient; /* the exchange thread is in ppoll; and may stay PATIENCE */
static atomic_int timeouts;        /* waits that nothing but the time has ended */

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask)
{
    struct timespec left = patient ? (struct timespec){.tv_sec = PATIENCE} : *most;
    waits = true;
    int ready = (int)syscall(SYS_ppoll, fds, n, &left, mask, _NSIG / 8);
    waits = false;
    timeouts += ready == 0;
    return ready;
}

/* What a call of ppoll becomes where library calls are fortified. */
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask,
                size_t bytes);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask,
                size_t bytes)
{
    BUG_ON(bytes / sizeof *fds < n);
    return ppoll(fds, n, most, mask);
}

int MPI_Get_processor_name(char *name, int *n)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    *n = snprintf(name, MPI_MAX_PROCESSOR_NAME, "host-%d", rank);
    return MPI_SUCCESS;
}

static bool is_worker(void)
{
    return comm.rank < comm.workers;
}

/* Whole numbers: exact in any order. */
static bool sum_is_exact(size_t n)
{
    struct allreduce a;
    struct err e;
    float *x = malloc((n + 1) * sizeof(float)),
          others = (float)(comm.workers * (comm.workers - 1) / 2);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(i % 1000) + (float)comm.rank;
    }
    allreduce_init(&a, &comm, COMM_ALL, n);
    allreduce_start(&a, x, n, 0);
    bool ok = comm_wait(&comm, &a.op, &e) == 0;
    for (size_t i = 0; i < n && ok; i++) {
        ok = x[i] == (float)(i % 1000) * (float)comm.workers + others;
    }
    allreduce_release(&a);
    free(x);
    return ok;
}

static void sums_over_tcp_are_exact(void)
{
    static const size_t lengths[] = {10, 4097, 64001, 256009, 1663370};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char what[80];
        snprintf(what, sizeof what, "the sum of %zu floats between hosts is exact", lengths[i]);
        check_all(!is_worker() || sum_is_exact(lengths[i]), what);
    }
}

/* The keeper lets the others wait half a second, or longer where it is late itself; with polls at
 * least every millisecond each of them would wake some hundreds of times in each half. */
static void a_rank_that_waits_sleeps(void)
{
    struct rusage before, after;
    struct message m;
    struct err e;
    char head[8] = "";
    bool ok = true;
    patient = true;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!is_worker()) {
        clock_sleep(LATE_SECONDS);
    }
    double begun = clock_now();
    getrusage(RUSAGE_SELF, &before);
    for (int r = 0; r < comm.workers && !is_worker() && ok; r++) {
        message_send(&m, &comm, r, TAG_LATE, head, sizeof head, NULL, 0);
        ok = comm_wait(&comm, &m.op, &e) == 0;
    }
    if (is_worker()) {
        message_recv(&m, &comm, comm.workers, TAG_LATE, head, sizeof head, NULL, 0);
        ok = comm_wait(&comm, &m.op, &e) == 0;
        getrusage(RUSAGE_SELF, &after);
        double halves = fmax(1, (clock_now() - begun) / LATE_SECONDS);
        ok = ok && (double)(after.ru_nvcsw - before.ru_nvcsw) < 100 * halves;
    }
    patient = false;
    check_all(ok, "a rank that waits wakes less than 100 times in half a second");
}

/* False: it does not come to wait. */
static bool exchange_thread_waits(void)
{
    for (double until = clock_now() + PATIENCE; !waits && clock_now() < until;) {
        sched_yield();
    }
    return waits;
}

/* While a message is awaited the thread waits for sockets; what is started then must end that wait
 * and not be found at its end. Each rank starts ROUNDS sums while its thread waits, and no wait may
 * last until its end. */
static void what_is_started_meanwhile_begins_at_once(void)
{
    struct message never;
    struct err e;
    char head[8] = "";
    bool ok = true;
    if (is_worker()) {
        patient = true;
        timeouts = 0;
        message_recv(&never, &comm, comm.workers, TAG_NEVER, head, sizeof head, NULL, 0);
    }
    for (int i = 0; i < ROUNDS && is_worker() && ok; i++) {
        ok = exchange_thread_waits() && sum_is_exact(5);
    }
    check_all(ok && (!is_worker() || timeouts == 0),
              "what is started while a message is awaited begins at once");
    patient = false;
    for (int r = 0; r < comm.workers && !is_worker() && ok; r++) {
        struct message m;
        message_send(&m, &comm, r, TAG_NEVER, head, sizeof head, NULL, 0);
        ok = comm_wait(&comm, &m.op, &e) == 0;
    }
    ok = ok && (!is_worker() || comm_wait(&comm, &never.op, &e) == 0);
    check_all(ok, "and the message comes");
}

int main(int argc, char **argv)
{
    struct err e = {0};
    setenv("OMPI_MCA_btl", "tcp,self", 1);
    setenv("OMPI_MCA_btl_tcp_if_include", "127.0.0.0/8", 1);
    comm_mpi_prepare();
    test_begin(&argc, &argv);
    if (comm_init(&comm, transport, all_ranks - 1, 1, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    check_all(comm.remote[COMM_ALL] == (is_worker() && comm.workers > 1),
              "ranks that share no memory are hosts of their own");
    sums_over_tcp_are_exact();
    what_is_started_meanwhile_begins_at_once();
    a_rank_that_waits_sleeps();
    comm_release(&comm);
    return test_end();
}
