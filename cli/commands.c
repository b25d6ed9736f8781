/* The short commands: submit, jobs, show, cancel, pause, resume, nodes, catalog, link. Tables for
 * people; --json for programs. */
#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>

#include "cli/session.h"
#include "common/buf.h"
#include "common/jsonx.h"

enum { SPEC_BYTES = 16 << 20 };

static const struct opt options[] = {CLIENT_OPTIONS, {0}};

static const char *text(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "-";
}

static double number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

/* ---- submit ---------------------------------------------------------------------------------- */

static json_t *read_spec(const char *path, struct err *e)
{
    if (strcmp(path, "-") != 0) {
        json_t *j = jsonx_load(path, SPEC_BYTES, e);
        if (!j) {
            err_prefix(e, "cannot read the job");
        }
        return j;
    }
    struct buf b;
    char chunk[65536];
    size_t n;
    buf_init(&b, SPEC_BYTES);
    while ((n = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
        buf_add(&b, chunk, n);
    }
    json_t *j = b.failed ? NULL : jsonx_parse(b.data ? b.data : "", b.len, e);
    if (b.failed) {
        err_set(e, ERR_TOO_LARGE, "the job on standard input is larger than %d bytes", SPEC_BYTES);
    }
    buf_release(&b);
    return j;
}

int command_submit(int argc, char **argv)
{
    static const struct opt table[] = {
        {"dry-run", NULL, OPT_FLAG, NULL, 0, 0, "only checks the job and says where it would run"},
        {"watch", NULL, OPT_FLAG, NULL, 0, 0, "shows its progress until it ends"},
        CLIENT_OPTIONS,
        {0},
    };
    struct session s;
    int rc = session_open(&s, table, "evenstep submit FILE|-", 1, argc, argv);
    if (rc > 0) {
        return rc == 1 ? 0 : rc;
    }
    bool dry = opt_flag(s.options, "dry-run"), watch = opt_flag(s.options, "watch") && !dry;
    json_t *spec = read_spec(opt_positional(s.options, 0), &s.err);
    json_t *answer =
        spec ? session_call(&s, "POST", dry ? "/api/v1/jobs?dryRun=true" : "/api/v1/jobs", spec)
             : NULL;
    char id[64] = "";
    if (answer && dry) {
        char *shown = jsonx_dump(answer, true, NULL);
        printf("%s\n", shown ? shown : "");
        free(shown);
    } else if (answer) {
        snprintf(id, sizeof id, "%s", text(answer, "id"));
        printf("%s\n", id);
    }
    json_decref(answer);
    json_decref(spec);
    fflush(stdout);
    int status = watch && id[0] ? watch_job(&s, id, NULL) : 0;
    rc = session_close(&s, s.err.code != ERR_NONE);
    return rc ? rc : status;
}

/* ---- jobs and nodes -------------------------------------------------------------------------- */

/* "-" where nothing is known yet; else the number, scaled, in this format. */
static const char *figure(char out[32], const json_t *j, const char *key, const char *format,
                          double scale)
{
    const json_t *v = json_object_get(j, key);
    snprintf(out, 32, "-");
    if (json_is_number(v)) {
        snprintf(out, 32, format, scale * json_number_value(v));
    }
    return out;
}

static void print_jobs(const json_t *jobs)
{
    char accuracy[32];
    size_t i;
    json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        const json_t *progress = json_object_get(job, "progress"),
                     *metrics = json_object_get(job, "metrics");
        printf("%-18s %-24.24s %-11s %7.0f %% %9s  %s\n", text(job, "id"), text(job, "name"),
               text(job, "state"), 100 * number(progress, "fraction"),
               figure(accuracy, metrics, "test_accuracy", "%.2f %%", 100), text(job, "created"));
    }
}

/* The newest first, page by page, `most` of them. */
static void list_jobs(struct session *s, const char *state, long most)
{
    char path[1024], cursor[512] = "";
    for (long left = most; left > 0;) {
        snprintf(path, sizeof path, "/api/v1/jobs?limit=%ld%s%.32s%s%s", left < 100 ? left : 100,
                 state ? "&state=" : "", state ? state : "", cursor[0] ? "&cursor=" : "", cursor);
        json_t *answer = session_call(s, "GET", path, NULL);
        const json_t *jobs = json_object_get(answer, "jobs");
        const char *next = json_string_value(json_object_get(answer, "next"));
        if (answer && !cursor[0]) {
            printf("%-18s %-24s %-11s %9s %9s  %s\n", "id", "name", "state", "done", "accuracy",
                   "created");
        }
        print_jobs(jobs);
        left = next && json_array_size(jobs) > 0 ? left - (long)json_array_size(jobs) : 0;
        snprintf(cursor, sizeof cursor, "%s", next ? next : "");
        json_decref(answer);
    }
}

