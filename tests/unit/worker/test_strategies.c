/* Strategies in the table, and a device that fails in the middle of a step: the failed call is the
 * last one, and its code is returned. */
#include "fixture.h"
#include "rank_alone.h"

#include "kernels/host_replica.h"
#include "worker/exchange/footprint.h"
#include "worker/exchange/strategy.h"

/* ---- one worker and its keeper, whose messages go nowhere ------------------------------------ */

struct alone {
    struct transport transport;
    struct comm comm;
    struct jobspec *spec;
    struct device device;
    struct dev_replica replica;
    struct rank_env env;
    struct run_state state;
    float blocks[DEV_BLOCKS][64];
    struct row row; /* the last one */
    int rows;
};

static enum dev_block broken; /* whose fetch fails; DEV_BLOCKS: none */

static int rank_of(struct transport *t)
{
    (void)t;
    return 0;
}

static int size_of(struct transport *t)
{
    (void)t;
    return 2;
}

static int send_nowhere(struct transport *t, int to, int tag, const void *data, size_t bytes,
                        struct transport_req *r)
{
    (void)t;
    (void)to;
    (void)tag;
    (void)data;
    (void)bytes;
    (void)r;
    return 0;
}

static int test_done(struct transport *t, struct transport_req *r)
{
    (void)t;
    (void)r;
    return COMM_DONE;
}

static double now(struct transport *t)
{
    (void)t;
    return 1;
}

static int wait_op(struct transport *t, struct comm_op *op, int parts, double deadline)
{
    (void)t;
    (void)parts;
    (void)deadline;
    return op->state;
}

static const struct transport_ops nowhere = {.rank = rank_of,
                                             .size = size_of,
                                             .host = host_of,
                                             .send = send_nowhere,
                                             .test = test_done,
                                             .now = now,
                                             .start = start_op,
                                             .wait = wait_op};

static int fetch(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e)
{
    (void)r;
    (void)first;
    (void)n;
    return b == broken ? err_set(e, ERR_DEVICE, "the device is gone") : 0;
}

static int update(struct dev_replica *r, double lr, double scale, struct err *e)
{
    (void)scale;
    (void)e;
    r->host[DEV_PARAMS][0] -= (float)lr * r->host[DEV_GRADS][0];
    return 0;
}

static const struct device_ops device_ops = {
    .name = "none", .fetch = fetch, .store = host_replica_copy, .update = update};

static void count_row(void *ctx, const struct row *row)
{
    ((struct alone *)ctx)->row = *row;
    ((struct alone *)ctx)->rows++;
}

static struct alone *make_alone(const char *strategy)
{
    char text[700];
    struct alone *a = calloc(1, sizeof *a);
    assert_non_null(a);
    snprintf(text, sizeof text,
             "{\"name\": \"t\", \"model\": {\"input\": [3], \"layers\": [{\"type\": \"dense\", "
             "\"units\": 2}]},"
             "\"data\": {\"format\": \"npy\", \"path\": \"x\"}, \"optimizer\": {\"type\": \"sgd\","
             "\"learning_rate\": 0.5, \"momentum\": 0.9}, \"strategy\": %s,"
             "\"batching\": {\"global_batch\": 4, \"policy\": \"equal\"}, \"workers\": 1,"
             "\"epochs\": 2, \"seed\": 1}",
             strategy);
    a->spec = make_spec(text);
    size_t n = a->spec->network.n_params;
    assert_true(n <= 64);
    a->transport.ops = &nowhere;
    OK(comm_init(&a->comm, &a->transport, 1, 1, &err_));
    a->device.ops = &device_ops;
    a->replica =
        (struct dev_replica){.dev = &a->device,
                             .net = &a->spec->network,
                             .count = {[DEV_PARAMS] = n, [DEV_GRADS] = n, [DEV_OPTIM] = n}};
    for (int b = 0; b < DEV_BLOCKS; b++) {
        a->replica.host[b] = a->blocks[b];
        for (int i = 0; i < 64; i++) {
            a->blocks[b][i] = (float)(b + 1);
        }
    }
    cursor_init(&a->state.cursor, 8, 2);
    a->env = (struct rank_env){.spec = a->spec,
                               .comm = &a->comm,
                               .train_samples = 8,
                               .n_params = n,
                               .replica = &a->replica,
                               .first_sizes = {4},
                               .first_version = 1,
                               .ctx = a,
                               .row = count_row,
                               .control = no_control,
                               .aside = no_phase};
    return a;
}

static void free_alone(struct alone *a)
{
    comm_release(&a->comm);
    jobspec_release(a->spec);
    free(a->spec);
    free(a);
}

