/* Minibatches of a running job: they follow the speeds that its ranks report, with a reason, and
 * the next job starts with what was learned (coordinator/monitor, driven by sched_tick). */
#include "tests/unit/coordinator/world.h"

#include "job/network/network.h"

/* Writes rows of both workers with these minibatches, this many seconds apart; rank 1 takes
 * `factor` times as long per sample. */
static void rows_apart(struct world *w, const char *id, int from, int to, const int sizes[2],
                       double factor, double apart)
{
    for (int step = from; step <= to; step++) {
        for (int r = 0; r < 2; r++) {
            struct row row = {.step = step,
                              .local_step = step,
                              .time = step * apart,
                              .epoch = step * 0.01,
                              .loss = 1.0f / (float)step,
                              .compute_seconds = (float)(0.001 * sizes[r] * (r ? factor : 1)),
                              .batch = sizes[r],
                              .rank = (int16_t)r,
                              .attempt = (int16_t)last_attempt(w, id)->number};
            say_row(w, id, &row);
        }
    }
}

static void uneven_steps(struct world *w, const char *id, int from, int to, const int sizes[2],
                         double factor)
{
    rows_apart(w, id, from, to, sizes, factor, 0.1);
}

static const char dynamic[] =
    "{'workers': 2, 'batching': {'global_batch': 64, 'policy': 'dynamic'}}";

static void minibatches_follow_measured_speeds_and_the_reason_names_a_node(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, dynamic, id);
    uneven_steps(w, id, 2, 60, (int[2]){32, 32}, 3);
    pass(w, 2);
    json_t *all = store_assignments(w->store, id, &err_),
           *control = store_doc_get(w->store, id, "control", &err_);
    assert_int_equal(json_array_size(all), 2);
    assert_int_equal((int)number_at(all, "/0/version"), 1);
    assert_int_equal((int)number_at(all, "/1/version"), 2);
    assert_int_equal((int)number_at(all, "/1/batches/n1") + (int)number_at(all, "/1/batches/n2"),
                     64);
    assert_int_equal((int)number_at(all, "/1/batches/n2"), 16);
    const char *reason =
        text_at(all, "/1/reason"); /* the reason may name either of the two nodes */
    assert_true((strncmp(reason, "n1 computes", 11) == 0 && strstr(reason, "from 32 to 48")) ||
                (strncmp(reason, "n2 computes", 11) == 0 && strstr(reason, "from 32 to 16")));
    assert_true(number_at(all, "/1/predicted_step_seconds") <
                number_at(all, "/1/measured_step_seconds"));
    assert_int_equal((int)number_at(control, "/version"), 2); /* the workers are told */
    assert_int_equal((int)number_at(control, "/sizes/1"), 16);
    json_t *job = job_of(w, id);
    assert_int_equal((int)number_at(job, "/assignment/version"), 2);
    assert_int_equal((int)number_at(job, "/workers/1/batch"), 16);
    json_decref(job);
    json_decref(control);
    json_decref(all);
}

/* The node computes as fast as the other one, because it waits for that one and has quota left. */
static void a_node_that_its_quota_will_stop_gets_fewer_samples(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, dynamic, id);
    struct beat b = beat_of(w, id, 1, PHASE_COMPUTE);
    b.batch = b.quota_batch = 32;
    b.quota_seconds = 3 * 0.032;
    say_beat_of(w, id, &b);
    pass(w, 2);
    uneven_steps(w, id, 2, 60, (int[2]){32, 32}, 1);
    pass(w, 2);
    json_t *job = job_of(w, id);
    assert_int_equal((int)number_at(job, "/workers/0/batch"), 48);
    assert_int_equal((int)number_at(job, "/workers/1/batch"), 16);
    json_decref(job);
}

static void equal_minibatches_stay_equal_whatever_is_measured(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    uneven_steps(w, id, 2, 60, (int[2]){32, 32}, 3);
    pass(w, 2);
    json_t *all = store_assignments(w->store, id, &err_);
    assert_int_equal(json_array_size(all), 1);
    json_decref(all);
}

static void nothing_is_moved_once_the_job_was_told_to_stop(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, dynamic, id);
    asked(w, id, "pause");
    uneven_steps(w, id, 2, 60, (int[2]){32, 32}, 3);
    pass(w, 2);
    json_t *all = store_assignments(w->store, id, &err_);
    assert_int_equal(json_array_size(all), 1);
    assert_true(control_says(w, id, "pause"));
    json_decref(all);
}

/* The job ends, and the next one starts with the minibatches that fit its measured steps. */
static json_t *plan_after(struct world *w, const char *id)
{
    char next[STORE_ID];
    pass(w, 2);
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
    submit(w, dynamic, next);
    pass(w, 1);
    json_t *plan = last_attempt(w, next)->plan;
    assert_int_equal((int)number_at(plan, "/first/sizes/0"), 48);
    assert_int_equal((int)number_at(plan, "/first/sizes/1"), 16);
    return plan;
}

static void the_next_job_on_the_same_nodes_starts_with_what_was_learned(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, dynamic, id);
    for (int i = 0; i < 10; i++) { /* several sizes, so that a and k can be told apart */
        int sizes[2] = {i % 2 ? 40 : 32, i % 2 ? 24 : 32};
        uneven_steps(w, id, 2 + i * 10, 11 + i * 10, sizes, 3);
    }
    json_t *plan = plan_after(w, id);
    assert_true(number_at(plan, "/speeds/0") > 2 * number_at(plan, "/speeds/1"));
}

/* All of its steps together are shorter than one combined observation. */
static void a_job_that_is_over_in_a_moment_leaves_a_profile_too(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, dynamic, id);
    rows_apart(w, id, 2, 30, (int[2]){32, 32}, 3, 0.001);
    plan_after(w, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(minibatches_follow_measured_speeds_and_the_reason_names_a_node),
        IN_A_WORLD(a_node_that_its_quota_will_stop_gets_fewer_samples),
        IN_A_WORLD(equal_minibatches_stay_equal_whatever_is_measured),
        IN_A_WORLD(nothing_is_moved_once_the_job_was_told_to_stop),
        IN_A_WORLD(a_job_that_is_over_in_a_moment_leaves_a_profile_too),
        IN_A_WORLD(the_next_job_on_the_same_nodes_starts_with_what_was_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
