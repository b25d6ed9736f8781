/* How a queued job's next attempt starts.
 *
 *   claim nodes ─► attempt += 1 ─► plan ─► queued → launching ─► plan, control, clean heartbeats into the store
 *                                                                └─► launcher ─► pid into the store
 *
 * The order matters: whoever dies between two of these leaves a state from which recover.c can go
 * on. The process is started last, and until its pid is in the store it is known by its
 * environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/proc.h"
#include "coordinator/plan.h"
#include "coordinator/run.h"

int release_nodes(struct sched *s, const char *job, const json_t *plan, struct err *e)
{
    size_t i;
    json_t *w;
    int rc = 0;
    json_array_foreach(json_object_get(plan, "workers"), i, w) {
        const char *node = json_string_value(json_object_get(w, "node"));
        int one = node ? store_node_release(s->store, node, job, e) : 0;
        rc = one < 0 ? one : rc;
    }
    return rc;
}

static void release_placed(struct sched *s, const char *job, const struct placement *p, int n)
{
    for (int i = 0; i < n; i++) {
        store_node_release(s->store, p->nodes[i].name, job, NULL);
    }
}

/* 1: all are ours; 0: another was faster. */
static int claim_nodes(struct sched *s, const char *job, const struct placement *p, struct err *e)
{
    for (int i = 0; i < p->count; i++) {
        int rc = store_node_claim(s->store, p->nodes[i].name, job, e);
        if (rc <= 0) {
            release_placed(s, job, p, i);
            return rc;
        }
    }
    return 1;
}

/* Versions of assignments run on over attempts. */
static int next_version(struct sched *s, const char *job)
{
    json_t *all = store_assignments(s->store, job, NULL);
    const json_t *last = json_array_get(all, json_array_size(all) - 1);
    int version = (int)json_integer_value(json_object_get(last, "version")) + 1;
    json_decref(all);
    return version;
}

static json_t *virtual_plan(struct sched *s, const char *job, int attempt,
                            const struct jobspec *spec)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/jobs/%s", s->data_dir, job);
    return json_pack("{s:s, s:i, s:O, s:[], s:i, s:s}", "job", job, "attempt", attempt, "spec",
                     spec->json, "workers", "servers", 0, "job_dir", dir);
}

/* The documents that the ranks will read. */
static int write_documents(struct sched *s, struct run *r, const struct assignment *first,
                           struct err *e)
{
    const char *job = r->attempt.job;
    char when[32];
    int rc = store_doc_set(s->store, job, "plan", r->plan, e);
    if (rc >= 0) {
        rc = store_beats_clear(s->store, job, e);
    }
    if (rc < 0 || !first) {
        return rc;
    }
    const json_t *doc = json_object_get(r->plan, "first");
    json_t *control =
        json_pack("{s:O, s:O, s:b, s:b, s:b}", "version", json_object_get(doc, "version"), "sizes",
                  json_object_get(doc, "sizes"), "stop", 0, "pause", 0, "checkpoint", 0);
    const char **names = calloc((size_t)first->workers + 1, sizeof *names);
    for (int i = 0; names && i < first->workers; i++) {
        names[i] = json_string_value(json_object_get(
            json_array_get(json_object_get(r->plan, "workers"), (size_t)i), "node"));
    }
    json_t *j = names ? assignment_json(first, names, clock_format(when, clock_wall_ms())) : NULL;
    rc = j ? store_doc_set(s->store, job, "control", control, e)
           : err_set(e, ERR_MEMORY, "cannot start job '%s': memory ran out", job);
    if (rc >= 0) {
        rc = store_assignment_add(s->store, job, j, e);
    }
    if (rc >= 0) {
        rc = store_event(s->store, job, "assignment", j, e);
    }
    json_decref(control);
    json_decref(j);
    free(names);
    return rc;
}

static int record_launch(struct sched *s, const struct run *r, struct err *e)
{
    json_t *j =
        json_pack("{s:i, s:i, s:I, s:s}", "attempt", r->attempt.number, "pid", (int)r->attempt.pid,
                  "start_ticks", (json_int_t)r->attempt.start_ticks, "launcher", r->launcher->name);
    char *text = json_dumps(j, JSON_COMPACT);
    int rc = store_job_set(s->store, r->attempt.job, "launch", text, e);
    free(text);
    json_decref(j);
    return rc;
}

