/* A track of rows and its levels (store/history/pyramid.c): the levels are a pure function of the
 * rows, however often and wherever the writer was closed and opened, and whichever level was lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/proc.h"
#include "common/rng.h"
#include "store/history/pyramid.h"

enum { ROWS = 64 * 64 * 2 + 64 * 3 + 5, BYTES = 8 << 20 };
static const char *const files[] = {"bin", "v1", "v2", "v3"};
static char dir[64], straight[100], broken[100];
static struct err e;

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(straight, sizeof straight, "%s/straight", dir);
    snprintf(broken, sizeof broken, "%s/broken", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return proc_remove_tree(dir, NULL);
}

/* A row with a drawn loss; extremes are at the ends of each level's buckets. */
static struct row a_row(int64_t i)
{
    struct row row = {.step = i + 1,
                      .local_step = i + 1,
                      .time = 0.01 * (double)i,
                      .loss = (float)rng_double(3, 1, (uint64_t)i),
                      .batch = 16,
                      .attempt = 1};
    return row;
}

/* Writes rows `from` to below `to`, with a writer that is opened for them. */
static void write_rows(const char *base, int64_t from, int64_t to)
{
    struct pyramid_writer *w = malloc(sizeof *w);
    assert_int_equal(pyramid_writer_open(w, base, ROW_BYTES, &e), 0);
    assert_int_equal(w->rows, from);
    for (int64_t i = from; i < to; i++) {
        struct row row = a_row(i);
        assert_int_equal(pyramid_writer_add(w, &row, &e), 0);
    }
    assert_int_equal(pyramid_writer_flush(w, false, &e), 0);
    free(w);
}

static char *content(const char *base, const char *ending, size_t *n)
{
    char path[120];
    *n = 0;
    snprintf(path, sizeof path, "%s.%s", base, ending);
    return proc_read_file(path, BYTES, n, NULL);
}

static void assert_same_files(void)
{
    for (int i = 0; i < 4; i++) {
        size_t n, m;
        char *a = content(straight, files[i], &n), *b = content(broken, files[i], &m);
        assert_int_equal(n, m);
        for (size_t k = 0; k < n; k++) {
            if (a[k] != b[k]) {
                fail_msg("%s: byte %zu of %zu differs", files[i], k, n);
            }
        }
        free(a);
        free(b);
    }
}

static void remove_track(const char *base)
{
    char path[120];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s.%s", base, files[i]);
        unlink(path);
    }
}

static void a_writer_that_is_opened_again_makes_the_same_files(void **state)
{
    static const int64_t stops[] = {1, 63, 64, 65, 127, 128, 4095, 4096, 4097, 8191, 8192, 8193};
    (void)state;
    write_rows(straight, 0, ROWS);
    int64_t from = 0;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        write_rows(broken, from, stops[i]);
        from = stops[i];
    }
    write_rows(broken, from, ROWS);
    assert_same_files();
    for (uint64_t trial = 0; trial < 20; trial++) {
        remove_track(broken);
        from = 0;
        for (uint64_t k = 0; from < ROWS; k++) {
            int64_t to = from + 1 + (int64_t)(700 * rng_double(5, trial, k));
            to = to < ROWS ? to : ROWS;
            write_rows(broken, from, to);
            from = to;
        }
        assert_same_files();
    }
}

/* The levels follow from the rows: any of them may be cut anywhere. */
static void levels_that_are_behind_their_rows_are_caught_up(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 40; trial++) {
        int64_t to = 1 + (int64_t)(ROWS * rng_double(6, trial, 0));
        remove_track(straight);
        remove_track(broken);
        write_rows(straight, 0, ROWS);
        write_rows(broken, 0, to);
        for (int i = 1; i < 4; i++) {
            char path[120];
            size_t n;
            free(content(broken, files[i], &n));
            snprintf(path, sizeof path, "%s.%s", broken, files[i]);
            if (n > 0) {
                assert_int_equal(
                    truncate(path, (off_t)((double)n * rng_double(6, trial, (uint64_t)i))), 0);
            }
        }
        write_rows(broken, to, ROWS);
        assert_same_files();
    }
}

static void a_range_is_the_sum_of_its_rows(void **state)
{
    struct pyramid_reader *r = malloc(sizeof *r);
    (void)state;
    remove_track(straight);
    write_rows(straight, 0, ROWS);
    pyramid_reader_open(r, straight, ROW_BYTES);
    assert_int_equal(r->count[0], ROWS);
    for (uint64_t trial = 0; trial < 300; trial++) {
        struct pyramid_bucket got, want;
        int64_t a = (int64_t)(ROWS * rng_double(8, trial, 0)),
                b = a + (int64_t)((double)(ROWS - a) * rng_double(8, trial, 1));
        pyramid_empty(&got);
        pyramid_empty(&want);
        pyramid_range(r, a, b, &got);
        for (int64_t i = a; i < b; i++) {
            struct row row = a_row(i);
            pyramid_add(&want, &row);
        }
        assert_int_equal(got.rows, b - a);
        assert_int_equal(got.step_min, want.step_min);
        assert_int_equal(got.step_max, want.step_max);
        assert_true(got.min[ROW_VALUE_loss] == want.min[ROW_VALUE_loss] &&
                    got.max[ROW_VALUE_loss] == want.max[ROW_VALUE_loss]);
        assert_float_equal(got.sum[ROW_VALUE_loss], want.sum[ROW_VALUE_loss], 1e-6);
        assert_float_equal(got.samples, want.samples, 1e-6);
    }
    assert_false(r->failed);
    pyramid_reader_close(r);
    free(r);
}

/* A file was cut while it was read: the caller hears of it, and gets zeros. */
static void a_read_that_fails_is_told(void **state)
{
    struct pyramid_reader *r = malloc(sizeof *r);
    char path[120];
    (void)state;
    remove_track(straight);
    write_rows(straight, 0, ROWS);
    pyramid_reader_open(r, straight, ROW_BYTES);
    snprintf(path, sizeof path, "%s.bin", straight);
    assert_int_equal(truncate(path, 100 * (off_t)ROW_BYTES), 0);
    assert_int_equal(pyramid_row(r, 99)->step, 100);
    assert_int_equal(pyramid_row(r, 5000)->step, 0);
    assert_true(r->failed);
    pyramid_reader_close(r);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_writer_that_is_opened_again_makes_the_same_files),
        cmocka_unit_test(levels_that_are_behind_their_rows_are_caught_up),
        cmocka_unit_test(a_range_is_the_sum_of_its_rows),
        cmocka_unit_test(a_read_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
