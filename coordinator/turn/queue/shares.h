/* Shares: how nodes and turns are divided among the owners of jobs (docs/shares.md).
 *
 *   order    priority; then the owner who uses fewer nodes now; then age
 *   quotas   an owner at their limit of attempts or nodes waits, whatever is free
 *
 * What an owner uses is counted from the claims of nodes, which are the truth about them; a virtual
 * attempt, which has none, counts as one node in the order and as none in the quota. Jobs of nobody
 * (of versions without owners) share one place in the order, and have no quota.
 */
#ifndef COORDINATOR_TURN_QUEUE_SHARES_H
#define COORDINATOR_TURN_QUEUE_SHARES_H

#include "common/text/names.h"
#include "coordinator/files/quotas.h"
#include "coordinator/turn/attempts.h"

enum { SHARES_WHY = 200 };

/* What an owner uses now. */
struct share_used {
    const char *owner; /* borrowed of shares.owners */
    int nodes, running;
    int weight; /* in the order: nodes, and one for each virtual attempt */
};

struct shares {
    struct quotas *quotas;   /* borrowed; NULL: no limits */
    struct names owners;     /* all owners seen so far */
    struct names jobs;       /* jobs of the last shares_learn() → index of their owner in
                                owners.all */
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

void shares_init(struct shares *s, struct quotas *quotas);
void shares_release(struct shares *s);
/* Asks the store for the owners of these jobs and of those in hand that are not known yet; an owner
 * never changes. Forgets all other jobs. queued NULL: none is queued. Negative: the store is
 * away. */
int shares_learn(struct shares *s, const struct attempts *a, const struct queued_job *queued,
                 size_t n, struct err *e);
/* "": nobody's, or not learnt. Borrowed for as long as the shares live. */
const char *shares_owner(const struct shares *s, const char *job);
/* Counts what owners use; nodes: of store_nodes(). */
int shares_count(struct shares *s, const struct attempts *a, const json_t *nodes, struct err *e);
/* May an attempt of this owner start on so many nodes (0: a virtual one)? If not, why[] says it
 * with the figures. */
bool shares_allow(const struct shares *s, const char *owner, int workers, char why[SHARES_WHY]);
/* The most nodes that a job of this owner may have, if it has `own` now: at least `own`. */
int shares_most(const struct shares *s, const char *owner, int own);
/* The nodes that the owner uses now. */
int shares_used(const struct shares *s, const char *owner);
/* Puts the places into the order in which they are tried. */
void shares_sort(const struct shares *s, struct share_place *places, size_t n);

#endif
