/* What was measured of a job, as tables: curves, the last steps, staleness, assignments of
 * minibatches, evaluations. */
#include <string.h>

#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "common/jsonx.h"

static int show(struct session *s, const char *rest, void (*print)(const json_t *answer))
{
    char path[256];
    int rc = job_path(s, session_argument(s, 0), rest, path);
    return rc < 0 ? rc : session_show(s, "GET", path, print);
}

/* ---- series ---------------------------------------------------------------------------------- */

const struct opt series_options[] = {
    {"names", "NAMES", OPT_STRING, "train_loss", 0, 0,
     "names of series with commas between (docs/metrics.md has them), or all"},
    {"x", "AXIS", OPT_STRING, "step", 0, 0, "step, samples or time"},
    {"points", "N", OPT_INT, "20", 1, 20000, "at most so many points of each series"},
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
    char rest[1024], names[512], x[64], path[1400], id[JOB_ID_BYTES];
    int rc = job_find(s, session_argument(s, 0), id);
    if (rc < 0) {
        return rc;
    }
    snprintf(rest, sizeof rest, "names=%s&x=%s&points=%ld",
             client_escape(names, sizeof names, opt_string(s->options, "names")),
             client_escape(x, sizeof x, opt_string(s->options, "x")),
             opt_int(s->options, "points"));
    snprintf(path, sizeof path, "/api/v1/jobs/%s/series?%s", id, rest);
    return session_show(s, "GET", path, print_series);
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
    return show(s, "/evaluations", print_evaluations);
}
