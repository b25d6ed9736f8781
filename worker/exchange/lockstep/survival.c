/* See survival.h. */
#include "worker/exchange/lockstep/survival.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"

static const double LOOK_SECONDS = 0.02;
static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* What a giver tells with what it gives: words of the last step and of its evaluation. */
struct gift {
    float loss, correct;
    int32_t stop, pause, checkpoint;
    int32_t left;
    int64_t test_samples;
    double test_loss, test_accuracy;
};

/* Floats that a giver gives: its replica, or the sums of the last step. */
struct floats {
    float *at;
    size_t n;
};
enum { FLOATS_MOST = BLOCKS };

struct survival {
    struct lockstep *l;
    struct gradients *g;
    bool sums;          /* gradients keep their sums: a step is summed again, not computed */
    int round;          /* workers that were dropped */
    struct tally *made; /* [workers] in this attempt; owned */
    struct gift said;   /* but for the evaluation */
    bool torn;          /* the replica is none */
    bool behind;        /* it was brought to the step of the last verdict */
    struct worker_word word;
    struct verdict heard;
};

/* ---- while all is well ----------------------------------------------------------------------- */

bool survival_is_possible(const struct rank_env *env)
{
    return env->lost && env->comm->workers > 1;
}

static bool is_lost(const struct survival *s, int rank)
{
    int ranks[SPEC_WORKERS], n = s->l->env->lost(s->l->env->ctx, ranks);
    bool found = false;
    for (int i = 0; i < n; i++) {
        found = found || ranks[i] == rank;
    }
    return found;
}

static bool one_is_lost(void *ctx)
{
    const struct survival *s = ctx;
    int ranks[SPEC_WORKERS];
    return s->l->env->lost(s->l->env->ctx, ranks) > s->round;
}

struct survival *survival_new(struct lockstep *l, struct gradients *g, struct err *e)
{
    struct comm *c = l->env->comm;
    struct survival *s = calloc(1, sizeof *s);
    struct tally *made = calloc((size_t)c->workers, sizeof *made);
    if (!s || !made) {
        free(s);
        free(made);
        err_set(e, ERR_MEMORY, "cannot count the workers' steps: memory ran out");
        return NULL;
    }
    s->l = l;
    s->g = g;
    s->sums = gradients_keeps_sums(g);
    s->made = made;
    c->lost = one_is_lost;
    c->lost_ctx = s;
    if (gradients_keep(g, e) < 0) {
        survival_free(s);
        return NULL;
    }
    return s;
}

void survival_free(struct survival *s)
{
    if (s) {
        s->l->env->comm->lost = NULL;
        free(s->made);
        free(s);
    }
}

static void count_step(struct survival *s)
{
    for (int i = 0; i < s->l->env->comm->workers; i++) {
        s->made[i].samples += s->l->counts[i];
        s->made[i].steps += s->l->counts[i] > 0;
    }
}

void survival_note(struct survival *s, const float *words)
{
    if (s) {
        count_step(s);
        s->said = (struct gift){.loss = words[WORD_LOSS],
                                .correct = words[WORD_CORRECT],
                                .stop = s->l->stop,
                                .pause = s->l->pause,
                                .checkpoint = s->l->checkpoint};
    }
}

void survival_watch(struct survival *s, bool on)
{
    if (s) {
        s->l->env->comm->watches = on;
    }
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static int say(struct survival *s, enum saying what, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct message m;
    s->word.saying = what;
    s->word.rank = c->rank;
    message_send(&m, c, c->workers, TAG_STATE, &s->word, sizeof s->word, NULL, 0);
    return comm_wait(c, &m.op, e);
}

/* Others may still compute, for as long as their step takes; heartbeats tell who is alive. */
static int hear(struct survival *s, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct message m;
    double deadline = c->deadline;
    c->deadline = 0;
    message_recv(&m, c, c->workers, TAG_VERDICT, &s->heard, sizeof s->heard, NULL, 0);
    int rc = comm_wait(c, &m.op, e);
    c->deadline = deadline;
    return rc;
}

static int answer(struct survival *s, struct err *e)
{
    struct standing *mine = &s->word.standing;
    *mine = (struct standing){.round = s->heard.round,
                              .torn = s->torn,
                              .step = s->l->step,
                              .evaluated = s->l->evaluated_here};
    for (int i = 0; i < s->heard.round; i++) {
        mine->lost[i] = s->made[s->heard.lost[i]];
    }
    return say(s, SAYS_STANDING, e);
}

/* FNV-1a over the bits of the blocks, float by float. */
static uint64_t digest_of(const struct dev_replica *r)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < BLOCKS; i++) {
        for (size_t k = 0; k < r->count[blocks[i]]; k++) {
            uint32_t bits;
            memcpy(&bits, &r->host[blocks[i]][k], sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3;
        }
    }
    return hash;
}

