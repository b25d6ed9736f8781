/* See survivors.h. */
#include "worker/exchange/lockstep/survival/survivors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "worker/exchange/seat.h"

/* The members wait for a newcomer that was asked, so it is left out after NEWCOMER_SECONDS. If the
 * keeper itself stood still, an answer may have come meanwhile: of the time between two checks only
 * LATE_SECONDS count. */
static const double LOOK_SECONDS = 0.02, NEWCOMER_SECONDS = 3, LATE_SECONDS = 0.2;

/* Tags tell COMM_GENERATIONS changes of the members apart. Newcomers are refused while fewer are
 * free than members could still be lost; never more than this many are held back. */
enum { LOSSES_MOST = COMM_GENERATIONS / 2 };

struct note { /* a message to one worker, which may be lost before it receives it */
    struct message m;
    struct verdict said;
    struct note *next;
};

static void count_left(struct survivors *s)
{
    s->n_left = 0;
    for (int i = 0; i < s->env->comm->workers; i++) {
        if (!members_lack(&s->members, i)) {
            s->left[s->n_left++] = i;
        }
    }
}

int survivors_init(struct survivors *s, struct rank_env *env, const struct run_state *from,
                   struct err *e)
{
    size_t W = (size_t)env->comm->workers;
    *s = (struct survivors){
        .env = env, .version = from->version, .applied = from->applied_samples, .comes.rank = -1};
    if (!env->lost) {
        return 0;
    }
    s->left = calloc(W, sizeof *s->left);
    s->told = calloc(W, sizeof *s->told);
    s->answered = calloc(W, sizeof *s->answered);
    s->finished = calloc(W, sizeof *s->finished);
    s->made = calloc(W, sizeof *s->made);
    s->of = calloc(W, sizeof *s->of);
    s->control = calloc(1, sizeof *s->control);
    if (!s->left || !s->told || !s->answered || !s->finished || !s->made || !s->of || !s->control) {
        return err_set(e, ERR_MEMORY, "cannot keep the workers' reports: memory ran out");
    }
    count_left(s);
    return 0;
}

bool survivors_lost(const struct survivors *s, int rank)
{
    return members_lack(&s->members, rank);
}

/* ---- messages to the workers ----------------------------------------------------------------- */

/* Frees the messages that were received. Those under way to rank `to` are cancelled and freed, too;
 * TRANSPORT_ANY: to all ranks. */
enum { TO_NOBODY = -2 };
static int drop_notes(struct survivors *s, int to, struct err *e)
{
    int rc = 0;
    for (struct note **at = &s->notes; *at && rc >= 0;) {
        struct note *n = *at;
        bool ended = comm_test(&n->m.op) != COMM_UNDER_WAY;
        if (!ended && (to == TRANSPORT_ANY || to == n->m.peer)) {
            rc = comm_cancel(s->env->comm, &n->m.op, e);
            ended = rc >= 0;
        }
        if (ended) {
            *at = n->next;
            free(n);
        } else {
            at = &n->next;
        }
    }
    return rc;
}

void survivors_release(struct survivors *s)
{
    drop_notes(s, TRANSPORT_ANY, NULL);
    free(s->left);
    free(s->told);
    free(s->answered);
    free(s->finished);
    free(s->made);
    free(s->of);
    free(s->control);
}

static int tell(struct survivors *s, int rank, const struct verdict *v, struct err *e)
{
    struct note *n = calloc(1, sizeof *n);
    if (!n) {
        return err_set(e, ERR_MEMORY, "cannot answer the workers: memory ran out");
    }
    n->said = *v;
    n->next = s->notes;
    s->notes = n;
    message_send(&n->m, s->env->comm, rank, TAG_VERDICT, &n->said, sizeof n->said, NULL, 0);
    return 0;
}

static int tell_all(struct survivors *s, const struct verdict *v, struct err *e)
{
    int rc = 0;
    drop_notes(s, TO_NOBODY, NULL);
    for (int i = 0; i < s->n_left && rc >= 0; i++) {
        rc = tell(s, s->left[i], v, e);
    }
    return rc;
}

static struct verdict begin_verdict(const struct survivors *s, enum keeper_saying what)
{
    return (struct verdict){.saying = what, .members = s->members};
}

static void forget_words(struct survivors *s)
{
    size_t W = (size_t)s->env->comm->workers;
    memset(s->answered, 0, W * sizeof *s->answered);
    memset(s->finished, 0, W * sizeof *s->finished);
}

static int ask_all(struct survivors *s, struct err *e)
{
    s->members.round++;
    s->asking = true;
    s->comes.silent = 0;
    s->comes.looked = comm_now(s->env->comm);
    count_left(s);
    forget_words(s);
    struct verdict v = begin_verdict(s, KEEPER_ASKS);
    return tell_all(s, &v, e);
}

/* ---- who is lost ----------------------------------------------------------------------------- */

/* Only a newcomer that was asked is too slow here. Before that nobody waits for it, and the
 * coordinator watches it, which is more patient. */
static bool is_too_slow(const struct survivors *s)
{
    const struct newcomer *n = &s->comes;
    return n->rank >= 0 && n->asked && !s->answered[n->rank] && n->silent > NEWCOMER_SECONDS;
}

