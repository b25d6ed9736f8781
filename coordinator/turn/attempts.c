/* See attempts.h. */
#include "coordinator/turn/attempts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/proc.h"
#include "coordinator/planning/planner.h"
#include "job/documents/coordinator/launched.h"

static const double quick_seconds = 30, pause_most = 60;

struct run *attempts_find(const struct attempts *a, const char *job)
{
    struct run *r = a->runs;
    while (r && strcmp(r->attempt.job, job) != 0) {
        r = r->next;
    }
    return r;
}

void attempts_add(struct attempts *a, struct run *r)
{
    r->next = a->runs;
    a->runs = r;
    a->n_runs++;
}

void attempts_drop(struct attempts *a, struct run *gone)
{
    struct run **at = &a->runs;
    while (*at && *at != gone) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = gone->next;
        a->n_runs--;
    }
    run_free(gone);
}

void attempts_free_resizes(struct resize **list)
{
    for (struct resize *x = *list, *next; x; x = next) {
        next = x->next;
        names_release(&x->gives);
        names_release(&x->nodes);
        free(x);
    }
    *list = NULL;
}

void attempts_release(struct attempts *a)
{
    while (a->runs) {
        attempts_drop(a, a->runs);
    }
    for (struct pause *p = a->pauses, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    a->pauses = NULL;
    attempts_free_resizes(&a->resizes);
}

void run_free(struct run *r)
{
    if (r) {
        monitor_close(r->monitor);
        attempts_free_spec(r->spec);
        planner_free(r->plan);
        attempts_free_resizes(&r->resize);
        free(r->first);
    }
    free(r);
}

bool attempts_store_away(const struct err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT || e->code == ERR_MEMORY;
}

void attempts_free_spec(struct jobspec *spec)
{
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
}

struct jobspec *attempts_spec(struct attempts *a, const char *job, struct err *e)
{
    char *text = store_job_field(a->store, job, "spec", e);
    struct jobspec *spec = text ? calloc(1, sizeof *spec) : NULL;
    json_t *j = spec ? jsonx_parse(text, strlen(text), e) : NULL;
    free(text);
    if (j && jobspec_read(spec, j, e) >= 0) {
        json_decref(j);
        return spec;
    }
    if (j) {
        err_prefix(e, "the spec of job '%s' is not valid", job);
    } else if (!e->code) {
        err_set(e, ERR_NOT_FOUND, "job '%s' has no spec", job);
    }
    json_decref(j);
    attempts_free_spec(spec);
    return NULL;
}

int attempts_move(struct attempts *a, const char *job, enum job_state from, enum job_state to,
                  const struct failure *why, struct err *e)
{
    json_t *error = why ? failure_json(why) : NULL;
    int rc = store_job_transition(a->store, job, from, to, error, e);
    json_decref(error);
    return rc;
}

/* ---- what is kept of a launch ---------------------------------------------------------------- */

int attempts_record(struct attempts *a, const struct run *r, struct err *e)
{
    struct launched l = {
        .from = r->plan->from, .pid = (int)r->attempt.pid, .start_ticks = r->attempt.start_ticks};
    snprintf(l.launcher, sizeof l.launcher, "%s", r->launcher->name);
    snprintf(l.host, sizeof l.host, "%s", a->local_host);
    proc_space(l.space);
    json_t *j = launched_json(&l);
    char *text = json_dumps(j, JSON_COMPACT);
    int rc = text ? store_job_set(a->store, r->attempt.job, "launch", text, e)
                  : err_set(e, ERR_MEMORY, "cannot record a launch: memory ran out");
    free(text);
    json_decref(j);
    return rc;
}

/* The pointer in the list that points to the job's pause, or the list's last one. */
static struct pause **pause_of(struct pause **at, const char *job)
{
    while (*at && strcmp((*at)->job, job) != 0) {
        at = &(*at)->next;
    }
    return at;
}

void attempts_back_off(struct attempts *a, const char *job, double lasted, double now)
{
    struct pause **at = pause_of(&a->pauses, job), *p = *at;
    if (lasted >= quick_seconds) {
        *at = p ? p->next : NULL;
        free(p);
        return;
    }
    if (!p && (p = calloc(1, sizeof *p))) {
        snprintf(p->job, sizeof p->job, "%s", job);
        *at = p;
    }
    if (p) { /* if memory runs out, the job does not wait */
        int quick = ++p->quick;
        double seconds = quick < 3 ? 0 : quick > 9 ? pause_most : 1 << (quick - 3);
        p->until = now + (seconds < pause_most ? seconds : pause_most);
    }
}

double attempts_pause(const struct attempts *a, const char *job, double now)
{
    for (const struct pause *p = a->pauses; p; p = p->next) {
        if (strcmp(p->job, job) == 0) {
            return p->until > now ? p->until - now : 0;
        }
    }
    return 0;
}

int attempts_watch(struct attempts *a, struct run *r, bool adopted, double now, struct err *e)
{
    struct monitor_config c = {.store = a->store,
                               .data_dir = a->data_dir,
                               .host = a->local_host,
                               .spec = r->spec,
                               .plan = r->plan,
                               .adopted = adopted,
                               .now = now};
    if (r->launcher == a->simulator) {
        return 0; /* a virtual attempt has no ranks that report to the store */
    }
    r->monitor = monitor_open(&c, e);
    return r->monitor ? 0 : -(int)e->code;
}

int attempts_priority(const struct attempts *a, struct run *r, double now)
{
    if (r->priority_at != now) {
        char *text = store_job_field(a->store, r->attempt.job, "priority", NULL);
        r->priority = text ? (int)strtol(text, NULL, 10) : r->spec->priority;
        r->priority_at = now;
        free(text);
    }
    return r->priority;
}

bool run_is_lost(const struct run *r, int worker)
{
    return r->monitor && monitor_is_lost(r->monitor, worker);
}

bool run_is_ending(const struct run *r)
{
    return r->leaving || r->over || r->failed || r->cancel_at > 0 || r->drain_at > 0;
}

int run_workers(const struct run *r)
{
    int n = 0;
    for (int i = 0; i < r->plan->n_workers; i++) {
        n += !run_is_lost(r, i);
    }
    return n;
}

int attempts_release_nodes(struct attempts *a, const struct plan *plan, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < plan->n_workers; i++) {
        int one = store_node_release(a->store, plan->workers[i].node, plan->from.job, e);
        rc = one < 0 ? one : rc;
    }
    return rc;
}
