/* Transport on a virtual clock: see comm_sim.h. This file has the transport's functions and the
 * loop over events; ranks, messages, links and rings have files of their own (world.h).
 *
 * An operation is stepped when one of its messages has come or gone, even while the rank's fiber
 * computes. Over MPI the communication thread does this. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "simulator/world.h"

enum { STACK_BYTES = 1 << 20 };

/* ---- ranks ----------------------------------------------------------------------------------- */

static void sim_start(struct transport *t, struct comm_op *op)
{
    struct sim_rank *r = (struct sim_rank *)t;
    atomic_store(&op->state, 0);
    op->started = r->world->now;
    op->next = NULL;
    world_step(r, op);
}

static int sim_wait(struct transport *t, struct comm_op *op, int parts, double deadline)
{
    struct sim_rank *r = (struct sim_rank *)t;
    if (atomic_load(&op->state) != 0) {
        return atomic_load(&op->state);
    }
    r->waiting = op;
    r->deadline_passed = false;
    r->wait_generation++;
    /* with slow nodes virtual waits may be long, so only a deadlock ends them (world_run) */
    (void)deadline;
    (void)parts;
    fiber_yield();
    r->waiting = NULL;
    return atomic_load(&op->state);
}

static void sleep_until(struct sim_rank *r, double time)
{
    struct world *w = r->world;
    if (time <= w->now) {
        return;
    }
    r->waiting = NULL;
    events_push(w, time, r->rank, EVENT_DEADLINE, NULL, ++r->wait_generation);
    fiber_yield();
}

static void sim_pace(struct transport *t, double share, int count)
{
    struct sim_rank *r = (struct sim_rank *)t;
    if (r->rank < r->world->workers && count > 0) {
        const struct virtual_node *n = &r->world->cluster->nodes[r->rank];
        double whole = (n->fixed_seconds + n->seconds_per_sample * count) * r->step_factor;
        sleep_until(r, r->step_start + share * whole);
    }
}

static double sim_now(struct transport *t)
{
    return ((struct sim_rank *)t)->world->now;
}

static int sim_rank_of(struct transport *t)
{
    return ((struct sim_rank *)t)->rank;
}

static int sim_size(struct transport *t)
{
    return ((struct sim_rank *)t)->world->size;
}

static const char *sim_host(struct transport *t, int rank)
{
    const struct world *w = ((struct sim_rank *)t)->world;
    return rank < w->workers ? w->cluster->nodes[rank].name : "server";
}

static const struct transport_ops sim_ops = {
    .rank = sim_rank_of,
    .size = sim_size,
    .host = sim_host,
    .send = messages_send,
    .recv = messages_recv,
    .test = messages_test,
    .cancel = messages_cancel,
    .now = sim_now,
    .start = sim_start,
    .wait = sim_wait,
    .pace = sim_pace,
    .ring = rings_join,
    .weigh = messages_weigh,
};

/* ---- the world ------------------------------------------------------------------------------- */

struct world *world_new(const struct cluster *cluster, int workers, int servers, struct err *e)
{
    struct world *w = calloc(1, sizeof *w);
    if (w) {
        w->cluster = cluster;
        w->workers = workers;
        w->size = workers + servers;
        w->ranks = calloc((size_t)w->size, sizeof *w->ranks);
        w->sides = calloc((size_t)servers * 2, sizeof *w->sides);
        w->of_client = calloc((size_t)servers * 2 * (size_t)workers, sizeof *w->of_client);
    }
    if (!w || !w->ranks || !w->sides || !w->of_client) {
        err_set(e, ERR_MEMORY, "cannot make a virtual cluster of %d ranks: memory ran out",
                workers + servers);
        world_free(w);
        return NULL;
    }
    for (int i = 0; i < 2 * servers; i++) {
        w->sides[i].of_client = &w->of_client[(size_t)i * (size_t)workers];
    }
    for (int i = 0; i < w->size; i++) {
        struct sim_rank *r = &w->ranks[i];
        r->base.ops = &sim_ops;
        r->world = w;
        r->rank = i;
        r->arrived_tail[0] = &r->arrived[0];
        r->arrived_tail[1] = &r->arrived[1];
        r->posted_tail = &r->posted;
        r->step_factor = 1;
        r->free_sends = true;
    }
    return w;
}

static void free_parcels(struct parcel *p)
{
    while (p) {
        struct parcel *next = p->next;
        free_parcels(p->behind);
        free_parcels(p->riders);
        free(p);
        p = next;
    }
}

static void free_posted(struct posted *q)
{
    while (q) {
        struct posted *next = q->next;
        free(q);
        q = next;
    }
}

