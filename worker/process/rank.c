/* A rank's run, once MPI has made the process a rank (see parts.h): telemetry, the data, then the
 * trainer on ranks 0 to W-1, or the keeper and servers from rank W on. */
#include "worker/process/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "job/seal.h"
#include "worker/data/files/unpacked.h"
#include "worker/exchange/transport/comm_mpi.h"
#include "worker/fetch.h"

/* ---- what the trainer may ask ---------------------------------------------------------------- */

static void step_begin(void *ctx)
{
    comm_mpi_step_begin(((struct process *)ctx)->transport);
}

static void calibrated(void *ctx, struct profile *p)
{
    struct process *w = ctx;
    double factor = w->c->plan.workers[w->rank].slowdown;
    p->a *= factor;
    p->k *= factor;
    if (factor > 1) {
        comm_mpi_set_slowdown(w->transport, p->a, p->k);
    }
}

/* A program has joined before its engine starts. */
static int join(void *ctx, struct seat *out, struct err *e)
{
    struct process *w = ctx;
    if (w->c->spec->program.given) {
        *out = w->own.seat;
        return 0;
    }
    int rc = doors_reach_keeper(w, e);
    return rc < 0 ? rc : seat_take(&w->comm, out, e);
}

static void joined(void *ctx)
{
    struct process *w = ctx;
    w->joined = true;
    close(w->c->joining);
}

/* ---- telemetry ------------------------------------------------------------------------------- */

/* Anybody who has the seal can speak for this rank, so it does not stay in the environment. */
static int read_seal(struct sign_key *out, struct err *e)
{
    char *text = getenv(SEAL_VARIABLE);
    if (!text || sign_unhex(text, out, NULL) < 0) {
        return err_set(e, ERR_INVALID,
                       SEAL_VARIABLE " is not set: ranks are started under `evenstep serve`");
    }
    memset(text, '0', strlen(text));
    return unsetenv(SEAL_VARIABLE) == 0 ? 0 : err_errno(e, ERR_INTERNAL, "cannot forget a key");
}

static double thread_age(void *ctx)
{
    return comm_mpi_thread_age(ctx);
}

static bool thread_hangs(void *ctx)
{
    return comm_mpi_thread_hangs(ctx);
}

static int open_local(struct process *w, struct err *e)
{
    const struct plan *plan = &w->c->plan;
    w->local.rank = w->rank;
    w->local.workers = w->c->spec->workers;
    w->local.stop = w->stop;
    w->local.control.version = plan->first_version;
    memcpy(w->local.control.sizes, plan->first_sizes, sizeof(plan->first_sizes));
    local_telemetry(&w->local, &w->telemetry);
    return local_open(&w->local, w->c->lines, e);
}

static int open_pulse(struct process *w, const char *node, struct err *e)
{
    const struct worker_config *c = w->c;
    int workers = c->spec->workers;
    bool outlives = plan_outlives_worker(&c->plan, c->spec),
         hears = w->rank == workers || (outlives && !jobspec_uses_server(c->spec));
    int rc = read_seal(&w->seal, e);
    if (rc < 0) {
        return rc;
    }
    struct pulse_config pc = {
        .url = c->store_url,
        .password = getenv("EVENSTEP_STORE_PASSWORD"),
        .job = c->job,
        .node = node,
        .seal = &w->seal,
        .rank = w->rank,
        .first_number = c->seat > 0 ? fact_number_last(c->seat - 1) : 0,
        .attempt = c->attempt,
        .workers = workers,
        .reads_control = w->rank == 0 || hears || outlives,
        .reads_each_turn = hears && outlives,
        .first_version = c->plan.first_version,
        .first_sizes = c->plan.first_sizes,
        .comm_age = thread_age,
        .comm_ctx = w->transport,
        .comm_hangs = outlives && w->rank < workers ? thread_hangs : NULL,
        .stop = w->stop,
    };
    w->pulse = pulse_start(&pc, e);
    if (!w->pulse) {
        return -ERR_UNAVAILABLE;
    }
    pulse_telemetry(w->pulse, &w->telemetry);
    return 0;
}

/* ---- what it trains on ----------------------------------------------------------------------- */

static int fetch_samples(struct process *w, struct err *e)
{
    struct worker_config *c = w->c;
    struct fetch f = {&w->comm,      &w->telemetry, &c->spec->data,
                      c->spec->seed, c->plan.roots, {c->cache, c->cache_bytes},
                      c->kept};
    unpacked_keep_in(&c->unpacked);
    int rc = c->seat > 0 ? fetch_again(&f, &w->data, e)
                         : fetch_dataset(&f, w->rank < c->spec->workers, &w->data, e);
    w->data_there = rc == 0;
    return rc;
}

