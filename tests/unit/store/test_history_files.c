/* Rows on disk: the files of a history after torn writes, lost summaries and restarts, and files of
 * other versions. */
#include "tests/unit/store/history_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/rng.h"

enum { BUCKET_BYTES = 32 + 24 * ROW_VALUES };

static void a_torn_tail_is_not_read_and_is_written_over(void **state)
{
    char path[128];
    struct history *h = history_open(dir, 1, one, &err_);
    for (int i = 1; i <= 130; i++) {
        struct row row = a_row(0, i);
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    static const char *const files[] = {"rows-0.bin", "rows-0.v1", "steps.bin"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/history/%s", dir, files[i]);
        int fd = open(path, O_WRONLY | O_APPEND);
        assert_int_equal(write(fd, "torn away", 9), 9);
        close(fd);
    }
    json_t *j = series("staleness,train_loss", "step", NAN, NAN, 10);
    assert_int_equal(number_at(j, "/series/0/total_points"), 130);
    assert_int_equal(number_at(j, "/series/1/total_points"), 130);
    json_decref(j);
    h = history_open(dir, 1, one, &err_);
    assert_non_null(h);
    for (int i = 121; i <= 300; i++) { /* the last ten come twice */
        struct row row = a_row(0, i);
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    j = series("staleness,train_loss", "step", NAN, NAN, 1000);
    for (int k = 0; k < 2; k++) {
        json_t *s = json_array_get(at(j, "/series"), (size_t)k);
        assert_int_equal(number_at(s, "/total_points"), 300);
        for (size_t i = 0; i < 300; i++) {
            assert_int_equal(json_integer_value(json_array_get(at(s, "/x"), i)), i + 1);
        }
    }
    json_decref(j);
    struct stat st;
    snprintf(path, sizeof path, "%s/history/rows-0.bin", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 300 * ROW_BYTES);
}

static void rows_past_the_checkpoint_leave_every_series(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    for (int i = 1; i <= 500; i++) {
        struct row rows[2] = {a_row(0, i), a_row(1, i)};
        rows[0].staleness = i > 200 ? 1000 : 1;
        OK(history_append(h, rows, i == 500 ? 1 : 2, &err_)); /* rank 1 died in step 500 */
    }
    OK(history_evaluation(h, 150, 1.5, 1.5, 4800, 0.3, 0.9, &err_));
    OK(history_evaluation(h, 300, 3, 3, 9600, 0.2, 0.95, &err_));
    OK(history_supersede(h, 200, &err_));
    struct row late = a_row(1, 499); /* still on its way when the restart was told */
    late.local_step = 600;
    OK(history_append(h, &late, 1, &err_));
    for (int i = 201; i <= 260; i++) {
        struct row rows[2] = {a_row(0, i), a_row(1, i)};
        rows[0].attempt = rows[1].attempt = 2;
        OK(history_append(h, rows, 2, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    json_t *j = series("train_loss,staleness,test_accuracy", "step", NAN, NAN, 1000);
    for (int k = 0; k < 3; k++) {
        json_t *s = json_array_get(at(j, "/series"), (size_t)k);
        assert_int_equal(number_at(s, "/total_points"), 260);
        for (size_t i = 0; i < 260; i++) {
            assert_int_equal(json_integer_value(json_array_get(at(s, "/x"), i)), i + 1);
        }
    }
    assert_int_equal(largest(at(j, "/series/1/max")), 1);
    assert_int_equal(number_at(j, "/series/3/total_points"), 1);
    assert_float_equal(number_at(j, "/series/3/mean/0"), 0.9, 1e-9);
    json_decref(j);
    j = history_last(dir, 3, &err_);
    assert_int_equal(json_array_size(j), 2);
    assert_string_equal(text_at(j, "/1/node"), "slow");
    assert_int_equal(json_array_size(at(j, "/1/rows")), 3);
    assert_int_equal(number_at(j, "/1/rows/2/step"), 260);
    assert_int_equal(number_at(j, "/0/rows/0/batch"), 24);
    json_decref(j);
}

static void a_node_keeps_its_series_when_a_restart_gives_it_another_rank(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    for (int i = 1; i <= 100; i++) {
        struct row rows[2] = {a_row(0, i), a_row(1, i)};
        OK(history_append(h, rows, 2, &err_));
    }
    OK(history_supersede(h, 80, &err_));
    history_close(h);
    static const char *const left[] = {"slow"};
    h = history_open(dir, 1, left, &err_);
    for (int i = 81; i <= 90; i++) {
        struct row row = a_row(0, i);
        row.attempt = 2;
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    json_t *j = series("batch,train_loss", "step", NAN, NAN, 1000);
    assert_string_equal(text_at(j, "/series/0/node"), "fast");
    assert_int_equal(number_at(j, "/series/0/total_points"), 80);
    assert_string_equal(text_at(j, "/series/1/node"), "slow");
    assert_int_equal(number_at(j, "/series/1/total_points"), 90);
    assert_int_equal(number_at(j, "/series/1/mean/79"), 8);
    assert_int_equal(number_at(j, "/series/1/mean/80"), 24);
    assert_int_equal(number_at(j, "/series/2/total_points"), 90);
    json_decref(j);
}

static char *files_of(size_t *n)
{
    static const char *const names[] = {"meta.json",  "rows-0.bin",     "rows-0.v1", "rows-0.v2",
                                        "rows-1.bin", "rows-1.v1",      "steps.bin", "steps.v1",
                                        "steps.v2",   "evaluations.bin"};
    char *all = NULL, path[128];
    *n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = 0;
        snprintf(path, sizeof path, "%s/history/%s", dir, names[i]);
        char *text = proc_read_file(path, 1 << 26, &len, NULL);
        if (text) {
            all = realloc(all, *n + len);
            memcpy(all + *n, text, len);
            *n += len;
        }
        free(text);
    }
    return all;
}

/* Rows in the same order, in calls of any size, with or without stops in between. */
static void the_same_rows_give_the_same_bytes(void **state)
{
    char *bytes[2];
    size_t n[2];
    for (int way = 0; way < 2; way++) {
        struct history *h = history_open(dir, 2, two, &err_);
        struct row rows[64];
        int held = 0;
        for (int i = 1; i <= 5000; i++) {
            for (int rank = 0; rank < 2; rank++) {
                rows[held] = a_row(rank, i);
                rows[held++].loss = (float)rng_double(1, (uint64_t)rank, (uint64_t)i);
                if (held == (way ? 1 : 64) || (way && i % 700 == 0)) {
                    OK(history_append(h, rows, held, &err_));
                    held = 0;
                }
            }
            if (way && i % 901 == 0) {
                OK(history_append(h, rows, held, &err_));
                held = 0;
                history_close(h);
                h = history_open(dir, 2, two, &err_);
                assert_non_null(h);
            }
        }
        OK(history_append(h, rows, held, &err_));
        OK(history_evaluation(h, 5000, 1, 50, 160000, 0.1, 0.99, &err_));
        OK(history_flush(h, &err_));
        history_close(h);
        bytes[way] = files_of(&n[way]);
        OK(proc_remove_tree(dir, &err_));
        OK(proc_mkdirs(dir, 0700, &err_));
    }
    assert_int_equal(n[0], n[1]);
    assert_true(n[0] > 3 * 5000 * ROW_BYTES);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void lost_or_damaged_summaries_are_made_again(void **state)
{
    char path[128];
    struct history *h = history_open(dir, 1, one, &err_);
    for (int i = 1; i <= 5000; i++) {
        struct row row = a_row(0, i);
        row.staleness = i;
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    size_t n[2];
    char *before = files_of(&n[0]);
    snprintf(path, sizeof path, "%s/history/rows-0.v2", dir);
    OK(unlink(path));
    snprintf(path, sizeof path, "%s/history/rows-0.v1", dir);
    int fd = open(path, O_WRONLY);
    static const char zeroes[10 * BUCKET_BYTES];
    assert_int_equal(pwrite(fd, zeroes, sizeof zeroes, 3 * BUCKET_BYTES),
                     sizeof zeroes); /* as a power cut leaves it */
    close(fd);
    snprintf(path, sizeof path, "%s/history/steps.bin", dir);
    OK(truncate(path, ROW_BYTES * 40 + 7));
    json_t *j = series("train_loss", "step", NAN, NAN, 10);
    assert_int_equal(number_at(j, "/series/0/total_points"), 5000);
    json_decref(j);
    h = history_open(dir, 1, one, &err_);
    assert_non_null(h);
    struct row again = a_row(0, 5000); /* known already */
    OK(history_append(h, &again, 1, &err_));
    OK(history_flush(h, &err_));
    history_close(h);
    char *after = files_of(&n[1]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(before, after, n[0]);
    free(before);
    free(after);
}

/* If every step is of one worker, a restart with fewer workers must not forget rows of steps that
 * the others had not passed. */
static void a_restart_with_fewer_workers_keeps_the_steps_of_all(void **state)
{
    static const char *const left[] = {"a", "c"}, *const all[] = {"a", "b", "c"};
    struct history *h = history_open(dir, 3, all, &err_);
    for (int i = 1; i <= 300; i++) { /* b is killed after step 32 and had not told of 29 and 32 */
        int rank = i <= 32 ? i % 3 == 2 : 0;
        rank = rank ? 1 : i % 2 ? 0 : 2;
        struct row row = a_row(rank, i);
        if (rank != 1 || i < 29) {
            OK(history_append(h, &row, 1, &err_));
        }
    }
    history_close(h);
    h = history_open(dir, 2, left, &err_);
    OK(history_supersede(h, 280, &err_));
    assert_int_equal(history_missing(h), 2);
    for (int i = 281; i <= 400; i++) {
        struct row row = a_row(i % 2, i);
        row.attempt = 2;
        OK(history_append(h, &row, 1, &err_));
    }
    history_close(h);
    json_t *j = series("train_loss", "step", NAN, NAN, 1000);
    assert_int_equal(number_at(j, "/series/0/total_points"), 398);
    for (size_t i = 0, step = 1; i < 398; i++, step++) {
        step += step == 29 || step == 32;
        assert_int_equal(json_integer_value(json_array_get(at(j, "/series/0/x"), i)), step);
    }
    json_decref(j);
    h = history_open(dir, 3, all,
                     &err_); /* and one more, in which nobody died: the count is not added to */
    OK(history_supersede(h, 390, &err_));
    assert_int_equal(history_missing(h), 2);
    history_close(h);
}

static void a_damaged_meta_file_is_an_error_that_names_it(void **state)
{
    struct history *h = history_open(dir, 1, one, &err_);
    history_close(h);
    char path[128];
    snprintf(path, sizeof path, "%s/history/meta.json", dir);
    static const char *const bad[] = {"{", "[]", "{\"layouts\":1,\"superseded\":{}}"};
    for (size_t i = 0; i < 3; i++) {
        OK(proc_write_file(path, bad[i], strlen(bad[i]), 0644, &err_));
        refused("batch", "step");
        assert_non_null(strstr(err_.message, "meta.json"));
        assert_null(history_open(dir, 1, one, &err_));
    }
}

static void rows_of_unknown_ranks_are_refused(void **state)
{
    struct history *h = history_open(dir, 2, two, &err_);
    struct row row = a_row(2, 1);
    assert_int_equal(history_append(h, &row, 1, &err_), -ERR_INVALID);
    history_close(h);
}

static int64_t size_of(const char *name)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/history/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return (int64_t)st.st_size;
}

static void write_meta(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/history", dir);
    OK(proc_mkdirs(path, 0755, &err_));
    snprintf(path, sizeof path, "%s/history/meta.json", dir);
    OK(proc_write_file(path, text, strlen(text), 0644, &err_));
}

/* While this version's rows equal those of the first version, this is a history like any other;
 * test_guides.py runs it in a tree whose rows are longer. */
static void a_history_of_the_first_version_is_gone_on_with_in_its_format(void **state)
{
    enum { ROWS = 64 * 64 + 10, FIRST_BUCKET = 224 };
    write_meta("{\"layouts\":[],\"superseded\":{}}");
    for (int half = 0; half < 2; half++) { /* begun, and gone on with */
        struct history *h = history_open(dir, 1, one, &err_);
        assert_non_null(h);
        for (int i = 1 + half * ROWS / 2; i <= (1 + half) * ROWS / 2; i++) {
            struct row row = a_row(0, i);
            row.wait_seconds = (float)i;
            OK(history_append(h, &row, 1, &err_));
        }
        history_close(h);
    }
    assert_int_equal(size_of("rows-0.bin"), ROWS * ROW_BYTES_FIRST);
    assert_int_equal(size_of("rows-0.v1"), 64 * FIRST_BUCKET);
    assert_int_equal(size_of("steps.v2"), 1 * FIRST_BUCKET);
    json_t *j = series("wait_seconds,batch,train_loss", "step", NAN, NAN, 7);
    assert_int_equal(largest(at(j, "/series/0/max")), ROWS);
    assert_int_equal(number_at(j, "/series/1/mean/6"), 24);
    assert_float_equal(number_at(j, "/series/2/mean/3"), 1, 1e-9);
    json_decref(j);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        if (row_columns[c].series_name && row_columns[c].end > ROW_BYTES_FIRST) {
            j = series(row_columns[c].series_name, "step", NAN, NAN, 7);
            assert_int_equal(number_at(j, "/series/0/total_points"), 0);
            json_decref(j);
        }
    }
}

static void a_new_history_says_its_format_once_it_is_not_the_first(void **state)
{
    struct history *h = history_open(dir, 1, one, &err_);
    struct row row = a_row(0, 1);
    OK(history_append(h, &row, 1, &err_));
    history_close(h);
    char path[128];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/history/meta.json", dir);
    char *text = proc_read_file(path, 1 << 20, &n, &err_);
    assert_int_equal(strstr(text, "row_bytes") != NULL, ROW_BYTES != ROW_BYTES_FIRST);
    assert_int_equal(size_of("rows-0.bin"), ROW_BYTES);
    free(text);
}

static void a_history_of_a_newer_version_is_refused_with_a_sentence(void **state)
{
    char meta[128];
    snprintf(meta, sizeof meta, "{\"layouts\":[],\"superseded\":{},\"row_bytes\":%d}",
             (int)ROW_BYTES + 4);
    write_meta(meta);
    assert_null(history_open(dir, 1, one, &err_));
    assert_int_equal(err_.code, ERR_DATA);
    assert_non_null(strstr(err_.message, "newer version of Evenstep"));
    refused("batch", "step");
    assert_null(history_last(dir, 10, &err_));
    assert_non_null(strstr(err_.message, "newer version of Evenstep"));
    static const char *const damaged[] = {"0", "79", "-5", "\"80\"", "1000000"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        snprintf(meta, sizeof meta, "{\"layouts\":[],\"superseded\":{},\"row_bytes\":%s}",
                 damaged[i]);
        write_meta(meta);
        assert_null(history_open(dir, 1, one, &err_));
        assert_non_null(strstr(err_.message, "meta.json"));
    }
}

static void an_evaluation_that_is_told_again_counts_once_after_a_restart_too(void **state)
{
    (void)state;
    for (int life = 0; life < 2; life++) {
        struct history *h = history_open(dir, 1, one, &err_);
        struct row row = a_row(0, 300);
        OK(history_append(h, &row, 1, &err_));
        OK(history_evaluation(h, 150, 1.5, 1.5, 4800, 0.3, 0.9, &err_));
        OK(history_evaluation(h, 300, 3, 3, 9600, 0.2, 0.95, &err_));
        history_close(h);
    }
    json_t *j = series("test_loss", "step", NAN, NAN, 100);
    assert_int_equal(number_at(j, "/series/0/total_points"), 2);
    json_decref(j);
}

static void a_rank_may_move_to_another_node_after_its_first_row(void **state)
{
    static const char *const nodes[] = {"first", "second"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct history *h = history_open(dir, 1, &nodes[i], &err_);
        struct row row = a_row(0, i + 1);
        OK(history_append(h, &row, 1, &err_));
        OK(history_flush(h, &err_));
        history_close(h);
    }
    json_t *j = series("staleness", "step", NAN, NAN, 10);
    for (int i = 0; i < 2; i++) {
        json_t *node = json_array_get(json_object_get(j, "series"), (size_t)i);
        assert_string_equal(json_string_value(json_object_get(node, "node")), nodes[i]);
        assert_int_equal(number_at(node, "/total_points"), 1);
    }
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_torn_tail_is_not_read_and_is_written_over),
        EACH(rows_past_the_checkpoint_leave_every_series),
        EACH(a_node_keeps_its_series_when_a_restart_gives_it_another_rank),
        EACH(a_restart_with_fewer_workers_keeps_the_steps_of_all),
        EACH(the_same_rows_give_the_same_bytes),
        EACH(lost_or_damaged_summaries_are_made_again),
        EACH(a_rank_may_move_to_another_node_after_its_first_row),
        EACH(a_damaged_meta_file_is_an_error_that_names_it),
        EACH(rows_of_unknown_ranks_are_refused),
        EACH(a_history_of_the_first_version_is_gone_on_with_in_its_format),
        EACH(a_new_history_says_its_format_once_it_is_not_the_first),
        EACH(a_history_of_a_newer_version_is_refused_with_a_sentence),
        EACH(an_evaluation_that_is_told_again_counts_once_after_a_restart_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
