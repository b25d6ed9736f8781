/* All-reduce, one implementation for every transport (SEMANTICS.md 12): the order of additions
 * depends on rank numbers and n alone.
 *
 * Long vectors, a ring (Patarasuk & Yuan, 2009). The vector is cut into S chunks; in S-1 rounds
 * every member adds the chunk that its left neighbour passes on, after which member i holds the
 * whole sum of chunk i+1; in S-1 more rounds the sums travel round.
 *
 *      round 0        member 0 ──c0──► 1 ──c1──► 2 ──c2──► 0         chunk c of member m at the end of the first half:
 *      round 1        member 0 ──c2──► 1 ──c0──► 2 ──c1──► 0         ((g[c] + g[c+1]) + g[c+2]) …, always in this order
 *
 * Between hosts a chunk goes in pieces: a piece that came is added and passed on while the next
 * ones are under way, so the link never rests between two rounds. What a newcomer would get wrong:
 * a message that is too large to be sent without asking first waits until its receiver's answer got
 * through, and that answer stands behind all data that the receiver sends the other way. Two ranks
 * then take turns on a link that could carry both ways at once. So pieces are small; where a chunk
 * is one message, it is sent before the receive is posted, for the same reason. Within a host
 * pieces would only be more messages. Neither changes what is added to what.
 *
 * Short vectors, recursive doubling: in round k every member exchanges its whole vector with the
 * one whose number differs in bit k, and adds. Both partners add the same two numbers, so all
 * members end with the same bits after log2(S) rounds instead of 2(S-1). Where S is no power of
 * two, some members give theirs to a neighbour first and get the sum back at the end. */
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/flat.h"
#include "worker/exchange/transport/comm.h"

enum { SHORT = 4096, COLLECTIVE_TAG = 2000, SERIALS = 1 << 12 };
enum {
    PIECE = 32000, /* floats: with its header below the 128 KB that Open MPI sends over TCP without
                      asking first (comm_mpi_prepare) */
    AHEAD = 6, /* pieces of one that shares its way that went out and are not known to have come */
};

void allreduce_init(struct allreduce *a, struct comm *c, enum comm_group group, size_t max_floats)
{
    memset(a, 0, sizeof *a);
    a->comm = c;
    a->group = group;
    a->scratch_n = max_floats;
}

void allreduce_release(struct allreduce *a)
{
    if (a->own_scratch && a->dev) {
        a->dev->ops->memory->free(a->dev, a->scratch, false);
    } else if (a->own_scratch) {
        free(a->scratch);
    }
    a->scratch = NULL;
}

static int member(const struct allreduce *a, int i)
{
    return a->comm->members[a->group][(i + a->size) % a->size];
}

static int tag_of(const struct allreduce *a)
{
    return COLLECTIVE_TAG + (int)a->group * SERIALS + (int)(a->serial % SERIALS);
}

/* What costs time: all but the control words. */
static size_t heavy(const struct allreduce *a)
{
    return a->hollow + a->n - a->light;
}

/* Chunks divide hollow and real floats together, and the last one has the control words too; data
 * has the real ones alone. */
static size_t chunk_begin(const struct allreduce *a, int chunk)
{
    return chunk == a->size ? a->hollow + a->n : heavy(a) * (size_t)chunk / (size_t)a->size;
}

static size_t real_begin(const struct allreduce *a, int chunk)
{
    size_t begin = chunk_begin(a, chunk);
    return begin > a->hollow ? begin - a->hollow : 0;
}

static int send_floats(struct allreduce *a, struct transport *t, int to, int tag, size_t begin,
                       size_t n, size_t hollow, struct transport_req *r)
{
    size_t words = a->n - a->light,
           light = begin + n > words ? begin + n - (begin > words ? begin : words) : 0;
    if ((hollow || light) && t->ops->weigh) {
        t->ops->weigh(t, ((int64_t)hollow - (int64_t)light) * (int64_t)sizeof(float));
    }
    return t->ops->send(t, to, tag, a->data + begin, n * sizeof(float), r);
}

static int failed(struct allreduce *a)
{
    return err_set(&a->op.err, ERR_PEER, "an all-reduce of %zu floats failed on rank %d", a->n,
                   a->comm->rank);
}

