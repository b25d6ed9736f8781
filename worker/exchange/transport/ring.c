/* All-reduce of long vectors: a ring (Patarasuk & Yuan, 2009). The vector is cut into S chunks; in
 * S-1 rounds every member adds the chunk that its left neighbour passes on, after which member i
 * holds the whole sum of chunk i+1; in S-1 more rounds the sums travel round.
 *
 *      round 0        member 0 ──c0──► 1 ──c1──► 2 ──c2──► 0
 *      round 1        member 0 ──c2──► 1 ──c0──► 2 ──c1──► 0
 *
 * Chunk c of member m at the end of the first half is ((g[c] + g[c+1]) + g[c+2]) …, always in this
 * order. In that half a member uses each chunk of its own part once: it sends one chunk, and adds
 * what came to the others. So its part may stand elsewhere (allreduce_source), and is multiplied by
 * its share when it is read.
 *
 * Between hosts a chunk is sent in pieces. A piece that came is added and passed on while the next
 * ones are under way, so the link is never idle between two rounds. Pieces are small because of
 * Open MPI's rendezvous: a large message waits for the receiver's answer, and the answer queues
 * after all data that the receiver sends the other way. Two ranks would then take turns on a link
 * that can carry both directions at once. Where a chunk is one message, it is sent before the
 * receive is posted, for the same reason. Within a host pieces would only be more messages. Neither
 * changes the order of additions. */
#include "worker/exchange/transport/allreduce_ways.h"

enum {
    PIECE = 32000, /* floats: with its header less than the 128 KB that Open MPI sends over TCP
                      without rendezvous (comm_mpi_prepare) */
    AHEAD = 6, /* of a sum that shares its link: pieces sent that are not known to have arrived */
};

/* ---- chunks and pieces ----------------------------------------------------------------------- */

/* Chunks divide hollow and real floats together. The words all go with the last chunk. */
static size_t chunk_begin(const struct allreduce *a, int chunk)
{
    size_t all = a->hollow + a->n, heavy = all - a->light;
    return chunk == a->size ? all : heavy * (size_t)chunk / (size_t)a->size;
}

/* The same in `data`, which has only the real floats. */
static size_t real_begin(const struct allreduce *a, int chunk)
{
    size_t begin = chunk_begin(a, chunk);
    return begin > a->hollow ? begin - a->hollow : 0;
}

/* Messages of a ring count from 0: P pieces in each of 2(S-1) rounds. This says which floats
 * message k of this member sends or receives. */
struct piece {
    size_t begin, n, hollow;
    bool adds;
};

static struct piece piece_of(const struct allreduce *a, int k, bool incoming)
{
    int S = a->size, pieces = a->ring.pieces, round = k / pieces, p = k % pieces;
    bool adds = round < S - 1;
    int shift = adds ? round : round - (S - 1) - 1;
    int chunk = ((a->mine - shift - incoming) % S + S) % S;
    size_t begin = real_begin(a, chunk), n = real_begin(a, chunk + 1) - begin,
           whole = chunk_begin(a, chunk + 1) - chunk_begin(a, chunk);
    size_t from = n * (size_t)p / (size_t)pieces, to = n * ((size_t)p + 1) / (size_t)pieces;
    return (struct piece){begin + from, to - from, whole - n, adds};
}

void ring_part(const struct allreduce *a, int part, size_t *first, size_t *n)
{
    int chunk = (a->mine + 1 - part + a->size) % a->size; /* in the order of piece_of */
    *first = real_begin(a, chunk);
    *n = real_begin(a, chunk + 1) - *first;
}

void ring_begin(struct allreduce *a)
{
    size_t chunk = a->size > 0 ? a->n / (size_t)a->size : 0;
    int pieces =
        a->comm->remote[a->group] && chunk > PIECE ? (int)((chunk + PIECE - 1) / PIECE) : 1;
    a->ring =
        (struct ring_state){.pieces = pieces,
                            .window = pieces < ALLREDUCE_WINDOW ? pieces : ALLREDUCE_WINDOW,
                            .ahead = a->shares && pieces > AHEAD ? AHEAD : pieces,
                            .slot = (chunk + a->light + (size_t)a->size) / (size_t)pieces + 1};
}

/* ---- messages -------------------------------------------------------------------------------- */

static float *slot_of(const struct allreduce *a, int k)
{
    return a->scratch.floats + (size_t)(k % a->ring.window) * a->ring.slot;
}

/* A piece to be added is lent: its floats stay unchanged until the sum comes back to them, after
 * the addition. */
static int tag_of(const struct allreduce *a, const struct piece *p)
{
    return allreduce_tag(a) | (p->adds ? TRANSPORT_LENT : 0);
}

/* A piece may be sent once the previous round has received it. The window limits the messages under
 * way. A socket takes megabytes at once, so another all-reduce's pieces would queue after them in
 * every round; `ahead` limits this. What came from the others shows how far they are, since all
 * members do the same. */
