/* Rows: the table is consistent, packed bytes fit every version, and no value of a row is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job/row.h"

/* A row with another number in each column. */
static struct row numbered(void)
{
    double numbers[ROW_COLUMNS];
    struct row row;
    for (int c = 0; c < ROW_COLUMNS; c++) {
        numbers[c] = row_is_whole(&row_columns[c]) ? 100 + c : 100.5 + c;
    }
    row_from_numbers(numbers, &row);
    return row;
}

static void assert_same(const struct row *a, const struct row *b)
{
    double x[ROW_COLUMNS], y[ROW_COLUMNS];
    row_to_numbers(a, x);
    row_to_numbers(b, y);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        if (!(x[c] == y[c] || (isnan(x[c]) && isnan(y[c])))) {
            fail_msg("'%s' is %g, not %g", row_columns[c].name, y[c], x[c]);
        }
    }
}

static void columns_have_bytes_and_names_of_their_own(void **state)
{
    int taken[ROW_BYTES] = {0};
    (void)state;
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const struct row_column *a = &row_columns[c];
        assert_true(a->byte >= 0 && a->end <= ROW_BYTES);
        for (int b = a->byte; b < a->end; b++) {
            if (taken[b]++) {
                fail_msg("byte %d of '%s' belongs to another column", b, a->name);
            }
        }
        for (int d = c + 1; d < ROW_COLUMNS; d++) {
            assert_string_not_equal(a->name, row_columns[d].name);
        }
    }
}

/* Otherwise an older row would gain a column, or a pyramid a value, that it does not have. */
static void columns_of_later_versions_come_last(void **state)
{
    int newest = ROW_BYTES_FIRST;
    (void)state;
    for (int c = 0; c < ROW_COLUMNS; c++) {
        int end = row_columns[c].end;
        assert_true(row_columns[c].byte >= ROW_BYTES_FIRST || end <= ROW_BYTES_FIRST);
        assert_true(end >= newest || newest == ROW_BYTES_FIRST);
        newest = end > newest ? end : newest;
    }
    assert_int_equal(newest, ROW_BYTES);
    assert_int_equal(row_values_in(ROW_BYTES), ROW_VALUES);
    assert_int_equal(row_values_in(ROW_BYTES_FIRST), 8);
}

/* The page finds its lines by the series of nodes. */
static void charts_are_of_columns_with_a_series_for_each_node(void **state)
{
    (void)state;
    for (const struct row_chart *chart = row_charts; chart->series; chart++) {
        const struct row_column *column = NULL;
        for (int c = 0; c < ROW_COLUMNS; c++) {
            column = strcmp(row_columns[c].name, chart->series) == 0 ? &row_columns[c] : column;
        }
        assert_non_null(column);
        assert_int_equal(column->series, ROW_NODE);
        assert_true(chart->title[0] && chart->subtitle[0]);
    }
}

/* An event has some of the columns only. */
static void a_row_is_read_from_what_is_shown_of_it(void **state)
{
    struct row row = numbered(), expected = row_blank(), back;
    double numbers[ROW_COLUMNS], shown[ROW_COLUMNS];
    (void)state;
    json_t *j = row_json(&row, ROW_EVENTS);
    row_to_numbers(&row, numbers);
    row_to_numbers(&expected, shown);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        shown[c] = row_columns[c].shown == ROW_EVENTS ? numbers[c] : shown[c];
    }
    row_from_numbers(shown, &expected);
    back = row_read(j);
    assert_same(&expected, &back);
    json_object_set_new(j, "loss", json_null());
    json_object_set_new(j, "batch", json_string("many"));
    back = row_read(j);
    assert_true(isnan(back.loss));
    assert_int_equal(back.batch, 0);
    json_decref(j);
    back = row_read(NULL);
    expected = row_blank();
    assert_same(&expected, &back);
}

static void a_row_comes_back_as_it_was_packed(void **state)
{
    char packed[ROW_BYTES];
    struct row row = numbered(), back;
    (void)state;
    row_pack(&row, ROW_BYTES, packed);
    row_unpack(packed, ROW_BYTES, &back);
    assert_same(&row, &back);
}

/* The first version's row, field by field, as it is on users' disks. */
static void the_bytes_of_the_first_version_stand(void **state)
{
    struct {
        int64_t step, local_step;
        uint64_t bytes;
        double time, epoch;
        float loss, accuracy, compute, exchange, wait, strategy_value, free;
        int32_t batch, staleness;
        int16_t rank, attempt;
    } first;
    struct row row = numbered();
    (void)state;
    _Static_assert(sizeof first == ROW_BYTES_FIRST, "without gaps");
    row_pack(&row, ROW_BYTES_FIRST, &first);
    assert_true(first.step == row.step && first.local_step == row.local_step);
    assert_true(first.bytes == row.bytes && first.time == row.time && first.epoch == row.epoch);
    assert_true(first.loss == row.loss && first.accuracy == row.accuracy);
    assert_true(first.compute == row.compute_seconds && first.exchange == row.exchange_seconds);
    assert_true(first.wait == row.wait_seconds && first.strategy_value == row.strategy_value);
    assert_true(first.free == 0 && first.batch == row.batch && first.staleness == row.staleness);
    assert_true(first.rank == row.rank && first.attempt == row.attempt);
}