static int add(struct allreduce *a, float *sum, const float *other, size_t n)
{
    if (a->dev) {
        return a->dev->ops->memory->add(a->dev, sum, other, n, &a->op.err);
    }
    flat_add(sum, other, n);
    return 0;
}

/* Messages of a ring count from 0: P pieces in each of 2(S-1) rounds. Where piece k of this member
 * goes out of, or comes into. */
struct piece {
    size_t begin, n, hollow;
    bool adds;
};

static struct piece ring_piece(const struct allreduce *a, int k, bool incoming)
{
    int S = a->size, round = k / a->pieces, p = k % a->pieces;
    bool adds = round < S - 1;
    int shift = adds ? round : round - (S - 1) - 1;
    int chunk = ((a->mine - shift - incoming) % S + S) % S;
    size_t begin = real_begin(a, chunk), n = real_begin(a, chunk + 1) - begin,
           whole = chunk_begin(a, chunk + 1) - chunk_begin(a, chunk);
    size_t from = n * (size_t)p / (size_t)a->pieces, to = n * ((size_t)p + 1) / (size_t)a->pieces;
    return (struct piece){begin + from, to - from, whole - n, adds};
}

static float *ring_slot(const struct allreduce *a, int k)
{
    return a->scratch + (size_t)(k % a->window) * a->slot;
}

/* What is added is lent: its place gets the sum, which cannot come before the addition. */
static int ring_tag(const struct allreduce *a, const struct piece *p)
{
    return tag_of(a) | (p->adds ? TRANSPORT_LENT : 0);
}

/* What may go out: what came in a round before. The window keeps what is under way small; but a
 * socket takes megabytes at once, behind which another all-reduce's pieces would wait in every
 * round. How far the others are shows in what came from them: all do the same. */
static int ring_send(struct allreduce *a, struct transport *t, int last)
{
    while (a->sent < last && a->sent < a->sent_done + a->window &&
           a->sent < a->got_done + a->ahead) {
        struct piece p = ring_piece(a, a->sent, false);
        if (send_floats(a, t, member(a, a->mine + 1), ring_tag(a, &p), p.begin, p.n, p.hollow,
                        &a->outs[a->sent % a->window]) < 0) {
            return failed(a);
        }
        a->sent++;
    }
    return 0;
}

/* Never further ahead than the window of what has gone out, so nothing is overwritten that has not.
 */
static int ring_receive(struct allreduce *a, struct transport *t, int last)
{
    while (a->got < last && a->got < a->got_done + a->window && a->got < a->sent_done + a->window) {
        struct piece p = ring_piece(a, a->got, true);
        float *to = p.adds ? ring_slot(a, a->got) : a->data + p.begin;
        if (t->ops->recv(t, member(a, a->mine - 1), ring_tag(a, &p), to, p.n * sizeof(float),
                         &a->ins[a->got % a->window]) < 0) {
            return failed(a);
        }
        a->got++;
    }
    return 0;
}

static int ring_add(struct allreduce *a, int k)
{
    struct piece p = ring_piece(a, k, true);
    return p.adds ? add(a, a->data + p.begin, a->ins[k % a->window].at, p.n) : 0;
}

/* The sum of a chunk stands here at the end of the first half, and that of one more after each
 * round of the second. */
static void ring_count(struct allreduce *a)
{
    int chunks = a->got_done / a->pieces - (a->size - 2);
    if (chunks > a->op.parts) {
        atomic_store_explicit(&a->op.parts, chunks, memory_order_release);
    }
}

/* 1: something came or went, 0: nothing. */
static int ring_tests(struct allreduce *a, struct transport *t)
{
    int moved = 0, rc = 1;
    while (a->got_done < a->got && (rc = t->ops->test(t, &a->ins[a->got_done % a->window])) > 0) {
        if (ring_add(a, a->got_done++) < 0) {
            return -ERR_DEVICE;
        }
        ring_count(a);
        moved = 1;
    }
    while (rc >= 0 && a->sent_done < a->sent &&
           (rc = t->ops->test(t, &a->outs[a->sent_done % a->window])) > 0) {
        a->sent_done++;
        moved = 1;
    }
    return rc < 0 ? failed(a) : moved;
}