static void count_silence(struct survivors *s)
{
    struct newcomer *n = &s->comes;
    double now = comm_now(s->env->comm), passed = now - n->looked;
    n->silent += passed < LATE_SECONDS ? passed : LATE_SECONDS;
    n->looked = now;
}

static int drop(struct survivors *s, const int *ranks, int n, struct err *e)
{
    int all = s->members.n_lost + n;
    if (s->members.round == COMM_GENERATIONS || all > LOST_MOST || all >= s->env->comm->workers) {
        return err_set(e, ERR_PEER, "too many workers are lost to go on: %d of %d", all,
                       s->env->comm->workers);
    }
    int rc = 0;
    for (int i = 0; i < n && rc >= 0; i++) {
        members_drop(&s->members, ranks[i]);
        s->comes.rank = ranks[i] == s->comes.rank ? -1 : s->comes.rank;
        rc = drop_notes(s, ranks[i], e); /* its next process must not get them */
    }
    return rc < 0 ? rc : ask_all(s, e);
}

/* The newcomer does not answer: the members go on without it. It gets KEEPER_ENDS, so that its
 * process ends as soon as it runs again, and the guard starts the next one. Without that message it
 * would wait until the coordinator gives it up. */
static int leave_out(struct survivors *s, struct err *e)
{
    struct verdict v = begin_verdict(s, KEEPER_ENDS);
    int rank = s->comes.rank, rc = drop(s, &rank, 1, e);
    log_warn("keeper", "leaves a worker out that does not answer", "rank=%d", rank);
    return rc < 0 ? rc : tell(s, rank, &v, e);
}

/* ---- who comes back -------------------------------------------------------------------------- */

/* The counters with which a newcomer goes on: what the rank had made when it was lost, and its
 * share of what earlier attempts had made. */
static void count_made(const struct survivors *s, int rank, struct departure *out)
{
    const struct tally *made = &s->made[rank];
    int tau = strategy_traits(s->env->spec->strategy.type)->replicas == REPLICAS_BEHIND;
    int64_t W = s->env->comm->workers,
            samples = s->applied / W + (rank < s->applied % W) + made->samples,
            updates = s->version + made->steps;
    out->pushes = made->steps;
    staleness_init(&out->staleness);
    for (int64_t i = 0; i < updates; i++) {
        staleness_add(&out->staleness, tau, (int)(samples / updates));
    }
    out->staleness.samples = (double)samples;
}

/* Gives the newcomer its counters, and the members to which it connects. */
static int welcome(struct survivors *s, struct err *e)
{
    struct verdict v = begin_verdict(s, KEEPER_LETS_IN);
    struct departure of = {.who = s->comes.rank};
    log_info("keeper", "lets a worker in", "rank=%d seat=%d", s->comes.rank, s->comes.seat);
    count_made(s, s->comes.rank, &of);
    int rc = seat_give(s->env, &of, s->step, -1, e);
    staleness_release(&of.staleness);
    return rc < 0 ? rc : tell(s, s->comes.rank, &v, e);
}

static bool may_join(const struct survivors *s)
{
    int losses = s->n_left < LOSSES_MOST ? s->n_left : LOSSES_MOST;
    bool may = s->env->seats && s->env->comm->t->ops->admit && !s->asking &&
               s->members.n_lost > 0 && s->members.round + 1 + losses <= COMM_GENERATIONS;
    for (int i = 0; i < s->n_left && may; i++) {
        may = !s->finished[s->left[i]];
    }
    return may;
}

/* The newcomer is connected to all members. From here on they wait for it. */
static int ask_for(struct survivors *s, struct newcomer *n, struct err *e)
{
    n->asked = true;
    members_take(&s->members, n->rank, n->seat);
    int rc = ask_all(s, e);
    if (rc >= 0) {
        log_info("keeper", "asks all for the worker that is ready", "rank=%d seat=%d", n->rank,
                 n->seat);
    }
    return rc;
}

static int let_in(struct survivors *s, struct err *e)
{
    struct newcomer *n = &s->comes;
    struct comm *c = s->env->comm;
    int seats[SPEC_WORKERS];
    if (!may_join(s)) {
        return 0;
    }
    if (members_find_expected(&s->members, s->env, seats) == 0) {
        n->rank = -1;
        return 0;
    }
    if (n->rank >= 0 && seats[n->rank] == n->seat) {
        if (!n->ready) {
            return 0;
        }
        return ask_for(s, n, e);
    }
    int rank = c->t->ops->admit(c->t, seats, c->workers);
    *n = (struct newcomer){.rank = rank, .seat = rank < 0 ? 0 : seats[rank]};
    return rank < 0 ? 0 : welcome(s, e);
}

int survivors_look(struct survivors *s, struct err *e)
{
    int ranks[SPEC_WORKERS];
    if (!s->env->lost) {
        return 0;
    }
    int n = members_find_lost(&s->members, s->env, ranks);
    count_silence(s);
    return n > 0            ? drop(s, ranks, n, e)
           : is_too_slow(s) ? leave_out(s, e)
           : s->asking      ? 0
                            : let_in(s, e);
}

