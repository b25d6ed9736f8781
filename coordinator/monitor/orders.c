/* See orders.h. */
#include "coordinator/monitor/orders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "job/documents/control.h"

enum { TRUSTED_STEPS = 10 };

int orders_open(struct orders *o, struct store *store, const struct ranks *ranks,
                const struct jobspec *spec, const struct plan *plan, struct err *e)
{
    int n = ranks->workers;
    struct profile **profiles = calloc((size_t)n + 1, sizeof *profiles);
    *o = (struct orders){.store = store, .ranks = ranks};
    profiles_key(spec, o->key);
    for (int r = 0; profiles && r < n; r++) {
        const struct rank *w = &ranks->all[r];
        profiles[r] = profiles_get(store, w->node, w->device, w->slowdown, o->key);
    }
    int rc = profiles ? balancer_init(&o->balancer, &spec->batching, n, ranks_quantum(ranks),
                                      (const struct profile *const *)profiles, ranks->names, e)
                      : err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
    profiles_free(profiles, n);
    if (rc < 0) {
        return rc;
    }
    o->balancer.current.version = plan->first_version;
    memcpy(o->balancer.current.sizes, plan->first_sizes, sizeof plan->first_sizes);
    o->may_balance = spec->batching.policy == BATCH_DYNAMIC;
    return 0;
}

void orders_close(struct orders *o)
{
    if (o->balancer.profiles) {
        balancer_release(&o->balancer);
    }
    memset(o, 0, sizeof *o);
}

/* The previous coordinator may have changed the minibatches of an adopted attempt since its plan
 * was written. */
void orders_adopt(struct orders *o)
{
    json_t *j = store_doc_get(o->store, o->ranks->ours.job, "control", NULL);
    struct control c;
    struct err why = {0};
    char quoted[600];
    if (!j) {
        return;
    }
    if (control_read(&c, j, &why) < 0 || !sender_is(&c.from, &o->ranks->ours)) {
        log_warn("monitor", "control is not of this attempt, the plan's minibatches hold",
                 "job=%s attempt=%d why=%s", o->ranks->ours.job, o->ranks->ours.attempt,
                 log_quote(quoted, sizeof quoted, why.message));
    } else {
        if (c.workers == o->ranks->workers) {
            o->balancer.current.version = c.version;
            memcpy(o->balancer.current.sizes, c.sizes, sizeof c.sizes);
        }
        o->stop = c.stop;
        o->pause = c.pause;
    }
    json_decref(j);
}

/* ---- what is measured ------------------------------------------------------------------------ */

void orders_observe(struct orders *o, const struct row *row)
{
    if (row->batch > 0) {
        balancer_observe(&o->balancer, row->rank, row->batch, row->compute_seconds, row->time);
    }
}

void orders_calibrate(struct orders *o, int rank, double a, double k, int max_batch)
{
    struct profile *p = &o->balancer.profiles[rank];
    int batch = o->ranks->all[rank].batch;
    if (p->count == 0 && k > 0) {
        int big = batch > 16 ? batch : 16, small = big / 4;
        for (int i = 0; i < 3; i++) {
            profile_observe(p, small, a + k * small);
            profile_observe(p, big, a + k * big);
        }
    }
    p->max_batch = max_batch;
}

int orders_take_batch(struct orders *o, int global_batch, struct err *e)
{
    int rc = balancer_take_batch(&o->balancer, global_batch, e);
    o->owes = o->owes || rc == BALANCE_CHANGED;
    return rc < 0 ? rc : 0;
}

int orders_keep_profiles(const struct orders *o, struct err *e)
{
    int rc = 0;
    for (int r = 0; rc >= 0 && r < o->ranks->workers; r++) {
        const struct rank *w = &o->ranks->all[r];
        struct measured m = {
            .profile = o->balancer.profiles[r], .slowdown = w->slowdown, .tuning = w->tuning};
        if ((m.profile.count < TRUSTED_STEPS || w->rows == 0) && !w->overfull) {
            continue;
        }
        snprintf(m.device, sizeof m.device, "%s", w->device);
        json_t *j = measured_json(&m);
        rc = store_profile_put(o->store, w->node, o->key, j, e);
        json_decref(j);
    }
    return rc;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static int write_control(const struct orders *o, struct err *e)
{
    struct control c = {.from = o->ranks->ours,
                        .version = o->balancer.current.version,
                        .workers = o->ranks->workers,
                        .stop = o->stop,
                        .pause = o->pause};
    memcpy(c.sizes, o->balancer.current.sizes, sizeof c.sizes);
    json_t *j = control_json(&c);
    int rc = store_doc_set(o->store, o->ranks->ours.job, "control", j, e);
    json_decref(j);
    return rc;
}

/* The workers come first: the assignment holds whether or not it can be published. */
static int tell_assignment(struct orders *o, struct err *e)
{
    char when[32], quoted[300];
    const char *job = o->ranks->ours.job;
    const struct assignment *a = &o->balancer.current;
    int rc = write_control(o, e);
    if (rc < 0) {
        return rc;
    }
    json_t *j = assignment_json(a, o->ranks->names, clock_format(when, clock_wall_ms()));
    rc = store_assignment_add(o->store, job, j, e);
    if (rc >= 0) {
        o->owes = false;
        log_info("monitor", "new minibatches", "job=%s version=%d step=%lld why=%s", job,
                 a->version, (long long)a->step, log_quote(quoted, sizeof quoted, a->reason));
        store_event(o->store, job, "assignment", j, NULL);
    }
    json_decref(j);
    return rc;
}

int orders_balance(struct orders *o, bool ending, struct err *e)
{
    if (!o->owes && o->may_balance && !o->stop && !o->pause && !ending) {
        o->owes = balancer_decide(&o->balancer, o->ranks->step);
    }
    return o->owes ? tell_assignment(o, e) : 0;
}

int orders_ask(struct orders *o, bool stop, bool pause, struct err *e)
{
    if (o->stop == stop && o->pause == pause) {
        return 0;
    }
    bool old_stop = o->stop, old_pause = o->pause;
    o->stop = stop;
    o->pause = pause;
    int rc = write_control(o, e);
    if (rc < 0) {
        o->stop = old_stop;
        o->pause = old_pause;
    }
    return rc;
}

int orders_version(const struct orders *o)
{
    return o->balancer.current.version;
}

int orders_size(const struct orders *o, int rank)
{
    return o->balancer.current.sizes[rank];
}
