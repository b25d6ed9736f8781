/* When a strategy evaluates and writes checkpoints (worker/exchange/agenda.c): by epochs, steps or
 * seconds, once per boundary however long a step is, and continuing after a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/exchange/agenda.h"

enum { SAMPLES = 1000 };

static void evaluations_come_at_every_so_many_steps(void **state)
{
    const struct jobspec spec = {.evaluate_every_steps = 5};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, SAMPLES, 0, 0, 0);
    for (int64_t step = 1; step <= 20; step++) {
        assert_int_equal(agenda_evaluate(&a, step * 64, step), step % 5 == 0);
    }
    assert_true(agenda_evaluate(&a, 0, 33)); /* two boundaries at once are one evaluation */
    assert_false(agenda_evaluate(&a, 0, 34));
}

static void evaluations_come_at_every_part_of_an_epoch(void **state)
{
    const struct jobspec spec = {.evaluate_every_epochs = 0.5};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, SAMPLES, 0, 0, 0);
    assert_false(agenda_evaluate(&a, 499, 1));
    assert_true(agenda_evaluate(&a, 500, 2));
    assert_false(agenda_evaluate(&a, 999, 3));
    assert_true(agenda_evaluate(&a, 1001, 4));
    assert_false(agenda_evaluate(&a, 1499, 5));
}

/* A part of an epoch is rarely exact in binary: its boundary is met all the same. */
static void a_boundary_is_met_whatever_its_rounding(void **state)
{
    struct agenda a;
    (void)state;
    for (int parts = 1; parts <= 50; parts++) {
        const struct jobspec spec = {.evaluate_every_epochs = 1.0 / parts};
        agenda_init(&a, &spec, 30 * parts, 0, 0, 0);
        for (int k = 1; k <= 3 * parts; k++) {
            assert_false(agenda_evaluate(&a, 30 * k - 1, k));
            assert_true(agenda_evaluate(&a, 30 * k, k));
        }
    }
}

static void a_job_that_does_not_evaluate_on_the_way_never_does(void **state)
{
    const struct jobspec spec = {0};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, SAMPLES, 0, 0, 0);
    assert_false(agenda_evaluate(&a, 100 * SAMPLES, 1000));
    assert_false(agenda_checkpoint(&a, 1000, 1e9));
}

static void a_restart_goes_on_and_repeats_nothing(void **state)
{
    const struct jobspec spec = {.evaluate_every_steps = 5, .checkpoint_every_steps = 10};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, SAMPLES, 0, 15, 100);
    assert_false(agenda_evaluate(&a, 0, 16));
    assert_true(agenda_evaluate(&a, 0, 20));
    assert_false(agenda_checkpoint(&a, 24, 100));
    assert_true(agenda_checkpoint(&a, 25, 100));
}

static void checkpoints_come_so_many_steps_after_the_last(void **state)
{
    const struct jobspec spec = {.checkpoint_every_steps = 10, .checkpoint_every_seconds = 1};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, SAMPLES, 0, 0, 0);
    assert_false(agenda_checkpoint(&a, 9, 1000)); /* steps go before seconds */
    assert_true(agenda_checkpoint(&a, 13, 1000));
    assert_false(agenda_checkpoint(&a, 22, 1000));
    assert_true(agenda_checkpoint(&a, 23, 1000));
}

static void checkpoints_come_so_many_seconds_after_the_last(void **state)
{
    const struct jobspec spec = {.checkpoint_every_seconds = 30};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, SAMPLES, 0, 0, 100);
    assert_false(agenda_checkpoint(&a, 1, 129.9));
    assert_true(agenda_checkpoint(&a, 2, 130));
    assert_false(agenda_checkpoint(&a, 3, 159.9));
    assert_true(agenda_checkpoint(&a, 4, 165));
    assert_false(agenda_checkpoint(&a, 5, 194.9));
}

static void what_is_due_is_known_before_and_asking_changes_nothing(void **state)
{
    const struct jobspec spec = {.evaluate_every_epochs = 1, .checkpoint_every_seconds = 30};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, SAMPLES, 0, 0, 0);
    for (int twice = 0; twice < 2; twice++) {
        assert_false(agenda_is_due(&a, SAMPLES - 1, 1, 29));
        assert_true(agenda_is_due(&a, SAMPLES, 2, 29));
        assert_true(agenda_is_due(&a, SAMPLES - 1, 1, 30));
    }
    assert_true(agenda_evaluate(&a, SAMPLES, 2));
    assert_true(agenda_checkpoint(&a, 2, 31));
    assert_false(agenda_is_due(&a, SAMPLES + 1, 3, 60));
}

static void the_closest_boundaries_are_told_in_steps(void **state)
{
    struct jobspec spec = {.evaluate_every_epochs = 1};
    struct agenda a;
    (void)state;
    agenda_init(&a, &spec, 100, 0, 0, 0);
    assert_int_equal(agenda_shortest(&a, 30), 4);
    spec.evaluate_every_epochs = 0.5;
    assert_int_equal(agenda_shortest(&a, 30), 2);
    spec = (struct jobspec){.evaluate_every_steps = 3, .checkpoint_every_steps = 7};
    assert_int_equal(agenda_shortest(&a, 30), 3);
    spec = (struct jobspec){.checkpoint_every_steps = 1, .checkpoint_every_seconds = 0.1};
    assert_int_equal(agenda_shortest(&a, 30), 1);
    spec = (struct jobspec){.checkpoint_every_seconds = 0.1};
    agenda_init(&a, &spec, 0, 0, 0, 0);
    assert_true(agenda_shortest(&a, 0) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations_come_at_every_so_many_steps),
        cmocka_unit_test(evaluations_come_at_every_part_of_an_epoch),
        cmocka_unit_test(a_boundary_is_met_whatever_its_rounding),
        cmocka_unit_test(a_job_that_does_not_evaluate_on_the_way_never_does),
        cmocka_unit_test(a_restart_goes_on_and_repeats_nothing),
        cmocka_unit_test(checkpoints_come_so_many_steps_after_the_last),
        cmocka_unit_test(checkpoints_come_so_many_seconds_after_the_last),
        cmocka_unit_test(the_closest_boundaries_are_told_in_steps),
        cmocka_unit_test(what_is_due_is_known_before_and_asking_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
