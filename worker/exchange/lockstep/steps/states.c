/* States of a run, from rank 0 to the keeper, which writes them: a header, then up to three blocks
 * (parameters, optimizer state, running statistics). If ranks keep states of their own, each one
 * sends its own too, and the keeper takes them in any order, so a rank that is lost on the way
 * keeps nobody waiting. See lockstep.h. */
#include <math.h>
#include <stdlib.h>

#include "common/log.h"
#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/survival/absence.h"
#include "worker/exchange/lockstep/survival/survivors.h"
#include "worker/exchange/own_state_messages.h"

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

/* Sends blocks and progress. Only rank 0 calls it. */
static int send_blocks(struct lockstep *l, float *optim, size_t n_optim, enum save_why why,
                       enum run_outcome outcome, struct err *e)
{
    struct rank_env *env = l->env;
    struct dev_replica *r = env->replica;
    struct cursor place;
    lockstep_place(l, &place); /* a place from which a run may go on */
    struct worker_word word = {
        .saying = SAYS_STATE,
        .rank = env->comm->rank,
        .state = {.version = l->at.step,
                  .applied = l->at.applied,
                  .cursor = place,
                  .n_params = (int64_t)r->count[DEV_PARAMS],
                  .n_optim = (int64_t)(optim ? n_optim : r->count[DEV_OPTIM]),
                  .n_stats = (int64_t)r->count[DEV_STATS],
                  .accuracy = l->at.evaluated_here ? l->at.last_accuracy : NAN,
                  .loss = l->at.evaluated_here ? l->at.last_loss : NAN,
                  .why = why,
                  .outcome = outcome}};
    int rc = l->within_step ? 0 : fetch_blocks(r, e);
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

static int announce_own(const struct lockstep *l, enum save_why why, struct err *e)
{
    struct comm *c = l->env->comm;
    struct worker_word word = {
        .saying = SAYS_OWN, .rank = c->rank, .own = {.version = l->at.step, .why = why}};
    struct message m;
    message_send(&m, c, c->workers, TAG_STATE, &word, sizeof word, NULL, 0);
    return comm_wait(c, &m.op, e);
}

static int send_own(struct lockstep *l, const struct own_state *own, enum save_why why,
                    struct err *e)
{
    struct rank_env *env = l->env;
    env->aside(env->ctx, true);
    int rc = announce_own(l, why, e);
    if (rc >= 0) {
        rc = own_state_send(env->comm, env->comm->workers, own, e);
    }
    env->aside(env->ctx, false);
    return rc;
}

/* Takes this rank's own state. A last state cannot wait for a program that is started again. */
static int take_own(struct lockstep *l, enum run_outcome outcome, struct own_state *own,
                    struct err *e)
{
    return outcome != RUN_GOES_ON && lockstep_has_copies(l)
               ? absence_provide(l, own, e)
               : l->env->own_state(l->env->ctx, own, e);
}

int lockstep_send_state(struct lockstep *l, float *optim, size_t n_optim, enum save_why why,
                        enum run_outcome outcome, struct err *e)
{
    struct own_state own = {0};
    bool with_own = has_own(l->env, why);
    int rc = with_own ? take_own(l, outcome, &own, e) : 0;
    if (rc == OWN_STATE_AWAY) {
        return STATE_PUT_OFF;
    }
    if (rc >= 0 && lockstep_is_first(l)) {
        rc = send_blocks(l, optim, n_optim, why, outcome, e);
    }
    if (rc >= 0 && with_own) {
        rc = send_own(l, &own, why, e);
    }
    own_state_release(&own);
    return rc < 0 ? rc : STATE_SENT;
}

int lockstep_checkpoint(struct lockstep *l, float *optim, size_t n_optim, struct err *e)
{
    if (!l->at.checkpoint) {
        return 0;
    }
    l->at.checkpoint = false;
    int rc = lockstep_send_state(l, optim, n_optim, SAVE_CHECKPOINT, RUN_GOES_ON, e);
    if (rc == STATE_PUT_OFF) {
        l->asked_checkpoint = true;
        log_info("sync", "a checkpoint is put off by a step: the program has to be started again",
                 "step=%lld", (long long)l->at.step);
    }
    return rc < 0 ? rc : 0;
}

int lockstep_finish(struct lockstep *l, float *optim, size_t n_optim, struct err *e)
{
    if (l->at.stop) {
        return lockstep_send_state(l, optim, n_optim, SAVE_CHECKPOINT, RUN_STOPPED, e);
    }
    if (l->at.pause) {
        return lockstep_send_state(l, optim, n_optim, SAVE_PAUSE, RUN_PAUSED, e);
    }
    return lockstep_send_state(l, optim, n_optim, SAVE_FINAL, RUN_ENDED, e);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

enum { BLOCKS = 3 }; /* parameters, optimizer state, statistics */

struct keeping {
    struct rank_env *env;
    struct survivors survivors;
    float *blocks[BLOCKS];   /* the blocks of the last state; owned */
    double best;             /* score */
    struct run_state *state; /* owned: too large for a fiber's stack */
    /* where workers have states of their own: */
    struct own_state *own;   /* [workers] the last that came; owned */
    struct own_word *own_of; /* [workers] what it belongs to; version -1: none; owned */
    struct due {             /* a state that waits for workers' own states */
        bool waits;
        struct state_head head;
        float *blocks[BLOCKS]; /* owned */
    } due;
};

/* How a wait of the keeper ended. */
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
        *block = NULL; /* a message may still be written to it */
    }
    return rc;
}

