/* `evenstep show`: a job in a few lines, and its workers as a table. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/jobs/bars.h"
#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "common/text/terminal.h"
#include "common/text/text.h"

static const struct column workers[] = {
    {"rank", "rank", COLUMN_COUNT},
    {"node", "node", COLUMN_TEXT},
    {"device", "device", COLUMN_TEXT},
    {"minibatch", "batch", COLUMN_COUNT},
    {"samples/s", "samples_per_second", COLUMN_COUNT},
    {"load ms", "load_seconds", COLUMN_MS},
    {"compute ms", "compute_seconds", COLUMN_MS},
    {"exchange ms", "exchange_seconds", COLUMN_MS},
    {"wait ms", "wait_seconds", COLUMN_MS},
    {"staleness", "staleness.mean", COLUMN_NUMBER},
    {"state", "state", COLUMN_TEXT},
    COLUMNS_END,
};

static const struct column servers[] = {
    {"rank", "rank", COLUMN_COUNT},       {"server on", "host", COLUMN_TEXT},
    {"version", "version", COLUMN_COUNT}, {"busy", "busy_fraction", COLUMN_PERCENT},
    {"state", "state", COLUMN_TEXT},      COLUMNS_END,
};

/* Columns for a job without a server, whose ranks send each other gradients or parameters. */
static const struct column keepers[] = {
    {"rank", "rank", COLUMN_COUNT},
    {"keeper on", "host", COLUMN_TEXT},
    {"state", "state", COLUMN_TEXT},
    COLUMNS_END,
};

struct shown {
    char text[COLUMN_BYTES_MOST];
};

/* The value at a path as text, in a buffer that lives until the end of the statement. */
#define SHOWN(job, path, kind) column_text((struct shown){{0}}.text, job, path, COLUMN_##kind)

static bool is_served(const json_t *job)
{
    return column_get(job, "spec.strategy.servers");
}

/* The number of steps of a global batch each, where a server made more updates than that; 0: a step
 * is an update. */
static int64_t global_steps(const json_t *job)
{
    double batch = json_number_value(column_get(job, "assignment.global_batch")),
           samples = json_number_value(column_get(job, "progress.samples")),
           updates = json_number_value(column_get(job, "progress.step")),
           steps = batch > 0 ? ceil(samples / batch) : 0;
    return is_served(job) && updates > 1.2 * steps ? (int64_t)steps : 0;
}

static void print_figures(const json_t *job)
{
    int64_t steps = global_steps(job);
    char made[80];
    snprintf(made, sizeof made, "step %s", SHOWN(job, "progress.step", COUNT));
    if (steps > 0) {
        snprintf(made, sizeof made, "step %lld, %s updates", (long long)steps,
                 SHOWN(job, "progress.step", COUNT));
    }
    const json_t *epochs = column_get(job, "progress.epochs");
    bool open = json_is_number(epochs) && json_number_value(epochs) < 1;
    terminal_say("  ", "epoch %s%s%s, %s, %s samples", SHOWN(job, "progress.epoch", NUMBER),
                 open ? "" : " of ", open ? "" : SHOWN(job, "progress.epochs", NUMBER), made,
                 SHOWN(job, "progress.samples", COUNT));
    terminal_say("  ", "train loss %s, test loss %s, test accuracy %s",
                 SHOWN(job, "metrics.train_loss", NUMBER), SHOWN(job, "metrics.test_loss", NUMBER),
                 SHOWN(job, "metrics.test_accuracy", PERCENT));
    terminal_say("  ", "%s samples/s, %s ms per %s",
                 SHOWN(job, "metrics.samples_per_second", COUNT),
                 SHOWN(job, "metrics.step_seconds", MS), steps > 0 ? "update" : "step");
    terminal_say("  ", "staleness: %s over updates, %s over nodes, p95 %s, at most %s",
                 SHOWN(job, "staleness.update_mean", NUMBER),
                 SHOWN(job, "staleness.node_mean", NUMBER), SHOWN(job, "staleness.p95", COUNT),
                 SHOWN(job, "staleness.max", COUNT));
}

/* Prints the newest value of each metric that a program logged. */
static void print_logged(const json_t *job)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(job, "logged"), name, value) {
        json_t *one = json_pack("{s:O}", "value", value);
        char shown[COLUMN_BYTES_MOST];
        terminal_say("  ", "%s %s", text_shown(shown, sizeof shown, name),
                     SHOWN(one, "value", NUMBER));
        json_decref(one);
    }
}

/* Prints times by the clock, and by the job's own: pauses and starts of attempts are no
 * training. */
static void print_times(const json_t *job)
{
    bool over = json_is_string(json_object_get(job, "finished"));
    if (json_is_string(json_object_get(job, "started"))) {
        terminal_say("  ", "%s %s%s, trained for %s%s", over ? "took" : "started",
                     SHOWN(job, "", TOOK), over ? "" : " ago", SHOWN(job, "seconds", SECONDS),
                     column_is_virtual(job) ? " of virtual time" : "");
    }
}

static void print_ranks(const json_t *job, const char *key, const struct column *columns)
{
    const json_t *ranks = json_object_get(job, key);
    if (json_array_size(ranks) > 0) {
        columns_print(ranks, columns, "  ", stdout);
    }
}

/* Prints an elastic job's size, "3 of 2 to 4 nodes", and its last change. */
static void print_size(const json_t *job)
{
    const json_t *all = json_object_get(job, "resizes"),
                 *last = json_array_get(all, json_array_size(all) - 1);
    terminal_say("  ", "%d of %s to %s nodes", bars_workers(job),
                 SHOWN(job, "spec.elastic.min", COUNT), SHOWN(job, "spec.elastic.max", COUNT));
    if (last) {
        bool known = json_is_number(json_object_get(last, "seconds"));
        terminal_say("  ", "attempt %s: %s%s%s%s", SHOWN(last, "attempt", COUNT),
                     SHOWN(last, "reason", TEXT), known ? ", " : "",
                     known ? SHOWN(last, "seconds", SECONDS) : "", known ? " without a step" : "");
    }
}

static void print_job(const json_t *job)
{
    bool queued = strcmp(SHOWN(job, "state", TEXT), "queued") == 0;
    terminal_say("", "%s  %s  %s, attempt %s", SHOWN(job, "id", TEXT), SHOWN(job, "name", TEXT),
                 SHOWN(job, "state", TEXT), SHOWN(job, "attempt", COUNT));
    if (json_is_string(json_object_get(job, "owner"))) {
        terminal_say("  ", "submitted by %s", SHOWN(job, "owner", TEXT));
    }
    if (queued && json_is_string(json_object_get(job, "waiting"))) {
        terminal_say("  ", "waits: %s", SHOWN(job, "waiting", TEXT));
    }
    if (json_is_object(column_get(job, "spec.elastic"))) {
        print_size(job);
    }
    print_times(job);
    if (json_object_size(json_object_get(job, "progress")) > 0) {
        print_figures(job);
        print_logged(job);
    }
    if (json_is_object(json_object_get(job, "error"))) {
        const char *message = json_string_value(column_get(job, "error.message"));
        terminal_say("  ", "error: %s", message ? message : "no reason is known");
    }
    print_ranks(job, "workers", workers);
    print_ranks(job, "servers", is_served(job) ? servers : keepers);
}

int command_show(struct session *s)
{
    char path[256];
    int rc = job_path(s, session_argument(s, 0), "", path);
    return rc < 0 ? rc : session_show(s, "GET", path, print_job);
}
