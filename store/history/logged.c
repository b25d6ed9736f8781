/* Logged metrics: written, superseded and read. See logged.h. */
#include "store/history/logged.h"

#include <math.h>
#include <stdlib.h>

#include "common/log.h"
#include "store/history.h"
#include "store/history/meta.h"

enum { POINTS_USUAL = 600, POINTS_EACH = 4096 };
static const char *const file = "logged";

struct logged_record {
    int64_t step;
    double epoch, time, value;
    int64_t name; /* its index in meta.json */
};
_Static_assert(sizeof(struct logged_record) == 40, "a logged point has 40 bytes");

/* ---- writing --------------------------------------------------------------------------------- */

/* Finds the last point of each name that counts. */
static int find_newest(struct logged_track *t, const char *dir, const json_t *meta, struct err *e)
{
    struct records_read read;
    int rc = records_read(&read, dir, file, sizeof(struct logged_record), meta, e);
    const void *all = read.all;
    const struct logged_record *records = all;
    for (int i = 0; i < LOGGED_NAMES; i++) {
        t->count[i] = 0;
        t->told[i] = -1;
        t->newest[i] = NAN;
    }
    for (int64_t i = 0; rc == 0 && i < read.n; i++) {
        if (records[i].name >= 0 && records[i].name < LOGGED_NAMES) {
            t->count[records[i].name]++;
            t->told[records[i].name] = records[i].step;
            t->newest[records[i].name] = records[i].value;
        }
    }
    records_release(&read);
    return rc;
}

int logged_track_open(struct logged_track *t, const char *dir, const json_t *meta, struct err *e)
{
    int rc = records_open(&t->records, dir, file, sizeof(struct logged_record), e);
    return rc < 0 ? rc : find_newest(t, dir, meta, e);
}

void logged_track_close(struct logged_track *t)
{
    records_close(&t->records);
}

/* Adds new names, as long as there is room. They are saved before any point of theirs is. */
static int add_names(struct logged_track *t, const char *dir, json_t *meta, const struct logged *l,
                     struct err *e)
{
    int before = history_meta_logged_count(meta);
    for (int i = 0; i < l->count; i++) {
        bool is_new = history_meta_logged_find(meta, l->points[i].name) < 0,
             room = history_meta_logged_count(meta) < LOGGED_NAMES;
        if (is_new && room) {
            history_meta_logged_add(meta, l->points[i].name);
        } else if (is_new && !t->full) {
            log_warn("history", "metrics of further names are not kept", "most=%d", LOGGED_NAMES);
            t->full = true;
        }
    }
    return history_meta_logged_count(meta) > before ? history_meta_save(dir, meta, e) : 0;
}

static bool is_kept(const struct logged_track *t, int name, int64_t step)
{
    return t->count[name] < POINTS_EACH || step == t->told[name] ||
           step - t->told[name] >= step / POINTS_EACH;
}

static bool is_again(const struct logged_track *t, int name, const struct logged_point *p)
{
    return p->step == t->told[name] &&
           (p->value == t->newest[name] || (isnan(p->value) && isnan(t->newest[name])));
}

static int append_one(struct logged_track *t, const char *dir, const json_t *meta,
                      const struct logged_point *p, struct err *e)
{
    int name = history_meta_logged_find(meta, p->name);
    if (name < 0 || p->step < t->told[name] || is_again(t, name, p)) {
        return 0;
    }
    t->newest[name] = p->value;
    if (!is_kept(t, name, p->step)) {
        return 0;
    }
    struct logged_record record = {p->step, p->epoch, p->time, p->value, name};
    int rc = records_append(&t->records, dir, &record, e);
    if (rc == 0) {
        t->count[name]++;
        t->told[name] = p->step;
    }
    return rc;
}

int logged_track_append(struct logged_track *t, const char *dir, json_t *meta,
                        const struct logged *l, struct err *e)
{
    int rc = add_names(t, dir, meta, l, e);
    for (int i = 0; i < l->count && rc == 0; i++) {
        rc = append_one(t, dir, meta, &l->points[i], e);
    }
    return rc;
}

int logged_track_supersede(struct logged_track *t, const char *dir, json_t *meta, int64_t version,
                           struct err *e)
{
    int rc = records_supersede(&t->records, meta, version, e);
    return rc < 0 ? rc : find_newest(t, dir, meta, e);
}

int logged_track_sync(struct logged_track *t, const char *dir, struct err *e)
{
    return records_sync(&t->records, dir, e);
}