/* Asks the transport to run the ring as one event. */
static bool ring_whole(struct allreduce *a, struct transport *t)
{
    struct transport_ring ring = {
        a->comm->members[a->group], a->size, a->mine, tag_of(a), a->data, a->n, a->hollow, a->light,
        a->lent ? &a->sum : NULL};
    a->begun = true;
    return t->ops->ring && t->ops->ring(t, &ring, a->ins) >= 0;
}

static int ring_step(struct allreduce *a, struct transport *t)
{
    if (!a->begun) {
        a->whole = ring_whole(a, t);
    }
    if (a->whole) {
        int rc = t->ops->test(t, a->ins);
        return rc < 0 ? failed(a) : rc;
    }
    int last = 2 * (a->size - 1) * a->pieces, rc;
    do {
        if (ring_send(a, t, last) < 0 || ring_receive(a, t, last) < 0) {
            return -ERR_PEER;
        }
        rc = ring_tests(a, t);
    } while (rc > 0 && (a->sent_done < last || a->got_done < last));
    return rc < 0 ? rc : a->sent_done == last && a->got_done == last;
}

/* Who is met in a round of recursive doubling, which of P = 2^L members are left after 2R members
 * have made R of themselves: round 0 folds the even ones of the first 2R into the odd ones, rounds
 * 1 to L meet the partner whose bit is the other, round L+1 gives the sum back to those that were
 * folded away. -1: nobody. */
static void doubling_meets(const struct allreduce *a, int *to, int *from, bool *adds)
{
    int P = 1, L = 0;
    while (2 * P <= a->size) {
        P *= 2;
        L++;
    }
    int R = a->size - P, i = a->mine;
    bool paired = i < 2 * R, folded = paired && i % 2 == 0;
    *to = *from = -1;
    *adds = a->round <= L;
    if (a->round == 0 || a->round == L + 1) {
        bool gives = folded == (a->round == 0);
        if (paired) {
            *(gives ? to : from) = folded ? i + 1 : i - 1;
        }
    } else if (!folded && a->round <= L) {
        int partner = (paired ? i / 2 : i - R) ^ (1 << (a->round - 1));
        *to = *from = partner < R ? 2 * partner + 1 : partner + R;
    }
}

static int doubling_rounds(const struct allreduce *a)
{
    int L = 0;
    while ((2 << L) <= a->size) {
        L++;
    }
    return L + 2;
}

static int doubling_begin(struct allreduce *a, struct transport *t)
{
    int to, from;
    size_t bytes = a->n * sizeof(float);
    doubling_meets(a, &to, &from, &a->adds);
    if ((from >= 0 && t->ops->recv(t, member(a, from), tag_of(a), a->adds ? a->scratch : a->data,
                                   bytes, a->ins) < 0) ||
        (to >= 0 && send_floats(a, t, member(a, to), tag_of(a), 0, a->n, a->hollow, a->outs) < 0)) {
        return failed(a);
    }
    a->in_busy = from >= 0;
    a->out_busy = to >= 0;
    a->adds = a->adds && from >= 0;
    return 0;
}

/* Sums are added when both messages of a round are through: what is sent must not change before. */
static int doubling_step(struct allreduce *a, struct transport *t)
{
    for (int last = doubling_rounds(a); a->round < last; a->round++) {
        if (!a->begun && doubling_begin(a, t) < 0) {
            return -ERR_PEER;
        }
        a->begun = true;
        int in = a->in_busy ? t->ops->test(t, a->ins) : 1,
            out = a->out_busy ? t->ops->test(t, a->outs) : 1;
        if (in < 0 || out < 0) {
            return failed(a);
        }
        a->in_busy = in == 0;
        a->out_busy = out == 0;
        if (a->in_busy || a->out_busy) {
            return 0;
        }
        if (a->adds && add(a, a->data, a->scratch, a->n) < 0) {
            return -ERR_DEVICE;
        }
        a->begun = false;
    }
    return 1;
}

static int native_step(struct allreduce *a, struct transport *t)
{
    if (!a->begun && t->ops->native_sum(t, a->data, a->n, a->ins) < 0) {
        return failed(a);
    }
    a->begun = true;
    int rc = t->ops->test(t, a->ins);
    return rc < 0 ? failed(a) : rc;
}

