/* Workers that die while the server goes on (docs/decisions/0020). The coordinator declares a
 * worker lost, and the server takes from it what it had:
 *
 *      its slice, and the one kept for it   handed out again, to any worker
 *      its test slice                       the same
 *      its gradient in a group              stays: the server has it
 *      a push that stopped in the middle    forgotten: its slice is handed out again
 *      its place in the formulas            W falls by one, groups need fewer gradients
 *
 * MPI does not tell that a peer has died: a receive from it, or a large message to it, is under way
 * for ever. So each wait of the server looks up every few milliseconds whether a worker was lost,
 * and the memory of what is under way with a lost one is not used again. */
#include "worker/exchange/server/parts.h"

#include <stdlib.h>
#include <string.h>

static const double LOOK_SECONDS = 0.02;

/* Marks the workers that were declared lost; is there one that is not dropped yet? */
static bool note_lost(struct server *s)
{
    /* asked first: who is lost then is lost in the seat that is known here, or in a later one */
    s->seats_taken = s->env->seats && s->env->seats(s->env->ctx, s->seats) > 0;
    int W = s->env->comm->workers, ranks[SPEC_WORKERS], n = s->env->lost(s->env->ctx, ranks);
    bool fresh = false;
    for (int i = 0; i < W && s->seats_taken; i++) {
        struct client *k = &s->clients[i];
        k->gone = false;
        k->lost = k->lost || s->seats[i] > k->seat; /* also where nobody has said so in between */
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

int server_wait(struct server *s, struct comm_op *op, int rank, struct err *e)
{
    struct comm *c = s->env->comm;
    int rc;
    if (!s->env->lost) {
        return (rc = comm_wait(c, op, e)) < 0 ? rc : COMM_DONE;
    }
    while ((rc = comm_wait_for(c, op, LOOK_SECONDS, e)) == COMM_UNDER_WAY) {
        bool fresh = note_lost(s);
        if (rank == TRANSPORT_ANY ? fresh || server_admits(s) : s->clients[rank].lost) {
            return COMM_UNDER_WAY;
        }
    }
    return rc;
}

static void unpark(struct server *s, int rank)
{
    int still = 0;
    for (int i = 0; i < s->n_parked; i++) {
        if (s->parked[i] != rank) {
            s->parked[still++] = s->parked[i];
        }
    }
    s->n_parked = still;
    s->clients[rank].parked = false;
}

static void drop(struct server *s, int rank)
{
    struct client *k = &s->clients[rank];
    k->dropped = true;
    k->again = false;
    server_redo(s, &k->out);
    server_redo(s, &k->kept);
    server_set_out(s, k, NULL);
    server_set_kept(s, k, NULL);
    if (k->evaluating > 0) {
        BUG_ON(s->n_eval_again == SPEC_WORKERS);
        s->eval_again[s->n_eval_again++] =
            (struct slice){.start = k->reply.eval_first, .count = k->reply.eval_count};
        server_set_evaluating(s, k, 0);
    }
    own_state_release(&s->own[rank]);
    k->gave = true; /* nothing: a later attempt gives this rank another one's */
    unpark(s, rank);
    s->n_ended += !k->ended;
    k->ended = true;
    s->least = -1;
    s->env->n_lost++;
    s->lost_any = true;
}

void server_account(const struct server *s, int rank, struct departure *out)
{
    const struct client *k = &s->clients[rank];
    *out = (struct departure){.who = rank,
                              .step = s->updates.version,
                              .others = strategy_workers(s->env),
                              .pushes = k->pushes};
    json_t *dump = staleness_dump(&k->staleness);
    staleness_read(&out->staleness, dump); /* a copy */
    json_decref(dump);
    for (int i = 0; i < s->n_grouped; i++) {
        if (s->grouped_by[i] == rank) {
            staleness_add(&out->staleness, s->grouped_late[i], (int)s->grouped[i].count);
        }
    }
}

static void tell_left(struct server *s, int rank)
{
    struct departure left;
    server_account(s, rank, &left);
    s->env->left(s->env->ctx, &left);
    staleness_release(&left.staleness);
}

int server_drop_lost(struct server *s)
{
    int W = s->env->comm->workers, dropped = 0;
    if (!s->env->lost || !note_lost(s)) {
        return 0;
    }
    for (int i = 0; i < W; i++) {
        struct client *k = &s->clients[i];
        if (k->lost && !k->dropped) {
            drop(s, i);
            tell_left(s, i);
            dropped++;
        }
    }
    return dropped;
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
