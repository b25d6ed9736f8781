/* Tracks of rows with their summary: see pyramid.h for the picture.
 *
 * Everything is written at a computed offset, never appended, so a write that was cut short (a full
 * disk, a crash) is repeated at the same offset. Infinite or NaN values (a diverged loss) count in
 * no minimum, maximum or mean.
 */
#include "store/history/pyramid.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- buckets --------------------------------------------------------------------------------- */

void pyramid_empty(struct pyramid_bucket *b)
{
    memset(b, 0, sizeof *b);
    b->step_min = INT64_MAX;
    b->step_max = INT64_MIN;
    for (int v = 0; v < ROW_VALUES; v++) {
        b->min[v] = INFINITY;
        b->max[v] = -INFINITY;
    }
}

void pyramid_add(struct pyramid_bucket *b, const struct row *row)
{
    float value[ROW_VALUES];
    row_values(row, value);
    double samples = row->batch > 0 ? row->batch : 0;
    b->rows++;
    b->samples += samples;
    b->step_min = row->step < b->step_min ? row->step : b->step_min;
    b->step_max = row->step > b->step_max ? row->step : b->step_max;
    for (int v = 0; v < ROW_VALUES; v++) {
        if (!isfinite(value[v])) {
            continue;
        }
        double weight = row_value_by_samples(v) ? samples : 1;
        b->sum[v] += weight * value[v];
        b->weight[v] += weight;
        b->min[v] = value[v] < b->min[v] ? value[v] : b->min[v];
        b->max[v] = value[v] > b->max[v] ? value[v] : b->max[v];
    }
}

