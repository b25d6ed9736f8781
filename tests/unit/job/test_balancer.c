/* The balancer: it changes minibatches only when the gain is large enough, with a reason that names
 * the node. Step times are drawn, so whole trainings take a moment. */
#include "tests/unit/job/balancing.h"

static void unequal_nodes_are_balanced_within_a_few_steps(void **state)
{
    static const struct node clusters[][4] = {
        {{0, .001, .02}, {0, .001, .02}, {0, .002, .02}, {0, .004, .02}},
        {{.002, .0005, .02}, {.002, .0005, .02}, {.002, .002, .02}, {.002, .002, .02}},
        {{.05, .0005, .02}, {.002, .0005, .02}, {.002, .001, .02}, {.01, .004, .02}},
        {{.001, .001, 0}, {.001, .001, 0}, {.001, .001, 0}, {.001, .010, 0}},
    };
    for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct balancer b;
            open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
            double before = step_seconds(&b, clusters[c]);
            train(&b, clusters[c], seed, 0, 60);
            double after = step_seconds(&b, clusters[c]), best = best_seconds(&b, clusters[c]);
            if (after > 1.12 * best || after > before || b.changes > 5) {
                fail_msg("cluster %d, seed %d: %g s, best %g, %d changes", (int)c, (int)seed, after,
                         best, (int)b.changes);
            }
            balancer_release(&b);
        }
    }
}

static void equal_nodes_are_left_alone(void **state)
{
    const struct node nodes[] = {
        {.01, .001, .03}, {.01, .001, .03}, {.01, .001, .03}, {.01, .001, .03}};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct balancer b;
        open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
        train(&b, nodes, seed, 0, 400);
        assert_int_equal(b.changes, 0);
        assert_int_equal(b.current.version, 1);
        assert_true(b.kept > 0);
        check_sizes(&b.current, (int[]){64, 64, 64, 64});
        balancer_release(&b);
    }
}

static void a_balanced_cluster_is_left_alone_whatever_the_noise(void **state)
{
    const struct node nodes[] = {{0, .001, .03}, {0, .001, .03}, {0, .002, .03}, {0, .004, .03}};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct balancer b;
        open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
        train(&b, nodes, seed, 0, 1000);
        assert_in_range(b.changes, 1, 4);
        balancer_release(&b);
    }
}

static void a_balancer_that_was_released_holds_nothing(void **state)
{
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 2);
    balancer_release(&b);
    assert_true(!b.profiles && !b.rows_since && !b.latest && !b.steady);
    assert_true(!b.windows && !b.limits);
    balancer_release(&b); /* balancer_init has released it if it failed */
}

static void a_change_needs_the_gain_that_is_asked(void **state)
{
    /* a predicted gain of 1/63, of 1/22 and of 1/7: never enough, enough after some rows, enough at
     * once */
    const struct node least[] = {{0, .00100, 0}, {0, .00103, 0}},
                      little[] = {{0, .0010, 0}, {0, .0011, 0}},
                      much[] = {{0, .0010, 0}, {0, .0014, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 2);
    assert_true(b.gain == 0.05);
    train(&b, least, 0, 0, 200);
    assert_int_equal(b.changes, 0);
    balancer_release(&b);
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 2);
    train(&b, little, 0, 0, 4);
    assert_int_equal(b.changes, 0);
    train(&b, little, 0, 4, 12);
    assert_int_equal(b.changes, 1);
    balancer_release(&b);
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 2);
    train(&b, much, 0, 0, 5);
    assert_int_equal(b.changes, 1);
    balancer_release(&b);
}

static void an_assignment_records_what_was_and_what_will_be(void **state)
{
    const struct node nodes[] = {{0, .001, 0}, {0, .001, 0}, {0, .001, 0}, {0, .004, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 260), 4);
    train(&b, nodes, 0, 0, 3);
    assert_int_equal(b.changes, 0); /* too few rows */
    train(&b, nodes, 0, 3, 10);
    assert_int_equal(b.changes, 1);
    assert_int_equal(b.current.version, 2);
    assert_in_range(b.current.step, 3, 4);
    assert_true(fabs(b.current.measured_seconds - 0.260) < 1e-9);
    assert_true(fabs(b.current.predicted_seconds - step_seconds(&b, nodes)) < 1e-9);
    check_sizes(&b.current, (int[]){80, 80, 80, 20});
    assert_string_equal(
        b.current.reason,
        "dan computes 4.0 times slower than the median; its minibatch goes from 65 to 20");
    balancer_release(&b);
}

/* One step in five takes half as long again, so the lines, which are means, mostly lie above the
 * median step that is reported as measured. */
