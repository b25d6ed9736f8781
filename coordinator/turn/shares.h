/* Shares: how nodes and turns are divided among the owners of jobs (docs/shares.md).
 *
 *   order    priority; then the owner who uses fewer nodes now; then age
 *   quotas   an owner at their limit of attempts or nodes waits, whatever is free
 *
 * What an owner uses is counted from the claims of nodes, which are the truth about them; a virtual
 * attempt, which has none, counts as one node in the order and as none in the quota. Jobs of nobody
 * (of versions without owners) share one place in the order, and have no quota.
 */
#ifndef COORDINATOR_TURN_SHARES_H
#define COORDINATOR_TURN_SHARES_H

#include "coordinator/files/quotas.h"
#include "coordinator/turn/attempts.h"

enum { SHARES_WHY = 200 };

/* What an owner uses now. */
struct share_used {
    const char *owner; /* borrowed of the owners */
    int nodes, running;
    int weight; /* in the order: nodes, and one for each virtual attempt */
};

struct shares {
    struct quotas *quotas;   /* borrowed; NULL: no limits */
    json_t *owners;          /* job → name, of the jobs that were learnt last; owned */
    struct share_used *used; /* one for each owner; owned */
    size_t n_used;
};

/* A queued job in the line. */
struct share_place {
    const char *id, *owner; /* borrowed: of the queue or a run, and of the shares */
    int priority;
    long used;  /* by its owner, when the line was sorted */
    size_t age; /* place among the queued; smaller is earlier */
};

int shares_init(struct shares *s, struct quotas *quotas, struct err *e);
void shares_release(struct shares *s);
/* Asks the store whose these jobs and those in hand are, where that is not known yet; an owner
 * never changes. Forgets others; queued NULL: nobody. Negative: the store is away. */
int shares_learn(struct shares *s, const struct attempts *a, const struct queued_job *queued,
                 size_t n, struct err *e);
/* "": nobody's, or not learnt. Borrowed until the next shares_learn(). */
const char *shares_owner(const struct shares *s, const char *job);
/* Counts what owners use; nodes: of store_nodes(). */
int shares_count(struct shares *s, const struct attempts *a, const json_t *nodes, struct err *e);
/* May an attempt of this owner start on so many nodes (0: a virtual one)? If not, why[] says it
 * with the figures. */
bool shares_allow(const struct shares *s, const char *owner, int workers, char why[SHARES_WHY]);
/* The nodes that a job of this owner may have which has `own` of them: no fewer than these. */
int shares_most(const struct shares *s, const char *owner, int own);
/* The nodes that the owner uses now. */
int shares_used(const struct shares *s, const char *owner);
/* Puts the places into the order in which they are tried. */
void shares_sort(const struct shares *s, struct share_place *places, size_t n);

#endif
