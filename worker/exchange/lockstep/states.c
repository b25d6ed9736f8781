/* States of a run, from rank 0 to the keeper, which writes them: a header, then up to three blocks
 * (parameters, optimizer state, running statistics); then each rank's own state, if they keep one.
 * See lockstep.h. */
#include <stdlib.h>

#include "worker/exchange/lockstep/lockstep.h"
#include "worker/exchange/lockstep/survivors.h"

static const double LOOK_SECONDS = 0.02;

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static int send_block(struct comm *c, float *data, size_t n, struct err *e)
{
    struct message m;
    char none = 0;
    if (n == 0) {
        return 0;
    }
    message_send(&m, c, c->workers, TAG_BLOCK, &none, 1, data, n);
    return comm_wait(c, &m.op, e);
}

static int fetch_blocks(struct dev_replica *r, struct err *e)
{
    static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
    int rc = 0;
    for (int i = 0; i < 3 && rc >= 0; i++) {
        size_t n = r->count[blocks[i]];
        rc = n > 0 ? r->dev->ops->fetch(r, blocks[i], 0, n, e) : 0;
    }
    return rc;
}

static int send_all(struct comm *c, struct worker_word *word, const struct dev_replica *r,
                    float *optim, struct err *e)
{
    const struct state_head *head = &word->state;
    struct message m;
    int rc;
    message_send(&m, c, c->workers, TAG_STATE, word, sizeof *word, NULL, 0);
    if ((rc = comm_wait(c, &m.op, e)) < 0 ||
        (rc = send_block(c, r->host[DEV_PARAMS], (size_t)head->n_params, e)) < 0 ||
        (rc = send_block(c, optim, (size_t)head->n_optim, e)) < 0) {
        return rc;
    }
    return send_block(c, r->host[DEV_STATS], (size_t)head->n_stats, e);
}

/* Blocks and progress, from rank 0 alone. */
static int send_blocks(struct lockstep *l, float *optim, size_t n_optim, enum save_why why,
                       enum run_outcome outcome, struct err *e)
{
    struct rank_env *env = l->env;
    struct dev_replica *r = env->replica;
    struct worker_word word = {
        .saying = SAYS_STATE,
        .rank = env->comm->rank,
        .state = {.version = l->step,
                  .applied = l->applied,
                  .cursor = l->cursor,
                  .n_params = (int64_t)r->count[DEV_PARAMS],
                  .n_optim = (int64_t)(optim ? n_optim : r->count[DEV_OPTIM]),
                  .n_stats = (int64_t)r->count[DEV_STATS],
                  .accuracy = l->evaluated_here ? l->last_accuracy : -1,
                  .loss = l->last_loss,
                  .why = why,
                  .outcome = outcome}};
    int rc = fetch_blocks(r, e);
    if (rc < 0) {
        return rc;
    }
    env->aside(env->ctx, true);
    rc = send_all(env->comm, &word, r, optim ? optim : r->host[DEV_OPTIM], e);
    env->aside(env->ctx, false);
    return rc;
}

static bool has_own(const struct rank_env *env, enum save_why why)
{
    return env->keeps_own && why != SAVE_BEST;
}

static int send_own(struct lockstep *l, struct err *e)
{
    struct rank_env *env = l->env;
    struct own_state own;
    int rc = env->own_state(env->ctx, &own, e);
    if (rc < 0) {
        return rc;
    }
    env->aside(env->ctx, true);
    rc = own_state_send(env->comm, env->comm->workers, &own, e);
    env->aside(env->ctx, false);
    own_state_release(&own);
    return rc;
}

int lockstep_send_state(struct lockstep *l, float *optim, size_t n_optim, enum save_why why,
                        enum run_outcome outcome, struct err *e)
{
    int rc = lockstep_is_first(l) ? send_blocks(l, optim, n_optim, why, outcome, e) : 0;
    return rc < 0 || !has_own(l->env, why) ? rc : send_own(l, e);
}

int lockstep_checkpoint(struct lockstep *l, float *optim, size_t n_optim, struct err *e)
{
    if (!l->checkpoint) {
        return 0;
    }
    l->checkpoint = false;
    return lockstep_send_state(l, optim, n_optim, SAVE_CHECKPOINT, RUN_GOES_ON, e);
}

