/* Comm over real MPI: all-reduce, groups, messages, broadcast, meeting.   ranks: 2 3 4 5
 * The last rank is the keeper. Inputs are whole numbers, so sums are exact whatever the order. */
#include <math.h>
#include <stdatomic.h>

#include "tests/mpi/mpi_test.h"

static struct comm comm;

static int is_worker(void)
{
    return comm.rank < comm.workers;
}

static float value(int rank, size_t i, int round)
{
    return (float)((int)((i * 7 + (size_t)rank * 13 + (size_t)round * 3) % 101) - 50);
}

static int sums_are_exact(enum comm_group group, size_t n, int round)
{
    struct allreduce a;
    struct err e;
    float *x = malloc((n + 1) * sizeof(float));
    int ok = 1;
    allreduce_init(&a, &comm, group, n);
    for (size_t i = 0; i < n; i++) {
        x[i] = value(comm.rank, i, round);
    }
    allreduce_start(&a, x, n, n % 2 ? 1 : 0);
    ok = comm_wait(&comm, &a.op, &e) == 0;
    for (size_t i = 0; i < n && ok; i++) {
        float want = 0;
        for (int m = 0; m < comm.n_members[group]; m++) {
            want += value(comm.members[group][m], i, round);
        }
        ok = x[i] == want;
    }
    allreduce_release(&a);
    free(x);
    return ok;
}

static void all_reduce_is_exact_at_every_length(void)
{
    static const size_t lengths[] = {0, 1, 2, 3, 5, 100, 4095, 4096, 4097, 10007, 262147, 1663370};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char what[80];
        snprintf(what, sizeof what, "the sum of %zu floats is exact", lengths[i]);
        check_all(!is_worker() || sums_are_exact(COMM_ALL, lengths[i], (int)i), what);
    }
}

/* Values whose sum depends on the order: every rank must get the same bits, whatever they are. */
static void all_ranks_get_the_same_bits(void)
{
    size_t n = 10007;
    float *x = malloc(n * sizeof(float));
    struct allreduce a;
    struct err e;
    int ok = 1;
    allreduce_init(&a, &comm, COMM_ALL, n);
    for (size_t i = 0; i < n; i++) {
        x[i] = 1.0f / (float)(1 + i % 97 + (size_t)comm.rank * 31);
    }
    if (is_worker()) {
        allreduce_start(&a, x, n, n % 2 ? 1 : 0);
        ok = comm_wait(&comm, &a.op, &e) == 0;
    }
    float *first = malloc(n * sizeof(float));
    memcpy(first, x, n * sizeof(float));
    MPI_Bcast(first, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    check_all(ok && (!is_worker() || memcmp(first, x, n * sizeof(float)) == 0),
              "every rank gets the same bits");
    allreduce_release(&a);
    free(first);
    free(x);
}

static const char *one_host_each(struct transport *t, int rank)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    (void)t;
    return names[rank % 5];
}

static bool sum_of_fractions(struct comm *c, float *x, size_t n)
{
    struct allreduce a;
    struct err e;
    for (size_t i = 0; i < n; i++) {
        x[i] = 1.0f / (float)(1 + i % 97 + (size_t)c->rank * 31);
    }
    allreduce_init(&a, c, COMM_ALL, n);
    allreduce_start(&a, x, n, n % 2 ? 7 : 0);
    bool ok = comm_wait(c, &a.op, &e) == 0;
    allreduce_release(&a);
    return ok;
}

/* Each float is in one part, and what is in a part is its sum, though others may still be under
 * way. early: how often they were. */
static bool parts_are_sums(struct comm *c, size_t n, int round, int *early)
{
    struct allreduce a;
    struct err e;
    float *x = malloc(n * sizeof(float));
    bool *seen = calloc(n, sizeof(bool)), ok = true;
    size_t first, count, all = 0;
    int left, before = 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = value(c->rank, i, round);
    }
    allreduce_init(&a, c, COMM_ALL, n);
    allreduce_start(&a, x, n, 3);
    while ((left = allreduce_next_part(&a, &first, &count, &e)) > 0) {
        ok = ok && first + count <= n && (before == 0 || left == before - 1);
        *early += before == 0 && left > 1 && comm_test(&a.op) == 0;
        before = left;
        all += count;
        for (size_t i = first; ok && i < first + count; i++) {
            float want = 0;
            for (int m = 0; m < c->workers; m++) {
                want += value(m, i, round);
            }
            ok = x[i] == want && !seen[i];
            seen[i] = true;
        }
    }
    ok = ok && left == 0 && before == 1 && all == n && comm_test(&a.op) == 1;
    allreduce_release(&a);
    free(seen);
    free(x);
    return ok;
}

