/* The fitted step time of a node: the line comes back from noisy steps, follows a node that changes
 * its speed, shrugs off a single outlier, and is written and read without loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "job/minibatch/profile.h"

static int near(double got, double want, double relative)
{
    return fabs(got - want) <= relative * fabs(want);
}

/* `steps` steps of a node with t = a + k*b and relative noise, over minibatches low .. high. */
static void run(struct profile *p, uint64_t seed, int steps, double a, double k, double noise,
                int low, int high)
{
    for (int i = 0; i < steps; i++) {
        int b = low + (int)rng_below(seed, 1, (uint64_t)i, (uint64_t)(high - low + 1));
        double z = rng_normal(seed, 2, (uint64_t)i);
        z = z > 3 ? 3 : z < -3 ? -3 : z;
        profile_observe(p, b, (a + k * b) * (1 + noise * z));
    }
}

/* The last step, or a recent one, was an outlier. */
static bool surprised(const struct profile *p)
{
    return p->slower.sum >= 3 || p->faster.sum >= 3;
}

static void two_exact_steps_give_the_line(void **state)
{
    struct profile p;
    profile_init(&p);
    profile_observe(&p, 16, 0.010 + 16 * 0.001);
    profile_observe(&p, 64, 0.010 + 64 * 0.001);
    assert_true(near(p.a, 0.010, 1e-9) && near(p.k, 0.001, 1e-9));
    assert_true(near(profile_seconds(&p, 100), 0.110, 1e-9));
    assert_int_equal(p.count, 2);
}

static void noisy_steps_of_several_sizes_give_the_line(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct profile p;
        profile_init(&p);
        run(&p, seed, 200, 0.010, 0.001, 0.02, 8, 128);
        for (int b = 16; b <= 128; b *= 2) { /* assignments use times, within 4 % */
            if (!near(profile_seconds(&p, b), 0.010 + 0.001 * b, 0.04)) {
                fail_msg("seed %d: %g s for %d samples", (int)seed, profile_seconds(&p, b), b);
            }
        }
        assert_true(near(p.k, 0.001, 0.08));
        assert_true(fabs(p.a - 0.010) < 0.004);
    }
}

static void one_size_alone_gives_its_own_time_and_no_fixed_part(void **state)
{
    struct profile p;
    profile_init(&p);
    run(&p, 3, 100, 0.010, 0.001, 0.02, 32, 32);
    assert_true(near(profile_seconds(&p, 32), 0.042, 0.02));
    assert_true(p.a == 0); /* too small to be seen; b/t is then the node's speed */
}

static void what_another_size_told_about_the_fixed_part_stays(void **state)
{
    struct profile p;
    profile_init(&p);
    run(&p, 4, 20, 0.010, 0.001, 0, 16, 64);
    run(&p, 5, 500, 0.010, 0.001, 0.01, 32, 32);
    assert_true(near(p.a, 0.010, 0.05));
    assert_true(near(profile_seconds(&p, 128), 0.138, 0.03));
}

static void the_second_size_tells_the_fixed_part_and_is_no_surprise(void **state)
{
    static const struct {
        double a, k;
    } nodes[] = {{0, 0.001}, {0.002, 0.001}, {0.030, 0.001}, {0.5, 0.0001}};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        for (int next = 8; next <= 128; next *= 2) {
            struct profile p;
            profile_init(&p);
            run(&p, 1, 50, nodes[i].a, nodes[i].k, 0, 32, 32);
            run(&p, 2, 4, nodes[i].a, nodes[i].k, 0, next, next);
            assert_false(surprised(&p));
            if (next != 32 && !near(profile_seconds(&p, 64), nodes[i].a + 64 * nodes[i].k, 0.001)) {
                fail_msg("node %d at %d: %g + %g b", (int)i, next, p.a, p.k);
            }
        }
    }
}

static void faster_than_proportional_or_slower_for_less_work_is_a_surprise(void **state)
{
    struct profile p;
    profile_init(&p);
    run(&p, 1, 50, 0, 0.001, 0, 32, 32);
    profile_observe(&p, 64, 0.100); /* possible are 0.032 to 0.064 */
    assert_true(surprised(&p));
    profile_init(&p);
    run(&p, 1, 50, 0, 0.001, 0, 32, 32);
    profile_observe(&p, 64, 0.020);
    assert_true(surprised(&p));
}

static void a_time_that_does_not_depend_on_the_size_is_found(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct profile p;
        profile_init(&p);
        run(&p, seed, 40, 0.5, 0, 0.01 * (double)(seed % 2), 32, 32);
        run(&p, seed, 40, 0.5, 0, 0.01 * (double)(seed % 2), 40, 64);
        assert_true(near(profile_seconds(&p, 128), 0.5, 0.08));
        run(&p, seed, 400, 0.5, 0, 0.01 * (double)(seed % 2), 64, 64); /* and is not forgotten */
        assert_true(near(profile_seconds(&p, 128), 0.5, 0.08));
    }
}

