/* A job until its end: see follow.h. The program's output is in the log of its rank, one line of
 * ours for each of its own; what is new there is read on each turn. */
#include "cli/run/follow.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/jobs/watch.h"
#include "cli/run/absent.h"
#include "common/json/jsonx.h"
#include "common/text/buf.h"
#include "common/text/logline.h"
#include "common/text/terminal.h"
#include "common/text/text.h"

enum { LINE_BYTES = 4096, REST_BYTES = 1 << 20, RANKS_MOST = 16 };

/* The log of one rank. */
struct tail {
    int64_t read;    /* bytes of it */
    struct buf rest; /* the begin of a line */
};

struct follow {
    struct session *session;
    const char *id;
    struct followed *last;
    struct tail tails[RANKS_MOST];
    bool terminal, told, cancelled;
};

static volatile sig_atomic_t first_signal, signals;

static void on_signal(int sig)
{
    first_signal = first_signal ? first_signal : sig;
    signals++;
}

void follow_catch_signals(void)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}, was;
    first_signal = signals = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sigaction(all[i], &action, &was);
        if (was.sa_handler == SIG_IGN) { /* nohup, or the shell's background */
            sigaction(all[i], &was, NULL);
        }
    }
}

int follow_signal(void)
{
    return first_signal;
}

bool follow_hurries(void)
{
    return signals > 1;
}

/* ---- what the program prints ----------------------------------------------------------------- */

/* Keeps a line that the library prints within the program (client/python/evenstep/run.py). */
static void keep_told(const struct follow *f, const char *said)
{
    static const char own[] = "evenstep: ";
    size_t i;
    json_t *known;
    if (strncmp(said, own, sizeof own - 1) != 0) {
        return;
    }
    said += sizeof own - 1;
    json_array_foreach(f->last->told, i, known) {
        if (strcmp(json_string_value(known), said) == 0) {
            return;
        }
    }
    json_array_append_new(f->last->told, jsonx_text(said));
}

/* What a program prints, of rank 0; that one has ended and is started again, of each rank. */
static void print_line(const struct follow *f, int rank, const char *line)
{
    char module[32], what[64], said[LINE_BYTES];
    if (!logline_value(line, "mod", module, sizeof module) || strcmp(module, "program") != 0) {
        return;
    }
    bool known = logline_value(line, "msg", what, sizeof what),
         again = known && strcmp(what, "is started again") == 0 &&
                 logline_value(line, "why", said, sizeof said);
    if (again || (rank == 0 && logline_value(line, "line", said, sizeof said))) {
        if (known && strcmp(what, "says") == 0) {
            keep_told(f, said);
        }
        fputs(f->terminal ? "\r\033[K" : "", stderr);
        text_print(stderr, said);
        fputs(again ? "; it is started again\n" : "\n", stderr);
    }
}

/* Whole lines are printed; what has no end yet is kept. */
static void print_lines(struct follow *f, int rank, const char *text, size_t n)
{
    struct buf *rest = &f->tails[rank].rest;
    buf_add(rest, text, n);
    char *line = rest->failed ? NULL : rest->data, *end = NULL;
    while (line && (end = strchr(line, '\n'))) {
        *end = '\0';
        print_line(f, rank, line);
        line = end + 1;
    }
    char *kept = line && *line ? strdup(line) : NULL;
    buf_reset(rest);
    if (kept) {
        buf_adds(rest, kept);
    }
    free(kept);
}

/* Output is shown as far as it can be had: a log that cannot be read ends nothing. */
static void show_output(struct follow *f, int rank)
{
    char path[256];
    struct err ignored = {0};
    struct tail *t = &f->tails[rank];
    size_t n = 0;
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/logs?rank=%d", f->id, rank);
    char *text = client_text(&f->session->client, path, t->read, &n, &ignored);
    if (text && n > 0) {
        t->read += (int64_t)n;
        print_lines(f, rank, text, n);
    }
    free(text);
}

/* ---- signals --------------------------------------------------------------------------------- */

static int obey_signals(struct follow *f)
{
    char path[256];
    struct session *s = f->session;
    if (follow_hurries()) {
        return f->cancelled
                   ? err_set(&s->err, ERR_CANCELLED,
                             "the end of job %.64s was not waited for; it is being cancelled",
                             f->id)
                   : err_set(&s->err, ERR_UNAVAILABLE,
                             "job %.64s goes on: the service does not answer", f->id);
    }
    if (signals == 0 || f->cancelled) {
        return 0;
    }
    if (!f->told) {
        f->told = true;
        fprintf(stderr, "%scancelling the job; once more to not wait for its end\n",
                f->terminal ? "\r\033[K" : "");
    }
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/cancel", f->id);
    struct err refused = {0}; /* it may have ended at this moment, which is seen next */
    json_decref(client_call(&s->client, "POST", path, NULL, &refused));
    f->cancelled = refused.code != ERR_UNAVAILABLE; /* a service that is back is asked again */
    return 0;
}

static int seen(void *ctx, const json_t *job)
{
    struct follow *f = ctx;
    if (!job) {
        return obey_signals(f);
    }
    const char *state = json_string_value(json_object_get(job, "state"));
    snprintf(f->last->state, sizeof f->last->state, "%s", state ? state : "");
    absent_named(job, f->last->absent, sizeof f->last->absent);
    json_int_t workers =
        json_integer_value(json_object_get(json_object_get(job, "spec"), "workers"));
    for (int rank = 0; rank < RANKS_MOST && (rank == 0 || rank < workers); rank++) {
        show_output(f, rank);
    }
    return obey_signals(f);
}

/* The service is away or asks for another token; what becomes of the job is not known here. */
static void tell_lost(const struct follow *f)
{
    if (first_signal && !f->cancelled) {
        err_hint(&f->session->err,
                 "the job was not told to end: `evenstep cancel %.64s` does that once the service "
                 "is there",
                 f->id);
    } else {
        err_hint(&f->session->err,
                 "the job goes on without this command: `evenstep watch %.64s` follows it, "
                 "`evenstep download %.64s` brings its results",
                 f->id, f->id);
    }
}

int follow_job(struct session *s, const char *id, struct followed *last)
{
    struct follow f = {.session = s, .id = id, .last = last, .terminal = terminal_draws(stderr)};
    const struct watch how = {.out = stderr, .seen = seen, .ctx = &f};
    *last = (struct followed){.told = json_array()};
    for (int i = 0; i < RANKS_MOST; i++) {
        buf_init(&f.tails[i].rest, REST_BYTES);
    }
    int status = watch_job(s, id, &how);
    if (status == -ERR_UNAVAILABLE || status == -ERR_UNAUTHORIZED) {
        tell_lost(&f);
    }
    for (int i = 0; i < RANKS_MOST; i++) {
        buf_release(&f.tails[i].rest);
    }
    return status;
}
