/* One rank under MPI; see process.h. */
#include "worker/process.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/process/run_as.h"
#include "job/seal.h"
#include "worker/data/files/unpacked.h"
#include "worker/exchange/transport/comm_mpi.h"
#include "worker/exchange/seat.h"
#include "worker/fetch.h"
#include "worker/local.h"
#include "worker/program/files/copy.h"
#include "worker/program/program.h"
#include "worker/program/files/results.h"
#include "worker/pulse/pulse.h"
#include "worker/trainer.h"

/* What a rank says last is tried for so long: where the store is away just then, all that the
 * attempt did since its checkpoint would be made again. The end of one that failed is no loss. */
static const double farewell_seconds = 60, failed_farewell_seconds = 5;

static volatile sig_atomic_t terminated;

static void on_term(int sig)
{
    (void)sig;
    terminated = 1;
}

struct process {
    struct worker_config *c;
    struct trainer_env env;
    struct comm comm;
    struct transport *transport;
    struct telemetry telemetry;
    struct pulse *pulse; /* NULL with --local */
    struct local local;
    struct dataset data;
    bool data_there;
    struct program program; /* of a spec with one */
    struct own_folder copy; /* of an uploaded program */
    struct results results; /* what the program writes */
    int rank;
    bool joined;      /* of a worker that was started again: it takes part */
    struct seat seat; /* of such a one with a program: what the keeper said */
};

static double thread_age(void *ctx)
{
    return comm_mpi_thread_age(ctx);
}

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

static int reach_keeper(struct process *w, struct err *e)
{
    char guard[32];
    struct stat of;
    snprintf(guard, sizeof(guard), "/proc/%d", (int)getppid()); /* it is whom the keeper is, too */
    if (stat(guard, &of) < 0) {
        return err_errno(e, ERR_PEER, "cannot join: the guard is gone");
    }
    return comm_mpi_join(w->transport, of.st_uid, e);
}

/* A program is let in before its engine starts. */
static int join(void *ctx, struct seat *out, struct err *e)
{
    struct process *w = ctx;
    if (w->c->spec->program.given) {
        *out = w->seat;
        return 0;
    }
    int rc = reach_keeper(w, e);
    return rc < 0 ? rc : seat_take(&w->comm, out, e);
}

static void joined(void *ctx)
{
    struct process *w = ctx;
    w->joined = true;
    close(w->c->joining);
}

/* Whoever has it can speak for this rank, so it does not stay in the environment. */
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

static int open_telemetry(struct process *w, const char *node, struct err *e)
{
    struct worker_config *c = w->c;
    int workers = c->spec->workers;
    if (c->mode == WORKER_LOCAL) {
        w->local.rank = w->rank;
        w->local.workers = workers;
        w->local.stop = &terminated;
        w->local.control.version = c->plan.first_version;
        memcpy(w->local.control.sizes, c->plan.first_sizes, sizeof(c->plan.first_sizes));
        local_telemetry(&w->local, &w->telemetry);
        return local_open(&w->local, c->lines, e);
    }
    bool outlives = plan_outlives_worker(&c->plan, c->spec),
         hears = w->rank == workers || (outlives && !jobspec_uses_server(c->spec));
    struct sign_key seal;
    int rc = read_seal(&seal, e);
    if (rc < 0) {
        return rc;
    }
    struct pulse_config pc = {
        .url = c->store_url,
        .password = getenv("EVENSTEP_STORE_PASSWORD"),
        .job = c->job,
        .node = node,
        .seal = &seal,
        .rank = w->rank,
        .first_number = c->seat > 0 ? fact_number_last(c->seat - 1) : 0,
        .attempt = c->attempt,
        .workers = workers,
        .reads_control = w->rank == 0 || hears,
        .reads_each_turn = hears && outlives,
        .first_version = c->plan.first_version,
        .first_sizes = c->plan.first_sizes,
        .comm_age = thread_age,
        .comm_ctx = w->transport,
        .stop = &terminated,
    };
    w->pulse = pulse_start(&pc, e);
    if (!w->pulse) {
        return -ERR_UNAVAILABLE;
    }
    pulse_telemetry(w->pulse, &w->telemetry);
    return 0;
}

static int fetch_samples(struct process *w, struct err *e)
{
    struct worker_config *c = w->c;
    struct fetch f = {&w->comm,      &w->telemetry, &c->spec->data,
                      c->spec->seed, c->plan.roots, {c->cache, c->cache_bytes}};
    unpacked_keep_in(&c->unpacked);
    int rc = c->seat > 0 ? dataset_open(&w->data, &c->spec->data, c->spec->seed, c->plan.roots, e)
                         : fetch_dataset(&f, w->rank < c->spec->workers, &w->data, e);
    w->data_there = rc == 0;
    return rc;
}