static int say_finished(struct survival *s, struct err *e)
{
    s->word.standing = (struct standing){
        .round = s->round,
        .step = s->l->step,
        .evaluated = s->l->evaluated_here,
        .digest = s->round > 0 && !s->sums ? digest_of(s->l->env->replica) : 0,
    };
    return say(s, SAYS_FINISHED, e);
}

/* ---- the replica or a sum, from one worker to another ---------------------------------------- */

enum given { GIVEN, PEER_LOST };

/* enum given, or negative. */
static int wait_for_peer(struct survival *s, struct message *m, struct err *e)
{
    struct comm *c = s->l->env->comm;
    int rc;
    while ((rc = comm_wait_for(c, &m->op, LOOK_SECONDS, e)) == COMM_UNDER_WAY) {
        if (is_lost(s, m->peer)) {
            rc = comm_cancel(c, &m->op, e);
            return rc < 0       ? rc
                   : m->op.torn ? err_set(e, ERR_PEER, "worker %d was lost while it gave", m->peer)
                                : PEER_LOST;
        }
    }
    return rc < 0 ? rc : GIVEN;
}

/* How many. */
static int list_floats(const struct survival *s, enum which_sum which, struct floats *out)
{
    const struct dev_replica *r = s->l->env->replica;
    for (int i = 0; i < SUM_PARTS && s->sums; i++) {
        out[i].at = gradients_sum_part(s->g, which, i, &out[i].n);
    }
    for (int i = 0; i < BLOCKS && !s->sums; i++) {
        out[i] = (struct floats){r->host[blocks[i]], r->count[blocks[i]]};
    }
    return s->sums ? SUM_PARTS : BLOCKS;
}

/* To one worker, or from one: the gift goes with the first floats. */
static int pass_floats(struct survival *s, int peer, bool give, struct gift *gift, struct err *e)
{
    struct comm *c = s->l->env->comm;
    struct floats floats[FLOATS_MOST];
    int n = list_floats(s, give ? SUM_ENDED : SUM_UNDER_WAY, floats), rc = GIVEN;
    for (int i = 0; i < n && rc == GIVEN; i++) {
        struct message m;
        if (give) {
            message_send(&m, c, peer, TAG_GIFT, gift, sizeof *gift, floats[i].at, floats[i].n);
        } else {
            message_recv(&m, c, peer, TAG_GIFT, gift, sizeof *gift, floats[i].at, floats[i].n);
        }
        rc = wait_for_peer(s, &m, e);
    }
    return rc;
}

/* The replica's blocks between the device and the host; sums are on the host. */
static int move_replica(struct survival *s, bool fetch, struct err *e)
{
    struct dev_replica *r = s->l->env->replica;
    const struct device_ops *ops = r->dev->ops;
    int rc = 0;
    for (int i = 0; i < BLOCKS && rc >= 0 && !s->sums; i++) {
        size_t n = r->count[blocks[i]];
        rc = n == 0  ? 0
             : fetch ? ops->fetch(r, blocks[i], 0, n, e)
                     : ops->store(r, blocks[i], 0, n, e);
    }
    return rc;
}

static int give_all(struct survival *s, const struct verdict *v, struct err *e)
{
    struct gift gift = s->said;
    gift.test_loss = s->l->last_loss;
    gift.test_accuracy = s->l->last_accuracy;
    gift.test_samples = s->l->last_samples;
    gift.left = s->l->left;
    int rc = move_replica(s, true, e);
    for (int to = 0; to < s->l->env->comm->workers && rc >= 0; to++) {
        if (v->behind[to]) {
            rc = pass_floats(s, to, true, &gift, e);
        }
    }
    return rc < 0 ? rc : GIVEN;
}

