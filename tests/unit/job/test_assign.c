/* Minibatch policy: sizes always sum to the global batch within their bounds, all finish together to
 * within a quantum, and the balancer moves them only when that is worth it, with a reason that names the
 * node (ALGORITHMS.md 2.3, DESIGN.md decision 7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "job/assign.h"

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
            assert_true(fabs(T - slowest) <= 1e-12 * slowest); /* what is returned is what it will take */
            solved++;
        }
        free(s);
    }
    assert_in_range(solved, 2000, 20000);
}

/* The exact split by another way: raise T until the sum is B. */
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
            double ideal[MOST], rounded_up = 0; /* nodes that would get less than a quantum get one */
            int fastest = 0, odd = 0;
            ideal_of(s, ideal);
            for (int i = 0; i < s->workers; i++) {
                fastest = s->k[i] < s->k[fastest] ? i : fastest;
                rounded_up += ideal[i] < s->quantum ? s->quantum - ideal[i] : 0;
            }
            for (int i = 0; i < s->workers; i++) {
                double over = s->sizes[i] - ideal[i], most = s->quantum + (i == fastest ? s->B % s->quantum : 0);
                if (over > most + 1e-6 || (rounded_up == 0 && over < -most - 1e-6)) {
                    fail_msg("seed %d: worker %d gets %d, ideal %g", (int)seed, i, s->sizes[i], ideal[i]);
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
    struct split s = {.workers = 4, .B = 256, .min_batch = 1, .quantum = 1,
                      .a = {0.002, 0.002, 0.002, 0.002}, .k = {0.0005, 0.0005, 0.001, 0.002}};
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
    /* shares 70, 25, 5 within [10, 40]: clamping and dividing again would fail (ALGORITHMS.md 2.3) */
    struct split s = {.workers = 3, .B = 100, .min_batch = 10, .quantum = 1,
                      .k = {1 / 70.0, 1 / 25.0, 1 / 5.0}, .max_batch = {40, 40, 40}};
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
                struct split s = {.workers = workers, .B = workers * each, .min_batch = 1,
                                  .quantum = quantum};
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
    struct split s = {.workers = 3, .B = 130, .min_batch = 1, .quantum = 8, .k = {0.002, 0.001, 0.002}};
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
    struct split s = {.workers = 3, .B = 128, .min_batch = 4, .quantum = 4, .a = {0, 0.2, 0},
                      .k = {0.001, 0, 0.001}, .max_batch = {0, 64, 0}};
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

/* ---- the first assignment -------------------------------------------------------------------------- */

static struct batching_spec *policy(enum batching_policy p, int B)
{
    static struct batching_spec b;
    memset(&b, 0, sizeof b);
    b.policy = p;
    b.global_batch = B;
    b.min_batch = 1;
    return &b;
}

static void check_sizes(const struct assignment *a, const int *want)
{
    for (int i = 0; i < a->workers; i++) {
        if (a->sizes[i] != want[i]) {
            fail_msg("worker %d gets %d instead of %d", i, a->sizes[i], want[i]);
        }
    }
}

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

static void a_batch_that_cannot_be_shared_out_is_an_error(void **state)
{
    struct assignment a;
    struct err e;
    struct batching_spec *b = policy(BATCH_EQUAL, 31);
    b->min_batch = 8;
    assert_true(assign_first(&a, b, 4, NULL, 4, &e) < 0);
    assert_non_null(strstr(e.message, "31"));
    assert_non_null(strstr(e.message, "4 workers"));
    assert_non_null(strstr(e.message, "8"));
    assert_true(assign_first(&a, policy(BATCH_EQUAL, 3), 4, NULL, 4, &e) < 0);
    assert_true(assign_first(&a, policy(BATCH_EQUAL, 3), 0, NULL, 4, &e) < 0);
    b = policy(BATCH_DYNAMIC, 64); /* two of four workers are left of a job that held 64 with four */
    b->max_batch = 16;
    assert_int_equal(assign_first(&a, b, 4, NULL, 4, &e), 0);
    assert_true(assign_first(&a, b, 2, NULL, 4, &e) < 0);
    assert_non_null(strstr(e.message, "16"));
}

static void static_minibatches_for_another_number_of_workers_are_refused(void **state)
{
    struct assignment a;
    struct err e;
    struct batching_spec *b = policy(BATCH_STATIC, 64);
    b->n_sizes = 4;
    b->sizes[0] = b->sizes[1] = b->sizes[2] = b->sizes[3] = 16;
    assert_true(assign_first(&a, b, 3, NULL, 4, &e) < 0);
    assert_non_null(strstr(e.message, "4 workers"));
    b->n_sizes = 0;
    b->n_weights = 4;
    b->weights[0] = 1;
    assert_true(assign_first(&a, b, 3, NULL, 4, &e) < 0);
}

static void dynamic_starts_from_profiles_where_every_worker_has_one(void **state)
{
    struct assignment a;
    struct err e;
    struct profile fast = {.a = 0, .k = 0.001, .count = 5}, slow = {.a = 0, .k = 0.003, .count = 5}, none = {.k = 0};
    const struct profile *both[] = {&fast, &slow}, *one[] = {&fast, NULL}, *empty[] = {&fast, &none};
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
    fast.max_batch = 80; /* memory */
    assert_int_equal(assign_first(&a, policy(BATCH_DYNAMIC, 128), 2, both, 4, &e), 0);
    check_sizes(&a, (int[]){80, 48});
}

/* ---- the balancer ---------------------------------------------------------------------------------- */

struct node {
    double a, k, noise;
};

static const char *const names[] = {"ada", "bob", "cleo", "dan"};

static void open_balancer(struct balancer *b, const struct batching_spec *spec, int workers)
{
    struct err e;
    if (balancer_init(b, spec, workers, 4, NULL, names, &e) < 0) {
        fail_msg("%s", e.message);
    }
}

/* Steps from `step` to `until`; every worker reports each, as under `sync`. */
static void train(struct balancer *b, const struct node *nodes, uint64_t seed, int64_t step, int64_t until)
{
    for (; step < until; step++) {
        int sum = 0;
        for (int i = 0; i < b->workers; i++) {
            int batch = b->current.sizes[i];
            double z = rng_normal(seed, (uint64_t)i, (uint64_t)step);
            z = z > 3 ? 3 : z < -3 ? -3 : z;
            balancer_observe(b, i, batch, (nodes[i].a + nodes[i].k * batch) * (1 + nodes[i].noise * z));
            sum += batch;
        }
        assert_int_equal(sum, b->batching.global_batch);
        balancer_decide(b, step);
    }
}

static double step_seconds(const struct balancer *b, const struct node *nodes)
{
    double T = 0;
    for (int i = 0; i < b->workers; i++) {
        T = fmax(T, nodes[i].a + nodes[i].k * b->current.sizes[i]);
    }
    return T;
}

static double best_seconds(const struct balancer *b, const struct node *nodes)
{
    double a[4], k[4];
    int sizes[4];
    for (int i = 0; i < b->workers; i++) {
        a[i] = nodes[i].a;
        k[i] = nodes[i].k;
    }
    return assign_equal_finish(a, k, NULL, b->workers, b->batching.global_batch, 1, 4, sizes);
}

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
                fail_msg("cluster %d, seed %d: %g s, best %g, %d changes", (int)c, (int)seed, after, best,
                         (int)b.changes);
            }
            balancer_release(&b);
        }
    }
}

