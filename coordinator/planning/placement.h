/* Placement: which nodes an attempt gets. Pure: the store's nodes in, a choice or a sentence out.
 *
 * A node may be taken if it is ready, unclaimed, on this host or one with an agent, and named by
 * the spec (or has one of its labels; a spec that names none may run anywhere). Where there is a
 * choice the fastest come first, then by name, so the same cluster gives the same ranks; one that
 * has rested (store/node_rest.c) comes last.
 */
#ifndef COORDINATOR_PLANNING_PLACEMENT_H
#define COORDINATOR_PLANNING_PLACEMENT_H

#include "common/text/names.h"
#include "job/spec/spec.h"

struct placed {
    char name[64], host[256], device[64];
    char address[64];     /* of the host, where it has an agent */
    bool agent;           /* its host's agent starts what runs on it */
    double slowdown;      /* >= 1 */
    int threads;          /* 1 for a GPU */
    bool doubtful;        /* it has rested, and its next attempt is the probe */
    double speed;         /* threads / slowdown; a guess for where there is no profile */
    int64_t memory_bytes; /* 0: unknown */
};

struct placement {
    struct placed *nodes; /* rank order; owned */
    int count;
    char waiting[480]; /* why there are too few, in words */
};

struct placement_ask {
    const json_t *nodes;    /* of store_nodes() */
    const char *local_host; /* the only host that can be reached without an agent; NULL: any */
    const struct jobspec *spec;
    const json_t *manifest; /* of the spec's program, for what it needs; may be NULL */
    int attempt;            /* that is about to start; from the second one on `min_workers` are
                               enough */
    const struct names *reserved; /* nodes that a job ahead waits for; may be NULL */
    bool ignore_claims;           /* a dry run: as if every node were free */
    const char *own; /* nodes that this job has claimed are free for it; NULL: none are */
    int most;        /* an elastic job gets no more nodes than these; 0: its `max` */
};

/* An elastic job gets as many of the free nodes as its bounds allow.
 * true: `out` has the nodes; false: not now, out->waiting says why. placement_release either way.
 */
bool placement_find(struct placement *out, const struct placement_ask *ask);
void placement_release(struct placement *p);
/* Adds to `reserved` the names of the nodes that this job waits for. */
void placement_reserve(struct names *reserved, const struct placement_ask *ask);

/* How many of the nodes this spec may run on, alive or not. */
int placement_known(const struct placement_ask *ask);

/* If too few nodes can run the job: the first one that lacks only its precision, or something that
 * its program needs. NULL: enough nodes can, or none lacks only that. */
const json_t *placement_lacking(const struct placement_ask *ask);

#endif
