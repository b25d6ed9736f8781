/* A row: what one worker reports of one step. The columns are those of job/row.def; this header
 * makes the struct of them, and what every reader and writer of rows needs: packed bytes, values to
 * summarize, JSON, and the merging of ranks' rows into steps of the job.
 *
 *   strategy ─► struct row ─► packed in Redis ─► packed on disk, with a pyramid ─► series, steps
 *                                  └─► events of a running job
 *
 * Packed, columns stand at fixed bytes, little-endian. A row of an older version is shorter:
 * missing columns are as in row_blank(). A row of a newer version is longer: unknown columns are
 * ignored. Little-endian hosts only.
 */
#ifndef JOB_ROW_H
#define JOB_ROW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROW_C_INT64 int64_t
#define ROW_C_UINT64 uint64_t
#define ROW_C_INT32 int32_t
#define ROW_C_INT16 int16_t
#define ROW_C_DOUBLE double
#define ROW_C_FLOAT float
#define ROW_C_FLOAT_OR_NULL float

struct row {
#define COLUMN(name, type, byte, shown, merged, series, unit, help) ROW_C_##type name;
#include "job/row.def"
};

union row_extent { /* as long as a packed row */
#define COLUMN(name, type, byte, shown, merged, series, unit, help) \
    char name[(byte) + sizeof(ROW_C_##type)];
#include "job/row.def"
};

enum {
    ROW_BYTES = sizeof(union row_extent), /* bytes of a packed row in this version */
    ROW_BYTES_FIRST = 80,                 /* bytes in the first version, the shortest */
    ROW_BYTES_MOST = 4096
};

enum row_index { /* ROW_step, ROW_loss, …: columns, in the order of row.def */
#define COLUMN(name, type, byte, shown, merged, series, unit, help) ROW_##name,
#include "job/row.def"
                 ROW_COLUMNS
};

/* Columns with a series, which pyramids summarize. ROW_VALUE_loss, … */
#define ROW_VALUE_OF_NONE(name)
#define ROW_VALUE_OF_NODE(name) ROW_VALUE_##name,
#define ROW_VALUE_OF_JOB(name) ROW_VALUE_##name,
enum row_value {
#define COLUMN(name, type, byte, shown, merged, series, unit, help) ROW_VALUE_OF_##series(name)
#include "job/row.def"
    ROW_VALUES
};

enum row_type {
    ROW_INT64,
    ROW_UINT64,
    ROW_INT32,
    ROW_INT16,
    ROW_DOUBLE,
    ROW_FLOAT,
    ROW_FLOAT_OR_NULL
};
enum row_shown { ROW_NOWHERE, ROW_STEPS, ROW_EVENTS };
enum row_merged { ROW_SAME, ROW_COUNT, ROW_SUM, ROW_LARGEST, ROW_MEAN, ROW_NEVER };
enum row_series { ROW_NONE, ROW_NODE, ROW_JOB };

struct row_column {
    const char *name, *unit, *help;
    const char *series_name; /* "train_loss", "batch", …; NULL: there is no series */
    enum row_type type;
    int byte, end; /* in the packed row */
    enum row_shown shown;
    enum row_merged merged;
    enum row_series series;
    int value; /* enum row_value; -1: there is no series */
};
extern const struct row_column row_columns[ROW_COLUMNS];
struct row_chart { /* a chart of a column on the page, with a line for each node */
    const char *series, *title, *subtitle;
};
extern const struct row_chart row_charts[];    /* the last one's series is NULL */
bool row_is_whole(const struct row_column *c); /* a whole number */
/* An empty row: NAN where a column may be null, else 0. */
struct row row_blank(void);

/* ---- packed ---------------------------------------------------------------------------------- */

/* `bytes`: the length of the packed row, from ROW_BYTES_FIRST to ROW_BYTES_MOST. */
void row_pack(const struct row *row, int bytes, void *out);
void row_unpack(const void *packed, int bytes, struct row *out);
/* How many values rows of this length have: the first ones of enum row_value. */
int row_values_in(int bytes);

/* ---- numbers --------------------------------------------------------------------------------- */

void row_values(const struct row *row, float out[ROW_VALUES]);
/* The node's own time for its minibatch: loading its data and computing. Minibatches are made from
 * it. */
double row_own_seconds(const struct row *row);
double row_step_seconds(const struct row *row); /* the whole step, including the exchange */
/* Is this value weighted by samples when it is averaged, like a loss? */
bool row_value_by_samples(int value);
/* All columns as numbers, and a row of them; whole numbers beyond a column's range become its
 * largest. */
void row_to_numbers(const struct row *row, double out[ROW_COLUMNS]);
void row_from_numbers(const double numbers[ROW_COLUMNS], struct row *out);
/* Seven digits, as a float has them: 0.1f becomes 0.1. */
double row_rounded(double v);

/* ---- text ------------------------------------------------------------------------------------ */

/* The columns that are shown at `where` (ROW_STEPS or ROW_EVENTS), by name; a new reference. */
json_t *row_json(const struct row *row, enum row_shown where);
/* Reads what row_json() wrote; columns that it left out are as in row_blank(). */
struct row row_read(const json_t *j);
/* All columns, in order, with commas between them and nothing around them. */
enum { ROW_CSV_BYTES = 32 * ROW_COLUMNS };
void row_csv(const struct row *row, char out[ROW_CSV_BYTES]);

#endif
