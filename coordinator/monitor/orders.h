/* Orders: what the monitor tells the workers (the document "control": minibatches, stop, pause),
 * and what it learns of their speed (profiles, kept across jobs).
 *
 * The balancer decides once. If the store is away when the decision must be written, the next turn
 * writes it before the balancer decides again.
 */
#ifndef COORDINATOR_MONITOR_ORDERS_H
#define COORDINATOR_MONITOR_ORDERS_H

#include "coordinator/monitor/ranks.h"
#include "coordinator/planning/profiles.h"
#include "job/minibatch/balancer.h"

struct orders {
    struct store *store;                  /* borrowed */
    const struct ranks *ranks;            /* borrowed */
    const struct batching_spec *batching; /* of all workers; borrowed */
    struct balancer balancer;             /* of the workers that are not lost: */
    int *who;                             /* [balancer.workers] their ranks; owned */
    const char **names;                   /* [balancer.workers] their nodes, into `ranks`; owned */
    bool in_lockstep;                     /* minibatches of a step sum up to the global batch */
    bool may_balance;                     /* minibatches follow the measured speeds */
    int64_t samples;  /* of the training set; 0: not told, or a user's program has its own */
    bool narrowed;    /* the balancer shares those out, as they are fewer than the global batch */
    bool owes;        /* an assignment was decided, and is not yet written down */
    bool amends;      /* it takes the place of the one that was written before */
    bool owes_word;   /* the list of lost workers has changed, and is not yet written down */
    bool stop, pause; /* as last written */
    json_t *doors;    /* of the control document, or NULL; owned */
    char key[PROFILES_KEY];
    const char *strategy; /* by name */
};

int orders_open(struct orders *o, struct store *store, const struct ranks *ranks,
                const struct jobspec *spec, const struct plan *plan, struct err *e);
void orders_close(struct orders *o); /* also after a failed orders_open() */
/* Takes over the control document that an earlier coordinator wrote for this attempt. `ranks`:
 * those that orders_open() borrowed. */
void orders_adopt(struct orders *o, struct ranks *ranks);

void orders_observe(struct orders *o, const struct row *row); /* a measured step */
/* Takes the CPU quotas that heartbeats report into the balancer. */
void orders_see_quotas(struct orders *o);
/* A worker measured its node at two sizes: the first observations of its profile, if it has none
 * yet. */
void orders_calibrate(struct orders *o, int rank, double a, double k, int max_batch);
/* A user's program has told its global batch. Where no minibatches were told before, or others,
 * they are owed from now on. Negative: it cannot be shared out, which the ranks find as well. */
int orders_take_batch(struct orders *o, int global_batch, struct err *e);
/* The training set has so many samples. Where the global batch is more, people see what a step
 * takes of it, and minibatches follow that; the ranks go on sharing out what was asked. `told`: an
 * earlier coordinator has told people so. */
void orders_take_samples(struct orders *o, int64_t samples, bool told);
/* Takes where ranks are reached, as heartbeats say; what has changed is owed. */
void orders_see_doors(struct orders *o);
/* Decides on minibatches, unless the attempt is about to end, and tells the workers. */
int orders_balance(struct orders *o, bool ending, struct err *e);
/* Tells the workers to stop or to pause; nothing is written where that has not changed. */
int orders_ask(struct orders *o, bool stop, bool pause, struct err *e);
/* This worker of `ranks` is lost, and marked so: minibatches are shared out among the others, and
 * with the next turn the ranks are told to go on without it. Negative: they cannot hold the global
 * batch. */
int orders_lose(struct orders *o, int rank, struct err *e);
/* This one is there again, and marked so: minibatches are shared out anew, with it. Negative: they
 * stay as they are, and it keeps its first one until the next change. */
int orders_join(struct orders *o, int rank, struct err *e);
/* Writes the control document now: who is lost, and who is started again. If that fails the next
 * turn writes it. */
int orders_tell(struct orders *o, struct err *e);
void orders_owe(struct orders *o);
int orders_keep_profiles(const struct orders *o, struct err *e);
void orders_settle(struct orders *o); /* no more rows come: the last steps go into the profiles */

int orders_version(const struct orders *o); /* of the assignment in force */
/* The minibatch of each rank, 0 of those that are lost: what a step takes of it. sizes[workers] */
void orders_sizes(const struct orders *o, int *sizes);
/* The line that a rank's minibatch is made from, and the relative standard error of its time; 0, 0
 * where minibatches stay as they are or nothing was measured. */
struct line orders_line(const struct orders *o, int rank, double *error);

#endif