static void a_change_promises_no_step_that_is_longer_than_the_measured_one(void **state)
{
    int told = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct balancer b;
        open_balancer(&b, policy(BATCH_DYNAMIC, 256), 2);
        for (int64_t step = 0; step < 300; step++) {
            for (int i = 0; i < 2; i++) {
                double seconds = (i == 0 ? 0.001 : 0.0012) * b.current.sizes[i];
                bool longer = rng_double(seed, (uint64_t)i, (uint64_t)step) < 0.2;
                balancer_observe(&b, i, b.current.sizes[i], longer ? 1.5 * seconds : seconds,
                                 0.1 * (double)step);
            }
            if (balancer_decide(&b, step)) {
                assert_true(b.current.predicted_seconds > 0.1);
                assert_true(b.current.predicted_seconds < b.current.measured_seconds);
                told++;
            }
        }
        balancer_release(&b);
    }
    assert_in_range(told, 20, 60);
}

/* An assignment that never takes effect, because a minibatch does not fit, has no rows. */
static void a_minibatch_that_memory_does_not_hold_is_taken_back(void **state)
{
    const struct node nodes[] = {{0, .001, 0}, {0, .001, 0}, {0, .001, 0}, {0, .004, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 260), 4);
    train(&b, nodes, 0, 0, 10);
    check_sizes(&b.current, (int[]){80, 80, 80, 20});
    int64_t changes = b.changes;
    b.profiles[1].max_batch = 70;
    assert_true(balancer_decide(&b, 11));
    assert_int_equal(b.changes, changes + 1);
    assert_int_equal(b.current.version, 3);
    assert_in_range(b.current.sizes[1], 1, 70);
    assert_int_equal(
        b.current.sizes[0] + b.current.sizes[1] + b.current.sizes[2] + b.current.sizes[3], 260);
    assert_true(fabs(b.current.measured_seconds - 0.080) < 1e-9);
    assert_true(b.current.predicted_seconds > 0.080);
    assert_string_equal(b.current.reason, "bob has memory for a minibatch of at most 70");
    assert_false(balancer_decide(&b, 12)); /* only once */
    for (int i = 0; i < 4;
         i++) { /* memory for 160 of 260: there is no solution, and it keeps trying */
        b.profiles[i].max_batch = 40;
    }
    assert_false(balancer_decide(&b, 13));
    balancer_release(&b);
}

/* Nothing is gained, whichever worker it is, even the first. */
static void a_limit_of_memory_is_followed_at_a_loss(void **state)
{
    (void)state;
    for (int who = 0; who < 4; who++) {
        const struct node nodes[] = {{0, .001, 0}, {0, .001, 0}, {0, .001, 0}, {0, .001, 0}};
        char reason[100];
        struct balancer b;
        open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
        train(&b, nodes, 0, 0, 10);
        check_sizes(&b.current, (int[]){64, 64, 64, 64});
        b.profiles[who].max_batch = 32;
        assert_true(balancer_decide(&b, 11));
        assert_int_equal(b.current.sizes[who], 32);
        snprintf(reason, sizeof reason, "%s has memory for a minibatch of at most 32", names[who]);
        assert_string_equal(b.current.reason, reason);
        balancer_release(&b);
    }
}

static void a_node_with_a_constant_time_gets_as_much_as_pays(void **state)
{
    const struct node nodes[] = {{.020, 0, 0}, {0, .001, 0}, {0, .001, 0}, {0, .001, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
    train(&b, nodes, 0, 0, 100);
    assert_true(step_seconds(&b, nodes) <= 0.0200001);
    balancer_release(&b);
}

static void other_policies_never_change(void **state)
{
    const struct node nodes[] = {{0, .001, 0}, {0, .001, 0}, {0, .001, 0}, {0, .004, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_EQUAL, 256), 4);
    train(&b, nodes, 0, 0, 50);
    assert_int_equal(b.changes, 0);
    check_sizes(&b.current, (int[]){64, 64, 64, 64});
    balancer_release(&b);
    struct batching_spec *s = policy(BATCH_STATIC, 256);
    s->n_weights = 4;
    s->weights[0] = s->weights[1] = s->weights[2] = s->weights[3] = 1;
    open_balancer(&b, s, 4);
    train(&b, nodes, 0, 0, 50);
    assert_int_equal(b.changes, 0);
    balancer_release(&b);
}

static void rows_that_cannot_be_are_ignored(void **state)
{
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
    balancer_observe(&b, -1, 64, 0.1, 0);
    balancer_observe(&b, 4, 64, 0.1, 0);
    balancer_observe(&b, 0, 0, 0.1, 0);
    balancer_observe(&b, 0, 64, -0.1, 0);
    balancer_observe(&b, 0, 64, NAN, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b.profiles[i].count, 0);
        assert_int_equal(b.rows_since[i], 0);
    }
    assert_false(balancer_decide(&b, 1));
    balancer_release(&b);
}

static void a_job_with_one_worker_keeps_its_batch(void **state)
{
    const struct node one[] = {{0, .001, .02}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 100), 1);
    train(&b, one, 0, 0, 20);
    assert_int_equal(b.changes, 0);
    assert_int_equal(b.current.sizes[0], 100);
    balancer_release(&b);
}

