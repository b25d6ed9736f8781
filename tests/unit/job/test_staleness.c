/* Staleness figures: the three means, percentiles by nearest rank, the histogram, and the laws that
 * a simulated server must keep (docs/semantics.md#staleness). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "job/staleness.h"

static double real(const json_t *j, const char *key)
{
    json_t *v = json_object_get(j, key);
    if (!json_is_number(v)) {
        fail_msg("no number '%s'", key);
    }
    return json_number_value(v);
}

static int whole(const json_t *j, const char *key)
{
    json_t *v = json_object_get(j, key);
    if (!json_is_integer(v)) {
        fail_msg("no whole number '%s'", key);
    }
    return (int)json_integer_value(v);
}

static int64_t bin(const json_t *j, size_t tau)
{
    return json_integer_value(json_array_get(json_object_get(j, "histogram"), tau));
}

static json_t *job_of(struct staleness *workers, int n, bool recent)
{
    const struct staleness *list[16];
    for (int i = 0; i < n; i++) {
        list[i] = &workers[i];
    }
    return staleness_job_json(list, n, recent);
}

static void the_figures_of_a_worker_are_those_of_the_definition(void **state)
{
    struct staleness s;
    staleness_init(&s);
    const int taus[] = {0, 1, 1, 2, 6}, samples[] = {10, 20, 30, 40, 100};
    for (int i = 0; i < 5; i++) {
        staleness_add(&s, taus[i], samples[i]);
    }
    json_t *j = staleness_json(&s);
    assert_true(real(j, "mean") == 2);
    assert_true(fabs(real(j, "sample_mean") - (20 + 30 + 80 + 600) / 200.0) < 1e-12);
    assert_int_equal(whole(j, "p50"), 1); /* the third of five */
    assert_int_equal(whole(j, "p95"), 6);
    assert_int_equal(whole(j, "p99"), 6);
    assert_int_equal(whole(j, "max"), 6);
    const int64_t want[] = {1, 2, 1, 0, 0, 0, 1};
    assert_int_equal(json_array_size(json_object_get(j, "histogram")), 7);
    for (size_t t = 0; t < 7; t++) {
        assert_int_equal(bin(j, t), want[t]);
    }
    json_decref(j);
    staleness_release(&s);
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void percentiles_are_by_nearest_rank(void **state)
{
    for (int n = 1; n < 250; n++) {
        struct staleness s;
        int taus[250];
        staleness_init(&s);
        for (int i = 0; i < n; i++) {
            taus[i] = (int)rng_below(1, (uint64_t)n, (uint64_t)i, 40);
            staleness_add(&s, taus[i], 1);
        }
        qsort(taus, (size_t)n, sizeof *taus, compare);
        json_t *j = staleness_json(&s);
        /* ceil(p * n / 100) in whole numbers, so that no rounding can hide in the reference */
        assert_int_equal(whole(j, "p50"), taus[(50 * n + 99) / 100 - 1]);
        assert_int_equal(whole(j, "p95"), taus[(95 * n + 99) / 100 - 1]);
        assert_int_equal(whole(j, "p99"), taus[(99 * n + 99) / 100 - 1]);
        json_decref(j);
        staleness_release(&s);
    }
}

static void the_three_means_of_a_job_weigh_updates_nodes_and_samples(void **state)
{
    struct staleness w[3];
    for (int i = 0; i < 3; i++) {
        staleness_init(&w[i]);
    }
    for (int i = 0; i < 30; i++) {
        staleness_add(&w[0], 1, 90);
    }
    for (int i = 0; i < 10; i++) {
        staleness_add(&w[1], 9, 30);
    }
    json_t *j = job_of(w, 3, false); /* the third worker has applied nothing and does not count */
    assert_true(fabs(real(j, "update_mean") - 3) < 1e-12);
    assert_true(fabs(real(j, "node_mean") - 5) < 1e-12);
    assert_true(fabs(real(j, "sample_mean") - (30 * 90.0 + 10 * 9 * 30) / (30 * 90 + 10 * 30)) <
                1e-12);
    assert_int_equal(whole(j, "p50"), 1);
    assert_int_equal(whole(j, "p95"), 9);
    assert_int_equal(whole(j, "max"), 9);
    assert_int_equal(bin(j, 1), 30);
    assert_int_equal(bin(j, 9), 10);
    json_decref(j);
    for (int i = 0; i < 3; i++) {
        staleness_release(&w[i]);
    }
}

static void nothing_applied_gives_zeros(void **state)
{
    struct staleness s;
    staleness_init(&s);
    json_t *one = staleness_json(&s), *job = job_of(&s, 1, false), *recent = job_of(&s, 1, true);
    assert_true(real(one, "mean") == 0 && real(job, "node_mean") == 0);
    assert_true(real(recent, "update_mean") == 0 && real(recent, "sample_mean") == 0);
    assert_int_equal(whole(one, "p99"), 0);
    assert_int_equal(whole(one, "max"), 0);
    assert_int_equal(json_array_size(json_object_get(one, "histogram")), 0);
    json_decref(one);
    json_decref(job);
    json_decref(recent);
    staleness_release(&s);
}

