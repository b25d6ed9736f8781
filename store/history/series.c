/* Reading a history: series of a limited number of points (GET …/series). The last rows are in
 * last_rows.c.
 *
 *   source   the rows of one node, or the steps of the job, that count (source.h)
 *   bucket k of P over n rows: rows ceil(k·n/P) … ceil((k+1)·n/P) - 1; its x is that of its first
 *            row; with least, greatest, mean
 *
 * A bucket is summed by the pyramid, so the cost depends on the points asked for, not on the length
 * of the job, and a lone extreme is in some bucket's min or max whatever the width.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "common/text/words.h"
#include "store/history.h"
#include "store/history/meta.h"
#include "store/history/records.h"
#include "store/history/series_axis.h"
#include "store/history/source.h"

enum { POINTS_USUAL = 600, NODE_POINTS_LEAST = 8, WINDOWS = 4 };
enum kind { KIND_NODE, KIND_JOB, KIND_TEST, KIND_RATE };

/* What a request may name: the columns of a row that have a series, and series computed from
 * several columns. */
#define SERIES_NONE(name)
#define SERIES_NODE(name) {#name, KIND_NODE, ROW_##name},
#define SERIES_JOB(name) {"train_" #name, KIND_JOB, ROW_##name},
static const struct series_name {
    const char *name;
    enum kind kind;
    int of; /* KIND_NODE and KIND_JOB: the column; KIND_TEST: 0 loss, 1 accuracy */
} series_names[] = {
#define COLUMN(name, type, byte, shown, merged, series, unit, help) SERIES_##series(name)
#include "job/row.def"
    {"test_loss", KIND_TEST, 0},
    {"test_accuracy", KIND_TEST, 1},
    {"samples_per_second", KIND_RATE, 0},
};
enum { SERIES_NAMES = sizeof series_names / sizeof *series_names };

/* ---- a query --------------------------------------------------------------------------------- */

struct query {
    char dir[HISTORY_PATH];
    json_t *meta;
    struct series_axis axis;
    int points, node_points;     /* the most buckets of a series, and of a name over all nodes */
    int names[SERIES_NAMES], n;  /* indexes of series_names */
    json_t *found[SERIES_NAMES]; /* arrays of series, one for each name */
    struct source steps;
    bool have_steps;
};

static int need_steps(struct query *q, struct err *e)
{
    if (q->have_steps) {
        return 0;
    }
    int rc = source_init(&q->steps, q->dir, q->meta, e);
    q->have_steps = true;
    return rc == 0 ? source_steps(&q->steps, e) : rc;
}

/* ---- answers --------------------------------------------------------------------------------- */

static json_t *number(double v, bool whole)
{
    if (!isfinite(v)) {
        return json_null();
    }
    return whole ? json_integer((json_int_t)llround(v)) : json_real(row_rounded(v));
}

static json_t *series_new(const char *name, const char *node, int64_t total)
{
    return json_pack("{s:s, s:s?, s:I, s:[], s:[], s:[], s:[]}", "name", name, "node", node,
                     "total_points", (json_int_t)total, "x", "min", "max", "mean");
}

static void series_put(json_t *series, const struct query *q, double x, double min, double max,
                       double mean, bool whole)
{
    json_t *at = q->axis.kind == AXIS_TIME ? json_real(round(x * 1e6) / 1e6)
                                           : json_integer((json_int_t)llround(x));
    json_array_append_new(json_object_get(series, "x"), at);
    json_array_append_new(json_object_get(series, "min"), number(min, whole));
    json_array_append_new(json_object_get(series, "max"), number(max, whole));
    json_array_append_new(json_object_get(series, "mean"), number(mean, false));
}

/* The series of one name over a source, while it fills. */
struct filling {
    json_t *series; /* borrowed; NULL: the name has another kind, or older rows lack it */
    int value;      /* enum row_value */
    bool whole;
};

