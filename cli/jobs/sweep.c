/* `evenstep sweep` starts a sweep, `evenstep sweeps` lists them, or shows, watches, cancels or
 * deletes one (docs/sweeps.md). */
#include <stdlib.h>
#include <string.h>

#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "common/text/terminal.h"
#include "common/clock.h"
#include "common/json/jsonx.h"

enum { PATH = 256, TITLES = 8, TITLE = 24, LINE = 400 };
static const double period = 1;

const struct opt sweep_options[] = {
    {"watch", NULL, OPT_FLAG, NULL, 0, 0, "shows its progress until it ends"},
    {"dry-run", NULL, OPT_FLAG, NULL, 0, 0,
     "only checks it, and shows which trials there would be"},
    {0},
};
const struct opt sweeps_options[] = {
    {"watch", NULL, OPT_FLAG, NULL, 0, 0, "shows the sweep's progress until it ends"},
    {"cancel", NULL, OPT_FLAG, NULL, 0, 0, "ends the sweep, with all its jobs"},
    {"delete", NULL, OPT_FLAG, NULL, 0, 0, "deletes the sweep, once it has ended; its jobs stay"},
    {"quiet", NULL, OPT_FLAG, NULL, 0, 0, "prints ids alone (-q)"},
    {0},
};

/* ---- printing -------------------------------------------------------------------------------- */

static void print_id(const json_t *sweep)
{
    printf("%s\n", jsonx_string_at(sweep, "id"));
}

static void print_ids(const json_t *answer)
{
    columns_lines(json_object_get(answer, "sweeps"), "id", "", stdout);
}

static void print_list(const json_t *answer)
{
    static const struct column columns[] = {
        {"id", "id", COLUMN_WHOLE},
        {"name", "name", COLUMN_TEXT},
        {"state", "state", COLUMN_TEXT},
        {"method", "method.type", COLUMN_TEXT},
        {"trials", "counts.trials", COLUMN_COUNT},
        {"jobs", "counts.jobs", COLUMN_COUNT},
        {"ended", "counts.ended", COLUMN_COUNT},
        {"best", "best.metric", COLUMN_NUMBER},
        {"metric", "metric.name", COLUMN_TEXT},
        {"created", "created", COLUMN_TIME},
        COLUMNS_END,
    };
    columns_print(json_object_get(answer, "sweeps"), columns, "", stdout);
}

/* The column's head: "learning_rate" for "/optimizer/learning_rate"; for the value of a program's
 * option the option's name. */
static const char *title_of(const json_t *sweep, const json_t *parameter)
{
    const char *pointer = jsonx_string_at(parameter, "pointer"), *slash = strrchr(pointer, '/');
    const json_t *program = json_object_get(json_object_get(sweep, "spec"), "program");
    size_t place = 0;
    if (sscanf(pointer, "/program/args/%zu", &place) == 1 && place > 0) {
        const char *option =
            json_string_value(json_array_get(json_object_get(program, "args"), place - 1));
        return option && option[0] == '-' ? option : pointer;
    }
    return slash ? slash + 1 : pointer;
}

/* One line: "running: 5 of 9 jobs have ended; test_accuracy 0.981 is the best, of trial 3". */
static void progress_line(const json_t *sweep, char out[LINE])
{
    char state[COLUMN_BYTES_MOST], ended[COLUMN_BYTES_MOST], jobs[COLUMN_BYTES_MOST],
        trials[COLUMN_BYTES_MOST], best[COLUMN_BYTES_MOST], trial[COLUMN_BYTES_MOST],
        metric[COLUMN_BYTES_MOST];
    int n = snprintf(out, LINE, "%.20s: %.10s of %.10s jobs have ended, %.10s trials",
                     column_text(state, sweep, "state", COLUMN_TEXT),
                     column_text(ended, sweep, "counts.ended", COLUMN_COUNT),
                     column_text(jobs, sweep, "counts.jobs", COLUMN_COUNT),
                     column_text(trials, sweep, "counts.trials", COLUMN_COUNT));
    if (json_is_object(json_object_get(sweep, "best"))) {
        snprintf(out + n, LINE - (size_t)n, "; the best: %.30s %.20s, of trial %.10s",
                 column_text(metric, sweep, "metric.name", COLUMN_TEXT),
                 column_text(best, sweep, "best.metric", COLUMN_NUMBER),
                 column_text(trial, sweep, "best.trial", COLUMN_COUNT));
    }
}

