/* Minibatch policy: sizes sum to the global batch within their bounds, and all workers finish
 * together to within a quantum (docs/semantics.md#minibatches). test_balancer.c has what the
 * balancer does with them. */
#include "tests/unit/job/assignments.h"

enum { MOST = 64 };

struct split {
    int workers, B, min_batch, quantum;
    double a[MOST], k[MOST];
    int max_batch[MOST], sizes[MOST];
};

static int upper(const struct split *s, int i)
{
    return s->max_batch[i] > 0 && s->max_batch[i] < s->B ? s->max_batch[i] : s->B;
}

static bool feasible(const struct split *s)
{
    int64_t most = 0;
    for (int i = 0; i < s->workers; i++) {
        if (upper(s, i) < s->min_batch) {
            return false;
        }
        most += upper(s, i);
    }
    return most >= s->B && (int64_t)s->workers * s->min_batch <= s->B;
}

/* Random speeds over two decades, sizes, quanta and bounds; some nodes have a constant time. */
static struct split *draw(uint64_t seed, bool bounded)
{
    struct split *s = calloc(1, sizeof *s);
    uint64_t n = 0;
    s->workers = 1 + (int)rng_below(seed, 0, n++, MOST);
    s->B = 1 + (int)rng_below(seed, 0, n++, seed % 2 ? 200 : 5000);
    s->quantum = (int[]){1, 4, 8}[rng_below(seed, 0, n++, 3)];
    s->min_batch = bounded ? 1 + (int)rng_below(seed, 0, n++, 12) : 1;
    for (int i = 0; i < s->workers; i++) {
        s->a[i] = rng_below(seed, 0, n++, 3) ? 0.1 * rng_double(seed, 0, n++) : 0;
        s->k[i] = 0.0001 * exp(4.6 * rng_double(seed, 0, n++));
        if (bounded && rng_below(seed, 0, n++, 20) == 0) {
            s->k[i] = 0;
        }
        if (bounded && rng_below(seed, 0, n++, 3) == 0) {
            s->max_batch[i] = 1 + (int)rng_below(seed, 0, n++, (uint64_t)s->B);
        }
    }
    return s;
}

static double solve(struct split *s)
{
    return assign_equal_finish(s->a, s->k, s->max_batch, s->workers, s->B, s->min_batch, s->quantum,
                               s->sizes);
}

static void sizes_sum_to_the_global_batch_within_their_bounds(void **state)
{
    int solved = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct split *s = draw(seed, true);
        double T = solve(s);
        if (feasible(s) != (T >= 0)) {
            fail_msg("seed %d: T is %g", (int)seed, T);
        }
        int64_t sum = 0;
        double slowest = 0;
        for (int i = 0; T >= 0 && i < s->workers; i++) {
            assert_in_range(s->sizes[i], s->min_batch, upper(s, i));
            sum += s->sizes[i];
            slowest = fmax(slowest, s->a[i] + s->k[i] * s->sizes[i]);
        }
        if (T >= 0) {
            assert_int_equal(sum, s->B);
            assert_true(fabs(T - slowest) <=
                        1e-12 * slowest); /* the returned time is what the step takes */
            solved++;
        }
        free(s);
    }
    assert_in_range(solved, 2000, 20000);
}

/* The exact split by another method: raises T until the sum is B. */
static double ideal_of(const struct split *s, double *ideal)
{
    double low = 0, high = 1e6;
    for (int n = 0; n < 200; n++) {
        double T = 0.5 * (low + high), sum = 0;
        for (int i = 0; i < s->workers; i++) {
            ideal[i] = fmin(fmax((T - s->a[i]) / s->k[i], s->min_batch), upper(s, i));
            sum += ideal[i];
        }
        *(sum < s->B ? &low : &high) = T;
    }
    return high;
}

