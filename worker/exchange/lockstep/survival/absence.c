/* A rank whose program has ended: see absence.h. */
#include "worker/exchange/lockstep/survival/absence.h"

#include <string.h>

#include "common/log.h"
#include "worker/exchange/lockstep/steps/weights.h"
#include "worker/exchange/lockstep/survival/verdict.h"
#include "worker/exchange/own_state_messages.h"

static bool is_absent(const struct lockstep *l, const float *words, int rank)
{
    return words[WORDS + l->env->comm->workers + rank] < 0;
}

/* Sets away[workers] to 1 for each absent rank. */
static void note_absent(struct lockstep *l, const float *words)
{
    for (int i = 0; i < l->env->comm->workers; i++) {
        l->away[i] = is_absent(l, words, i);
    }
}

/* The lowest member that is not absent; -1: all are. *absent: the number of absent members. */
static int find_giver(const struct lockstep *l, int *absent)
{
    const struct comm *c = l->env->comm;
    int giver = -1;
    *absent = 0;
    for (int i = c->n_members[COMM_ALL] - 1; i >= 0; i--) {
        int rank = c->members[COMM_ALL][i];
        bool away = l->away[rank] > 0;
        *absent += away;
        giver = away ? giver : rank;
    }
    return giver;
}

/* ---- parameters and state -------------------------------------------------------------------- */

static int send_to_absent(const struct lockstep *l, const struct own_state *state, struct err *e)
{
    const struct rank_env *env = l->env;
    struct comm *c = env->comm;
    char none = 0;
    int rc = 0;
    for (int i = 0; i < c->workers && rc >= 0; i++) {
        if (l->away[i] > 0) {
            struct message m;
            message_send(&m, c, i, TAG_PARAMETERS, &none, 1, env->replica->host[DEV_PARAMS],
                         env->n_params);
            if ((rc = comm_wait_on_stack(c, &m.op, e)) >= 0) {
                rc = own_state_send(c, i, state, e);
            }
        }
    }
    return rc;
}

static int receive(const struct lockstep *l, int giver, struct own_state *state, struct err *e)
{
    const struct rank_env *env = l->env;
    struct message m;
    char none;
    message_recv(&m, env->comm, giver, TAG_PARAMETERS, &none, 1, env->replica->host[DEV_PARAMS],
                 env->n_params);
    int rc = comm_wait_on_stack(env->comm, &m.op, e);
    return rc < 0 ? rc : own_state_receive(env->comm, giver, state, e);
}

static int send_parameters(struct absence *a, struct err *e)
{
    struct rank_env *env = a->l->env;
    struct own_state state = {0};
    int rc = env->give(env->ctx, &state, e);
    if (rc >= 0) {
        rc = send_to_absent(a->l, &state, e);
    }
    own_state_release(&state);
    return rc;
}

static int receive_parameters(struct absence *a, int giver, struct err *e)
{
    struct rank_env *env = a->l->env;
    struct own_state state = {0};
    int rc = receive(a->l, giver, &state, e);
    if (rc < 0) {
        return rc;
    }
    rc = env->resume(env->ctx, &a->work, &state, &a->result, &a->compute_s, e);
    own_state_release(&state);
    return rc;
}

/* ---- the sum --------------------------------------------------------------------------------- */

/* Writes what this rank adds to the words that were summed. Its compute time replaces the mark. */
static void write_words(const struct absence *a, float *words)
{
    const struct comm *c = a->l->env->comm;
    words[WORD_LOSS] = (float)a->result.loss;
    words[WORD_CORRECT] = (float)a->result.correct;
    words[WORDS + c->workers + c->rank] = (float)(a->compute_s - ABSENCE_TIME);
    lockstep_weigh(a->l, words, a->work.weight, a->work.voided, a->work.further);
}

/* The second sum. It has no deadline of its own: the others wait until the program is started
 * again, and the program's rank gives up if that takes too long. */
static int join(struct absence *a, int given, bool mine, struct err *e)
{
    struct comm *c = a->l->env->comm;
    double deadline = c->deadline;
    float *words = gradients_join_words(a->gradients);
    const struct late_part part = {.share = mine ? a->share(a->l, &a->work) : 0,
                                   .stats_share =
                                       a->work.further ? a->l->done_share : lockstep_share(a->l),
                                   .given = given};
    memset(words, 0, lockstep_words(a->l) * sizeof(float));
    if (mine) {
        write_words(a, words);
    }
    c->deadline = 0;
    int rc = gradients_join(a->gradients, mine ? &part : NULL, e);
    c->deadline = deadline;
    return rc;
}

int absence_end(void *ctx, float *words, struct err *e)
{
    struct absence *a = ctx;
    struct lockstep *l = a->l;
    int rank = l->env->comm->rank, absent, given = a->result.given, rc = 0;
    note_absent(l, words);
    int giver = find_giver(l, &absent);
    bool mine = l->away[rank] > 0, further = lockstep_is_further(l, words);
    a->was_further = mine && further;
    if (absent == 0) {
        return 0;
    }
    a->work.further = further;
    if (giver < 0) {
        return l->env->resume(l->env->ctx, &a->work, NULL, &a->result, &a->compute_s, e);
    }
    if (rank == giver) {
        log_info("sync", "the step waits for a program that is started again",
                 "step=%lld absent=%d", (long long)(l->at.step + 1), absent);
    }
    a->under_way = true;
    if ((rc = gradients_join_begin(a->gradients, e)) < 0 ||
        (rank == giver && (rc = send_parameters(a, e)) < 0) ||
        (mine && (rc = receive_parameters(a, giver, e)) < 0)) {
        return rc;
    }
    if ((rc = join(a, given, mine, e)) >= 0) {
        a->under_way = false;
    }
    return rc;
}

/* A state that was sent in part cannot be taken back, so the attempt ends. */
static int give_up(struct comm *c, struct err *e)
{
    comm_abandon(c);
    return err_set(e, ERR_PEER, "a worker was lost while the program of another one came back");
}

int absence_failed(const struct absence *a, int rc, struct err *e)
{
    return a->under_way && rc == -ERR_CANCELLED ? give_up(a->l->env->comm, e) : rc;
}

/* ---- between two steps ----------------------------------------------------------------------- */

/* The giver sends the state to the absent ranks. The wait also ends if one of them is lost. */
static int hand_over(struct lockstep *l, int giver, struct own_state *own, struct err *e)
{
    struct comm *c = l->env->comm;
    c->watches = true;
    int rc = c->rank == giver ? send_to_absent(l, own, e) : receive(l, giver, own, e);
    c->watches = false;
    return rc == -ERR_CANCELLED ? give_up(c, e) : rc;
}

int absence_provide(struct lockstep *l, struct own_state *own, struct err *e)
{
    const struct rank_env *env = l->env;
    int rank = env->comm->rank, absent, rc = env->own_state(env->ctx, own, e);
    bool mine = rc == OWN_STATE_AWAY;
    if (rc < 0) {
        return rc;
    }
    memset(l->away, 0, sizeof l->away);
    l->away[rank] = mine;
    if ((rc = lockstep_sum(l, l->away, (size_t)env->comm->workers, e)) < 0) {
        own_state_release(own);
        return rc;
    }
    int giver = find_giver(l, &absent);
    if (absent == 0) {
        return 0;
    }
    if (giver < 0) {
        return env->take(env->ctx, NULL, e);
    }
    rc = rank == giver || mine ? hand_over(l, giver, own, e) : 0;
    if (rc >= 0 && mine) {
        rc = env->take(env->ctx, own, e);
    }
    if (rc < 0) {
        own_state_release(own);
    }
    return rc;
}