/* The trials as rows of a table, with a key for each setting and id. */
static json_t *rows_of(const json_t *sweep)
{
    json_t *rows = json_array(), *trial, *job, *parameter;
    const json_t *parameters = json_object_get(sweep, "parameters");
    size_t i, k;
    json_array_foreach(json_object_get(sweep, "trials"), i, trial) {
        char key[16];
        json_t *row = json_copy(trial), *ids = json_array();
        json_array_foreach((json_t *)parameters, k, parameter) {
            snprintf(key, sizeof key, "p%zu", k);
            json_object_set(row, key,
                            json_object_get(json_object_get(trial, "settings"),
                                            jsonx_string_at(parameter, "pointer")));
        }
        json_array_foreach(json_object_get(trial, "jobs"), k, job) {
            if (json_is_string(json_object_get(job, "id"))) {
                json_array_append(ids, json_object_get(job, "id"));
            }
        }
        json_object_set_new(row, "jobs", ids);
        json_array_append_new(rows, row);
    }
    return rows;
}

static void print_sweep(const json_t *sweep)
{
    static const struct column first[] = {{"trial", "number", COLUMN_COUNT},
                                          {"state", "state", COLUMN_TEXT}},
                               last[] = {{"metric", "metric", COLUMN_NUMBER},
                                         {"spread", "spread", COLUMN_NUMBER},
                                         {"jobs", "jobs", COLUMN_WORDS},
                                         COLUMNS_END};
    static const char *const keys[TITLES] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"};
    struct column columns[2 + TITLES + 4];
    const json_t *parameters = json_object_get(sweep, "parameters");
    char line[LINE];
    int n = 2;
    memcpy(columns, first, sizeof first);
    for (size_t i = 0; i < json_array_size(parameters) && i < TITLES; i++) {
        json_t *example = json_object_get(
            json_object_get(json_array_get(json_object_get(sweep, "trials"), 0), "settings"),
            jsonx_string_at(json_array_get(parameters, i), "pointer"));
        columns[n++] = (struct column){title_of(sweep, json_array_get(parameters, i)), keys[i],
                                       json_is_number(example) ? COLUMN_NUMBER : COLUMN_TEXT};
    }
    memcpy(columns + n, last, sizeof last);
    progress_line(sweep, line);
    terminal_say("", "%s", line);
    json_t *rows = rows_of(sweep);
    columns_print(rows, columns, "  ", stdout);
    json_decref(rows);
}

/* ---- which one ------------------------------------------------------------------------------- */

/* Writes "/api/v1/sweeps/ID" and the rest, for an id, the beginning of one, or a name. */
static int find(struct session *s, const char *word, const char *rest, char path[PATH])
{
    size_t i;
    json_t *one, *found = NULL;
    int n = 0;
    if (job_is_id(word)) {
        snprintf(path, PATH, "/api/v1/sweeps/%s%s", word, rest);
        return 0;
    }
    json_t *all = session_ask(s, "GET", "/api/v1/sweeps?limit=500", NULL);
    json_array_foreach(json_object_get(all, "sweeps"), i, one) {
        if (strcmp(jsonx_string_at(one, "name"), word) == 0 ||
            strncmp(jsonx_string_at(one, "id"), word, strlen(word)) == 0) {
            found = one;
            n++;
        }
    }
    snprintf(path, PATH, "/api/v1/sweeps/%.20s%s", jsonx_string_at(found, "id"), rest);
    json_decref(all);
    if (!all) {
        return -(int)s->err.code;
    }
    if (n == 1) {
        return 0;
    }
    if (n > 0) {
        err_set(&s->err, ERR_INVALID, "%d sweeps are called '%.60s': name one by its id", n, word);
        return err_hint(&s->err, "`evenstep sweeps` lists them");
    }
    err_set(&s->err, ERR_NOT_FOUND, "there is no sweep '%.60s'", word);
    err_hint(&s->err, "`evenstep sweeps` lists them");
    session_suggest(s, "/api/v1/sweeps?limit=500", "sweeps", "name", word);
    return -(int)s->err.code;
}

/* ---- watching -------------------------------------------------------------------------------- */