static void equal_nodes_are_left_alone(void **state)
{
    const struct node nodes[] = {{.01, .001, .03}, {.01, .001, .03}, {.01, .001, .03}, {.01, .001, .03}};
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

static void a_change_needs_the_gain_that_is_asked(void **state)
{
    /* a predicted gain of 1/22 and of 1/7: below and above the twentieth */
    const struct node little[] = {{0, .0010, 0}, {0, .0011, 0}}, much[] = {{0, .0010, 0}, {0, .0014, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 2);
    assert_true(b.gain == 0.05);
    train(&b, little, 0, 0, 50);
    assert_int_equal(b.changes, 0);
    train(&b, much, 0, 50, 100);
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
    assert_string_equal(b.current.reason,
                        "dan computes 4.0 times slower than the median; its minibatch goes from 65 to 20");
    balancer_release(&b);
}

static void a_node_that_changes_its_speed_is_named(void **state)
{
    struct node nodes[] = {{0, .001, .01}, {0, .001, .01}, {0, .001, .01}, {0, .004, .01}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
    train(&b, nodes, 1, 0, 40);
    assert_memory_equal(b.current.reason, "dan", 3);
    int64_t changes = b.changes;
    nodes[1].k = .003; /* someone else uses bob's machine */
    train(&b, nodes, 1, 40, 80);
    assert_true(b.changes > changes);
    assert_non_null(strstr(b.current.reason, "bob computes "));
    assert_non_null(strstr(b.current.reason, "slower"));
    assert_true(step_seconds(&b, nodes) < 1.12 * best_seconds(&b, nodes));
    nodes[3].k = .001; /* dan is as fast as the others again */
    changes = b.changes;
    train(&b, nodes, 1, 80, 130);
    assert_true(b.changes > changes);
    assert_non_null(strstr(b.current.reason, "dan computes as fast as the median"));
    assert_true(step_seconds(&b, nodes) < 1.12 * best_seconds(&b, nodes));
    balancer_release(&b);
}

/* No row of such an assignment ever comes: its minibatch does not fit, so it never comes into force. */
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
    assert_int_equal(b.current.sizes[0] + b.current.sizes[1] + b.current.sizes[2] + b.current.sizes[3], 260);
    assert_string_equal(b.current.reason, "bob has memory for a minibatch of at most 70");
    assert_false(balancer_decide(&b, 12)); /* once */
    for (int i = 0; i < 4; i++) { /* memory for 160 of 260: there is no other way, and no end of trying */
        b.profiles[i].max_batch = 40;
    }
    assert_false(balancer_decide(&b, 13));
    balancer_release(&b);
}

static void reasons_read_well_at_any_ratio(void **state)
{
    const struct node nodes[] = {{0, .0001, 0}, {0, .0001, 0}, {0, .0001, 0}, {0, .0123, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
    train(&b, nodes, 0, 0, 4);
    assert_non_null(strstr(b.current.reason, "dan computes 123 times slower"));
    assert_int_equal(b.current.sizes[3], 4); /* a quantum, not 1: 8/10 of the ideal would not fit a vector */
    balancer_release(&b);
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
    balancer_observe(&b, -1, 64, 0.1);
    balancer_observe(&b, 4, 64, 0.1);
    balancer_observe(&b, 0, 0, 0.1);
    balancer_observe(&b, 0, 64, -0.1);
    balancer_observe(&b, 0, 64, NAN);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(a_batch_that_cannot_be_shared_out_is_an_error),
        cmocka_unit_test(static_minibatches_for_another_number_of_workers_are_refused),
        cmocka_unit_test(dynamic_starts_from_profiles_where_every_worker_has_one),
        cmocka_unit_test(unequal_nodes_are_balanced_within_a_few_steps),
        cmocka_unit_test(equal_nodes_are_left_alone),
        cmocka_unit_test(a_balanced_cluster_is_left_alone_whatever_the_noise),
        cmocka_unit_test(a_change_needs_the_gain_that_is_asked),
        cmocka_unit_test(an_assignment_records_what_was_and_what_will_be),
        cmocka_unit_test(a_node_that_changes_its_speed_is_named),
        cmocka_unit_test(a_minibatch_that_memory_does_not_hold_is_taken_back),
        cmocka_unit_test(reasons_read_well_at_any_ratio),
        cmocka_unit_test(a_node_with_a_constant_time_gets_as_much_as_pays),
        cmocka_unit_test(other_policies_never_change),
        cmocka_unit_test(rows_that_cannot_be_are_ignored),
        cmocka_unit_test(a_job_with_one_worker_keeps_its_batch),
        cmocka_unit_test(the_json_has_the_form_of_the_design),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