/* Of the keeper. A rank 0 that is to take its seat again counts once it has. */
static bool first_is_gone(void *ctx)
{
    const struct process *w = ctx;
    const struct telemetry *t = &w->telemetry;
    int ranks[SPEC_WORKERS], seats[SPEC_WORKERS], n = t->lost ? t->lost(t->ctx, ranks) : 0;
    bool gone = t->seats && t->seats(t->ctx, seats) > 0 && seats[0] > 0 &&
                !comm_mpi_has_joined(w->transport, 0);
    for (int i = 0; i < n; i++) {
        gone |= ranks[i] == 0;
    }
    return gone;
}

/* An uploaded program, into a folder of this rank's own; *folder stays as it is for others. */
static int copy_program(struct process *w, const char **folder, struct err *e)
{
    const struct worker_config *c = w->c;
    const struct copy_ask ask = {.comm = &w->comm,
                                 .telemetry = &w->telemetry,
                                 .digest = c->spec->program.digest,
                                 .archive = c->plan.program_archive,
                                 .received = {c->cache, c->cache_bytes},
                                 .works = w->rank < c->spec->workers,
                                 .alone = c->seat != 0};
    if (!c->spec->program.digest[0]) {
        return 0;
    }
    if (!c->plan.program_archive[0]) {
        return err_set(e, ERR_NOT_FOUND, "a program by its digest needs a service that has it");
    }
    int rc = copy_open(&w->copy, &ask, e);
    *folder = rc == 0 && w->copy.path[0] ? w->copy.path : NULL;
    return rc;
}

/* Nobody waits for a program that starts again, so the keeper is reached once it has started. */
static int return_program(struct process *w, const struct program_ask *ask, struct err *e)
{
    int rc;
    if ((rc = program_return(&w->program, ask, e)) < 0 || (rc = reach_keeper(w, e)) < 0 ||
        (rc = seat_take(&w->comm, &w->seat, e)) < 0 ||
        (rc = program_go_on(&w->program, w->seat.epoch, w->seat.version, e)) < 0) {
        program_leave(&w->program);
    }
    return rc;
}

/* Programs bring samples and network; if the job left the batch to them, the first minibatches
 * follow from theirs. */
static int join_programs(struct process *w, const char *node, struct err *e)
{
    struct worker_config *c = w->c;
    const char *device = w->rank < c->spec->workers ? c->plan.workers[w->rank].device : "cpu:1";
    int threads = strncmp(device, "cpu:", 4) == 0 ? (int)strtol(device + 4, NULL, 10) : 1, rc;
    const char *job_dir = c->plan.job_dir[0] ? c->plan.job_dir : NULL,
               *folder = c->plan.program_folder[0] ? c->plan.program_folder : NULL;
    const struct results_ask results = {
        &w->comm, &w->telemetry,           c->plan.job_dir, c->cache,
        &w->copy, c->mode == WORKER_LOCAL, first_is_gone,   w};
    if ((rc = copy_program(w, &folder, e)) < 0 ||
        (rc = results_open(&w->results, &results, e)) < 0) {
        return rc;
    }
    const struct program_ask ask = {.comm = &w->comm,
                                    .telemetry = &w->telemetry,
                                    .spec = c->spec,
                                    .job = c->job,
                                    .node = node,
                                    .job_dir = job_dir,
                                    .folder = folder,
                                    .data = c->plan.roots,
                                    .output = w->results.folder[0] ? w->results.folder : NULL,
                                    .device = device,
                                    .threads = threads > 0 ? threads : 1,
                                    .attempt = c->attempt,
                                    .seat = c->seat};
    rc = c->seat > 0 ? return_program(w, &ask, e) : program_join(&w->program, &ask, e);
    if (rc < 0 || (rc = config_size_batches(c, e)) < 0) {
        return rc;
    }
    if (c->seat == 0) {
        struct joined joined;
        program_joined(&w->program, c->spec, &joined);
        w->telemetry.joined(w->telemetry.ctx, &joined, c->plan.first_sizes);
    }
    w->data.train.samples = w->program.about.samples;
    snprintf(w->data.digest, sizeof(w->data.digest), "program %016llx",
             (unsigned long long)program_hash(&w->program));
    return 0;
}

