/* What was running when the coordinator died: see recover.h.
 *
 * A job whose process lives is adopted; one whose process has ended is taken all the same, and its
 * first turn sees it to its end by the facts in the store: an attempt that finished while nobody
 * looked has succeeded. What a newcomer would get wrong: between `launching` and the record of its
 * pid a process may exist that nobody knows; it is found by its environment and ended.
 */
#include "coordinator/recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/proc.h"
#include "coordinator/run.h"

/* {"attempt", "pid", "start_ticks", "launcher"}, or NULL if this attempt has none. */
static json_t *read_launch(struct sched *s, const char *job, int attempt)
{
    char *text = store_job_field(s->store, job, "launch", NULL);
    json_t *j = text ? jsonx_parse(text, strlen(text), NULL) : NULL;
    free(text);
    if (json_integer_value(json_object_get(j, "attempt")) != attempt) {
        json_decref(j);
        return NULL;
    }
    return j;
}

/* Nothing of this attempt can be used: whatever is left of it ends, and the job waits for its next
 * one. It counts as one that was lost. */
static int start_over(struct sched *s, const char *job, enum job_state state, int number,
                      struct err *e)
{
    struct attempt a = {.number = number};
    snprintf(a.job, sizeof a.job, "%s", job);
    s->mpirun->stop(s->mpirun->ctx, &a, 0);
    if (state == JOB_CANCELLING) {
        return store_job_transition(s->store, job, state, JOB_CANCELLED, NULL, e);
    }
    char message[160];
    struct jobspec *spec = sched_read_spec(s, job, e);
    if (!spec) {
        return -(int)e->code;
    }
    snprintf(message, sizeof message,
             "attempt %d was lost: the coordinator ended while it was being launched", number);
    json_t *error = sched_error(err_name(ERR_PEER), message, -1, NULL, number);
    int rc = run_lost(s, job, spec, state, error, e);
    json_decref(error);
    jobspec_release(spec);
    free(spec);
    return rc;
}

static struct run *rebuild(struct sched *s, const char *job, const json_t *launch, json_t *plan,
                           double now, struct err *e)
{
    const char *launcher = json_string_value(json_object_get(launch, "launcher"));
    struct run *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, ERR_MEMORY, "cannot adopt job '%s': memory ran out", job);
        return NULL;
    }
    snprintf(r->attempt.job, sizeof r->attempt.job, "%s", job);
    r->attempt.number = (int)json_integer_value(json_object_get(launch, "attempt"));
    r->attempt.pid = (pid_t)json_integer_value(json_object_get(launch, "pid"));
    r->attempt.start_ticks = (uint64_t)json_integer_value(json_object_get(launch, "start_ticks"));
    r->launcher = s->simulator && launcher && strcmp(launcher, s->simulator->name) == 0
                      ? s->simulator
                      : s->mpirun;
    r->plan = json_incref(plan);
    r->launched_at = now;
    if (r->launcher == s->simulator) {
        json_t *told = store_assignments(s->store, job, NULL);
        r->told_assignments = json_array_size(told);
        json_decref(told);
    }
    r->spec = sched_read_spec(s, job, e);
    struct monitor_config c = {.store = s->store,
                               .data_dir = s->data_dir,
                               .host = s->local_host,
                               .spec = r->spec,
                               .plan = plan,
                               .adopted = true,
                               .now = now};
    if (r->spec && r->launcher == s->mpirun) {
        r->monitor = monitor_open(&c, e);
    }
    if (!r->spec || (r->launcher == s->mpirun && !r->monitor)) {
        run_free(r);
        return NULL;
    }
    return r;
}

static int adopt(struct sched *s, const char *job, enum job_state state, double now, struct err *e)
{
    char *text = store_job_field(s->store, job, "attempt", e);
    int number = text ? (int)strtol(text, NULL, 10) : 0, rc = 0;
    free(text);
    json_t *launch = read_launch(s, job, number), *plan = store_doc_get(s->store, job, "plan", e);
    if (!plan && e->code) {
        rc = -(int)e->code;
    } else if (!launch || json_integer_value(json_object_get(plan, "attempt")) != number) {
        rc = start_over(s, job, state, number, e);
    } else {
        struct run *r = rebuild(s, job, launch, plan, now, e);
        if (r) {
            r->next = s->runs;
            s->runs = r;
            s->n_runs++;
            log_info("recover", "adopted", "job=%s attempt=%d pid=%d alive=%d", job, number,
                     (int)r->attempt.pid, proc_alive(r->attempt.pid, r->attempt.start_ticks));
        }
        rc = r ? 0 : -(int)e->code;
    }
    json_decref(launch);
    json_decref(plan);
    return rc;
}

/* Does an attempt of this job hold its nodes, whether we could adopt it or not? */
static bool holds_nodes(struct sched *s, const char *job)
{
    enum job_state state;
    struct err why = {0};
    if (run_find(s, job)) {
        return true;
    }
    int rc = store_job_state(s->store, job, &state, &why);
    if (rc < 0) {
        return rc != -ERR_NOT_FOUND;
    }
    return state == JOB_LAUNCHING || state == JOB_RUNNING || state == JOB_PAUSING ||
           state == JOB_CANCELLING;
}

/* Nodes whose user has no attempt any more are free. */
static int release_orphans(struct sched *s, struct err *e)
{
    json_t *nodes = store_nodes(s->store, e), *node;
    size_t i;
    int rc = nodes ? 0 : -(int)e->code;
    json_array_foreach(nodes, i, node) {
        const char *job = json_string_value(json_object_get(node, "job")),
                   *name = json_string_value(json_object_get(node, "name"));
        if (job && name && !holds_nodes(s, job)) {
            log_info("recover", "a node is free again", "node=%s job=%s", name, job);
            rc = store_node_release(s->store, name, job, e);
        }
        if (rc < 0) {
            break;
        }
    }
    json_decref(nodes);
    return rc < 0 ? rc : 0;
}

int recover_jobs(struct sched *s, double now, struct err *e)
{
    static const enum job_state states[] = {JOB_LAUNCHING, JOB_RUNNING, JOB_PAUSING,
                                            JOB_CANCELLING};
    char quoted[500];
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        json_t *ids = store_job_ids(s->store, states[i], e), *id;
        size_t k;
        if (!ids) {
            return -(int)e->code;
        }
        json_array_foreach(ids, k, id) {
            struct err why = {0};
            const char *job = json_string_value(id);
            if (!run_find(s, job) && adopt(s, job, states[i], now, &why) < 0) {
                log_warn("recover", "cannot adopt; it is tried again", "job=%s why=%s", job,
                         log_quote(quoted, sizeof quoted, why.message));
            }
        }
        json_decref(ids);
    }
    return release_orphans(s, e);
}
