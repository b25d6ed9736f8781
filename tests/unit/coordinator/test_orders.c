/* How minibatches are divided when workers are lost and come back (coordinator/monitor/orders.h):
 * among all present workers, whatever happened to earlier changes. */
#include "tests/unit/coordinator/world.h"

#include "coordinator/monitor/orders.h"

enum { WORKERS = 3 };

/* An attempt of three workers, and their current minibatches. */
struct told {
    struct plan plan;
    struct jobspec spec;
    struct ranks ranks;
    struct orders orders;
};

static struct told *told_open(struct world *w, const char *strategy, const char *batching)
{
    struct told *t = calloc(1, sizeof *t);
    char text[400];
    snprintf(text, sizeof text, "{'workers': 3, 'strategy': {'type': '%s'}, 'batching': %s}",
             strategy, batching);
    json_t *spec = world_spec(text);
    OK(jobspec_read(&t->spec, spec, &err_));
    json_decref(spec);
    t->plan = (struct plan){.n_workers = WORKERS, .servers = 1, .first_version = 1};
    t->plan.workers = calloc(WORKERS, sizeof *t->plan.workers);
    for (int i = 0; i < WORKERS; i++) {
        struct plan_worker *worker = &t->plan.workers[i];
        snprintf(worker->node, sizeof worker->node, "n%d", i);
        snprintf(worker->device, sizeof worker->device, "cpu:1");
        worker->slowdown = 1;
    }
    struct assignment first;
    OK(assign_first(&first, &t->spec.batching, WORKERS, NULL, 4, &err_));
    memcpy(t->plan.first_sizes, first.sizes, sizeof first.sizes);
    OK(ranks_open(&t->ranks, &t->plan, NULL, &err_));
    OK(orders_open(&t->orders, w->store, &t->ranks, &t->spec, &t->plan, &err_));
    return t;
}

static void told_close(struct told *t)
{
    orders_close(&t->orders);
    ranks_close(&t->ranks);
    plan_release(&t->plan);
    jobspec_release(&t->spec);
    free(t);
}

static void loses(struct told *t, int rank)
{
    t->ranks.all[rank].lost = true;
    OK(orders_lose(&t->orders, rank, &err_));
}

static void joins(struct told *t, int rank)
{
    t->ranks.all[rank].lost = false;
    OK(orders_join(&t->orders, rank, &err_));
}

static void expect_sizes(const struct told *t, int a, int b, int c)
{
    int sizes[WORKERS];
    orders_sizes(&t->orders, sizes);
    assert_int_equal(sizes[0], a);
    assert_int_equal(sizes[1], b);
    assert_int_equal(sizes[2], c);
}

static void one_that_is_lost_and_comes_back_has_its_share_again(void **state)
{
    struct told *t = told_open(*state, "asgd", "{'global_batch': 96, 'policy': 'equal'}");
    loses(t, 1);
    expect_sizes(t, 48, 0, 48);
    joins(t, 1);
    expect_sizes(t, 32, 32, 32);
    loses(t, 0);
    loses(t, 2);
    expect_sizes(t, 0, 96, 0);
    told_close(t);
}

/* The balancer could not be told that it joined (memory ran out). It keeps its first minibatch
 * until minibatches are divided again. */
static void one_whose_joining_failed_has_its_share_from_the_next_loss_on(void **state)
{
    struct told *t = told_open(*state, "asgd", "{'global_batch': 96, 'policy': 'equal'}");
    loses(t, 1);
    t->ranks.all[1].lost = false;
    loses(t, 2);
    expect_sizes(t, 48, 48, 0);
    joins(t, 2);
    expect_sizes(t, 32, 32, 32);
    told_close(t);
}

static void given_minibatches_stay_those_of_their_workers_under_a_server(void **state)
{
    struct told *t = told_open(*state, "asgd",
                               "{'global_batch': 96, 'policy': 'static', 'sizes': [48, 32, 16]}");
    loses(t, 0);
    expect_sizes(t, 0, 32, 16);
    joins(t, 0);
    expect_sizes(t, 48, 32, 16);
    told_close(t);
}