static void rows_of_other_versions_are_read(void **state)
{
    char packed[ROW_BYTES + 12];
    struct row row = numbered(), back, blank = row_blank();
    double had[ROW_COLUMNS], none[ROW_COLUMNS];
    (void)state;
    row_pack(&row, ROW_BYTES + 12, packed); /* longer: of a newer version */
    memset(packed + ROW_BYTES, 0x7f, 12);
    row_unpack(packed, ROW_BYTES + 12, &back);
    assert_same(&row, &back);
    row_unpack(packed, 60, &back); /* of an older version: the other columns are empty */
    row_to_numbers(&back, had);
    row_to_numbers(&blank, none);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        bool there = row_columns[c].end <= 60;
        assert_true(there ? had[c] >= 100 : had[c] == none[c] || isnan(had[c]));
    }
    assert_true(isnan(back.strategy_value) && back.attempt == 0);
}

static void a_blank_row_says_nothing(void **state)
{
    struct row blank = row_blank();
    (void)state;
    json_t *j = row_json(&blank, ROW_STEPS);
    assert_true(json_is_null(json_object_get(j, "loss")));
    assert_true(json_is_null(json_object_get(j, "strategy_value")));
    assert_true(json_real_value(json_object_get(j, "wait_seconds")) == 0);
    json_decref(j);
}

static void json_has_what_is_shown_there_by_the_name_of_the_column(void **state)
{
    struct row row = numbered();
    (void)state;
    json_t *steps = row_json(&row, ROW_STEPS), *events = row_json(&row, ROW_EVENTS);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const struct row_column *column = &row_columns[c];
        json_t *said = json_object_get(steps, column->name);
        assert_int_equal(said != NULL, column->shown != ROW_NOWHERE);
        assert_int_equal(json_object_get(events, column->name) != NULL,
                         column->shown == ROW_EVENTS);
        assert_true(!said || json_is_integer(said) == row_is_whole(column));
    }
    assert_true(json_integer_value(json_object_get(steps, "bytes")) == (json_int_t)row.bytes);
    row.compute_seconds = 0.1f;
    json_t *rounded = row_json(&row, ROW_EVENTS);
    assert_true(json_real_value(json_object_get(rounded, "compute_seconds")) == 0.1);
    json_decref(rounded);
    json_decref(steps);
    json_decref(events);
}

static void csv_has_every_column_in_order_and_room_for_the_widest(void **state)
{
    double numbers[ROW_COLUMNS];
    char text[ROW_CSV_BYTES], *at = text;
    struct row row = numbered();
    (void)state;
    row_csv(&row, text);
    row_to_numbers(&row, numbers);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        assert_true(strtod(at, &at) == numbers[c]);
        assert_int_equal(*at, c + 1 < ROW_COLUMNS ? ',' : '\0');
        at++;
    }
    for (int c = 0; c < ROW_COLUMNS; c++) {
        numbers[c] = -1.2345678901234567e300;
    }
    row_from_numbers(numbers, &row);
    row_csv(&row, text);
    int commas = 0;
    for (at = text; *at; at++) {
        commas += *at == ',';
    }
    assert_int_equal(commas, ROW_COLUMNS - 1);
}

static void whole_numbers_beyond_a_column_become_its_largest(void **state)
{
    double numbers[ROW_COLUMNS] = {0};
    struct row row;
    (void)state;
    numbers[ROW_batch] = 1e12;
    numbers[ROW_rank] = -1e12;
    numbers[ROW_staleness] = NAN;
    row_from_numbers(numbers, &row);
    assert_int_equal(row.batch, INT32_MAX);
    assert_int_equal(row.rank, INT16_MIN);
    assert_int_equal(row.staleness, 0);
}

static void seven_digits_are_kept(void **state)
{
    (void)state;
    assert_true(row_rounded(0.1f) == 0.1 && row_rounded(-123456.7f) == -123456.7);
    assert_true(row_rounded(16777216) == 16777220 && row_rounded(0) == 0);
    assert_true(row_rounded(1e35) == 1e35 && isnan(row_rounded(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_have_bytes_and_names_of_their_own),
        cmocka_unit_test(columns_of_later_versions_come_last),
        cmocka_unit_test(charts_are_of_columns_with_a_series_for_each_node),
        cmocka_unit_test(a_row_is_read_from_what_is_shown_of_it),
        cmocka_unit_test(a_row_comes_back_as_it_was_packed),
        cmocka_unit_test(the_bytes_of_the_first_version_stand),
        cmocka_unit_test(rows_of_other_versions_are_read),
        cmocka_unit_test(a_blank_row_says_nothing),
        cmocka_unit_test(json_has_what_is_shown_there_by_the_name_of_the_column),
        cmocka_unit_test(csv_has_every_column_in_order_and_room_for_the_widest),
        cmocka_unit_test(whole_numbers_beyond_a_column_become_its_largest),
        cmocka_unit_test(seven_digits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
