/* What the monitor tells the workers (the document "control": minibatches, stop, pause), and what
 * it learns of their speed (profiles, kept across jobs). See monitor.h.
 *
 * What a newcomer would get wrong: a decision of the balancer is made once, but the store may be
 * away when it is written down; then it is owed, and the next turn pays it before anything else is
 * decided.
 */
#include "coordinator/monitor_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"

static int write_control(struct monitor *m, struct err *e)
{
    json_t *sizes = json_array();
    for (int r = 0; r < m->workers; r++) {
        json_array_append_new(sizes, json_integer(m->balancer.current.sizes[r]));
    }
    json_t *control =
        json_pack("{s:i, s:o, s:b, s:b, s:b}", "version", m->balancer.current.version, "sizes",
                  sizes, "stop", m->stop, "pause", m->pause, "checkpoint", 0);
    int rc = store_doc_set(m->store, m->job, "control", control, e);
    json_decref(control);
    return rc;
}

/* The workers first: it is in force whether or not people can read about it. */
static int tell_assignment(struct monitor *m, struct err *e)
{
    char when[32], quoted[300];
    const struct assignment *a = &m->balancer.current;
    int rc = write_control(m, e);
    if (rc < 0) {
        return rc;
    }
    json_t *j = assignment_json(a, m->names, clock_format(when, clock_wall_ms()));
    rc = store_assignment_add(m->store, m->job, j, e);
    if (rc >= 0) {
        m->owes_assignment = false;
        log_info("monitor", "new minibatches", "job=%s version=%d step=%lld why=%s", m->job,
                 a->version, (long long)a->step, log_quote(quoted, sizeof quoted, a->reason));
        store_event(m->store, m->job, "assignment", j, NULL);
    }
    json_decref(j);
    return rc;
}

int monitor_balance(struct monitor *m, struct err *e)
{
    if (!m->owes_assignment && m->may_balance && !m->stop && !m->pause && !m->outcome) {
        m->owes_assignment = balancer_decide(&m->balancer, m->step);
    }
    return m->owes_assignment ? tell_assignment(m, e) : 0;
}

int monitor_keep_profiles(struct monitor *m, struct err *e)
{
    int rc = 0;
    for (int r = 0; rc >= 0 && r < m->workers; r++) {
        const struct profile *p = &m->balancer.profiles[r];
        if ((p->count < 10 || m->ranks[r].rows == 0) && !m->ranks[r].overfull) {
            continue;
        }
        json_t *j = profile_json(p);
        json_object_set_new(j, "slowdown", json_real(m->ranks[r].slowdown));
        json_object_set_new(j, "device", json_string(m->ranks[r].device));
        if (m->ranks[r].tuning) {
            json_object_set(j, "tuning", m->ranks[r].tuning);
        }
        rc = store_profile_put(m->store, m->ranks[r].node, m->nethash, j, e);
        json_decref(j);
    }
    return rc;
}

int monitor_ask(struct monitor *m, bool stop, bool pause, struct err *e)
{
    if (m->stop == stop && m->pause == pause) {
        return 0;
    }
    bool old_stop = m->stop, old_pause = m->pause;
    m->stop = stop;
    m->pause = pause;
    int rc = write_control(m, e);
    if (rc < 0) {
        m->stop = old_stop;
        m->pause = old_pause;
    }
    return rc;
}
