/* What a prediction is made of, and its parts: a run of the simulator under one strategy
 * (predict_run.c), and the links of its cluster (predict_links.c). */
#ifndef COORDINATOR_PLANNING_PREDICT_RUN_H
#define COORDINATOR_PLANNING_PREDICT_RUN_H

#include "coordinator/planning/dryrun.h"
#include "coordinator/planning/profiles.h"
#include "job/minibatch/assign.h"

/* First minibatches of strategies in which workers step together, and of those with a server. */
enum { PREDICT_TOGETHER, PREDICT_SERVED, PREDICT_FIRST };

struct prediction {
    const struct dryrun *d;
    const struct jobspec *spec;
    int workers; /* the spec's; of an elastic job those that it would get now */
    char dir[64];
    json_t *cluster;           /* owned */
    struct assignment *first;  /* [PREDICT_FIRST] minibatches; NULL: the job's own policy decides;
                                 owned */
    int64_t epoch_samples;     /* 0: not known */
    struct exchanged exchange; /* that was measured; workers 0: none was */
};

/* Samples of a step: the global batch, or the training set where that has fewer. */
int predict_batch(const struct prediction *p);
/* A document as DIR/NAME. */
int predict_write(const char *dir, const char *name, const json_t *j, struct err *e);
/* What a strategy's run was like. */
struct predicted {
    json_t *row;             /* of the answer, with its "workers"; owned by the caller */
    double exchange_seconds; /* of a step: the mean over the workers */
};
/* Runs the job under this strategy on DIR/cluster.json. Negative, and no row, if it cannot run this
 * job. */
int predict_run(const struct prediction *p, const char *strategy, bool chosen,
                struct predicted *out, struct err *e);

/* The document of a link: as fast as between ranks of one host, divided by `slower`. New
 * reference. */
json_t *predict_link(double slower);
/* Writes links into DIR/cluster.json with which ranks exchange for as long as was measured
 * (p->exchange). */
int predict_settle_links(struct prediction *p, struct err *e);

#endif
