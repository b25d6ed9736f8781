/* Minibatches on nodes with CPU quotas of 0.8, 0.4 and 0.2 cores, whose steps are far shorter than
 * a quota's period: they soon fit the quotas, stay, and follow a changed quota. On the virtual
 * clock, so every run is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/job/throttled.h"

enum { SEEDS = 10 };
static const double SETTLED = 8, MINUTE = 60; /* seconds */

/* CPU time of a step of all nodes, and the period of quotas. */
static const struct size {
    double seconds;
    int batch;
    double period;
} sizes[] = {
    {0.003, 96, 0.1}, {0.012, 192, 0.1}, {0.05, 192, 0.1}, {0.2, 192, 0.1}, {0.006, 256, 0.02}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static struct throttled make(bool server, const struct size *s, uint64_t seed)
{
    struct throttled r = {.workers = 3,
                          .global_batch = s->batch,
                          .server = server,
                          .told = true,
                          .window = WINDOW_SECONDS,
                          .period = s->period,
                          .noise = 0.05,
                          .seed = seed};
    for (int i = 0; i < 3; i++) {
        r.nodes[i] = (struct throttled_node){
            .quota = 0.8 / (1 << i), .a = 0.0002, .k = s->seconds / s->batch};
    }
    return r;
}

static void minibatches_fit_the_quotas_within_seconds_and_stay(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SIZES; i++) {
        int restless = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct throttled r = make(i >= SIZES, &sizes[i % SIZES], seed);
            throttled_open(&r);
            throttled_run(&r, SETTLED);
            int64_t first = r.b.changes;
            double cost = throttled_cost(&r);
            throttled_run(&r, SETTLED + MINUTE);
            if (first > 4 || cost > 1.1 || throttled_cost(&r) > 1.1) {
                fail_msg("case %d, seed %d: %d changes, a step takes %g of the best", i, (int)seed,
                         (int)first, cost);
            }
            restless += r.b.changes - first > 1;
            balancer_release(&r.b);
        }
        assert_in_range(restless, 0, SEEDS / 10);
    }
}

/* Steps of 150 ms, and of 3 ms: many of these fit into the time that it takes to see a speed. */
static void a_quota_that_changes_is_followed(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool tiny = i >= 2;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct throttled r = make(i % 2, &sizes[tiny ? 0 : 3], seed);
            throttled_open(&r);
            throttled_run(&r, 20);
            r.nodes[0].quota = 0.3;
            int64_t step = r.step;
            while (throttled_cost(&r) > 1.15) {
                throttled_step(&r);
                if (tiny ? r.now > 24 : r.step > step + 20) {
                    fail_msg("case %d, seed %d: after %d steps, %g s it is not met", i, (int)seed,
                             (int)(r.step - step), r.now - 20);
                }
            }
            balancer_release(&r.b);
        }
    }
}

/* Why steps are combined: if each step counts by itself, outliers count too little, and a node that
 * waits for others seems to be as fast as its core. */
static void single_steps_say_nothing_of_a_quota(void **state)
{
    int wrong = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct throttled r = make(false, &sizes[0], seed);
        r.told = false;
        r.window = 0;
        throttled_open(&r);
        throttled_run(&r, SETTLED);
        wrong += throttled_cost(&r) > 1.5;
        balancer_release(&r.b);
    }
    assert_int_equal(wrong, SEEDS);
}

/* The last step of an epoch has fewer samples than the others; an epoch may be shorter than a
 * window. */
static void a_window_goes_on_over_the_last_step_of_an_epoch(void **state)
{
    struct window w = {0}, full;
    (void)state;
    for (int step = 1; step < 20; step++) {
        assert_false(window_add(&w, 0.2, step % 4 ? 32 : 8, 0.004, 0.01 * step, &full));
    }
    assert_true(window_add(&w, 0.2, 32, 0.004, 0.21, &full));
    assert_true(full.batch == 32 && full.steps == 16);
    assert_true(fabs(full.sum - 16 * 0.004) < 1e-9);
    assert_false(window_add(&w, 0.2, 32, 0.004, 0.22, &full));
    assert_false(window_add(&w, 0.2, 16, 0.002, 0.23, &full)); /* a new minibatch comes again */
    assert_false(window_add(&w, 0.2, 16, 0.002, 0.24, &full));
    assert_true(window_add(&w, 0.2, 16, 0.300, 0.54, &full));
    assert_true(full.batch == 16 && full.steps == 2);
    assert_true(window_add(&w, 0.2, 16, 0.3, 0.84, &full)); /* each long step counts by itself */
    assert_true(full.steps == 1 && full.sum == 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minibatches_fit_the_quotas_within_seconds_and_stay),
        cmocka_unit_test(a_quota_that_changes_is_followed),
        cmocka_unit_test(single_steps_say_nothing_of_a_quota),
        cmocka_unit_test(a_window_goes_on_over_the_last_step_of_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
