/* What the main rank's program wrote beneath $EVENSTEP_OUTPUT, brought to the job's artifacts.
 *
 *     on the coordinator's host   the program writes into DATA/jobs/ID/artifacts itself
 *     on another host             into a folder there, of which the files are sent to the keeper
 *                                 when the run has ended
 *
 * Files that the keeper itself writes (the model, the state) are never replaced; links are left
 * out. Files that rank 0's program wrote elsewhere in its folder are named in its log, since they
 * go with it.
 */
#ifndef WORKER_PROGRAM_FILES_RESULTS_H
#define WORKER_PROGRAM_FILES_RESULTS_H

#include <time.h>

#include "worker/program/files/copy.h"

struct results_ask {
    struct comm *comm; /* borrowed until results_close, as all */
    struct telemetry *telemetry;
    const char *job_dir;              /* the keeper's; "": the job has none, and nothing is kept */
    const char *cache;                /* this host's folder of received data sets, or NULL */
    const struct own_folder *program; /* this rank's copy of the program, which goes with it */
    bool local;                       /* the keeper is on this host */
    /* of the keeper: has rank 0 died, which some strategies survive? */
    bool (*first_is_gone)(void *ctx);
    void *ctx;
};

struct results {
    struct results_ask ask;
    char folder[PATH_MAX]; /* what the program may write to; "": nothing is kept */
    struct own_folder own; /* rank 0's, on another host */
    struct timespec since; /* files that changed after it are the program's */
};

/* Finds the folder, or makes one. Needs results_close in any case. */
int results_open(struct results *r, const struct results_ask *ask, struct err *e);
/* Of a run that has ended well: rank 0 and the keeper move the files, others return at once. A rank
 * 0 that died before gives nothing, and the keeper goes on without it. */
int results_bring(struct results *r, struct err *e);
/* Harmless on one of zeros. */
void results_close(struct results *r);

#endif