static int status_of(struct session *s, const char *state)
{
    if (strcmp(state, "succeeded") == 0) {
        return STATUS_DONE;
    }
    if (strcmp(state, "cancelled") == 0) {
        return STATUS_CANCELLED;
    }
    err_set(&s->err, ERR_INTERNAL, "the sweep failed: no trial has a result");
    return STATUS_FAILED;
}

/* Prints a line whenever something has changed, until the sweep ends; then the sweep. */
static int watch(struct session *s, const char *path)
{
    char line[LINE], before[LINE] = "", state[32];
    FILE *out = s->json ? stderr : stdout;
    for (int failures = 0;; clock_sleep(period)) {
        json_t *sweep = session_ask(s, "GET", path, NULL);
        if (!sweep && (s->err.code != ERR_UNAVAILABLE || ++failures > SESSION_RETRIES)) {
            return -(int)s->err.code; /* a service that is restarted comes back */
        }
        if (!sweep) {
            continue;
        }
        failures = 0;
        err_clear(&s->err);
        progress_line(sweep, line);
        snprintf(state, sizeof state, "%s", jsonx_string_at(sweep, "state"));
        if (strcmp(state, "running") != 0 && strcmp(state, "cancelling") != 0) {
            int rc = session_print(s, sweep, print_sweep);
            return rc < 0 ? rc : status_of(s, state);
        }
        if (strcmp(line, before) != 0) {
            fprintf(out, "%s\n", line);
            fflush(out);
        }
        snprintf(before, sizeof before, "%s", line);
        json_decref(sweep);
    }
}

/* ---- the commands ---------------------------------------------------------------------------- */

static void print_plan(const json_t *plan)
{
    json_t *settings = json_object_get(plan, "settings"), *one;
    size_t i;
    int trials = (int)json_integer_value(json_object_get(plan, "trials")),
        jobs = (int)json_integer_value(json_object_get(plan, "jobs"));
    printf("%d trial%s, %d job%s\n", trials, trials == 1 ? "" : "s", jobs, jobs == 1 ? "" : "s");
    json_array_foreach(settings, i, one) {
        char *text = json_dumps(one, JSON_REAL_PRECISION(6));
        terminal_say("", "%zu  %s", i + 1, text ? text : "");
        free(text);
    }
}

int command_sweep(struct session *s)
{
    static const char start[] = "/api/v1/sweeps", check[] = "/api/v1/sweeps?dryRun=true";
    char path[PATH];
    bool dry = opt_flag(s->options, "dry-run");
    json_t *document = submit_read(session_argument(s, 0), "sweep", &s->err);
    if (!document) {
        return STATUS_USAGE;
    }
    json_t *answer = client_call(&s->client, "POST", dry ? check : start, document, &s->err);
    json_decref(document);
    if (dry) {
        return session_print(s, answer, print_plan);
    }
    if (!answer || !opt_flag(s->options, "watch")) {
        return session_print(s, answer, print_id);
    }
    snprintf(path, sizeof path, "/api/v1/sweeps/%.20s", jsonx_string_at(answer, "id"));
    if (!s->json) {
        print_id(answer);
        fflush(stdout);
    }
    json_decref(answer);
    return watch(s, path);
}

static void print_gone(const json_t *answer)
{
    (void)answer;
}

int command_sweeps(struct session *s)
{
    const char *word = session_argument(s, 0);
    bool cancels = opt_flag(s->options, "cancel"), deletes = opt_flag(s->options, "delete"),
         watches = opt_flag(s->options, "watch");
    char path[PATH];
    if (cancels + deletes + watches > (word ? 1 : 0)) {
        return err_set(&s->err, ERR_INVALID,
                       word ? "--watch, --cancel and --delete exclude each other"
                            : "which sweep? `evenstep sweeps` lists them");
    }
    if (!word) {
        bool quiet = opt_flag(s->options, "quiet");
        return session_show(s, "GET", "/api/v1/sweeps?limit=500", quiet ? print_ids : print_list);
    }
    int rc = find(s, word, cancels ? "/cancel" : "", path);
    if (rc < 0) {
        return rc;
    }
    return watches   ? watch(s, path)
           : cancels ? session_show(s, "POST", path, print_sweep)
           : deletes ? session_show(s, "DELETE", path, print_gone)
                     : session_show(s, "GET", path, print_sweep);
}
