/* How workers that are started again and the other ranks reach each other: see parts.h and
 * worker/exchange/transport/seat_links.h. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/machine/host.h"
#include "common/process/run_as.h"
#include "job/seal.h"
#include "worker/exchange/transport/comm_mpi.h"
#include "worker/process/parts.h"

static bool takes_back(const struct process *w)
{
    return w->c->mode == WORKER_JOB && plan_takes_back(&w->c->plan, w->c->spec);
}

static bool is_spread(const struct process *w)
{
    return takes_back(w) && plan_first_remote(&w->c->plan);
}

/* ---- what doors of several hosts ask --------------------------------------------------------- */

/* A worker on the coordinator's host has the attempt's key, like the keeper. It derives the key of
 * every other host from that. */
static void key_of(void *ctx, int worker, struct sign_key *out)
{
    const struct process *w = ctx;
    const struct plan_worker *of = &w->c->plan.workers[worker];
    *out = w->seal;
    if (of->agent && w->rank != worker) {
        seal_of_host(&w->seal, of->host, out);
    }
}

static void tell(void *ctx, const char *door)
{
    const struct telemetry *t = &((struct process *)ctx)->telemetry;
    t->door(t->ctx, door);
}

static bool find(void *ctx, int rank, char *out)
{
    const struct telemetry *t = &((struct process *)ctx)->telemetry;
    return t->find_door(t->ctx, rank, out);
}

/* ---- the start ------------------------------------------------------------------------------- */

/* Finds the network and the ports that Open MPI was given. */
static int find_place(struct seat_far *far, struct err *e)
{
    char network[72];
    const char *subnet = getenv("OMPI_MCA_btl_tcp_if_include"),
               *first = getenv("OMPI_MCA_btl_tcp_port_min_v4"),
               *range = getenv("OMPI_MCA_btl_tcp_port_range_v4");
    if (!subnet) {
        return err_set(e, ERR_INVALID, "no network is named in which ranks reach each other");
    }
    if (first && range) {
        far->first_port = (int)strtol(first, NULL, 10);
        far->last_port = far->first_port + (int)strtol(range, NULL, 10) - 1;
    }
    return host_address(subnet, "", far->address, network, e);
}

/* Ranks of one agent are on one host, the others on the coordinator's. */
static void name_hosts(struct process *w)
{
    const struct plan *plan = &w->c->plan;
    for (int r = 0; r < plan->n_workers + plan->servers; r++) {
        const struct plan_worker *on = plan_worker_with(plan, r);
        comm_mpi_name_host(w->transport, r, on && on->agent ? on->host : "");
    }
}

static int spread(struct process *w, const char *attempt, unsigned user, struct err *e)
{
    struct seat_far far = {.used = true,
                           .keeper = w->c->spec->workers,
                           .ctx = w,
                           .key_of = key_of,
                           .tell = tell,
                           .find = find};
    int rc = find_place(&far, e);
    if (rc < 0) {
        return rc;
    }
    comm_mpi_name_doors(w->transport, attempt, user);
    comm_mpi_spread_doors(w->transport, &far);
    if (w->c->seat > 0) {
        name_hosts(w);
    }
    return 0;
}

void doors_prepare(struct process *w)
{
    const struct worker_config *c = w->c;
    struct run_as as = {0};
    struct err why = {0};
    const char *name = getenv(RUN_AS_VARIABLE);
    char attempt[64], quoted[600];
    if (!takes_back(w)) {
        return;
    }
    bool other = name && run_as_find(&as, name, NULL) == 0;
    snprintf(attempt, sizeof(attempt), "evenstep/%.32s/%d", c->job, c->attempt);
    unsigned user = other ? as.uid : geteuid();
    if (!is_spread(w)) {
        comm_mpi_name_doors(w->transport, attempt, user);
    } else if (spread(w, attempt, user, &why) < 0) {
        log_warn("worker", "this rank has no door: no worker that is started again reaches it",
                 "why=%s", log_quote(quoted, sizeof(quoted), why.message));
    }
}

int doors_share_key(struct process *w, struct err *e)
{
    const struct worker_config *c = w->c;
    struct sign_key among = {{0}};
    int rc = 0, keeper = c->spec->workers;
    if (!is_spread(w)) {
        return 0;
    }
    if (c->seat > 0) {
        among = c->kept->among;
    } else if ((w->rank == keeper && (rc = sign_random(&among, e)) < 0) ||
               (rc = comm_broadcast(&w->comm, keeper, &among, sizeof(among), e)) < 0) {
        return rc;
    }
    comm_mpi_lend_key(w->transport, &among);
    if (c->kept) {
        c->kept->among = among;
    }
    return 0;
}

/* ---- a worker that was started again --------------------------------------------------------- */

int doors_reach_keeper(struct process *w, struct err *e)
{
    char guard[32];
    struct stat of;
    snprintf(guard, sizeof(guard), "/proc/%d", (int)getppid()); /* it is whom the keeper is, too */
    if (stat(guard, &of) < 0) {
        return err_errno(e, ERR_PEER, "cannot join: the guard is gone");
    }
    return comm_mpi_join(w->transport, of.st_uid, e);
}
