/* Metrics that wait for the store (worker/pulse/log_queue.c). */
#include "tests/unit/worker/fixture.h"

#include "worker/pulse/log_queue.h"

static void add(struct log_queue *q, const char *name, int64_t step, double value)
{
    struct logged_point p = {.step = step, .value = value};
    snprintf(p.name, sizeof p.name, "%s", name);
    log_queue_add(q, &p);
}

static void of_one_step_the_newest_value_stays(void **state)
{
    struct log_queue q = {.n = 0};
    (void)state;
    add(&q, "bleu", 1, 10);
    add(&q, "f1", 1, 20);
    add(&q, "bleu", 1, 30);
    add(&q, "bleu", 2, 40);
    assert_int_equal(q.n, 3);
    assert_true(q.points[0].value == 30 && q.points[1].value == 20 && q.points[2].value == 40);
}

static void rare_metrics_outlast_frequent_ones(void **state)
{
    static struct log_queue q;
    int rare = 0;
    (void)state;
    for (int step = 0; step < 1000; step++) {
        add(&q, "often", step, step);
        if (step % 50 == 0) {
            add(&q, "rare", step, step);
        }
    }
    assert_in_range(q.n, LOGGED_MOST / 2, LOGGED_MOST);
    for (int i = 0; i < q.n; i++) {
        rare += strcmp(q.points[i].name, "rare") == 0;
        assert_true(q.points[i].value == (double)q.points[i].step);
        assert_true(i == 0 || q.points[i - 1].step <= q.points[i].step);
    }
    assert_int_equal(rare, 20);
    assert_int_equal(q.points[q.n - 1].step, 999);
}

static void as_many_names_as_a_job_has_always_fit(void **state)
{
    static struct log_queue q;
    (void)state;
    for (int i = 0; i < 100 * LOGGED_NAMES; i++) {
        char name[LOGGED_NAME];
        snprintf(name, sizeof name, "m%d", i % LOGGED_NAMES);
        add(&q, name, i / LOGGED_NAMES, i);
        assert_in_range(q.n, 1, LOGGED_MOST);
    }
    for (int i = 0; i < LOGGED_NAMES; i++) {
        assert_int_equal(q.points[q.n - LOGGED_NAMES + i].step, 99);
    }
    assert_true(log_queue_is_urgent(&q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_step_the_newest_value_stays),
        cmocka_unit_test(rare_metrics_outlast_frequent_ones),
        cmocka_unit_test(as_many_names_as_a_job_has_always_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
