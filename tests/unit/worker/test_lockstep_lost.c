/* What lockstep strategies do when a worker dies or comes back, piece by piece
 * (docs/decisions/0022, 0036, 0062, 0063): a replica goes back to the start of its step, or to an
 * average, bit by bit. test_verdict.c has the keeper's decision, tests/survival/test_lost_worker.py
 * real ranks and kill -9. */
#include "fixture.h"
#include "no_messages.h"

#include "kernels/device.h"
#include "worker/exchange/gradients/ways.h"
#include "worker/exchange/lockstep/survival/rollback.h"

enum { W = 4 };

/* ---- the replica ----------------------------------------------------------------------------- */

static void fill(float *x, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(seed >> 8) / (float)(1 << 24);
    }
}

static float *copy_of(const struct dev_replica *r, enum dev_block b)
{
    float *copy = malloc((r->count[b] + 1) * sizeof(float));
    memcpy(copy, r->host[b], r->count[b] * sizeof(float));
    return copy;
}

/* `parts` of 5 parts are updated, and the statistics change; then the step is undone. */
static void undo_after(const char *optimizer, int parts)
{
    char text[600];
    snprintf(
        text, sizeof text,
        "{\"model\": {\"input\": [28, 28, 1], \"layers\": [{\"type\": \"dense\", \"units\": 30}, "
        "{\"type\": \"batch_norm\"}, {\"type\": \"dense\", \"units\": 10}]}, \"data\": "
        "{\"format\": \"glyphs\", \"samples\": 64}, \"batching\": {\"global_batch\": 16}, "
        "\"optimizer\": %s, \"workers\": 2, \"epochs\": 1}",
        optimizer);
    struct jobspec *spec = make_spec(text);
    struct device *dev = dev_open("cpu:1", &err_);
    struct dev_replica r;
    assert_non_null(dev);
    OK(dev->ops->replica_init(dev, &r, &spec->network, &spec->optimizer, &err_));
    for (int b = 0; b < DEV_BLOCKS; b++) {
        fill(r.host[b], r.count[b], (unsigned)b + 1);
    }
    struct comm comm = {.workers = 8};
    struct bucket bucket = {0};
    struct rank_env env = {.comm = &comm, .replica = &r};
    struct gradients g = {.env = &env, .buckets = &bucket, .n_buckets = 1};
    OK(gradients_keep(&g, &err_));
    float *before[DEV_BLOCKS];
    for (int b = 0; b < DEV_BLOCKS; b++) {
        before[b] = copy_of(&r, (enum dev_block)b);
    }
    size_t n = r.count[DEV_PARAMS];
    gradients_begin_parts(&g);
    for (int p = 0; p < parts; p++) {
        int at = (3 * p + 1) % 5; /* in some order */
        size_t first = n * (size_t)at / 5, end = n * ((size_t)at + 1) / 5;
        gradients_keep_part(&g, first, end - first);
        OK(dev_update_part(&r, first, end - first, 0.1, 1.0, p == 4, &err_));
    }
    fill(r.host[DEV_STATS], r.count[DEV_STATS], 99);
    assert_true(parts == 0 ||
                memcmp(before[DEV_PARAMS], r.host[DEV_PARAMS], n * sizeof(float)) != 0);
    OK(gradients_undo(&g, &err_));
    for (int b = 0; b < DEV_BLOCKS; b++) {
        assert_memory_equal(before[b], r.host[b], r.count[b] * sizeof(float));
        free(before[b]);
    }
    gradients_undo_free(&g);
    dev->ops->replica_release(&r);
    dev_close(dev);
    drop_spec(spec);
}

static void a_step_is_undone_bit_by_bit_however_far_it_came(void **state)
{
    (void)state;
    static const char *const optimizers[] = {
        "{\"type\": \"sgd\", \"learning_rate\": 0.1}",
        "{\"type\": \"sgd\", \"learning_rate\": 0.1, \"momentum\": 0.9}",
        "{\"type\": \"adam\", \"learning_rate\": 0.1}",
    };
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        for (int parts = 0; parts <= 5; parts++) {
            undo_after(optimizers[i], parts);
        }
    }
}

