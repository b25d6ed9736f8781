/* One track of rows on disk and its summary: BASE.bin has the rows, BASE.v1 one bucket for every 64
 * rows, BASE.v2 one for every 64 of those, BASE.v3 again. Inside store/ only; history.h is what
 * others use.
 *
 *   rows  |0 … 63|64 … 127| …            sum over rows 50 … 9000: 14 rows, then the buckets of
 *   .v1   |  0   |   1    | …            the widest level that fits, then the rows at the end: a
 *   .v2   |        0 … 63          | …   few hundred reads at most, however long the job
 *
 * A track has rows of one length, `row_bytes` (job/row.h): that of the version which began it. Its
 * buckets have the values of such rows, and a writer goes on in the same format. Values that the
 * rows have not are empty in a bucket.
 *
 * The levels are a pure function of the rows. Rows are written first, so a level never knows of a
 * row that is not there; a torn record at the end of a file (a crash while writing) is not counted
 * and is written over.
 */
#ifndef STORE_HISTORY_PYRAMID_H
#define STORE_HISTORY_PYRAMID_H

#include <stdbool.h>

#include "common/err.h"
#include "job/row.h"

enum { PYRAMID_FAN = 64, PYRAMID_LEVELS = 3, PYRAMID_PATH = 1024 };

/* On disk the same fields, with as many values as the rows have. */
struct pyramid_bucket {
    int64_t rows, step_min, step_max;
    double samples;                             /* sum of the minibatches in samples */
    double sum[ROW_VALUES], weight[ROW_VALUES]; /* mean = sum/weight (row_value_by_samples) */
    float min[ROW_VALUES], max[ROW_VALUES];     /* over finite values; min > max: there was none */
};

void pyramid_empty(struct pyramid_bucket *b);
void pyramid_add(struct pyramid_bucket *b, const struct row *row);

/* Writing. Rows are buffered up to the next multiple of 64. */
struct pyramid_writer {
    char base[PYRAMID_PATH];
    int row_bytes;
    int64_t rows; /* including those in the buffer */
    int buffered;
    bool dirty; /* something was written since the last sync */
    struct row buffer[PYRAMID_FAN];
    int64_t have[PYRAMID_LEVELS];               /* buckets on disk */
    struct pyramid_bucket open[PYRAMID_LEVELS]; /* the next one of each level */
};
/* Goes on where the files end, and completes levels that are behind their rows. */
int pyramid_writer_open(struct pyramid_writer *w, const char *base, int row_bytes, struct err *e);
int pyramid_writer_add(struct pyramid_writer *w, const struct row *row, struct err *e);
/* Writes what is buffered; `sync`: to the disk. */
int pyramid_writer_flush(struct pyramid_writer *w, bool sync, struct err *e);

/* Reading; sees the rows that were there when it was opened. A track without file has no rows. */
struct pyramid_reader {
    int row_bytes;
    int fd[1 + PYRAMID_LEVELS]; /* rows, l1, l2, l3; -1: none */
    int64_t count[1 + PYRAMID_LEVELS];
    int64_t chunk[1 + PYRAMID_LEVELS]; /* which 64 records are in the cache; -1: none */
    struct row rows[PYRAMID_FAN];
    struct pyramid_bucket buckets[PYRAMID_LEVELS][PYRAMID_FAN];
    bool failed; /* a read failed: the disk has failed; the caller reports it once */
};
void pyramid_reader_open(struct pyramid_reader *r, const char *base, int row_bytes);
void pyramid_reader_close(struct pyramid_reader *r);
/* Borrowed until the next call. Never NULL for 0 <= i < count[0] (zeroes where the disk failed). */
const struct row *pyramid_row(struct pyramid_reader *r, int64_t i);
const struct pyramid_bucket *pyramid_level(struct pyramid_reader *r, int level,
                                           int64_t i); /* level 1 … */
/* Adds rows a … b-1 to the bucket. */
void pyramid_range(struct pyramid_reader *r, int64_t a, int64_t b, struct pyramid_bucket *out);

#endif