static void sizes_are_within_a_quantum_of_equal_finish(void **state)
{
    for (uint64_t seed = 0; seed < 5000; seed++) {
        struct split *s = draw(seed, false);
        if (s->B >= s->workers * s->quantum && solve(s) >= 0) {
            double ideal[MOST],
                rounded_up = 0; /* nodes that would get less than a quantum get one */
            int fastest = 0, odd = 0;
            ideal_of(s, ideal);
            for (int i = 0; i < s->workers; i++) {
                fastest = s->k[i] < s->k[fastest] ? i : fastest;
                rounded_up += ideal[i] < s->quantum ? s->quantum - ideal[i] : 0;
            }
            for (int i = 0; i < s->workers; i++) {
                double over = s->sizes[i] - ideal[i],
                       most = s->quantum + (i == fastest ? s->B % s->quantum : 0);
                if (over > most + 1e-6 || (rounded_up == 0 && over < -most - 1e-6)) {
                    fail_msg("seed %d: worker %d gets %d, ideal %g", (int)seed, i, s->sizes[i],
                             ideal[i]);
                }
                odd += s->sizes[i] % s->quantum != 0 && i != fastest;
            }
            assert_int_equal(odd, 0); /* only the fastest is no multiple */
        }
        free(s);
    }
}

static void without_bounds_the_closed_form_holds(void **state)
{
    /* T = (B + sum a/k) / sum 1/k */
    struct split s = {.workers = 4,
                      .B = 256,
                      .min_batch = 1,
                      .quantum = 1,
                      .a = {0.002, 0.002, 0.002, 0.002},
                      .k = {0.0005, 0.0005, 0.001, 0.002}};
    double inverse = 0, offset = 0;
    for (int i = 0; i < 4; i++) {
        inverse += 1 / s.k[i];
        offset += s.a[i] / s.k[i];
    }
    double T = (256 + offset) / inverse;
    assert_true(solve(&s) >= T - 1e-12);
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(s.sizes[i] - (T - s.a[i]) / s.k[i]) < 1);
    }
}

static void bounds_on_both_sides_share_the_excess(void **state)
{
    /* shares 70, 25, 5 within [10, 40]: clamping and dividing again would fail */
    struct split s = {.workers = 3,
                      .B = 100,
                      .min_batch = 10,
                      .quantum = 1,
                      .k = {1 / 70.0, 1 / 25.0, 1 / 5.0},
                      .max_batch = {40, 40, 40}};
    assert_true(solve(&s) >= 0);
    assert_int_equal(s.sizes[0], 40);
    assert_int_equal(s.sizes[1], 40);
    assert_int_equal(s.sizes[2], 20);
}

static void equal_nodes_get_equal_minibatches(void **state)
{
    for (int workers = 1; workers <= 16; workers++) {
        for (int each = 8; each <= 64; each += 8) {
            for (int quantum = 1; quantum <= 8; quantum *= 2) {
                struct split s = {
                    .workers = workers, .B = workers * each, .min_batch = 1, .quantum = quantum};
                for (int i = 0; i < workers; i++) {
                    s.a[i] = 0.003;
                    s.k[i] = 0.0007;
                }
                assert_true(solve(&s) > 0);
                for (int i = 0; i < workers; i++) {
                    assert_int_equal(s.sizes[i], each);
                }
            }
        }
    }
}

static void the_fastest_takes_the_remainder(void **state)
{
    struct split s = {
        .workers = 3, .B = 130, .min_batch = 1, .quantum = 8, .k = {0.002, 0.001, 0.002}};
    assert_true(solve(&s) > 0);
    assert_int_equal(s.sizes[0] % 8, 0);
    assert_int_equal(s.sizes[1] % 8, 130 % 8);
    assert_int_equal(s.sizes[2] % 8, 0);
    struct split ties = {.workers = 3, .B = 50, .min_batch = 1, .quantum = 8, .k = {1, 1, 1}};
    assert_true(solve(&ties) > 0); /* to the lower rank */
    assert_int_equal(ties.sizes[0], 18);
    assert_int_equal(ties.sizes[1], 16);
    assert_int_equal(ties.sizes[2], 16);
}