/* ---- back to an average ---------------------------------------------------------------------- */

static void a_lost_worker_leaves_its_group_and_a_lower_one_moves_the_others_up(void **state)
{
    (void)state;
    static const int pairs[W] = {0, 0, 1, 1}, lost[] = {3, 0};
    struct silent wire = {{&no_messages}, 2, W + 1};
    struct comm c;
    OK(comm_init(&c, &wire.t, W, 1, &err_));
    OK(comm_set_groups(&c, pairs, &err_));
    c.serials[COMM_MINE] = 9;
    comm_drop(&c, lost, 1, 1);
    assert_int_equal(c.n_members[COMM_MINE], 1);
    assert_int_equal(c.members[COMM_MINE][0], 2);
    assert_int_equal(c.place[COMM_ALL], 2);
    comm_drop(&c, lost, 2, 2);
    assert_int_equal(c.n_members[COMM_ALL], 2);
    assert_int_equal(c.place[COMM_ALL], 1);
    assert_int_equal(c.place[COMM_MINE], 0);
    assert_int_equal(c.serials[COMM_MINE], 0);
    comm_drop(&c, lost, 1, 3); /* rank 0 is there again */
    assert_int_equal(c.n_members[COMM_ALL], 3);
    assert_int_equal(c.place[COMM_ALL], 2);
    assert_int_equal(c.generation, 3);
    assert_int_equal(c.n_members[COMM_MINE], 1);
    comm_drop(&c, lost, 0, 4); /* and rank 3, too */
    assert_int_equal(c.n_members[COMM_MINE], 2);
    assert_int_equal(c.members[COMM_MINE][1], 3);
    assert_int_equal(c.place[COMM_MINE], 0);
    assert_int_equal(c.place[COMM_ALL], 2);
    comm_release(&c);
}

static int64_t undone[3]; /* steps, samples, calls */

static void note_undone(void *ctx, int staleness, int64_t steps, int64_t samples)
{
    (void)ctx;
    (void)staleness;
    undone[0] += steps;
    undone[1] += samples;
    undone[2]++;
}

/* One step was reported and one had no samples; each changes what an average would keep. Returns
 * the first one's slice. */
static struct slice make_three_steps(struct lockstep *l, struct rollback *back,
                                     struct dev_replica *r)
{
    struct slice first = {0};
    for (int step = 1; step <= 3; step++) {
        struct work w = {0};
        lockstep_train(l, &w);
        first = step == 1 ? w.slice : first;
        lockstep_done(l);
        struct row row = {.step = step, .batch = step == 2 ? 4 : 0};
        rollback_count(back, &row);
        for (int b = 0; b < DEV_BLOCKS; b++) {
            fill(r->host[b], r->count[b], 50 + (unsigned)(DEV_BLOCKS * step + b));
        }
    }
    return first;
}

/* One of four workers at the start of a run. */
struct place {
    struct jobspec *spec;
    struct device *dev;
    struct dev_replica r;
    struct silent wire;
    struct comm comm;
    struct rank_env env;
    struct lockstep l;
};

static void stand(struct place *p)
{
    struct run_state from = {.cursor = {.samples = 64, .epochs = 2}};
    *p = (struct place){.wire = {{&no_messages}, 2, W + 1}};
    p->spec = make_spec(
        "{\"model\": {\"input\": [28, 28, 1], \"layers\": [{\"type\": \"dense\", \"units\": 30}, "
        "{\"type\": \"batch_norm\"}, {\"type\": \"dense\", \"units\": 10}]}, \"data\": "
        "{\"format\": \"glyphs\", \"samples\": 64}, \"batching\": {\"global_batch\": 16}, "
        "\"evaluate\": {\"every_steps\": 1}, \"optimizer\": {\"type\": \"adam\", "
        "\"learning_rate\": 0.1}, \"workers\": 4, \"epochs\": 2}");
    p->dev = dev_open("cpu:1", &err_);
    assert_non_null(p->dev);
    OK(p->dev->ops->replica_init(p->dev, &p->r, &p->spec->network, &p->spec->optimizer, &err_));
    OK(comm_init(&p->comm, &p->wire.t, W, 1, &err_));
    p->env = (struct rank_env){.spec = p->spec,
                               .comm = &p->comm,
                               .replica = &p->r,
                               .train_samples = 64,
                               .undone = note_undone,
                               .first_sizes = {4, 5, 4, 3}};
    lockstep_init(&p->l, &p->env, &from);
    for (int b = 0; b < DEV_BLOCKS; b++) {
        fill(p->r.host[b], p->r.count[b], (unsigned)b + 1);
    }
    memset(undone, 0, sizeof undone);
}

