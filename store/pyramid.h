/* One track of rows on disk and its summary: BASE.bin has the rows, BASE.v1 one bucket for every 64
 * rows, BASE.v2 one for every 64 of those, BASE.v3 again. Inside store/ only; history.h is what
 * others use.
 *
 *   rows  |0 … 63|64 … 127| …            sum over rows 50 … 9000 = 14 rows, the buckets in between from the widest
 *   .v1   |  0   |   1    | …            level that fits, and some rows at the end: a few hundred reads at most,
 *   .l2   |        0 … 63          | …   however long the job
 *
 * The levels are a pure function of the rows. Rows are written first, so a level never knows of a
 * row that is not there; a torn record at the end of a file (a crash while writing) is not counted
 * and is written over.
 */
#ifndef STORE_PYRAMID_H
#define STORE_PYRAMID_H

#include <stdbool.h>

#include "common/err.h"
#include "store/row.h"

enum { PYRAMID_FAN = 64, PYRAMID_LEVELS = 3, PYRAMID_PATH = 1024 };

enum pyramid_value {
    PYRAMID_LOSS,
    PYRAMID_ACCURACY,
    PYRAMID_BATCH,
    PYRAMID_COMPUTE,
    PYRAMID_EXCHANGE,
    PYRAMID_WAIT,
    PYRAMID_STALENESS,
    PYRAMID_STRATEGY, /* what the strategy tells of itself: row.extra[0] */
    PYRAMID_VALUES
};

struct pyramid_bucket { /* on disk as it is; little-endian hosts only */
    int64_t rows, step_min, step_max;
    double samples; /* sum of the minibatches */
    double sum[PYRAMID_VALUES],
        weight[PYRAMID_VALUES]; /* mean = sum/weight; loss and accuracy are weighted by samples */
    float min[PYRAMID_VALUES],
        max[PYRAMID_VALUES]; /* over finite values; min > max: there was none */
};
_Static_assert(sizeof(struct pyramid_bucket) == 224, "a bucket has 224 bytes");

void pyramid_empty(struct pyramid_bucket *b);
void pyramid_add(struct pyramid_bucket *b, const struct row *row);
void pyramid_merge(struct pyramid_bucket *b, const struct pyramid_bucket *other);

/* Writing. Rows are buffered up to the next multiple of 64. */
struct pyramid_writer {
    char base[PYRAMID_PATH];
    int64_t rows; /* with those in the buffer */
    int buffered;
    bool dirty; /* something was written since the last sync */
    struct row buffer[PYRAMID_FAN];
    int64_t have[PYRAMID_LEVELS];               /* buckets on disk */
    struct pyramid_bucket open[PYRAMID_LEVELS]; /* the next one of each level */
};
/* Goes on where the files end; levels that are behind their rows are caught up. */
int pyramid_writer_open(struct pyramid_writer *w, const char *base, struct err *e);
int pyramid_writer_add(struct pyramid_writer *w, const struct row *row, struct err *e);
/* Writes what is buffered; `sync`: to the disk. */
int pyramid_writer_flush(struct pyramid_writer *w, bool sync, struct err *e);

/* Reading; sees the rows that were there when it was opened. A track without file has no rows. */
struct pyramid_reader {
    int fd[1 + PYRAMID_LEVELS]; /* rows, l1, l2, l3; -1: none */
    int64_t count[1 + PYRAMID_LEVELS];
    int64_t chunk[1 + PYRAMID_LEVELS]; /* which 64 records are in the cache; -1: none */
    struct row rows[PYRAMID_FAN];
    struct pyramid_bucket buckets[PYRAMID_LEVELS][PYRAMID_FAN];
    bool failed; /* a read failed: the disk's fault, reported once by the caller */
};
void pyramid_reader_open(struct pyramid_reader *r, const char *base);
void pyramid_reader_close(struct pyramid_reader *r);
/* Borrowed until the next call. Never NULL for 0 <= i < count[0] (zeroes where the disk failed). */
const struct row *pyramid_row(struct pyramid_reader *r, int64_t i);
const struct pyramid_bucket *pyramid_level(struct pyramid_reader *r, int level,
                                           int64_t i); /* level 1 … */
/* Adds rows a … b-1 to the bucket. */
void pyramid_range(struct pyramid_reader *r, int64_t a, int64_t b, struct pyramid_bucket *out);

#endif
