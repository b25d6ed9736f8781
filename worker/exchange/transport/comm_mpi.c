/* Transport over Open MPI: see comm_mpi.h. One thread per process (comm_thread.c) makes every call
 * of MPI but start and stop.
 *
 * Over TCP, Open MPI sends a message of at most btl_tcp_eager_limit bytes without asking the
 * receiver first. It copies at most btl_tcp_endpoint_cache bytes of a message once more: those that
 * came with the read of its header. */
#include "worker/exchange/transport/comm_mpi.h"

#include <limits.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "worker/exchange/transport/comm_mpi_parts.h"
#include "worker/exchange/transport/mpi_deaths.h"

/* A door opens within milliseconds of the loss, so this is ample. */
static const double KEEPER_SECONDS = 20;

/* ---- workers that join ----------------------------------------------------------------------- */

void comm_mpi_name_doors(struct transport *t, const char *attempt, unsigned user)
{
    seat_links_name(&((struct comm_mpi *)t)->seats, attempt, user);
}

void comm_mpi_spread_doors(struct transport *t, const struct seat_far *far)
{
    ((struct comm_mpi *)t)->seats.far = *far;
}

void comm_mpi_lend_key(struct transport *t, const struct sign_key *among)
{
    ((struct comm_mpi *)t)->seats.far.among = *among;
}

void comm_mpi_name_host(struct transport *t, int rank, const char *host)
{
    snprintf(((struct comm_mpi *)t)->hosts[rank], sizeof *((struct comm_mpi *)t)->hosts, "%s",
             host);
}

bool comm_mpi_has_joined(const struct transport *t, int rank)
{
    return seat_links_has(&((const struct comm_mpi *)t)->seats, rank);
}

static int mpi_admit(struct transport *t, const int *seats, int workers)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    int rank = seat_links_admit(&m->seats, seats, workers);
    if (rank >= 0) {
        comm_thread_poll(&m->thread);
    }
    return rank;
}

static void mpi_open_door(struct transport *t)
{
    seat_links_open_door(&((struct comm_mpi *)t)->seats);
}

/* All workers of an attempt belong to one user. */
static int mpi_reach(struct transport *t, int rank, double seconds, struct err *e)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    const struct seat_knock k = {rank, geteuid(), m->seat, seconds};
    return seat_links_reach(&m->seats, &k, e);
}

int comm_mpi_join(struct transport *t, unsigned user, struct err *e)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    const struct seat_knock k = {m->keeper, user, m->seat, KEEPER_SECONDS};
    return seat_links_reach(&m->seats, &k, e);
}

/* ---- the thread's ---------------------------------------------------------------------------- */

static void mpi_start(struct transport *t, struct comm_op *op)
{
    comm_thread_submit(&((struct comm_mpi *)t)->thread, op);
}

static int mpi_wait(struct transport *t, struct comm_op *op, int parts, double deadline)
{
    return comm_thread_wait(&((struct comm_mpi *)t)->thread, op, parts, deadline);
}

static void mpi_abandon(struct transport *t)
{
    comm_thread_abandon(&((struct comm_mpi *)t)->thread);
}

/* ---- time ------------------------------------------------------------------------------------ */

static double mpi_now(struct transport *t)
{
    (void)t;
    return clock_now();
}

static void mpi_pace(struct transport *t, double share, int count)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    double whole = m->slow_fixed + m->slow_per_sample * count;
    if (whole > 0 && count > 0) {
        clock_sleep_until(m->step_start + share * whole);
    }
}

void comm_mpi_set_slowdown(struct transport *t, double fixed_seconds, double seconds_per_sample)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    m->slow_fixed = fixed_seconds;
    m->slow_per_sample = seconds_per_sample;
}

void comm_mpi_step_begin(struct transport *t)
{
    ((struct comm_mpi *)t)->step_start = clock_now();
}

double comm_mpi_thread_age(struct transport *t)
{
    return comm_thread_age(&((struct comm_mpi *)t)->thread);
}

bool comm_mpi_thread_hangs(struct transport *t)
{
    return comm_thread_hangs(&((struct comm_mpi *)t)->thread);
}

/* ---- the library's own ----------------------------------------------------------------------- */

static int mpi_rank(struct transport *t)
{
    return ((struct comm_mpi *)t)->rank;
}

static int mpi_size(struct transport *t)
{
    return ((struct comm_mpi *)t)->size;
}

static const char *mpi_host(struct transport *t, int rank)
{
    return ((struct comm_mpi *)t)->hosts[rank];
}

static int mpi_native_sum(struct transport *t, float *data, size_t n, struct transport_req *r)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    MPI_Request req;
    memset(r, 0, sizeof *r);
    if (m->workers == MPI_COMM_NULL || n > INT_MAX ||
        MPI_Iallreduce(MPI_IN_PLACE, data, (int)n, MPI_FLOAT, MPI_SUM, m->workers, &req) !=
            MPI_SUCCESS) {
        return -ERR_PEER;
    }
    memcpy(r->impl, &req, sizeof req);
    comm_thread_expect(&m->thread, 2 * n * sizeof *data);
    return 0;
}

/* Open MPI promises this for messages, but not for sums that do not block
 * (docs/decisions/0004-device-pointers.md). */
static bool mpi_device_memory(struct transport *t)
{
    (void)t;
#ifdef OMPI_HAVE_MPI_EXT_CUDA
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}