void world_free(struct world *w)
{
    if (!w) {
        return;
    }
    for (int i = 0; w->ranks && i < w->size; i++) {
        fiber_free(w->ranks[i].fiber);
        free_parcels(w->ranks[i].arrived[0]);
        free_parcels(w->ranks[i].arrived[1]);
        free_posted(w->ranks[i].posted);
        free(w->ranks[i].ready);
    }
    for (int i = 0; w->sides && i < 2 * (w->size - w->workers); i++) {
        free_parcels(w->sides[i].flows);
    }
    while (w->n_heap > 0) {
        struct event ev = events_pop(w);
        if (ev.kind == EVENT_ARRIVE) {
            free(ev.parcel);
        }
    }
    while (w->rings) {
        struct ring *next = w->rings->next;
        free(w->rings->who);
        free(w->rings->sum);
        free(w->rings);
        w->rings = next;
    }
    free(w->ring_sum);
    free_parcels(w->spare_parcels);
    free_posted(w->spare_posted);
    free(w->heap);
    free(w->of_client);
    free(w->sides);
    free(w->ranks);
    free(w);
}

struct transport *world_transport(struct world *w, int rank)
{
    return &w->ranks[rank].base;
}

int world_set(struct world *w, int rank, void (*fn)(void *arg), void *arg, struct err *e)
{
    w->ranks[rank].fiber = fiber_new(fn, arg, STACK_BYTES, e);
    return w->ranks[rank].fiber ? 0 : -ERR_MEMORY;
}

static void handle(struct world *w, const struct event *ev)
{
    if (ev->kind == EVENT_RING) {
        rings_end(w, ev->generation);
        return;
    }
    if (ev->kind == EVENT_LINK) {
        struct link_side *s = &w->sides[ev->rank];
        if (ev->generation == s->generation) {
            server_link_finish(w, s);
        }
        return;
    }
    struct sim_rank *r = &w->ranks[ev->rank];
    if (ev->kind == EVENT_ARRIVE) {
        messages_arrive(r, ev->parcel);
    } else if (ev->kind == EVENT_DEADLINE && ev->generation == r->wait_generation &&
               !fiber_ended(r->fiber)) {
        r->runnable = true;
    }
    world_wake(r);
}

static int deadlock(const struct world *w, struct err *e)
{
    char names[200] = "";
    int n = 0;
    for (int i = 0; i < w->size; i++) {
        if (!fiber_ended(w->ranks[i].fiber)) {
            n++;
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%d", used ? ", " : "", i);
        }
    }
    return n == 0
               ? 0
               : err_set(
                     e, ERR_INTERNAL,
                     "the virtual cluster stands still at %g s: %d ranks wait for a message that "
                     "nobody sends (%s)",
                     w->now, n, names);
}

int world_run(struct world *w, struct err *e)
{
    for (int i = w->size - 1; i >= 0; i--) { /* servers start first, so that they listen */
        world_run_rank(&w->ranks[i]);
    }
    while (w->n_heap > 0) {
        struct event ev = events_pop(w);
        w->now = ev.time;
        w->events++;
        handle(w, &ev);
    }
    return deadlock(w, e);
}

int64_t world_events(const struct world *w)
{
    return w->events;
}

void world_step_begin(struct world *w, int rank)
{
    struct sim_rank *r = &w->ranks[rank];
    double jitter = w->cluster->nodes[rank].jitter, z = 0;
    if (jitter > 0) {
        uint64_t stream = rng_mix((uint64_t)rank, 0x6a69747465720000u);
        /* redrawn beyond three deviations; a step has room for 64 draws */
        for (uint64_t draw = 0; draw < 64; draw++) {
            z = rng_normal(w->cluster->seed, stream, (uint64_t)r->steps * 64 + draw);
            if (fabs(z) <= 3) {
                break;
            }
        }
    }
    r->steps++;
    r->step_start = w->now;
    r->step_factor = 1 + jitter * z;
}

/* An evaluation with all workers is a barrier, but costs no time: each worker goes on at the time
 * at which it came. So the clock goes back to the first of them. No rank notices this: all have
 * left before one goes on, and no message between them is under way. */
static void give_back(struct sim_rank *r)
{
    struct world *w = r->world;
    r->gathered = false;
    r->waiting = NULL;
    r->wait_generation++;
    if (++w->n_back == w->workers) {
        w->n_back = 0;
        for (int i = 0; i < w->workers; i++) {
            struct sim_rank *k = &w->ranks[i];
            events_push(w, k->free_since, i, EVENT_DEADLINE, NULL, k->wait_generation);
            w->now = k->free_since < w->now ? k->free_since : w->now;
        }
    }
    fiber_yield();
}

void world_set_free(struct world *w, int rank, bool is_free)
{
    struct sim_rank *r = &w->ranks[rank];
    bool ends = r->free_sends && !is_free;
    r->free_since = r->free_sends ? r->free_since : w->now;
    r->free_sends = is_free;
    if (ends && r->gathered) {
        give_back(r);
    }
}