int command_jobs(int argc, char **argv)
{
    static const struct opt table[] = {
        {"state", "STATE", OPT_STRING, NULL, 0, 0, "only jobs in this state"},
        {"limit", "N", OPT_INT, "100", 1, 100000, "so many at most, the newest"},
        CLIENT_OPTIONS,
        {0},
    };
    struct session s;
    int rc = session_open(&s, table, "evenstep jobs", 0, argc, argv);
    if (rc > 0) {
        return rc == 1 ? 0 : rc;
    }
    const char *state = opt_string(s.options, "state");
    if (state && state[strspn(state, "abcdefghijklmnopqrstuvwxyz")]) {
        err_set(&s.err, ERR_INVALID, "there is no state '%.40s'", state);
    } else {
        list_jobs(&s, state, opt_int(s.options, "limit"));
    }
    return session_close(&s, s.err.code != ERR_NONE);
}

int command_nodes(int argc, char **argv)
{
    struct session s;
    int rc = session_open(&s, options, "evenstep nodes", 0, argc, argv);
    if (rc > 0) {
        return rc == 1 ? 0 : rc;
    }
    json_t *answer = session_call(&s, "GET", "/api/v1/nodes", NULL);
    if (answer) {
        size_t i;
        json_t *node;
        printf("%-20s %-20s %-10s %9s %-10s %s\n", "node", "host", "device", "slowdown", "state",
               "job");
        json_array_foreach(json_object_get(answer, "nodes"), i, node) {
            const json_t *slowdown = json_object_get(node, "slowdown");
            printf("%-20s %-20.20s %-10s %9.2f %-10s %s\n", text(node, "name"), text(node, "host"),
                   text(node, "device"),
                   json_is_number(slowdown) ? json_number_value(slowdown) : 1.0,
                   text(node, "state"), text(node, "job"));
        }
    }
    json_decref(answer);
    return session_close(&s, s.err.code != ERR_NONE);
}

/* ---- one job --------------------------------------------------------------------------------- */

int job_path(struct session *s, const char *id, const char *rest, char out[256])
{
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    if (!*id || id[strspn(id, letters)] || strlen(id) > 100) {
        return err_set(&s->err, ERR_INVALID,
                       "'%.40s' is no id of a job; `evenstep jobs` lists them", id);
    }
    snprintf(out, 256, "/api/v1/jobs/%s%s", id, rest);
    return 0;
}

static int on_job(const char *usage, const char *method, const char *what, int argc, char **argv,
                  void (*print)(const json_t *job))
{
    struct session s;
    char path[256];
    int rc = session_open(&s, options, usage, 1, argc, argv);
    if (rc > 0) {
        return rc == 1 ? 0 : rc;
    }
    rc = job_path(&s, opt_positional(s.options, 0), what, path);
    json_t *answer = rc < 0 ? NULL : session_call(&s, method, path, NULL);
    if (answer) {
        print(answer);
    }
    json_decref(answer);
    return session_close(&s, s.err.code != ERR_NONE);
}

static void print_state(const json_t *job)
{
    printf("%s %s\n", text(job, "id"), text(job, "state"));
}

static void print_workers(const json_t *workers)
{
    size_t i;
    json_t *w;
    if (json_array_size(workers) == 0) {
        return;
    }
    printf("  %4s %-16s %-8s %9s %11s %11s %9s %9s  %s\n", "rank", "node", "device", "minibatch",
           "samples/s", "compute ms", "wait ms", "staleness", "state");
    json_array_foreach((json_t *)workers, i, w) {
        printf("  %4.0f %-16s %-8s %9.0f %11.0f %11.1f %9.1f %9.2f  %s\n", number(w, "rank"),
               text(w, "node"), text(w, "device"), number(w, "batch"),
               number(w, "samples_per_second"), 1e3 * number(w, "compute_seconds"),
               1e3 * number(w, "wait_seconds"), number(json_object_get(w, "staleness"), "mean"),
               text(w, "state"));
    }
}

