/* Transport over Open MPI: see comm_mpi.h.
 *
 * One thread per process, the communication thread, makes every MPI call but start and stop.
 * Operations come to it through a queue under a lock; it steps each until it is done, spins for a
 * short while after every message (the next round of a ring is near), then sleeps 20 to 200
 * microseconds between polls, 1,000 in a long wait, so that a wait costs the computing threads
 * nothing (a blocking MPI call would take half of a core; SEMANTICS.md 12). Waiters sleep on a
 * condition.
 *
 * What a newcomer would get wrong: a large message moves only while MPI is called, by default three
 * fragments of 32 KB a call where the kernel does not let one rank read another's memory. So larger
 * fragments and more of them are asked for (comm_mpi_prepare), and the thread yields instead of
 * sleeping for about as long as memory needs for what was posted last: a push and a pull of 6.6 MB
 * each took 49 ms without either. Yielding for longer would be as fast, but takes the core from
 * ranks that compute where there are more of them.
 *
 * A rank that is alone on its host neither sleeps nor yields between polls: it waits for Open MPI's
 * sockets (mpi_sockets.h). A timer's end and a poll cost it 18 us of its core each time, most of it
 * in the kernel. Over TCP a message up to btl_tcp_eager_limit goes without being asked for, and of
 * what a read finds beyond a message's header no more than btl_tcp_endpoint_cache is copied once
 * more. */
#include "worker/exchange/transport/comm_mpi.h"

#include <limits.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "worker/exchange/transport/mpi_sockets.h"

enum {
    SPIN_US = 30,
    SLEEP_MIN_US = 20,
    SLEEP_MAX_US = 200,
    SLEEP_LONG_US = 1000,
    CHUNK_BYTES = 1 << 30,
    LARGE_BYTES = 1 << 16
};
enum {
    VAIN = 1000
}; /* so often sockets may have something and no message comes of it, before the thread sleeps in
      between */
static const double DOZE_SECONDS = 0.05;
static const double SECONDS_PER_BYTE =
    3e-10; /* of a transfer in pieces: how long it is worth yielding instead of sleeping */

struct comm_mpi {
    struct transport base;
    MPI_Comm comm, workers; /* workers: for sums of the library's own, or MPI_COMM_NULL */
    int rank, size;
    char (*hosts)[64];
    pthread_t thread;
    pthread_mutex_t lock;   /* guards queue, stopping, abandoned, gone */
    pthread_cond_t arrived; /* the queue is no longer empty, or stopping, or abandoned */
    pthread_cond_t ended;   /* an operation ended, or a part of one came, or the thread ended */
    struct comm_op *queue;  /* not yet seen by the thread */
    bool stopping, abandoned, gone;
    _Atomic double turn; /* when the thread last went round */
    bool moved;          /* a message came through since the thread last looked; its own */
    struct mpi_sockets sockets;
    bool apart, dozing; /* apart: no other rank is on this host. dozing: it waits for sockets;
                           guarded by lock */
    int vain;           /* waits in a row that ended with a socket and brought no message */
    double
        hot_until; /* large messages that were posted may be moving until then; the thread's own */
    double slow_fixed, slow_per_sample, step_start;
};

static void expect_bytes(struct comm_mpi *m, size_t bytes)
{
    double now = clock_now();
    if (bytes >= LARGE_BYTES) {
        m->hot_until = (m->hot_until > now ? m->hot_until : now) + SECONDS_PER_BYTE * (double)bytes;
    }
}

static int mpi_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                    struct transport_req *r)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    MPI_Request req;
    memset(r, 0, sizeof *r);
    if (bytes > CHUNK_BYTES ||
        MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, m->comm, &req) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    memcpy(r->impl, &req, sizeof req);
    expect_bytes(m, bytes);
    return 0;
}

static int mpi_recv(struct transport *t, int from, int tag, void *data, size_t bytes,
                    struct transport_req *r)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    MPI_Request req;
    memset(r, 0, sizeof *r);
    if (bytes > CHUNK_BYTES ||
        MPI_Irecv(data, (int)bytes, MPI_BYTE, from == TRANSPORT_ANY ? MPI_ANY_SOURCE : from, tag,
                  m->comm, &req) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    memcpy(r->impl, &req, sizeof req);
    r->at = data;
    expect_bytes(m, bytes);
    return 0;
}

static int mpi_test(struct transport *t, struct transport_req *r)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    MPI_Request req;
    MPI_Status status;
    int done = 0, count = 0;
    memcpy(&req, r->impl, sizeof req);
    if (req == MPI_REQUEST_NULL) {
        return 1; /* tested done before */
    }
    if (MPI_Test(&req, &done, &status) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    memcpy(r->impl, &req, sizeof req);
    if (done) {
        m->moved = true;
        MPI_Get_count(&status, MPI_BYTE, &count);
        r->from = status.MPI_SOURCE;
        r->bytes = count > 0 ? (size_t)count : 0;
    }
    return done ? 1 : 0;
}