static void a_node_whose_time_is_constant_gets_its_largest_minibatch(void **state)
{
    struct split s = {.workers = 3,
                      .B = 128,
                      .min_batch = 4,
                      .quantum = 4,
                      .a = {0, 0.2, 0},
                      .k = {0.001, 0, 0.001},
                      .max_batch = {0, 64, 0}};
    assert_true(solve(&s) > 0);
    assert_int_equal(s.sizes[1], 64);
    assert_int_equal(s.sizes[0], 32);
    assert_int_equal(s.sizes[2], 32);
    s.max_batch[1] = 0; /* no limit: all that the others' least ones leave */
    s.k[1] = -0.001;
    assert_true(solve(&s) > 0);
    assert_int_equal(s.sizes[0], 4);
    assert_int_equal(s.sizes[1], 120);
    s.k[0] = s.k[2] = 0; /* nobody's time depends on it: equal shares */
    s.B = 96;
    assert_true(solve(&s) > 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s.sizes[i], 32);
    }
}

static void many_workers_and_a_large_batch_are_split_at_once(void **state)
{
    static double a[SPEC_WORKERS], k[SPEC_WORKERS];
    static int sizes[SPEC_WORKERS];
    for (int i = 0; i < SPEC_WORKERS; i++) {
        k[i] = i % 2 ? 0 : 1e-5 * (1 + i % 7); /* half of them constant */
    }
    assert_true(assign_equal_finish(a, k, NULL, SPEC_WORKERS, 1 << 24, 1, 8, sizes) >= 0);
    int64_t sum = 0;
    for (int i = 0; i < SPEC_WORKERS; i++) {
        sum += sizes[i];
    }
    assert_int_equal(sum, 1 << 24);
}

/* ---- the first assignment -------------------------------------------------------------------- */

static void equal_gives_the_first_ranks_one_more(void **state)
{
    struct assignment a;
    struct err e;
    assert_int_equal(assign_first(&a, policy(BATCH_EQUAL, 130), 4, NULL, 4, &e), 0);
    check_sizes(&a, (int[]){33, 33, 32, 32});
    assert_int_equal(a.version, 1);
    assert_int_equal(a.workers, 4);
    assert_true(a.reason[0] != 0);
}

static void static_takes_the_sizes_as_given(void **state)
{
    struct assignment a;
    struct err e;
    struct batching_spec *b = policy(BATCH_STATIC, 64);
    const int sizes[] = {28, 20, 12, 4};
    memcpy(b->sizes, sizes, sizeof sizes);
    b->n_sizes = 4;
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), 0);
    check_sizes(&a, sizes);
}

static void static_splits_in_proportion_of_the_weights(void **state)
{
    struct assignment a;
    struct err e;
    struct batching_spec *b = policy(BATCH_STATIC, 64);
    b->weights[0] = 7, b->weights[1] = 5, b->weights[2] = 3, b->weights[3] = 1;
    b->n_weights = 4;
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), 0);
    check_sizes(&a, (int[]){28, 20, 12, 4});
    assert_string_equal(a.reason, "in proportion of the weights that the job gives");
    b->global_batch = 10; /* ideal 4.375 3.125 1.875 0.625 */
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), 0);
    check_sizes(&a, (int[]){4, 3, 2, 1});
    b->weights[3] = 0; /* still at least min_batch */
    b->min_batch = 2;
    b->global_batch = 62;
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), 0);
    check_sizes(&a, (int[]){28, 20, 12, 2});
    b->max_batch = 20;
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), 0);
    check_sizes(&a, (int[]){20, 20, 20, 2});
}

