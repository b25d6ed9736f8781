/* Who is alive (SEMANTICS.md 10): heartbeats decide, not MPI, which never notices a rank that is stopped (PLATFORM.md).
 *
 * Two ages per rank: of its heartbeat (the process), and of its progress (a live pulse beside a stuck trainer). While stepping both have the
 * deadline of the measured steps; loading, preparing, evaluating and writing checkpoints have fixed ones. What a newcomer would
 * get wrong: one slow rank makes every rank wait, so a rank that waits in the exchange is suspected only if none computes;
 * and ages that we could not have seen (the store was away, this process had no CPU) count for nobody.
 */
#include "coordinator/monitor_parts.h"

#include <stdio.h>
#include <string.h>

static const double start_limit = 120, slow_phase_limit = 300, silence_in_slow_phase = 20, unmeasured_limit = 60, confirm_seconds = 1.0;

struct suspicion {
    int rank;
    double age, limit;
    bool silent;
    const char *phase;
};

static const char *phase_of(const struct rank_watch *w)
{
    const char *phase = json_string_value(json_object_get(w->beat, "phase"));
    return phase ? phase : "starting";
}

static bool is_stepping(const char *phase)
{
    return strcmp(phase, "computing") == 0 || strcmp(phase, "exchange") == 0;
}

static bool is_serving(const char *phase)
{
    return strcmp(phase, "serving") == 0;
}

static double number_of(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

/* Is any rank in a phase that may hold up the others (or was a moment ago)? */
static bool others_may_wait(struct monitor *m, double now)
{
    for (int r = 0; r < m->workers + m->servers; r++) {
        const char *phase = phase_of(&m->ranks[r]);
        if (!is_stepping(phase) && !is_serving(phase)) {
            m->slow_phase_at = now;
        }
    }
    return now - m->slow_phase_at < 3;
}

/* The longest deadline of any worker's steps: who waits for others is measured by the slowest of them. */
static double slowest_deadline(const struct monitor *m)
{
    double slowest = 3;
    for (int r = 0; r < m->workers; r++) {
        double d = step_deadline(&m->ranks[r].times, unmeasured_limit);
        slowest = d > slowest ? d : slowest;
    }
    return slowest;
}

static bool suspect(struct monitor *m, int r, bool waits, double slowest, double now, struct suspicion *out)
{
    const struct rank_watch *w = &m->ranks[r];
    const char *phase = phase_of(w);
    *out = (struct suspicion){r, 0, 0, true, phase};
    if (!w->beat) {
        out->age = now - m->launched_at;
        out->limit = start_limit;
        return out->age > out->limit;
    }
    double silence = number_of(w->beat, "age"), progress = number_of(w->beat, "progress_age") + silence;
    bool stepping = is_stepping(phase);
    double own = stepping ? step_deadline(&w->times, unmeasured_limit) : slowest;
    out->age = silence;
    out->limit = stepping || is_serving(phase) ? (own < 20 ? own : 20) : silence_in_slow_phase;
    if (silence > out->limit) {
        return true;
    }
    out->silent = false;
    out->age = progress;
    if (is_serving(phase) || strcmp(phase, "done") == 0) {
        return false; /* a server without clients has nothing to do */
    }
    out->limit = stepping ? (strcmp(phase, "computing") == 0 ? own : slowest) : slow_phase_limit;
    return progress > out->limit && !(stepping && waits);
}

/* A silent rank before one that computes too long before one that waits; among equals the longest over its limit. */
static bool worse(const struct suspicion *a, const struct suspicion *b)
{
    int ra = a->silent ? 2 : strcmp(a->phase, "exchange") != 0, rb = b->silent ? 2 : strcmp(b->phase, "exchange") != 0;
    return ra != rb ? ra > rb : a->age - a->limit > b->age - b->limit;
}

json_t *monitor_lost(struct monitor *m, double now)
{
    struct suspicion worst = {.rank = -1}, one;
    bool waits = others_may_wait(m, now);
    double slowest = slowest_deadline(m);
    if (now < m->grace_until || m->outcome) {
        m->suspect_since = -1;
        return NULL;
    }
    for (int r = 0; r < m->workers + m->servers; r++) {
        if (suspect(m, r, waits, slowest, now, &one) && (worst.rank < 0 || worse(&one, &worst))) {
            worst = one;
        }
    }
    if (worst.rank < 0) {
        m->suspect_since = -1;
        return NULL;
    }
    if (m->suspect_since < 0) {
        m->suspect_since = now;
    }
    if (now - m->suspect_since < confirm_seconds) {
        return NULL;
    }
    char message[300];
    snprintf(message, sizeof message, "rank %d on node '%s' is lost: %s for %.1f s while %s (the limit is %.1f s)", worst.rank,
             m->ranks[worst.rank].node, worst.silent ? "no heartbeat" : "no progress", worst.age, worst.phase, worst.limit);
    return json_pack("{s:s, s:s, s:i, s:s, s:i, s:s, s:f}", "code", "peer", "message", message, "rank", worst.rank, "node",
                     m->ranks[worst.rank].node, "attempt", m->attempt, "phase", worst.phase, "age_seconds", worst.age);
}