static void leave(struct place *p)
{
    lockstep_release(&p->l);
    comm_release(&p->comm);
    p->dev->ops->replica_release(&p->r);
    dev_close(p->dev);
    drop_spec(p->spec);
}

/* Three steps after an average, with an evaluation that passed a boundary. */
static void all_is_as_it_was_at_the_average(void **state)
{
    (void)state;
    struct place p;
    struct lockstep *l = &p.l;
    float *before[DEV_BLOCKS];
    stand(&p);
    for (int b = 0; b < DEV_BLOCKS; b++) {
        before[b] = copy_of(&p.r, (enum dev_block)b);
    }
    struct rollback *back = rollback_new(l, false, &err_);
    assert_non_null(back);
    struct slice first = make_three_steps(l, back, &p.r);
    assert_true(l->at.evaluate);
    OK(rollback_return(back, &err_));
    struct work w = {0};
    lockstep_train(l, &w);
    assert_int_equal(l->at.step, 0);
    assert_int_equal(l->at.applied, 0);
    assert_false(l->at.evaluate);
    assert_memory_equal(&w.slice, &first, sizeof first);
    assert_int_equal(undone[0], 1);
    assert_int_equal(undone[1], 4);
    OK(rollback_return(back, &err_));
    assert_int_equal(undone[0], 1);        /* once */
    for (int b = 0; b < DEV_BLOCKS; b++) { /* gradients are made anew */
        assert_true(b == DEV_GRADS || memcmp(before[b], p.r.host[b], p.r.count[b] * 4) == 0);
    }
    lockstep_done(l);
    assert_true(l->at.evaluate); /* the boundary is passed once more */
    for (int b = 0; b < DEV_BLOCKS; b++) {
        free(before[b]);
    }
    rollback_free(back);
    leave(&p);
}

/* A worker that has just come back: its rows stand there too. */
static void steps_without_samples_are_undone_too(void **state)
{
    (void)state;
    struct place p;
    struct row row = {.step = 1};
    stand(&p);
    struct rollback *back = rollback_new(&p.l, false, &err_);
    assert_non_null(back);
    OK(rollback_return(back, &err_));
    assert_int_equal(undone[2], 0);
    rollback_count(back, &row);
    OK(rollback_return(back, &err_));
    assert_true(undone[0] == 0 && undone[1] == 0 && undone[2] == 1);
    rollback_free(back);
    leave(&p);
}

/* The state that others have kept, whose seventh average it is; the worker goes back there
 * later. */
static void who_comes_back_keeps_what_it_was_given(void **state)
{
    (void)state;
    struct place p;
    stand(&p);
    struct rollback *back = rollback_new(&p.l, false, &err_);
    struct lockstep_mark given = p.l.at;
    assert_non_null(back);
    given.step = 24;
    given.applied = 24 * 16;
    given.agenda.spec = NULL; /* of another process */
    lockstep_stand_at(&p.l, &given, 9);
    fill(p.r.host[DEV_PARAMS], p.r.count[DEV_PARAMS], 77);
    float *params = copy_of(&p.r, DEV_PARAMS);
    rollback_begin(back, 7, &p.l.at);
    assert_int_equal(back->averages, 7);
    make_three_steps(&p.l, back, &p.r);
    OK(rollback_return(back, &err_));
    assert_int_equal(p.l.at.step, 24);
    assert_int_equal(p.l.at.local_step, 9);
    assert_ptr_equal(p.l.at.agenda.spec, p.spec);
    assert_memory_equal(params, p.r.host[DEV_PARAMS], p.r.count[DEV_PARAMS] * sizeof *params);
    rollback_keep(back);
    assert_int_equal(back->averages, 8);
    free(params);
    rollback_free(back);
    leave(&p);
}