static int take_state(struct keeping *k, int from, const struct state_head *head, struct err *e)
{
    const int64_t floats[BLOCKS] = {head->n_params, head->n_optim, head->n_stats};
    int rc = TAKEN;
    for (int i = 0; i < BLOCKS && rc == TAKEN; i++) {
        rc = take_block(k, from, &k->blocks[i], floats[i], e);
    }
    return rc;
}

static void release_own(struct keeping *k, int rank)
{
    own_state_release(&k->own[rank]);
    k->own_of[rank] = (struct own_word){.version = -1};
}

static bool has_own_of(const struct keeping *k, int rank, const struct state_head *head)
{
    return k->own_of[rank].version == head->version && k->own_of[rank].why == head->why;
}

/* Saves a state, with the own states that belong to it. */
static int save_state(struct keeping *k, const struct state_head *head, float *const *blocks,
                      struct err *e)
{
    bool with_own = has_own(k->env, (enum save_why)head->why);
    int W = k->env->comm->workers;
    if (head->why == SAVE_BEST) {
        k->best = fmax(k->best, strategy_score(head->accuracy, head->loss));
    }
    for (int i = 0; i < W && with_own; i++) {
        if (!has_own_of(k, i, head)) {
            release_own(k, i);
        }
    }
    *k->state = (struct run_state){.params = blocks[0],
                                   .optim = blocks[1],
                                   .stats = blocks[2],
                                   .n_params = (size_t)head->n_params,
                                   .n_optim = (size_t)head->n_optim,
                                   .n_stats = (size_t)head->n_stats,
                                   .version = head->version,
                                   .applied_samples = head->applied,
                                   .cursor = head->cursor,
                                   .own = k->own,
                                   .n_own = with_own ? W : 0,
                                   .best = k->best,
                                   .why = (enum save_why)head->why,
                                   .test_accuracy = head->accuracy,
                                   .test_loss = head->loss};
    return k->env->save ? k->env->save(k->env->ctx, k->state, e) : 0;
}

/* Saves the state that is due, once each remaining worker has sent its own. By then the first
 * worker may have sent the last state, while another worker's own was still on its way. */
static int save_due(struct keeping *k, struct state_head *last, struct err *e)
{
    struct due *d = &k->due;
    int W = k->env->comm->workers;
    for (int i = 0; i < W; i++) {
        bool lacks = !has_own_of(k, i, &d->head) && !survivors_lost(&k->survivors, i);
        if (!d->waits || lacks) {
            return 0;
        }
    }
    d->waits = false;
    if (last->outcome == RUN_GOES_ON) {
        *last = d->head;
    }
    int rc = save_state(k, &d->head, d->blocks, e);
    for (int i = 0; i < W; i++) {
        release_own(k, i);
    }
    return rc;
}