static void the_json_has_the_form_of_the_design(void **state)
{
    const struct node nodes[] = {{0, .001, 0}, {0, .003, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 128), 2);
    train(&b, nodes, 0, 0, 6);
    json_t *j = assignment_json(&b.current, names, "2026-01-02T03:04:05Z");
    assert_non_null(j);
    assert_int_equal(json_integer_value(json_object_get(j, "version")), 2);
    assert_true(json_is_integer(json_object_get(j, "step")));
    assert_string_equal(json_string_value(json_object_get(j, "time")), "2026-01-02T03:04:05Z");
    assert_true(json_is_string(json_object_get(j, "reason")));
    const json_t *batches = json_object_get(j, "batches");
    assert_int_equal(json_integer_value(json_object_get(batches, "ada")), 96);
    assert_int_equal(json_integer_value(json_object_get(batches, "bob")), 32);
    assert_true(json_is_real(json_object_get(j, "predicted_step_seconds")));
    assert_true(json_is_real(json_object_get(j, "measured_step_seconds")));
    assert_int_equal(json_object_size(j), 7);
    json_decref(j);
    balancer_release(&b);
}

/* A user's program tells its batch when it has joined; until then there are no minibatches. */
static void a_batch_that_is_told_later_is_shared_out_then(void **state)
{
    struct batching_spec spec = {.policy = BATCH_DYNAMIC, .min_batch = 1};
    const struct profile fast = {.k = 0.001, .count = 20}, slow = {.k = 0.003, .count = 20};
    const struct profile *known[] = {&fast, &slow};
    struct balancer b;
    struct err e = {0};
    (void)state;
    assert_int_equal(balancer_init(&b, &spec, 2, 4, known, names, &e), 0);
    assert_true(b.current.version == 1 && b.current.sizes[0] == 0 && b.current.sizes[1] == 0);
    assert_false(balancer_decide(&b, 1));
    assert_int_equal(balancer_take_batch(&b, 64, &e), BALANCE_CHANGED);
    assert_true(b.current.version == 2 && b.current.sizes[0] == 48 && b.current.sizes[1] == 16);
    assert_int_equal(balancer_take_batch(&b, 64, &e), BALANCE_STANDS); /* after a restart */
    assert_int_equal(b.current.version, 2);
    assert_true(balancer_take_batch(&b, 1, &e) < 0);
    balancer_release(&b);
}

static void a_batch_above_the_training_set_is_narrowed_in_the_same_proportions(void **state)
{
    struct balancer b;
    int asked[2];
    struct batching_spec spec = *policy(BATCH_DYNAMIC, 9000);
    open_balancer(&b, &spec, 2);
    b.current.sizes[0] = 6000;
    b.current.sizes[1] = 3000;
    assert_false(balancer_narrow(&b, 9000)); /* there are enough */
    assert_false(balancer_narrow(&b, 1));    /* not one per worker */
    assert_false(balancer_narrow(&b, 0));    /* unknown */
    b.batching.min_batch = 31;
    assert_false(balancer_narrow(&b, 91)); /* one would get 30 */
    b.batching.min_batch = 30;
    assert_int_equal(b.current.sizes[0], 6000);
    assert_true(balancer_narrow(&b, 91));
    assert_int_equal(b.current.sizes[0], 61);
    assert_int_equal(b.current.sizes[1], 30);
    assert_int_equal(b.batching.global_batch, 91);
    balancer_share(&b, 9000, asked);
    assert_int_equal(asked[0] + asked[1], 9000);
    assert_in_range(asked[0], 5950, 6050);
    balancer_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unequal_nodes_are_balanced_within_a_few_steps),
        cmocka_unit_test(equal_nodes_are_left_alone),
        cmocka_unit_test(a_balanced_cluster_is_left_alone_whatever_the_noise),
        cmocka_unit_test(a_balancer_that_was_released_holds_nothing),
        cmocka_unit_test(a_change_needs_the_gain_that_is_asked),
        cmocka_unit_test(an_assignment_records_what_was_and_what_will_be),
        cmocka_unit_test(a_change_promises_no_step_that_is_longer_than_the_measured_one),
        cmocka_unit_test(a_minibatch_that_memory_does_not_hold_is_taken_back),
        cmocka_unit_test(a_limit_of_memory_is_followed_at_a_loss),
        cmocka_unit_test(a_node_with_a_constant_time_gets_as_much_as_pays),
        cmocka_unit_test(other_policies_never_change),
        cmocka_unit_test(rows_that_cannot_be_are_ignored),
        cmocka_unit_test(a_job_with_one_worker_keeps_its_batch),
        cmocka_unit_test(the_json_has_the_form_of_the_design),
        cmocka_unit_test(a_batch_that_is_told_later_is_shared_out_then),
        cmocka_unit_test(a_batch_above_the_training_set_is_narrowed_in_the_same_proportions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
