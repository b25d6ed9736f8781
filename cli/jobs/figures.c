/* A job's measurements as tables: curves, norms, logged metrics, the last steps, staleness,
 * assignments of minibatches, evaluations. */
#include <string.h>

#include "cli/commands.h"
#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "common/json/jsonx.h"
#include "job/documents/results/scored.h"

static int show(struct session *s, const char *rest, void (*print)(const json_t *answer))
{
    char path[256];
    int rc = job_path(s, session_argument(s, 0), rest, path);
    return rc < 0 ? rc : session_show(s, "GET", path, print);
}

/* The same; with --csv the service's table. */
static int show_or_table(struct session *s, const char *rest, void (*print)(const json_t *answer))
{
    char path[256];
    if (!opt_flag(s->options, "csv")) {
        return show(s, rest, print);
    }
    int rc = job_path(s, session_argument(s, 0), rest, path);
    snprintf(path + strlen(path), sizeof path - strlen(path), "%cformat=csv",
             strchr(rest, '?') ? '&' : '?');
    return rc < 0 ? rc : session_table(s, path);
}

/* ---- series ---------------------------------------------------------------------------------- */

const struct opt series_options[] = {
    {"names", "NAMES", OPT_STRING, "train_loss", 0, 0,
     "names of series with commas between (docs/metrics.md has them), or all"},
    {"x", "AXIS", OPT_STRING, "step", 0, 0, "step, samples or time"},
    {"points", "N", OPT_INT, "20", 1, 20000, "at most so many points of each series"},
    SESSION_CSV,
    {0},
};

static const struct column points[] = {
    {"x", "x", COLUMN_NUMBER},
    {"mean", "mean", COLUMN_NUMBER},
    {"least", "min", COLUMN_NUMBER},
    {"greatest", "max", COLUMN_NUMBER},
    COLUMNS_END,
};

/* One curve: its arrays become rows. */
static void print_curve(const json_t *curve)
{
    static const char *const keys[] = {"x", "mean", "min", "max"};
    const char *node = json_string_value(json_object_get(curve, "node"));
    json_t *rows = json_array();
    for (size_t i = 0; i < json_array_size(json_object_get(curve, "x")); i++) {
        json_t *row = json_object();
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            json_object_set(row, keys[k], json_array_get(json_object_get(curve, keys[k]), i));
        }
        json_array_append_new(rows, row);
    }
    printf("%s%s%s\n", jsonx_string_at(curve, "name"), node ? " of " : "", node ? node : "");
    columns_print(rows, points, "  ", stdout);
    json_decref(rows);
}

static void print_series(const json_t *answer)
{
    size_t i;
    json_t *curve;
    json_array_foreach(json_object_get(answer, "series"), i, curve) {
        print_curve(curve);
    }
}

int command_series(struct session *s)
{
    bool csv = opt_flag(s->options, "csv");
    char id[JOB_ID_BYTES];
    struct buf path;
    int rc = job_find(s, session_argument(s, 0), id);
    if (rc < 0) {
        return rc;
    }
    client_address(&path);
    buf_addf(&path, "/api/v1/jobs/%s/series?points=%ld&format=%s", id,
             opt_int(s->options, "points"), csv ? "csv" : "json");
    client_add_param(&path, "names", opt_string(s->options, "names"));
    client_add_param(&path, "x", opt_string(s->options, "x"));
    rc = csv ? session_table(s, path.data) : session_show(s, "GET", path.data, print_series);
    buf_release(&path);
    return rc;
}

/* ---- norms ----------------------------------------------------------------------------------- */

const struct opt norms_options[] = {
    {"points", "N", OPT_INT, "200", 1, 20000, "at most so many steps of each tensor"},
    SESSION_CSV,
    {0},
};

static void add_ends(json_t *row, const char *first, const char *last, const json_t *list)
{
    json_object_set(row, first, json_array_get(list, 0));
    json_object_set(row, last, json_array_get(list, json_array_size(list) - 1));
}

/* Prints a line for each tensor: its first and last norms. */
static void print_norms(const json_t *answer)
{
    static const struct column columns[] = {
        {"tensor", "name", COLUMN_TEXT},
        {"elements", "elements", COLUMN_COUNT},
        {"first", "weights_first", COLUMN_NUMBER},
        {"last", "weights_last", COLUMN_NUMBER},
        {"gradient first", "gradients_first", COLUMN_NUMBER},
        {"last", "gradients_last", COLUMN_NUMBER},
        COLUMNS_END,
    };
    const json_t *weights = json_object_get(answer, "weights"),
                 *gradients = json_object_get(answer, "gradients");
    json_t *rows = json_array(), *tensor;
    size_t i;
    json_array_foreach(json_object_get(answer, "tensors"), i, tensor) {
        json_t *row = json_copy(tensor);
        add_ends(row, "weights_first", "weights_last", json_array_get(weights, i));
        add_ends(row, "gradients_first", "gradients_last", json_array_get(gradients, i));
        json_array_append_new(rows, row);
    }
    columns_print(rows, columns, "", stdout);
    json_decref(rows);
}

int command_norms(struct session *s)
{
    char rest[64];
    snprintf(rest, sizeof rest, "/norms?points=%ld", opt_int(s->options, "points"));
    return show_or_table(s, rest, print_norms);
}

/* ---- logged metrics -------------------------------------------------------------------------- */

const struct opt logged_options[] = {
    {"points", "N", OPT_INT, "600", 1, 20000, "at most so many points of each metric (with --csv)"},
    SESSION_CSV,
    {0},
};