static void sums_come_in_parts(struct comm *c)
{
    static const size_t lengths[] = {3, 100, 4095, 4099, 64001, 262147, 1663370};
    enum { LENGTHS = sizeof lengths / sizeof *lengths, OFTEN = 5 };
    int early = 0, some = 0;
    for (int i = 0; i < LENGTHS; i++) {
        check_all(!is_worker() || parts_are_sums(c, lengths[i], i, &early),
                  "the parts of a sum are sums, and all of it");
    }
    for (int i = 0; i < OFTEN && comm.workers > 1 && !comm.native; i++) {
        check_all(!is_worker() || parts_are_sums(c, lengths[LENGTHS - 1], i, &early),
                  "the parts of a sum are sums each time");
    }
    MPI_Allreduce(&early, &some, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check_all(some > 0 || comm.workers == 1 || comm.native, "a part is given before the end");
}

/* The part of a rank that is added from elsewhere, weighed on the way, with words behind it. */
static bool sum_from_elsewhere(struct comm *c, size_t n, size_t words)
{
    const float share = 1.0f / (float)(3 + c->rank);
    struct allreduce a, b;
    struct err e;
    float *part = malloc((n + 1) * sizeof(float)), *kept = malloc((n + 1) * sizeof(float)),
          *there = malloc((n + words) * sizeof(float)),
          *elsewhere = malloc((n + words) * sizeof(float));
    for (size_t i = 0; i < n + words; i++) {
        float x = 1.0f / (float)(1 + i % 89 + (size_t)c->rank * 29);
        there[i] = i < n ? share * x : x;
        elsewhere[i] = i < n ? NAN : x;
        if (i < n) {
            part[i] = x;
        }
    }
    memcpy(kept, part, n * sizeof(float));
    allreduce_init(&a, c, COMM_ALL, n + words);
    allreduce_init(&b, c, COMM_ALL, n + words);
    allreduce_start(&a, there, n + words, words);
    allreduce_start_from(&b, elsewhere, n + words, words,
                         &(struct allreduce_source){part, n, share});
    bool ok = comm_wait(c, &a.op, &e) == 0 && comm_wait(c, &b.op, &e) == 0 &&
              memcmp(there, elsewhere, (n + words) * sizeof(float)) == 0 &&
              memcmp(kept, part, n * sizeof(float)) == 0;
    allreduce_release(&a);
    allreduce_release(&b);
    free(elsewhere);
    free(there);
    free(kept);
    free(part);
    return ok;
}

static void a_part_may_stand_elsewhere(struct comm *c)
{
    static const size_t lengths[] = {0, 1, 100, 4095, 4096, 10007, 262147, 1663370};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_all(!is_worker() || (sum_from_elsewhere(c, lengths[i], 0) &&
                                   sum_from_elsewhere(c, lengths[i], 13)),
                  "a part that is added from elsewhere gives the same bits, and stays");
    }
}

/* Between hosts a ring's chunks go in pieces. */
static void pieces_do_not_change_a_bit(void)
{
    static const size_t lengths[] = {63999, 64001, 262147, 1663370};
    const struct transport_ops *ops = transport->ops;
    struct transport_ops apart = *ops;
    struct comm hosts;
    struct err e;
    apart.host = one_host_each;
    transport->ops = &apart;
    bool set = comm_init(&hosts, transport, comm.workers, comm.servers, &e) == 0;
    transport->ops = ops;
    hosts.native = comm.native;
    check_all(set && hosts.remote[COMM_ALL] == (is_worker() && comm.workers > 1) &&
                  !comm.remote[COMM_ALL],
              "what is between hosts is known");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        float *whole = malloc(n * sizeof(float)), *pieces = malloc(n * sizeof(float));
        bool ok = !is_worker() || sum_of_fractions(&comm, whole, n);
        ok = ok && (!is_worker() || (sum_of_fractions(&hosts, pieces, n) &&
                                     memcmp(whole, pieces, n * sizeof(float)) == 0));
        check_all(ok, "a sum between hosts has the bits of one within a host");
        free(whole);
        free(pieces);
    }
    sums_come_in_parts(&hosts);
    a_part_may_stand_elsewhere(&hosts);
    comm_release(&hosts);
}

