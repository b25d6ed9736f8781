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
    bool in_lockstep;                     /* the minibatches of a step sum up to the global batch */
    bool may_balance;                     /* minibatches follow the measured speeds */
    int64_t samples;  /* of the training set; 0: not known, or a user's program has its own */
    bool narrowed;    /* `samples` is less than the global batch, so the balancer shares out the
                         samples */
    bool owes;        /* an assignment was decided and is not written yet */
    bool amends;      /* it replaces the one that was written last */
    bool owes_word;   /* another part of the control document is not written yet */
    bool stop, pause; /* as last written */
    json_t *doors;    /* addresses of ranks, as in the control document, or NULL; owned */
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
/* A user's program has reported its global batch. If no minibatches were written for it yet, the
 * next turn writes them. Negative: it cannot be shared out; the ranks find that, too. */
int orders_take_batch(struct orders *o, int global_batch, struct err *e);
/* The number of samples of the training set is known. If the global batch is larger, people are
 * shown the minibatches of the samples that a step really has; the ranks go on sharing out what was
 * asked. told: an earlier coordinator has shown that already. */
void orders_take_samples(struct orders *o, int64_t samples, bool told);
/* Takes the addresses of ranks from their heartbeats. */
void orders_see_doors(struct orders *o);
/* Decides on minibatches, unless the attempt is about to end, and writes them. */
int orders_balance(struct orders *o, bool ending, struct err *e);
/* Asks the workers to stop or to pause. Writes nothing if that has not changed. */
int orders_ask(struct orders *o, bool stop, bool pause, struct err *e);
/* A worker was lost, and is marked so in `ranks`: shares out the minibatches among the others. The
 * next turn writes that. Negative: the others cannot hold the global batch. */
int orders_lose(struct orders *o, int rank, struct err *e);
/* A worker has come back, and is marked so: shares out the minibatches anew. Negative: they stay as
 * they are, and the worker keeps its first one until the next change. */
int orders_join(struct orders *o, int rank, struct err *e);
/* Writes the control document now. If that fails, the next turn does. */
int orders_tell(struct orders *o, struct err *e);
/* The next turn writes the control document. */
void orders_owe(struct orders *o);
int orders_keep_profiles(const struct orders *o, struct err *e);
void orders_settle(struct orders *o); /* no more rows come: the last steps go into the profiles */

int orders_version(const struct orders *o); /* of the assignment in force */
/* sizes[workers]: how many samples a step takes of each rank's minibatch; 0: the rank is lost. */
void orders_sizes(const struct orders *o, int *sizes);
/* The line that a rank's minibatch is made from, and the relative standard error of its time; 0, 0
 * where minibatches stay as they are or nothing was measured. */
struct line orders_line(const struct orders *o, int rank, double *error);

#endif
