/* Results that stay with the job: evaluations, and how the attempt ended. */
#ifndef COORDINATOR_MONITOR_RESULTS_H
#define COORDINATOR_MONITOR_RESULTS_H

#include "job/documents/ranks/evaluation.h"
#include "job/documents/ranks/fact.h"
#include "store/store.h"

struct results {
    struct evaluations evaluations; /* of the job's surviving steps, over all attempts; owned */
    bool unsaved;                   /* evaluations since the last results_save */
    bool has_ended;
    struct ended ended; /* if has_ended */
};

/* Reads the kept evaluations. A document that is damaged is logged, and begins anew. */
void results_open(struct results *r, struct store *store, const char *job);
void results_close(struct results *r);
/* Writes the kept evaluations down, if there are new ones. */
int results_save(struct results *r, struct store *store, const char *job, struct err *e);
/* Takes what a rank said about the attempt's end. When one rank fails, the others fail too and say
 * so ("a peer is lost"). The failure that counts is the one that is not such an echo, whichever
 * came first. A failure outweighs a "stopped" that mpirun's SIGTERM caused. */
void results_end(struct results *r, const struct ended *end);

#endif
