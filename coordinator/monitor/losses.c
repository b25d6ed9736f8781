/* Workers whose guards say that they have died (docs/decisions/0020): the attempt goes on without
 * them, or ends.
 *
 *   lost ─┬─ all others are past the start ──────────────────► the others are told
 *         ├─ another one may still wait for it in the start ─► in a turn to come
 *         └─ the attempt needs it ───────────────────────────► it ends
 *
 * All ranks make the start together (comm_meet). A worker that dies just after it leaves heartbeats
 * from before it, so only those of the others tell whether somebody waits for it there for ever.
 */
#include "coordinator/monitor/parts.h"

#include <stdio.h>

#include "common/log.h"

/* Longer than heartbeats of the others take to tell that they are past the start (0.4 s each). */
static const double start_patience = 3;

/* Without a worker the attempt may go on; without another rank it cannot. */
static bool may_go_on_without(const struct monitor *m, int rank)
{
    int left = ranks_alive(&m->ranks) - 1;
    return m->outlives_worker && rank < m->ranks.workers && left >= 1 &&
           left >= m->spec->min_workers;
}

static struct failure loss_of(const struct monitor *m, int rank, const char *why)
{
    const struct rank *w = &m->ranks.all[rank];
    char how[FAILURE_LOST];
    snprintf(how, sizeof how, "it %s%s%s", w->how, why[0] ? "; " : "", why);
    return failure_of_loss(how, rank, w->node, m->ours.attempt);
}

static void need(struct monitor *m, int rank, const char *why)
{
    m->needed_lost = true;
    m->needed = loss_of(m, rank, why);
}

bool monitor_death(const struct monitor *m, struct failure *out)
{
    for (int i = 0; i < m->ranks.workers; i++) {
        if (m->ranks.all[i].how[0] && !m->ranks.all[i].left) {
            *out = loss_of(m, i, "");
            return true;
        }
    }
    return false;
}

static void go_on_without(struct monitor *m, int rank)
{
    struct rank *w = &m->ranks.all[rank];
    struct err why = {0};
    w->fallen = false;
    if (!may_go_on_without(m, rank)) {
        need(m, rank, "");
        return;
    }
    w->lost = true;
    if (orders_lose(&m->orders, rank, &why) < 0) {
        need(m, rank, why.message);
        return;
    }
    log_warn("monitor", "a worker is lost, the attempt continues",
             "job=%s attempt=%d rank=%d node=%s how=\"%s\"", m->ours.job, m->ours.attempt, rank,
             w->node, w->how);
}

bool losses_end_silent(struct monitor *m, int rank)
{
    struct rank *w = rank < 0 ? NULL : &m->ranks.all[rank];
    if (!w || w->silent || !watchdog_is_silent(w) || !may_go_on_without(m, rank)) {
        return false;
    }
    w->silent = true;
    orders_owe(&m->orders);
    log_warn("monitor", "a worker gives no sign of life, its guard is to end it",
             "job=%s attempt=%d rank=%d node=%s age_seconds=%.1f", m->ours.job, m->ours.attempt,
             rank, w->node, w->beat.age);
    return true;
}

void losses_take(struct monitor *m, const struct fact *f)
{
    int rank = f->from.rank;
    struct rank *w = &m->ranks.all[rank];
    w->silent = false;
    if (w->joining) {
        returns_end(m, rank);
        w->fell_early = f->number == fact_number_last(w->seats);
    }
    if (w->lost || w->fallen) {
        return;
    }
    snprintf(w->how, sizeof w->how, "%s", f->lost);
    if (m->results.has_ended) { /* the attempt is over: nobody waits for this worker's last
                                   reports */
        w->lost = true;
    } else if (!may_go_on_without(m, rank)) {
        need(m, rank, "");
    } else {
        w->fallen = true;
    }
}

void losses_decide(struct monitor *m, double now)
{
    int rank = ranks_fallen(&m->ranks);
    if (rank < 0 || m->needed_lost) {
        m->fallen_at = 0;
        return;
    }
    m->fallen_at = m->fallen_at > 0 ? m->fallen_at : now;
    if (m->results.has_ended) {
        m->ranks.all[rank].fallen = false;
        m->ranks.all[rank].lost = true;
    } else if (ranks_started(&m->ranks)) {
        go_on_without(m, rank);
    } else if (!ranks_prepare(&m->ranks) && now - m->fallen_at > start_patience) {
        need(m, rank, "");
        return;
    }
    if (ranks_fallen(&m->ranks) != rank) {
        losses_decide(m, now); /* decides on the next one */
    }
}
