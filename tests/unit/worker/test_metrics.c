/* A program's log becomes an evaluation of its rank (worker/program/step/metrics.c). */
#include "tests/unit/worker/fixture.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>

#include "worker/program/step/metrics.h"

/* Takes a log with this text, as the program sends it. */
static void take(struct metrics *m, const char *text)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    metrics_take(m, fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it is closed */
}

static void an_evaluation_is_told_once_as_sums_over_its_samples(void **state)
{
    struct metrics m;
    struct dev_result sum = {0};
    metrics_init(&m);
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
    take(&m, "{\"test_accuracy\": 0.75, \"test_loss\": 0.5, \"other\": 3}");
    assert_int_equal(metrics_take_oldest(&m, &sum), METRICS_SAMPLES);
    assert_int_equal(sum.correct, 3 * METRICS_SAMPLES / 4);
    assert_true(sum.loss == 0.5 * METRICS_SAMPLES);
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
}

static void one_figure_is_enough(void **state)
{
    struct metrics m;
    struct dev_result sum = {.loss = 7, .correct = 7};
    metrics_init(&m);
    take(&m, "{\"test_accuracy\": 0.25}");
    assert_int_equal(metrics_take_oldest(&m, &sum), METRICS_SAMPLES);
    assert_true(sum.correct == METRICS_SAMPLES / 4 && isnan(sum.loss)); /* not told */
    take(&m, "{\"test_loss\": 2}");
    assert_int_equal(metrics_take_oldest(&m, &sum), METRICS_SAMPLES);
    assert_true(sum.correct < 0 && sum.loss == 2.0 * METRICS_SAMPLES);
}

/* The next evaluation has this accuracy and loss, in whole numbers. */
static void next_is(struct metrics *m, int accuracy, int loss)
{
    struct dev_result sum = {0};
    assert_int_equal(metrics_take_oldest(m, &sum), METRICS_SAMPLES);
    assert_int_equal(sum.correct, accuracy * METRICS_SAMPLES);
    assert_true(sum.loss == loss * (double)METRICS_SAMPLES);
}

static void each_evaluation_waits_until_it_is_taken(void **state)
{
    struct metrics m;
    struct dev_result sum;
    metrics_init(&m);
    take(&m, "{\"test_accuracy\": 1, \"test_loss\": 2}");
    take(&m, "{\"test_accuracy\": 3, \"test_loss\": 4}");
    take(&m, "{\"test_loss\": 6}"); /* two logs may make one evaluation */
    take(&m, "{\"test_accuracy\": 5}");
    next_is(&m, 1, 2);
    next_is(&m, 3, 4);
    take(&m, "{\"test_accuracy\": 7}");
    take(&m, "{\"test_loss\": 8}");
    next_is(&m, 5, 6);
    next_is(&m, 7, 8);
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
}

static void the_newest_may_be_all_that_is_asked_for(void **state)
{
    struct metrics m;
    struct dev_result sum = {0};
    metrics_init(&m);
    assert_int_equal(metrics_take_newest(&m, &sum), 0);
    take(&m, "{\"test_accuracy\": 0.5}");
    take(&m, "{\"test_accuracy\": 0.25}");
    assert_int_equal(metrics_take_newest(&m, &sum), METRICS_SAMPLES);
    assert_true(sum.correct == METRICS_SAMPLES / 4);
    assert_int_equal(metrics_take_newest(&m, &sum), 0);
}

static void of_very_many_the_oldest_are_dropped(void **state)
{
    struct metrics m;
    struct dev_result sum;
    char text[64];
    metrics_init(&m);
    for (int i = 0; i < METRICS_WAITING + 2; i++) {
        snprintf(text, sizeof text, "{\"test_accuracy\": %d, \"test_loss\": %d}", i, 2 * i);
        take(&m, text);
    }
    for (int i = 2; i < METRICS_WAITING + 2; i++) {
        next_is(&m, i, 2 * i);
    }
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
}

static void a_validation_set_is_as_good_as_a_test_set(void **state)
{
    struct metrics m;
    struct dev_result sum;
    metrics_init(&m);
    take(&m, "{\"val_acc\": 1, \"eval/loss\": 2, \"train_loss\": 9}");
    next_is(&m, 1, 2);
    take(&m, "{\"validation_accuracy\": 3}");
    take(&m, "{\"valid_loss\": 4}");
    next_is(&m, 3, 4);
    take(&m, "{\"val_loss\": 9, \"test_acc\": 5, \"test/loss\": 6, \"val_accuracy\": 9}");
    next_is(&m, 5, 6);
    take(&m, "{\"accuracy\": 1, \"loss\": 2, \"values_loss\": 3, \"val\": 4, \"val_losses\": 5}");
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
}

static void what_is_no_figure_measures_nothing(void **state)
{
    static const char *const logs[] = {"",
                                       "[1, 2]",
                                       "{\"test_loss\": \"low\"}",
                                       "{\"test_loss\": null}",
                                       "{\"test_loss\": 1",
                                       "{\"train_loss\": 1}"};
    struct metrics m;
    struct dev_result sum;
    metrics_init(&m);
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        take(&m, logs[i]);
        assert_int_equal(metrics_take_oldest(&m, &sum), 0);
    }
    metrics_take(&m, -1); /* it came without a descriptor */
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
}

static void a_figure_that_is_not_finite_hides_no_other(void **state)
{
    struct metrics m;
    struct dev_result sum = {0};
    metrics_init(&m);
    take(&m, "{\"test_loss\": \"nan\", \"gap\": \"-inf\", \"test_accuracy\": 0.5}");
    assert_int_equal(metrics_take_oldest(&m, &sum), METRICS_SAMPLES);
    assert_true(isnan(sum.loss) && sum.correct == METRICS_SAMPLES / 2);
    take(&m, "{\"test_loss\": \"inf\", \"test_accuracy\": \"nan\"}");
    assert_int_equal(metrics_take_oldest(&m, &sum), METRICS_SAMPLES);
    assert_true(isinf(sum.loss) && sum.correct < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_evaluation_is_told_once_as_sums_over_its_samples),
        cmocka_unit_test(one_figure_is_enough),
        cmocka_unit_test(each_evaluation_waits_until_it_is_taken),
        cmocka_unit_test(the_newest_may_be_all_that_is_asked_for),
        cmocka_unit_test(of_very_many_the_oldest_are_dropped),
        cmocka_unit_test(a_validation_set_is_as_good_as_a_test_set),
        cmocka_unit_test(what_is_no_figure_measures_nothing),
        cmocka_unit_test(a_figure_that_is_not_finite_hides_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