/* One step of the strategy, with the fetch of this block broken. */
static int step(struct alone *a, enum dev_block fails)
{
    const struct strategy_ops *ops = strategy_find(a->spec->strategy.type);
    struct strategy *s = ops->start(&a->env, &a->state, &err_);
    struct dev_bucket bucket = {0, a->env.n_params, 1};
    struct dev_result result = {.loss = 1, .finite = true};
    struct work work = {0};
    assert_non_null(s);
    broken = DEV_BLOCKS;
    OK(ops->next(s, &work, &err_));
    assert_int_equal(work.action, DO_TRAIN);
    ops->on_bucket(s, &work, &bucket, 0, 1);
    assert_int_equal(s->failed.code, ERR_NONE);
    broken = fails;
    err_clear(&err_);
    int rc = ops->on_gradients(s, &work, &result, 0.1, &err_);
    broken = DEV_BLOCKS;
    ops->free(s);
    return rc;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void every_strategy_of_the_catalogue_is_there(void **state)
{
    (void)state;
    int n = 0;
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct strategy_ops *ops = strategy_find(id);
        assert_int_equal(ops != NULL, catalog_get(id)->kind == CATALOG_STRATEGY);
        if (!ops) {
            continue;
        }
        assert_int_equal(ops->id, id);
        assert_true(ops->start && ops->next && ops->on_bucket && ops->on_gradients);
        assert_true(ops->on_evaluated && ops->finish && ops->free && ops->serve && ops->footprint);
        n++;
    }
    assert_true(n >= 11);
    assert_null(strategy_find(-1));
    assert_null(strategy_find(CAT_COUNT));
}

/* Each worker of a lockstep strategy has its own blocks; with a server, the server has them. */
static void every_strategy_tells_what_it_keeps(void **state)
{
    (void)state;
    struct alone *a = make_alone("{\"type\": \"sync\"}");
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct strategy_ops *ops = strategy_find(id);
        struct footprint f;
        double of_workers = 0, others = 0;
        if (!ops) {
            continue;
        }
        a->spec->strategy.type = id;
        footprint_init(&f, a->spec);
        ops->footprint(&f);
        for (int i = 0; i < f.n_blocks; i++) {
            const struct footprint_block *b = &f.blocks[i];
            assert_non_null(b->name);
            assert_true(b->floats >= 0 && b->times >= 0);
            *(b->of_workers ? &of_workers : &others) += b->floats * b->times;
        }
        assert_true((ops->server ? others : of_workers) >= f.params);
        assert_true(f.summed >= a->spec->network.n_params);
        assert_int_equal(f.by_bucket, id == CAT_STRATEGY_SYNC);
    }
    free_alone(a);
}

/* Statistics are averaged with the parameters, so they are kept wherever parameters are. */
static void an_average_keeps_parameters_and_statistics_twice(void **state)
{
    (void)state;
    struct alone *a = make_alone("{\"type\": \"local-sgd\", \"k\": 1}");
    struct footprint f;
    double floats = 0;
    footprint_init(&f, a->spec);
    f.stats = 1000;
    strategy_find(a->spec->strategy.type)->footprint(&f);
    for (int i = 0; i < f.n_blocks; i++) {
        floats += f.blocks[i].floats;
    }
    assert_true(floats == 2 * (f.params + f.stats) + f.optim + f.words + 2 * f.chunk);
    free_alone(a);
}

/* Parameters that could not be fetched are not averaged: otherwise older values, scaled once more,
 * would become the replica. */
static void an_average_ends_where_a_fetch_failed(void **state)
{
    (void)state;
    static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM};
    for (int i = 0; i < 2; i++) {
        struct alone *a = make_alone("{\"type\": \"local-sgd\", \"k\": 1}");
        float stepped = a->blocks[DEV_PARAMS][0] - 0.5f * a->blocks[DEV_GRADS][0];
        assert_int_equal(step(a, blocks[i]), -ERR_DEVICE);
        assert_int_equal(err_.code, ERR_DEVICE);
        assert_string_equal(err_.message, "the device is gone");
        assert_true(a->blocks[DEV_PARAMS][0] == stepped);
        assert_int_equal(a->rows, 0);
        free_alone(a);
    }
}

static void one_worker_steps_by_itself(void **state)
{
    (void)state;
    static const char *const strategies[] = {"{\"type\": \"sync\"}",
                                             "{\"type\": \"local-sgd\", \"k\": 2}"};
    for (int i = 0; i < 2; i++) {
        struct alone *a = make_alone(strategies[i]);
        float stepped = a->blocks[DEV_PARAMS][0] - 0.5f * a->blocks[DEV_GRADS][0];
        assert_int_equal(step(a, DEV_BLOCKS), 0);
        assert_int_equal(a->rows, 1);
        assert_true(a->row.step == 1 && a->row.local_step == 1 && a->row.batch == 4);
        assert_true(a->row.compute_seconds == 0.1f && a->row.loss == 0.25f && a->row.epoch == 0.5);
        assert_true(a->blocks[DEV_PARAMS][0] == stepped);
        free_alone(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_of_the_catalogue_is_there),
        cmocka_unit_test(every_strategy_tells_what_it_keeps),
        cmocka_unit_test(an_average_keeps_parameters_and_statistics_twice),
        cmocka_unit_test(an_average_ends_where_a_fetch_failed),
        cmocka_unit_test(one_worker_steps_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