static int mpi_cancel(struct transport *t, struct transport_req *r)
{
    MPI_Request req;
    (void)t;
    memcpy(&req, r->impl, sizeof req);
    if (req != MPI_REQUEST_NULL) {
        MPI_Cancel(&req);
        MPI_Request_free(&req);
        memcpy(r->impl, &req, sizeof req);
    }
    return 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void end_op(struct comm_mpi *m, struct comm_op *op, int rc)
{
    op->finished = clock_now();
    pthread_mutex_lock(&m->lock);
    atomic_store_explicit(&op->state, rc, memory_order_release);
    pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&m->lock);
}

/* Nobody is woken for a part who waits for more. */
static void tell_parts(struct comm_mpi *m, const struct comm_op *op, int told)
{
    if (op->parts != told) {
        pthread_mutex_lock(&m->lock);
        if (op->parts >= op->wanted) {
            pthread_cond_broadcast(&m->ended);
        }
        pthread_mutex_unlock(&m->lock);
    }
}

/* Takes what was queued; with nothing under way it waits for more. False: stop, whatever is under
 * way if it was abandoned. */
static bool take_queue(struct comm_mpi *m, struct comm_op **running)
{
    pthread_mutex_lock(&m->lock);
    while (!*running && !m->queue && !m->stopping && !m->abandoned) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1; /* shows that it lives */
        pthread_cond_timedwait(&m->arrived, &m->lock, &until);
        m->turn = clock_now();
    }
    bool stop = m->stopping && !m->queue, abandoned = m->abandoned;
    struct comm_op **at = running;
    while (*at) {
        at = &(*at)->next;
    }
    *at = m->queue;
    m->queue = NULL;
    pthread_mutex_unlock(&m->lock);
    return !abandoned && !(stop && !*running);
}

/* Up to 200 microseconds; in a long wait up to a hundredth of it, which nobody notices: with 200 a
 * rank that waits for a slow node takes 5 % of a core, with 1000 it takes 2 %. */
static int next_sleep(int sleep_us, double waited)
{
    double most = 1e4 * waited;
    most = most < SLEEP_MAX_US ? SLEEP_MAX_US : most > SLEEP_LONG_US ? SLEEP_LONG_US : most;
    return sleep_us * 3 / 2 < most ? sleep_us * 3 / 2 : (int)most;
}

static void ring_bell(struct comm_mpi *m) /* under the lock */
{
    if (m->dozing) {
        mpi_sockets_ring(&m->sockets);
    }
}

/* Waits for sockets, or for something to be queued. */
static void doze(struct comm_mpi *m)
{
    pthread_mutex_lock(&m->lock);
    m->dozing = !m->queue && !m->stopping && !m->abandoned;
    bool waits = m->dozing;
    pthread_mutex_unlock(&m->lock);
    if (!waits) {
        return;
    }
    m->vain = mpi_sockets_wait(&m->sockets, DOZE_SECONDS) == MPI_WOKEN_SOCKET ? m->vain + 1 : 0;
    pthread_mutex_lock(&m->lock);
    m->dozing = false;
    pthread_mutex_unlock(&m->lock);
}