static int open_rank(struct process *w, struct err *e)
{
    struct worker_config *c = w->c;
    int workers = c->spec->workers, size = w->transport->ops->size(w->transport);
    w->rank = w->transport->ops->rank(w->transport);
    bool trains = w->rank < workers;
    const char *node = trains               ? c->plan.workers[w->rank].node
                       : w->rank == workers ? "keeper"
                                            : "server";
    char context[128];
    snprintf(context, sizeof(context), "job=%.32s rank=%d", c->job ? c->job : "local", w->rank);
    log_set_context(context);
    int rc = open_telemetry(w, node, e);
    if (rc == 0 && size != workers + c->plan.servers) {
        rc = err_set(e, ERR_INVALID, "mpirun started %d ranks, %d workers and %d servers need %d",
                     size, workers, c->plan.servers, workers + c->plan.servers);
    }
    if (rc == 0) {
        rc = comm_init(&w->comm, w->transport, workers, c->plan.servers, e);
    }
    if (rc == 0 && strcmp(c->spec->allreduce, "mpi") == 0) {
        w->comm.native = true;
        rc = comm_mpi_use_native(w->transport, workers, e);
    }
    if (rc == 0) {
        w->telemetry.phase(w->telemetry.ctx, PHASE_LOAD);
        rc = c->spec->program.given ? join_programs(w, node, e) : fetch_samples(w, e);
    }
    return rc;
}

static void set_calls(struct process *w)
{
    struct trainer_env *env = &w->env;
    env->step_begin = step_begin;
    env->calibrated = calibrated;
    env->join = w->c->seat > 0 ? join : NULL;
    env->joined = joined;
    env->step_ctx = w;
}

static int run_rank(struct process *w, struct err *e)
{
    struct worker_config *c = w->c;
    struct trainer_env *env = &w->env;
    int rc = open_rank(w, e);
    if (rc < 0) {
        return rc;
    }
    env->spec = c->spec;
    env->data = &w->data;
    env->comm = &w->comm;
    env->telemetry = &w->telemetry;
    memcpy(env->first_sizes, c->plan.first_sizes, sizeof(env->first_sizes));
    memcpy(env->speeds, c->plan.speeds, sizeof(env->speeds));
    env->first_version = c->plan.first_version;
    env->job_dir = c->plan.job_dir[0] ? c->plan.job_dir : NULL;
    env->init_path = c->plan.init_path[0] ? c->plan.init_path : NULL;
    env->order = c->order;
    env->ahead = w->program.ahead;
    env->keeps_own = c->spec->program.given;
    env->outlives_worker = c->mode == WORKER_JOB && plan_outlives_worker(&c->plan, c->spec);
    env->takes_back = env->outlives_worker && plan_takes_back(&c->plan, c->spec);
    set_calls(w);
    env->first_params = w->program.params;
    env->first_stats = w->program.stats;
    if (w->rank >= c->spec->workers) {
        rc = keeper_run(env, e);
        program_leave(&w->program);
        return rc;
    }
    if (c->spec->program.given) {
        log_info("worker", "ready", "node=%s device=program slowdown=%g",
                 c->plan.workers[w->rank].node, c->plan.workers[w->rank].slowdown);
        env->engine = program_engine(&w->program, env, e);
        rc = env->engine ? trainer_run(env, e) : -(int)e->code;
        if (rc < 0) {
            program_leave(&w->program);
        }
        return rc;
    }
    env->dev = dev_open(c->plan.workers[w->rank].device, e);
    if (!env->dev) {
        return -(int)e->code;
    }
    rc = dev_use_precision(env->dev, c->spec->precision, e);
    if (rc < 0) {
        return rc;
    }
    dev_tune(env->dev, c->plan.workers[w->rank].tuning);
    log_info("worker", "ready", "node=%s device=%s slowdown=%g", c->plan.workers[w->rank].node,
             c->plan.workers[w->rank].device, c->plan.workers[w->rank].slowdown);
    rc = trainer_run(env, e);
    if (rc >= 0) {
        dev_close(env->dev);
    }
    return rc;
}

/* When all went well, only the keeper reports the outcome, after its last file is written. */
static void say_goodbye(struct process *w, int rc, const struct err *e)
{
    static const enum outcome outcomes[] = {[RUN_ENDED] = OUTCOME_FINISHED,
                                            [RUN_PAUSED] = OUTCOME_PAUSED,
                                            [RUN_STOPPED] = OUTCOME_STOPPED};
    char quoted[700], hint[400];
    if (rc < 0) {
        log_error("worker", "failed", "code=%s why=%s%s%s", err_name(e->code),
                  log_quote(quoted, sizeof(quoted), e->message), e->hint[0] ? " hint=" : "",
                  e->hint[0] ? log_quote(hint, sizeof(hint), e->hint) : "");
    }
    bool stays_out = w->c->seat > 0 && !w->joined; /* its guard tells, and the others go on */
    if (w->pulse && !stays_out && (rc < 0 || w->rank == w->c->spec->workers)) {
        pulse_ended(w->pulse, rc < 0 ? OUTCOME_FAILED : outcomes[rc], rc < 0 ? e : NULL);
    }
    pulse_stop(w->pulse, rc < 0 ? failed_farewell_seconds : farewell_seconds);
}