static void several_under_way_do_not_mix(void)
{
    enum { OPS = 5 };
    struct allreduce a[OPS];
    float x[OPS][5000];
    struct err e;
    int ok = 1;
    for (int k = 0; k < OPS && is_worker(); k++) {
        allreduce_init(&a[k], &comm, COMM_ALL, 5000);
        for (size_t i = 0; i < 5000; i++) {
            x[k][i] = value(comm.rank, i, k);
        }
        allreduce_start(&a[k], x[k], k % 2 ? 5000 : 300, 2);
    }
    for (int k = OPS - 1; k >= 0 && is_worker(); k--) {
        ok = ok && comm_wait(&comm, &a[k].op, &e) == 0;
        for (size_t i = 0; i < (k % 2 ? 5000 : 300) && ok; i++) {
            float want = 0;
            for (int r = 0; r < comm.workers; r++) {
                want += value(r, i, k);
            }
            ok = x[k][i] == want;
        }
        allreduce_release(&a[k]);
    }
    check_all(ok, "five all-reduces under way at once do not mix");
}

static void groups_sum_among_themselves(void)
{
    int groups[64];
    struct err e;
    for (int i = 0; i < comm.workers; i++) {
        groups[i] = i / 2;
    }
    int ok = comm_set_groups(&comm, groups, &e) == 0;
    if (is_worker()) {
        ok = ok && comm.n_members[COMM_MINE] == ((comm.rank | 1) < comm.workers ? 2 : 1);
        ok = ok && (comm.n_members[COMM_LEADERS] > 0) == (comm.rank % 2 == 0);
        ok = ok && sums_are_exact(COMM_MINE, 6000, 1);
        ok = ok && (comm.n_members[COMM_LEADERS] == 0 || sums_are_exact(COMM_LEADERS, 6000, 2));
    }
    check_all(ok, "groups and their leaders sum among themselves");
}

static void messages_carry_header_and_body(void)
{
    enum { N = 100000 };
    float *body = calloc(N, sizeof(float));
    struct err e;
    struct message m, b;
    char none = 0;
    int ok = 1;
    if (is_worker()) {
        int head[2] = {comm.rank, 42};
        for (int i = 0; i < N; i++) {
            body[i] = (float)(comm.rank + i % 10);
        }
        message_send(&m, &comm, comm.workers, 5, head, sizeof head, NULL, 0);
        message_send(&b, &comm, comm.workers, 6 | TRANSPORT_LENT, &none, 1, body, N);
        ok = comm_wait(&comm, &m.op, &e) == 0 && comm_wait(&comm, &b.op, &e) == 0;
    } else {
        int seen = 0;
        for (int k = 0; k < comm.workers && ok; k++) {
            int head[2];
            message_recv(&m, &comm, TRANSPORT_ANY, 5, head, sizeof head, NULL, 0);
            ok = comm_wait(&comm, &m.op, &e) == 0 && head[1] == 42 && m.from == head[0];
            message_recv(&b, &comm, head[0], 6 | TRANSPORT_LENT, &none, 1, body, N);
            ok = ok && comm_wait(&comm, &b.op, &e) == 0 && b.body_bytes == N * sizeof(float) &&
                 b.body == body; /* lent: no other place over MPI */
            for (int i = 0; i < N && ok; i++) {
                ok = body[i] == (float)(head[0] + i % 10);
            }
            seen |= 1 << head[0];
        }
        ok = ok && seen == (1 << comm.workers) - 1;
    }
    check_all(ok, "the keeper receives from whoever comes, with the right bodies");
    free(body);
}

/* Of any number of bytes: states have texts beside their floats. */
static void a_broadcast_reaches_everybody(void)
{
    char x[4003];
    struct err e;
    int ok = 1;
    for (int root = 0; root < all_ranks; root++) {
        for (int i = 0; i < (int)sizeof x; i++) {
            x[i] = (char)(comm.rank == root && i < 4002 ? i * 7 + root : -1);
        }
        ok = ok && comm_broadcast(&comm, root, x, 4002, &e) == 0 && x[4002] == -1;
        for (int i = 0; i < 4002; i++) {
            ok = ok && x[i] == (char)(i * 7 + root);
        }
    }
    check_all(ok, "a broadcast of bytes from any rank reaches everybody, and no byte more");
}

/* Says whether its rank has left the meeting, as often as the rank that comes late asks. The
 * exchange thread answers, while the main thread is in the meeting. */
enum { QUESTIONS = 200, TAG_QUESTION = 7, TAG_ANSWER = 8 };
struct witness {
    struct comm_op op;
    int late, turn; /* turn: questions and answers so far */
    char word;
    atomic_bool left;
    struct transport_req r;
};

