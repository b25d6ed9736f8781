/* Our side of bench-overlap (tests/bench/bench_overlap.py): the worker's own trainer and strategies
 * on a job without a store, in which a step's computing takes exactly the time that it is told. It
 * prints what `evenstep-worker --local` prints (worker/local.h), and before it, on rank 0,
 *
 *   first,SHARE        how much of a step's work is done when the first gradients can leave
 *   alone,SECONDS      the median of a few all-reduces of the job's parameters with nothing beside
 * them cpu,SECONDS        of this rank's core that one of them takes
 *
 *   mpirun -np W+1 bench_overlap SECONDS --local SPEC      SECONDS of a step's computing at least,
 * spread over it as its work is; 0: no sleeps
 *
 * The kernels run as they always do, and what is left of a step's time is slept, bucket by bucket
 * as the device says that its work is done. So ranks that outnumber the cores still overlap as
 * ranks on hosts of their own do, as long as their kernels need only a part of SECONDS. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "worker/config.h"
#include "worker/exchange/transport/allreduce.h"
#include "worker/exchange/transport/comm_mpi.h"
#include "worker/fetch.h"
#include "worker/local.h"
#include "worker/model/model.h"
#include "worker/training/trainer.h"

enum { ALONE = 7, GROUND = 2 };

static struct {
    struct worker_config config;
    struct trainer_env env;
    struct comm comm;
    struct transport *transport;
    struct telemetry telemetry;
    struct local local;
    struct dataset data;
    double seconds;
} bench;
static const volatile sig_atomic_t never;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* No thread but the exchange's does anything meanwhile. */
static int measure_alone(struct err *e)
{
    size_t n = bench.config.spec->network.n_params;
    float *data = calloc(n, sizeof(float));
    double seconds[ALONE], cpu = 0;
    struct allreduce a;
    int rc = data ? 0 : err_set(e, ERR_MEMORY, "memory ran out");
    allreduce_init(&a, &bench.comm, COMM_ALL, n);
    for (int i = -GROUND; i < ALONE && rc >= 0; i++) { /* the first ones open connections */
        cpu = i == 0 ? clock_process_cpu() : cpu;
        double begin = clock_now();
        allreduce_start(&a, data, n, 0);
        rc = comm_wait(&bench.comm, &a.op, e);
        seconds[i < 0 ? 0 : i] = clock_now() - begin;
    }
    cpu = (clock_process_cpu() - cpu) / ALONE;
    allreduce_release(&a);
    free(data);
    qsort(seconds, ALONE, sizeof *seconds, by_size);
    if (rc >= 0 && bench.comm.rank == 0) {
        printf("alone,%.9f\ncpu,%.9f\n", seconds[ALONE / 2], cpu);
        fflush(stdout);
    }
    return rc;
}

static int tell_first_bucket(struct err *e)
{
    struct model m;
    int rc = model_init(&m, bench.env.dev, bench.config.spec, false, e);
    struct dev_program *p =
        rc < 0 ? NULL : model_program(&m, bench.config.plan.first_sizes[bench.comm.rank], e);
    if (p) {
        printf("first,%.6f\n", ((struct dev_program_head *)p)->buckets[0].work_done);
        model_release(&m);
    }
    return p ? 0 : -ERR_DEVICE;
}

static void step_begin(void *ctx)
{
    (void)ctx;
    comm_mpi_step_begin(bench.transport);
}

static void calibrated(void *ctx, struct profile *p)
{
    (void)ctx;
    (void)p;
    comm_mpi_set_slowdown(bench.transport, bench.seconds, 0);
}

static int prepare(struct err *e)
{
    struct worker_config *c = &bench.config;
    struct trainer_env *env = &bench.env;
    int workers = c->spec->workers, rank = bench.transport->ops->rank(bench.transport);
    int rc = comm_init(&bench.comm, bench.transport, workers, c->plan.servers, e);
    if (rc >= 0 && strcmp(c->spec->allreduce, "mpi") == 0) {
        bench.comm.native = true;
        rc = comm_mpi_use_native(bench.transport, workers, e);
    }
    bench.local = (struct local){.rank = rank,
                                 .workers = workers,
                                 .stop = &never,
                                 .control = {.version = c->plan.first_version}};
    memcpy(bench.local.control.sizes, c->plan.first_sizes, sizeof c->plan.first_sizes);
    local_telemetry(&bench.local, &bench.telemetry);
    if (rc < 0 || (rc = local_open(&bench.local, c->lines, e)) < 0) {
        return rc;
    }
    *env = (struct trainer_env){.spec = c->spec,
                                .data = &bench.data,
                                .comm = &bench.comm,
                                .telemetry = &bench.telemetry,
                                .first_version = c->plan.first_version,
                                .step_begin = step_begin,
                                .calibrated = calibrated};
    memcpy(env->first_sizes, c->plan.first_sizes, sizeof env->first_sizes);
    memcpy(env->speeds, c->plan.speeds, sizeof env->speeds);
    struct fetch f = {&bench.comm,   &bench.telemetry, &c->spec->data,
                      c->spec->seed, c->plan.roots,    {NULL, 0},
                      NULL};
    if ((rc = fetch_dataset(&f, rank < workers, &bench.data, e)) < 0 || rank >= workers) {
        return rc;
    }
    if (!(env->dev = dev_open(c->plan.workers[rank].device, e))) {
        return -(int)e->code;
    }
    if (rank == 0 && (rc = tell_first_bucket(e)) < 0) {
        return rc;
    }
    return measure_alone(e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    int provided = 0;
    if (argc < 4) {
        fprintf(stderr, "usage: bench_overlap SECONDS --local SPEC\n");
        return 2;
    }
    bench.seconds = strtod(argv[1], NULL);
    comm_mpi_prepare();
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    bench.transport = comm_mpi_open(&e);
    int rc = bench.transport ? config_parse(&bench.config, argc - 2, argv + 2, &e) : -(int)e.code;
    if (rc >= 0 && (rc = config_make_local(&bench.config, &e)) >= 0 && (rc = prepare(&e)) >= 0) {
        rc = bench.comm.rank < bench.comm.workers ? trainer_run(&bench.env, &e)
                                                  : keeper_run(&bench.env, &e);
    }
    if (rc < 0) {
        fprintf(stderr, "bench_overlap: %s\n", e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    comm_release(&bench.comm);
    comm_mpi_close(bench.transport);
    MPI_Finalize();
    return 0;
}