static void fill(const struct filling *f, const struct query *q, double x,
                 const struct pyramid_bucket *b)
{
    int v = f->value;
    double mean = b->weight[v] > 0 ? b->sum[v] / b->weight[v] : NAN;
    series_put(f->series, q, x, b->min[v], b->max[v], mean, f->whole);
}

/* Begins the series of every name of this kind. n: the number of rows. */
static void fillings_init(struct query *q, enum kind kind, const char *node, int64_t n,
                          struct filling out[SERIES_NAMES])
{
    for (int k = 0; k < q->n; k++) {
        const struct series_name *name = &series_names[q->names[k]];
        const struct row_column *column = &row_columns[name->of];
        out[k] = (struct filling){.value = column->value, .whole = row_is_whole(column)};
        if (name->kind == kind) {
            bool kept = column->end <= history_meta_row_bytes(q->meta);
            json_t *series = series_new(name->name, node, kept ? n : 0);
            json_array_append_new(q->found[k], series);
            out[k].series = kept ? series : NULL;
        }
    }
}

/* Answers every name of this kind, in one pass over the source. */
static void answer_source(struct query *q, enum kind kind, struct source *s, const char *node,
                          int points)
{
    int64_t a, b;
    struct filling fillings[SERIES_NAMES];
    axis_clip(&q->axis, s, &a, &b);
    int64_t n = b - a, buckets = n < points ? n : points;
    fillings_init(q, kind, node, n, fillings);
    for (int64_t i = 0; i < buckets; i++) {
        int64_t from = a + (i * n + buckets - 1) / buckets,
                to = a + ((i + 1) * n + buckets - 1) / buckets;
        struct pyramid_bucket bucket;
        pyramid_empty(&bucket);
        struct row first = source_row(s, from);
        source_range(s, from, to, &bucket);
        double x = axis_of(&q->axis, &first);
        for (int k = 0; k < q->n; k++) {
            if (fillings[k].series) {
                fill(&fillings[k], q, x, &bucket);
            }
        }
    }
}

struct point {
    double x, value, weight;
};

static void answer_points(struct query *q, int k, const struct point *points, int64_t n)
{
    json_t *series = series_new(series_names[q->names[k]].name, NULL, n);
    int64_t buckets = n < q->points ? n : q->points;
    for (int64_t i = 0; i < buckets; i++) {
        int64_t from = (i * n + buckets - 1) / buckets, to = ((i + 1) * n + buckets - 1) / buckets;
        double min = INFINITY, max = -INFINITY, sum = 0, weight = 0;
        for (int64_t p = from; p < to; p++) {
            if (isfinite(points[p].value)) {
                min = fmin(min, points[p].value);
                max = fmax(max, points[p].value);
                sum += points[p].weight * points[p].value;
                weight += points[p].weight;
            }
        }
        series_put(series, q, points[from].x, min, max, weight > 0 ? sum / weight : NAN, false);
    }
    json_array_append_new(q->found[k], series);
}

/* Answers samples per second of the job, over windows of steps: the samples of a window, divided by
 * the time from the last step before it to its own last step. A window has at least four steps.
 * Where each gradient is a step, it has at least two gradients of every worker, since single steps
 * of several workers may end at the same time. */
static int answer_rate(struct query *q, int k, int workers, struct err *e)
{
    int64_t a, b, n = 0;
    struct source *s = &q->steps;
    axis_clip(&q->axis, s, &a, &b);
    bool single = b > a && source_row(s, b - 1).local_step <= 1;
    int64_t width = single && workers > 2 ? 2 * workers : 4, rows = b - a - 1,
            least = rows / ((int64_t)q->points * WINDOWS);
    width = width > least ? width : least;
    width = rows < width ? rows : width;
    int64_t windows = width > 0 ? rows / width : 0;
    struct point *points = calloc((size_t)windows + 1, sizeof *points);
    if (!points) {
        return err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
    }
    double before = windows ? source_row(s, a).time : 0, carried = 0;
    for (int64_t i = 0; i < windows; i++) {
        int64_t from = a + 1 + i * width, to = i + 1 < windows ? from + width : b;
        struct pyramid_bucket bucket;
        pyramid_empty(&bucket);
        source_range(s, from, to, &bucket);
        struct row first = source_row(s, from), last = source_row(s, to - 1);
        double seconds = last.time - before;
        carried += bucket.samples;
        if (seconds > 0) { /* if no time has passed, the samples count in the next window */
            points[n++] = (struct point){axis_of(&q->axis, &first), carried / seconds, seconds};
            carried = 0;
            before = last.time;
        }
    }
    answer_points(q, k, points, n);
    free(points);
    return 0;
}

