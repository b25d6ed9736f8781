/* How a server starts and ends, and the states that it writes (docs/semantics.md#samples): weights,
 * rule state, cursor, and the slices that are out. */
#include "worker/exchange/server/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t blocks_of(const struct server *s)
{
    return s->n > 0 ? s->updates.n_optim / s->n : 0;
}

/* Room for the ranges of all servers. */
static int hold_full_state(struct server *s, struct err *e)
{
    size_t n = s->env->n_params;
    s->full = malloc(n * sizeof(float) + 1);
    s->full_optim = malloc(blocks_of(s) * n * sizeof(float) + 1);
    return s->full && s->full_optim
               ? 0
               : err_set(e, ERR_MEMORY, "cannot hold a state of %zu parameters: memory ran out", n);
}

int server_init(struct server *s, struct rank_env *env, const struct run_state *from, struct err *e)
{
    int W = env->comm->workers;
    s->env = env;
    s->n = shard_count(env->n_params, env->comm->servers, 0);
    s->n_stats = env->n_stats;
    s->stats = calloc(2 * s->n_stats + 1, sizeof(float));
    s->redo = calloc(RUN_SLICES, sizeof *s->redo);
    s->clients = calloc((size_t)W, sizeof *s->clients);
    s->state = calloc(1, sizeof *s->state);
    s->own = calloc((size_t)W, sizeof *s->own);
    bool ok = s->stats && s->redo && s->clients && s->state && s->own;
    for (int i = 0; ok && i < W; i++) {
        s->clients[i].stats = malloc(s->n_stats * sizeof(float) + 1);
        staleness_init(&s->clients[i].staleness);
        ok = s->clients[i].stats != NULL;
    }
    if (!ok) {
        return err_set(e, ERR_MEMORY, "cannot serve %d workers with %zu parameters: memory ran out",
                       W, s->n);
    }
    s->eval.stats = s->stats + s->n_stats;
    if (from->stats && from->n_stats == s->n_stats) {
        memcpy(s->stats, from->stats, s->n_stats * sizeof(float));
    }
    s->cursor = from->cursor;
    s->applied = from->applied_samples;
    memcpy(s->redo, from->out, (size_t)from->n_out * sizeof *s->redo);
    s->n_redo = from->n_out;
    s->eval.last_version = s->seats.admitted = -1;
    s->outcome = RUN_GOES_ON;
    for (int i = 0; i < W; i++) {
        staleness_restore(&s->clients[i].staleness, from->staleness, i, W);
    }
    s->eval.best = from->best;
    agenda_init(&s->agenda, env->spec, env->train_samples, s->applied, from->version,
                comm_now(env->comm));
    int rc = server_renew_arrival(s, e);
    if (rc < 0) {
        return rc;
    }
    rc = updates_init(&s->updates, s->policy, env, 0, s->n, from, e);
    return rc < 0 || env->comm->servers == 1 ? rc : hold_full_state(s, e);
}

void server_release(struct server *s)
{
    for (int i = 0; s->clients && s->own && i < s->env->comm->workers; i++) {
        free(s->clients[i].stats);
        own_state_release(&s->own[i]);
        staleness_release(&s->clients[i].staleness);
    }
    updates_release(&s->updates);
    free(s->own);
    free(s->clients);
    free(s->redo);
    free(s->full);
    free(s->full_optim);
    server_release_arrivals(s);
    free(s->stats);
    free(s->state);
}

/* The staleness of each worker; new reference. */
static json_t *dump_staleness(const struct server *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->env->comm->workers; i++) {
        json_array_append_new(list, staleness_dump(&s->clients[i].staleness));
    }
    return list;
}

/* Adds a slice that is not done; joins pieces of one that was split. */
static void add_out(struct run_state *state, const struct slice *slice)
{
    struct slice *last = state->n_out > 0 ? &state->out[state->n_out - 1] : NULL;
    if (slice->count == 0) {
        return;
    }
    if (last && last->epoch == slice->epoch && last->start + last->count == slice->start) {
        last->count += slice->count;
        return;
    }
    BUG_ON(state->n_out == RUN_SLICES);
    state->out[state->n_out++] = *slice;
}

/* Collects all ranges into one block. `params`: this server's range of the newest weights, or of
 * those under evaluation; on return all of them. `optim` likewise. */
