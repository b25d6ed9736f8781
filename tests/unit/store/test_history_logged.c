/* Metrics that a program logged, in a history: what is kept, thinned and superseded. */
#include "tests/unit/store/history_fixture.h"

#include <math.h>

static void log_one(struct history *h, const char *name, int64_t step, double value)
{
    struct logged_point p = {
        .step = step, .epoch = (double)step / 100, .time = 0.01 * (double)step, .value = value};
    snprintf(p.name, sizeof p.name, "%s", name);
    OK(history_logged(h, &(struct logged){1, &p}, &err_));
}

static struct history *with_bleu(int64_t last)
{
    struct history *h = history_open(dir, 2, two, &err_);
    for (int64_t step = 10; h && step <= last; step += 10) {
        log_one(h, "bleu", step, (double)step / 8);
    }
    return h;
}

static json_t *answer_of(struct logged_ask ask)
{
    json_t *j = history_logged_read(dir, &ask, &err_);
    assert_non_null(j);
    return j;
}

static json_t *answer(int points)
{
    return answer_of((struct logged_ask){LOGGED_STEP, NAN, NAN, points});
}

static void newest_is(const struct history *h, const char *expected)
{
    json_t *newest = history_logged_newest(h);
    char *text = newest ? json_dumps(newest, 0) : strdup("none");
    assert_string_equal(text, expected);
    free(text);
    json_decref(newest);
}

static void what_was_logged_is_read_as_it_was(void **state)
{
    struct history *h = with_bleu(30);
    log_one(h, "bleu", 20, 2.5); /* told twice */
    log_one(h, "bleu", 30, 99);
    log_one(h, "bleu", 30, 3.75); /* the last one of a step */
    log_one(h, "eval/\xce\xba", 20, 0.5);
    log_one(h, "bleu", 40, NAN);
    newest_is(h, "{\"bleu\": null, \"eval/\xce\xba\": 0.5}");
    history_close(h);
    json_t *j = answer(0);
    assert_int_equal(json_array_size(at(j, "/metrics")), 2);
    assert_string_equal(json_string_value(at(j, "/metrics/1/name")), "eval/\xce\xba");
    assert_int_equal(number_at(j, "/metrics/0/total_points"), 4);
    assert_true(number_at(j, "/metrics/0/x/2") == 30 && number_at(j, "/metrics/0/mean/2") == 3.75);
    assert_true(number_at(j, "/metrics/0/epoch/2") == 0.3);
    assert_true(json_is_null(at(j, "/metrics/0/mean/3")));
    json_decref(j);
    h = history_open(dir, 2, two, &err_); /* goes on where it ended */
    newest_is(h, "{\"bleu\": null, \"eval/\xce\xba\": 0.5}");
    log_one(h, "bleu", 35, 7);
    log_one(h, "eval/\xce\xba", 35, 0.75);
    newest_is(h, "{\"bleu\": null, \"eval/\xce\xba\": 0.75}");
    history_close(h);
}

static void few_points_keep_least_greatest_and_mean(void **state)
{
    history_close(with_bleu(80));
    json_t *j = answer(2);
    assert_int_equal(number_at(j, "/metrics/0/total_points"), 8);
    assert_int_equal(json_array_size(at(j, "/metrics/0/x")), 2);
    assert_true(number_at(j, "/metrics/0/x/0") == 40 && number_at(j, "/metrics/0/x/1") == 80);
    assert_true(number_at(j, "/metrics/0/min/0") == 1.25 && number_at(j, "/metrics/0/max/0") == 5);
    assert_true(number_at(j, "/metrics/0/mean/0") == 3.125);
    json_decref(j);
}

static void a_range_is_read_by_step_epoch_or_time(void **state)
{
    static const struct logged_ask asks[] = {
        {LOGGED_STEP, 30, 50, 0}, {LOGGED_EPOCH, 0.295, 0.505, 0}, {LOGGED_TIME, 0.295, 0.505, 0}};
    struct history *h = with_bleu(80);
    log_one(h, "once", 10, 1);
    history_close(h);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        json_t *j = answer_of(asks[i]);
        assert_int_equal(number_at(j, "/metrics/0/total_points"), 3);
        assert_true(number_at(j, "/metrics/0/x/0") == 30 && number_at(j, "/metrics/0/x/2") == 50);
        assert_int_equal(number_at(j, "/metrics/1/total_points"),
                         0); /* it is listed all the same */
        json_decref(j);
    }
    json_t *j = answer_of((struct logged_ask){LOGGED_STEP, 61, NAN, 0});
    assert_int_equal(number_at(j, "/metrics/0/total_points"), 2);
    json_decref(j);
}

static void points_past_the_checkpoint_do_not_count(void **state)
{
    struct history *h = with_bleu(100);
    log_one(h, "late", 90, 1);
    OK(history_supersede(h, 45, &err_));
    newest_is(h, "{\"bleu\": 5.0}");
    log_one(h, "bleu", 50, 7);
    newest_is(h, "{\"bleu\": 7.0}");
    history_close(h);
    json_t *j = answer(0);
    assert_int_equal(json_array_size(at(j, "/metrics")), 1);
    assert_int_equal(number_at(j, "/metrics/0/total_points"), 5);
    assert_true(number_at(j, "/metrics/0/x/4") == 50 && number_at(j, "/metrics/0/mean/4") == 7);
    json_decref(j);
}

static void names_beyond_the_most_are_left_out(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    for (int i = 0; i < LOGGED_NAMES + 2; i++) {
        char name[LOGGED_NAME];
        snprintf(name, sizeof name, "m%d", i);
        log_one(h, name, 10, i);
    }
    log_one(h, "m1", 20, 5);
    history_close(h);
    json_t *j = answer(0);
    assert_int_equal(json_array_size(at(j, "/metrics")), LOGGED_NAMES);
    assert_int_equal(number_at(j, "/metrics/1/total_points"), 2);
    json_decref(j);
}

static void a_long_run_keeps_as_many_as_its_logarithm(void **state)
{
    enum { EACH_KEPT = 4096, STEPS = 40960 };
    struct history *h = history_open(dir, 2, two, &err_);
    for (int64_t step = 1; step <= STEPS; step++) {
        log_one(h, "often", step, (double)step);
        if (step % 100 == 0) {
            log_one(h, "rare", step, (double)step);
        }
    }
    newest_is(h, "{\"often\": 40960.0, \"rare\": 40900.0}");
    history_close(h);
    json_t *j = answer(20000);
    int kept = number_at(j, "/metrics/0/total_points");
    assert_in_range(kept, 2 * EACH_KEPT, 4 * EACH_KEPT);
    assert_int_equal(number_at(j, "/metrics/1/total_points"), STEPS / 100);
    json_decref(j);
}

static void a_run_that_logged_nothing_has_no_metrics(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    newest_is(h, "none");
    history_close(h);
    json_t *j = answer(0);
    assert_int_equal(json_array_size(at(j, "/metrics")), 0);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(what_was_logged_is_read_as_it_was),
        EACH(few_points_keep_least_greatest_and_mean),
        EACH(a_range_is_read_by_step_epoch_or_time),
        EACH(points_past_the_checkpoint_do_not_count),
        EACH(names_beyond_the_most_are_left_out),
        EACH(a_long_run_keeps_as_many_as_its_logarithm),
        EACH(a_run_that_logged_nothing_has_no_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
