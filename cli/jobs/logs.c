/* `evenstep logs`: the launcher's log of a job, or a rank's, whole or as it grows, or the last
 * lines of all. With --json each line is an object of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "common/text/buf.h"
#include "common/clock.h"
#include "common/json/jsonx.h"
#include "common/text/terminal.h"
#include "common/text/text.h"

enum { LINE_BYTES = 16 << 20 };
static const double period = 0.5;

const struct opt logs_options[] = {
    {"follow", NULL, OPT_FLAG, NULL, 0, 0, "goes on with what is written until the job ends (-f)"},
    {"rank", "N", OPT_INT, NULL, 0, 4095, "the log of this rank; without it the launcher's"},
    {"all", NULL, OPT_FLAG, NULL, 0, 0,
     "the last lines of all logs (200 of each without --tail), each with its log's name in front"},
    {"tail", "N", OPT_INT, NULL, 1, 100000, "begins with the last so many lines"},
    {0},
};

struct log {
    struct session *session;
    char path[256]; /* of the log */
    char job[128];  /* of the job */
    int64_t read;   /* bytes */
    struct buf rest;
};

/* Splits "rank-3: text" into the text and 3; "launcher: text" has no rank. */
static const char *without_name(const char *line, long *rank)
{
    static const char before[] = "rank-";
    const char *text = strstr(line, ": ");
    *rank =
        strncmp(line, before, strlen(before)) == 0 ? strtol(line + strlen(before), NULL, 10) : -1;
    return text ? text + 2 : line;
}

static void print_line(const struct log *l, const char *line)
{
    const struct session *s = l->session;
    if (!s->json) {
        text_print(stdout, line);
        putchar('\n');
        return;
    }
    long of = opt_given(s->options, "rank") ? opt_int(s->options, "rank") : -1;
    if (opt_flag(s->options, "all")) {
        line = without_name(line, &of);
    }
    json_t *rank = of >= 0 ? json_integer(of) : json_null();
    json_t *j = json_pack("{s:o, s:o}", "rank", rank, "line", jsonx_text(line));
    char *dumped = jsonx_dump(j, false, NULL);
    text_print(stdout, dumped ? dumped : "");
    putchar('\n');
    free(dumped);
    json_decref(j);
}

/* Prints whole lines. A last one without an end waits for it, unless the log has ended. */
static void print_lines(struct log *l, const char *text, bool ended)
{
    buf_adds(&l->rest, text);
    char *line = l->rest.failed ? NULL : l->rest.data, *end;
    while (line && (end = strchr(line, '\n'))) {
        *end = '\0';
        print_line(l, line);
        line = end + 1;
    }
    char *kept = line && *line ? strdup(line) : NULL;
    buf_reset(&l->rest);
    if (kept && ended) {
        print_line(l, kept);
    } else if (kept) {
        buf_adds(&l->rest, kept);
    }
    free(kept);
    fflush(stdout);
}

/* Where the last lines that are wanted begin. */
static size_t tail_begin(const char *text, size_t n, long lines)
{
    size_t at = n;
    for (long seen = 0; at > 0; at--) {
        if (text[at - 1] == '\n' && at < n && ++seen == lines) {
            return at;
        }
    }
    return 0;
}

static int read_on(struct log *l, bool ended)
{
    struct session *s = l->session;
    size_t n = 0, begin = 0;
    char *text = client_text(&s->client, l->path, l->read, &n, &s->err);
    if (!text) {
        return -(int)s->err.code;
    }
    if (l->read == 0 && opt_given(s->options, "tail") && !opt_flag(s->options, "all")) {
        begin = tail_begin(text, n, opt_int(s->options, "tail"));
    }
    l->read += (int64_t)n;
    print_lines(l, n > 0 ? text + begin : "", ended);
    free(text);
    return 0;
}

/* Has the job ended? 1: yes; 0: no; negative: an error. */
static int has_ended(struct log *l)
{
    static const char *const final[] = {"succeeded", "failed", "cancelled"};
    struct session *s = l->session;
    json_t *job = client_call(&s->client, "GET", l->job, NULL, &s->err);
    const char *state = jsonx_string_at(job, "state");
    int rc = job ? 0 : -(int)s->err.code;
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
        rc = strcmp(state, final[i]) == 0 ? 1 : rc;
    }
    json_decref(job);
    return rc;
}

/* Follows the log. It asks for the job's state first, so that the log then has all that was written
 * before its end. A rank's log appears with the rank, and a service that is restarted comes
 * back. */
static int follow(struct log *l)
{
    struct session *s = l->session;
    for (int failures = 0;; clock_sleep(period)) {
        terminal_end_unread(stdout);
        int ended = has_ended(l), rc = ended < 0 ? ended : read_on(l, ended > 0);
        if (rc == 0 && (ended > 0 || ferror(stdout))) { /* main.c reports what was not written */
            return 0;
        }
        bool is_waited_for = rc == -ERR_NOT_FOUND && ended == 0;
        failures = rc == -ERR_UNAVAILABLE ? failures + 1 : 0;
        if (rc < 0 && !is_waited_for && (rc != -ERR_UNAVAILABLE || failures > SESSION_RETRIES)) {
            return rc;
        }
        err_clear(&s->err);
    }
}

/* Writes the query of the log's address. */
static int query_of(struct session *s, char out[64])
{
    const struct opt_values *o = s->options;
    bool all = opt_flag(o, "all");
    out[0] = '\0';
    if (all && (opt_given(o, "rank") || opt_flag(o, "follow"))) {
        return err_set(&s->err, ERR_INVALID, "--all excludes --rank and --follow");
    }
    if (all && opt_given(o, "tail")) {
        snprintf(out, 64, "?all=true&tail=%ld", opt_int(o, "tail"));
    } else if (all) {
        snprintf(out, 64, "?all=true");
    } else if (opt_given(o, "rank")) {
        snprintf(out, 64, "?rank=%ld", opt_int(o, "rank"));
    }
    return 0;
}

/* Says why there is no line, and which log has some. */
static void tell_empty(struct log *l, bool of_launcher)
{
    struct session *s = l->session;
    json_t *job = client_call(&s->client, "GET", l->job, NULL, &s->err);
    bool is_virtual = json_is_object(json_object_get(json_object_get(job, "spec"), "cluster"));
    json_decref(job);
    err_clear(&s->err);
    fprintf(stderr, "this log is empty%s\n",
            is_virtual    ? "; a virtual job is one process, which writes a line where it fails: "
                            "`evenstep events` and `show` say how it went"
            : of_launcher ? "; --rank N and --all show those of the ranks"
                          : "");
}

int command_logs(struct session *s)
{
    struct log l = {.session = s};
    const struct opt_values *o = s->options;
    char query[64], id[JOB_ID_BYTES];
    int rc = query_of(s, query);
    if (rc < 0 || (rc = job_find(s, session_argument(s, 0), id)) < 0) {
        return rc;
    }
    snprintf(l.job, sizeof l.job, "/api/v1/jobs/%s", id);
    snprintf(l.path, sizeof l.path, "%s/logs%s", l.job, query);
    buf_init(&l.rest, LINE_BYTES);
    rc = opt_flag(o, "follow") ? follow(&l) : read_on(&l, true);
    if (rc >= 0 && l.read == 0 && !s->json) {
        tell_empty(&l, !query[0]);
    }
    buf_release(&l.rest);
    return rc;
}
