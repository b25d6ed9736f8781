/* Who is alive (SEMANTICS.md 10): heartbeats decide, not MPI, which never notices a rank that is
 * stopped (PLATFORM.md).
 *
 *   age of the heartbeat          the process           stopped, swapped out, its host gone
 *   age of the last progress      the main thread       a live pulse beside a stuck trainer
 *   age of its last work          its CPU time          no more than slow: its machine got other work to do
 *   age of the last turn          the communication thread
 *
 * While stepping the deadline is that of the measured steps, ten times that for a rank that works:
 * whose speed halves is not lost, the balancer will see to it. Loading, preparing, evaluating and
 * writing checkpoints have fixed ones. What a newcomer would get wrong: one stuck rank makes all
 * others wait, and strategies differ in how long a healthy rank may wait for slower ones (a whole
 * round of steps). So whoever waits in the exchange is suspected only once nobody in the attempt
 * has made progress, and then the rank with the oldest sign of life is to blame, not the one that
 * waits. And ages that we could not have seen (the store was away, this process had no CPU) count
 * for nobody.
 */
#include "coordinator/monitor_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double start_limit = 120, slow_phase_limit = 300, silence_most = 20,
                    unmeasured_limit = 60, comm_least = 5, confirm_seconds = 1.0;
static const double fresh_seconds = 1.5; /* three heartbeats and more: who is older than that does
                                            not just happen to be between two */
static const double slow_times =
    10; /* so much slower than before a step of a rank that works may be */

enum kind { KIND_STARTING, KIND_SLOW, KIND_COMPUTING, KIND_WAITING, KIND_SERVING, KIND_DONE };
enum fault { FAULT_NONE, FAULT_WAITS, FAULT_STUCK, FAULT_SILENT }; /* the last one weighs most */

struct signs { /* of one rank */
    int rank;
    const char *phase;
    enum kind kind;
    double silence, progress, comm, work; /* ages in seconds */
    enum fault fault;
    double age, limit; /* what it is over */
};

static double number_of(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static enum kind kind_of(const char *phase)
{
    static const struct {
        const char *phase;
        enum kind kind;
    } kinds[] = {{"computing", KIND_COMPUTING},
                 {"exchange", KIND_WAITING},
                 {"serving", KIND_SERVING},
                 {"done", KIND_DONE}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(phase, kinds[i].phase) == 0) {
            return kinds[i].kind;
        }
    }
    return KIND_SLOW;
}

/* The longest deadline of any worker's steps: who waits for others is measured by the slowest of
 * them. */
static double slowest_deadline(const struct monitor *m)
{
    double slowest = 3;
    for (int r = 0; r < m->workers; r++) {
        double d = step_deadline(&m->ranks[r].times, unmeasured_limit);
        slowest = d > slowest ? d : slowest;
    }
    return slowest;
}

static void accuse(struct signs *s, enum fault fault, double age, double limit)
{
    if (age > limit && fault > s->fault) {
        s->fault = fault;
        s->age = age;
        s->limit = limit;
    }
}

/* What can be told of a rank by itself; who waits for others is judged together with them. */
static struct signs look_at(const struct monitor *m, int r, double slowest, double now)
{
    const struct rank_watch *w = &m->ranks[r];
    struct signs s = {.rank = r, .phase = "starting", .kind = KIND_STARTING};
    const char *phase = json_string_value(json_object_get(w->beat, "phase"));
    if (!w->beat || !phase) {
        s.silence = now - m->launched_at;
        accuse(&s, FAULT_SILENT, s.silence, start_limit);
        return s;
    }
    s.phase = phase;
    s.kind = kind_of(phase);
    s.silence = number_of(w->beat, "age");
    s.progress = number_of(w->beat, "progress_age") + s.silence;
    s.comm = number_of(w->beat, "comm_age");
    s.work = number_of(w->beat, "work_age") + s.silence;
    if (s.kind == KIND_DONE) {
        return s; /* it has said all it had to say */
    }
    double own = r < m->workers ? step_deadline(&w->times, unmeasured_limit) : slowest;
    bool steps = s.kind != KIND_SLOW || w->rows > 0; /* between two steps a rank may be loading */
    double quiet = steps && own < silence_most ? own : silence_most;
    accuse(&s, FAULT_SILENT, s.silence, quiet);
    accuse(&s, FAULT_STUCK, s.comm, quiet > comm_least ? quiet : comm_least);
    if (s.kind == KIND_COMPUTING || s.kind == KIND_SLOW) {
        double working = s.work < fresh_seconds ? slow_times * own : own;
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

/* All wait for each other: whose sign of life is the oldest? */
static void blame(const struct monitor *m, const struct signs *s, int n, struct signs *worst)
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
    } else if (jobspec_uses_server(m->spec)) {
        oldest = s[m->workers];
        oldest.age = oldest.progress;
    } else {
        return;
    }
    oldest.limit = worst->limit;
    oldest.fault = FAULT_WAITS;
    *worst = oldest;
}

/* The rank that is to blame, if any is over its deadline. */
static bool find_worst(const struct monitor *m, double now, struct signs *worst)
{
    int n = m->workers + m->servers;
    struct signs *s = calloc((size_t)n, sizeof *s);
    double slowest = slowest_deadline(m);
    bool hope = !s;
    *worst = (struct signs){.rank = -1};
    for (int r = 0; s && r < n; r++) {
        s[r] = look_at(m, r, slowest, now);
        hope |= may_be_waited_for(&s[r], slowest);
    }
    for (int r = 0; s && r < n; r++) {
        if (s[r].kind == KIND_WAITING && !hope) {
            accuse(&s[r], FAULT_WAITS, s[r].progress, slowest);
        }
        if (s[r].fault != FAULT_NONE && (worst->rank < 0 || is_worse(&s[r], worst))) {
            *worst = s[r];
        }
    }
    if (worst->fault == FAULT_WAITS) {
        blame(m, s, n, worst);
    }
    free(s);
    return worst->rank >= 0;
}

json_t *monitor_lost(struct monitor *m, double now)
{
    struct signs worst;
    if (now < m->grace_until || m->outcome || !find_worst(m, now, &worst)) {
        m->suspect_since = -1;
        return NULL;
    }
    if (m->suspect_since < 0) {
        m->suspect_since = now;
    }
    if (now - m->suspect_since < confirm_seconds) {
        return NULL;
    }
    bool silent = worst.silence > fresh_seconds;
    const char *what = silent ? "no heartbeat"
                       : worst.fault == FAULT_STUCK && worst.age == worst.comm
                           ? "no turn of its communication thread"
                           : "no progress";
    double age = silent ? worst.silence : worst.age;
    char message[300];
    snprintf(message, sizeof message,
             "rank %d on node '%s' is lost: %s for %.1f s while %s (the limit is %.1f s)",
             worst.rank, m->ranks[worst.rank].node, what, age, worst.phase, worst.limit);
    return json_pack("{s:s, s:s, s:i, s:s, s:i, s:s, s:f}", "code", "peer", "message", message,
                     "rank", worst.rank, "node", m->ranks[worst.rank].node, "attempt", m->attempt,
                     "phase", worst.phase, "age_seconds", age);
}
