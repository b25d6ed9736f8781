/* Workers that die while the server goes on (docs/decisions/0020). The coordinator declares a
 * worker lost, and the server takes from it what it had:
 *
 *      its slice, and the one kept for it   handed out again, to any worker
 *      its test slice                       the same
 *      its gradient in a group              stays: the server has it
 *      a push that stopped in the middle    forgotten: its slice is handed out again
 *      its place in the formulas            W falls by one, groups need fewer gradients
 *
 * How the server learns of it: wait.c. */
#include "worker/exchange/server/parts.h"

#include <string.h>

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
        BUG_ON(s->eval.n_again == SPEC_WORKERS);
        s->eval.again[s->eval.n_again++] =
            (struct slice){.start = k->reply.eval_first, .count = k->reply.eval_count};
        server_set_evaluating(s, k, 0);
    }
    own_state_release(&s->own[rank]);
    k->gave = true; /* it has no state to send; a later attempt gives this rank another worker's */
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
    for (int i = 0; i < s->group.n; i++) {
        if (s->group.by[i] == rank) {
            staleness_add(&out->staleness, s->group.late[i], (int)s->group.slices[i].count);
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
    if (!s->env->lost || !server_note_lost(s)) {
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
