/* Rows: see row.h. Everything that differs between columns is made from row.def here; no other file
 * lists the columns.
 */
#include "job/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_NAME_NONE(name) NULL
#define SERIES_NAME_NODE(name) #name
#define SERIES_NAME_JOB(name) "train_" #name
#define VALUE_NONE(name) (-1)
#define VALUE_NODE(name) ROW_VALUE_##name
#define VALUE_JOB(name) ROW_VALUE_##name

const struct row_column row_columns[ROW_COLUMNS] = {
#define COLUMN(name_, type_, byte_, shown_, merged_, series_, unit_, help_) \
    {.name = #name_,                                                        \
     .unit = unit_,                                                         \
     .help = help_,                                                         \
     .series_name = SERIES_NAME_##series_(name_),                           \
     .type = ROW_##type_,                                                   \
     .byte = byte_,                                                         \
     .end = (byte_) + (int)sizeof(ROW_C_##type_),                           \
     .shown = ROW_##shown_,                                                 \
     .merged = ROW_##merged_,                                               \
     .series = ROW_##series_,                                               \
     .value = VALUE_##series_(name_)},
#include "job/row.def"
};

const struct row_chart row_charts[] = {
#define CHART(name, title_, subtitle_) {.series = #name, .title = title_, .subtitle = subtitle_},
#include "job/row.def"
    {NULL, NULL, NULL}};

bool row_is_whole(const struct row_column *c)
{
    return c->type <= ROW_INT16;
}

#define BLANK_INT64 0
#define BLANK_UINT64 0
#define BLANK_INT32 0
#define BLANK_INT16 0
#define BLANK_DOUBLE 0
#define BLANK_FLOAT 0
#define BLANK_FLOAT_OR_NULL NAN

struct row row_blank(void)
{
    return (struct row){
#define COLUMN(name, type, byte, shown, merged, series, unit, help) .name = BLANK_##type,
#include "job/row.def"
    };
}

/* ---- packed ---------------------------------------------------------------------------------- */

void row_pack(const struct row *row, int bytes, void *out)
{
    char *p = out;
    memset(p, 0, (size_t)bytes);
#define COLUMN(name, type, byte, shown, merged, series, unit, help) \
    if ((byte) + (int)sizeof row->name <= bytes) {                  \
        memcpy(p + (byte), &row->name, sizeof row->name);           \
    }
#include "job/row.def"
}

void row_unpack(const void *packed, int bytes, struct row *out)
{
    const char *p = packed;
    *out = row_blank();
#define COLUMN(name, type, byte, shown, merged, series, unit, help) \
    if ((byte) + (int)sizeof out->name <= bytes) {                  \
        memcpy(&out->name, p + (byte), sizeof out->name);           \
    }
#include "job/row.def"
}

int row_values_in(int bytes)
{
    int n = 0;
    for (int c = 0; c < ROW_COLUMNS; c++) {
        n += row_columns[c].value >= 0 && row_columns[c].end <= bytes;
    }
    return n;
}

/* ---- numbers --------------------------------------------------------------------------------- */

#define TAKE_NONE(name)
#define TAKE_NODE(name) out[ROW_VALUE_##name] = (float)row->name;
#define TAKE_JOB(name) out[ROW_VALUE_##name] = (float)row->name;

void row_values(const struct row *row, float out[ROW_VALUES])
{
#define COLUMN(name, type, byte, shown, merged, series, unit, help) TAKE_##series(name)
#include "job/row.def"
}

double row_own_seconds(const struct row *row)
{
    return (double)row->compute_seconds + (isfinite(row->load_seconds) ? row->load_seconds : 0);
}

double row_step_seconds(const struct row *row)
{
    return row_own_seconds(row) + row->exchange_seconds + row->wait_seconds;
}

#define BY_SAMPLES_NONE(name, merged)
#define BY_SAMPLES_NODE(name, merged) [ROW_VALUE_##name] = (merged) == ROW_MEAN,
#define BY_SAMPLES_JOB(name, merged) [ROW_VALUE_##name] = (merged) == ROW_MEAN,

bool row_value_by_samples(int value)
{
    static const bool by_samples[ROW_VALUES] = {
#define COLUMN(name, type, byte, shown, merged, series, unit, help) \
    BY_SAMPLES_##series(name, ROW_##merged)
#include "job/row.def"
    };
    return by_samples[value];
}

void row_to_numbers(const struct row *row, double out[ROW_COLUMNS])
{
#define COLUMN(name, type, byte, shown, merged, series, unit, help) \
    out[ROW_##name] = (double)row->name;
#include "job/row.def"
}

/* A whole number in its range; NAN becomes 0. */
static double within(double v, double least, double most)
{
    return isnan(v) ? 0 : v < least ? least : v > most ? most : v;
}

static const double exact = 9007199254740992.0; /* 2^53: a double holds whole numbers up to it */

#define FROM_INT64(v) (int64_t) within(v, -exact, exact)
#define FROM_UINT64(v) (uint64_t) within(v, 0, exact)
#define FROM_INT32(v) (int32_t) within(v, INT32_MIN, INT32_MAX)
#define FROM_INT16(v) (int16_t) within(v, INT16_MIN, INT16_MAX)
#define FROM_DOUBLE(v) (v)
#define FROM_FLOAT(v) (float)(v)
#define FROM_FLOAT_OR_NULL(v) (float)(v)

void row_from_numbers(const double numbers[ROW_COLUMNS], struct row *out)
{
#define COLUMN(name, type, byte, shown, merged, series, unit, help) \
    out->name = FROM_##type(numbers[ROW_##name]);
#include "job/row.def"
}

double row_rounded(double v)
{
    if (v == 0 || !isfinite(v) || fabs(v) < 1e-30 || fabs(v) > 1e30) {
        return v;
    }
    int digits = 6 - (int)floor(log10(fabs(v)));
    double scale = pow(10, abs(digits));
    return digits >= 0 ? round(v * scale) / scale : round(v / scale) * scale;
}

/* ---- text ------------------------------------------------------------------------------------ */

static json_t *number_json(enum row_type type, double v)
{
    switch (type) {
    case ROW_DOUBLE:
        return json_real(isfinite(v) ? v : 0);
    case ROW_FLOAT:
        return json_real(isfinite(v) ? row_rounded(v) : 0);
    case ROW_FLOAT_OR_NULL:
        return isfinite(v) ? json_real(row_rounded(v)) : json_null();
    default:
        return json_integer((json_int_t)within(v, -exact, exact));
    }
}

json_t *row_json(const struct row *row, enum row_shown where)
{
    double numbers[ROW_COLUMNS];
    json_t *j = json_object();
    row_to_numbers(row, numbers);
    for (int c = 0; j && c < ROW_COLUMNS; c++) {
        if (row_columns[c].shown >= where) {
            json_object_set_new(j, row_columns[c].name,
                                number_json(row_columns[c].type, numbers[c]));
        }
    }
    return j;
}

struct row row_read(const json_t *j)
{
    double numbers[ROW_COLUMNS];
    struct row row = row_blank();
    row_to_numbers(&row, numbers);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const json_t *v = json_object_get(j, row_columns[c].name);
        numbers[c] = json_is_number(v) ? json_number_value(v) : numbers[c];
    }
    row_from_numbers(numbers, &row);
    return row;
}

void row_csv(const struct row *row, char out[ROW_CSV_BYTES])
{
    double numbers[ROW_COLUMNS];
    int n = 0; /* a number has at most 24 characters: 17 digits, sign, point and exponent */
    row_to_numbers(row, numbers);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const struct row_column *column = &row_columns[c];
        int digits = row_is_whole(column) ? 16 : column->type == ROW_DOUBLE ? 12 : 6;
        n += snprintf(out + n, (size_t)(ROW_CSV_BYTES - n), "%s%.*g", c ? "," : "", digits,
                      numbers[c]);
    }
}