/* A step takes the global batch, so given minibatches become weights once a worker is lost. */
static void given_minibatches_are_weights_where_a_step_has_the_global_batch(void **state)
{
    struct told *t = told_open(*state, "sync",
                               "{'global_batch': 96, 'policy': 'static', 'sizes': [48, 32, 16]}");
    loses(t, 0);
    expect_sizes(t, 0, 64, 32);
    loses(t, 2);
    expect_sizes(t, 0, 96, 0);
    told_close(t);
}

/* The batch that a user's program told stays the same for the remaining workers. */
static void the_batch_that_a_program_told_is_shared_out_anew(void **state)
{
    struct told *t = told_open(*state, "asgd", "{'global_batch': 96, 'policy': 'equal'}");
    assert_true(orders_take_batch(&t->orders, WORKERS - 1, &err_) < 0);
    OK(orders_take_batch(&t->orders, 60, &err_));
    expect_sizes(t, 20, 20, 20);
    loses(t, 0);
    expect_sizes(t, 0, 30, 30);
    joins(t, 0);
    expect_sizes(t, 20, 20, 20);
    told_close(t);
}

/* A line through no measured step would size the next job's minibatches. */
static void a_node_that_made_no_step_leaves_no_profile(void **state)
{
    struct world *w = *state;
    struct told *t = told_open(w, "sync", "{'global_batch': 96, 'policy': 'equal'}");
    OK(orders_keep_profiles(&t->orders, &err_));
    assert_null(store_profile_get(w->store, "n0", t->orders.key, NULL));
    told_close(t);
}

/* People see the samples that a step really takes, divided in the same proportions. */
static void minibatches_above_the_training_set_are_what_a_step_takes(void **state)
{
    struct told *t =
        told_open(*state, "sync",
                  "{'global_batch': 96000, 'policy': 'static', 'sizes': [48000, 32000, "
                  "16000]}");
    orders_take_samples(&t->orders, 96000, false);
    expect_sizes(t, 48000, 32000, 16000);
    assert_false(t->orders.owes);
    orders_take_samples(&t->orders, 96, false);
    expect_sizes(t, 48, 32, 16);
    assert_true(t->orders.owes && t->orders.amends);
    loses(t, 0);
    expect_sizes(t, 0, 64, 32);
    assert_true(t->orders.owes && !t->orders.amends);
    told_close(t);
    t = told_open(*state, "asgd", "{'global_batch': 300, 'policy': 'equal'}");
    orders_take_samples(&t->orders, 60, false);
    expect_sizes(t, 60, 60, 60);
    told_close(t);
}

/* They follow the speeds as for any other batch; the ranks divide the requested batch. */
static void dynamic_minibatches_above_the_training_set_follow_what_a_step_has(void **state)
{
    struct told *t = told_open(*state, "sync", "{'global_batch': 9600000}");
    orders_take_samples(&t->orders, 96, true);
    assert_false(t->orders.owes);
    expect_sizes(t, 32, 32, 32);
    for (int step = 1; step < 60; step++) {
        int sizes[WORKERS];
        orders_sizes(&t->orders, sizes);
        for (int r = 0; r < WORKERS; r++) {
            struct row row = {.step = step,
                              .time = step * 0.3,
                              .compute_seconds = (float)(0.01 * sizes[r] * (r ? 1 : 3)),
                              .batch = sizes[r],
                              .rank = (int16_t)r};
            orders_observe(&t->orders, &row);
        }
        balancer_decide(&t->orders.balancer, step);
    }
    int after[WORKERS];
    orders_sizes(&t->orders, after);
    assert_int_equal(after[0] + after[1] + after[2], 96);
    assert_in_range(after[0], 12, 16);
    loses(t, 0);
    expect_sizes(t, 0, 48, 48);
    told_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(one_that_is_lost_and_comes_back_has_its_share_again),
        IN_A_WORLD(one_whose_joining_failed_has_its_share_from_the_next_loss_on),
        IN_A_WORLD(given_minibatches_stay_those_of_their_workers_under_a_server),
        IN_A_WORLD(given_minibatches_are_weights_where_a_step_has_the_global_batch),
        IN_A_WORLD(the_batch_that_a_program_told_is_shared_out_anew),
        IN_A_WORLD(a_node_that_made_no_step_leaves_no_profile),
        IN_A_WORLD(minibatches_above_the_training_set_are_what_a_step_takes),
        IN_A_WORLD(dynamic_minibatches_above_the_training_set_follow_what_a_step_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
