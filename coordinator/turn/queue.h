/* The queue: which queued jobs start now, and on which nodes. */
#ifndef COORDINATOR_TURN_QUEUE_H
#define COORDINATOR_TURN_QUEUE_H

#include "coordinator/turn/shares.h"

/* What a queued job waits for. */
struct wanted {
    int priority;
    json_t *nodes; /* an object of their names; owned */
};

struct queue {
    struct shares shares;
    int virtual_jobs;      /* that may run at a time */
    double tried_at;       /* when all of it was looked at last */
    double again_at;       /* when the first job that pauses may start */
    json_t *waiting_since; /* job id → time of the turn that first saw it wait for nodes; owned */
    struct wanted *wanted; /* of the jobs that waited when it was looked at last; owned */
    size_t n_wanted;
    size_t from; /* in a long queue: the window beyond its head that is looked at next */
    char *seen;  /* what the queue and the nodes were like when it was last looked at; owned */
};

/* quotas: borrowed, or NULL. */
int queue_init(struct queue *q, int virtual_jobs, struct quotas *quotas, struct err *e);
void queue_release(struct queue *q);
/* Starts what can start. Negative: the store is away. */
int queue_tick(struct queue *q, struct attempts *a, const struct store_overview *seen, double now,
               struct err *e);
/* Nodes have become free: the next turn looks at all of it. */
void queue_stir(struct queue *q);

#endif
