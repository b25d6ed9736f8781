/* What the ways of an all-reduce share: see allreduce_ways.h. */
#include "worker/exchange/transport/allreduce_ways.h"

#include "kernels/device.h"
#include "kernels/flat.h"

/* Bits of a tag: group and serial below GENERATION, then five bits of the generation, two that say
 * how a message travels (transport.h), then the generation's other bits. Open MPI's `ob1` takes
 * tags of this size.
 */
enum { COLLECTIVE_TAG = 2000, SERIALS = 1 << 12, GENERATION = 1 << 15 };
enum { LOW = TRANSPORT_CONTROL / GENERATION, HIGH = TRANSPORT_LENT << 1 };
_Static_assert(COLLECTIVE_TAG + COMM_GROUPS * SERIALS <= GENERATION, "a tag has room for serials");
_Static_assert(COMM_GENERATIONS / LOW <= INT32_MAX / HIGH, "and for generations");

int allreduce_member(const struct allreduce *a, int i)
{
    return a->comm->members[a->group][(i + a->size) % a->size];
}

int allreduce_tag(const struct allreduce *a)
{
    return COLLECTIVE_TAG + (int)a->group * SERIALS + (int)(a->serial % SERIALS) +
           a->comm->generation % LOW * GENERATION + a->comm->generation / LOW * HIGH;
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