int lockstep_finish(struct lockstep *l, float *optim, size_t n_optim, struct err *e)
{
    if (l->stop) {
        return lockstep_send_state(l, optim, n_optim, SAVE_CHECKPOINT, RUN_STOPPED, e);
    }
    if (l->pause) {
        return lockstep_send_state(l, optim, n_optim, SAVE_PAUSE, RUN_PAUSED, e);
    }
    return lockstep_send_state(l, optim, n_optim, SAVE_FINAL, RUN_ENDED, e);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

struct keeping {
    struct rank_env *env;
    struct survivors survivors;
    float *params, *optim, *stats; /* those of the last state; owned */
    struct own_state *own;         /* [workers], of the state under way; owned */
    double best;                   /* accuracy */
    struct run_state *state;       /* owned: too large for a fiber's stack */
};

/* What a wait of the keeper ended with. */
enum taken { TAKEN, SENDER_LOST };

/* Waits for a message of one worker, or of any: enum taken, or negative. */
static int wait_for(struct keeping *k, struct message *m, struct err *e)
{
    struct comm *c = k->env->comm;
    bool any = m->peer == TRANSPORT_ANY;
    int rc;
    if (!k->env->lost) {
        return comm_wait(c, &m->op, e);
    }
    while ((rc = comm_wait_for(c, &m->op, LOOK_SECONDS, e)) == COMM_UNDER_WAY) {
        if ((rc = survivors_look(&k->survivors, e)) < 0) {
            comm_abandon(c);
            return rc;
        }
        if (!any && survivors_lost(&k->survivors, m->peer)) {
            return (rc = comm_cancel(c, &m->op, e)) < 0 ? rc : SENDER_LOST;
        }
    }
    return rc < 0 ? rc : TAKEN;
}

static int take_block(struct keeping *k, int from, float **block, int64_t n, struct err *e)
{
    struct message m;
    char none;
    if (n <= 0) {
        return TAKEN;
    }
    if (!*block && !(*block = malloc((size_t)n * sizeof(float)))) {
        return err_set(e, ERR_MEMORY, "cannot hold a state of %lld floats: memory ran out",
                       (long long)n);
    }
    message_recv(&m, k->env->comm, from, TAG_BLOCK, &none, 1, *block, (size_t)n);
    int rc = wait_for(k, &m, e);
    if (rc == SENDER_LOST && m.op.torn) {
        *block = NULL; /* belongs to the message that may still come */
    }
    return rc;
}

static int take_state(struct keeping *k, int from, const struct state_head *head, struct err *e)
{
    int rc;
    if ((rc = take_block(k, from, &k->params, head->n_params, e)) != TAKEN ||
        (rc = take_block(k, from, &k->optim, head->n_optim, e)) != TAKEN) {
        return rc;
    }
    return take_block(k, from, &k->stats, head->n_stats, e);
}

static void release_own(struct keeping *k)
{
    for (int i = 0; i < k->env->comm->workers; i++) {
        own_state_release(&k->own[i]);
    }
}

static int take_own(struct keeping *k, const struct state_head *head, struct err *e)
{
    int rc = 0;
    for (int i = 0;
         has_own(k->env, (enum save_why)head->why) && i < k->env->comm->workers && rc >= 0; i++) {
        rc = own_state_receive(k->env->comm, i, &k->own[i], e);
    }
    return rc;
}

static int save_state(struct keeping *k, const struct state_head *head, struct err *e)
{
    if (head->why == SAVE_BEST && head->accuracy > k->best) {
        k->best = head->accuracy;
    }
    *k->state = (struct run_state){
        .params = k->params,
        .optim = k->optim,
        .stats = k->stats,
        .n_params = (size_t)head->n_params,
        .n_optim = (size_t)head->n_optim,
        .n_stats = (size_t)head->n_stats,
        .version = head->version,
        .applied_samples = head->applied,
        .cursor = head->cursor,
        .own = k->own,
        .n_own = has_own(k->env, (enum save_why)head->why) ? k->env->comm->workers : 0,
        .best = k->best,
        .why = (enum save_why)head->why,
        .test_accuracy = head->accuracy,
        .test_loss = head->loss};
    return k->env->save ? k->env->save(k->env->ctx, k->state, e) : 0;
}

/* A state that is complete. The last one is written when all workers have made their last step:
 * before that, another of them may have to give it. */
static int follow_state(struct keeping *k, const struct worker_word *w, struct state_head *last,
                        struct err *e)
{
    int rc = take_state(k, w->rank, &w->state, e);
    if (rc != TAKEN) {
        return rc < 0 ? rc : 0;
    }
    if (k->env->lost && w->state.outcome != RUN_GOES_ON) {
        *last = w->state;
        return 0;
    }
    if ((rc = take_own(k, &w->state, e)) >= 0) {
        *last = w->state;
        rc = save_state(k, &w->state, e);
        release_own(k);
    }
    return rc;
}

/* Takes words until the last state is there; *last: its head. */
static int serve(struct keeping *k, struct state_head *last, struct err *e)
{
    struct rank_env *env = k->env;
    int rc = 0;
    while (rc >= 0 &&
           !(last->outcome != RUN_GOES_ON && (!env->lost || survivors_finished(&k->survivors)))) {
        struct worker_word w;
        struct message m;
        message_recv(&m, env->comm, env->lost ? TRANSPORT_ANY : 0, TAG_STATE, &w, sizeof w, NULL,
                     0);
        if ((rc = wait_for(k, &m, e)) >= 0) {
            rc = w.saying == SAYS_STATE ? follow_state(k, &w, last, e)
                                        : survivors_hear(&k->survivors, &w, k->best, e);
        }
    }
    if (rc >= 0 && env->lost && (rc = survivors_end(&k->survivors, e)) >= 0) {
        rc = save_state(k, last, e);
    }
    return rc;
}

int lockstep_serve(struct rank_env *env, const struct run_state *from, struct err *e)
{
    struct keeping k = {.env = env,
                        .own = calloc((size_t)env->comm->workers, sizeof *k.own),
                        .state = calloc(1, sizeof *k.state),
                        .best = from->best};
    struct state_head last = {.outcome = RUN_GOES_ON};
    double deadline = env->comm->deadline;
    int rc = k.state && k.own ? survivors_init(&k.survivors, env, from, e)
                              : err_set(e, ERR_MEMORY, "cannot serve: memory ran out");
    env->comm->deadline = 0; /* the next state may be hours away; heartbeats tell who is alive */
    if (rc >= 0) {
        rc = serve(&k, &last, e);
    }
    env->comm->deadline = deadline;
    if (rc < 0) {
        comm_abandon(env->comm); /* a block may still be coming */
    }
    survivors_release(&k.survivors);
    free(k.params);
    free(k.optim);
    free(k.stats);
    free(k.own);
    free(k.state);
    return rc < 0 ? rc : last.outcome;
}