static void recent_looks_at_the_last_hundred_of_each_worker(void **state)
{
    struct staleness w[2];
    staleness_init(&w[0]);
    staleness_init(&w[1]);
    for (int i = 0; i < 1000; i++) {
        staleness_add(&w[0], i < 900 ? 50 : 2, 64);
    }
    for (int i = 0; i < 20; i++) {
        staleness_add(&w[1], 8, 16);
    }
    json_t *j = job_of(w, 2, true);
    assert_true(fabs(real(j, "update_mean") - (100 * 2 + 20 * 8) / 120.0) < 1e-12);
    assert_true(real(j, "node_mean") == 5);
    assert_true(fabs(real(j, "sample_mean") - (6400 * 2.0 + 320 * 8) / 6720) < 1e-12);
    assert_int_equal(whole(j, "max"), 8);
    assert_int_equal(bin(j, 2), 100);
    assert_int_equal(bin(j, 50), 0);
    json_decref(j);
    j = job_of(w, 2, false);
    assert_int_equal(whole(j, "max"), 50);
    json_decref(j);
    staleness_release(&w[0]);
    staleness_release(&w[1]);
}

static void huge_staleness_keeps_its_maximum_and_one_last_bin(void **state)
{
    struct staleness s;
    staleness_init(&s);
    staleness_add(&s, 3, 1);
    staleness_add(&s, 100000, 1);
    staleness_add(&s, -1, 1); /* no gradient is fresher than 0 */
    json_t *j = staleness_json(&s);
    assert_int_equal(whole(j, "max"), 100000);
    assert_int_equal(whole(j, "p99"), 100000);
    assert_int_equal(whole(j, "p50"), 3);
    assert_true(fabs(real(j, "mean") - 100003 / 3.0) < 1e-9);
    assert_int_equal(json_array_size(json_object_get(j, "histogram")), STALENESS_BINS);
    json_decref(j);
    j = job_of(&s, 1, true); /* recent ones are kept in 16 bits */
    assert_int_equal(whole(j, "p99"), UINT16_MAX);
    assert_int_equal(json_array_size(json_object_get(j, "histogram")), STALENESS_BINS);
    json_decref(j);
    staleness_release(&s);
}

/* ---- a little event simulation: free pull, a worker pulls right after its push --------------- */

struct server {
    int workers;
    double seconds[16]; /* of a gradient */
    int c;              /* gradients of an update */
    double jitter;
};

static void simulate(const struct server *s, uint64_t seed, int gradients, struct staleness *out)
{
    double due[16];
    int pulled[16] = {0}, version = 0, arrived = 0;
    uint64_t idx = 0;
    int owner[16], base[16];
    for (int i = 0; i < s->workers; i++) {
        staleness_init(&out[i]);
        due[i] = s->seconds[i] * (1 + s->jitter * rng_normal(seed, 1, idx++));
    }
    for (int n = 0; n < gradients; n++) {
        int who = 0;
        for (int i = 1; i < s->workers; i++) {
            who = due[i] < due[who] ? i : who;
        }
        owner[arrived] = who;
        base[arrived++] = pulled[who];
        if (arrived == s->c) { /* the update: each gradient's age is the version before it */
            for (int k = 0; k < arrived; k++) {
                staleness_add(&out[owner[k]], version - base[k], 16);
            }
            version++;
            arrived = 0;
        }
        pulled[who] = version;
        due[who] += s->seconds[who] * (1 + s->jitter * rng_normal(seed, 1, idx++));
    }
}

/* Follows the law: U updates in all, and no gradient is in flight at the end. A worker does not
 * pull after its last push, so the last W pushes are one of each worker. */
static double sum_until_all_have_ended(const struct server *s, uint64_t seed, int updates)
{
    double due[16], sum = 0;
    int pulled[16] = {0}, version = 0, handed_out = s->workers;
    uint64_t idx = 0;
    for (int i = 0; i < s->workers; i++) {
        due[i] = s->seconds[i] * (1 + s->jitter * rng_normal(seed, 1, idx++));
    }
    while (version < updates) {
        int who = 0;
        for (int i = 1; i < s->workers; i++) {
            who = due[i] < due[who] ? i : who;
        }
        sum += version - pulled[who];
        pulled[who] = ++version;
        bool more = handed_out < updates;
        handed_out += more;
        due[who] +=
            more ? s->seconds[who] * (1 + s->jitter * rng_normal(seed, 1, idx++)) : INFINITY;
    }
    return sum;
}

