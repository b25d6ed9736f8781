/* The monitor of one attempt is opened and closed here (see monitor.h), from its plan, from what
 * the store remembers of it, and, for a new attempt, after what the old one left behind has been
 * taken over.
 *
 * What a newcomer would get wrong: an adopted attempt has other minibatches than its plan says,
 * because the coordinator that is gone may have changed them; the document "control" has those in
 * force.
 */
#include "coordinator/monitor_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/plan.h"
#include "job/device_kind.h"

enum { EVENT_POINTS = 32 };
static const double adopted_grace = 10;

static void copy_text(char *out, size_t bytes, const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    snprintf(out, bytes, "%s", text ? text : "");
}

static void open_ranks(struct monitor *m, const json_t *plan)
{
    for (int r = 0; r < m->workers + m->servers; r++) {
        struct rank_watch *w = &m->ranks[r];
        const json_t *from = json_array_get(json_object_get(plan, "workers"), (size_t)r);
        copy_text(w->node, sizeof w->node, from, "node");
        copy_text(w->device, sizeof w->device, from, "device");
        w->slowdown = from ? json_number_value(json_object_get(from, "slowdown")) : 1;
        if (!from) {
            snprintf(w->node, sizeof w->node, "%s", r == m->workers ? "keeper" : "server");
        }
        snprintf(w->at, sizeof w->at, "0-0");
        snprintf(w->safe, sizeof w->safe, "0-0");
        m->tails[r] = (struct store_tail){r, w->at};
        w->last_step = w->last_local = -1;
        staleness_init(&w->staleness);
        thin_reset(&w->points, EVENT_POINTS / m->workers > 0 ? EVENT_POINTS / m->workers : 1);
        if (r < m->workers) {
            m->names[r] = w->node;
            w->tuning = json_incref(json_object_get(from, "tuning"));
            w->batch = (int)json_integer_value(json_array_get(
                json_object_get(json_object_get(plan, "first"), "sizes"), (size_t)r));
        }
    }
}

/* As the plan's first assignment (coordinator/plan.c). */
static int quantum_of(const struct monitor *m)
{
    int least = 0;
    for (int r = 0; r < m->workers; r++) {
        int quantum = device_kind_quantum(m->ranks[r].device);
        least = r == 0 || quantum < least ? quantum : least;
    }
    return least;
}

static int open_balancer(struct monitor *m, const json_t *plan, struct err *e)
{
    const json_t *first = json_object_get(plan, "first");
    struct profile **profiles = calloc((size_t)m->workers, sizeof *profiles);
    for (int r = 0; profiles && r < m->workers; r++) {
        profiles[r] = plan_profile(m->store, m->ranks[r].node, m->ranks[r].device,
                                   m->ranks[r].slowdown, m->nethash);
    }
    int rc = profiles ? balancer_init(&m->balancer, &m->spec->batching, m->workers, quantum_of(m),
                                      (const struct profile *const *)profiles, m->names, e)
                      : err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
    plan_profiles_free(profiles, m->workers);
    if (rc < 0) {
        return rc;
    }
    m->balancer.current.version = (int)json_integer_value(json_object_get(first, "version"));
    for (int r = 0; r < m->workers; r++) {
        m->balancer.current.sizes[r] = m->ranks[r].batch;
    }
    m->may_balance = m->spec->batching.policy == BATCH_DYNAMIC;
    return 0;
}

/* An adopted attempt may have had other minibatches since: control says which. */
static void adopt_control(struct monitor *m)
{
    json_t *control = store_doc_get(m->store, m->job, "control", NULL);
    const json_t *sizes = json_object_get(control, "sizes");
    if (json_array_size(sizes) == (size_t)m->workers) {
        m->balancer.current.version = (int)json_integer_value(json_object_get(control, "version"));
        for (int r = 0; r < m->workers; r++) {
            m->balancer.current.sizes[r] =
                (int)json_integer_value(json_array_get(sizes, (size_t)r));
        }
    }
    m->stop = json_is_true(json_object_get(control, "stop"));
    m->pause = json_is_true(json_object_get(control, "pause"));
    json_decref(control);
}

struct monitor *monitor_open(const struct monitor_config *config, struct err *e)
{
    const json_t *plan = config->plan;
    struct monitor *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, ERR_MEMORY, "cannot open the monitor: memory ran out");
        return NULL;
    }
    m->store = config->store;
    m->spec = config->spec;
    m->launched_at = config->now;
    m->grace_until = config->adopted ? config->now + adopted_grace : 0;
    m->suspect_since = -1;
    m->attempt = (int)json_integer_value(json_object_get(plan, "attempt"));
    m->workers = (int)json_array_size(json_object_get(plan, "workers"));
    m->servers = (int)json_integer_value(json_object_get(plan, "servers"));
    copy_text(m->job, sizeof m->job, plan, "job");
    copy_text(m->job_dir, sizeof m->job_dir, plan, "job_dir");
    snprintf(m->host, sizeof m->host, "%s", config->host);
    snprintf(m->data_dir, sizeof m->data_dir, "%s", config->data_dir);
    plan_profile_key(m->spec, m->nethash);
    m->ranks = calloc((size_t)(m->workers + m->servers) + 1, sizeof *m->ranks);
    m->tails = calloc((size_t)(m->workers + m->servers) + 1, sizeof *m->tails);
    m->names = calloc((size_t)m->workers + 1, sizeof *m->names);
    if (!m->ranks || !m->tails || !m->names || m->workers < 1 ||
        !recent_init(&m->recent, m->workers)) {
        err_set(e, ERR_MEMORY, "cannot open the monitor of job '%s': memory ran out", m->job);
        monitor_close(m);
        return NULL;
    }
    open_ranks(m, plan);
    m->history = history_open(m->job_dir, m->workers, m->names, e);
    if (!m->history || open_balancer(m, plan, e) < 0 || monitor_load(m, config->adopted, e) < 0) {
        monitor_close(m);
        return NULL;
    }
    if (config->adopted) {
        adopt_control(m);
    } else if (monitor_read_rows(m, e) < 0 || monitor_read_facts(m, true, e) < 0 ||
               monitor_save(m, e) < 0) {
        monitor_close(m);
        return NULL;
    } else {
        m->gate_open = m->attempt == 1;
    }
    return m;
}

void monitor_close(struct monitor *m)
{
    if (!m) {
        return;
    }
    if (m->history) {
        history_close(m->history);
    }
    if (m->balancer.profiles) {
        balancer_release(&m->balancer);
    }
    for (int r = 0; m->ranks && r < m->workers + m->servers; r++) {
        json_decref(m->ranks[r].tuning);
        json_decref(m->ranks[r].beat);
        staleness_release(&m->ranks[r].staleness);
    }
    recent_release(&m->recent);
    json_decref(m->outcome);
    json_decref(m->evaluations);
    free(m->ranks);
    free(m->tails);
    free(m->names);
    free(m);
}