static int send_pieces(struct allreduce *a, struct transport *t, int last)
{
    struct ring_state *r = &a->ring;
    while (r->sent < last && r->sent < r->sent_done + r->window &&
           r->sent < r->got_done + r->ahead) {
        struct piece p = piece_of(a, r->sent, false);
        if (r->sent < r->pieces) {
            allreduce_take(a, p.begin, p.n); /* the first round sends this rank's own part */
        }
        int rc = allreduce_send(a, t, allreduce_member(a, a->mine + 1), tag_of(a, &p), p.begin, p.n,
                                p.hollow, &a->outs[r->sent % r->window]);
        if (rc < 0) {
            return allreduce_failed(a, rc);
        }
        r->sent++;
    }
    return 0;
}

/* It is at most the window ahead of what has been sent, so it overwrites nothing that is still to
 * be sent. */
static int receive_pieces(struct allreduce *a, struct transport *t, int last)
{
    struct ring_state *r = &a->ring;
    while (r->got < last && r->got < r->got_done + r->window && r->got < r->sent_done + r->window) {
        struct piece p = piece_of(a, r->got, true);
        float *to = p.adds ? slot_of(a, r->got) : a->data + p.begin;
        int rc = t->ops->recv(t, allreduce_member(a, a->mine - 1), tag_of(a, &p), to,
                              p.n * sizeof(float), &a->ins[r->got % r->window]);
        if (rc < 0) {
            return allreduce_failed(a, rc);
        }
        r->got++;
    }
    return 0;
}

static int add_piece(struct allreduce *a, int k)
{
    struct piece p = piece_of(a, k, true);
    const float *came = a->ins[k % a->ring.window].at;
    return p.adds ? allreduce_add(a, p.begin, came, p.n) : 0;
}

/* The sum of one chunk is complete at the end of the first half, and one more after each round of
 * the second. */
static void count_parts(struct allreduce *a)
{
    int chunks = a->ring.got_done / a->ring.pieces - (a->size - 2);
    if (chunks > a->op.parts) {
        atomic_store_explicit(&a->op.parts, chunks, memory_order_release);
    }
}

static int test_in(struct allreduce *a, struct transport *t, int k)
{
    return allreduce_test(a, t, &a->ins[k % a->ring.window], piece_of(a, k, true).n);
}

/* *moved: a message came or was sent. */
static int test_pieces(struct allreduce *a, struct transport *t, bool *moved)
{
    struct ring_state *r = &a->ring;
    int rc = 0, added;
    *moved = false;
    while (r->got_done < r->got && (rc = test_in(a, t, r->got_done)) == COMM_DONE) {
        if ((added = add_piece(a, r->got_done++)) < 0) {
            return added;
        }
        count_parts(a);
        *moved = true;
    }
    if (rc < 0) {
        return rc;
    }
    while (r->sent_done < r->sent &&
           (rc = t->ops->test(t, &a->outs[r->sent_done % r->window])) == COMM_DONE) {
        r->sent_done++;
        *moved = true;
    }
    return rc < 0 ? allreduce_failed(a, rc) : 0;
}

void ring_under_way(struct allreduce *a, struct transport_req **ins, int *n,
                    struct transport_req **outs, int *m)
{
    const struct ring_state *r = &a->ring;
    *n = *m = 0;
    for (int k = r->got_done; k < r->got; k++) {
        ins[(*n)++] = &a->ins[k % r->window];
    }
    for (int k = r->sent_done; k < r->sent; k++) {
        outs[(*m)++] = &a->outs[k % r->window];
    }
}

/* Asks the transport to run the ring as one event. */
static bool runs_whole(struct allreduce *a, struct transport *t)
{
    struct transport_ring ring = {.members = a->comm->members[a->group],
                                  .size = a->size,
                                  .mine = a->mine,
                                  .tag = allreduce_tag(a),
                                  .data = a->data,
                                  .n = a->n,
                                  .hollow = a->hollow,
                                  .light = a->light,
                                  .sum = a->lent ? &a->sum : NULL};
    return t->ops->ring && t->ops->ring(t, &ring, a->ins) >= 0;
}

int ring_step(struct allreduce *a, struct transport *t)
{
    const struct ring_state *r = &a->ring;
    int last = 2 * (a->size - 1) * r->pieces, rc;
    bool moved, done;
    if (!a->begun) {
        a->begun = true;
        a->ring.whole = runs_whole(a, t);
    }
    if (r->whole) {
        rc = t->ops->test(t, a->ins);
        return rc < 0 ? allreduce_failed(a, rc) : rc;
    }
    do {
        if ((rc = send_pieces(a, t, last)) < 0 || (rc = receive_pieces(a, t, last)) < 0 ||
            (rc = test_pieces(a, t, &moved)) < 0) {
            return rc;
        }
        done = r->sent_done == last && r->got_done == last;
    } while (moved && !done);
    return done ? COMM_DONE : COMM_UNDER_WAY;
}