int survivors_end(struct survivors *s, struct err *e)
{
    struct verdict v = begin_verdict(s, KEEPER_ENDS);
    int rc = tell_all(s, &v, e);
    uint64_t digest = s->of[s->left[0]].digest;
    if (digest != 0) {
        log_info("keeper", "all workers end with the same parameters",
                 "workers=%d digest=%016" PRIx64, s->n_left, digest);
    }
    for (struct note *n = s->notes; n && rc >= 0; n = n->next) {
        do {
            rc = comm_wait_for(s->env->comm, &n->m.op, LOOK_SECONDS, e);
        } while (rc == COMM_UNDER_WAY && !members_lost(&s->members, s->env, n->m.peer));
    }
    return rc < 0 ? rc : 0;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static bool all_of(const struct survivors *s, const bool *what)
{
    bool all = true;
    for (int i = 0; i < s->n_left; i++) {
        all = all && what[s->left[i]];
    }
    return all;
}

bool survivors_finished(const struct survivors *s)
{
    return all_of(s, s->finished);
}

static void tell_change(struct survivors *s, int rank, int64_t step, bool gone)
{
    struct departure d = {.who = rank, .step = step, .others = s->n_left};
    count_made(s, rank, &d);
    if (gone) {
        s->env->left(s->env->ctx, &d);
    } else {
        s->env->returned(s->env->ctx, &d);
    }
    staleness_release(&d.staleness);
    s->told[rank] = gone;
}

/* What the nth lost worker had made. Members of its group may know of more than the others, because
 * they have averaged with it since. */
static struct tally most_made(const struct survivors *s, int nth)
{
    struct tally most = {0};
    for (int i = 0; i < s->n_left; i++) {
        const struct tally *one = &s->of[s->left[i]].lost[nth];
        most = one->samples > most.samples ? *one : most;
    }
    return most;
}

static void tell_changes(struct survivors *s, const struct verdict *v)
{
    for (int i = 0; i < s->members.n_lost; i++) {
        int rank = s->members.lost[i];
        if (!s->told[rank]) {
            s->made[rank] = most_made(s, i);
            tell_change(s, rank, v->step, true);
        }
    }
    for (int i = 0; i < s->n_left; i++) {
        if (s->told[s->left[i]]) {
            tell_change(s, s->left[i], v->step, false);
        }
    }
    s->env->n_lost = s->members.n_lost;
}

/* The coordinator assigns a newcomer a minibatch some time after it has come back. Where workers
 * adopt assignments only at averages, the newcomer uses its first minibatch until then. */
static int size_of(const struct survivors *s, int rank)
{
    const struct jobspec *spec = s->env->spec;
    bool late =
        spec->program.given && strategy_traits(spec->strategy.type)->replicas == REPLICAS_AVERAGED;
    int size = s->control->sizes[rank];
    return members_lack(&s->members, rank) ? 0
           : size == 0 && late             ? s->env->first_sizes[rank]
                                           : size;
}

static int decide(struct survivors *s, double best, struct err *e)
{
    struct verdict v = begin_verdict(s, KEEPER_DECIDES);
    int rc = verdict_decide(&v, s->of, s->left, s->n_left, e);
    if (rc < 0) {
        return rc;
    }
    v.first_changed = s->left[0] != s->first;
    s->first = s->left[0];
    s->step = v.step;
    v.best = best;
    s->env->control(s->env->ctx, s->control);
    v.version = s->control->version;
    for (int i = 0; i < s->env->comm->workers; i++) {
        v.sizes[i] = size_of(s, i);
    }
    s->asking = false;
    s->comes.rank = s->comes.asked ? -1 : s->comes.rank; /* a newcomer that is not ready stays let
                                                            in */
    forget_words(s);
    tell_changes(s, &v);
    return tell_all(s, &v, e);
}

/* The replicas of all members must be equal, bit by bit: they went through the same updates. */
static int finish(struct survivors *s, const struct worker_word *w, struct err *e)
{
    s->of[w->rank] = w->standing;
    s->finished[w->rank] = true;
    for (int i = 0; i < s->n_left; i++) {
        int r = s->left[i];
        if (s->finished[r] && s->of[r].digest != w->standing.digest) {
            return err_set(e, ERR_PEER,
                           "the parameters of workers %d and %d are not the same after the loss of "
                           "another one",
                           r, w->rank);
        }
    }
    return 0;
}

int survivors_hear(struct survivors *s, const struct worker_word *w, double best, struct err *e)
{
    if (w->saying == SAYS_READY) {
        s->comes.ready = s->comes.ready || w->rank == s->comes.rank;
        return survivors_look(s, e);
    }
    if (w->standing.round != s->members.round) {
        return 0; /* another worker was lost meanwhile, and all were asked again */
    }
    if (w->saying == SAYS_FINISHED) {
        return finish(s, w, e);
    }
    s->of[w->rank] = w->standing;
    s->answered[w->rank] = true;
    int rc = survivors_look(s, e);
    return rc < 0 || !all_of(s, s->answered) ? rc : decide(s, best, e);
}