enum way { WAY_NONE, WAY_NATIVE, WAY_DOUBLING, WAY_RING };

static enum way way_of(const struct allreduce *a)
{
    size_t n = heavy(a);
    if (a->size <= 1 || a->hollow + a->n == 0) {
        return WAY_NONE;
    }
    if (a->comm->native && a->comm->t->ops->native_sum && a->group == COMM_ALL) {
        return WAY_NATIVE;
    }
    return n < SHORT || (size_t)a->size > n ? WAY_DOUBLING : WAY_RING;
}

static int allreduce_step(struct comm_op *op, struct transport *t)
{
    struct allreduce *a = (struct allreduce *)op;
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
    return 1;
}

int allreduce_next_part(struct allreduce *a, size_t *first, size_t *n, struct err *e)
{
    int parts = way_of(a) == WAY_RING ? a->size : 1, part = a->taken++;
    if (part >= parts) {
        return comm_wait(a->comm, &a->op, e);
    }
    int chunk = (a->mine + 1 - part + a->size) % a->size; /* as ring_piece comes upon them */
    *first = parts > 1 ? real_begin(a, chunk) : 0;
    *n = parts > 1 ? real_begin(a, chunk + 1) - *first : a->n;
    int rc = comm_wait_parts(a->comm, &a->op, part + 1, e);
    return rc < 0 ? rc : parts - part;
}

static void cut_pieces(struct allreduce *a)
{
    size_t chunk = a->size > 0 ? a->n / (size_t)a->size : 0;
    a->pieces = a->comm->remote[a->group] && chunk > PIECE ? (int)((chunk + PIECE - 1) / PIECE) : 1;
    a->window = a->pieces < ALLREDUCE_WINDOW ? a->pieces : ALLREDUCE_WINDOW;
    a->ahead = a->shares && a->pieces > AHEAD ? AHEAD : a->pieces;
    a->slot = (chunk + a->light + (size_t)a->size) / (size_t)a->pieces + 1;
    a->sent = a->sent_done = a->got = a->got_done = 0;
}

/* Floats of scratch: a chunk of the ring, or a whole short vector; and the control words. */
static size_t scratch_floats(const struct allreduce *a, size_t most_light)
{
    const struct comm *c = a->comm;
    size_t members = c->n_members[a->group] > 1 ? (size_t)c->n_members[a->group] : 1;
    size_t chunk = c->hollow[a->group] ? a->scratch_n : a->scratch_n / members + 2,
           least = a->scratch_n < SHORT ? a->scratch_n : SHORT;
    return (chunk > least ? chunk : least) + most_light + members + ALLREDUCE_WINDOW;
}

static size_t most_words(const struct comm *c)
{
    return 16 + 3 * (size_t)c->workers;
}

int allreduce_place(struct allreduce *a, struct device *dev, struct err *e)
{
    BUG_ON(a->scratch || a->comm->native);
    float *scratch = dev->ops->memory->alloc(dev, scratch_floats(a, most_words(a->comm)), false, e);
    if (!scratch) {
        return -ERR_MEMORY;
    }
    a->scratch = scratch;
    a->own_scratch = true;
    a->dev = dev;
    return 0;
}

void allreduce_start(struct allreduce *a, float *data, size_t n, size_t light)
{
    struct comm *c = a->comm;
    size_t most_light = most_words(c);
    BUG_ON(n > a->scratch_n || light > n || light > most_light);
    if (!a->scratch) {
        a->scratch = malloc(scratch_floats(a, most_light) * sizeof(float));
        BUG_ON(!a->scratch);
        a->own_scratch = true;
    }
    memset(&a->op, 0, sizeof a->op);
    a->op.step = allreduce_step;
    a->data = a->sum = data;
    a->n = n;
    a->light = light;
    a->hollow = c->hollow[a->group];
    a->size = c->n_members[a->group];
    a->mine = c->place[a->group];
    a->serial = c->serials[a->group]++;
    a->round = a->taken = 0;
    a->in_busy = a->out_busy = a->begun = false;
    cut_pieces(a);
    c->t->ops->start(c->t, &a->op);
}
