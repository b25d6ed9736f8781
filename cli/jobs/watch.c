/* `evenstep watch ID`: a job's progress in the terminal until it ends; bars.h has what is drawn. On
 * a terminal it is redrawn in place; elsewhere it prints a line for each tenth of the way. The exit
 * status says how the job ended. */
#include "cli/jobs/watch.h"

#include <string.h>

#include "cli/jobs/bars.h"
#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "common/text/terminal.h"
#include "common/clock.h"
#include "common/json/jsonx.h"

static const double period = 0.5, patience = 120; /* seconds; patience: for a service that is
                                                     away */

static const char *state_of(const json_t *job)
{
    return jsonx_string_at(job, "state");
}

static bool has_ended(const char *state)
{
    return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0;
}

struct view {
    FILE *out;
    bool terminal, nodes;
    int below; /* lines below the job's own that were last drawn */
    int tenth; /* the last tenth printed, without a terminal */
    char state[32];
    double began, from; /* when the estimate began, and at which fraction */
};

/* Redraws in place. The cursor stays after the last line, where the shell goes on if the command is
 * interrupted. */
static void draw_over(struct view *v, const json_t *job, double left)
{
    char line[BARS_LINE];
    int width = terminal_width(v->out) - 1, most = terminal_height(v->out) - 3;
    if (v->below > 0) {
        fprintf(v->out, "\033[%dA", v->below);
    }
    bars_job(job, left, width > 0 ? width : 0, line);
    fprintf(v->out, "\r\033[J%s", line);
    v->below = v->nodes ? bars_nodes(job, width, most, v->out) : 0;
}

static void show(struct view *v, const json_t *job)
{
    char line[BARS_LINE];
    const char *state = state_of(job);
    double fraction = json_number_value(column_get(job, "progress.fraction")), now = clock_now(),
           left = 0;
    if (strcmp(v->state, state) != 0) {
        snprintf(v->state, sizeof v->state, "%s", state);
        v->began = now;
        v->from = fraction;
        v->tenth = -1;
    }
    if (strcmp(state, "running") == 0 && fraction > v->from && now - v->began > 3) {
        left = (1 - fraction) * (now - v->began) / (fraction - v->from);
    }
    if (v->terminal) {
        draw_over(v, job, left);
    } else if ((int)(fraction * 10) != v->tenth) {
        v->tenth = (int)(fraction * 10);
        bars_job(job, left, 0, line);
        fprintf(v->out, "%s\n", line);
    }
    fflush(v->out);
}

static int result(struct session *s, struct view *v, const json_t *job)
{
    const char *why = json_string_value(column_get(job, "error.message"));
    v->tenth = -1;
    show(v, job);
    fputs(v->terminal ? "\n" : "", v->out);
    if (strcmp(state_of(job), "succeeded") == 0) {
        return STATUS_DONE;
    }
    if (strcmp(state_of(job), "cancelled") == 0) {
        return STATUS_CANCELLED;
    }
    err_set(&s->err, ERR_INTERNAL, "the job failed: %s", why ? why : "no reason is known");
    return STATUS_FAILED;
}

bool watch_waits(const struct session *s, struct outage *away)
{
    double now = clock_now();
    if (s->err.code != ERR_UNAVAILABLE || (away->since > 0 && now - away->since > patience)) {
        return false;
    }
    if (away->since == 0) {
        away->since = now;
    } else if (!away->told) { /* a single missing answer is not reported */
        away->told = true;
        fprintf(stderr, "%sthe service does not answer: waiting up to %.0f s for it\n",
                terminal_draws(stderr) ? "\r\033[K" : "", patience);
    }
    return true;
}

void watch_has_answer(struct session *s, struct outage *away)
{
    if (away->told) {
        fprintf(stderr, "the service is there again\n");
    }
    *away = (struct outage){0};
    err_clear(&s->err);
}

int watch_job(struct session *s, const char *id, const struct watch *how)
{
    struct view v = {.out = how->out, .nodes = how->nodes, .tenth = -1};
    char path[256];
    struct outage away = {0};
    int status = job_path(s, id, "", path);
    v.terminal = terminal_draws(how->out);
    for (bool ended = status < 0; !ended; clock_sleep(ended ? 0 : period)) {
        terminal_end_unread(how->out);
        json_t *job = session_ask(s, "GET", path, NULL);
        if (!job && !watch_waits(s, &away)) {
            return -(int)s->err.code;
        }
        if (job) {
            watch_has_answer(s, &away);
        }
        if (how->seen && (status = how->seen(how->ctx, job)) < 0) {
            ended = true;
        } else if (job) {
            ended = has_ended(state_of(job));
            if (ended) {
                status = result(s, &v, job);
            } else {
                show(&v, job);
            }
        }
        json_decref(job);
    }
    return status;
}

static void print_nothing(const json_t *job)
{
    (void)job;
}

int watch_to_end(struct session *s, const char *id)
{
    const struct watch how = {.out = s->json ? stderr : stdout, .nodes = true};
    char path[256];
    int status = watch_job(s, id, &how);
    if (s->json && status >= 0) {
        struct err failed = s->err;
        err_clear(&s->err);
        snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
        int rc = session_show(s, "GET", path, print_nothing);
        if (rc < 0) {
            return rc;
        }
        s->err = failed;
    }
    return status;
}

int command_watch(struct session *s)
{
    char id[JOB_ID_BYTES];
    int rc = job_find(s, session_argument(s, 0), id);
    return rc < 0 ? rc : watch_to_end(s, id);
}
