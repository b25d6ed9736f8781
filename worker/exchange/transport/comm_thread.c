/* The communication thread: see comm_thread.h.
 *
 * Operations come to it through a queue under a lock. It steps each until it is done. It spins for
 * a short while after every message, since the next round of a ring follows soon. Then it sleeps 20
 * to 200 microseconds between polls, 1,000 in a long wait. So a wait costs the computing threads
 * nothing, while a blocking MPI call would take half a core. Waiters sleep on a condition.
 *
 * A large message moves only while MPI is called. Where the kernel does not let one rank read
 * another's memory, a call moves three fragments of 32 KB by default. So comm_mpi_prepare() asks
 * for more and larger fragments. The thread also yields instead of sleeping, for about as long as
 * memory needs for what was posted last. Without both, a push and a pull of 6.6 MB took 49 ms each.
 * Yielding for longer is no faster and takes the core from ranks that compute.
 *
 * A rank that is alone on its host neither sleeps nor yields between polls. It waits for Open MPI's
 * sockets (mpi_sockets.h), since each sleep and poll would cost 18 us of its core, most of it in
 * the kernel. */
#include "worker/exchange/transport/comm_thread.h"

#include <limits.h>
#include <sched.h>
#include <string.h>

#include "common/clock.h"

enum {
    SPIN_US = 30,
    SLEEP_MIN_US = 20,
    SLEEP_MAX_US = 200,
    SLEEP_LONG_US = 1000,
    LARGE_BYTES = 1 << 16
};
enum {
    /* after this many waits in a row without a message it sleeps between polls instead */
    VAIN = 1000
};
static const double DOZE_SECONDS = 0.05, IDLE_SECONDS = 0.25; /* the longest wait, so that the
                                                                 thread's age stays small */
static const double HANGS_SECONDS = 1, HANGS_TIMES = 10;      /* a turn may copy large messages */
static const double SECONDS_PER_BYTE =
    3e-10; /* of a transfer in fragments: how long yielding pays more than sleeping */

/* ---- the thread ------------------------------------------------------------------------------ */

void comm_thread_moved(struct comm_thread *c)
{
    c->moved = true;
}

void comm_thread_expect(struct comm_thread *c, size_t bytes)
{
    double now = clock_now();
    if (bytes >= LARGE_BYTES) {
        c->hot_until = (c->hot_until > now ? c->hot_until : now) + SECONDS_PER_BYTE * (double)bytes;
    }
}

static void end_op(struct comm_thread *c, struct comm_op *op, int rc)
{
    op->finished = clock_now();
    pthread_mutex_lock(&c->lock);
    atomic_store_explicit(&op->state, rc, memory_order_release);
    pthread_cond_broadcast(&c->ended);
    pthread_mutex_unlock(&c->lock);
}

/* Wakes only waiters whose part is complete. */
static void tell_parts(struct comm_thread *c, const struct comm_op *op, int told)
{
    if (op->parts != told) {
        pthread_mutex_lock(&c->lock);
        if (op->parts >= op->wanted) {
            pthread_cond_broadcast(&c->ended);
        }
        pthread_mutex_unlock(&c->lock);
    }
}

/* Takes the queued operations; waits for one if none is under way. False: stop. Operations may be
 * under way then if they were abandoned. */
static bool take_queue(struct comm_thread *c, struct comm_op **running)
{
    pthread_mutex_lock(&c->lock);
    while (!*running && !c->queue && !c->stopping && !c->abandoned) {
        const struct timespec until = clock_timespec(clock_now() + IDLE_SECONDS);
        pthread_cond_timedwait(&c->arrived, &c->lock, &until);
        c->turn = clock_now();
    }
    bool stop = c->stopping && !c->queue, abandoned = c->abandoned;
    struct comm_op **at = running;
    while (*at) {
        at = &(*at)->next;
    }
    *at = c->queue;
    c->queue = NULL;
    pthread_mutex_unlock(&c->lock);
    return !abandoned && !(stop && !*running);
}

