/* The front of the all-reduce (allreduce.h): it chooses the way of a sum. Every transport uses this
 * implementation, so the order of additions is the same everywhere. */
#include "worker/exchange/transport/allreduce.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "worker/exchange/transport/allreduce_ways.h"

enum { SHORT = 4096 };

void allreduce_init(struct allreduce *a, struct comm *c, enum comm_group group, size_t max_floats)
{
    memset(a, 0, sizeof *a);
    a->comm = c;
    a->group = group;
    a->scratch.most = max_floats;
}

void allreduce_release(struct allreduce *a)
{
    struct allreduce_scratch *s = &a->scratch;
    if (s->floats && s->dev) {
        s->dev->ops->memory->free(s->dev, s->floats, false);
    } else {
        free(s->floats);
    }
    s->floats = NULL;
}

/* ---- ways ------------------------------------------------------------------------------------ */

enum way { WAY_NONE, WAY_NATIVE, WAY_DOUBLING, WAY_RING };

static enum way way_of(const struct allreduce *a)
{
    size_t all = a->hollow + a->n, heavy = all - a->light;
    if (a->size <= 1 || all == 0) {
        return WAY_NONE;
    }
    if (a->comm->native && a->comm->t->ops->native_sum && a->group == COMM_ALL) {
        return WAY_NATIVE;
    }
    return heavy < SHORT || (size_t)a->size > heavy ? WAY_DOUBLING : WAY_RING;
}

/* The library's own all-reduce. */
static int native_step(struct allreduce *a, struct transport *t)
{
    int rc = a->begun ? 0 : t->ops->native_sum(t, a->data, a->n, a->ins);
    a->begun = true;
    if (rc < 0 || (rc = t->ops->test(t, a->ins)) < 0) {
        return allreduce_failed(a, rc);
    }
    return rc;
}

static int end_cancelled(struct allreduce *a, struct transport *t)
{
    struct transport_req *ins[ALLREDUCE_WINDOW], *outs[ALLREDUCE_WINDOW];
    int n = 0, m = 0;
    switch (a->begun ? way_of(a) : WAY_NONE) {
    case WAY_RING:
        ring_under_way(a, ins, &n, outs, &m);
        break;
    case WAY_DOUBLING:
        doubling_under_way(a, ins, &n, outs, &m);
        break;
    case WAY_NATIVE:
    case WAY_NONE:
        break;
    }
    return comm_end_requests(&a->op, t, ins, n, outs, m);
}

static int step(struct comm_op *op, struct transport *t)
{
    struct allreduce *a = (struct allreduce *)op;
    if (atomic_load_explicit(&op->cancelled, memory_order_relaxed)) {
        return end_cancelled(a, t);
    }
    switch (way_of(a)) {
    case WAY_NATIVE:
        return native_step(a, t);
    case WAY_DOUBLING:
        return doubling_step(a, t);
    case WAY_RING:
        return ring_step(a, t);
    case WAY_NONE:
        break;
    }
    return COMM_DONE;
}

/* It frees the scratch, since a chunk is longer with fewer members and the next start needs
 * more. */
int allreduce_cancel(struct allreduce *a, struct err *e)
{
    BUG_ON(a->scratch.dev || (a->comm && a->comm->native));
    bool under_way = a->scratch.floats && comm_test(&a->op) == COMM_UNDER_WAY;
    int rc = under_way ? comm_cancel(a->comm, &a->op, e) : 0;
    if (rc < 0 || (under_way && a->op.torn)) {
        a->scratch.floats = NULL; /* a message may still be written to it */
    }
    allreduce_release(a);
    return rc;
}

int allreduce_next_part(struct allreduce *a, size_t *first, size_t *n, struct err *e)
{
    int parts = way_of(a) == WAY_RING ? a->size : 1, part = a->taken++;
    if (part >= parts) {
        return comm_wait(a->comm, &a->op, e);
    }
    *first = 0;
    *n = a->n;
    if (parts > 1) {
        ring_part(a, part, first, n);
    }
    int rc = comm_wait_parts(a->comm, &a->op, part + 1, e);
    return rc < 0 ? rc : parts - part;
}

/* ---- start ----------------------------------------------------------------------------------- */

static size_t most_words(const struct comm *c)
{
    return 16 + 3 * (size_t)c->workers;
}

/* Room for a chunk of the ring or for a whole short vector, and for the words. */
static size_t scratch_floats(const struct allreduce *a)
{
    const struct comm *c = a->comm;
    size_t most = a->scratch.most,
           members = c->n_members[a->group] > 1 ? (size_t)c->n_members[a->group] : 1;
    size_t chunk = c->hollow[a->group] ? most : most / members + 2,
           least = most < SHORT ? most : SHORT;
    return (chunk > least ? chunk : least) + most_words(c) + members + ALLREDUCE_WINDOW;
}

int allreduce_place(struct allreduce *a, struct device *dev, struct err *e)
{
    BUG_ON(a->scratch.floats || a->comm->native);
    float *floats = dev->ops->memory->alloc(dev, scratch_floats(a), false, e);
    if (!floats) {
        return -(int)e->code;
    }
    a->scratch.floats = floats;
    a->scratch.dev = dev;
    return 0;
}

bool allreduce_on_device(const struct allreduce *a)
{
    return a->scratch.dev != NULL;
}

/* A ring that passes its own messages reads the source piece by piece. */
static bool takes_as_it_goes(const struct allreduce *a)
{
    return way_of(a) == WAY_RING && !a->comm->t->ops->ring;
}

void allreduce_start(struct allreduce *a, float *data, size_t n, size_t light)
{
    allreduce_start_from(a, data, n, light, &(struct allreduce_source){0});
}

void allreduce_start_from(struct allreduce *a, float *data, size_t n, size_t light,
                          const struct allreduce_source *source)
{
    struct comm *c = a->comm;
    BUG_ON(source->floats && (a->scratch.dev || source->n > n));
    BUG_ON(n > a->scratch.most || light > n || light > most_words(c));
    if (!a->scratch.floats) {
        a->scratch.floats = malloc(scratch_floats(a) * sizeof(float));
        BUG_ON(!a->scratch.floats);
    }
    memset(&a->op, 0, sizeof a->op);
    a->op.step = step;
    a->data = a->sum = data;
    a->source = *source;
    a->n = n;
    a->light = light;
    a->hollow = c->hollow[a->group];
    a->size = c->n_members[a->group];
    a->mine = c->place[a->group];
    a->serial = c->serials[a->group]++;
    a->taken = 0;
    a->begun = false;
    if (!takes_as_it_goes(a)) {
        allreduce_take(a, 0, n);
        a->source.floats = NULL;
    }
    if (way_of(a) == WAY_RING) {
        ring_begin(a);
    } else {
        doubling_begin(a);
    }
    c->t->ops->start(c->t, &a->op);
}
