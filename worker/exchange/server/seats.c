/* Workers that take the seats of those that died, while the server goes on (docs/decisions/0049).
 * The coordinator has the worker started again, and it knocks once it could compute:
 *
 *      it gets      the job's time 0, its counters as the server has them, weights and a slice
 *      it gives     its place in the formulas: W grows by one, groups need more gradients
 *      its clock    is that of the slowest other worker, so that nobody waits for it (ssp)
 */
#include "worker/exchange/seat.h"
#include "worker/exchange/server/parts.h"

/* This is longer than the coordinator waits before it has a worker started again (returns.c). It
 * decides itself how long a worker that was started may take. */
static const double RETURN_SECONDS = 20;

bool server_expects(struct server *s)
{
    double now = comm_now(s->env->comm);
    if (!s->env->seats || !s->env->comm->t->ops->admit) {
        return false;
    }
    bool comes = s->seats.awaited_at == 0;
    for (int i = 0; i < s->env->comm->workers; i++) {
        const struct client *k = &s->clients[i];
        comes = comes || (k->dropped && !k->gone && s->seats.wanted[i] > k->seat);
    }
    s->seats.awaited_at = comes ? now : s->seats.awaited_at;
    return now - s->seats.awaited_at < RETURN_SECONDS;
}

/* Cancels the messages that were on their way to the dead worker. */
static int end_answers(struct server *s, struct client *k, struct err *e)
{
    struct message *under_way[] = {&k->head, &k->weights, &k->stats_sent};
    int rc = 0;
    for (int i = 0; i < 3 && k->sending && rc >= 0; i++) {
        if (under_way[i]->op.step && comm_test(&under_way[i]->op) == COMM_UNDER_WAY) {
            rc = comm_cancel(s->env->comm, &under_way[i]->op, e);
        }
    }
    return rc;
}

/* The least count of gradients of any other worker that still computes. */
static int64_t least_clock(const struct server *s, int rank)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->env->comm->workers; i++) {
        const struct client *k = &s->clients[i];
        int64_t clock = server_clock(k);
        least = i == rank || k->ended || k->left || clock > least ? least : clock;
    }
    return least;
}

static void seat(struct server *s, int rank)
{
    struct client *k = &s->clients[rank];
    int64_t least = least_clock(s, rank), own = server_clock(k);
    k->seat = s->seats.free[rank]; /* it may have died since, and its next process may be
                                      expected */
    k->lost = k->dropped = k->gone = false;
    k->ended = k->left = k->told_last = k->again = k->parked = k->sending = false;
    k->gave = false;
    k->ahead_of += least != INT64_MAX && least > own ? least - own : 0;
    k->reply.staleness = -1;
    s->seats.awaited_at = 0;
    s->n_ended--;
    s->least = -1;
    s->env->n_lost--;
}

int server_take_back_seat(struct server *s, struct err *e)
{
    int rank = s->seats.admitted;
    struct client *k = rank >= 0 ? &s->clients[rank] : NULL;
    int rc = k ? end_answers(s, k, e) : 0;
    s->seats.admitted = -1;
    if (!k || rc < 0) {
        return rc;
    }
    seat(s, rank);
    updates_regroup(&s->updates); /* groups need more gradients */
    struct departure back;
    server_account(s, rank, &back);
    if ((rc = seat_give(s->env, &back, s->updates.version, server_next_epoch(s), e)) >= 0) {
        s->env->returned(s->env->ctx, &back);
        server_park(s, rank);
        rc = server_serve_parked(s, e);
    }
    staleness_release(&back.staleness);
    return rc;
}
