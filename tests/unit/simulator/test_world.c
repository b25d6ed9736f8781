/* The virtual clock: the cost of messages, links and steps, and that a rerun is identical to the
 * last event. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/spec/cluster.h"
#include "simulator/comm_sim.h"

static int parse(struct cluster *c, const char *text, struct jsonx_problems *problems)
{
    struct err e;
    json_t *j = jsonx_parse(text, strlen(text), &e);
    assert_non_null(j);
    int rc = cluster_parse(c, j, "", problems);
    json_decref(j);
    return rc;
}

/* An operation that sends or receives one message. */
struct transfer {
    struct comm_op op;
    struct transport_req req;
    int peer, tag;
    void *data;
    size_t bytes;
    bool sending, begun;
};

static int transfer_step(struct comm_op *op, struct transport *t)
{
    struct transfer *x = (struct transfer *)op;
    if (!x->begun) {
        x->begun = true;
        int rc = x->sending ? t->ops->send(t, x->peer, x->tag, x->data, x->bytes, &x->req)
                            : t->ops->recv(t, x->peer, x->tag, x->data, x->bytes, &x->req);
        if (rc < 0) {
            return rc;
        }
    }
    return t->ops->test(t, &x->req);
}

static int transfer(struct transport *t, bool sending, int peer, int tag, void *data, size_t bytes)
{
    struct transfer x = {.op.step = transfer_step,
                         .peer = peer,
                         .tag = tag,
                         .data = data,
                         .bytes = bytes,
                         .sending = sending};
    t->ops->start(t, &x.op);
    return t->ops->wait(t, &x.op, INT_MAX, 0);
}

struct actor {
    struct world *world;
    int rank;
    double times[8];
    int froms[8];
};

static const char four_nodes[] =
    "{\"seed\": 3, \"nodes\": [{\"name\": \"n\", \"count\": 4, \"fixed_seconds\": 0.5, "
    "\"seconds_per_sample\": 0.25}],"
    "\"links\": {\"latency_seconds\": 0.125, \"bytes_per_second\": 64}}";

static void step_then_send(void *arg)
{
    struct actor *a = arg;
    struct transport *t = world_transport(a->world, a->rank);
    world_set_free(a->world, a->rank, false);
    if (a->rank < 2) {
        char bytes[128] = {0};
        world_step_begin(a->world, a->rank);
        t->ops->pace(t, 0.5, 2);
        a->times[0] = t->ops->now(t);
        t->ops->pace(t, 1, 2);
        a->times[1] = t->ops->now(t);
        if (a->rank == 0) {
            assert_int_equal(transfer(t, true, 1, 7, bytes, sizeof bytes), 1);
        } else {
            assert_int_equal(transfer(t, false, 0, 7, bytes, sizeof bytes), 1);
        }
        a->times[2] = t->ops->now(t);
    }
}

static struct world *run(const struct cluster *c, int workers, struct actor *actors,
                         void (*fn)(void *))
{
    struct err e = {0};
    struct world *w = world_new(c, workers, 1, &e);
    assert_non_null(w);
    for (int i = 0; i <= workers; i++) {
        actors[i] = (struct actor){.world = w, .rank = i};
        assert_int_equal(world_set(w, i, fn, &actors[i], &e), 0);
    }
    if (world_run(w, &e) < 0) {
        fail_msg("%s", e.message);
    }
    return w;
}

static void a_step_and_a_message_cost_what_the_cluster_says(void **state)
{
    struct cluster *c = calloc(1, sizeof *c);
    struct jsonx_problems problems = {0};
    struct actor actors[3];
    assert_int_equal(parse(c, four_nodes, &problems), 0);
    struct world *w = run(c, 2, actors, step_then_send);
    for (int i = 0; i < 2; i++) {
        assert_true(actors[i].times[0] == 0.5); /* half of 0.5 + 2 * 0.25 */
        assert_true(actors[i].times[1] == 1);
        assert_true(actors[i].times[2] == 1 + 0.125 + 2); /* latency + 128 bytes at 64 a second */
    }
    world_free(w);
    free(c);
}

/* A lent block is read in its sender's memory; any other block is copied. */
static char lent[64], room[2][64];

static void lend(void *arg)
{
    struct actor *a = arg;
    struct transport *t = world_transport(a->world, a->rank);
    for (int i = 0; i < 2 && a->rank < 2; i++) {
        struct transfer x = {.op.step = transfer_step,
                             .peer = 1 - a->rank,
                             .tag = i == 0 ? 7 : 7 | TRANSPORT_LENT,
                             .bytes = 64,
                             .data = a->rank == 0 ? lent : room[i],
                             .sending = a->rank == 0};
        t->ops->start(t, &x.op);
        assert_int_equal(t->ops->wait(t, &x.op, INT_MAX, 0), 1);
        if (a->rank == 1) {
            assert_ptr_equal(x.req.at, i == 0 ? room[0] : lent);
        }
    }
}

static void a_message_that_is_lent_is_not_copied(void **state)
{
    struct cluster *c = calloc(1, sizeof *c);
    struct jsonx_problems problems = {0};
    struct actor actors[3];
    assert_int_equal(parse(c, four_nodes, &problems), 0);
    memset(lent, 5, sizeof lent);
    world_free(run(c, 2, actors, lend));
    assert_memory_equal(room[0], lent, sizeof lent);
    assert_int_equal(room[1][0], 0);
    free(c);
}

/* Three clients push 64 bytes to the server at times 0, 0 and 1: fair shares of a link of 64 bytes
 * per second. */