static int testify(struct comm_op *op, struct transport *t)
{
    struct witness *w = (struct witness *)op;
    for (;;) {
        int rc = w->turn > 0 ? t->ops->test(t, &w->r) : 1;
        if (rc <= 0 || w->turn == 2 * QUESTIONS) {
            return rc;
        }
        if (w->turn++ % 2 == 0) {
            rc = t->ops->recv(t, w->late, TAG_QUESTION | TRANSPORT_CONTROL, &w->word, 1, &w->r);
        } else {
            w->word = w->left;
            rc = t->ops->send(t, w->late, TAG_ANSWER | TRANSPORT_CONTROL, &w->word, 1, &w->r);
        }
        if (rc < 0) {
            return rc;
        }
    }
}

static bool all_others_are_still_there(void)
{
    struct err e;
    bool ok = true;
    for (int i = 0; i < QUESTIONS * all_ranks && ok; i++) {
        struct message m;
        char question = 0, left = 1;
        if (i % all_ranks != comm.rank) {
            message_send(&m, &comm, i % all_ranks, TAG_QUESTION, &question, 1, NULL, 0);
            ok = comm_wait(&comm, &m.op, &e) == 0;
            message_recv(&m, &comm, i % all_ranks, TAG_ANSWER, &left, 1, NULL, 0);
            ok = comm_wait(&comm, &m.op, &e) == 0 && ok && !left;
        }
    }
    return ok;
}

/* Whoever comes first leaves after the last one came; twice, since the second meeting must not take
 * the first one's messages. */
static void nobody_leaves_a_meeting_early(void)
{
    struct err e;
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        struct witness w = {.op.step = testify, .late = i % all_ranks};
        bool late = comm.rank == w.late;
        if (!late) {
            transport->ops->start(transport, &w.op);
        }
        ok = (!late || all_others_are_still_there()) && ok;
        ok = comm_meet(&comm, &e) == 0 && ok;
        w.left = true;
        ok = (late || comm_wait(&comm, &w.op, &e) == 0) && ok;
    }
    check_all(ok, "nobody leaves a meeting before the last one came");
}

struct endless {
    struct comm_op op;
    int steps;
};

static int goes_on(struct comm_op *op, struct transport *t)
{
    ((struct endless *)op)->steps++;
    return 0;
}

/* The last that a rank exchanges: it failed, and what it had under way may be freed. */
static void a_wait_that_ends_at_its_deadline_ends_the_exchange(void)
{
    struct err e = {0};
    int ok = 1, head = 3;
    if (comm.rank == 0) {
        struct endless *a = calloc(1, sizeof *a), b = {.op = {.step = goes_on}};
        a->op.step = goes_on;
        transport->ops->start(transport, &a->op);
        transport->ops->start(transport, &b.op);
        comm.deadline = 0.05;
        ok = comm_wait(&comm, &a->op, &e) == -ERR_TIMEOUT && a->steps > 0;
        memset(a, 0, sizeof *a); /* whoever still took a step would jump to 0 */
        free(a);
        comm.deadline = 0;
        int steps = b.steps;
        ok = ok && comm_wait(&comm, &b.op, &e) == -ERR_PEER;
        struct message m;
        message_send(&m, &comm, 1, 9, &head, sizeof head, NULL, 0);
        ok = ok && comm_wait(&comm, &m.op, &e) == -ERR_PEER &&
             strstr(e.message, "exchanges nothing more");
        comm_abandon(&comm); /* once more does no harm */
        ok = ok && b.steps == steps;
    }
    check_all(
        ok,
        "a wait that ends at its deadline ends the exchange, and nothing under way is touched any "
        "more");
}

/* The library's own sums, beside messages and sums of a group, which stay ours. */
static void mpis_own_sums_are_exact(void)
{
    struct err e;
    int ok = comm_mpi_use_native(transport, comm.workers, &e) == 0;
    comm.native = true;
    check_all(ok && (!is_worker() ||
                     (sums_are_exact(COMM_ALL, 3, 1) && sums_are_exact(COMM_ALL, 1663370, 2) &&
                      sums_are_exact(COMM_MINE, 6000, 3))),
              "MPI's own sums over the workers are exact");
    pieces_do_not_change_a_bit();
    several_under_way_do_not_mix();
    messages_carry_header_and_body();
    comm.native = false;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    test_begin(&argc, &argv);
    if (comm_init(&comm, transport, all_ranks - 1, 1, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    all_reduce_is_exact_at_every_length();
    all_ranks_get_the_same_bits();
    pieces_do_not_change_a_bit();
    sums_come_in_parts(&comm);
    a_part_may_stand_elsewhere(&comm);
    several_under_way_do_not_mix();
    groups_sum_among_themselves();
    messages_carry_header_and_body();
    a_broadcast_reaches_everybody();
    nobody_leaves_a_meeting_early();
    mpis_own_sums_are_exact();
    a_wait_that_ends_at_its_deadline_ends_the_exchange();
    comm_release(&comm);
    return test_end();
}