static double place_of(const struct series_axis *x, const struct history_evaluation *v)
{
    return x->kind == AXIS_STEP ? (double)v->step : x->kind == AXIS_TIME ? v->time : v->samples;
}

static bool is_within(const struct series_axis *x, double at)
{
    return (isnan(x->from) || at >= x->from) && (isnan(x->to) || at <= x->to);
}

/* Fills `room` with the points of a series of evaluations; returns their number. */
static int64_t points_of(const struct query *q, const struct records_read *tests, bool accuracy,
                         struct point *room)
{
    const void *all = tests->all;
    const struct history_evaluation *evaluations = all;
    int64_t m = 0;
    for (int64_t i = 0; i < tests->n; i++) {
        double x = place_of(&q->axis, &evaluations[i]);
        double value = accuracy ? evaluations[i].accuracy : evaluations[i].loss;
        if (isfinite(value) && is_within(&q->axis, x)) {
            room[m++] = (struct point){x, value, 1};
        }
    }
    return m;
}

/* Answers the evaluations. They are few, so all are read. */
static int answer_tests(struct query *q, struct err *e)
{
    struct records_read tests;
    int rc =
        records_read(&tests, q->dir, "evaluations", sizeof(struct history_evaluation), q->meta, e);
    struct point *room = calloc((size_t)tests.n + 1, sizeof *room);
    if (!room && rc >= 0) {
        rc = err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
    }
    for (int k = 0; k < q->n && rc >= 0; k++) {
        const struct series_name *name = &series_names[q->names[k]];
        if (name->kind == KIND_TEST) {
            answer_points(q, k, room, points_of(q, &tests, name->of, room));
        }
    }
    free(room);
    records_release(&tests);
    return rc;
}

/* The most buckets of a node's series. */
static int points_of_node(const struct query *q, size_t nodes)
{
    int share = nodes > 0 ? q->node_points / (int)nodes : 0;
    share = share > NODE_POINTS_LEAST ? share : NODE_POINTS_LEAST;
    return q->node_points <= 0 || share > q->points ? q->points : share;
}

static int answer_nodes(struct query *q, struct err *e)
{
    json_t *nodes = history_meta_nodes(q->meta), *node;
    size_t i;
    int rc = 0, points = points_of_node(q, json_array_size(nodes));
    json_array_foreach(nodes, i, node) {
        struct source s;
        if ((rc = source_init(&s, q->dir, q->meta, e)) == 0 &&
            (rc = source_node(&s, json_string_value(node), e)) == 0) {
            answer_source(q, KIND_NODE, &s, json_string_value(node), points);
        }
        source_release(&s);
        if (rc < 0) {
            break;
        }
    }
    json_decref(nodes);
    return rc;
}

/* ---- what was asked -------------------------------------------------------------------------- */

static int unknown(const char *what, const char *given, const char *const *names, int n,
                   struct err *e)
{
    const char *near = jsonx_nearest(given, names, n);
    err_set(e, ERR_INVALID, "there is no %s '%.60s'", what, given);
    if (near) {
        err_hint(e, "did you mean '%s'?", near);
    } else {
        err_hint(e, "try '%s'", names[0]);
    }
    return -ERR_INVALID;
}

/* Adds series_names[i], once. */
static void ask_for(struct query *q, int i)
{
    for (int k = 0; k < q->n; k++) {
        if (q->names[k] == i) {
            return;
        }
    }
    q->names[q->n++] = i;
}

