/* See attempts.h. */
#include "coordinator/attempts.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/planner.h"

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

void attempts_release(struct attempts *a)
{
    while (a->runs) {
        attempts_drop(a, a->runs);
    }
}

void run_free(struct run *r)
{
    if (r) {
        monitor_close(r->monitor);
        attempts_free_spec(r->spec);
        planner_free(r->plan);
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
        return 0; /* it has no ranks that report to the store */
    }
    r->monitor = monitor_open(&c, e);
    return r->monitor ? 0 : -(int)e->code;
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