static void step_with_row(struct place *p, struct rollback *back, bool ends_round)
{
    struct work w = {0};
    lockstep_train(&p->l, &w);
    lockstep_done(&p->l);
    if (ends_round) {
        rollback_round_ended(back);
    }
    struct row row = {.step = p->l.at.step, .batch = 5};
    rollback_count(back, &row);
}

/* Rounds of two steps: the sum of the first round arrives during the third step. */
static void by_rounds_all_go_back_to_the_end_of_the_round_that_landed(void **state)
{
    (void)state;
    struct place p;
    stand(&p);
    size_t n = p.r.count[DEV_PARAMS];
    struct rollback *back = rollback_new(&p.l, true, &err_);
    float *w = copy_of(&p.r, DEV_PARAMS), *sum = calloc(n, sizeof *sum);
    assert_non_null(back);
    assert_non_null(sum);
    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(i % 7);
        sum[i] = (float)(i % 3);
    }
    for (int i = 0; i < 3; i++) {
        step_with_row(&p, back, i == 1);
    }
    p.l.at.evaluated_here = true;
    rollback_landed(back, w, sum);
    step_with_row(&p, back, true);
    assert_int_equal(back->averages, 2);
    OK(rollback_return(back, &err_));
    assert_int_equal(p.l.at.step, 2);
    assert_int_equal(p.l.at.applied, 32);
    assert_int_equal(undone[0], 2); /* 3 and 4; the first round is summed */
    assert_int_equal(undone[1], 10);
    for (size_t i = 0; i < n; i++) {
        assert_true(p.r.host[DEV_PARAMS][i] == (float)(i % 7) - (float)(i % 3));
    }
    free(w);
    free(sum);
    rollback_free(back);
    leave(&p);
}

/* Others have the sum that this worker still waits for, and that it should merge after step 3. */
static void by_rounds_who_is_behind_goes_on_at_the_end_of_its_last_round(void **state)
{
    (void)state;
    struct place p;
    stand(&p);
    struct rollback *back = rollback_new(&p.l, true, &err_);
    assert_non_null(back);
    for (int i = 0; i < 3; i++) {
        step_with_row(&p, back, i == 1);
    }
    float *given = copy_of(&p.r, DEV_PARAMS);
    rollback_advance(back);
    assert_int_equal(p.l.at.step, 2);
    assert_int_equal(undone[0], 1);
    assert_int_equal(undone[1], 5);
    step_with_row(&p, back, false);
    fill(p.r.host[DEV_PARAMS], p.r.count[DEV_PARAMS], 99);
    OK(rollback_return(back, &err_));
    assert_int_equal(p.l.at.step, 2);
    assert_int_equal(undone[0], 2);
    assert_memory_equal(given, p.r.host[DEV_PARAMS], p.r.count[DEV_PARAMS] * sizeof *given);
    free(given);
    rollback_free(back);
    leave(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_worker_leaves_its_group_and_a_lower_one_moves_the_others_up),
        cmocka_unit_test(all_is_as_it_was_at_the_average),
        cmocka_unit_test(steps_without_samples_are_undone_too),
        cmocka_unit_test(who_comes_back_keeps_what_it_was_given),
        cmocka_unit_test(by_rounds_all_go_back_to_the_end_of_the_round_that_landed),
        cmocka_unit_test(by_rounds_who_is_behind_goes_on_at_the_end_of_its_last_round),
        cmocka_unit_test(a_step_is_undone_bit_by_bit_however_far_it_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
