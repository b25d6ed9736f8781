/* The queue: which queued jobs start now, and on which nodes. */
#ifndef COORDINATOR_TURN_QUEUE_QUEUE_H
#define COORDINATOR_TURN_QUEUE_QUEUE_H

#include "common/text/names.h"
#include "coordinator/turn/queue/shares.h"

/* What a queued job waits for. */
struct wanted {
    int priority;
    struct names nodes; /* owned */
};

struct queue {
    struct shares shares;
    int virtual_jobs;           /* that may run at a time */
    double tried_at;            /* when the whole queue was tried last */
    double again_at;            /* when the first job that pauses may start */
    struct names waiting_since; /* job id → time of the turn that first saw it wait for nodes */
    struct wanted *wanted;      /* of the jobs that waited when it was looked at last; owned */
    size_t n_wanted;
    size_t from; /* in a long queue: the window beyond its head that is looked at next */
    char *seen;  /* what the queue and the nodes were like when it was last looked at; owned */
};

/* quotas: borrowed, or NULL. */
void queue_init(struct queue *q, int virtual_jobs, struct quotas *quotas);
void queue_release(struct queue *q);
/* Goes on with launches that are under way, and starts what can start. Negative: the store is
 * away. */
int queue_tick(struct queue *q, struct attempts *a, const struct store_overview *seen, double now,
               struct err *e);
/* Nodes have become free: the next turn tries the whole queue. */
void queue_stir(struct queue *q);

#endif
