/* The monitor of one attempt: rows, facts and heartbeats in; history, profiles, live document,
 * minibatches, lost ranks out.
 *
 *   store: rows ──┬─► history on disk ─► rows leave the store
 *                 └─► balancer ─► assignment, control
 *   store: facts ───► evaluations, restored, ended
 *   store: beats ───► counters, worker states, who is lost
 *                     live document, events for the browsers
 *
 * It lives in the scheduler's thread and owns no connection. What it has read is remembered in the
 * document "detail:monitor" (job/documents/coordinator/bookmark.h), so a restarted coordinator goes
 * on where the old one ended. A document of another attempt is dropped, counted and logged.
 */
#ifndef COORDINATOR_MONITOR_MONITOR_H
#define COORDINATOR_MONITOR_MONITOR_H

#include "job/documents/ranks/fact.h"
#include "job/documents/people/failure.h"
#include "job/documents/coordinator/plan.h"
#include "store/store.h"

struct monitor;

struct monitor_config {
    struct store *store;        /* borrowed */
    const char *data_dir;       /* logs are beneath it */
    const char *host;           /* of the keeper */
    const struct jobspec *spec; /* borrowed; must outlive the monitor */
    const struct plan *plan;    /* borrowed for the call */
    bool adopted;               /* the attempt was started by a coordinator that is gone */
    double now;
};

/* For a new attempt this is called before the launch, and begins to take over what earlier attempts
 * left in the store. */
struct monitor *monitor_open(const struct monitor_config *config, struct err *e);
void monitor_close(struct monitor *m);
/* Reads what has arrived, decides, publishes. Negative: the store is away; trying again loses
 * nothing. */
int monitor_tick(struct monitor *m, double now, struct err *e);
/* Has all been taken over? Until then the attempt must not start, since its rows would be taken for
 * those of earlier ones; each monitor_tick() reads on. */
bool monitor_ready(const struct monitor *m);
/* Do rows or facts wait that the last turn has left? */
bool monitor_behind(const struct monitor *m);
/* Writes the last documents of an attempt that has ended. Call it once nothing more can arrive and
 * monitor_behind() says no: it reads all that is left. */
int monitor_finish(struct monitor *m, double now, struct err *e);

bool monitor_stepped(const struct monitor *m); /* every worker has made a step in this attempt */
/* A worker will not end its step, which began `ago` seconds before, within `patience` seconds, as
 * far as its steps before tell. */
bool monitor_in_long_step(const struct monitor *m, double ago, double patience);
int64_t monitor_step(const struct monitor *m);   /* the furthest step of any worker */
double monitor_seconds(const struct monitor *m); /* job time of the newest row */
/* How the attempt ended, as its ranks report it; NULL before. Borrowed. */
const struct ended *monitor_outcome(const struct monitor *m);
/* True if the keeper reports that the job is done and the samples that workers counted reach the
 * plan. */
bool monitor_finished(const struct monitor *m);
/* *counted: samples by the workers' counters. *planned: those of the whole job; 0: not known. */
void monitor_samples(const struct monitor *m, int64_t *counted, int64_t *planned);
/* Does the attempt go on without a worker that died? Is this rank such a worker? */
bool monitor_lost_some(const struct monitor *m);
bool monitor_is_lost(const struct monitor *m, int rank);
/* Is a worker dead that the attempt has not gone on without, either because it cannot or because
 * that is not decided yet? *out says which, and how it died.
 */
bool monitor_death(const struct monitor *m, struct failure *out);
/* Did a worker whose death ends the attempt die before every worker has made a step, in a job that
 * could go on without it later? */
bool monitor_died_in_start(const struct monitor *m, int rank);
/* Did this worker's guard report that it was killed? */
bool monitor_was_killed(const struct monitor *m, int rank);
/* Did this worker's guard report that it ended with a status of its own, as one that fails does? */
bool monitor_ended_itself(const struct monitor *m, int rank);
/* Has every rank that is left reported its end? */
bool monitor_all_done(const struct monitor *m);
/* Is a rank over its deadline, or did one die that the attempt needs? *out says which, and why. */
bool monitor_lost(struct monitor *m, double now, struct failure *out);
/* Ages of heartbeats do not count until then: the store was away, or this process stood still. */
void monitor_grace(struct monitor *m, double until);
/* Tells the workers to stop or to pause. Negative: try again. */
int monitor_ask(struct monitor *m, bool stop, bool pause, struct err *e);
const char *monitor_node(const struct monitor *m, int rank); /* "keeper" for servers; "" for none */

#endif
