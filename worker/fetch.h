/* A rank's data set: its own, or the keeper's (docs/semantics.md#ranks). Where a host lacks the
 * data set, or has another one of the same name, the keeper sends its files, and the host keeps
 * them (worker/data/files/received.h). */
#ifndef WORKER_FETCH_H
#define WORKER_FETCH_H

#include "worker/config.h"
#include "worker/data/dataset.h"
#include "worker/data/files/received.h"
#include "worker/exchange/transport/comm.h"
#include "worker/telemetry.h"

struct fetch {
    struct comm *comm; /* borrowed, as all */
    struct telemetry *telemetry;
    const struct data_spec *spec;
    uint64_t seed;
    const char *roots; /* this host's own */
    struct received received;
    struct worker_kept *kept; /* for a worker that is started again; may be NULL */
};

/* Fills d: with samples on a rank that trains, else with counts alone. Collective: every rank of
 * the attempt calls it. */
int fetch_dataset(const struct fetch *f, bool trains, struct dataset *d, struct err *e);
/* The same for a worker that is started again: as this host had it. */
int fetch_again(const struct fetch *f, struct dataset *d, struct err *e);

#endif
