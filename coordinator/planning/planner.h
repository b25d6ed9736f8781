/* The planner makes the plan of an attempt (job/documents/coordinator/plan.h) from its job's spec,
 * the nodes that it gets, and what is known of them from earlier jobs.
 */
#ifndef COORDINATOR_PLANNING_PLANNER_H
#define COORDINATOR_PLANNING_PLANNER_H

#include "coordinator/planning/placement.h"
#include "job/minibatch/assign.h"
#include "job/documents/coordinator/plan.h"
#include "store/store.h"

struct planner_ask {
    struct store *store;                /* profiles of earlier jobs */
    const char *job, *data_dir, *roots; /* absolute; roots separated by colons */
    const struct jobspec *spec;
    const struct placement *placement;
    int attempt, version; /* of the first assignment: above every earlier one of the job */
};

/* NULL with an error that says why these nodes cannot run it. *first gets the assignment. Freed
 * with planner_free(). */
struct plan *planner_make(const struct planner_ask *ask, struct assignment *first, struct err *e);
/* The plan of a virtual attempt, which takes no node; ask->placement is not looked at. */
struct plan *planner_make_virtual(const struct planner_ask *ask, struct err *e);
void planner_free(struct plan *p); /* NULL is fine */
/* The file of a spec's `init`: beneath a root, or JOB/NAME among the artifacts; links may not lead
 * out. path[PLAN_PATH]. */
int planner_find_init(const char *init, const char *roots, const char *data_dir, char *path,
                      struct err *e);

#endif
