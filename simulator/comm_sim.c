/* Transport on a virtual clock: see comm_sim.h.
 *
 * A message exists from send until it is matched by a receive of its destination (sender and tag agree, in order of arrival). Its
 * bytes stay with the sender until then: the send is done when they were taken. An operation that was started is stepped when one of its
 * messages is through, also while the rank's fiber computes, as the communication thread does over MPI.
 *
 * A worker's way out is one link to its group and one to the others: messages to other workers leave one after the other, so that reductions
 * of several buckets under way at once take no less time than their bytes do. Headers and what costs no bytes pass by.
 *
 * A server's link is shared fairly: n transfers in one direction each get min(client's bandwidth, server's / n). All have the same
 * rate, so one counter of "bytes every transfer has got so far" per direction orders their ends without touching them all.
 */
#include "simulator/comm_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "simulator/fiber.h"

enum { STACK_BYTES = 1 << 20 };

enum event_kind { EVENT_WAKE, EVENT_ARRIVE, EVENT_LINK, EVENT_DEADLINE, EVENT_RING };

struct parcel { /* a message under way or not yet received */
    int from, to, tag;
    const void *data;
    size_t bytes;
    struct transport_req *send;
    double cost; /* in bytes */
    double latency;
    double ends_at; /* link counter at which its last byte is through */
    struct parcel *behind; /* of the same client and direction: begins when this one's bytes are through */
    struct parcel *riders; /* headers that arrive with it */
    struct parcel *next;
};

struct posted { /* a receive that waits for its message */
    int from, tag;
    void *data;
    size_t bytes;
    struct transport_req *req;
    struct posted *next;
};

struct event {
    double time;
    int rank;
    int order; /* among events of one instant: the rank that caused it, so that ties go to the lower rank */
    uint64_t serial;
    enum event_kind kind;
    struct parcel *parcel;
    uint64_t generation; /* of a link or a wait: older ones are void; of a ring: which */
};

/* An all-reduce round a ring that is run as one event: who has come to it so far. */
struct ring {
    uint64_t serial; /* 0: free */
    int tag, first, size, joined;
    size_t n, hollow, light;
    struct ring_member {
        int rank;
        float *data;
        struct transport_req *req;
    } *who; /* [size] by place in the ring */
    int room;
    struct ring *next;
};

struct link_side { /* one direction of one server's link */
    struct parcel *flows, *last;
    struct parcel **of_client; /* [workers] its flow, or NULL: a client sends one thing after the other */
    int n;
    double got, since; /* bytes every transfer got until `since` */
    uint64_t generation;
};

struct sim_rank {
    struct transport base;
    struct world *world;
    int rank;
    struct fiber *fiber;
    struct comm_op *waiting, *stepping;
    struct comm_op **ready; /* those with a message that is through; may stand there twice */
    int n_ready, ready_room;
    bool again;             /* a message of the one that is being stepped came through meanwhile */
    bool blocked, deadline_passed, free_sends, runnable;
    uint64_t wait_generation;
    int64_t extra_bytes; /* that the next message counts */
    struct parcel *arrived[2], **arrived_tail[2]; /* bodies, headers: many of these may wait for one of those */
    struct posted *posted, **posted_tail;
    double step_start, step_factor;
    double free_since; /* when what costs nothing began */
    bool gathered;     /* it met all the other workers there */
    double out_free[2]; /* when what was sent by then has left: to others, to members of its group */
    int64_t steps;
};

struct world {
    const struct cluster *cluster;
    int workers, size;
    double now;
    struct sim_rank *ranks;
    int n_back; /* workers that have left a free meeting of all, see give_back() */
    struct event *heap;
    size_t n_heap, heap_room;
    uint64_t serial;
    int64_t events;
    struct link_side *sides; /* [servers][2]: to the server, from it */
    struct parcel **of_client; /* [servers][2][workers] */
    struct parcel *spare_parcels;
    struct posted *spare_posted;
    struct ring *rings;
    float *ring_sum; /* [ring_room] */
    size_t ring_room;
};

/* values of transport_req.impl[0] */
enum { REQ_BUSY = 1, REQ_DONE = 2, REQ_TOO_LONG = 3 };

/* ---- events ------------------------------------------------------------------------------------------------ */