static int open_comm(struct process *w, struct err *e)
{
    const struct worker_config *c = w->c;
    int workers = c->spec->workers, servers = c->plan.servers,
        size = w->transport->ops->size(w->transport);
    if (size != workers + servers) {
        return err_set(e, ERR_INVALID, "mpirun started %d ranks, %d workers and %d servers need %d",
                       size, workers, servers, workers + servers);
    }
    int rc = comm_init(&w->comm, w->transport, workers, servers, e);
    if (rc < 0 || strcmp(c->spec->allreduce, "mpi") != 0) {
        return rc;
    }
    w->comm.native = true;
    return comm_mpi_use_native(w->transport, workers, e);
}

static const char *node_of(const struct process *w)
{
    int workers = w->c->spec->workers;
    return w->rank < workers    ? w->c->plan.workers[w->rank].node
           : w->rank == workers ? "keeper"
                                : "server";
}

static int open_rank(struct process *w, struct err *e)
{
    const struct worker_config *c = w->c;
    const char *node;
    char context[128];
    int rc;
    w->rank = w->transport->ops->rank(w->transport);
    node = node_of(w);
    snprintf(context, sizeof(context), "job=%.32s rank=%d", c->job ? c->job : "local", w->rank);
    log_set_context(context);
    rc = c->mode == WORKER_LOCAL ? open_local(w, e) : open_pulse(w, node, e);
    if (rc < 0 || (rc = open_comm(w, e)) < 0 || (rc = doors_share_key(w, e)) < 0) {
        return rc;
    }
    w->telemetry.phase(w->telemetry.ctx, PHASE_LOAD);
    return c->spec->program.given ? own_program_open(w, node, e) : fetch_samples(w, e);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void fill_env(struct process *w, struct trainer_env *env)
{
    const struct worker_config *c = w->c;
    const struct program *program = &w->own.program;
    *env = (struct trainer_env){
        .spec = c->spec,
        .data = &w->data,
        .comm = &w->comm,
        .telemetry = &w->telemetry,
        .first_version = c->plan.first_version,
        .job_dir = c->plan.job_dir[0] ? c->plan.job_dir : NULL,
        .init_path = c->plan.init_path[0] ? c->plan.init_path : NULL,
        .order = c->order,
        .ahead = program->ahead,
        .open = program->open,
        .keeps_own = c->spec->program.given,
        .first_params = program->params,
        .first_stats = program->stats,
        .step_begin = step_begin,
        .calibrated = calibrated,
        .join = c->seat > 0 ? join : NULL,
        .joined = joined,
        .step_ctx = w,
    };
    memcpy(env->first_sizes, c->plan.first_sizes, sizeof(env->first_sizes));
    memcpy(env->speeds, c->plan.speeds, sizeof(env->speeds));
    env->outlives_worker = c->mode == WORKER_JOB && plan_outlives_worker(&c->plan, c->spec);
    env->takes_back = env->outlives_worker && plan_takes_back(&c->plan, c->spec);
}

static int run_keeper(struct process *w, struct trainer_env *env, struct err *e)
{
    int rc = keeper_run(env, e);
    program_leave(&w->own.program);
    return rc;
}

static void tell_ready(const struct process *w, const char *device)
{
    const struct plan_worker *mine = &w->c->plan.workers[w->rank];
    log_info("worker", "ready", "node=%s device=%s slowdown=%g", mine->node, device,
             mine->slowdown);
}

static int run_program(struct process *w, struct trainer_env *env, struct err *e)
{
    tell_ready(w, "program");
    env->engine = program_engine(&w->own.program, env, e);
    int rc = env->engine ? trainer_run(env, e) : -(int)e->code;
    if (rc < 0) {
        program_leave(&w->own.program);
    }
    return rc;
}

static int run_network(struct process *w, struct trainer_env *env, struct err *e)
{
    const struct plan_worker *mine = &w->c->plan.workers[w->rank];
    env->dev = dev_open(mine->device, e);
    if (!env->dev) {
        return -(int)e->code;
    }
    int rc = dev_use_precision(env->dev, w->c->spec->precision, e);
    if (rc < 0) {
        return rc;
    }
    dev_tune(env->dev, mine->tuning);
    tell_ready(w, mine->device);
    rc = trainer_run(env, e);
    if (rc >= 0) {
        dev_close(env->dev);
    }
    return rc;
}

int rank_run(struct process *w, struct err *e)
{
    int rc = open_rank(w, e);
    if (rc < 0) {
        return rc;
    }
    fill_env(w, &w->env);
    if (w->rank >= w->c->spec->workers) {
        return run_keeper(w, &w->env, e);
    }
    return w->c->spec->program.given ? run_program(w, &w->env, e) : run_network(w, &w->env, e);
}
