/* A job until its end: see follow.h. The program's output is in the log of its rank, one line of
 * ours for each of its own; what is new there is read on each turn. */
#include "cli/run/follow.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/jobs/watch.h"
#include "cli/run/logline.h"
#include "common/buf.h"
#include "common/text.h"

enum { LINE_BYTES = 4096, REST_BYTES = 1 << 20 };

struct follow {
    struct session *session;
    const char *id;
    char *state;     /* [32] */
    int64_t read;    /* bytes of the log */
    struct buf rest; /* the begin of a line */
    bool terminal, cancelled;
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

/* ---- what the program prints ----------------------------------------------------------------- */

static void print_line(const struct follow *f, const char *line)
{
    char module[32], said[LINE_BYTES];
    if (logline_value(line, "mod", module, sizeof module) && strcmp(module, "program") == 0 &&
        logline_value(line, "line", said, sizeof said)) {
        fputs(f->terminal ? "\r\033[K" : "", stderr);
        text_print(stderr, said);
        fputc('\n', stderr);
    }
}

/* Whole lines are printed; what has no end yet is kept. */
static void print_lines(struct follow *f, const char *text, size_t n)
{
    buf_add(&f->rest, text, n);
    char *line = f->rest.failed ? NULL : f->rest.data, *end = NULL;
    while (line && (end = strchr(line, '\n'))) {
        *end = '\0';
        print_line(f, line);
        line = end + 1;
    }
    char *kept = line && *line ? strdup(line) : NULL;
    buf_reset(&f->rest);
    if (kept) {
        buf_adds(&f->rest, kept);
    }
    free(kept);
}

/* Output is shown as far as it can be had: a log that cannot be read ends nothing. */
static void show_output(struct follow *f)
{
    char path[256];
    struct err ignored = {0};
    size_t n = 0;
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/logs?rank=0", f->id);
    char *text = client_text(&f->session->client, path, f->read, &n, &ignored);
    if (text && n > 0) {
        f->read += (int64_t)n;
        print_lines(f, text, n);
    }
    free(text);
}

/* ---- signals --------------------------------------------------------------------------------- */

static int obey_signals(struct follow *f)
{
    char path[256];
    struct session *s = f->session;
    if (signals > 1) {
        return err_set(&s->err, ERR_CANCELLED,
                       "the end of job %.64s was not waited for; it is being cancelled", f->id);
    }
    if (signals == 0 || f->cancelled) {
        return 0;
    }
    f->cancelled = true;
    fprintf(stderr, "%scancelling the job; once more to not wait for its end\n",
            f->terminal ? "\r\033[K" : "");
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/cancel", f->id);
    struct err refused = {0}; /* it may have ended at this moment, which is seen next */
    json_decref(client_call(&s->client, "POST", path, NULL, &refused));
    return 0;
}

static int seen(void *ctx, const json_t *job)
{
    struct follow *f = ctx;
    const char *state = json_string_value(json_object_get(job, "state"));
    snprintf(f->state, 32, "%s", state ? state : "");
    show_output(f);
    return obey_signals(f);
}

int follow_job(struct session *s, const char *id, char state[32])
{
    struct follow f = {
        .session = s, .id = id, .state = state, .terminal = isatty(STDERR_FILENO) != 0};
    const struct watch how = {.out = stderr, .seen = seen, .ctx = &f};
    state[0] = '\0';
    buf_init(&f.rest, REST_BYTES);
    int status = watch_job(s, id, &how);
    buf_release(&f.rest);
    return status;
}