static void staleness_is_conserved_whatever_the_speeds(void **state)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct server s = {.workers = 1 + (int)rng_below(seed, 9, 0, 12), .c = 1, .jitter = 0.1};
        for (int i = 0; i < s.workers; i++) {
            s.seconds[i] = 0.1 + 5 * rng_double(seed, 8, (uint64_t)i);
        }
        int W = s.workers, U = W + (int)rng_below(seed, 9, 1, 300);
        double want = (double)(W - 1) * (U - W) + W * (W - 1) / 2.0;
        assert_true(sum_until_all_have_ended(&s, seed, U) == want);
    }
}

static void the_table_of_the_algorithms_page_holds(void **state)
{
    static const struct {
        struct server server;
        double update_mean, node_mean;
        int max;
    } rows[] = {
        {{4, {1, 2, 4, 4}, 1, 0.02}, 3.00, 4.50, 8},
        {{4, {2, 2, 2, 2}, 1, 0.02}, 3.00, 3.00, 4},
        {{4, {2, 2, 2, 2}, 4, 0.02}, 0.75, 0.75, 1},
        {{8, {1, 1, 1, 1, 2, 2, 4, 8}, 1, 0.02}, 6.99, 12.4, 45},
        {{8, {1.6, 1.6, 1.6, 1.6, 1.6, 1.6, 1.6, 1.6}, 1, 0.02}, 6.99, 6.99, 9},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct staleness w[16];
        simulate(&rows[r].server, 3, 5000 * rows[r].server.c, w);
        json_t *j = job_of(w, rows[r].server.workers, false);
        assert_true(fabs(real(j, "update_mean") / rows[r].update_mean - 1) < 0.03);
        if (fabs(real(j, "node_mean") / rows[r].node_mean - 1) > 0.03 ||
            whole(j, "max") > 1.4 * rows[r].max + 2) {
            fail_msg("row %d: node mean %g, max %d", (int)r, real(j, "node_mean"), whole(j, "max"));
        }
        json_decref(j);
        for (int i = 0; i < rows[r].server.workers; i++) {
            staleness_release(&w[i]);
        }
    }
}

/* ---- forms ----------------------------------------------------------------------------------- */

static void keys_are(const json_t *j, const char *const *keys)
{
    size_t n = 0;
    for (; keys[n]; n++) {
        assert_non_null(json_object_get(j, keys[n]));
    }
    assert_int_equal(json_object_size(j), n);
}

static void the_json_has_the_form_of_the_design(void **state)
{
    static const char *const of_job[] = {"update_mean", "node_mean", "sample_mean", "p50", "p95",
                                         "p99",         "max",       "histogram",   NULL};
    static const char *const of_worker[] = {"mean", "sample_mean", "p50",       "p95",
                                            "p99",  "max",         "histogram", NULL};
    struct staleness s;
    staleness_init(&s);
    staleness_add(&s, 2, 8);
    json_t *one = staleness_json(&s), *job = job_of(&s, 1, false), *recent = job_of(&s, 1, true);
    keys_are(one, of_worker);
    keys_are(job, of_job);
    keys_are(recent, of_job);
    assert_true(json_is_real(json_object_get(job, "update_mean")));
    assert_true(json_is_integer(json_object_get(job, "p50")));
    json_decref(one);
    json_decref(job);
    json_decref(recent);
    staleness_release(&s);
}

static void what_is_taken_back_counts_no_more(void **state)
{
    struct staleness s;
    (void)state;
    staleness_init(&s);
    staleness_take_back(&s, 0, 0, 0);
    for (int i = 0; i < 10; i++) {
        staleness_add(&s, 0, 16);
    }
    staleness_take_back(&s, 0, 4, 64);
    json_t *j = staleness_json(&s);
    assert_int_equal(s.count, 6);
    assert_int_equal(s.samples, 96);
    assert_int_equal(bin(j, 0), 6);
    assert_int_equal(s.recent_n, 6);
    json_decref(j);
    for (int i = 0; i < 5; i++) {
        staleness_add(&s, 1, 10);
    }
    staleness_take_back(&s, 1, 3, 30);
    assert_int_equal(s.histogram[0], 6);
    assert_int_equal(s.histogram[1], 2);
    assert_int_equal(s.sum, 2);
    assert_int_equal(s.sample_sum, 20);
    assert_int_equal(s.samples, 116);
    staleness_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_figures_of_a_worker_are_those_of_the_definition),
        cmocka_unit_test(percentiles_are_by_nearest_rank),
        cmocka_unit_test(the_three_means_of_a_job_weigh_updates_nodes_and_samples),
        cmocka_unit_test(nothing_applied_gives_zeros),
        cmocka_unit_test(recent_looks_at_the_last_hundred_of_each_worker),
        cmocka_unit_test(huge_staleness_keeps_its_maximum_and_one_last_bin),
        cmocka_unit_test(staleness_is_conserved_whatever_the_speeds),
        cmocka_unit_test(the_table_of_the_algorithms_page_holds),
        cmocka_unit_test(the_json_has_the_form_of_the_design),
        cmocka_unit_test(what_is_taken_back_counts_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