static int open_monitor(struct sched *s, struct run *r, double now, struct err *e)
{
    struct monitor_config c = {.store = s->store,
                               .data_dir = s->data_dir,
                               .host = s->local_host,
                               .spec = r->spec,
                               .plan = r->plan,
                               .now = now};
    if (r->launcher == s->simulator) {
        return 0;
    }
    r->monitor = monitor_open(&c, e);
    return r->monitor ? 0 : -(int)e->code;
}

/* From `launching` on: what fails now is the attempt's failure, and run_tick deals with it as with
 * any other. */
static void start_process(struct sched *s, struct run *r, const struct assignment *first,
                          double now)
{
    struct err e = {0};
    char quoted[600];
    int rc = open_monitor(s, r, now, &e);
    if (rc >= 0) {
        rc = write_documents(s, r, first, &e);
    }
    if (rc >= 0) {
        rc = r->launcher->start(r->launcher->ctx, &r->attempt, r->plan, &e);
    }
    if (rc < 0) {
        char told[sizeof e.message + sizeof e.hint +
                  2]; /* the job's error has no other place for what to do */
        snprintf(told, sizeof told, "%s%s%s", e.message, e.hint[0] ? "; " : "", e.hint);
        r->error = sched_error(err_name(e.code), told, -1, NULL, r->attempt.number);
        log_warn("sched", "cannot launch", "job=%s attempt=%d why=%s", r->attempt.job,
                 r->attempt.number, log_quote(quoted, sizeof quoted, told));
        return;
    }
    record_launch(s, r, NULL);
    store_job_set(s->store, r->attempt.job, "waiting", NULL, NULL);
    log_info("sched", "launched", "job=%s attempt=%d workers=%zu pid=%d", r->attempt.job,
             r->attempt.number, json_array_size(json_object_get(r->plan, "workers")),
             (int)r->attempt.pid);
}

/* The nodes cannot run this spec (too small a batch, no `init`): it will not get better by waiting.
 */
static int refuse(struct sched *s, const char *job, int attempt, const struct err *why)
{
    json_t *error = sched_error(err_name(why->code), why->message, -1, NULL, attempt);
    int rc = store_job_transition(s->store, job, JOB_QUEUED, JOB_FAILED, error, NULL);
    json_decref(error);
    return rc;
}

int launch_job(struct sched *s, const char *job, struct jobspec *spec,
               const struct placement *placement, double now, struct err *e)
{
    bool is_virtual = spec->cluster != NULL;
    struct run *r = calloc(1, sizeof *r);
    struct assignment *first = calloc(1, sizeof *first);
    int rc = r && first ? claim_nodes(s, job, placement, e)
                        : err_set(e, ERR_MEMORY, "cannot start job '%s': memory ran out", job);
    if (rc <= 0) {
        goto fail;
    }
    int64_t number = store_job_increment(s->store, job, "attempt", e);
    struct plan_ask ask = {s->store, job,       s->data_dir, s->roots,
                           spec,     placement, (int)number, next_version(s, job)};
    r->plan = number < 0   ? NULL
              : is_virtual ? virtual_plan(s, job, (int)number, spec)
                           : plan_make(&ask, first, e);
    if (!r->plan) {
        if (!sched_is_away(e)) {
            refuse(s, job, (int)number, e);
        }
        rc = -(int)e->code;
        goto unclaim;
    }
    rc = store_job_transition(s->store, job, JOB_QUEUED, JOB_LAUNCHING, NULL, e);
    if (rc < 0) { /* cancelled meanwhile, or the store went away */
        goto unclaim;
    }
    snprintf(r->attempt.job, sizeof r->attempt.job, "%s", job);
    r->attempt.number = (int)number;
    r->launcher = is_virtual ? s->simulator : s->mpirun;
    r->spec = spec;
    r->launched_at = now;
    r->next = s->runs;
    s->runs = r;
    s->n_runs++;
    start_process(s, r, is_virtual ? NULL : first, now);
    free(first);
    return 0;
unclaim:
    release_placed(s, job, placement, placement->count);
fail:
    if (r) {
        json_decref(r->plan);
    }
    free(r);
    free(first);
    jobspec_release(spec);
    free(spec);
    return rc;
}