static void *communicate(void *arg)
{
    struct comm_mpi *m = arg;
    struct comm_op *running = NULL;
    double idle_since = clock_now();
    int sleep_us = SLEEP_MIN_US;
    pthread_setname_np(pthread_self(), "exchange");
    while (take_queue(m, &running)) {
        for (struct comm_op **at = &running; *at;) {
            struct comm_op *op = *at, *next = op->next;
            int parts = op->parts, rc = op->step(op, &m->base);
            if (rc != 0) {
                *at = next;
                end_op(m, op, rc); /* from here on it is its owner's again */
                m->moved = true;
            } else {
                tell_parts(m, op, parts);
                at = &op->next;
            }
        }
        double now = clock_now();
        m->turn = now;
        if (m->moved) {
            m->moved = false;
            m->vain = 0;
            mpi_sockets_moved(&m->sockets);
            idle_since = now;
            sleep_us = SLEEP_MIN_US;
        } else if (running && m->apart && m->vain < VAIN && mpi_sockets_usable(&m->sockets)) {
            doze(m);
        } else if (running && now < m->hot_until) {
            sched_yield();
        } else if (running && now - idle_since > 1e-6 * SPIN_US) {
            clock_sleep(1e-6 * sleep_us);
            sleep_us = next_sleep(sleep_us, now - idle_since);
        }
    }
    pthread_mutex_lock(&m->lock);
    m->gone = true;
    pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static void mpi_abandon(struct transport *t)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    pthread_mutex_lock(&m->lock);
    m->abandoned = true;
    pthread_cond_signal(&m->arrived);
    ring_bell(m);
    while (!m->gone) {
        pthread_cond_wait(&m->ended, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
}

static void mpi_start(struct transport *t, struct comm_op *op)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    op->next = NULL;
    op->wanted = INT_MAX;
    op->started = clock_now();
    atomic_store(&op->state, 0);
    pthread_mutex_lock(&m->lock);
    struct comm_op **at = &m->queue;
    while (*at && !m->abandoned) {
        at = &(*at)->next;
    }
    if (m->abandoned) {
        atomic_store(&op->state,
                     err_set(&op->err, ERR_PEER, "rank %d exchanges nothing more, since it failed",
                             m->rank));
    } else {
        *at = op;
    }
    pthread_cond_signal(&m->arrived);
    ring_bell(m);
    pthread_mutex_unlock(&m->lock);
}

/* 0: it goes on. Under the lock. */
static int outcome(const struct comm_mpi *m, const struct comm_op *op, int parts)
{
    int state = atomic_load_explicit(&op->state, memory_order_acquire);
    return state != 0     ? state
           : m->abandoned ? -ERR_PEER
                          : atomic_load_explicit(&op->parts, memory_order_acquire) >= parts;
}

static int mpi_wait(struct transport *t, struct comm_op *op, int parts, double deadline)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    struct timespec until = {.tv_sec = (time_t)deadline};
    until.tv_nsec = (long)((deadline - (double)until.tv_sec) * 1e9);
    bool late = false;
    int rc;
    pthread_mutex_lock(&m->lock);
    op->wanted = parts;
    while ((rc = outcome(m, op, parts)) == 0 && !late) {
        if (deadline <= 0) {
            pthread_cond_wait(&m->ended, &m->lock);
        } else {
            late =
                pthread_cond_timedwait(&m->ended, &m->lock, &until) != 0 && clock_now() >= deadline;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
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
    return clock_now() - ((struct comm_mpi *)t)->turn;
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
    expect_bytes(m, 2 * n * sizeof *data);
    return 0;
}

/* Of messages: Open MPI promises it for them, and not for sums that do not block
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
    .send = mpi_send,
    .recv = mpi_recv,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .now = mpi_now,
    .start = mpi_start,
    .wait = mpi_wait,
    .abandon = mpi_abandon,
    .pace = mpi_pace,
    .device_memory = mpi_device_memory,
    .native_sum = mpi_native_sum,
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

static int init_threads(struct comm_mpi *m)
{
    m->apart = m->apart && mpi_sockets_open(&m->sockets);
    pthread_condattr_t attr;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->arrived, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* deadlines are of clock_now() */
    pthread_cond_init(&m->ended, &attr);
    pthread_condattr_destroy(&attr);
    return pthread_create(&m->thread, NULL, communicate, m);
}

void comm_mpi_prepare(void)
{
    setenv("OMPI_MCA_pml_ob1_send_pipeline_depth", "32", 0);
    setenv("OMPI_MCA_btl_vader_max_send_size", "262144", 0);
    setenv("OMPI_MCA_btl_tcp_eager_limit", "131072", 0);
    setenv("OMPI_MCA_btl_tcp_endpoint_cache", "4096", 0);
}

/* A host is what shares memory, as Open MPI sees it: two agents on one machine are two hosts. It is
 * named after its first rank too. */
static int learn_hosts(struct comm_mpi *m)
{
    MPI_Comm near;
    char name[MPI_MAX_PROCESSOR_NAME] = "", host[64];
    int n = 0, first = m->rank, ranks = 0;
    m->hosts = calloc((size_t)m->size, sizeof *m->hosts);
    if (!m->hosts || MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, m->rank, MPI_INFO_NULL,
                                         &near) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    MPI_Comm_size(near, &ranks);
    m->apart = ranks == 1;
    int rc = MPI_Bcast(&first, 1, MPI_INT, 0, near);
    MPI_Comm_free(&near);
    MPI_Get_processor_name(name, &n);
    snprintf(host, sizeof host, "%.40s/%d", name, first);
    return rc != MPI_SUCCESS ||
                   MPI_Allgather(host, 64, MPI_CHAR, m->hosts, 64, MPI_CHAR, m->comm) != MPI_SUCCESS
               ? -ERR_PEER
               : 0;
}

struct transport *comm_mpi_open(struct err *e)
{
    struct comm_mpi *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, ERR_MEMORY, "cannot start the exchange: memory ran out");
        return NULL;
    }
    m->base.ops = &mpi_ops;
    m->turn = clock_now();
    m->workers = MPI_COMM_NULL;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &m->comm) != MPI_SUCCESS) {
        err_set(e, ERR_PEER, "cannot start the exchange: MPI_Comm_dup failed");
        free(m);
        return NULL;
    }
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->comm, &m->rank);
    MPI_Comm_size(m->comm, &m->size);
    if (learn_hosts(m) < 0 || init_threads(m) != 0) {
        err_set(e, ERR_PEER, "cannot start the exchange of rank %d", m->rank);
        free(m->hosts);
        free(m);
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
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    pthread_cond_signal(&m->arrived);
    ring_bell(m);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    if (m->apart) {
        mpi_sockets_close(&m->sockets);
    }
    if (m->workers != MPI_COMM_NULL) {
        MPI_Comm_free(&m->workers);
    }
    MPI_Comm_free(&m->comm);
    pthread_cond_destroy(&m->ended);
    pthread_cond_destroy(&m->arrived);
    pthread_mutex_destroy(&m->lock);
    free(m->hosts);
    free(m);
}
