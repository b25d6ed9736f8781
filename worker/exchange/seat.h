/* What a worker gets first that takes the seat of one that died (docs/decisions/0049, 0062): from
 * the keeper, once that one has let it in, before anything of its strategy.
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
    int64_t epoch;   /* of the samples that come next; -1: not known (without a server) */
    double epochs;   /* of the run, and whether it ends where users' programs do (program.open) */
    bool open;
    int64_t pushes;   /* steps of this rank in this attempt */
    char digest[68];  /* of the data set, or of a program's description; "": not known */
    json_t *counters; /* as staleness_dump() has them; owned by who took it */
};

/* Of the keeper: to worker back->who, whose counters are those of `back`. */
int seat_give(const struct rank_env *env, const struct departure *back, int64_t version,
              int64_t epoch, struct err *e);
/* Of that worker. */
int seat_take(struct comm *c, struct seat *out, struct err *e);

#endif
