/* The publisher: what people see of a running attempt. It writes the live document
 * (job/documents/people/live.h) about twice a second, and the events that carry it, thinned rows
 * and staleness to the browsers. docs/semantics.md defines every number; nothing is decided here.
 */
#ifndef COORDINATOR_MONITOR_PUBLISHER_H
#define COORDINATOR_MONITOR_PUBLISHER_H

#include "coordinator/monitor/orders.h"
#include "coordinator/monitor/results.h"

struct publisher {
    double live_at, detail_at; /* when each was last written */
    bool ended;                /* the attempt; the last documents say so */
    bool finished;             /* and the job has succeeded */
    json_t *before; /* the live document of the attempt before this one, or NULL; owned: how far the
                       job is until all ranks of this attempt have stepped */
};

/* What is shown; borrowed for the call. */
struct publisher_view {
    struct store *store;
    const char *host; /* of the keeper */
    const struct jobspec *spec;
    struct ranks *ranks; /* the rows since the last event are taken */
    const struct orders *orders;
    const struct results *results;
    const struct joined *program; /* that has joined; NULL: none */
    int64_t planned;              /* samples of the whole job; 0: not known */
    int64_t training_samples;     /* of the data set; 0: not known */
    int64_t rows_missing;         /* of the history */
    json_t *logged;               /* live.logged */
};
void publisher_close(struct publisher *p);
int publisher_tick(struct publisher *p, const struct publisher_view *v, double now, struct err *e);
/* The attempt has ended: the next turn writes all documents; `finished`: the job has succeeded. */
void publisher_finish(struct publisher *p, bool finished);

#endif