/* The least or greatest number of a list; NULL: it has none. Borrowed. */
static json_t *extreme(const json_t *list, int sign)
{
    json_t *one, *best = NULL;
    size_t i;
    json_array_foreach((json_t *)list, i, one) {
        if (json_is_number(one) &&
            (!best || sign * (json_number_value(one) - json_number_value(best)) > 0)) {
            best = one;
        }
    }
    return best;
}

/* Prints a line for each metric: its last value and step, and the range of its values. */
static void print_logged(const json_t *answer)
{
    static const struct column columns[] = {
        {"metric", "name", COLUMN_TEXT},
        {"points", "total_points", COLUMN_COUNT},
        {"step", "step", COLUMN_COUNT},
        {"last", "last", COLUMN_NUMBER},
        {"least", "least", COLUMN_NUMBER},
        {"greatest", "greatest", COLUMN_NUMBER},
        COLUMNS_END,
    };
    json_t *rows = json_array(), *metric;
    size_t i;
    json_array_foreach(json_object_get(answer, "metrics"), i, metric) {
        const json_t *steps = json_object_get(metric, "x"),
                     *values = json_object_get(metric, "mean");
        json_t *row = json_copy(metric);
        json_object_set(row, "step", json_array_get(steps, json_array_size(steps) - 1));
        json_object_set(row, "last", json_array_get(values, json_array_size(values) - 1));
        json_object_set(row, "least", extreme(json_object_get(metric, "min"), -1));
        json_object_set(row, "greatest", extreme(json_object_get(metric, "max"), 1));
        json_array_append_new(rows, row);
    }
    columns_print(rows, columns, "", stdout);
    json_decref(rows);
}

int command_logged(struct session *s)
{
    char rest[64];
    /* without --csv the last point must be one value and not a mean of several */
    long points = opt_flag(s->options, "csv") ? opt_int(s->options, "points") : 20000;
    snprintf(rest, sizeof rest, "/logged?points=%ld", points);
    return show_or_table(s, rest, print_logged);
}

/* ---- steps ----------------------------------------------------------------------------------- */

const struct opt steps_options[] = {
    {"last", "N", OPT_INT, "10", 1, 10000, "so many of each node"},
    {0},
};

static const struct column steps[] = {
    {"step", "step", COLUMN_COUNT},
    {"loss", "loss", COLUMN_NUMBER},
    {"minibatch", "batch", COLUMN_COUNT},
    {"load ms", "load_seconds", COLUMN_MS},
    {"compute ms", "compute_seconds", COLUMN_MS},
    {"exchange ms", "exchange_seconds", COLUMN_MS},
    {"wait ms", "wait_seconds", COLUMN_MS},
    {"staleness", "staleness", COLUMN_COUNT},
    {"sent", "bytes", COLUMN_BYTES},
    COLUMNS_END,
};

static void print_steps(const json_t *answer)
{
    size_t i;
    json_t *node;
    json_array_foreach(json_object_get(answer, "nodes"), i, node) {
        printf("%s\n", jsonx_string_at(node, "node"));
        columns_print(json_object_get(node, "rows"), steps, "  ", stdout);
    }
}

int command_steps(struct session *s)
{
    char rest[64];
    snprintf(rest, sizeof rest, "/steps?last=%ld", opt_int(s->options, "last"));
    return show(s, rest, print_steps);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void print_staleness(const json_t *answer)
{
    static const struct column columns[] = {
        {"node", "node", COLUMN_TEXT},
        {"mean", "mean", COLUMN_NUMBER},
        {"p50", "p50", COLUMN_COUNT},
        {"p95", "p95", COLUMN_COUNT},
        {"p99", "p99", COLUMN_COUNT},
        {"max", "max", COLUMN_COUNT},
        COLUMNS_END,
    };
    columns_print(json_object_get(answer, "nodes"), columns, "", stdout);
}

int command_staleness(struct session *s)
{
    return show(s, "/staleness", print_staleness);
}

static void print_assignments(const json_t *answer)
{
    static const struct column columns[] = {
        {"version", "version", COLUMN_COUNT},
        {"step", "step", COLUMN_COUNT},
        {"time", "time", COLUMN_TIME},
        {"minibatches", "batches", COLUMN_TEXT},
        {"step ms", "measured_step_seconds", COLUMN_MS},
        {"predicted", "predicted_step_seconds", COLUMN_MS},
        {"reason", "reason", COLUMN_TEXT},
        COLUMNS_END,
    };
    columns_print(json_object_get(answer, "assignments"), columns, "", stdout);
}

int command_assignments(struct session *s)
{
    return show(s, "/assignments", print_assignments);
}

const struct opt evaluations_options[] = {SESSION_CSV, {0}};

static void print_evaluations(const json_t *answer)
{
    static const struct column columns[] = {
        {"step", "step", COLUMN_COUNT},           {"epoch", "epoch", COLUMN_NUMBER},
        {"after", "time", COLUMN_SECONDS},        {"loss", "loss", COLUMN_NUMBER},
        {"accuracy", "accuracy", COLUMN_PERCENT}, COLUMNS_END,
    };
    columns_print(json_object_get(answer, "evaluations"), columns, "", stdout);
}

int command_evaluations(struct session *s)
{
    return show_or_table(s, "/evaluations", print_evaluations);
}

/* ---- confusion ------------------------------------------------------------------------------- */

static void print_confusion(const json_t *answer)
{
    struct scored scored = {0};
    struct err e = {0};
    if (scored_read(&scored, answer, &e) == 0) {
        evaluate_print(&scored);
    } else {
        session_complain(&e, NULL);
    }
    scored_release(&scored);
}

int command_confusion(struct session *s)
{
    return show(s, "/confusion", print_confusion);
}