/* Takes a state that is complete except for workers' own states. The last state is written when all
 * workers have made their last step; before that another worker may have to send it. */
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
    if (!has_own(k->env, (enum save_why)w->state.why)) {
        *last = w->state;
        return save_state(k, &w->state, k->blocks, e);
    }
    for (int i = 0; i < BLOCKS; i++) { /* a better state may come before the last worker's own */
        float *before = k->due.blocks[i];
        k->due.blocks[i] = k->blocks[i];
        k->blocks[i] = before;
    }
    k->due.head = w->state;
    k->due.waits = true;
    return save_due(k, last, e);
}

static int wait_own(void *ctx, struct message *m, struct err *e)
{
    struct keeping *k = ctx;
    int rc = wait_for(k, m, e);
    if (rc < 0) {
        comm_abandon(k->env->comm);
    }
    return rc;
}

static int follow_own(struct keeping *k, const struct worker_word *w, struct state_head *last,
                      struct err *e)
{
    release_own(k, w->rank);
    int rc = own_state_receive_by(k->env->comm, w->rank, &k->own[w->rank], wait_own, k, e);
    if (rc < 0) {
        return rc;
    }
    k->own_of[w->rank] = rc == TAKEN ? w->own : (struct own_word){.version = -1};
    return save_due(k, last, e);
}

static int follow(struct keeping *k, const struct worker_word *w, struct state_head *last,
                  struct err *e)
{
    int rc;
    switch ((enum saying)w->saying) {
    case SAYS_STATE:
        return follow_state(k, w, last, e);
    case SAYS_OWN:
        return follow_own(k, w, last, e);
    case SAYS_STANDING:
    case SAYS_FINISHED:
    case SAYS_READY:
        break;
    }
    rc = survivors_hear(&k->survivors, w, k->best, e);
    return rc < 0 ? rc : save_due(k, last, e); /* the worker whose own state was missing may be
                                                  lost */
}

/* Takes messages until the last state has come; *last: its head. */
static int serve(struct keeping *k, struct state_head *last, struct err *e)
{
    struct rank_env *env = k->env;
    bool any = env->lost || env->keeps_own;
    int rc = 0;
    while (rc >= 0 &&
           !(last->outcome != RUN_GOES_ON && (!env->lost || survivors_finished(&k->survivors)))) {
        struct worker_word w;
        struct message m;
        message_recv(&m, env->comm, any ? TRANSPORT_ANY : 0, TAG_STATE, &w, sizeof w, NULL, 0);
        if ((rc = wait_for(k, &m, e)) >= 0) {
            rc = follow(k, &w, last, e);
        }
    }
    if (rc >= 0 && env->lost && (rc = survivors_end(&k->survivors, e)) >= 0) {
        rc = save_state(k, last, k->blocks, e);
    }
    return rc;
}

static int init(struct keeping *k, const struct run_state *from, struct err *e)
{
    size_t W = (size_t)k->env->comm->workers;
    k->best = from->best;
    k->own = calloc(W, sizeof *k->own);
    k->own_of = malloc(W * sizeof *k->own_of);
    k->state = calloc(1, sizeof *k->state);
    for (size_t i = 0; k->own_of && i < W; i++) {
        k->own_of[i].version = -1;
    }
    return k->own && k->own_of && k->state ? survivors_init(&k->survivors, k->env, from, e)
                                           : err_set(e, ERR_MEMORY, "cannot serve: memory ran out");
}

static void release(struct keeping *k)
{
    survivors_release(&k->survivors);
    for (int i = 0; i < BLOCKS; i++) {
        free(k->blocks[i]);
        free(k->due.blocks[i]);
    }
    for (int i = 0; k->own && i < k->env->comm->workers; i++) {
        own_state_release(&k->own[i]);
    }
    free(k->own);
    free(k->own_of);
    free(k->state);
}

int lockstep_serve(struct rank_env *env, const struct run_state *from, struct err *e)
{
    struct keeping k = {.env = env};
    struct state_head last = {.outcome = RUN_GOES_ON};
    double deadline = env->comm->deadline;
    int rc = init(&k, from, e);
    env->comm->deadline = 0; /* the next state may be hours away; heartbeats tell who is alive */
    if (rc >= 0) {
        rc = serve(&k, &last, e);
    }
    env->comm->deadline = deadline;
    if (rc < 0) {
        comm_abandon(env->comm); /* a message may still be written to a block */
    }
    release(&k);
    return rc < 0 ? rc : last.outcome;
}