static void coefficients_are_never_negative(void **state)
{
    struct profile p;
    /* falling times, a line below the origin: neither may become an assignment */
    profile_init(&p);
    double falling[] = {0.5, 0.4, 0.3, 0.2};
    for (int i = 0; i < 4; i++) {
        profile_observe(&p, 10 * (i + 1), falling[i]);
        assert_true(p.a >= 0 && p.k >= 0 && p.a + p.k > 0);
    }
    profile_init(&p);
    for (int i = 1; i < 6; i++) {
        profile_observe(&p, 10 * i, 0.001 * i * i * i);
        assert_true(p.a >= 0 && p.k >= 0 && p.a + p.k > 0);
    }
    int constants = 0;
    for (uint64_t seed = 0; seed < 500; seed++) {
        profile_init(&p);
        run(&p, seed, 40, 0.0001, 0.001, 0.2, 28, 36);
        assert_true(p.a >= 0 && p.k >= 0 && p.a + p.k > 0 && isfinite(p.a + p.k));
        constants += p.k == 0;
    }
    assert_in_range(constants, 0, 25); /* noise seldom passes for a node whose time is constant */
}

static void a_single_outlier_moves_the_fit_little(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct profile p;
        profile_init(&p);
        run(&p, seed, 60, 0.010, 0.001, 0.02, 16, 64);
        double before = profile_seconds(&p, 40);
        profile_observe(&p, 40, 50 * before); /* the host paused */
        assert_true(near(profile_seconds(&p, 40), before, 0.03));
        assert_true(surprised(&p));
        run(&p, seed + 100, 8, 0.010, 0.001, 0.01, 16, 64);
        assert_false(surprised(&p));
    }
}

static void an_outlier_that_repeats_is_a_new_speed(void **state)
{
    static const double factors[] = {2, 4, 0.5, 0.25, 1.3};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        for (uint64_t seed = 0; seed < 50; seed++) {
            double x = factors[f];
            struct profile p;
            profile_init(&p);
            run(&p, seed, 60, 0.010, 0.001, 0.01, 16, 64);
            run(&p, seed + 100, 15, 0.010 * x, 0.001 * x, 0.01, 40, 40);
            if (!near(profile_seconds(&p, 40), 0.050 * x, 0.05)) {
                fail_msg("%g times, seed %d: %g instead of %g", x, (int)seed,
                         profile_seconds(&p, 40), 0.050 * x);
            }
        }
    }
}

/* Sums and squares: their spread lets the next fit tell a slope from noise. */
static void all_that_is_remembered_gets_the_new_speed(void **state)
{
    static const double factors[] = {4, 0.25};
    for (size_t f = 0; f < 2; f++) {
        struct profile p;
        profile_init(&p);
        run(&p, 1, 60, 0, 0.001, 0.01, 40, 40);
        for (int i = 0; p.turns == 0 && i < 20; i++) {
            run(&p, 100 + (uint64_t)i, 1, 0, 0.001 * factors[f], 0.01, 40, 40);
        }
        assert_int_equal(p.turns, 1);
        double mean = p.st / p.weight;
        assert_true(near(mean, 0.040 * factors[f], 0.05));
        assert_true(near(p.stt / p.weight, mean * mean, 0.01));
        assert_true(near(p.sbt / p.weight, 40 * mean, 0.01));
        assert_true(near(p.sbb / p.weight, 1600, 1e-9) && near(p.sb / p.weight, 40, 1e-9));
    }
}

static void a_new_speed_is_seen_through_noise_and_outliers(void **state)
{
    static const struct {
        double times, noise;
        int within; /* steps, of nearly all seeds */
    } cases[] = {{2, 0.04, 10}, {0.5, 0.04, 10}, {2, 0.1, 15}, {0.5, 0.1, 15}, {1.2, 0.04, 12}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int seen = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct profile p;
            double x = cases[c].times;
            profile_init(&p);
            run(&p, seed, 40, 0, 0.001, cases[c].noise, 40, 40);
            profile_observe(&p, 40, 0.08); /* as if a program were prepared during the step */
            run(&p, seed + 300, 19, 0, 0.001, cases[c].noise, 40, 40);
            run(&p, seed + 600, cases[c].within, 0, 0.001 * x, cases[c].noise, 40, 40);
            seen += near(profile_seconds(&p, 40), 0.040 * x, 0.08);
        }
        if (seen < 180) {
            fail_msg("%g times with noise %g: %d of 200", cases[c].times, cases[c].noise, seen);
        }
    }
}

static void noise_is_no_new_speed(void **state)
{
    struct profile p;
    int changes = 0;
    profile_init(&p);
    run(&p, 3, 60, 0.010, 0.001, 0.05, 16, 64);
    for (int i = 0; i < 10000; i++) {
        double before = p.weight;
        run(&p, (uint64_t)(1000 + i), 1, 0.010, 0.001, 0.05, 16, 64);
        changes += p.weight < 0.5 * before; /* the past was discarded */
    }
    assert_in_range(changes, 0, 5);
}

