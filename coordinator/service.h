/* The parts of `evenstep serve`, and the order in which they start and stop; serve.c has the loop.
 *
 *   folder's lock ─► store (private or given) ─► lease ─► turn, sweeps ─► local nodes ─► hosts
 *     ─► retention ─► webhooks ─► HTTP
 */
#ifndef COORDINATOR_SERVICE_H
#define COORDINATOR_SERVICE_H

#include <signal.h>

#include "coordinator/config.h"
#include "coordinator/files/quotas.h"
#include "coordinator/files/retention.h"
#include "coordinator/hosts/hosts.h"
#include "coordinator/hosts/localnodes.h"
#include "coordinator/launchers/launcher.h"
#include "coordinator/planning/dryrun.h"
#include "coordinator/sweeps/sweeps.h"
#include "coordinator/lease.h"
#include "coordinator/turn/scheduler.h"
#include "coordinator/webhooks/webhooks.h"
#include "http/server.h"

struct service {
    struct serve_config config;
    char url[512];
    struct store *store;
    struct launcher mpirun, simulator;
    bool simulates, is_private;
    bool was_there;                     /* the private store ran already when we started: jobs may
                                           be using it */
    bool ready;                         /* everything is started */
    double store_retry, store_retry_at; /* seconds between attempts to bring the private store back;
                                           when the next is due */
    struct lease *lease;
    struct quotas *quotas; /* NULL: there are none */
    struct sched *sched;
    struct sweeps sweeps;
    struct localnodes *nodes;
    struct interpreters *interpreters; /* of the local nodes; NULL: programs are not allowed */
    struct hosts *hosts;
    struct retention *retention;
    struct webhooks *webhooks;
    struct dryrun dryrun;
    struct http_server *http;
    /* How the loop of serve.c is woken, from any thread, and whether it was told to end. */
    void (*wake)(void *ctx);
    void (*lost)(void); /* called when another coordinator has taken the lease */
    const volatile sig_atomic_t *told_to_stop;
};

/* Starts all parts; `config`, `wake`, `lost` and `told_to_stop` are set. ERR_CANCELLED: it was told
 * to end while it stood by. After an error service_stop() is due as well. */
int service_start(struct service *s, struct err *e);
/* `left`: jobs, nodes and the store stay as they are for the coordinator that follows. `lost`: they
 * are another one's already, and so is the scheduler, whose monitors would write the rows that they
 * have not yet written. */
void service_stop(struct service *s, bool left, bool lost);

#endif