static void weights_of_any_magnitude_sum_to_the_global_batch(void **state)
{
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct assignment a;
        struct err e;
        int W = 1 + (int)rng_below(seed, 1, 0, 40), sum = 0;
        struct batching_spec *b = policy(BATCH_STATIC, W + (int)rng_below(seed, 1, 1, 3000));
        b->n_weights = W;
        for (int i = 0; i < W; i++) {
            b->weights[i] = pow(10, 600 * rng_double(seed, 2, (uint64_t)i) - 300);
        }
        assert_int_equal(assign_first(&a, b, W, NULL, 4, &e), 0);
        for (int i = 0; i < W; i++) {
            assert_true(a.sizes[i] >= 1);
            sum += a.sizes[i];
        }
        assert_int_equal(sum, b->global_batch);
    }
}

static void assert_sizes(const struct assignment *a, const int *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(a->sizes[i], sizes[i]);
    }
}

static void nodes_that_were_not_measured_share_equally_within_the_memory_that_is_known(void **state)
{
    struct assignment a;
    struct err e;
    struct profile small = {.max_batch = 10}, smaller = {.max_batch = 3};
    const struct profile *one[4] = {NULL, &small}, *all[4] = {&smaller, &small, &smaller, &small};
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 100), 4, one, 4, &e), 0);
    assert_sizes(&a, (int[]){30, 10, 30, 30}, 4);
    assert_non_null(strstr(a.reason, "memory"));
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 40), 4, one, 4, &e),
                     0); /* it has an equal share */
    assert_sizes(&a, (int[]){10, 10, 10, 10}, 4);
    assert_null(strstr(a.reason, "memory"));
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 100), 4, all, 4, &e),
                     0); /* too small together: the workers will report it */
    assert_sizes(&a, (int[]){25, 25, 25, 25}, 4);
    assert_int_equal(assign_first(&a, policy(BATCH_EQUAL, 100), 4, one, 4, &e), 0);
    assert_sizes(&a, (int[]){25, 25, 25, 25}, 4);
}

static void a_slice_is_at_most_the_training_set(void **state)
{
    static struct jobspec spec;
    spec.batching = *policy(BATCH_EQUAL, 10000000);
    spec.strategy.type = CAT_STRATEGY_SYNC;
    assert_int_equal(assign_slice(&spec, 5000000, 0), 5000000); /* the set is not known */
    assert_int_equal(assign_slice(&spec, 5000000, 2000), 1000); /* shared by two */
    assert_int_equal(assign_slice(&spec, 7500000, 2001), 1501); /* rounded up */
    assert_int_equal(assign_slice(&spec, 1, 2000), 1);
    assert_int_equal(assign_slice(&spec, 1 << 24, INT64_C(1) << 40), 1 << 24);
    spec.strategy.type = CAT_STRATEGY_ASGD;
    assert_int_equal(assign_slice(&spec, 5000000, 2000), 2000); /* of a server, each by itself */
    spec.batching.global_batch = 64;
    assert_int_equal(assign_slice(&spec, 32, 64), 32);
}

static void a_batch_that_cannot_be_shared_out_is_an_error(void **state)
{
    struct assignment a;
    struct err e;
    struct batching_spec *b = policy(BATCH_EQUAL, 31);
    b->min_batch = 8;
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), -ERR_INVALID);
    assert_non_null(strstr(e.message, "31"));
    assert_non_null(strstr(e.message, "4 workers"));
    assert_non_null(strstr(e.message, "8"));
    assert_int_equal(assign_first(&a, policy(BATCH_EQUAL, 3), 4, NULL, 4, &e), -ERR_INVALID);
    assert_int_equal(assign_first(&a, policy(BATCH_EQUAL, 3), 0, NULL, 4, &e), -ERR_INVALID);
    b = policy(BATCH_DYNAMIC, 64); /* of a job that had 64 with four workers, two remain */
    b->max_batch = 16;
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), 0);
    assert_int_equal(assign_first(&a, b, 2, NULL, 4, &e), -ERR_INVALID);
    assert_non_null(strstr(e.message, "16"));
}

