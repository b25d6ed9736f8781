/* See watchdog.h.
 *
 * While ranks step, the deadline follows from the measured steps. It is ten times as long for a
 * rank that works: a rank whose speed halves is not lost, since the balancer adapts to it. Loading,
 * preparing, evaluating and writing checkpoints have fixed deadlines.
 *
 * A worker that was started again comes among ranks that step. It is judged by what they have
 * measured until it has steps of its own: its silence by their deadlines, a hang in its first steps
 * by how long first steps took.
 *
 * One stuck rank makes all others wait. Under some strategies a healthy rank waits long for slower
 * ones (a whole round of steps). So a rank that waits in the exchange is suspected only once no
 * rank of the attempt makes progress. Then the rank with the oldest sign of life is to blame, not
 * the one that waits.
 */
#include "coordinator/monitor/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double start_limit = 120, slow_phase_limit = 300, silence_most = 20,
                    unmeasured_limit = 60, comm_least = 5, confirm_seconds = 1.0;
static const double cold_times = 10;     /* as long as the first steps so far, after a return */
static const double fresh_seconds = 1.5; /* more than three heartbeats, so no heartbeat that comes
                                            on time is this old */
static const double slow_times =
    10; /* a step of a working rank may be so many times slower than before */

bool watchdog_is_silent(const struct rank *w)
{
    return w->beat.age > fresh_seconds;
}

enum kind { KIND_STARTING, KIND_SLOW, KIND_COMPUTING, KIND_WAITING, KIND_SERVING, KIND_DONE };
enum fault {
    FAULT_NONE,
    FAULT_WAITS,
    FAULT_STUCK,
    FAULT_SILENT
}; /* in order of weight, the last
                                                                      one weighs most */

struct signs { /* of one rank */
    int rank;
    const char *phase;
    enum kind kind;
    double silence, progress, comm, work; /* ages in seconds */
    enum fault fault;
    double age, limit; /* the age that is over its limit */
};

static enum kind kind_of(enum phase phase)
{
    switch (phase) {
    case PHASE_COMPUTE:
        return KIND_COMPUTING;
    case PHASE_EXCHANGE:
        return KIND_WAITING;
    case PHASE_SERVE:
        return KIND_SERVING;
    case PHASE_DONE:
        return KIND_DONE;
    default:
        return KIND_SLOW;
    }
}

static void accuse(struct signs *s, enum fault fault, double age, double limit)
{
    if (age > limit && fault > s->fault) {
        s->fault = fault;
        s->age = age;
        s->limit = limit;
    }
}

/* The limits that follow from all ranks together, in seconds. */
struct limits {
    double slowest; /* the longest deadline of a step; unmeasured_limit where a rank has none yet */
    double measured; /* the longest that was measured; unmeasured_limit: none was */
    double cold;     /* of a first step after a return */
};

static struct limits limits_of(const struct ranks *ranks)
{
    double measured = ranks_measured_deadline(ranks), cold = cold_times * ranks->coldest;
    cold = cold < silence_most ? silence_most : cold;
    return (struct limits){
        .slowest = ranks_slowest_deadline(ranks, unmeasured_limit),
        .measured = measured > 0 ? measured : unmeasured_limit,
        .cold = ranks->coldest > 0 && cold < unmeasured_limit ? cold : unmeasured_limit};
}

/* How long a rank may give no sign of life. */
static double silence_limit(const struct rank *w, enum kind kind, const struct limits *all,
                            double own)
{
    bool came_back = w->seats > 0;
    bool steps = kind != KIND_SLOW || w->rows > 0 || came_back; /* between two steps a rank may be
                                                                   loading */
    double usual = came_back ? step_deadline(&w->times, all->measured) : own;
    return steps && usual < silence_most ? usual : silence_most;
}

/* How long a rank that does not work may take for a step. */
static double step_limit(const struct rank *w, const struct limits *all, double own)
{
    double measured = step_deadline(&w->times, 0);
    return w->rows >= w->warm_at ? own : measured > all->cold ? measured : all->cold;
}

/* Judges one rank alone. A rank that waits for others is judged together with them. */
static struct signs signs_of(const struct watchdog *dog, const struct ranks *ranks, int r,
                             const struct limits *all, double now)
{
    const struct rank *w = &ranks->all[r];
    struct signs s = {.rank = r, .phase = "starting", .kind = KIND_STARTING};
    if (!w->heard) {
        s.silence = now - dog->launched_at;
        accuse(&s, FAULT_SILENT, s.silence, start_limit);
        return s;
    }
    s.phase = phase_name(w->beat.phase);
    s.kind = kind_of(w->beat.phase);
    s.silence = w->beat.age;
    s.progress = w->beat.progress_age + s.silence;
    s.comm = w->beat.comm_age;
    s.work = w->beat.work_age + s.silence;
    if (s.kind == KIND_DONE) {
        return s; /* it has reported its end */
    }
    double own = r < ranks->workers ? step_deadline(&w->times, unmeasured_limit) : all->slowest;
    double quiet = silence_limit(w, s.kind, all, own);
    accuse(&s, FAULT_SILENT, s.silence, quiet);
    accuse(&s, FAULT_STUCK, s.comm, quiet > comm_least ? quiet : comm_least);
    if (s.kind == KIND_COMPUTING || s.kind == KIND_SLOW) {
        double working = s.work >= fresh_seconds ? step_limit(w, all, own)
                         : w->rows >= w->warm_at ? slow_times * own
                                                 : slow_times * unmeasured_limit;
        accuse(&s, FAULT_STUCK, s.progress, s.kind == KIND_COMPUTING ? working : slow_phase_limit);
    }
    return s;
}

