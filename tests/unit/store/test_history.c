/* Rows on disk: the series of a job of any length. See test_history_files.c. */
#include "tests/unit/store/history_fixture.h"

#include "common/rng.h"

static double least(json_t *list)
{
    double most = INFINITY;
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        most = fmin(most, json_number_value(v));
    }
    return most;
}

static void of_200000_rows_600_points_keep_every_extreme(void **state)
{
    enum { ROWS = 200000 };
    struct history *h = history_open(dir, 1, one, &err_);
    assert_non_null(h);
    double sum = 0;
    for (int i = 1; i <= ROWS; i++) {
        struct row row = a_row(0, i);
        row.loss = (float)rng_double(7, 1, (uint64_t)i);
        row.loss = i == 123457 ? 50.0f : i == 54321 ? -40.0f : row.loss;
        row.staleness = i == 99999 ? 77 : 3;
        row.compute_seconds = (float)(i % 100) * 0.001f;
        sum += row.compute_seconds;
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    double started = clock_now();
    json_t *j = series("train_loss,staleness,compute_seconds", "step", NAN, NAN, 600);
    print_message("             600 points of 3 series of 200,000 rows: %.1f ms\n",
                  1000 * (clock_now() - started));
    assert_string_equal(text_at(j, "/x"), "step");
    assert_string_equal(text_at(j, "/series/0/name"), "train_loss");
    assert_true(json_is_null(at(j, "/series/0/node")));
    assert_string_equal(text_at(j, "/series/1/node"), "only");
    for (int k = 0; k < 3; k++) {
        json_t *s = json_array_get(at(j, "/series"), (size_t)k);
        assert_int_equal(number_at(s, "/total_points"), ROWS);
        assert_int_equal(json_array_size(at(s, "/x")), 600);
        assert_int_equal(json_array_size(at(s, "/mean")), 600);
        assert_int_equal(number_at(s, "/x/0"), 1);
        assert_int_equal(number_at(s, "/x/1"), 335);
    }
    assert_float_equal(largest(at(j, "/series/0/max")), 50, 1e-6);
    assert_float_equal(least(at(j, "/series/0/min")), -40, 1e-6);
    assert_int_equal(largest(at(j, "/series/1/max")), 77);
    double mean = 0;
    for (size_t i = 0; i < 600; i++) {
        mean += json_number_value(json_array_get(at(j, "/series/2/mean"), i)) / 600;
    }
    assert_float_equal(mean, sum / ROWS, 1e-4);
    json_decref(j);
}

/* The answer is the same from the pyramid and from the rows. */
static void any_cut_of_a_series_equals_what_its_rows_say(void **state)
{
    enum { ROWS = 9000 };
    static float value[ROWS + 1];
    struct history *h = history_open(dir, 1, one, &err_);
    for (int i = 1; i <= ROWS; i++) {
        struct row row = a_row(0, i);
        value[i] = row.wait_seconds = (float)rng_double(3, 2, (uint64_t)i);
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    for (uint64_t trial = 0; trial < 60; trial++) {
        int64_t from = 1 + (int64_t)rng_below(5, trial, 0, ROWS - 1),
                to = from + (int64_t)rng_below(5, trial, 1, (uint64_t)(ROWS - from + 1));
        int points = 1 + (int)rng_below(5, trial, 2, 300);
        json_t *j = series("wait_seconds", "step", (double)from, (double)to, points),
               *s = at(j, "/series/0");
        int64_t n = to - from + 1, buckets = n < points ? n : points;
        assert_int_equal(number_at(s, "/total_points"), n);
        assert_int_equal(json_array_size(at(s, "/x")), buckets);
        for (int64_t b = 0; b < buckets; b++) {
            int64_t first = from + (b * n + buckets - 1) / buckets,
                    end = from + ((b + 1) * n + buckets - 1) / buckets;
            double min = INFINITY, max = -INFINITY, sum = 0;
            for (int64_t i = first; i < end; i++) {
                min = fmin(min, value[i]);
                max = fmax(max, value[i]);
                sum += value[i];
            }
            assert_int_equal(json_integer_value(json_array_get(at(s, "/x"), (size_t)b)), first);
            assert_float_equal(json_number_value(json_array_get(at(s, "/min"), (size_t)b)), min,
                               1e-6);
            assert_float_equal(json_number_value(json_array_get(at(s, "/max"), (size_t)b)), max,
                               1e-6);
            assert_float_equal(json_number_value(json_array_get(at(s, "/mean"), (size_t)b)),
                               sum / (double)(end - first), 1e-6);
        }
        json_decref(j);
    }
}

static void training_loss_is_the_mean_over_ranks_weighted_by_samples(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    for (int i = 1; i <= 10; i++) {
        struct row a = a_row(0, i), b = a_row(1, i);
        a.loss = 1;
        b.loss = 5;
        OK(history_append(h, &a, 1, &err_));
        if (i < 10) { /* the last step has one rank so far: it is shown all the same */
            OK(history_append(h, &b, 1, &err_));
        }
    }
    OK(history_flush(h, &err_));
    json_t *j = series("train_loss,batch", "samples", NAN, NAN, 100);
    assert_int_equal(number_at(j, "/series/0/total_points"), 10);
    for (size_t i = 0; i < 9; i++) {
        assert_float_equal(json_number_value(json_array_get(at(j, "/series/0/mean"), i)),
                           (24 * 1 + 8 * 5) / 32.0, 1e-6);
        assert_int_equal(json_integer_value(json_array_get(at(j, "/series/0/x"), i)), 32 * (i + 1));
    }
    assert_float_equal(number_at(j, "/series/0/mean/9"), 1, 1e-6);
    assert_int_equal(number_at(j, "/series/1/mean/0"), 24);
    assert_int_equal(number_at(j, "/series/2/mean/0"), 8);
    assert_string_equal(text_at(j, "/series/2/node"), "slow");
    json_decref(j);
    history_close(h);
}

static void updates_of_a_server_are_steps_of_their_own(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    for (int i = 1; i <= 400;
         i++) { /* rank 1 makes every fourth update; rows of a rank come in order, ranks do not */
        struct row row = a_row(i % 4 == 0, i);
        row.loss = (float)i;
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    json_t *j = series("train_loss,samples_per_second", "step", NAN, NAN, 1000);
    assert_int_equal(number_at(j, "/series/0/total_points"), 400);
    for (size_t i = 0; i < 400; i++) {
        assert_int_equal(json_number_value(json_array_get(at(j, "/series/0/mean"), i)), i + 1);
    }
    /* 20 samples each 10 ms on average */
    assert_float_equal(number_at(j, "/series/1/mean/3"), 2000, 1);
    assert_float_equal(largest(at(j, "/series/1/max")), 2000, 300);
    json_decref(j);
    history_close(h);
}

/* Of 13 steps, the first only starts the time. Two workers have windows of four steps, three of
 * six: two gradients of each. */
static void a_rate_is_over_two_gradients_of_every_asynchronous_worker(void **state)
{
    static const char *const nodes[] = {"a", "b", "c"};
    static const int workers[] = {2, 3}, windows[] = {3, 2};
    for (size_t n = 0; n < 2; n++) {
        struct history *h = history_open(dir, workers[n], nodes, &err_);
        for (int i = 1; i <= 13; i++) {
            struct row row = a_row(i % workers[n], i);
            row.batch = 10;
            OK(history_append(h, &row, 1, &err_));
        }
        OK(history_flush(h, &err_));
        json_t *j = series("samples_per_second", "step", NAN, NAN, 1000);
        assert_int_equal(number_at(j, "/series/0/total_points"), windows[n]);
        assert_int_equal(json_array_size(at(j, "/series/0/mean")), windows[n]);
        for (int i = 0; i < windows[n]; i++) { /* 10 samples each 10 ms */
            json_t *mean = json_array_get(at(j, "/series/0/mean"), (size_t)i);
            assert_float_equal(json_number_value(mean), 1000, 1e-6);
        }
        json_decref(j);
        history_close(h);
        OK(proc_remove_tree(dir, NULL));
        OK(proc_mkdirs(dir, 0755, NULL));
    }
}

static void a_loss_that_is_no_number_leaves_a_hole_and_no_damage(void **state)
{
    struct history *h = history_open(dir, 1, one, &err_);
    for (int i = 1; i <= 100; i++) {
        struct row row = a_row(0, i);
        row.loss = i > 50 ? NAN : i == 10 ? INFINITY : 2;
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    json_t *j = series("train_loss", "time", NAN, NAN, 2);
    assert_float_equal(number_at(j, "/series/0/mean/0"), 2, 1e-9);
    assert_true(json_is_null(at(j, "/series/0/mean/1")));
    assert_true(json_is_null(at(j, "/series/0/max/1")));
    json_decref(j);
}

static void all_names_every_series_once(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    struct row rows[2] = {a_row(0, 1), a_row(1, 1)};
    OK(history_append(h, rows, 2, &err_));
    history_close(h);
    json_t *j = series("batch,all,train_loss", "step", NAN, NAN, 10);
    size_t expected = 3; /* test_loss, test_accuracy, samples_per_second */
    for (int c = 0; c < ROW_COLUMNS; c++) {
        expected += row_columns[c].series == ROW_NODE ? 2 : row_columns[c].series == ROW_JOB;
    }
    assert_int_equal(json_array_size(at(j, "/series")), expected);
    assert_string_equal(text_at(j, "/series/0/name"), "batch");
    json_decref(j);
}

/* A chart of many nodes has few points of each; the job's own curve keeps all of its points. */
static void nodes_share_a_budget_of_points(void **state)
{
    static const char *const nodes[] = {"fast", "slow"};
    static const struct {
        int points, node_points;
        size_t job, node;
    } cases[] = {{1000, 0, 100, 100}, {1000, 40, 100, 20}, {1000, 400, 100, 100},
                 {10, 40, 10, 10},    {1000, 2, 100, 8},   {5, 2, 5, 5}};
    struct history *h = history_open(dir, 2, nodes, &err_);
    for (int64_t i = 1; i <= 100; i++) {
        struct row rows[] = {a_row(0, i), a_row(1, i)};
        OK(history_append(h, rows, 2, &err_));
    }
    OK(history_flush(h, &err_));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct series_ask ask = {"train_loss,batch",  "step", NAN, NAN, cases[c].points,
                                 cases[c].node_points};
        json_t *j = history_series(dir, &ask, &err_);
        assert_int_equal(json_array_size(at(j, "/series/0/x")), cases[c].job);
        assert_int_equal(json_array_size(at(j, "/series/1/x")), cases[c].node);
        assert_int_equal(json_array_size(at(j, "/series/2/mean")), cases[c].node);
        assert_int_equal(number_at(j, "/series/1/total_points"), 100);
        json_decref(j);
    }
    history_close(h);
}

static void what_is_no_series_or_axis_is_said_with_the_nearest(void **state)
{
    refused("train_los", "step");
    assert_int_equal(err_.code, ERR_INVALID);
    assert_non_null(strstr(err_.hint, "train_loss"));
    refused("batch,stalenes", "step");
    assert_non_null(strstr(err_.hint, "staleness"));
    refused("batch", "sample");
    assert_non_null(strstr(err_.hint, "samples"));
    refused("", "step");
    assert_int_equal(err_.code, ERR_INVALID);
    json_t *j = series("train_loss,test_loss,samples_per_second,batch", "time", NAN, NAN,
                       10); /* a job that has not begun */
    assert_int_equal(json_array_size(at(j, "/series")), 3);
    assert_int_equal(number_at(j, "/series/0/total_points"), 0);
    json_decref(j);
    j = history_last(dir, 5, &err_);
    assert_int_equal(json_array_size(j), 0);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(of_200000_rows_600_points_keep_every_extreme),
        EACH(any_cut_of_a_series_equals_what_its_rows_say),
        EACH(training_loss_is_the_mean_over_ranks_weighted_by_samples),
        EACH(updates_of_a_server_are_steps_of_their_own),
        EACH(a_rate_is_over_two_gradients_of_every_asynchronous_worker),
        EACH(a_loss_that_is_no_number_leaves_a_hole_and_no_damage),
        EACH(all_names_every_series_once),
        EACH(nodes_share_a_budget_of_points),
        EACH(what_is_no_series_or_axis_is_said_with_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
