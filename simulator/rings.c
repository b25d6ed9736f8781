/* An all-reduce round a ring as one event. With equal links, a ring of S members ends 2(S-1)
 * messages of the largest chunk after its last member came: that chunk goes round without a pause,
 * and no ring can be faster. So rings of more than a few members need no messages, and S(S-1)
 * events become one. The sums are added in the order of the messages
 * (worker/exchange/transport/ring.c), so they have the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"
#include "simulator/world.h"

enum { RING_BY_MESSAGES = 16 };

static bool links_are_equal(const struct world *w, const struct transport_ring *ring)
{
    const struct virtual_link *first = world_link_between(w, ring->members[0], ring->members[1]);
    for (int i = 1; i < ring->size; i++) {
        const struct virtual_link *other =
            world_link_between(w, ring->members[i], ring->members[(i + 1) % ring->size]);
        if (other != first && (other->latency_seconds != first->latency_seconds ||
                               other->bytes_per_second != first->bytes_per_second)) {
            return false;
        }
    }
    return true;
}

/* The ring that other members have joined, or a new one; NULL if its links differ. */
static struct ring *ring_find(struct world *w, const struct transport_ring *ring)
{
    struct ring *spare = NULL;
    for (struct ring *r = w->rings; r; r = r->next) {
        if (r->serial && r->tag == ring->tag && r->first == ring->members[0] && r->joined >= 0 &&
            r->joined < r->size) {
            return r;
        }
        bool ours = r->first == ring->members[0] && r->size == ring->size;
        spare = r->serial || (r->read && !ours) ? spare : r;
    }
    if (!links_are_equal(w, ring)) {
        return NULL;
    }
    if (!spare) {
        spare = calloc(1, sizeof *spare);
        BUG_ON(!spare);
        spare->next = w->rings;
        w->rings = spare;
    }
    if (spare->room < ring->size) {
        free(spare->who);
        spare->who = calloc((size_t)ring->size, sizeof *spare->who);
        BUG_ON(!spare->who);
        spare->room = ring->size;
    }
    spare->serial = ++w->serial;
    spare->tag = ring->tag;
    spare->first = ring->members[0];
    spare->size = ring->size;
    spare->joined = 0;
    spare->n = ring->n;
    spare->hollow = ring->hollow;
    spare->light = ring->light;
    return spare;
}

static size_t ring_chunk(const struct ring *r, int chunk)
{
    size_t heavy = r->hollow + r->n - r->light,
           begin = chunk == r->size ? r->hollow + r->n : heavy * (size_t)chunk / (size_t)r->size;
    return begin > r->hollow ? begin - r->hollow : 0;
}

static void want(float **memory, size_t *room, size_t n)
{
    if (n > *room) {
        free(*memory);
        *memory = malloc(n * sizeof(float));
        BUG_ON(!*memory);
        *room = n;
    }
}

static bool all_read(const struct ring *r)
{
    for (int k = 0; k < r->size; k++) {
        if (!r->who[k].sum) {
            return false;
        }
    }
    return true;
}

/* Adds in the order of the messages: chunk c starts at member c, and the next members add theirs in
 * turn. */
static void ring_add(struct world *w, struct ring *r)
{
    r->read = all_read(r);
    if (r->read) {
        want(&r->sum, &r->sum_room, r->n);
    }
    for (int c = 0; c < r->size; c++) {
        size_t begin = ring_chunk(r, c), n = ring_chunk(r, c + 1) - begin;
        if (n == 0) {
            continue; /* hollow */
        }
        want(&w->ring_sum, &w->ring_room, r->read ? 0 : n);
        float *sum = r->read ? r->sum + begin : w->ring_sum;
        memcpy(sum, r->who[c].data + begin, n * sizeof(float));
        for (int k = 1; k < r->size; k++) {
            flat_add(sum, r->who[(c + k) % r->size].data + begin, n);
        }
        for (int k = 0; k < r->size && !r->read; k++) {
            memcpy(r->who[k].data + begin, sum, n * sizeof(float));
        }
    }
    for (int k = 0; k < r->size && r->read; k++) {
        *r->who[k].sum = r->sum;
    }
}

/* When a ring of this duration ends. It begins after the rings that its members' links still
 * carry. */
static double ring_reserve(struct world *w, const struct ring *r, double seconds)
{
    int same = world_same_group(w, r->who[0].rank, r->who[1].rank);
    double begin = w->now;
    for (int i = 0; i < r->size; i++) {
        double busy = w->ranks[r->who[i].rank].out_free[same];
        begin = busy > begin ? busy : begin;
    }
    for (int i = 0; i < r->size; i++) {
        w->ranks[r->who[i].rank].out_free[same] = begin + seconds;
    }
    return begin + seconds;
}

int rings_join(struct transport *t, const struct transport_ring *ring, struct transport_req *req)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct world *w = me->world;
    struct ring *r = ring->size > RING_BY_MESSAGES ? ring_find(w, ring) : NULL;
    if (!r) {
        return -ERR_UNSUPPORTED;
    }
    world_posted(me, req);
    me->gathered = me->gathered || (me->free_sends && w->now > 0);
    r->who[ring->mine] = (struct ring_member){me->rank, ring->data, ring->sum, req};
    if (++r->joined == r->size) {
        const struct virtual_link *link = world_link_between(w, ring->members[0], ring->members[1]);
        double chunk = ceil((double)(r->hollow + r->n - r->light) / r->size) * sizeof(float);
        double once = link->latency_seconds +
                      (link->bytes_per_second > 0 ? chunk / link->bytes_per_second : 0);
        events_push(w, me->free_sends ? w->now : ring_reserve(w, r, 2 * (r->size - 1) * once),
                    r->first, EVENT_RING, NULL, r->serial);
    }
    return 0;
}

/* Ends a ring: all members get the sum at once, and go on in the order of the ring. */
void rings_end(struct world *w, uint64_t serial)
{
    struct ring *r = w->rings;
    while (r && r->serial != serial) {
        r = r->next;
    }
    BUG_ON(!r);
    ring_add(w, r);
    for (int i = 0; i < r->size; i++) {
        world_through(&w->ranks[r->who[i].rank], r->who[i].req, REQ_DONE);
    }
    r->joined = -1; /* no rank joins or takes it until all have been woken */
    for (int i = 0; i < r->size; i++) {
        world_wake(&w->ranks[r->who[i].rank]);
    }
    r->serial = 0;
}