/* Up to 200 microseconds, or in a long wait up to a hundredth of it, which delays the end little.
 * With 200 a rank that waits for a slow node takes 5 % of a core, with 1000 it takes 2 %. */
static int next_sleep(int sleep_us, double waited)
{
    double most = 1e4 * waited;
    most = most < SLEEP_MAX_US ? SLEEP_MAX_US : most > SLEEP_LONG_US ? SLEEP_LONG_US : most;
    return sleep_us * 3 / 2 < most ? sleep_us * 3 / 2 : (int)most;
}

static void ring_bell(struct comm_thread *c) /* under the lock */
{
    if (c->dozing) {
        mpi_sockets_ring(&c->sockets);
    }
}

/* Waits for sockets, or for something to be queued. */
static void doze(struct comm_thread *c)
{
    pthread_mutex_lock(&c->lock);
    c->dozing = !c->queue && !c->stopping && !c->abandoned;
    bool waits = c->dozing;
    pthread_mutex_unlock(&c->lock);
    if (!waits) {
        return;
    }
    c->vain = mpi_sockets_wait(&c->sockets, DOZE_SECONDS) == MPI_WOKEN_SOCKET ? c->vain + 1 : 0;
    pthread_mutex_lock(&c->lock);
    c->dozing = false;
    pthread_mutex_unlock(&c->lock);
}

/* Steps each. Returns the operation that failed, with its code in *rc; NULL: none did. */
static struct comm_op *step_all(struct comm_thread *c, struct comm_op **running, int *rc)
{
    for (struct comm_op **at = running; *at;) {
        struct comm_op *op = *at, *next = op->next;
        int parts = op->parts;
        *rc = op->step(op, c->transport);
        if (*rc < 0 && *rc != -ERR_CANCELLED) {
            return op;
        }
        if (*rc != COMM_UNDER_WAY) {
            *at = next;
            end_op(c, op, *rc); /* from here on it belongs to its owner again */
            c->moved = true;
        } else {
            tell_parts(c, op, parts);
            at = &op->next;
        }
    }
    return NULL;
}

/* An operation that failed ends the exchange. A message may still be under way into its memory,
 * which its owner frees as soon as it hears of the failure; the same holds for the other
 * operations. So owners hear of it only when the thread touches nothing any more. */
static void leave(struct comm_thread *c, struct comm_op *failed, int rc)
{
    pthread_mutex_lock(&c->lock);
    c->gone = true;
    if (failed) {
        c->abandoned = true;
        c->why = failed->err;
        failed->finished = clock_now();
        atomic_store_explicit(&failed->state, rc, memory_order_release);
    }
    pthread_cond_broadcast(&c->ended);
    pthread_mutex_unlock(&c->lock);
}

static void *communicate(void *arg)
{
    struct comm_thread *c = arg;
    struct comm_op *running = NULL, *failed = NULL;
    double idle_since = clock_now();
    int sleep_us = SLEEP_MIN_US, rc = 0;
    pthread_setname_np(pthread_self(), "exchange");
    while (take_queue(c, &running)) {
        double began = clock_now();
        if ((failed = step_all(c, &running, &rc)) != NULL) {
            break;
        }
        double now = clock_now();
        c->turn = now;
        c->longest = now - began > c->longest ? now - began : c->longest;
        if (c->moved) {
            c->moved = false;
            c->vain = 0;
            mpi_sockets_moved(&c->sockets);
            idle_since = now;
            sleep_us = SLEEP_MIN_US;
        } else if (running && c->alone && !c->polls && c->vain < VAIN &&
                   mpi_sockets_usable(&c->sockets)) {
            doze(c);
        } else if (running && now < c->hot_until) {
            sched_yield();
        } else if (running && now - idle_since > 1e-6 * SPIN_US) {
            clock_sleep(1e-6 * sleep_us);
            sleep_us = next_sleep(sleep_us, now - idle_since);
        }
    }
    leave(c, failed, rc);
    return NULL;
}