static void merge(struct pyramid_bucket *b, const struct pyramid_bucket *other)
{
    b->rows += other->rows;
    b->samples += other->samples;
    b->step_min = other->step_min < b->step_min ? other->step_min : b->step_min;
    b->step_max = other->step_max > b->step_max ? other->step_max : b->step_max;
    for (int v = 0; v < ROW_VALUES; v++) {
        b->sum[v] += other->sum[v];
        b->weight[v] += other->weight[v];
        b->min[v] = other->min[v] < b->min[v] ? other->min[v] : b->min[v];
        b->max[v] = other->max[v] > b->max[v] ? other->max[v] : b->max[v];
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A bucket on disk: rows, step_min, step_max, samples, then sum, weight, min and max of as many
 * values as the rows have; little-endian hosts only. */
enum { BUCKET_HEAD = 32, RAW_BYTES = PYRAMID_FAN * (ROW_BYTES + sizeof(struct pyramid_bucket)) };

static size_t record_bytes(int row_bytes, int level)
{
    size_t values = (size_t)row_values_in(row_bytes);
    return level ? BUCKET_HEAD + values * 2 * (sizeof(double) + sizeof(float)) : (size_t)row_bytes;
}

static char *put(char *at, const void *from, size_t bytes)
{
    memcpy(at, from, bytes);
    return at + bytes;
}

static const char *take(const char *at, void *to, size_t bytes)
{
    memcpy(to, at, bytes);
    return at + bytes;
}

static void bucket_pack(const struct pyramid_bucket *b, size_t values, char *at)
{
    at = put(at, &b->rows, sizeof b->rows);
    at = put(at, &b->step_min, sizeof b->step_min);
    at = put(at, &b->step_max, sizeof b->step_max);
    at = put(at, &b->samples, sizeof b->samples);
    at = put(at, b->sum, values * sizeof *b->sum);
    at = put(at, b->weight, values * sizeof *b->weight);
    at = put(at, b->min, values * sizeof *b->min);
    put(at, b->max, values * sizeof *b->max);
}

static void bucket_unpack(const char *at, size_t values, struct pyramid_bucket *b)
{
    pyramid_empty(b);
    at = take(at, &b->rows, sizeof b->rows);
    at = take(at, &b->step_min, sizeof b->step_min);
    at = take(at, &b->step_max, sizeof b->step_max);
    at = take(at, &b->samples, sizeof b->samples);
    at = take(at, b->sum, values * sizeof *b->sum);
    at = take(at, b->weight, values * sizeof *b->weight);
    at = take(at, b->min, values * sizeof *b->min);
    take(at, b->max, values * sizeof *b->max);
}

static void file_name(char *out, size_t n, const char *base, int level)
{
    if (level) {
        snprintf(out, n, "%s.v%d", base, level);
    } else {
        snprintf(out, n, "%s.bin", base);
    }
}

static int64_t whole_records(int fd, size_t bytes)
{
    struct stat st;
    return fd >= 0 && !fstat(fd, &st) ? (int64_t)st.st_size / (int64_t)bytes : 0;
}

static int write_at(const char *base, int level, off_t offset, const char *at, size_t left,
                    bool sync, struct err *e)
{
    char name[PYRAMID_PATH + 8];
    file_name(name, sizeof name, base, level);
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), rc = 0;
    if (fd < 0) {
        return err_errno(e, ERR_IO, "cannot open '%s'", name);
    }
    while (left && rc == 0) {
        ssize_t k = pwrite(fd, at, left, offset);
        if (k > 0) {
            at += k;
            left -= (size_t)k;
            offset += k;
        } else if (k == 0 || errno != EINTR) {
            rc = err_errno(e, ERR_IO, "cannot write '%s'", name);
        }
    }
    if (rc == 0 && sync && fdatasync(fd)) {
        rc = err_errno(e, ERR_IO, "cannot sync '%s'", name);
    }
    close(fd);
    return rc;
}

/* Writes the buffered rows at the end of the track. */
static int write_rows(struct pyramid_writer *w, bool sync, struct err *e)
{
    char raw[PYRAMID_FAN * ROW_BYTES];
    size_t bytes = (size_t)w->row_bytes;
    for (int i = 0; i < w->buffered; i++) {
        row_pack(&w->buffer[i], w->row_bytes, raw + (size_t)i * bytes);
    }
    off_t offset = (off_t)((w->rows - w->buffered) * w->row_bytes);
    return write_at(w->base, 0, offset, raw, (size_t)w->buffered * bytes, sync, e);
}

/* Writes the next bucket of a level. */
static int write_bucket(struct pyramid_writer *w, int level, struct err *e)
{
    char raw[sizeof(struct pyramid_bucket)];
    size_t bytes = record_bytes(w->row_bytes, level);
    bucket_pack(&w->open[level - 1], (size_t)row_values_in(w->row_bytes), raw);
    off_t offset = (off_t)(w->have[level - 1] * (int64_t)bytes);
    return write_at(w->base, level, offset, raw, bytes, false, e);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int64_t rows_per_bucket(int level)
{
    int64_t n = 1;
    while (level-- > 0) {
        n *= PYRAMID_FAN;
    }
    return n;
}

/* At a multiple of 64 rows: writes the buckets that end here. */
static int close_buckets(struct pyramid_writer *w, struct err *e)
{
    for (int l = 0; l < PYRAMID_LEVELS; l++) {
        if (w->rows % rows_per_bucket(l + 1) || w->have[l] == w->rows / rows_per_bucket(l + 1)) {
            continue;
        }
        int rc = write_bucket(w, l + 1, e);
        if (rc < 0) {
            return rc;
        }
        w->have[l]++;
        if (l + 1 < PYRAMID_LEVELS) {
            merge(&w->open[l + 1], &w->open[l]);
        }
        pyramid_empty(&w->open[l]);
    }
    return 0;
}

int pyramid_writer_flush(struct pyramid_writer *w, bool sync, struct err *e)
{
    if (w->buffered || (sync && w->dirty)) {
        int rc = write_rows(w, sync, e);
        if (rc < 0) {
            return rc;
        }
        w->buffered = 0;
        w->dirty = !sync;
    }
    return close_buckets(w, e);
}

int pyramid_writer_add(struct pyramid_writer *w, const struct row *row, struct err *e)
{
    int rc = 0;
    bool behind = w->rows % PYRAMID_FAN == 0 && (w->buffered || w->have[0] < w->rows / PYRAMID_FAN);
    if (behind && (rc = pyramid_writer_flush(w, false, e)) < 0) {
        return rc; /* the disk still refuses, so the row is not taken */
    }
    w->buffer[w->buffered++] = *row;
    w->rows++;
    pyramid_add(&w->open[0], row);
    if (w->rows % PYRAMID_FAN == 0) {
        rc = pyramid_writer_flush(w, false, e);
    }
    return rc;
}

/* Cuts off unsound ends of levels. After a power cut a level may hold zeroes, so it ends before the
 * first bucket whose number of rows is wrong. No level may be ahead of the one below, so its last
 * buckets are computed again together with those below them. */
static void keep_sound_levels(struct pyramid_reader *r)
{
    for (int l = 1; l <= PYRAMID_LEVELS; l++) {
        int64_t sound = 0, most = r->count[l - 1] / PYRAMID_FAN;
        most = most < r->count[l] ? most : r->count[l];
        while (sound < most && pyramid_level(r, l, sound)->rows == rows_per_bucket(l)) {
            sound++;
        }
        r->count[l] = sound;
        r->chunk[l] = -1;
    }
}

/* Passes over full buckets that are on disk, level by level, so that they are not written again. */
static void pass_over_written(struct pyramid_writer *w, const struct pyramid_reader *r)
{
    for (int l = 0; l < PYRAMID_LEVELS; l++) {
        if (w->rows % rows_per_bucket(l + 1) != 0 || w->have[l] >= r->count[l + 1]) {
            continue;
        }
        w->have[l]++;
        if (l + 1 < PYRAMID_LEVELS) {
            merge(&w->open[l + 1], &w->open[l]);
        }
        pyramid_empty(&w->open[l]);
    }
}

/* Reads the buckets of l1 or computes them again. The upper levels follow from them, whatever their
 * files hold. */
static int take_written(struct pyramid_writer *w, struct pyramid_reader *r, struct err *e)
{
    int rc = 0;
    for (int64_t b = 0; b < r->count[0] / PYRAMID_FAN && rc == 0; b++) {
        w->rows = (b + 1) * PYRAMID_FAN;
        if (b < r->count[1]) {
            w->open[0] = *pyramid_level(r, 1, b);
        } else {
            pyramid_range(r, b * PYRAMID_FAN, w->rows, &w->open[0]);
        }
        pass_over_written(w, r);
        rc = close_buckets(w, e);
    }
    if (rc == 0) {
        pyramid_range(r, w->rows, r->count[0], &w->open[0]);
        w->rows = r->count[0];
    }
    return rc;
}

int pyramid_writer_open(struct pyramid_writer *w, const char *base, int row_bytes, struct err *e)
{
    struct pyramid_reader r;
    memset(w, 0, sizeof *w);
    w->row_bytes = row_bytes;
    if (strlen(base) >= sizeof w->base) {
        return err_set(e, ERR_IO, "cannot open history '%.200s': the path is too long", base);
    }
    snprintf(w->base, sizeof w->base, "%s", base);
    for (int l = 0; l < PYRAMID_LEVELS; l++) {
        pyramid_empty(&w->open[l]);
    }
    pyramid_reader_open(&r, base, row_bytes);
    keep_sound_levels(&r);
    int rc = take_written(w, &r, e);
    if (rc == 0 && r.failed) {
        rc = err_set(e, ERR_IO, "cannot read history '%s'", base);
    }
    pyramid_reader_close(&r);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

void pyramid_reader_open(struct pyramid_reader *r, const char *base, int row_bytes)
{
    char name[PYRAMID_PATH + 8];
    BUG_ON(row_bytes < ROW_BYTES_FIRST || row_bytes > ROW_BYTES);
    r->row_bytes = row_bytes;
    r->failed = false;
    for (int l = 0; l <= PYRAMID_LEVELS; l++) {
        file_name(name, sizeof name, base, l);
        r->fd[l] = open(name, O_RDONLY | O_CLOEXEC);
        r->count[l] = whole_records(r->fd[l], record_bytes(row_bytes, l));
        r->chunk[l] = -1;
        if (l && r->count[l] > r->count[0] / rows_per_bucket(l)) {
            r->count[l] = r->count[0] / rows_per_bucket(l);
        }
    }
}

void pyramid_reader_close(struct pyramid_reader *r)
{
    for (int l = 0; l <= PYRAMID_LEVELS; l++) {
        if (r->fd[l] >= 0) {
            close(r->fd[l]);
        }
        r->fd[l] = -1;
    }
}

/* Reads `want` bytes of a level's file; zeroes where it cannot. */
static void read_at(struct pyramid_reader *r, int level, off_t offset, char *out, size_t want)
{
    size_t got = 0;
    while (got < want) {
        ssize_t k = pread(r->fd[level], out + got, want - got, offset + (off_t)got);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            memset(out + got, 0, want - got);
            r->failed = true;
            break;
        }
        got += (size_t)k;
    }
}

/* Brings the 64 records around i into the cache, and returns the index of i among them. */
static int fetch(struct pyramid_reader *r, int level, int64_t i)
{
    char raw[RAW_BYTES];
    size_t bytes = record_bytes(r->row_bytes, level), values = (size_t)row_values_in(r->row_bytes);
    int64_t chunk = i / PYRAMID_FAN, left = r->count[level] - chunk * PYRAMID_FAN;
    int n = left < PYRAMID_FAN ? (int)left : PYRAMID_FAN;
    if (r->chunk[level] != chunk) {
        read_at(r, level, (off_t)(chunk * PYRAMID_FAN * (int64_t)bytes), raw, (size_t)n * bytes);
        for (int k = 0; k < n; k++) {
            if (level) {
                bucket_unpack(raw + (size_t)k * bytes, values, &r->buckets[level - 1][k]);
            } else {
                row_unpack(raw + (size_t)k * bytes, r->row_bytes, &r->rows[k]);
            }
        }
        r->chunk[level] = chunk;
    }
    return (int)(i % PYRAMID_FAN);
}

const struct row *pyramid_row(struct pyramid_reader *r, int64_t i)
{
    BUG_ON(i < 0 || i >= r->count[0]);
    return &r->rows[fetch(r, 0, i)];
}

const struct pyramid_bucket *pyramid_level(struct pyramid_reader *r, int level, int64_t i)
{
    BUG_ON(level < 1 || level > PYRAMID_LEVELS || i < 0 || i >= r->count[level]);
    return &r->buckets[level - 1][fetch(r, level, i)];
}

void pyramid_range(struct pyramid_reader *r, int64_t a, int64_t b, struct pyramid_bucket *out)
{
    while (a < b) {
        int level = PYRAMID_LEVELS;
        int64_t width = rows_per_bucket(level);
        while (level && (a % width || a + width > b || a / width >= r->count[level])) {
            level--;
            width /= PYRAMID_FAN;
        }
        if (level) {
            merge(out, pyramid_level(r, level, a / width));
        } else {
            pyramid_add(out, pyramid_row(r, a));
        }
        a += width;
    }
}
