/* All-reduces and messages that a rank leaves under way (docs/decisions/0022): the others give them
 * up, go on without it, and take no message of before.   ranks: 3 4 5
 * The last rank is the keeper. The one that is "lost" is the last worker: it stays, and is silent;
 * what the others had sent to it is never received. */
#include <stdatomic.h>

#include "tests/mpi/mpi_test.h"
#include "worker/exchange/lockstep/survival/absence.h"

static struct comm comm;
static atomic_int lost_since; /* how many were declared */

static bool one_is_lost(void *ctx)
{
    (void)ctx;
    return lost_since > comm.generation;
}

static bool is_member(void)
{
    return comm.rank < comm.workers - lost_since;
}

static bool sum_is_exact(struct allreduce *a, float *x, size_t n)
{
    struct err e;
    float want = 0;
    int members = comm.n_members[COMM_ALL];
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(comm.rank + 1);
    }
    allreduce_start(a, x, n, 3);
    bool ok = comm_wait(&comm, &a->op, &e) == 0;
    for (int m = 0; m < members; m++) {
        want += (float)(comm.members[COMM_ALL][m] + 1);
    }
    for (size_t i = 0; i < n && ok; i++) {
        ok = x[i] == want;
    }
    return ok;
}

/* Several sums, of which some ranks have begun more than others when the wait ends. */
static void sums_go_on_without_a_rank(size_t n, int generation)
{
    enum { SUMS = 3 };
    struct allreduce a[SUMS];
    float *x[SUMS];
    struct err e = {0};
    int gone = comm.workers - 1, begun = 1 + comm.rank % SUMS;
    bool ok = true;
    for (int k = 0; k < SUMS; k++) {
        allreduce_init(&a[k], &comm, COMM_ALL, n);
        x[k] = calloc(n, sizeof(float));
        ok = ok && (comm.rank >= comm.workers || sum_is_exact(&a[k], x[k], n));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    lost_since = 1;
    comm.watches = true;
    if (is_member()) {
        for (int k = 0; k < begun; k++) {
            allreduce_start(&a[k], x[k], n, 3);
        }
        ok = ok && comm_wait(&comm, &a[0].op, &e) == -ERR_CANCELLED;
        ok = ok && comm_test(&a[0].op) == COMM_UNDER_WAY;
        for (int k = 0; k < SUMS; k++) {
            ok = ok && allreduce_cancel(&a[k], &e) == 0 && comm_test(&a[k].op) != COMM_UNDER_WAY &&
                 !a[k].op.torn;
        }
        comm_drop(&comm, &gone, 1, generation);
    }
    comm.watches = false;
    MPI_Barrier(MPI_COMM_WORLD); /* all have given up */
    for (int round = 0; round < 20 && is_member(); round++) {
        for (int k = 0; k < SUMS; k++) {
            ok = ok && sum_is_exact(&a[k], x[k], n);
        }
    }
    char what[100];
    snprintf(what, sizeof what, "sums of %zu floats go on without a rank, and are exact, change %d",
             n, generation);
    check_all(ok && (!is_member() || comm.n_members[COMM_ALL] == comm.workers - 1), what);
    for (int k = 0; k < SUMS; k++) {
        allreduce_release(&a[k]);
        free(x[k]);
    }
    comm_release(&comm);
    lost_since = 0;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void messages_that_nobody_answers_end(void)
{
    enum { N = 300000 };
    float *body = calloc(N, sizeof(float));
    struct err e = {0};
    struct message in, out;
    char head = 0, got;
    bool ok = true;
    if (comm.rank == 0) { /* rank 1 does neither receive nor send */
        message_recv(&in, &comm, 1, 7, &got, 1, body, N);
        message_send(&out, &comm, 1, 8, &head, 1, body, N);
        ok = comm_wait_for(&comm, &in.op, 0.05, &e) == COMM_UNDER_WAY;
        ok = ok && comm_cancel(&comm, &in.op, &e) == 0 && !in.op.torn;
        ok = ok && comm_cancel(&comm, &out.op, &e) == 0;
        ok = ok && comm_test(&in.op) != COMM_UNDER_WAY && comm_test(&out.op) != COMM_UNDER_WAY;
    }
    check_all(ok, "messages that nobody answers can be given up");
    free(body);
}

static double lost_at; /* comm_now() */

static bool the_giver_is_lost(void *ctx)
{
    (void)ctx;
    return comm_now(&comm) >= lost_at;
}

/* The program of rank 1 has ended, the others' have not. */
static int own_state_of(void *ctx, struct own_state *out, struct err *e)
{
    (void)ctx;
    *out = (struct own_state){0};
    return comm.rank == 1 ? OWN_STATE_AWAY : own_state_alloc(out, 1000, e);
}

/* Rank 0 is to give its state, and is silent: who waits for it ends once it is declared lost, long
 * before the deadline. Rank 1 exchanges nothing afterwards. */
static void a_state_that_nobody_gives_is_given_up(void)
{
    enum { N = 1000 };
    float params[N] = {0};
    struct dev_replica replica = {.host = {[DEV_PARAMS] = params}};
    struct rank_env env = {
        .comm = &comm, .replica = &replica, .n_params = N, .own_state = own_state_of};
    struct lockstep l = {.env = &env};
    struct own_state own = {0};
    struct err e = {0};
    int rc = 0, wanted = comm.rank == 1 ? -ERR_PEER : 0;
    allreduce_init(&l.sums, &comm, COMM_ALL, SPEC_WORKERS);
    comm.changed = the_giver_is_lost;
    comm.deadline = 20;
    double began = comm_now(&comm);
    lost_at = began + 2; /* the sum before it has ended by then */
    if (comm.rank == 0) {
        rc = lockstep_sum(&l, l.away, (size_t)comm.workers, &e);
    } else if (comm.rank < comm.workers) {
        rc = absence_provide(&l, &own, &e);
    }
    check_all(rc == wanted && comm_now(&comm) < began + 10,
              "a state that nobody gives is given up once the giver is lost");
    own_state_release(&own);
    allreduce_release(&l.sums);
}

/* A new comm would use the tags of the one before, whose messages to the lost rank still lie there.
 */
static void begin(uint32_t first_serial)
{
    struct err e = {0};
    if (comm_init(&comm, transport, all_ranks - 1, 1, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    comm.changed = one_is_lost;
    comm.serials[COMM_ALL] = first_serial;
}

int main(int argc, char **argv)
{
    static const size_t lengths[] = {5, 4095, 4099, 64001, 1663370};
    static const int generations[] = {1, 32, 31, 1056, COMM_GENERATIONS};
    comm_mpi_end_alone();
    test_begin(&argc, &argv);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        begin(100 * (uint32_t)i);
        sums_go_on_without_a_rank(lengths[i], generations[i]);
    }
    begin(0);
    messages_that_nobody_answers_end();
    a_state_that_nobody_gives_is_given_up();
    comm_release(&comm);
    return test_end();
}