/* ---- any thread ------------------------------------------------------------------------------ */

void comm_thread_abandon(struct comm_thread *c)
{
    pthread_mutex_lock(&c->lock);
    c->abandoned = true;
    pthread_cond_signal(&c->arrived);
    ring_bell(c);
    while (!c->gone) {
        pthread_cond_wait(&c->ended, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

void comm_thread_submit(struct comm_thread *c, struct comm_op *op)
{
    op->next = NULL;
    op->wanted = INT_MAX;
    op->started = clock_now();
    atomic_store(&op->state, COMM_UNDER_WAY);
    pthread_mutex_lock(&c->lock);
    struct comm_op **at = &c->queue;
    while (*at && !c->abandoned) {
        at = &(*at)->next;
    }
    if (c->abandoned) {
        err_set(&op->err, ERR_PEER, "rank %d exchanges nothing more, because it failed", c->rank);
        op->err = c->why.code != ERR_NONE ? c->why : op->err;
        atomic_store(&op->state, -(int)op->err.code);
    } else {
        *at = op;
    }
    pthread_cond_signal(&c->arrived);
    ring_bell(c);
    pthread_mutex_unlock(&c->lock);
}

/* What comm_thread_wait returns. Under the lock. */
static int outcome(const struct comm_thread *c, const struct comm_op *op, int parts)
{
    int state = atomic_load_explicit(&op->state, memory_order_acquire);
    if (state != COMM_UNDER_WAY) {
        return state;
    }
    if (c->abandoned && c->gone) {
        return -ERR_PEER;
    }
    bool came = atomic_load_explicit(&op->parts, memory_order_acquire) >= parts;
    return came ? COMM_DONE : COMM_UNDER_WAY;
}

int comm_thread_wait(struct comm_thread *c, struct comm_op *op, int parts, double deadline)
{
    struct timespec until = clock_timespec(deadline);
    bool late = false;
    int rc;
    pthread_mutex_lock(&c->lock);
    op->wanted = parts;
    while ((rc = outcome(c, op, parts)) == COMM_UNDER_WAY && !late) {
        if (deadline <= 0) {
            pthread_cond_wait(&c->ended, &c->lock);
        } else {
            late =
                pthread_cond_timedwait(&c->ended, &c->lock, &until) != 0 && clock_now() >= deadline;
        }
    }
    if (rc < 0 && atomic_load(&op->state) == COMM_UNDER_WAY && c->why.code != ERR_NONE) {
        op->err = c->why;
        rc = -(int)c->why.code;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

void comm_thread_poll(struct comm_thread *c)
{
    c->polls = true;
}

double comm_thread_age(const struct comm_thread *c)
{
    return c->gone ? 0 : clock_now() - c->turn;
}

bool comm_thread_hangs(const struct comm_thread *c)
{
    return comm_thread_age(c) > HANGS_SECONDS + HANGS_TIMES * c->longest;
}

/* ---- start and stop -------------------------------------------------------------------------- */

int comm_thread_start(struct comm_thread *c, struct transport *t, int rank, bool alone,
                      struct err *e)
{
    memset(c, 0, sizeof *c);
    c->transport = t;
    c->rank = rank;
    c->turn = clock_now();
    c->alone = alone && mpi_sockets_open(&c->sockets);
    pthread_mutex_init(&c->lock, NULL);
    clock_cond_init(&c->arrived);
    clock_cond_init(&c->ended);
    return pthread_create(&c->thread, NULL, communicate, c) == 0
               ? 0
               : err_set(e, ERR_PEER, "cannot start the exchange of rank %d", rank);
}

void comm_thread_stop(struct comm_thread *c)
{
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    pthread_cond_signal(&c->arrived);
    ring_bell(c);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    if (c->alone) {
        mpi_sockets_close(&c->sockets);
    }
    pthread_cond_destroy(&c->ended);
    pthread_cond_destroy(&c->arrived);
    pthread_mutex_destroy(&c->lock);
}