static void push_to_server(void *arg)
{
    struct actor *a = arg;
    struct transport *t = world_transport(a->world, a->rank);
    char bytes[64] = {0};
    world_set_free(a->world, a->rank, false);
    if (a->rank == 3) {
        for (int i = 0; i < 3; i++) {
            struct transfer x = {.op.step = transfer_step,
                                 .peer = TRANSPORT_ANY,
                                 .tag = 1,
                                 .data = bytes,
                                 .bytes = sizeof bytes};
            t->ops->start(t, &x.op);
            assert_int_equal(t->ops->wait(t, &x.op, INT_MAX, 0), 1);
            a->times[i] = t->ops->now(t);
            a->froms[i] = x.req.from;
        }
        return;
    }
    if (a->rank == 2) {
        world_step_begin(a->world, a->rank);
        t->ops->pace(t, 1, 2); /* a step of one second */
    }
    assert_int_equal(transfer(t, true, 3, 1, bytes, sizeof bytes), 1);
}

static void pushes_share_the_servers_link_fairly_and_ties_go_to_the_lower_rank(void **state)
{
    struct cluster *c = calloc(1, sizeof *c);
    struct jsonx_problems problems = {0};
    struct actor actors[4];
    assert_int_equal(
        parse(c,
              "{\"nodes\": [{\"name\": \"n\", \"count\": 3, \"seconds_per_sample\": 0.5}], "
              "\"server\": {\"bytes_per_second\": 64}}",
              &problems),
        0);
    struct world *w = run(c, 3, actors, push_to_server);
    /* until 1 s two share: 32 bytes each are through; then three share: 32 bytes at 64/3 take 1.5
     * s: both end at 2.5 s with 32 of the third's 64 bytes through, which then has the link alone:
     * 3 s */
    assert_true(fabs(actors[3].times[0] - 2.5) < 1e-9);
    assert_true(fabs(actors[3].times[1] - 2.5) < 1e-9);
    assert_true(fabs(actors[3].times[2] - 3.0) < 1e-9);
    assert_int_equal(actors[3].froms[0], 0);
    assert_int_equal(actors[3].froms[1], 1);
    assert_int_equal(actors[3].froms[2], 2);
    world_free(w);
    free(c);
}

static void wait_for_nothing(void *arg)
{
    struct actor *a = arg;
    struct transport *t = world_transport(a->world, a->rank);
    char byte;
    if (a->rank == 1) {
        transfer(t, false, 0, 5, &byte, 1);
    }
}

static void a_deadlock_names_who_waits(void **state)
{
    struct cluster *c = calloc(1, sizeof *c);
    struct jsonx_problems problems = {0};
    struct err e = {0};
    assert_int_equal(parse(c, four_nodes, &problems), 0);
    struct world *w = world_new(c, 2, 1, &e);
    struct actor actors[3];
    for (int i = 0; i < 3; i++) {
        actors[i] = (struct actor){.world = w, .rank = i};
        assert_int_equal(world_set(w, i, wait_for_nothing, &actors[i], &e), 0);
    }
    assert_true(world_run(w, &e) < 0);
    assert_non_null(strstr(e.message, "(1)"));
    world_free(w);
    free(c);
}

static void every_mistake_of_a_cluster_is_reported_with_its_place(void **state)
{
    struct cluster *c = calloc(1, sizeof *c);
    struct jsonx_problems p = {0};
    assert_true(
        parse(c,
              "{\"sead\": 1, \"nodes\": [{\"name\": \"a\", \"seconds_per_sample\": 1}, "
              "{\"name\": \"c\", \"fixed_seconds\": -1}, {\"name\": \"b\"}],"
              "\"groups\": [[\"a\", \"x\"], [\"a\"]], \"links\": {\"latency_seconds\": \"fast\"}}",
              &p) < 0);
    static const char *const places[] = {"/sead",       "/nodes/1/fixed_seconds",
                                         "/nodes/2",    "/groups/0/1",
                                         "/groups/1/0", "/links/latency_seconds"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bool found = false;
        for (int k = 0; k < p.count; k++) {
            found = found || strcmp(p.items[k].pointer, places[i]) == 0;
        }
        if (!found) {
            fail_msg("nothing was reported at %s", places[i]);
        }
    }
    jsonx_problems_release(&p);
    assert_true(parse(c, "{\"nodes\": []}", &p) < 0);
    jsonx_problems_release(&p);
    assert_true(parse(c,
                      "{\"nodes\": [{\"name\": \"n\", \"count\": 100000, \"fixed_seconds\": 1}]}",
                      &p) < 0);
    assert_non_null(strstr(p.items[0].message, "from 1 to 1024"));
    jsonx_problems_release(&p);
    assert_true(parse(c,
                      "{\"nodes\": [{\"name\": \"n\", \"count\": 2, \"fixed_seconds\": 1}, "
                      "{\"name\": \"n-2\", \"fixed_seconds\": 1}]}",
                      &p) < 0);
    assert_string_equal(p.items[0].pointer, "/nodes/1/name");
    jsonx_problems_release(&p);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_and_a_message_cost_what_the_cluster_says),
        cmocka_unit_test(a_message_that_is_lent_is_not_copied),
        cmocka_unit_test(pushes_share_the_servers_link_fairly_and_ties_go_to_the_lower_rank),
        cmocka_unit_test(a_deadlock_names_who_waits),
        cmocka_unit_test(every_mistake_of_a_cluster_is_reported_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
