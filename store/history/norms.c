/* Norms of a model's tensors: written, superseded and read. See norms.h. */
#include "store/history/norms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/history.h"
#include "store/history/meta.h"

enum { POINTS_USUAL = 200 };

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
    return tensors > 0 ? sizeof(struct norm_head) + 2 * (size_t)tensors * sizeof(float) : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

int norm_track_open(struct norm_track *t, const char *dir, const json_t *meta, struct err *e)
{
    int rc = records_open(&t->records, dir, "norms", record_bytes(tensors_in(meta)), e);
    return rc < 0 ? rc : records_last(&t->records, meta, &t->told, e);
}

void norm_track_close(struct norm_track *t)
{
    records_close(&t->records);
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
    if (rc < 0) {
        return rc;
    }
    t->records.bytes = record_bytes(n->count);
    struct norm_head *record = malloc(t->records.bytes);
    BUG_ON(!record);
    *record = (struct norm_head){n->step, n->epoch, n->time};
    void *behind = record + 1;
    float *values = behind;
    for (int i = 0; i < n->count; i++) {
        values[i] = (float)n->items[i].weight;
        values[n->count + i] = (float)n->items[i].gradient;
    }
    if ((rc = records_append(&t->records, dir, record, e)) == 0) {
        t->told = n->step;
    }
    free(record);
    return rc;
}

int norm_track_supersede(struct norm_track *t, json_t *meta, int64_t version, struct err *e)
{
    int rc = records_supersede(&t->records, meta, version, e);
    return rc < 0 ? rc : records_last(&t->records, meta, &t->told, e);
}

int norm_track_sync(struct norm_track *t, const char *dir, struct err *e)
{
    return records_sync(&t->records, dir, e);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    json_t *meta;
    int tensors;
    struct records_read records; /* of norm_head, each with its values */
};

static const struct norm_head *record_at(const struct reading *r, int64_t i)
{
    const void *record = r->records.all + (size_t)i * record_bytes(r->tensors);
    return record;
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
    int64_t n = r->records.n, buckets = n < points ? n : points;
    for (int64_t k = 0; k < buckets; k++) {
        int64_t a = (k * n + buckets - 1) / buckets, b = ((k + 1) * n + buckets - 1) / buckets;
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
                     (json_int_t)n, "x", x, "epoch", epoch, "time", time, "weights", weights,
                     "gradients", gradients);
}

json_t *history_norms_read(const char *job_dir, int points, struct err *e)
{
    struct reading r = {0};
    char dir[HISTORY_PATH];
    json_t *out = NULL;
    points = points < 1                     ? POINTS_USUAL
             : points > HISTORY_POINTS_MOST ? HISTORY_POINTS_MOST
                                            : points;
    r.meta = history_dir(dir, job_dir, e) < 0 ? NULL : history_meta_load(dir, e);
    r.tensors = r.meta ? tensors_in(r.meta) : 0;
    if (r.meta && records_read(&r.records, dir, "norms", record_bytes(r.tensors), r.meta, e) >= 0) {
        out = answer(&r, points);
    }
    records_release(&r.records);
    json_decref(r.meta);
    return out;
}
