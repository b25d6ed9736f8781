/* Norms of a model's tensors: written, superseded and read. See norms.h. */
#include "store/history/norms.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json/jsonx.h"
#include "store/history.h"
#include "store/history/meta.h"
#include "store/history/parts.h"

enum { POINTS_USUAL = 200 };
static const char *const track = "norms"; /* its name in meta.json's list of superseded spans */

struct norm_head {
    int64_t step;
    double epoch, time;
};

static int tensors_in(const json_t *meta)
{
    size_t n = json_array_size(json_object_get(history_meta_tensors(meta), "names"));
    return n <= NORMS_MOST ? (int)n : 0;
}

static size_t record_bytes(int tensors)
{
    return sizeof(struct norm_head) + 2 * (size_t)tensors * sizeof(float);
}

static void path_of(char out[HISTORY_PATH + 32], const char *dir)
{
    snprintf(out, HISTORY_PATH + 32, "%s/norms.bin", dir);
}

/* The number of whole records in the file; 0: there is no file. */
static int64_t records_in(int fd, int tensors)
{
    struct stat st;
    return fd >= 0 && tensors > 0 && fstat(fd, &st) == 0
               ? (int64_t)((size_t)st.st_size / record_bytes(tensors))
               : 0;
}

static bool read_head(int fd, int64_t record, int tensors, struct norm_head *out)
{
    off_t at = (off_t)((size_t)record * record_bytes(tensors));
    return pread(fd, out, sizeof *out, at) == (ssize_t)sizeof *out;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int open_file(struct norm_track *t, const char *dir, int flags, struct err *e)
{
    char path[HISTORY_PATH + 32];
    path_of(path, dir);
    t->fd = open(path, O_RDWR | O_CLOEXEC | flags, 0644);
    return t->fd >= 0 || (errno == ENOENT && !(flags & O_CREAT))
               ? 0
               : err_errno(e, ERR_IO, "cannot open '%s'", path);
}

/* Finds the step of the last record that counts. */
static int find_told(struct norm_track *t, const json_t *meta, struct err *e)
{
    struct spans dead = {0}, alive = {0};
    struct norm_head last;
    int rc = history_meta_dead(meta, track, &dead, e);
    t->told = -1;
    if (rc == 0 && (rc = spans_alive(&dead, 0, t->records, &alive, e)) == 0 && alive.n &&
        read_head(t->fd, alive.items[alive.n - 1].b - 1, tensors_in(meta), &last)) {
        t->told = last.step;
    }
    spans_release(&dead);
    spans_release(&alive);
    return rc;
}

int norm_track_open(struct norm_track *t, const char *dir, const json_t *meta, struct err *e)
{
    int rc = open_file(t, dir, 0, e);
    t->records = records_in(t->fd, tensors_in(meta));
    return rc < 0 ? rc : find_told(t, meta, e);
}

void norm_track_close(struct norm_track *t)
{
    if (t->fd >= 0) {
        close(t->fd);
    }
    t->fd = -1;
}

static json_t *tensors_of(const struct norms *n)
{
    json_t *names = json_array(), *elements = json_array();
    for (int i = 0; i < n->count; i++) {
        json_array_append_new(names, json_string(n->items[i].name));
        json_array_append_new(elements, json_integer((json_int_t)n->items[i].elements));
    }
    return json_pack("{s:o, s:o, s:i}", "names", names, "elements", elements, "left_out",
                     n->left_out);
}

/* Takes the tensors from the first norms; all others must have the same. */
static int take_tensors(json_t *meta, const char *dir, const struct norms *n, struct err *e)
{
    json_t *tensors = tensors_of(n), *before = history_meta_tensors(meta);
    int rc = 0;
    if (!before) {
        history_meta_set_tensors(meta, tensors);
        rc = history_meta_save(dir, meta, e);
    } else if (!json_equal(before, tensors)) {
        rc = err_set(e, ERR_DATA, "the norms of step %lld are of other tensors than those before",
                     (long long)n->step);
    }
    json_decref(tensors);
    return rc;
}

int norm_track_append(struct norm_track *t, const char *dir, json_t *meta, const struct norms *n,
                      struct err *e)
{
    if (n->step <= t->told || n->count < 1) {
        return 0; /* told twice, as rows may be */
    }
    int rc = take_tensors(meta, dir, n, e);
    if (rc < 0 || (t->fd < 0 && (rc = open_file(t, dir, O_CREAT, e)) < 0)) {
        return rc;
    }
    size_t bytes = record_bytes(n->count);
    struct norm_head *record = malloc(bytes);
    BUG_ON(!record);
    *record = (struct norm_head){n->step, n->epoch, n->time};
    void *behind = record + 1;
    float *values = behind;
    for (int i = 0; i < n->count; i++) {
        values[i] = (float)n->items[i].weight;
        values[n->count + i] = (float)n->items[i].gradient;
    }
    bool written =
        pwrite(t->fd, record, bytes, (off_t)((size_t)t->records * bytes)) == (ssize_t)bytes;
    free(record);
    if (!written) {
        return err_errno(e, ERR_IO, "cannot write '%s/norms.bin'", dir);
    }
    t->records++;
    t->told = n->step;
    t->dirty = true;
    return 0;
}

int norm_track_supersede(struct norm_track *t, json_t *meta, int64_t version, struct err *e)
{
    struct spans more = {0};
    struct norm_head one;
    int rc = 0;
    for (int64_t i = 0; i < t->records && rc == 0; i++) {
        if (read_head(t->fd, i, tensors_in(meta), &one) && one.step > version) {
            rc = spans_add(&more, i, i + 1, e);
        }
    }
    if (rc >= 0) {
        rc = history_meta_add_dead(meta, track, &more, e);
    }
    spans_release(&more);
    return rc < 0 ? rc : find_told(t, meta, e);
}

int norm_track_sync(struct norm_track *t, const char *dir, struct err *e)
{
    if (t->dirty && fdatasync(t->fd)) {
        return err_errno(e, ERR_IO, "cannot sync '%s/norms.bin'", dir);
    }
    t->dirty = false;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    char dir[HISTORY_PATH];
    json_t *meta;
    int tensors;
    char *records; /* [n] the records that count, one after the other; owned */
    int64_t n;
};

static const struct norm_head *record_at(const struct reading *r, int64_t i)
{
    const void *record = r->records + (size_t)i * record_bytes(r->tensors);
    return record;
}

static int read_records(struct reading *r, struct err *e)
{
    char path[HISTORY_PATH + 32];
    struct spans dead = {0}, alive = {0};
    path_of(path, r->dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = history_meta_dead(r->meta, track, &dead, e);
    int64_t all = records_in(fd, r->tensors);
    size_t bytes = record_bytes(r->tensors);
    if (rc == 0 && (rc = spans_alive(&dead, 0, all, &alive, e)) == 0 &&
        !(r->records = malloc((size_t)spans_total(&alive) * bytes + 1))) {
        rc = err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
    }
    for (int i = 0; rc == 0 && i < alive.n; i++) {
        size_t first = (size_t)alive.items[i].a, n = (size_t)alive.items[i].b - first;
        if (pread(fd, r->records + (size_t)r->n * bytes, n * bytes, (off_t)(first * bytes)) !=
            (ssize_t)(n * bytes)) {
            rc = err_errno(e, ERR_IO, "cannot read '%s'", path);
        }
        r->n += (int64_t)n;
    }
    if (fd >= 0) {
        close(fd);
    }
    spans_release(&dead);
    spans_release(&alive);
    return rc;
}

/* The greatest of a tensor's values in the records [a, b); null if one is not finite. */
static json_t *greatest(const struct reading *r, int value, int64_t a, int64_t b)
{
    double most = 0;
    for (int64_t i = a; i < b; i++) {
        const void *behind = record_at(r, i) + 1;
        const float *values = behind;
        if (!isfinite(values[value])) {
            return json_null();
        }
        most = fmax(most, (double)values[value]);
    }
    return json_real(row_rounded(most));
}

static json_t *lists(int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(out, json_array());
    }
    return out;
}

static json_t *answer(const struct reading *r, int points)
{
    json_t *told = history_meta_tensors(r->meta), *tensors = json_array();
    json_t *x = json_array(), *epoch = json_array(), *time = json_array(),
           *weights = lists(r->tensors), *gradients = lists(r->tensors);
    for (int i = 0; i < r->tensors; i++) {
        json_array_append_new(
            tensors,
            json_pack("{s:O, s:O}", "name",
                      json_array_get(json_object_get(told, "names"), (size_t)i), "elements",
                      json_array_get(json_object_get(told, "elements"), (size_t)i)));
    }
    int64_t buckets = r->n < points ? r->n : points;
    for (int64_t k = 0; k < buckets; k++) {
        int64_t a = (k * r->n + buckets - 1) / buckets,
                b = ((k + 1) * r->n + buckets - 1) / buckets;
        const struct norm_head *last = record_at(r, b - 1);
        json_array_append_new(x, json_integer((json_int_t)last->step));
        json_array_append_new(epoch, json_real(row_rounded(last->epoch)));
        json_array_append_new(time, json_real(row_rounded(last->time)));
        for (int i = 0; i < r->tensors; i++) {
            json_array_append_new(json_array_get(weights, (size_t)i), greatest(r, i, a, b));
            json_array_append_new(json_array_get(gradients, (size_t)i),
                                  greatest(r, r->tensors + i, a, b));
        }
    }
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "tensors", tensors, "left_out",
                     json_integer_value(json_object_get(told, "left_out")), "total_points",
                     (json_int_t)r->n, "x", x, "epoch", epoch, "time", time, "weights", weights,
                     "gradients", gradients);
}

json_t *history_norms_read(const char *job_dir, int points, struct err *e)
{
    struct reading r = {0};
    json_t *out = NULL;
    points = points < 1                     ? POINTS_USUAL
             : points > HISTORY_POINTS_MOST ? HISTORY_POINTS_MOST
                                            : points;
    r.meta = history_dir(r.dir, job_dir, e) < 0 ? NULL : history_meta_load(r.dir, e);
    r.tensors = r.meta ? tensors_in(r.meta) : 0;
    if (r.meta && read_records(&r, e) >= 0) {
        out = answer(&r, points);
    }
    free(r.records);
    json_decref(r.meta);
    return out;
}
