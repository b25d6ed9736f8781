/* The monitor of one attempt: rows, facts and heartbeats in; history, profiles, live document,
 * minibatches, lost ranks out.
 *
 *   store: rows ─┬─► history on disk ─► rows leave the store     store: facts ─► evaluations, restored, ended
 *                └─► balancer ─► assignment, control             store: beats ─► counters, worker states, who is lost
 *                         live document, events for the browsers
 *
 * It lives in the scheduler's thread and owns no connection. What it has read is remembered in the
 * document "detail:monitor", so a restarted coordinator goes on where the old one ended.
 */
#ifndef COORDINATOR_MONITOR_H
#define COORDINATOR_MONITOR_H

#include "job/spec.h"
#include "store/store.h"

struct monitor;

struct monitor_config {
    struct store *store;        /* borrowed */
    const char *data_dir;       /* logs are beneath it */
    const char *host;           /* of the keeper */
    const struct jobspec *spec; /* borrowed; must outlive the monitor */
    const json_t *plan;         /* borrowed for the call */
    bool adopted;               /* the attempt was started by a coordinator that is gone */
    double now;
};

/* For a new attempt this is called before the launch: it takes over what the old attempt left
 * behind. */
struct monitor *monitor_open(const struct monitor_config *config, struct err *e);
void monitor_close(struct monitor *m);
/* Reads what has come, decides, publishes. Negative: the store is away, nothing is lost by trying
 * again. */
int monitor_tick(struct monitor *m, double now, struct err *e);
/* The last documents of an attempt that has ended; call it once nothing more can come. `finished`:
 * the job succeeded. */
int monitor_finish(struct monitor *m, double now, bool finished, struct err *e);

bool monitor_stepped(const struct monitor *m);   /* every worker has made a step in this attempt */
double monitor_seconds(const struct monitor *m); /* job time of the newest row */
/* The fact "ended": {"outcome","code","message","rank","node"}; NULL until it came. Of several
 * failures the one that is no echo. */
const json_t *monitor_outcome(const struct monitor *m);
/* A rank that is over its deadline: an error {"code","message","rank","node","attempt"} (new
 * reference), or NULL. */
json_t *monitor_lost(struct monitor *m, double now);
/* Ages count from here on: the store was away, or this process was. */
void monitor_grace(struct monitor *m, double until);
/* What the workers are told. */
int monitor_ask(struct monitor *m, bool stop, bool pause, struct err *e);
const char *monitor_node(const struct monitor *m, int rank); /* "keeper" for servers; "" for none */

#endif
