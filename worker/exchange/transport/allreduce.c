/* The front of the all-reduce (allreduce.h): chooses the way of a sum, and does what the ways
 * share. One implementation for every transport, so that the order of additions is the same
 * everywhere. */
#include "worker/exchange/transport/allreduce.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/flat.h"
#include "worker/exchange/transport/allreduce_ways.h"

enum { SHORT = 4096, COLLECTIVE_TAG = 2000, SERIALS = 1 << 12, GENERATION = 1 << 15 };

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

/* ---- what the ways share --------------------------------------------------------------------- */

int allreduce_member(const struct allreduce *a, int i)
{
    return a->comm->members[a->group][(i + a->size) % a->size];
}

int allreduce_tag(const struct allreduce *a)
{
    return COLLECTIVE_TAG + (int)a->group * SERIALS + (int)(a->serial % SERIALS) +
           a->comm->generation * GENERATION;
}

int allreduce_send(struct allreduce *a, struct transport *t, int to, int tag, size_t begin,
                   size_t n, size_t hollow, struct transport_req *r)
{
    size_t words = a->n - a->light,
           light = begin + n > words ? begin + n - (begin > words ? begin : words) : 0;
    if ((hollow || light) && t->ops->weigh) {
        t->ops->weigh(t, ((int64_t)hollow - (int64_t)light) * (int64_t)sizeof(float));
    }
    return t->ops->send(t, to, tag, a->data + begin, n * sizeof(float), r);
}

int allreduce_failed(struct allreduce *a, int rc)
{
    if (rc == -ERR_CONFLICT) {
        return err_set(&a->op.err, ERR_CONFLICT,
                       "ranks disagree about what they sum: rank %d sums %zu floats", a->comm->rank,
                       a->n);
    }
    return err_set(&a->op.err, ERR_PEER, "an all-reduce of %zu floats failed on rank %d", a->n,
                   a->comm->rank);
}

int allreduce_test(struct allreduce *a, struct transport *t, struct transport_req *in, size_t n)
{
    int rc = t->ops->test(t, in);
    rc = rc == COMM_DONE && in->bytes != n * sizeof(float) ? -ERR_CONFLICT : rc;
    return rc < 0 ? allreduce_failed(a, rc) : rc;
}

/* How many of `n` floats from `begin` on are the source's. */
static size_t in_source(const struct allreduce *a, size_t begin, size_t n)
{
    size_t left = a->source.floats && begin < a->source.n ? a->source.n - begin : 0;
    return left < n ? left : n;
}

void allreduce_take(struct allreduce *a, size_t begin, size_t n)
{
    size_t taken = in_source(a, begin, n);
    if (taken > 0) {
        flat_scale(a->data + begin, a->source.floats + begin, a->source.share, taken);
    }
}

int allreduce_add(struct allreduce *a, size_t begin, const float *other, size_t n)
{
    struct device *dev = a->scratch.dev;
    size_t taken = in_source(a, begin, n);
    if (dev) {
        return dev->ops->memory->add(dev, a->data + begin, other, n, &a->op.err);
    }
    if (taken > 0) {
        flat_scale_add(a->data + begin, a->source.floats + begin, a->source.share, other, taken);
    }
    flat_add(a->data + begin + taken, other + taken, n - taken);
    return 0;
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

/* The library's own. */
static int native_step(struct allreduce *a, struct transport *t)
{
    int rc = a->begun ? 0 : t->ops->native_sum(t, a->data, a->n, a->ins);
    a->begun = true;
    if (rc < 0 || (rc = t->ops->test(t, a->ins)) < 0) {
        return allreduce_failed(a, rc);
    }
    return rc;
}

/* What is under way depends on the way. */
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

/* With fewer members a chunk is longer, so the next start takes other memory. */
int allreduce_cancel(struct allreduce *a, struct err *e)
{
    BUG_ON(a->scratch.dev || (a->comm && a->comm->native));
    bool under_way = a->scratch.floats && comm_test(&a->op) == COMM_UNDER_WAY;
    int rc = under_way ? comm_cancel(a->comm, &a->op, e) : 0;
    if (rc < 0 || (under_way && a->op.torn)) {
        a->scratch.floats = NULL; /* belongs to the message that may still come */
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

/* A chunk of the ring, or a whole short vector; and the words. */
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

/* A ring takes a source as it goes. */
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