static int collect(struct server *s, bool evaluated, const float **params, const float **optim,
                   struct err *e)
{
    size_t n = s->env->n_params, blocks = blocks_of(s);
    if (s->env->comm->servers == 1) {
        return 0;
    }
    int rc = server_order(s, evaluated ? ORDER_STATE_EVAL : ORDER_STATE, 0, e);
    if (rc < 0) {
        return rc;
    }
    memcpy(s->full, *params, s->n * sizeof(float));
    for (size_t b = 0; b < blocks; b++) {
        memcpy(s->full_optim + b * n, s->updates.optim + b * s->n, s->n * sizeof(float));
    }
    *params = s->full;
    *optim = blocks > 0 ? s->full_optim : NULL;
    return shard_collect(s->env->comm, s->full, s->full_optim, n, (int)blocks, e);
}

int server_save(struct server *s, enum save_why why, struct err *e)
{
    struct run_state *state = s->state;
    bool evaluated = why == SAVE_BEST,
         told = evaluated || s->eval.last_version == s->updates.version;
    const float *params = evaluated ? s->eval.snapshot->w : s->updates.now->w,
                *stats = evaluated ? s->eval.stats : s->stats;
    const float *optim = s->updates.optim;
    int rc = collect(s, evaluated, &params, &optim, e);
    if (rc < 0 || !s->env->save) {
        return rc;
    }
    *state = (struct run_state){
        .params = params,
        .optim = optim,
        .stats = stats,
        .n_params = s->env->n_params,
        .n_optim = blocks_of(s) * s->env->n_params,
        .n_stats = s->n_stats,
        .version = evaluated ? s->eval.last_version : s->updates.version,
        .applied_samples = evaluated ? s->eval.last_applied : s->applied,
        .cursor = s->cursor,
        .own = s->own,
        .n_own = s->env->keeps_own && why != SAVE_BEST ? s->env->comm->workers : 0,
        .staleness = dump_staleness(s),
        .best = s->eval.best,
        .why = why,
        .test_accuracy = told ? s->eval.last_accuracy : NAN,
        .test_loss = told ? s->eval.last_loss : NAN};
    for (int i = 0; i < s->n_redo; i++) {
        add_out(state, &s->redo[i]);
    }
    for (int i = 0; i < s->group.n; i++) {
        add_out(state, &s->group.slices[i]);
    }
    for (int i = 0; i < s->env->comm->workers; i++) {
        add_out(state, &s->clients[i].out);
        add_out(state, &s->clients[i].kept);
    }
    rc = s->env->save(s->env->ctx, state, e);
    json_decref(state->staleness);
    state->staleness = NULL;
    return rc;
}

/* ---- workers' own states --------------------------------------------------------------------- */

static void ask_all(struct server *s)
{
    for (int i = 0; i < s->env->comm->workers; i++) {
        s->clients[i].gave = s->clients[i].dropped;
    }
}

bool server_has_own_states(const struct server *s)
{
    for (int i = 0; i < s->env->comm->workers; i++) {
        if (!s->clients[i].gave) {
            return false;
        }
    }
    return true;
}

/* Each worker is asked with its next answer, and sends the state that belongs to the weights in it.
 * So the states are from about the last round. With one worker the state is exact. */
int server_checkpoint(struct server *s, struct err *e)
{
    if (!s->env->keeps_own) {
        return server_save(s, SAVE_CHECKPOINT, e);
    }
    if (!s->collecting) {
        ask_all(s);
    }
    s->collecting = true;
    return 0;
}

int server_save_last(struct server *s, enum save_why why, struct err *e)
{
    s->collecting = false;
    s->last_save = why;
    ask_all(s);
    return s->env->keeps_own ? 0 : server_save(s, why, e);
}

int server_complete_checkpoint(struct server *s, struct err *e)
{
    if (!s->collecting || !server_has_own_states(s)) {
        return 0;
    }
    s->collecting = false;
    return server_save(s, SAVE_CHECKPOINT, e);
}

enum taken { TAKEN, SENDER_LOST };

/* See own_state_wait_fn. */
static int wait_own(void *ctx, struct message *m, struct err *e)
{
    struct server *s = ctx;
    int rc = server_wait(s, &m->op, m->peer, e);
    if (rc == COMM_UNDER_WAY) {
        return (rc = comm_cancel(s->env->comm, &m->op, e)) < 0 ? rc : SENDER_LOST;
    }
    if (rc < 0) {
        comm_abandon(s->env->comm); /* a piece may still be written to memory that is freed next */
    }
    return rc < 0 ? rc : TAKEN;
}

int server_take_own_state(struct server *s, int rank, struct err *e)
{
    own_state_release(&s->own[rank]);
    int rc = own_state_receive_by(s->env->comm, rank, &s->own[rank], wait_own, s, e);
    if (rc == SENDER_LOST) {
        return 0; /* the worker is dropped next */
    }
    s->clients[rank].gave = true;
    return rc < 0 ? rc : server_complete_checkpoint(s, e);
}