static const struct transport_ops mpi_ops = {
    .rank = mpi_rank,
    .size = mpi_size,
    .host = mpi_host,
    .send = comm_mpi_send,
    .recv = comm_mpi_recv,
    .test = comm_mpi_test,
    .cancel = comm_mpi_cancel,
    .forget = comm_mpi_forget,
    .now = mpi_now,
    .start = mpi_start,
    .wait = mpi_wait,
    .abandon = mpi_abandon,
    .pace = mpi_pace,
    .device_memory = mpi_device_memory,
    .native_sum = mpi_native_sum,
    .admit = mpi_admit,
    .open_door = mpi_open_door,
    .reach = mpi_reach,
};

int comm_mpi_use_native(struct transport *t, int workers, struct err *e)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    if (MPI_Comm_split(MPI_COMM_WORLD, m->rank < workers ? 0 : MPI_UNDEFINED, m->rank,
                       &m->workers) != MPI_SUCCESS) {
        return err_set(e, ERR_PEER, "cannot prepare MPI's own all-reduce: MPI_Comm_split failed");
    }
    if (m->workers != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(m->workers, MPI_ERRORS_RETURN);
    }
    return 0;
}

void comm_mpi_prepare(void)
{
    setenv("OMPI_MCA_pml_ob1_send_pipeline_depth", "32", 0);
    setenv("OMPI_MCA_btl_vader_max_send_size", "262144", 0);
    setenv("OMPI_MCA_btl_tcp_eager_limit", "131072", 0);
    setenv("OMPI_MCA_btl_tcp_endpoint_cache", "4096", 0);
}

void comm_mpi_end_alone(void)
{
    mpi_deaths_outlive();
    setenv("OMPI_MCA_async_mpi_finalize", "1", 0);
}

/* The name of the mpirun daemon that started this rank, "JOB.NUMBER"; "" where there is none. */
static void daemon_name(char *out, size_t size)
{
    const char *uri = getenv("OMPI_MCA_orte_local_daemon_uri");
    snprintf(out, size, "%.*s", uri ? (int)strcspn(uri, ";") : 0, uri ? uri : "");
}

/* Ranks of one daemon share memory and are on one host; two agents on one machine count as two
 * hosts. MPI_Comm_split_type() does not serve here: with an agent on the coordinator's own machine
 * two daemons have the same machine name, ranks disagree about it, and the call hangs. */
static int learn_hosts(struct comm_mpi *m, struct err *e)
{
    char processor[MPI_MAX_PROCESSOR_NAME] = "", daemon[24], name[64];
    int n = 0, ranks = 0;
    m->hosts = calloc((size_t)m->size, sizeof *m->hosts);
    if (!m->hosts) {
        return err_set(e, ERR_MEMORY, "cannot hold the names of %d hosts: memory ran out", m->size);
    }
    MPI_Get_processor_name(processor, &n);
    daemon_name(daemon, sizeof daemon);
    memset(name, 0, sizeof name);
    snprintf(name, sizeof name, "%.38s/%s", processor, daemon);
    if (MPI_Allgather(name, 64, MPI_CHAR, m->hosts, 64, MPI_CHAR, m->comm) != MPI_SUCCESS) {
        return err_set(e, ERR_PEER, "cannot learn the names of the ranks' hosts");
    }
    for (int r = 0; r < m->size; r++) {
        ranks += strcmp(m->hosts[r], name) == 0;
    }
    m->alone = ranks == 1;
    return 0;
}

static struct comm_mpi *new_transport(struct err *e)
{
    struct comm_mpi *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, ERR_MEMORY, "cannot start the exchange: memory ran out");
        return NULL;
    }
    m->base.ops = &mpi_ops;
    m->comm = m->workers = MPI_COMM_NULL;
    return m;
}

static void free_transport(struct comm_mpi *m)
{
    seat_links_release(&m->seats);
    mpi_expected_release(&m->expected);
    free(m->hosts);
    free(m);
}

struct transport *comm_mpi_open(struct err *e)
{
    struct comm_mpi *m = new_transport(e);
    if (!m) {
        return NULL;
    }
    if (MPI_Comm_dup(MPI_COMM_WORLD, &m->comm) != MPI_SUCCESS) {
        err_set(e, ERR_PEER, "cannot start the exchange: MPI_Comm_dup failed");
        free_transport(m);
        return NULL;
    }
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->comm, &m->rank);
    MPI_Comm_size(m->comm, &m->size);
    if (learn_hosts(m, e) < 0 || seat_links_init(&m->seats, m->rank, m->size, e) < 0 ||
        comm_thread_start(&m->thread, &m->base, m->rank, m->alone, e) < 0) {
        free_transport(m);
        return NULL;
    }
    return &m->base;
}

struct transport *comm_mpi_open_seat(int rank, int seat, int workers, int size, struct err *e)
{
    struct comm_mpi *m = new_transport(e);
    if (!m) {
        return NULL;
    }
    m->rank = rank;
    m->seat = seat;
    m->keeper = workers;
    m->size = size;
    m->hosts = calloc((size_t)size, sizeof *m->hosts); /* empty names: all are on one host */
    if (!m->hosts || seat_links_init(&m->seats, m->rank, m->size, e) < 0 ||
        comm_thread_start(&m->thread, &m->base, rank, false, e) < 0) {
        free_transport(m);
        return NULL;
    }
    return &m->base;
}

void comm_mpi_close(struct transport *t)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    if (!m) {
        return;
    }
    comm_thread_stop(&m->thread);
    if (m->workers != MPI_COMM_NULL) {
        MPI_Comm_free(&m->workers);
    }
    if (has_mpi(m)) {
        MPI_Comm_free(&m->comm);
    }
    free_transport(m);
}