static void a_speed_that_drifts_is_followed(void **state)
{
    struct profile p;
    profile_init(&p);
    for (int i = 0; i < 600; i++) { /* half a percent per step, at first within the noise */
        double x = 1 + 0.005 * i;
        profile_observe(&p, 24 + 16 * (i % 2), x * (0.010 + 0.001 * (24 + 16 * (i % 2))));
        assert_true(near(profile_seconds(&p, 40), 0.050 * x, 0.15));
    }
}

static void a_first_step_that_was_slow_is_forgotten(void **state)
{
    struct profile p;
    profile_init(&p); /* caches are cold */
    profile_observe(&p, 32, 1.0);
    run(&p, 8, 40, 0.010, 0.001, 0.01, 32, 32);
    assert_true(near(profile_seconds(&p, 32), 0.042, 0.05));
}

static void what_is_no_step_is_ignored(void **state)
{
    struct profile p, before;
    profile_init(&p);
    run(&p, 9, 10, 0.010, 0.001, 0.01, 16, 64);
    before = p;
    profile_observe(&p, 0, 0.1);
    profile_observe(&p, -4, 0.1);
    profile_observe(&p, 16, 0);
    profile_observe(&p, 16, -1);
    profile_observe(&p, 16, NAN);
    profile_observe(&p, 16, INFINITY);
    assert_memory_equal(&p, &before, sizeof p);
}

static void a_profile_that_was_written_is_read_and_goes_on_as_before(void **state)
{
    struct profile p, q;
    profile_init(&p);
    run(&p, 10, 50, 0.010, 0.001, 0.02, 16, 64);
    p.max_batch = 512;
    json_t *j = profile_json(&p);
    assert_int_equal(profile_read(&q, j), 0);
    json_decref(j);
    assert_true(q.a == p.a && q.k == p.k && q.deviation == p.deviation);
    assert_true(q.count == p.count && q.max_batch == 512);
    run(&p, 11, 5, 0.010, 0.001, 0.02, 16, 64);
    run(&q, 11, 5, 0.010, 0.001, 0.02, 16, 64);
    assert_true(q.a == p.a && q.k == p.k);
}

static void malformed_profiles_are_refused(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"a\": 1}",
        "{\"k\": 1}",
        "{\"a\": \"x\", \"k\": 1}",
        "{\"a\": -1, \"k\": 1}",
        "{\"a\": 1, \"k\": -1}",
        "[]",
        "3",
        "{\"a\": 0, \"k\": 0.001, \"count\": 3, \"weight\": -3}",
        "{\"a\": 0, \"k\": 0.001, \"count\": -3}",
        "{\"a\": 0, \"k\": 0.001, \"count\": 3, \"weight\": 3, \"deviation\": -1}",
        "{\"a\": 0, \"k\": 0.001, \"count\": 3, \"max_batch\": -8}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct profile p;
        json_t *j = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        assert_non_null(j);
        if (profile_read(&p, j) >= 0) {
            fail_msg("%s was read", bad[i]);
        }
        json_decref(j);
    }
    struct profile p;
    assert_true(profile_read(&p, NULL) < 0);
}

static void a_profile_with_the_line_alone_can_be_read_and_learns(void **state)
{
    struct profile p;
    json_t *j = json_pack("{s:f, s:f, s:i}", "a", 0.01, "k", 0.001, "count", 1);
    assert_int_equal(profile_read(&p, j), 0);
    json_decref(j);
    assert_true(near(profile_seconds(&p, 10), 0.02, 1e-9));
    run(&p, 12, 30, 0.020, 0.002, 0.01, 16, 64);
    assert_true(near(profile_seconds(&p, 40), 0.100, 0.05));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_exact_steps_give_the_line),
        cmocka_unit_test(noisy_steps_of_several_sizes_give_the_line),
        cmocka_unit_test(one_size_alone_gives_its_own_time_and_no_fixed_part),
        cmocka_unit_test(what_another_size_told_about_the_fixed_part_stays),
        cmocka_unit_test(the_second_size_tells_the_fixed_part_and_is_no_surprise),
        cmocka_unit_test(faster_than_proportional_or_slower_for_less_work_is_a_surprise),
        cmocka_unit_test(a_time_that_does_not_depend_on_the_size_is_found),
        cmocka_unit_test(coefficients_are_never_negative),
        cmocka_unit_test(a_single_outlier_moves_the_fit_little),
        cmocka_unit_test(an_outlier_that_repeats_is_a_new_speed),
        cmocka_unit_test(all_that_is_remembered_gets_the_new_speed),
        cmocka_unit_test(a_new_speed_is_seen_through_noise_and_outliers),
        cmocka_unit_test(noise_is_no_new_speed),
        cmocka_unit_test(a_speed_that_drifts_is_followed),
        cmocka_unit_test(a_first_step_that_was_slow_is_forgotten),
        cmocka_unit_test(what_is_no_step_is_ignored),
        cmocka_unit_test(a_profile_that_was_written_is_read_and_goes_on_as_before),
        cmocka_unit_test(malformed_profiles_are_refused),
        cmocka_unit_test(a_profile_with_the_line_alone_can_be_read_and_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