static int parse_names(struct query *q, const char *names, struct err *e)
{
    const char *known[SERIES_NAMES];
    for (int i = 0; i < SERIES_NAMES; i++) {
        known[i] = series_names[i].name;
    }
    char one[64];
    while (words_next(&names, one, sizeof one)) {
        bool all = !strcmp(one, "all"), found = all;
        for (int i = 0; i < SERIES_NAMES; i++) {
            if (all || !strcmp(one, known[i])) {
                ask_for(q, i);
                found = true;
            }
        }
        if (!found) {
            return unknown("series", one, known, SERIES_NAMES, e);
        }
    }
    return q->n ? 0 : err_set(e, ERR_INVALID, "no series is asked for");
}

static int query_init(struct query *q, const char *job_dir, const char *names, const char *x,
                      struct err *e)
{
    int axis = 0;
    x = x && x[0] ? x : axis_names[0];
    while (axis < AXES && strcmp(x, axis_names[axis])) {
        axis++;
    }
    if (axis == AXES) {
        return unknown("axis", x, axis_names, AXES, e);
    }
    q->axis.kind = (enum axis)axis;
    int rc = history_dir(q->dir, job_dir, e);
    if (rc < 0) {
        return rc;
    }
    rc = parse_names(q, names ? names : "", e);
    for (int k = 0; k < q->n; k++) {
        q->found[k] = json_array();
    }
    if (rc == 0 && !(q->meta = history_meta_load(q->dir, e))) {
        rc = -ERR_DATA;
    }
    return rc;
}

static void query_release(struct query *q)
{
    for (int k = 0; k < q->n; k++) {
        json_decref(q->found[k]);
    }
    if (q->have_steps) {
        source_release(&q->steps);
    }
    json_decref(q->meta);
    axis_release(&q->axis);
}

static bool asks_for(const struct query *q, enum kind kind)
{
    for (int k = 0; k < q->n; k++) {
        if (series_names[q->names[k]].kind == kind) {
            return true;
        }
    }
    return false;
}

static int query_run(struct query *q, struct err *e)
{
    int rc = 0;
    if (q->axis.kind == AXIS_SAMPLES &&
        ((rc = need_steps(q, e)) < 0 || (rc = axis_make_table(&q->axis, &q->steps, e)) < 0)) {
        return rc;
    }
    if (asks_for(q, KIND_JOB) || asks_for(q, KIND_RATE)) {
        if ((rc = need_steps(q, e)) < 0) {
            return rc;
        }
        answer_source(q, KIND_JOB, &q->steps, NULL, q->points);
        for (int k = 0; k < q->n && rc == 0; k++) {
            rc = series_names[q->names[k]].kind == KIND_RATE
                     ? answer_rate(q, k, history_meta_ranks(q->meta), e)
                     : 0;
        }
    }
    if (rc == 0 && asks_for(q, KIND_TEST)) {
        rc = answer_tests(q, e);
    }
    return rc == 0 && asks_for(q, KIND_NODE) ? answer_nodes(q, e) : rc;
}

json_t *history_series(const char *job_dir, const struct series_ask *ask, struct err *e)
{
    struct query q = {.axis = {.from = ask->from, .to = ask->to},
                      .points = ask->points < 1                     ? POINTS_USUAL
                                : ask->points > HISTORY_POINTS_MOST ? HISTORY_POINTS_MOST
                                                                    : ask->points,
                      .node_points = ask->node_points};
    json_t *out = NULL;
    if (query_init(&q, job_dir, ask->names, ask->x, e) == 0 && query_run(&q, e) == 0) {
        json_t *series = json_array();
        for (int k = 0; k < q.n; k++) {
            json_array_extend(series, q.found[k]);
        }
        out = json_pack("{s:s, s:o}", "x", axis_names[q.axis.kind], "series", series);
    }
    query_release(&q);
    return out;
}
