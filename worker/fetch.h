/* A rank's data set: its host's own, or the keeper's (docs/semantics.md#ranks). If a host lacks the
 * data set, or has a different one of the same name, the keeper sends its files, and the host keeps
 * them (worker/data/files/received.h). */
#ifndef WORKER_FETCH_H
#define WORKER_FETCH_H

#include "worker/config.h"
#include "worker/data/dataset.h"
#include "worker/data/files/received.h"
#include "worker/exchange/transport/comm.h"
#include "worker/telemetry.h"

struct fetch {
    struct comm *comm; /* borrowed, like all pointers here */
    struct telemetry *telemetry;
    const struct data_spec *spec;
    uint64_t seed;
    const char *roots; /* this host's own */
    struct received received;
    struct worker_kept *kept; /* for workers that are started again; may be NULL */
};

/* Fills d: with samples on a rank that trains, else with counts only. Collective: every rank of the
 * attempt calls it. */
int fetch_dataset(const struct fetch *f, bool trains, struct dataset *d, struct err *e);
/* The same for a worker that is started again: opens what this host had before. */
int fetch_again(const struct fetch *f, struct dataset *d, struct err *e);

#endif
