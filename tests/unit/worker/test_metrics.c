/* A program's log becomes an evaluation of its rank, or metrics of the job
 * (worker/program/step/metrics.c). */
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

/* The next evaluation has this accuracy, in eighths, and this loss. */
static void next_is(struct metrics *m, int accuracy, int loss)
{
    struct dev_result sum = {0};
    assert_int_equal(metrics_take_oldest(m, &sum), METRICS_SAMPLES);
    assert_int_equal(sum.correct, accuracy * (METRICS_SAMPLES / 8));
    assert_true(sum.loss == loss * (double)METRICS_SAMPLES);
}

static void each_evaluation_waits_until_it_is_taken(void **state)
{
    struct metrics m;
    struct dev_result sum;
    metrics_init(&m);
    take(&m, "{\"test_accuracy\": 0.125, \"test_loss\": 2}");
    take(&m, "{\"test_accuracy\": 0.375, \"test_loss\": 4}");
    take(&m, "{\"test_loss\": 6}"); /* two logs may make one evaluation */
    take(&m, "{\"test_accuracy\": 0.625}");
    next_is(&m, 1, 2);
    next_is(&m, 3, 4);
    take(&m, "{\"test_accuracy\": 0.875}");
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
        snprintf(text, sizeof text, "{\"test_accuracy\": %g, \"test_loss\": %d}", i % 8 / 8.0, i);
        take(&m, text);
    }
    for (int i = 2; i < METRICS_WAITING + 2; i++) {
        next_is(&m, i % 8, i);
    }
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
}

static void a_validation_set_is_as_good_as_a_test_set(void **state)
{
    struct metrics m;
    struct dev_result sum;
    metrics_init(&m);
    take(&m, "{\"val_acc\": 0.125, \"eval/loss\": 2, \"train_loss\": 9}");
    next_is(&m, 1, 2);
    take(&m, "{\"validation_accuracy\": 0.375}");
    take(&m, "{\"valid_loss\": 4}");
    next_is(&m, 3, 4);
    take(&m, "{\"val_loss\": 9, \"test_acc\": 0.625, \"test/loss\": 6, \"val_accuracy\": 9}");
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

/* The metric at this place has this name and value; the lists of a call. */
static void is_metric(const struct logged_value *at, const char *name, double value)
{
    assert_string_equal(at->name, name);
    assert_true(at->value == value || (isnan(value) && isnan(at->value)));
}

static void what_is_no_evaluation_is_a_metric_of_the_job(void **state)
{
    const struct logged_value *all;
    struct metrics m;
    struct dev_result sum;
    metrics_init(&m);
    assert_int_equal(metrics_take_logged(&m, &all), 0);
    take(&m, "{\"bleu\": 30, \"test_loss\": 2, \"val_loss\": 3, \"gap\": \"nan\"}");
    take(&m, "{\"bleu\": 31, \"f1\": 0.5, \"text\": \"no number\"}");
    assert_int_equal(metrics_take_logged(&m, &all), 4);
    is_metric(&all[0], "bleu", 31); /* the newest of a step */
    is_metric(&all[1], "val_loss", 3);
    is_metric(&all[2], "gap", NAN);
    is_metric(&all[3], "f1", 0.5);
    assert_int_equal(metrics_take_logged(&m, &all), 0);
    assert_int_equal(metrics_take_oldest(&m, &sum), METRICS_SAMPLES);
}

static void a_percentage_is_no_accuracy(void **state)
{
    const struct logged_value *all;
    struct metrics m;
    struct dev_result sum;
    metrics_init(&m);
    take(&m, "{\"test_accuracy\": 87.5, \"test_loss\": 2}");
    assert_int_equal(metrics_take_logged(&m, &all), 1);
    is_metric(&all[0], "test_accuracy", 87.5);
    assert_int_equal(metrics_take_oldest(&m, &sum), METRICS_SAMPLES);
    assert_true(sum.loss == 2.0 * METRICS_SAMPLES && sum.correct < 0);
    take(&m, "{\"val_acc\": -0.5}");
    assert_int_equal(metrics_take_oldest(&m, &sum), 0);
}

static void names_that_do_not_fit_are_left_out(void **state)
{
    const struct logged_value *all;
    struct metrics m;
    char text[200];
    metrics_init(&m);
    snprintf(text, sizeof text, "{\"\": 1, \"%0*d\": 2, \"%0*d\": 3}", LOGGED_NAME, 0,
             LOGGED_NAME - 1, 0);
    take(&m, text);
    assert_int_equal(metrics_take_logged(&m, &all), 1);
    assert_true(all[0].value == 3);
    for (int i = 0; i < LOGGED_NAMES + 3; i++) {
        snprintf(text, sizeof text, "{\"m%d\": %d}", i, i);
        take(&m, text);
    }
    take(&m, "{\"m0\": 7}");
    assert_int_equal(metrics_take_logged(&m, &all), LOGGED_NAMES);
    is_metric(&all[0], "m0", 7);
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
        cmocka_unit_test(what_is_no_evaluation_is_a_metric_of_the_job),
        cmocka_unit_test(a_percentage_is_no_accuracy),
        cmocka_unit_test(names_that_do_not_fit_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
