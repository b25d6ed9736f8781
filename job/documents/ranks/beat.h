/* Heartbeat: a rank's sign of life, and its counters. The rank's pulse writes it about twice a
 * second into the job's `beats` in the store, one per rank, and the monitor reads it.
 *
 *   {"format": 1, …, "number": 12, "node": "n1", "phase": "computing", "progress_age": 0.1,
 *    "work_age": 0.0, "comm_age": 0.0, "step": 20, "epoch": 0.5, "samples": 640, "updates": 20,
 *    "batch": 32, "staleness": {…}, "rows_dropped": 0, "busy_fraction": 0.3,
 *    "receiving": {"bytes": …, "of_bytes": …},
 *    "quota": {"batch": 32, "step_seconds": 0.01},
 *    "door": "10.0.0.3:41234"}                           the last four where they apply
 *
 * It is sealed with its rank's key (job/seal.h). The store adds the time at which it came, by its
 * own clock (`at`, ms), and at reading its age (`age`, s). So the clocks of hosts need not
 * agree. */
#ifndef JOB_DOCUMENTS_RANKS_BEAT_H
#define JOB_DOCUMENTS_RANKS_BEAT_H

#include "common/sign.h"
#include "job/documents/document.h"
#include "job/documents/ranks/phase.h"
#include "job/staleness.h"

enum { BEAT_FORMAT = 1 };

struct beat {
    struct sender from;
    int64_t number;           /* grows with each report of this rank (job/documents/ranks/fact.h) */
    char node[DOCUMENT_NODE]; /* "keeper", "server" for ranks without one */
    enum phase phase;
    /* Ages in seconds when it was written: of the last progress, of the training thread's last
     * work, and of the communication thread's last turn. */
    double progress_age, work_age, comm_age;
    int64_t step;
    double epoch;
    int64_t samples, updates; /* cumulative, of the job's surviving updates. The keeper's samples
                                 are those of all workers in the run's last state, 0 before */
    int batch;
    struct staleness staleness; /* cumulative; owned if it was read, else borrowed */
    int64_t rows_dropped;
    double busy_fraction; /* of a server; 0 elsewhere */
    int64_t received;     /* bytes of the keeper's data set that have come, */
    int64_t receives;     /* of so many in all; 0: it receives none */
    /* A worker with a CPU quota needs at least quota_seconds for a step of quota_batch samples, if
     * steps follow one another. 0: it has no quota, or has not made enough steps. */
    int quota_batch;
    double quota_seconds;
    char door[DOCUMENT_DOOR]; /* where a newcomer reaches it; empty: nowhere */
    int64_t at;               /* only read: when it came, ms by the clock of the store */
    double age;               /* only read: seconds ago */
};

json_t *beat_json(const struct beat *b); /* new reference */
int beat_read(struct beat *out, const json_t *j, struct err *e);
/* The same for a heartbeat as the store returns it: the sealed message, what it claims, and when it
 * came. Checks the seal with the rank's key (job/seal.h). */
int beat_open(struct beat *out, const json_t *claimed, const struct sign_key *key, struct err *e);
int64_t beat_came(const json_t *claimed); /* ms by the clock of the store */
void beat_release(struct beat *b);

#endif