json_t *logged_track_newest(const struct logged_track *t, const json_t *meta)
{
    json_t *out = NULL;
    for (int i = 0; i < history_meta_logged_count(meta); i++) {
        if (t->told[i] >= 0) {
            out = out ? out : json_object();
            json_object_set_new(out, history_meta_logged_name(meta, i),
                                document_real(t->newest[i]));
        }
    }
    return out;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct values {
    double least, most, sum;
    bool finite;
};

static struct values values_of(const struct logged_record *const *points, int64_t a, int64_t b)
{
    struct values v = {INFINITY, -INFINITY, 0, true};
    for (int64_t i = a; i < b; i++) {
        v.least = fmin(v.least, points[i]->value);
        v.most = fmax(v.most, points[i]->value);
        v.sum += points[i]->value;
        v.finite = v.finite && isfinite(points[i]->value);
    }
    return v;
}

static json_t *real_or_null(double x, bool finite)
{
    return finite ? json_real(row_rounded(x)) : json_null();
}

/* One metric, of its n points in at most `most` buckets. */
static json_t *metric_json(const char *name, const struct logged_record *const *points, int64_t n,
                           int most)
{
    json_t *x = json_array(), *epoch = json_array(), *time = json_array(), *least = json_array(),
           *greatest = json_array(), *mean = json_array();
    int64_t buckets = n < most ? n : most;
    for (int64_t k = 0; k < buckets; k++) {
        int64_t a = (k * n + buckets - 1) / buckets, b = ((k + 1) * n + buckets - 1) / buckets;
        struct values v = values_of(points, a, b);
        json_array_append_new(x, json_integer((json_int_t)points[b - 1]->step));
        json_array_append_new(epoch, json_real(row_rounded(points[b - 1]->epoch)));
        json_array_append_new(time, json_real(row_rounded(points[b - 1]->time)));
        json_array_append_new(least, real_or_null(v.least, v.finite));
        json_array_append_new(greatest, real_or_null(v.most, v.finite));
        json_array_append_new(mean, real_or_null(v.sum / (double)(b - a), v.finite));
    }
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "name", name, "total_points",
                     (json_int_t)n, "x", x, "epoch", epoch, "time", time, "min", least, "max",
                     greatest, "mean", mean);
}

static bool is_within(const struct logged_ask *ask, const struct logged_record *r)
{
    double at = ask->axis == LOGGED_STEP    ? (double)r->step
                : ask->axis == LOGGED_EPOCH ? r->epoch
                                            : r->time;
    return (isnan(ask->from) || at >= ask->from) && (isnan(ask->to) || at <= ask->to);
}

/* The points of a name into out[], which has room for all; of one step the last. Returns how
 * many. */
static int64_t points_of(int name, const struct records_read *read,
                         const struct logged_record **out)
{
    const void *all = read->all;
    const struct logged_record *records = all;
    int64_t n = 0;
    for (int64_t i = 0; i < read->n; i++) {
        if (records[i].name == name) {
            n -= n > 0 && out[n - 1]->step == records[i].step;
            out[n++] = &records[i];
        }
    }
    return n;
}

/* Leaves the n points that are within the range. Returns how many. */
static int64_t keep_range(const struct logged_ask *ask, const struct logged_record **points,
                          int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        points[kept] = points[i];
        kept += is_within(ask, points[i]);
    }
    return kept;
}

/* The metrics of these records, in the order of their names. */
static json_t *metrics_json(const json_t *meta, const struct records_read *read,
                            const struct logged_ask *ask)
{
    int points = ask->points, most = points < 1                     ? POINTS_USUAL
                                     : points > HISTORY_POINTS_MOST ? HISTORY_POINTS_MOST
                                                                    : points;
    const struct logged_record **of = calloc((size_t)read->n + 1, sizeof *of);
    BUG_ON(!of);
    json_t *out = json_array();
    for (int name = 0; name < history_meta_logged_count(meta); name++) {
        int64_t n = points_of(name, read, of);
        if (n > 0) { /* also where none is within the range */
            json_array_append_new(out, metric_json(history_meta_logged_name(meta, name), of,
                                                   keep_range(ask, of, n), most));
        }
    }
    free(of);
    return json_pack("{s:o}", "metrics", out);
}

json_t *history_logged_read(const char *job_dir, const struct logged_ask *ask, struct err *e)
{
    char dir[HISTORY_PATH];
    struct records_read read = {0};
    json_t *out = NULL, *meta = history_dir(dir, job_dir, e) < 0 ? NULL : history_meta_load(dir, e);
    if (meta && records_read(&read, dir, file, sizeof(struct logged_record), meta, e) >= 0) {
        out = metrics_json(meta, &read, ask);
    }
    records_release(&read);
    json_decref(meta);
    return out;
}
