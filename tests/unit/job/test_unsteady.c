/* Minibatches on nodes with noisy steps and changing load: they hardly change while speeds are
 * constant, and soon after one has changed. On the virtual clock, so every run is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/job/unsteady.h"

enum { SEEDS = 20 };

static const struct load {
    double times, on, off;
} none = {1, 1, 1}, short_ones = {2, 3, 20}, long_ones = {2, 8, 40}, slight = {1.5, 20, 60};

/* Runs all seeds. `changes`: of all seeds, in 500 steps after settling. Returns how many followed
 * the turn within 20 steps. */
static int run(bool server, struct load load, double noise, double turn, int *changes)
{
    int met = 0;
    *changes = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct trial t = {.workers = 4,
                          .server = server,
                          .noise = noise,
                          .load = load.times,
                          .on = load.on,
                          .off = load.off,
                          .turn = turn};
        struct trial_result r = trial(&t, seed);
        *changes += r.changes;
        met += r.met <= 20;
    }
    return met;
}

static void check(bool server, struct load load, double turn, int most, int least_met)
{
    int changes, met = run(server, load, 0.1, turn, &changes);
    if (changes > most || met < least_met) {
        fail_msg("load %g for %g s, turn %g: %d changes in %d runs of 500 steps, %d met in time",
                 load.times, load.on, turn, changes, SEEDS, met);
    }
}

static void noise_alone_hardly_changes_minibatches_and_every_turn_is_met(void **state)
{
    (void)state;
    for (int server = 0; server < 2; server++) {
        check(server, none, 1.5, SEEDS / 2, SEEDS);
        check(server, none, 2, SEEDS / 2, SEEDS);
        check(server, none, 4, SEEDS / 2, SEEDS);
        check(server, none, 0.5, SEEDS / 2, SEEDS);
    }
}

static void a_load_that_comes_and_goes_makes_at_most_one_change_in_500_steps(void **state)
{
    (void)state;
    for (int server = 0; server < 2; server++) {
        check(server, short_ones, 2, SEEDS, SEEDS * 9 / 10);
        check(server, long_ones, 2, SEEDS, SEEDS * 9 / 10);
        check(server, slight, 2, 2 * SEEDS, SEEDS * 9 / 10); /* a third of them lasts 20 steps */
    }
}

static void a_load_that_stays_is_followed_there_and_back(void **state)
{
    struct trial t = {.workers = 4, .noise = 0.1, .load = 1, .turn = 1};
    int late = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct trial_run *r = trial_open(&t, seed);
        int64_t step = 0;
        for (; step < 100; step++) {
            trial_step(r, step);
        }
        for (int turn = 0; turn < 2; turn++) { /* half a quota, then the whole one again */
            r->nodes[1].factor = turn == 0 ? 2 : 1;
            for (int64_t end = step + 20; step < end; step++) {
                trial_step(r, step);
            }
            late += trial_ideal(r, r->b.current.sizes) > 1.15 * trial_ideal(r, NULL);
        }
        trial_close(r);
    }
    assert_in_range(late, 0, 2 * SEEDS / 10); /* of two turns in each */
}

/* A load that comes and goes all the time is ignored after a while, even if each time lasts. */
static void regular_turns_are_not_followed_for_ever(void **state)
{
    struct trial t = {.workers = 4, .noise = 0.05, .load = 1, .turn = 1};
    struct trial_run *r = trial_open(&t, 1);
    int64_t settled = 0;
    (void)state;
    for (int64_t step = 0; step < 3000; step++) {
        r->nodes[1].factor = step / 30 % 2 ? 2 : 1;
        trial_step(r, step);
        settled = step == 1000 ? r->b.changes : settled;
    }
    assert_in_range(r->b.changes - settled, 0, 4);
    r->nodes[1].factor = 2; /* now it stays loaded */
    for (int64_t step = 3000; step < 4000; step++) {
        trial_step(r, step);
    }
    assert_true(trial_ideal(r, r->b.current.sizes) < 1.1 * trial_ideal(r, NULL));
    trial_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_alone_hardly_changes_minibatches_and_every_turn_is_met),
        cmocka_unit_test(a_load_that_comes_and_goes_makes_at_most_one_change_in_500_steps),
        cmocka_unit_test(a_load_that_stays_is_followed_there_and_back),
        cmocka_unit_test(regular_turns_are_not_followed_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
