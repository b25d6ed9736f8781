/* The server waits, for pushes or for its answers to leave, while workers may die or come back.
 *
 * MPI does not report a peer's death: a receive from it, or a large message to it, stays under way
 * for ever. So each wait of the server asks every few milliseconds whether a worker was lost. The
 * memory of messages with a lost worker is not used again. */
#include <stdlib.h>

#include "worker/exchange/server/parts.h"

static const double LOOK_SECONDS = 0.02;

bool server_note_lost(struct server *s)
{
    /* seats are read first: a worker that is then reported lost is lost in this seat or a later
     * one */
    s->seats.known = s->env->seats && s->env->seats(s->env->ctx, s->seats.wanted) > 0;
    int W = s->env->comm->workers, ranks[SPEC_WORKERS], n = s->env->lost(s->env->ctx, ranks);
    bool fresh = false;
    for (int i = 0; i < W && s->seats.known; i++) {
        struct client *k = &s->clients[i];
        k->gone = false;
        k->lost = k->lost || s->seats.wanted[i] > k->seat; /* also if its loss was not reported in
                                                        between */
        fresh = fresh || (k->lost && !k->dropped);
    }
    for (int i = 0; i < n; i++) {
        if (ranks[i] < W) {
            struct client *k = &s->clients[ranks[i]];
            k->lost = k->gone = true;
            fresh = fresh || !k->dropped;
        }
    }
    return fresh;
}

bool server_admits(struct server *s)
{
    const struct transport_ops *ops = s->env->comm->t->ops;
    int W = s->env->comm->workers, waits = 0;
    if (!s->env->seats || !ops->admit || !s->seats.known || s->seats.admitted >= 0) {
        return s->seats.admitted >= 0;
    }
    for (int i = 0; i < W; i++) {
        const struct client *k = &s->clients[i];
        bool wanted = k->dropped && !k->gone && s->seats.wanted[i] > k->seat;
        s->seats.free[i] = wanted ? s->seats.wanted[i] : 0;
        waits += wanted;
    }
    s->seats.admitted = waits > 0 ? ops->admit(s->env->comm->t, s->seats.free, W) : -1;
    return s->seats.admitted >= 0;
}

int server_wait(struct server *s, struct comm_op *op, int rank, struct err *e)
{
    struct comm *c = s->env->comm;
    int rc;
    if (!s->env->lost) {
        return (rc = comm_wait(c, op, e)) < 0 ? rc : COMM_DONE;
    }
    while ((rc = comm_wait_for(c, op, LOOK_SECONDS, e)) == COMM_UNDER_WAY) {
        bool fresh = server_note_lost(s);
        bool waits = s->seats.awaited_at > 0;
        if (rank == TRANSPORT_ANY ? fresh || server_admits(s) || waits : s->clients[rank].lost) {
            return COMM_UNDER_WAY;
        }
    }
    return rc;
}

/* ---- pushes that stopped in the middle ------------------------------------------------------- */

int server_renew_arrival(struct server *s, struct err *e)
{
    struct arrival *a = calloc(1, sizeof *a);
    if (s->arrival) {
        s->arrival->torn = s->torn;
        s->torn = s->arrival;
    }
    s->arrival = a;
    if (a) {
        a->g = malloc(s->n * sizeof(float) + 1);
        a->stats_of = malloc(s->n_stats * sizeof(float) + 1);
    }
    return a && a->g && a->stats_of
               ? 0
               : err_set(e, ERR_MEMORY, "cannot hold a gradient of %zu parameters: memory ran out",
                         s->n);
}

static void free_arrival(struct arrival *a)
{
    if (a) {
        free(a->g);
        free(a->stats_of);
        free(a);
    }
}

void server_release_arrivals(struct server *s)
{
    free_arrival(s->arrival);
    while (s->torn) {
        struct arrival *next = s->torn->torn;
        free_arrival(s->torn);
        s->torn = next;
    }
}
