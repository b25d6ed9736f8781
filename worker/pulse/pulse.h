/* The pulse: the one thread of a rank that speaks to the store. Rows, facts and heartbeats go up,
 * the control document comes down. Training never waits for it: the trainer's side only copies into
 * queues under a lock that is held for microseconds.
 *
 * Rows wait in a bounded queue until Redis has taken them; when it is full, the oldest row is
 * dropped and counted. Counters (samples, updates, staleness) are cumulative and travel in the
 * heartbeat, so accounting never depends on rows. Without Redis, training continues with the last
 * control that was read. A control document of another attempt is dropped and counted: either this
 * rank or the document is left over.
 */
#ifndef WORKER_PULSE_PULSE_H
#define WORKER_PULSE_PULSE_H

#include <signal.h>

#include "common/sign.h"
#include "job/documents/ranks/fact.h"
#include "worker/telemetry.h"

struct pulse; /* owned by its starter; one per process */

struct pulse_config {
    const char *url, *password;  /* of the store; password may be NULL. Copied */
    const char *job, *node;      /* copied */
    const struct sign_key *seal; /* this rank's (job/seal.h); copied. NULL: zeros, for tests */
    int64_t first_number;        /* numbers of facts and heartbeats start after it */
    int rank, attempt, workers;
    bool reads_control;            /* stop, pause or a loss concern this rank */
    bool reads_each_turn;          /* in each turn, not only with rows and heartbeats */
    int first_version;             /* the control before the document is read */
    const int *first_sizes;        /* [workers] */
    double (*comm_age)(void *ctx); /* age of the communication thread's last turn; may be NULL */
    void *comm_ctx;
    /* Does that thread hang? The process then ends if control tells of a lost worker. NULL: not
     * checked. */
    bool (*comm_hangs)(void *ctx);
    const volatile sig_atomic_t *stop; /* set by SIGTERM: control then says stop. May be NULL */
};

/* Called by the thread that trains; the heartbeat reports how long that thread has been idle. */
struct pulse *pulse_start(const struct pulse_config *config, struct err *e);
/* Sends what is queued, for at most `grace` seconds, and ends the thread. */
void pulse_stop(struct pulse *p, double grace);
/* The trainer's side. `profile` reports values unchanged. */
void pulse_telemetry(struct pulse *p, struct telemetry *out);
/* Queues the fact that this rank has ended. With OUTCOME_FAILED: why, and how its program ended if
 * that is the reason; else NULL. */
void pulse_ended(struct pulse *p, enum outcome outcome, const struct err *why,
                 const struct program_end *program);

#endif