static int take(struct survival *s, const struct verdict *v, struct err *e)
{
    struct gift gift;
    s->torn = !s->sums; /* else what a step needs is still there */
    int rc = pass_floats(s, v->giver, false, &gift, e);
    if (rc != GIVEN || (rc = move_replica(s, false, e)) < 0) {
        return rc;
    }
    gradients_keep_stats(s->g);
    s->torn = false;
    s->said = gift;
    return GIVEN;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Makes the step of the sums that were given; its words are theirs. */
static int use_sums(struct survival *s, const struct survival_step *step, struct err *e)
{
    struct lockstep *l = s->l;
    const float *words;
    int rc = gradients_use_given(s->g, step->work, &words, e);
    if (rc >= 0) {
        lockstep_done(l);
        lockstep_agree(l, words);
        survival_note(s, words);
    }
    return rc;
}

static void take_words(struct survival *s)
{
    struct lockstep *l = s->l;
    count_step(s);
    lockstep_done(l);
    l->stop = s->said.stop;
    l->pause = s->said.pause;
    l->checkpoint = s->said.checkpoint;
    l->asked_checkpoint = l->asked_checkpoint && !l->checkpoint;
}

/* The step that others have ended: this rank's gradient is in it. */
static int end_step(struct survival *s, const struct survival_step *step, struct err *e)
{
    struct lockstep *l = s->l;
    double n = (double)l->slice.count;
    int rc = 0;
    if (s->sums) {
        rc = use_sums(s, step, e);
    } else {
        take_words(s);
    }
    struct row row = lockstep_row(l, step->work, NULL, step->compute_s, step->ready);
    row.loss = (float)(s->said.loss / n);
    row.accuracy = strategy_accuracy(s->said.correct, n);
    row.bytes = gradients_bytes(s->g);
    if (rc >= 0) {
        l->env->row(l->env->ctx, &row);
    }
    return rc;
}

/* The evaluation of the verdict's step: this rank lacks it, or may have to tell it. */
static int take_evaluation(struct survival *s, const struct verdict *v, bool behind, struct err *e)
{
    struct lockstep *l = s->l;
    if (!v->evaluated || !(behind || v->first_lost)) {
        return 0;
    }
    l->best =
        v->best; /* as the keeper has it: the first worker may not have told of a better one */
    if (!behind) {
        return lockstep_take_evaluation(l, l->last_loss, l->last_accuracy, l->last_samples, e);
    }
    l->left = s->said.left;
    return lockstep_take_evaluation(l, s->said.test_loss, s->said.test_accuracy,
                                    s->said.test_samples, e);
}

static int adopt(struct survival *s, const struct verdict *v, const struct survival_step *step,
                 bool behind, struct err *e)
{
    struct lockstep *l = s->l;
    int rc = 0;
    if (v->step > l->step) {
        BUG_ON(!behind || !step);
        rc = end_step(s, step, e);
    }
    if (rc >= 0 && s->sums) {
        rc = lockstep_lose(l, v->lost, v->round, e);
    } else if (rc >= 0) {
        lockstep_undo(l);
    }
    if (rc < 0) {
        return rc;
    }
    comm_drop(l->env->comm, v->lost, v->round);
    s->round = v->round;
    lockstep_adopt(l, v->version, v->sizes);
    l->next_version = 0;
    if (lockstep_is_first(l)) {
        log_info("sync", "goes on without the workers that are lost", "step=%lld lost=%d left=%d",
                 (long long)l->step, v->round, l->env->comm->n_members[COMM_ALL]);
    }
    return take_evaluation(s, v, behind, e);
}

enum heard { HEARD_VERDICT, HEARD_END };

/* Answers the keeper until it decides, and does so. Who loses the giver waits for the next verdict.
 */
static int follow(struct survival *s, const struct survival_step *step, struct err *e)
{
    int rank = s->l->env->comm->rank, rc;
    for (;;) {
        if ((rc = hear(s, e)) < 0) {
            return rc;
        }
        const struct verdict *v = &s->heard;
        if (v->saying == KEEPER_ENDS) {
            return HEARD_END;
        }
        if (v->saying == KEEPER_ASKS) {
            if ((rc = answer(s, e)) < 0) {
                return rc;
            }
            continue;
        }
        bool behind = v->behind[rank];
        rc = behind ? take(s, v, e) : v->giver == rank ? give_all(s, v, e) : GIVEN;
        if (rc == GIVEN) {
            rc = adopt(s, v, step, behind, e);
            return rc < 0 ? rc : HEARD_VERDICT;
        }
        if (rc < 0) {
            return rc;
        }
    }
}

/* What is left to do of the exchange that was given up, which began at step `at`. */
static int recovered(const struct survival *s, const struct survival_step *step, int64_t at)
{
    bool made = step ? s->l->step > at : s->l->evaluated_here;
    return s->sums && !made ? RECOVERED_ONCE_MORE : RECOVERED;
}

int survival_recover(struct survival *s, int rc, const struct survival_step *step, struct err *e)
{
    if (!s || rc != -ERR_CANCELLED || !one_is_lost(s)) {
        return rc;
    }
    int64_t at = s->l->step;
    err_clear(e);
    if ((rc = gradients_undo(s->g, e)) < 0 || (rc = allreduce_cancel(&s->l->sums, e)) < 0 ||
        (rc = follow(s, step, e)) < 0) {
        return rc;
    }
    return rc == HEARD_VERDICT ? recovered(s, step, at)
                               : err_set(e, ERR_PEER, "the keeper has ended the run within a step");
}

int survival_finish(struct survival *s, struct err *e)
{
    struct rank_env *env = s->l->env;
    int rc;
    do {
        if ((rc = lockstep_finish(s->l, NULL, 0, e)) < 0) {
            return rc;
        }
        env->aside(env->ctx, true);
        if ((rc = say_finished(s, e)) >= 0) {
            rc = follow(s, NULL, e);
        }
        env->aside(env->ctx, false);
    } while (rc == HEARD_VERDICT);
    return rc < 0 ? rc : 0;
}