/* Could the others be waiting for this rank, without anything being wrong? */
static bool may_be_waited_for(const struct signs *s, double slowest)
{
    if (s->fault != FAULT_NONE || s->kind == KIND_DONE) {
        return false;
    }
    return s->kind == KIND_STARTING || s->kind == KIND_SLOW || s->kind == KIND_COMPUTING ||
           s->progress <= slowest;
}

static bool is_worse(const struct signs *a, const struct signs *b)
{
    return a->fault != b->fault ? a->fault > b->fault : a->age - a->limit > b->age - b->limit;
}

/* Finds the rank with the oldest sign of life, where all wait for each other. `server`: the server
 * that all of them may wait for, or NULL. */
static void blame(const struct signs *s, int n, const struct signs *server, struct signs *worst)
{
    struct signs oldest = *worst;
    oldest.silence = oldest.comm = 0;
    for (int r = 0; r < n; r++) {
        double a = s[r].silence > s[r].comm ? s[r].silence : s[r].comm,
               b = oldest.silence > oldest.comm ? oldest.silence : oldest.comm;
        if (s[r].kind != KIND_DONE && a > b) {
            oldest = s[r];
        }
    }
    if (oldest.silence > fresh_seconds || oldest.comm > fresh_seconds) {
        oldest.age = oldest.silence > oldest.comm ? oldest.silence : oldest.comm;
    } else if (server) {
        oldest = *server;
        oldest.age = oldest.progress;
    } else {
        return;
    }
    oldest.limit = worst->limit;
    oldest.fault = FAULT_WAITS;
    *worst = oldest;
}

/* The rank to blame, if one is over its deadline. */
static bool find_worst(const struct watchdog *dog, const struct ranks *ranks, bool uses_server,
                       double now, struct signs *worst)
{
    int n = ranks_count(ranks);
    struct signs *s = calloc((size_t)n, sizeof *s);
    struct limits all = limits_of(ranks);
    bool hope = !s;
    *worst = (struct signs){.rank = -1};
    for (int r = 0; s && r < n; r++) {
        s[r] = ranks->all[r].lost || ranks->all[r].fallen
                   ? (struct signs){.rank = r, .kind = KIND_DONE}
                   : signs_of(dog, ranks, r, &all, now);
        hope |= may_be_waited_for(&s[r], all.slowest);
    }
    for (int r = 0; s && r < n; r++) {
        if (s[r].kind == KIND_WAITING && !hope) {
            accuse(&s[r], FAULT_WAITS, s[r].progress, all.slowest);
        }
        if (s[r].fault != FAULT_NONE && (worst->rank < 0 || is_worse(&s[r], worst))) {
            *worst = s[r];
        }
    }
    if (worst->fault == FAULT_WAITS) {
        blame(s, n, uses_server ? &s[ranks->workers] : NULL, worst);
    }
    free(s);
    return worst->rank >= 0;
}

void watchdog_init(struct watchdog *w, double now, double grace)
{
    *w = (struct watchdog){
        .launched_at = now, .grace_until = grace > 0 ? now + grace : 0, .suspect_since = -1};
}

void watchdog_grace(struct watchdog *w, double until)
{
    w->grace_until = until > w->grace_until ? until : w->grace_until;
    w->suspect_since = -1;
}

void watchdog_calm(struct watchdog *w)
{
    w->suspect_since = -1;
}

static void describe(const struct ranks *ranks, const struct signs *worst, struct failure *out)
{
    bool silent = worst->silence > fresh_seconds;
    const char *what = silent ? "no heartbeat"
                       : worst->fault == FAULT_STUCK && worst->age == worst->comm
                           ? "no turn of its communication thread"
                           : "no progress";
    double age = silent ? worst->silence : worst->age;
    char how[FAILURE_LOST];
    snprintf(how, sizeof how, "%s for %.1f s while %s (the limit is %.1f s)", what, age,
             worst->phase, worst->limit);
    *out = failure_of_loss(how, worst->rank, ranks->all[worst->rank].node, ranks->ours.attempt);
    out->age_seconds = age;
    snprintf(out->phase, sizeof out->phase, "%s", worst->phase);
}

bool watchdog_lost(struct watchdog *w, const struct ranks *ranks, const struct jobspec *spec,
                   double now, struct failure *out)
{
    struct signs worst;
    if (now < w->grace_until || !find_worst(w, ranks, jobspec_uses_server(spec), now, &worst)) {
        w->suspect_since = -1;
        return false;
    }
    bool woke = w->suspects_silent && worst.fault != FAULT_SILENT;
    w->suspects_silent = worst.fault == FAULT_SILENT;
    if (w->suspect_since < 0 || woke) {
        w->suspect_since = now;
    }
    if (now - w->suspect_since < confirm_seconds) {
        return false;
    }
    describe(ranks, &worst, out);
    return true;
}
