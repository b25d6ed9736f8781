/* Workers that died are started again and join their attempt (docs/decisions/0049, 0062, 0115):
 *
 *   left ─► waits ─► is to start: control has its seat ─┬─► the keeper has let it in ─► as before
 *             ▲                                         ├─► it dies first ───┐
 *             └──────────── each time for longer ◄──────┼────────────────────┘
 *                                                       └─► it does not come ─► it stays out
 *
 * A worker that dies again and again stays out. The attempt then goes on without it, as it does
 * where no worker can join (plan_takes_back). Deaths are forgotten once it has run for `pardon`
 * seconds, since an attempt may last for weeks.
 */
#include "coordinator/monitor/parts.h"

#include "common/log.h"

enum { RETURNS_MOST = 3 };
static const double first_wait = 1, wait_factor = 4, join_patience = 90, pardon = 30;

static double wait_of(int tries)
{
    double wait = first_wait;
    for (int i = 0; i < tries; i++) {
        wait *= wait_factor;
    }
    return wait;
}

static void stay_out(struct monitor *m, int rank, const char *why)
{
    struct rank *w = &m->ranks.all[rank];
    w->stays_out = true;
    log_warn("monitor", "a worker stays out", "job=%s attempt=%d rank=%d node=%s why=\"%s\"",
             m->ours.job, m->ours.attempt, rank, w->node, why);
}

/* If the store does not take it, the next turn tries again. */
static void start_again(struct monitor *m, int rank, double now)
{
    struct rank *w = &m->ranks.all[rank];
    w->seats++;
    w->joining = true;
    if (orders_tell(&m->orders, NULL) < 0) {
        w->seats--;
        w->joining = false;
        return;
    }
    w->tries++;
    w->joining_at = now;
    w->back_at = 0;
    w->fell_early = false; /* its last process had died before it was let in */
    log_info("monitor", "a worker is started again", "job=%s attempt=%d rank=%d node=%s times=%d",
             m->ours.job, m->ours.attempt, rank, w->node, w->seats);
}

static void pardon_deaths(struct rank *w, double now)
{
    w->there_at = w->left ? 0 : w->there_at > 0 ? w->there_at : now;
    w->tries = !w->left && now - w->there_at > pardon ? 0 : w->tries;
}

static void decide(struct monitor *m, int rank, double now)
{
    struct rank *w = &m->ranks.all[rank];
    pardon_deaths(w, now);
    if (w->joining && w->joining_at == 0) {
        w->joining_at = now; /* an earlier coordinator started it */
    }
    if (w->joining && now - w->joining_at > join_patience) {
        returns_end(m, rank);
        stay_out(m, rank, "it was started again, and did not come");
    }
    if (!w->left || w->joining || w->stays_out) {
        return;
    }
    if (w->tries >= RETURNS_MOST || w->seats == UINT8_MAX) { /* the limit of members.h */
        stay_out(m, rank, "it has died again and again");
    } else if (w->back_at == 0) {
        w->back_at = now + wait_of(w->tries);
    } else if (now >= w->back_at) {
        start_again(m, rank, now);
    }
}

void returns_decide(struct monitor *m, double now)
{
    bool goes_on = !m->results.has_ended && !m->needed_lost && !m->orders.stop && !m->orders.pause;
    for (int i = 0; i < m->ranks.workers && m->takes_back && goes_on; i++) {
        decide(m, i, now);
    }
}

void returns_end(struct monitor *m, int rank)
{
    m->ranks.all[rank].joining = false;
    orders_owe(&m->orders);
}
