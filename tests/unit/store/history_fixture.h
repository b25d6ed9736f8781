/* Shared by tests of a history: a new folder for each, rows, and series as JSON. */
#ifndef TESTS_UNIT_STORE_HISTORY_FIXTURE_H
#define TESTS_UNIT_STORE_HISTORY_FIXTURE_H

#include "tests/unit/store/fixture.h"

#include "store/history.h"

static char dir[64];
static const char *const two[] = {"fast", "slow"}, *const one[] = {"only"};

static int fresh(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/evenstep-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int gone(void **state)
{
    return proc_remove_tree(dir, NULL);
}

static inline struct row a_row(int rank, int64_t step)
{
    struct row row = {.step = step,
                      .local_step = step,
                      .time = 0.01 * (double)step,
                      .epoch = (double)step / 100,
                      .loss = 1.0f,
                      .accuracy = 0.5f,
                      .compute_seconds = 0.01f,
                      .exchange_seconds = 0.002f,
                      .wait_seconds = 0.001f,
                      .batch = rank ? 8 : 24,
                      .staleness = rank,
                      .rank = (int16_t)rank,
                      .attempt = 1};
    return row;
}

static inline json_t *series(const char *names, const char *x, double from, double to, int points)
{
    json_t *j = history_series(dir, &(struct series_ask){names, x, from, to, points, 0}, &err_);
    if (!j) {
        fail_msg("%s", err_.message);
    }
    return j;
}

static inline void refused(const char *names, const char *x)
{
    assert_null(history_series(dir, &(struct series_ask){names, x, NAN, NAN, 10, 0}, &err_));
}

static inline double largest(json_t *list)
{
    double most = -INFINITY;
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        most = fmax(most, json_number_value(v));
    }
    return most;
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, fresh, gone)

#endif
