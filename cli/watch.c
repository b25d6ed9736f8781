/* `evenstep watch ID`: a job's progress in the terminal until it ends.
 *
 *   [██████████▍              ]  41 %  epoch 2.1/5  loss 0.0812  accuracy 97.91 %  …  1:12 left
 *
 * On a terminal one line is drawn over and over; elsewhere there is a line per tenth of the job. Exit status: 0
 * succeeded, 1 otherwise. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "common/clock.h"

enum { BAR = 26, RETRIES = 40 };
static const double period = 0.5;

static double number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static const char *state_of(const json_t *job)
{
    const char *s = json_string_value(json_object_get(job, "state"));
    return s ? s : "";
}

static bool has_ended(const char *state)
{
    return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0;
}

static void draw_bar(double fraction, char out[BAR * 3 + 1])
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int full = (int)(fraction * BAR * 8);
    char *at = out;
    for (int i = 0; i < BAR; i++) {
        int here = full - 8 * i;
        const char *cell = here >= 8 ? "█" : eighths[here > 0 ? here : 0];
        at = stpcpy(at, cell);
    }
}

static void describe(const json_t *job, double left, char *out, size_t size)
{
    const json_t *progress = json_object_get(job, "progress"),
                 *metrics = json_object_get(job, "metrics");
    const json_t *accuracy = json_object_get(metrics, "test_accuracy"),
                 *recent = json_object_get(job, "staleness_recent");
    char bar[BAR * 3 + 1], loss[48] = "", tested[48] = "", speed[96] = "", eta[48] = "";
    double fraction = number(progress, "fraction");
    draw_bar(fraction < 0 ? 0 : fraction > 1 ? 1 : fraction, bar);
    if (json_is_number(json_object_get(metrics, "train_loss"))) {
        snprintf(loss, sizeof loss, "  loss %.4g", number(metrics, "train_loss"));
    }
    if (number(metrics, "samples_per_second") > 0) {
        snprintf(speed, sizeof speed, "  %.0f samples/s  staleness %.1f",
                 number(metrics, "samples_per_second"), number(recent, "update_mean"));
    }
    if (json_is_number(accuracy)) {
        snprintf(tested, sizeof tested, "  accuracy %.2f %%", 100 * json_number_value(accuracy));
    }
    if (left > 0) {
        snprintf(eta, sizeof eta, "  about %d:%02d left", (int)left / 60, (int)left % 60);
    }
    snprintf(out, size, "%s [%s] %3.0f %%  epoch %.1f/%.0f%s%s%s%s", state_of(job), bar,
             100 * fraction, number(progress, "epoch"), number(progress, "epochs"), loss, tested,
             speed, eta);
}

struct view {
    FILE *out;
    bool terminal;
    int tenth; /* printed last, without a terminal */
    char state[32];
    double began, from; /* of the estimate: when, at which fraction */
};

static void show(struct view *v, const json_t *job)
{
    char line[400];
    const char *state = state_of(job);
    double fraction = number(json_object_get(job, "progress"), "fraction"), now = clock_now(),
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
    describe(job, left, line, sizeof line);
    if (v->terminal) {
        fprintf(v->out, "\r\033[K%s", line);
    } else if ((int)(fraction * 10) != v->tenth) {
        v->tenth = (int)(fraction * 10);
        fprintf(v->out, "%s\n", line);
    }
    fflush(v->out);
}

static int result(struct session *s, struct view *v, const json_t *job)
{
    const char *why = json_string_value(json_object_get(json_object_get(job, "error"), "message"));
    v->tenth = -1;
    show(v, job);
    if (v->terminal) {
        fprintf(v->out, "\n");
    }
    if (strcmp(state_of(job), "failed") == 0) {
        err_set(&s->err, ERR_INTERNAL, "the job failed: %s", why ? why : "no reason is known");
    }
    return strcmp(state_of(job), "succeeded") == 0 ? 0 : 1;
}

int watch_job(struct session *s, const char *id, const struct watch *how)
{
    FILE *out = how ? how->out : stdout;
    struct view v = {.out = out, .terminal = isatty(fileno(out)), .tenth = -1};
    char path[256];
    int failures = 0, status = job_path(s, id, "", path);
    for (bool ended = status < 0; !ended; clock_sleep(ended ? 0 : period)) {
        json_t *job = session_ask(s, "GET", path, NULL);
        if (!job && (s->err.code != ERR_UNAVAILABLE || ++failures > RETRIES)) {
            return -(int)s->err.code; /* a service that is restarted comes back */
        }
        if (job) {
            failures = 0;
            err_clear(&s->err);
        }
        if (job && how && how->seen && (status = how->seen(how->ctx, job)) < 0) {
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

int command_watch(int argc, char **argv)
{
    static const struct opt table[] = {CLIENT_OPTIONS, {0}};
    struct session s;
    int rc = session_open(&s, table, "evenstep watch ID", 1, argc, argv);
    if (rc > 0) {
        return rc == 1 ? 0 : rc;
    }
    int status = watch_job(&s, opt_positional(s.options, 0), NULL);
    rc = session_close(&s, s.err.code != ERR_NONE);
    return rc ? rc : status;
}