static void static_minibatches_for_another_number_of_workers_are_refused(void **state)
{
    struct assignment a;
    struct err e;
    struct batching_spec *b = policy(BATCH_STATIC, 64);
    b->n_sizes = 4;
    b->sizes[0] = b->sizes[1] = b->sizes[2] = b->sizes[3] = 16;
    assert_int_equal(assign_first(&a, b, 3, NULL, 4, &e), -ERR_INVALID);
    assert_non_null(strstr(e.message, "4 workers"));
    b->n_sizes = 0;
    b->n_weights = 4;
    b->weights[0] = 1;
    assert_int_equal(assign_first(&a, b, 3, NULL, 4, &e), -ERR_INVALID);
}

static void dynamic_starts_from_profiles_where_every_worker_has_one(void **state)
{
    struct assignment a;
    struct err e;
    struct profile fast = {.a = 0, .k = 0.001, .count = 5}, slow = {.a = 0, .k = 0.003, .count = 5},
                   none = {.k = 0};
    const struct profile *both[] = {&fast, &slow}, *one[] = {&fast, NULL},
                         *empty[] = {&fast, &none};
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 128), 2, both, 4, &e), 0);
    check_sizes(&a, (int[]){96, 32});
    assert_true(fabs(a.predicted_seconds - 0.096) < 1e-12);
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 128), 2, one, 4, &e), 0);
    check_sizes(&a, (int[]){64, 64});
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 128), 2, empty, 4, &e), 0);
    check_sizes(&a, (int[]){64, 64});
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 128), 2, NULL, 4, &e), 0);
    check_sizes(&a, (int[]){64, 64});
    assert_int_equal(assign_first(&a, policy(BATCH_EQUAL, 128), 2, both, 4, &e), 0);
    check_sizes(&a, (int[]){64, 64}); /* `equal` stays equal */
    fast.max_batch = 80;              /* memory */
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 128), 2, both, 4, &e), 0);
    check_sizes(&a, (int[]){80, 48});
}

static void a_step_takes_no_more_than_the_training_set(void **state)
{
    int asked[] = {60, 40}, together[] = {60, 40}, served[] = {60, 40};
    (void)state;
    assign_taken(asked, 2, true, 0); /* not known */
    assign_taken(asked, 2, true, 100);
    assert_true(asked[0] == 60 && asked[1] == 40);
    assign_taken(together, 2, true, 50);
    assert_true(together[0] == 30 && together[1] == 20);
    assign_taken(served, 2, false, 50);
    assert_true(served[0] == 50 && served[1] == 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_no_more_than_the_training_set),
        cmocka_unit_test(sizes_sum_to_the_global_batch_within_their_bounds),
        cmocka_unit_test(sizes_are_within_a_quantum_of_equal_finish),
        cmocka_unit_test(without_bounds_the_closed_form_holds),
        cmocka_unit_test(bounds_on_both_sides_share_the_excess),
        cmocka_unit_test(equal_nodes_get_equal_minibatches),
        cmocka_unit_test(the_fastest_takes_the_remainder),
        cmocka_unit_test(a_node_whose_time_is_constant_gets_its_largest_minibatch),
        cmocka_unit_test(many_workers_and_a_large_batch_are_split_at_once),
        cmocka_unit_test(equal_gives_the_first_ranks_one_more),
        cmocka_unit_test(static_takes_the_sizes_as_given),
        cmocka_unit_test(static_splits_in_proportion_of_the_weights),
        cmocka_unit_test(weights_of_any_magnitude_sum_to_the_global_batch),
        cmocka_unit_test(
            nodes_that_were_not_measured_share_equally_within_the_memory_that_is_known),
        cmocka_unit_test(a_slice_is_at_most_the_training_set),
        cmocka_unit_test(a_batch_that_cannot_be_shared_out_is_an_error),
        cmocka_unit_test(static_minibatches_for_another_number_of_workers_are_refused),
        cmocka_unit_test(dynamic_starts_from_profiles_where_every_worker_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
