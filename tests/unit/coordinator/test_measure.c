/* The monitor's arithmetic: means, speeds, deadlines, thinning (coordinator/monitor/measure.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/monitor/measure.h"

static struct row row_of(int rank, int64_t step, double time, float loss, int batch)
{
    return (struct row){.step = step,
                        .local_step = step,
                        .time = time,
                        .loss = loss,
                        .batch = batch,
                        .rank = (int16_t)rank,
                        .attempt = 1};
}

static void loss_is_weighted_by_samples_over_the_last_100_updates(void **state)
{
    (void)state;
    struct recent_rows r;
    assert_true(recent_init(&r, 2));
    assert_true(isnan(recent_loss(&r)));
    for (int step = 1; step <= 150; step++) {
        struct row a = row_of(0, step, step, step <= 50 ? 1000.0f : 1.0f, 30),
                   b = row_of(1, step, step, step <= 50 ? 1000.0f : 4.0f, 10);
        recent_add(&r, &a);
        recent_add(&r, &b);
    }
    assert_true(fabs(recent_loss(&r) - (30 * 1.0 + 10 * 4.0) / 40) < 1e-12);
    struct row empty = row_of(0, 151, 151, NAN, 0);
    recent_add(&r, &empty);
    assert_true(isfinite(recent_loss(&r)));
    recent_release(&r);
}

static void speed_does_not_count_what_was_computed_before_the_span(void **state)
{
    (void)state;
    struct recent_rows r;
    assert_true(recent_init(&r, 1));
    assert_true(recent_speed(&r, 5) == 0);
    for (int step = 0; step <= 100; step++) {
        struct row a = row_of(0, step, step * 0.1, 1, 20);
        recent_add(&r, &a);
        assert_true(step < 1 || fabs(recent_speed(&r, 5) - 200) < 1e-6);
    }
    recent_release(&r);
}

/* Four workers whose rows of a step end within milliseconds; not all rows of the last step have
 * arrived. */
static void a_step_that_is_longer_than_the_span_tells_the_speed_too(void **state)
{
    static const double steps[] = {0.5, 2.0, 5.4, 60};
    (void)state;
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        struct recent_rows r;
        assert_true(recent_init(&r, 4));
        for (int step = 1; step <= 12; step++) {
            for (int rank = 0; rank < (step < 12 ? 4 : 2); rank++) {
                struct row a = row_of(rank, step, step * steps[k] + rank * 0.002, 1, 64);
                recent_add(&r, &a);
            }
            double speed = recent_speed(&r, 5), wanted = 256 / steps[k];
            assert_true(step < 2 ? speed == 0 : fabs(speed - wanted) < 0.02 * wanted);
        }
        recent_release(&r);
    }
}

static void the_deadline_follows_the_median_and_its_deviation(void **state)
{
    (void)state;
    struct step_times t = {0};
    struct row row = row_of(0, 1, 0, 1, 10);
    row.compute_seconds = 1.0f;
    for (int i = 0; i < 4; i++) {
        step_times_add(&t, &row);
    }
    assert_true(step_deadline(&t, 60) == 60); /* unknown yet */
    step_times_add(&t, &row);
    assert_true(step_deadline(&t, 60) == 3);
    memset(&t, 0, sizeof t);
    for (int i = 0; i < MEASURE_STEPS; i++) {
        row.compute_seconds = 2.0f + (i % 2 ? 1.0f : -1.0f) * 0.5f;
        step_times_add(&t, &row);
    }
    assert_true(fabs(step_deadline(&t, 60) - (2.0 + 10 * 0.5)) < 1e-6);
    row.compute_seconds = 100.0f; /* one outlier moves a median little */
    step_times_add(&t, &row);
    assert_true(step_deadline(&t, 60) < 8);
}

static void waiting_is_no_computing(void **state)
{
    (void)state;
    struct step_times t = {0};
    struct row row = row_of(0, 1, 0, 1, 10);
    row.compute_seconds = 0.5f;
    row.wait_seconds = 2.0f;
    row.exchange_seconds = 0.25f;
    step_times_add(&t, &row);
    assert_true(t.compute == 0.5 && t.wait == 2.0 && t.exchange == 0.25);
    assert_true(fabs(t.per_second - 20) < 1e-6);
    row.exchange_seconds = 0.75f;
    step_times_add(&t, &row);
    assert_true(fabs(t.exchange_usual - 0.5) < 1e-6); /* the mean of the two */
}

static void means_are_of_steps_over_one_minibatch(void **state)
{
    (void)state;
    struct step_times t = {0};
    struct row large = row_of(0, 1, 0, 1, 16), small = row_of(0, 1, 0, 1, 4);
    large.compute_seconds = 0.036f;
    small.compute_seconds = 0.012f;
    for (int i = 0; i < 12; i++) {
        step_times_add(&t, &large);
    }
    step_times_add(&t, &small); /* an epoch's last slice */
    step_times_add(&t, &large);
    assert_true(t.compute > 0.03);
    step_times_add(&t, &small);
    step_times_add(&t, &small);
    assert_true(fabs(t.compute - 0.012) < 1e-6 && fabs(t.per_second - 4 / 0.012) < 1e-3);
}

static void points_are_thinned_evenly_however_many_come(void **state)
{
    (void)state;
    struct thinned t;
    for (int n = 1; n < 3000; n = n * 3 + 1) {
        thin_reset(&t, 10);
        for (int i = 0; i < n; i++) {
            struct row row = row_of(0, i, i, 1, 1);
            thin_add(&t, &row);
        }
        assert_int_equal(t.rows[0].step, 0);
        assert_true(t.count <= 10 && (n < 10 ? t.count == n : t.count >= 5));
        for (int i = 1; i < t.count; i++) {
            assert_int_equal(t.rows[i].step - t.rows[i - 1].step, t.stride);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_is_weighted_by_samples_over_the_last_100_updates),
        cmocka_unit_test(speed_does_not_count_what_was_computed_before_the_span),
        cmocka_unit_test(a_step_that_is_longer_than_the_span_tells_the_speed_too),
        cmocka_unit_test(the_deadline_follows_the_median_and_its_deviation),
        cmocka_unit_test(waiting_is_no_computing),
        cmocka_unit_test(means_are_of_steps_over_one_minibatch),
        cmocka_unit_test(points_are_thinned_evenly_however_many_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