static bool earlier(const struct event *a, const struct event *b)
{
    if (a->time != b->time) {
        return a->time < b->time;
    }
    return a->order != b->order ? a->order < b->order : a->serial < b->serial;
}

static void push_event(struct world *w, double time, int rank, enum event_kind kind, struct parcel *p, uint64_t generation)
{
    if (w->n_heap == w->heap_room) {
        w->heap_room = w->heap_room ? 2 * w->heap_room : 256;
        w->heap = realloc(w->heap, w->heap_room * sizeof *w->heap);
        BUG_ON(!w->heap);
    }
    struct event ev = {time, rank, p ? p->from : rank, w->serial++, kind, p, generation};
    size_t i = w->n_heap++;
    while (i > 0 && earlier(&ev, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = ev;
}

static struct event pop_event(struct world *w)
{
    struct event top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n_heap) {
            break;
        }
        if (child + 1 < w->n_heap && earlier(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!earlier(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

/* ---- a server's link ---------------------------------------------------------------------------------------- */

static double side_rate(const struct world *w, const struct link_side *s)
{
    double own = w->cluster->links.bytes_per_second, server = w->cluster->server.bytes_per_second;
    double share = server > 0 ? server / s->n : INFINITY;
    return own > 0 && own < share ? own : share;
}

static void side_advance(struct world *w, struct link_side *s)
{
    if (s->n > 0) {
        s->got += (w->now - s->since) * side_rate(w, s);
    }
    s->since = w->now;
}

static void side_schedule(struct world *w, struct link_side *s)
{
    s->generation++;
    if (s->flows) {
        double left = s->flows->ends_at - s->got;
        double at = w->now + (left > 0 ? left / side_rate(w, s) : 0);
        push_event(w, at, (int)(s - w->sides), EVENT_LINK, s->flows, s->generation);
    }
}

static void side_add(struct world *w, struct link_side *s, struct parcel *p)
{
    struct parcel **before = &s->of_client[p->to < w->workers ? p->to : p->from];
    if (*before) {
        while (*before) {
            before = &(*before)->behind;
        }
        *before = p;
        return;
    }
    *before = p;
    side_advance(w, s);
    if (s->n == 0) {
        s->got = 0;
    }
    p->ends_at = s->got + p->cost;
    struct parcel **at = s->flows && s->last->ends_at <= p->ends_at ? &s->last->next : &s->flows;
    while (*at && (*at)->ends_at <= p->ends_at) {
        at = &(*at)->next;
    }
    p->next = *at;
    *at = p;
    s->last = p->next ? s->last : p;
    s->n++;
    side_schedule(w, s);
}

/* A header that is sent after bodies arrives with the last of them, so that a server that has it need not wait, and others with it. */
static bool side_ride(struct link_side *s, const struct world *w, struct parcel *header)
{
    struct parcel *last = s->of_client[header->to < w->workers ? header->to : header->from];
    while (last && last->behind) {
        last = last->behind;
    }
    if (last) {
        header->next = last->riders;
        last->riders = header;
    }
    return last != NULL;
}

static void side_finish(struct world *w, struct link_side *s)
{
    struct parcel *p = s->flows;
    side_advance(w, s);
    s->got = p->ends_at; /* exactly: no drift from rounding */
    s->flows = p->next;
    p->next = NULL;
    s->n--;
    s->of_client[p->to < w->workers ? p->to : p->from] = NULL;
    push_event(w, w->now + p->latency, p->to, EVENT_ARRIVE, p, 0);
    for (struct parcel *header = p->riders; header; header = p->riders) {
        p->riders = header->next;
        push_event(w, w->now + p->latency, p->to, EVENT_ARRIVE, header, 0);
    }
    side_schedule(w, s);
    if (p->behind) {
        side_add(w, s, p->behind);
        p->behind = NULL;
    }
}

/* ---- operations -----------------------------------------------------------------------------------------------
 *
 * transport_req.impl[0] is the state, impl[1] the operation that the message belongs to. */

static void posted_by(const struct sim_rank *r, struct transport_req *req)
{
    memset(req, 0, sizeof *req);
    req->impl[0] = REQ_BUSY;
    req->impl[1] = (uint64_t)(uintptr_t)r->stepping;
}

static void through(struct sim_rank *r, struct transport_req *req, uint64_t state)
{
    struct comm_op *op = (struct comm_op *)(uintptr_t)req->impl[1];
    req->impl[0] = state;
    if (op == NULL || op == r->stepping) {
        r->again = true;
        return;
    }
    if (r->n_ready == r->ready_room) {
        r->ready_room = r->ready_room ? 2 * r->ready_room : 8;
        r->ready = realloc(r->ready, (size_t)r->ready_room * sizeof(struct comm_op *));
        BUG_ON(!r->ready);
    }
    r->ready[r->n_ready++] = op;
}

static int step_op(struct sim_rank *r, struct comm_op *op)
{
    int rc;
    r->stepping = op;
    do {
        r->again = false;
        rc = op->step(op, &r->base);
    } while (rc == 0 && r->again);
    r->stepping = NULL;
    if (rc != 0) {
        op->finished = r->world->now;
        atomic_store(&op->state, rc);
    }
    return rc;
}

/* Steps what has got further. An operation that has ended is still there: its owner's fiber runs only after this. */
static void step_ops(struct sim_rank *r)
{
    for (int i = 0; i < r->n_ready; i++) {
        if (atomic_load(&r->ready[i]->state) == 0) {
            step_op(r, r->ready[i]);
        }
    }
    r->n_ready = 0;
    if (r->blocked && r->waiting && atomic_load(&r->waiting->state) != 0) {
        r->runnable = true;
    }
}

/* ---- rings ----------------------------------------------------------------------------------------------------
 *
 * With equal links a ring of S members that pass S chunks ends 2(S-1) messages of the largest chunk after its last member came: that chunk goes
 * round without a pause, and nobody can be faster than it. So more than a few members need no messages: S(S-1) events become one. */

enum { RING_BY_MESSAGES = 16 };

static bool same_group(const struct world *w, int a, int b)
{
    return w->cluster->groups && w->cluster->nodes[a].group == w->cluster->nodes[b].group;
}

static const struct virtual_link *link_between(const struct world *w, int a, int b)
{
    return same_group(w, a, b) ? &w->cluster->group_links : &w->cluster->links;
}

static bool links_are_equal(const struct world *w, const struct transport_ring *ring)
{
    const struct virtual_link *first = link_between(w, ring->members[0], ring->members[1]);
    for (int i = 1; i < ring->size; i++) {
        const struct virtual_link *other = link_between(w, ring->members[i], ring->members[(i + 1) % ring->size]);
        if (other != first && (other->latency_seconds != first->latency_seconds || other->bytes_per_second != first->bytes_per_second)) {
            return false;
        }
    }
    return true;
}

/* The one that others have come to, or a new one; NULL if its links are not all the same. */
static struct ring *ring_find(struct world *w, const struct transport_ring *ring)
{
    struct ring *spare = NULL;
    for (struct ring *r = w->rings; r; r = r->next) {
        if (r->serial && r->tag == ring->tag && r->first == ring->members[0] && r->joined >= 0 && r->joined < r->size) {
            return r;
        }
        spare = r->serial ? spare : r;
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
    size_t heavy = r->hollow + r->n - r->light, begin = chunk == r->size ? r->hollow + r->n : heavy * (size_t)chunk / (size_t)r->size;
    return begin > r->hollow ? begin - r->hollow : 0;
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Four at a time, whatever the compiler thinks of it: with a thousand members this is most of a step. */
static void add_below(float *sum, const float *own, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        *(four *)(sum + i) = *(const four *)(own + i) + *(four *)(sum + i);
    }
    for (; i < n; i++) {
        sum[i] = own[i] + sum[i];
    }
}

/* In the order of the messages: chunk c starts at member c and is added to by the next ones in turn. */
static void ring_add(struct world *w, const struct ring *r)
{
    for (int c = 0; c < r->size; c++) {
        size_t begin = ring_chunk(r, c), n = ring_chunk(r, c + 1) - begin;
        if (n == 0) {
            continue; /* hollow */
        }
        if (n > w->ring_room) {
            free(w->ring_sum);
            w->ring_sum = malloc(n * sizeof(float));
            BUG_ON(!w->ring_sum);
            w->ring_room = n;
        }
        memcpy(w->ring_sum, r->who[c].data + begin, n * sizeof(float));
        for (int k = 1; k < r->size; k++) {
            add_below(w->ring_sum, r->who[(c + k) % r->size].data + begin, n);
        }
        for (int k = 0; k < r->size; k++) {
            memcpy(r->who[k].data + begin, w->ring_sum, n * sizeof(float));
        }
    }
}

/* When a ring that takes so long ends: after those that its members' links still carry. */
static double ring_reserve(struct world *w, const struct ring *r, double seconds)
{
    int same = same_group(w, r->who[0].rank, r->who[1].rank);
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

static int sim_ring(struct transport *t, const struct transport_ring *ring, struct transport_req *req)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct world *w = me->world;
    struct ring *r = ring->size > RING_BY_MESSAGES ? ring_find(w, ring) : NULL;
    if (!r) {
        return -ERR_UNSUPPORTED;
    }
    posted_by(me, req);
    me->gathered = me->gathered || (me->free_sends && w->now > 0);
    r->who[ring->mine] = (struct ring_member){me->rank, ring->data, req};
    if (++r->joined == r->size) {
        const struct virtual_link *link = link_between(w, ring->members[0], ring->members[1]);
        double chunk = ceil((double)(r->hollow + r->n - r->light) / r->size) * sizeof(float);
        double once = link->latency_seconds + (link->bytes_per_second > 0 ? chunk / link->bytes_per_second : 0);
        push_event(w, me->free_sends ? w->now : ring_reserve(w, r, 2 * (r->size - 1) * once), r->first, EVENT_RING, NULL, r->serial);
    }
    return 0;
}

static void sim_weigh(struct transport *t, int64_t bytes)
{
    ((struct sim_rank *)t)->extra_bytes = bytes;
}

/* ---- messages ------------------------------------------------------------------------------------------------ */

static void match(struct sim_rank *to, struct parcel *p, struct posted *q)
{
    struct world *w = to->world;
    bool fits = p->bytes <= q->bytes;
    if (fits && p->bytes) {
        memcpy(q->data, p->data, p->bytes);
    }
    q->req->from = p->from;
    q->req->bytes = p->bytes;
    through(to, q->req, fits ? REQ_DONE : REQ_TOO_LONG);
    struct sim_rank *from = &w->ranks[p->from];
    through(from, p->send, REQ_DONE);
    if (from != to) {
        push_event(w, w->now, p->from, EVENT_WAKE, NULL, 0); /* its send is done */
    }
    p->next = w->spare_parcels;
    w->spare_parcels = p;
    q->next = w->spare_posted;
    w->spare_posted = q;
}

static bool agrees(const struct posted *q, const struct parcel *p)
{
    return q->tag == p->tag && (q->from == TRANSPORT_ANY || q->from == p->from);
}

static void arrive(struct sim_rank *to, struct parcel *p)
{
    for (struct posted **at = &to->posted; *at; at = &(*at)->next) {
        struct posted *q = *at;
        if (agrees(q, p)) {
            *at = q->next;
            if (!*at) {
                to->posted_tail = at;
            }
            match(to, p, q);
            return;
        }
    }
    int header = (p->tag & TRANSPORT_CONTROL) != 0;
    p->next = NULL;
    *to->arrived_tail[header] = p;
    to->arrived_tail[header] = &p->next;
}

/* When the last of so many bytes to another worker has left. */
static double leaves_at(const struct world *w, struct sim_rank *r, int to, double bytes)
{
    double *out_free = &r->out_free[same_group(w, r->rank, to)], bandwidth = link_between(w, r->rank, to)->bytes_per_second;
    if (bytes <= 0 || bandwidth <= 0) {
        return w->now;
    }
    *out_free = (*out_free > w->now ? *out_free : w->now) + bytes / bandwidth;
    return *out_free;
}

static int sim_send(struct transport *t, int to, int tag, const void *data, size_t bytes, struct transport_req *req)
{
    struct sim_rank *r = (struct sim_rank *)t;
    struct world *w = r->world;
    struct parcel *p = w->spare_parcels;
    if (p) {
        w->spare_parcels = p->next;
    } else if (!(p = malloc(sizeof *p))) {
        return -ERR_MEMORY;
    }
    double cost = (double)((int64_t)bytes + r->extra_bytes);
    r->extra_bytes = 0;
    *p = (struct parcel){.from = r->rank, .to = to, .tag = tag, .data = data, .bytes = bytes, .send = req, .cost = cost};
    posted_by(r, req);
    r->gathered = r->gathered || (r->free_sends && r->rank < w->workers && to < w->workers && w->now > 0);
    if (r->free_sends || (r->rank >= w->workers && to >= w->workers)) {
        push_event(w, w->now, to, EVENT_ARRIVE, p, 0);
        return 0;
    }
    int server = to >= w->workers ? to : r->rank;
    bool control = (tag & TRANSPORT_CONTROL) != 0; /* a header rides ahead of its body: latency alone */
    if (server < w->workers) {
        push_event(w, leaves_at(w, r, to, control ? 0 : cost) + link_between(w, r->rank, to)->latency_seconds, to, EVENT_ARRIVE, p, 0);
        return 0;
    }
    struct link_side *side = &w->sides[2 * (server - w->workers) + (server == r->rank)];
    p->latency = w->cluster->links.latency_seconds + w->cluster->server.latency_seconds;
    if (!control && (w->cluster->links.bytes_per_second > 0 || w->cluster->server.bytes_per_second > 0)) {
        side_add(w, side, p);
    } else if (!control || !side_ride(side, w, p)) {
        push_event(w, w->now + p->latency, to, EVENT_ARRIVE, p, 0);
    }
    return 0;
}

static int sim_recv(struct transport *t, int from, int tag, void *data, size_t bytes, struct transport_req *req)
{
    struct sim_rank *r = (struct sim_rank *)t;
    struct world *w = r->world;
    struct posted *q = w->spare_posted;
    if (q) {
        w->spare_posted = q->next;
    } else if (!(q = malloc(sizeof *q))) {
        return -ERR_MEMORY;
    }
    *q = (struct posted){from, tag, data, bytes, req, NULL};
    posted_by(r, req);
    int header = (tag & TRANSPORT_CONTROL) != 0;
    for (struct parcel **at = &r->arrived[header]; *at; at = &(*at)->next) {
        struct parcel *p = *at;
        if (agrees(q, p)) {
            *at = p->next;
            if (!*at) {
                r->arrived_tail[header] = at;
            }
            match(r, p, q);
            return 0;
        }
    }
    *r->posted_tail = q;
    r->posted_tail = &q->next;
    return 0;
}

static int sim_test(struct transport *t, struct transport_req *req)
{
    return req->impl[0] == REQ_DONE ? 1 : req->impl[0] == REQ_TOO_LONG ? -ERR_PEER : 0;
}

static int sim_cancel(struct transport *t, struct transport_req *req)
{
    struct sim_rank *r = (struct sim_rank *)t;
    for (struct posted **at = &r->posted; *at; at = &(*at)->next) {
        struct posted *q = *at;
        if (q->req == req) {
            *at = q->next;
            if (!*at) {
                r->posted_tail = at;
            }
            q->next = r->world->spare_posted;
            r->world->spare_posted = q;
            req->impl[0] = REQ_DONE;
            return 0;
        }
    }
    return 0;
}

/* ---- ranks --------------------------------------------------------------------------------------------------- */

static void sim_start(struct transport *t, struct comm_op *op)
{
    struct sim_rank *r = (struct sim_rank *)t;
    atomic_store(&op->state, 0);
    op->started = r->world->now;
    op->next = NULL;
    step_op(r, op);
}

static int sim_wait(struct transport *t, struct comm_op *op, double deadline)
{
    struct sim_rank *r = (struct sim_rank *)t;
    if (atomic_load(&op->state) != 0) {
        return atomic_load(&op->state);
    }
    r->waiting = op;
    r->blocked = true;
    r->deadline_passed = false;
    r->wait_generation++;
    /* virtual waits may be long where nodes are slow: only a deadlock ends them, see world_run */
    (void)deadline;
    fiber_yield();
    r->blocked = false;
    r->waiting = NULL;
    return atomic_load(&op->state);
}

static void sleep_until(struct sim_rank *r, double time)
{
    struct world *w = r->world;
    if (time <= w->now) {
        return;
    }
    r->blocked = true;
    r->waiting = NULL;
    push_event(w, time, r->rank, EVENT_DEADLINE, NULL, ++r->wait_generation);
    fiber_yield();
    r->blocked = false;
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
    .rank = sim_rank_of, .size = sim_size, .host = sim_host, .send = sim_send, .recv = sim_recv, .test = sim_test,
    .cancel = sim_cancel, .now = sim_now, .start = sim_start, .wait = sim_wait, .pace = sim_pace, .ring = sim_ring, .weigh = sim_weigh,
};

/* ---- the world ----------------------------------------------------------------------------------------------- */

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
        err_set(e, ERR_MEMORY, "cannot make a virtual cluster of %d ranks: memory ran out", workers + servers);
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
        struct event ev = pop_event(w);
        if (ev.kind == EVENT_ARRIVE) {
            free(ev.parcel);
        }
    }
    while (w->rings) {
        struct ring *next = w->rings->next;
        free(w->rings->who);
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

/* Runs a rank until it blocks, and again while what it did made it runnable. */
static void run_rank(struct sim_rank *r)
{
    if (fiber_ended(r->fiber)) {
        return;
    }
    do {
        r->runnable = false;
        fiber_resume(r->fiber);
        if (!fiber_ended(r->fiber)) {
            step_ops(r);
        }
    } while (r->runnable && !fiber_ended(r->fiber));
}

static void wake(struct sim_rank *r)
{
    step_ops(r);
    if (r->runnable) {
        run_rank(r);
    }
}

/* All members have the sum at once, and go on in the order of the ring. */
static void ring_ends(struct world *w, uint64_t serial)
{
    struct ring *r = w->rings;
    while (r && r->serial != serial) {
        r = r->next;
    }
    BUG_ON(!r);
    ring_add(w, r);
    for (int i = 0; i < r->size; i++) {
        through(&w->ranks[r->who[i].rank], r->who[i].req, REQ_DONE);
    }
    r->joined = -1; /* nobody joins, nobody takes it, until all have been woken */
    for (int i = 0; i < r->size; i++) {
        wake(&w->ranks[r->who[i].rank]);
    }
    r->serial = 0;
}

static void handle(struct world *w, const struct event *ev)
{
    if (ev->kind == EVENT_RING) {
        ring_ends(w, ev->generation);
        return;
    }
    if (ev->kind == EVENT_LINK) {
        struct link_side *s = &w->sides[ev->rank];
        if (ev->generation == s->generation) {
            side_finish(w, s);
        }
        return;
    }
    struct sim_rank *r = &w->ranks[ev->rank];
    if (ev->kind == EVENT_ARRIVE) {
        arrive(r, ev->parcel);
    } else if (ev->kind == EVENT_DEADLINE && ev->generation == r->wait_generation && !fiber_ended(r->fiber)) {
        r->runnable = true;
    }
    wake(r);
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
    return n == 0 ? 0 : err_set(e, ERR_INTERNAL, "the virtual cluster stands still at %g s: %d ranks wait for a message that nobody sends (%s)", w->now, n, names);
}

int world_run(struct world *w, struct err *e)
{
    for (int i = w->size - 1; i >= 0; i--) { /* servers first, so that they listen */
        run_rank(&w->ranks[i]);
    }
    while (w->n_heap > 0) {
        struct event ev = pop_event(w);
        w->now = ev.time;
        w->events++;
        handle(w, &ev);
    }
    return deadlock(w, e);
}

double world_now(const struct world *w)
{
    return w->now;
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

/* An evaluation in which all workers take part is a barrier, and still costs nothing: each goes on at the time at which it came. So the clock goes
 * back to the first of them, which nobody sees: all have left before one goes on, and no message between them is under way. */
static void give_back(struct sim_rank *r)
{
    struct world *w = r->world;
    r->gathered = false;
    r->blocked = true;
    r->waiting = NULL;
    r->wait_generation++;
    if (++w->n_back == w->workers) {
        w->n_back = 0;
        for (int i = 0; i < w->workers; i++) {
            struct sim_rank *k = &w->ranks[i];
            push_event(w, k->free_since, i, EVENT_DEADLINE, NULL, k->wait_generation);
            w->now = k->free_since < w->now ? k->free_since : w->now;
        }
    }
    fiber_yield();
    r->blocked = false;
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