static void print_job(const json_t *job)
{
    const json_t *progress = json_object_get(job, "progress"),
                 *metrics = json_object_get(job, "metrics");
    const json_t *staleness = json_object_get(job, "staleness"),
                 *error = json_object_get(job, "error");
    char a[32], b[32], c[32], d[32], e[32];
    printf("%s  %s  %s, attempt %.0f\n", text(job, "id"), text(job, "name"), text(job, "state"),
           number(job, "attempt"));
    if (strcmp(text(job, "state"), "queued") == 0 &&
        json_is_string(json_object_get(job, "waiting"))) {
        printf("  waits: %s\n", text(job, "waiting"));
    }
    if (json_object_size(progress) > 0) {
        printf("  epoch %.2f of %.0f, step %.0f, %.0f samples\n", number(progress, "epoch"),
               number(progress, "epochs"), number(progress, "step"), number(progress, "samples"));
        printf("  train loss %s, test loss %s, test accuracy %s, %s samples/s, %s per step\n",
               figure(a, metrics, "train_loss", "%.4f", 1),
               figure(b, metrics, "test_loss", "%.4f", 1),
               figure(c, metrics, "test_accuracy", "%.2f %%", 100),
               figure(d, metrics, "samples_per_second", "%.0f", 1),
               figure(e, metrics, "step_seconds", "%.1f ms", 1e3));
        printf("  staleness: %s over updates, %s over nodes, p95 %s, at most %s\n",
               figure(a, staleness, "update_mean", "%.2f", 1),
               figure(b, staleness, "node_mean", "%.2f", 1), figure(c, staleness, "p95", "%.0f", 1),
               figure(d, staleness, "max", "%.0f", 1));
    }
    if (json_is_object(error)) {
        printf("  error: %s\n", text(error, "message"));
    }
    print_workers(json_object_get(job, "workers"));
}

int command_show(int argc, char **argv)
{
    return on_job("evenstep show ID", "GET", "", argc, argv, print_job);
}

int command_cancel(int argc, char **argv)
{
    return on_job("evenstep cancel ID", "POST", "/cancel", argc, argv, print_state);
}

int command_pause(int argc, char **argv)
{
    return on_job("evenstep pause ID", "POST", "/pause", argc, argv, print_state);
}

int command_resume(int argc, char **argv)
{
    return on_job("evenstep resume ID", "POST", "/resume", argc, argv, print_state);
}

/* ---- catalogue and link ---------------------------------------------------------------------- */

static void print_parameters(const json_t *parameters)
{
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)parameters, i, p) {
        const json_t *given = json_object_get(p, "default");
        char *fallback = given ? jsonx_dump(given, false, NULL) : NULL;
        printf("      %-16s %-16s %s%s%s%s\n", text(p, "name"), text(p, "type"), text(p, "help"),
               fallback ? " (default " : "",
               fallback                                       ? fallback
               : json_is_true(json_object_get(p, "required")) ? " (required)"
                                                              : "",
               fallback ? ")" : "");
        free(fallback);
    }
}

/* A preset has a number of parameters; anything else, parameters that a job may set. */
static void print_entry(const json_t *entry)
{
    const json_t *parameters = json_object_get(entry, "parameters");
    if (json_is_integer(parameters)) {
        printf("  %-16s %" JSON_INTEGER_FORMAT " parameters\n", text(entry, "name"),
               json_integer_value(parameters));
        return;
    }
    printf("  %-16s %s\n", text(entry, "name"), text(entry, "help"));
    print_parameters(parameters);
}

int command_catalog(int argc, char **argv)
{
    struct session s;
    int rc = session_open(&s, options, "evenstep catalog", 0, argc, argv);
    if (rc > 0) {
        return rc == 1 ? 0 : rc;
    }
    json_t *answer = session_call(&s, "GET", "/api/v1/catalog", NULL);
    const char *kind;
    json_t *entries, *entry;
    json_object_foreach(answer, kind, entries) {
        size_t i;
        printf("%s\n", kind);
        json_array_foreach(entries, i, entry) {
            if (json_is_object(entry)) {
                print_entry(entry);
            } else if (json_is_string(entry)) {
                printf("  %s\n", json_string_value(entry));
            }
        }
    }
    json_decref(answer);
    return session_close(&s, s.err.code != ERR_NONE);
}

int command_link(int argc, char **argv)
{
    struct session s;
    int rc = session_open(&s, options, "evenstep link", 0, argc, argv);
    if (rc > 0) {
        return rc == 1 ? 0 : rc;
    }
    json_t *answer = session_call(&s, "POST", "/api/v1/link", NULL);
    if (answer) {
        printf("%s\n", text(answer, "url"));
    }
    json_decref(answer);
    return session_close(&s, s.err.code != ERR_NONE);
}
