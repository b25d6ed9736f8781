/* All-reduce of short vectors: recursive doubling. In round k every member exchanges its whole
 * vector with the member whose number differs in bit k, and adds. Both partners add the same two
 * numbers, so all members end with the same bits after log2(S) rounds instead of the 2(S-1) of a
 * ring. Where S is no power of two, some members first give their vectors to a neighbour, and get
 * the sum back at the end.
 *
 *      S = 5      fold   0 ─► 1          round 1   1 ◄─► 2   3 ◄─► 4
 *      P = 4                             round 2   1 ◄─► 3   2 ◄─► 4
 *      R = 1      back   1 ─► 0 */
#include "worker/exchange/transport/allreduce_ways.h"

/* P = 2^L members are left after 2R members have folded into R. */
struct shape {
    int P, L, R;
};

static struct shape shape_of(int size)
{
    struct shape s = {.P = 1};
    while (2 * s.P <= size) {
        s.P *= 2;
        s.L++;
    }
    s.R = size - s.P;
    return s;
}

/* The members to which this one sends and from which it receives in a round; -1: none. */
struct meeting {
    int to, from;
};

/* Round 0 folds the even members of the first 2R into the odd ones. Rounds 1 to L exchange with the
 * partner whose bit differs. Round L+1 gives the sum back to the folded members. */
static struct meeting meeting_of(const struct allreduce *a, const struct shape *s)
{
    int i = a->mine, R = s->R, round = a->doubling.round;
    bool paired = i < 2 * R, folded = paired && i % 2 == 0;
    struct meeting m = {-1, -1};
    if (round == 0 || round == s->L + 1) {
        bool gives = folded == (round == 0);
        if (paired) {
            *(gives ? &m.to : &m.from) = folded ? i + 1 : i - 1;
        }
    } else if (!folded) {
        int partner = (paired ? i / 2 : i - R) ^ (1 << (round - 1));
        m.to = m.from = partner < R ? 2 * partner + 1 : partner + R;
    }
    return m;
}

void doubling_begin(struct allreduce *a)
{
    a->doubling = (struct doubling_state){0};
}

static int begin_round(struct allreduce *a, struct transport *t, const struct shape *s)
{
    struct doubling_state *d = &a->doubling;
    struct meeting m = meeting_of(a, s);
    int tag = allreduce_tag(a);
    bool sums_come = d->round <= s->L;
    float *into = sums_come ? a->scratch.floats : a->data;
    int rc = 0;
    if ((m.from >= 0 && (rc = t->ops->recv(t, allreduce_member(a, m.from), tag, into,
                                           a->n * sizeof(float), a->ins)) < 0) ||
        (m.to >= 0 && (rc = allreduce_send(a, t, allreduce_member(a, m.to), tag, 0, a->n, a->hollow,
                                           a->outs)) < 0)) {
        return allreduce_failed(a, rc);
    }
    d->in_busy = m.from >= 0;
    d->out_busy = m.to >= 0;
    d->adds = sums_come && m.from >= 0;
    return 0;
}

/* *busy: a message of this round is under way. */
static int test_round(struct allreduce *a, struct transport *t, bool *busy)
{
    struct doubling_state *d = &a->doubling;
    int in = d->in_busy ? allreduce_test(a, t, a->ins, a->n) : COMM_DONE,
        out = d->out_busy ? t->ops->test(t, a->outs) : COMM_DONE;
    if (in < 0 || out < 0) {
        return in < 0 ? in : allreduce_failed(a, out);
    }
    d->in_busy = in == COMM_UNDER_WAY;
    d->out_busy = out == COMM_UNDER_WAY;
    *busy = d->in_busy || d->out_busy;
    return 0;
}

/* It adds once both messages of a round are done, since data that is being sent must not change. */
int doubling_step(struct allreduce *a, struct transport *t)
{
    struct doubling_state *d = &a->doubling;
    struct shape shape = shape_of(a->size);
    for (; d->round <= shape.L + 1; d->round++) {
        int rc = a->begun ? 0 : begin_round(a, t, &shape);
        bool busy = false;
        if (rc < 0) {
            return rc;
        }
        a->begun = true;
        if ((rc = test_round(a, t, &busy)) < 0 || busy) {
            return rc;
        }
        if (d->adds && (rc = allreduce_add(a, 0, a->scratch.floats, a->n)) < 0) {
            return rc;
        }
        a->begun = false;
    }
    return COMM_DONE;
}

void doubling_under_way(struct allreduce *a, struct transport_req **ins, int *n,
                        struct transport_req **outs, int *m)
{
    *n = a->doubling.in_busy;
    *m = a->doubling.out_busy;
    ins[0] = a->ins;
    outs[0] = a->outs;
}
