/* What the keeper sends to a newcomer that it has let in, before any message of the strategy
 * (docs/decisions/0049, 0062).
 *
 *      keeper ── head, counters as text ──► newcomer
 */
#ifndef WORKER_EXCHANGE_SEAT_H
#define WORKER_EXCHANGE_SEAT_H

#include "worker/exchange/strategy.h"

enum { TAG_SEAT = 27 };

struct seat {
    double elapsed;  /* seconds since the job's time 0: clocks of hosts differ */
    int64_t version; /* the step that the run has made */
    int64_t epoch;   /* epoch of the next samples; -1: not known (without a server) */
    double epochs;   /* epochs of the run, and whether it ends where users' programs do
                        (program.open) */
    bool open;
    int64_t pushes;   /* steps of this rank in this attempt */
    char digest[68];  /* of the data set, or of a program's description; "": not known */
    json_t *counters; /* from staleness_dump(); owned by the caller of seat_take() */
};

/* The keeper sends it to worker back->who, whose counters are in `back`. */
int seat_give(const struct rank_env *env, const struct departure *back, int64_t version,
              int64_t epoch, struct err *e);
/* That worker receives it. */
int seat_take(struct comm *c, struct seat *out, struct err *e);

#endif