/* A worker that the service starts on its own host becomes the user of --run-as once MPI, which
 * compares users, has connected the ranks. From here on it is as on another host: what it keeps is
 * in a folder of its user, and the keeper gets what it leaves. The keeper stays who it is. */
static int become_user(struct worker_config *c, struct err *e)
{
    const char *name = getenv(RUN_AS_VARIABLE), *rank = getenv("OMPI_COMM_WORLD_RANK"),
               *cache = getenv(RUN_AS_CACHE);
    struct run_as *as = calloc(1, sizeof(*as));
    int rc = as ? 0 : err_set(e, ERR_MEMORY, "cannot change the user: memory ran out");
    bool works = rank && strtol(rank, NULL, 10) < c->plan.n_workers;
    if (rc == 0 && name && cache && works && (rc = run_as_find(as, name, e)) == 0) {
        rc = run_as_become(as) == 0
                 ? 0
                 : err_errno(e, ERR_FORBIDDEN, "this rank cannot run as '%s'", name);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of user has cleared it */
        setenv("HOME", as->home, 1);
        setenv("USER", as->name, 1);
        setenv("LOGNAME", as->name, 1);
        c->cache = cache;
        c->cache_bytes = WORKER_UNPACKED_BYTES;
        c->unpacked = (struct received){c->cache, c->cache_bytes};
    }
    free(as);
    return rc;
}

/* Of the keeper: has a worker died, without which the attempt went on? */
static bool has_lost(const struct process *w)
{
    int ranks[SPEC_WORKERS];
    const struct telemetry *t = &w->telemetry;
    return w->rank == w->c->spec->workers && t->lost &&
           (t->lost(t->ctx, ranks) > 0 || t->seats(t->ctx, ranks) > 0);
}

/* A worker that is started again is no rank of MPI's: its first process was. */
static struct transport *open_transport(struct worker_config *c, struct err *e)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    struct transport *t =
        c->seat > 0 ? comm_mpi_open_seat(rank ? (int)strtol(rank, NULL, 10) : 0, c->seat,
                                         c->spec->workers, c->spec->workers + c->plan.servers, e)
                    : comm_mpi_open(e);
    if (t && c->mode == WORKER_JOB && plan_takes_back(&c->plan, c->spec)) {
        struct run_as as = {0};
        const char *name = getenv(RUN_AS_VARIABLE);
        char attempt[64];
        bool other = name && run_as_find(&as, name, NULL) == 0;
        snprintf(attempt, sizeof(attempt), "evenstep/%.32s/%d", c->job, c->attempt);
        comm_mpi_name_doors(t, attempt, other ? as.uid : geteuid());
    }
    return t;
}

static int begin_mpi(const struct worker_config *c, struct err *e)
{
    int provided = 0;
    if (c->seat > 0) {
        return 0;
    }
    comm_mpi_prepare();
    if (c->mode == WORKER_JOB && plan_outlives_worker(&c->plan, c->spec)) {
        comm_mpi_end_alone();
    }
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS &&
                   provided >= MPI_THREAD_MULTIPLE
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "this MPI does not offer MPI_THREAD_MULTIPLE");
}

int process_run(struct worker_config *c, struct err *e)
{
    struct process *w = calloc(1, sizeof(*w));
    if (!w) {
        return err_set(e, ERR_MEMORY, "cannot start a rank: memory ran out");
    }
    w->c = c;
    if (begin_mpi(c, e) < 0) {
        free(w);
        return -(int)e->code;
    }
    struct sigaction term = {.sa_handler = on_term};
    sigaction(SIGTERM, &term, NULL);
    w->copy.lock = -1;
    int rc = become_user(c, e);
    w->transport = rc == 0 ? open_transport(c, e) : NULL;
    rc = w->transport ? run_rank(w, e) : -(int)e->code;
    if (rc >= 0 && results_bring(&w->results, e) < 0) {
        rc = -(int)e->code;
    }
    own_folder_remove(&w->copy);
    results_close(&w->results);
    if (has_lost(w)) {
        comm_abandon(&w->comm); /* what goes to a lost worker never ends */
    }
    say_goodbye(w, rc, e);
    if (rc < 0 && c->seat > 0) {
        return rc; /* its guard tells how it ended */
    }
    if (rc < 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    comm_release(&w->comm);
    comm_mpi_close(w->transport);
    if (w->data_there) {
        dataset_release(&w->data);
    }
    if (c->seat == 0) {
        MPI_Finalize();
    }
    free(w);
    return 0;
}
