/* What the files of the virtual transport share, and no other file includes: the world with its
 * ranks, events, messages, links and rings.
 *
 *   comm_sim.c      the transport's table, the loop over events
 *   ranks.c         ranks in fibers, and their operations
 *   events.c        the events in their order
 *   messages.c      sends, receives, a worker's last message
 *   server_link.c   a server's link, shared by its clients
 *   rings.c         an all-reduce round a ring as one event
 */
#ifndef SIMULATOR_WORLD_H
#define SIMULATOR_WORLD_H

#include "simulator/comm_sim.h"
#include "simulator/fiber.h"

enum event_kind { EVENT_WAKE, EVENT_ARRIVE, EVENT_LINK, EVENT_DEADLINE, EVENT_RING };

struct parcel { /* a message under way or not yet received */
    int from, to, tag;
    const void *data;
    size_t bytes;
    struct transport_req *send;
    double cost; /* in bytes */
    double latency;
    double ends_at; /* link counter at which its last byte is through */
    /* the next parcel of the same client and direction: begins when this one's bytes are through */
    struct parcel *behind;
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
    uint64_t order; /* in one instant: the rank that caused it, then when it was made */
    int rank;
    enum event_kind kind;
    struct parcel *parcel;
    uint64_t generation; /* of a link or a wait: events of an older generation are void; of a ring:
                            its serial */
};

/* An all-reduce round a ring that is run as one event, with the members that joined so far. */
struct ring {
    uint64_t serial; /* 0: free */
    int tag, first, size, joined;
    size_t n, hollow, light;
    struct ring_member {
        int rank;
        float *data, **sum; /* sum: NULL, or gets the address of the sum */
        struct transport_req *req;
    } * who; /* [size] by index in the ring */
    int room;
    float *sum; /* [sum_room] the sum, for members that read it here */
    size_t sum_room;
    bool read; /* members still read `sum`, until all have begun the next ring */
    struct ring *next;
};

struct link_side { /* one direction of one server's link */
    struct parcel *flows, *last;
    /* [workers] the client's transfer, or NULL: a client sends one message after the other */
    struct parcel **of_client;
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
    struct comm_op **ready; /* operations whose messages have come or gone; one may be listed
                               twice */
    int n_ready, ready_room;
    bool again; /* a message of the operation that is being stepped arrived meanwhile */
    bool deadline_passed, free_sends, runnable;
    uint64_t wait_generation;
    int64_t extra_bytes; /* bytes that are added to the next message's cost */
    struct parcel *arrived[2],
        **arrived_tail[2]; /* bodies, headers: many headers may wait for one body */
    struct posted *posted, **posted_tail;
    double step_start, step_factor;
    double free_since; /* when the free part (world_set_free) began */
    bool gathered;     /* it has exchanged with other workers in it */
    /* when everything sent so far has left: to other ranks, and to members of its group */
    double out_free[2];
    int64_t steps;
};

struct world {
    const struct cluster *cluster;
    int workers, size;
    double now;
    struct sim_rank *ranks;
    int n_back; /* workers that have left a free meeting of all workers, see give_back() */
    struct event *heap;
    size_t n_heap, heap_room;
    uint64_t serial;
    int64_t events;
    struct link_side *sides;   /* [servers][2]: to the server, from it */
    struct parcel **of_client; /* [servers][2][workers] */
    struct parcel *spare_parcels;
    struct posted *spare_posted;
    struct ring *rings;
    float *ring_sum; /* [ring_room] */
    size_t ring_room;
};

/* values of transport_req.impl[0] */
enum { REQ_BUSY = 1, REQ_DONE = 2, REQ_TOO_LONG = 3 };

/* ---- events.c -------------------------------------------------------------------------------- */
void events_push(struct world *w, double time, int rank, enum event_kind kind, struct parcel *p,
                 uint64_t generation);
struct event events_pop(struct world *w); /* the earliest event; there must be one */

/* ---- server_link.c --------------------------------------------------------------------------- */
/* Sends the parcel's bytes over this side, from now on or once earlier parcels of the same client
 * are through. */
void server_link_add(struct world *w, struct link_side *s, struct parcel *p);
/* Lets a header that is sent after bodies arrive with the last of them, so that a server which has
 * received it need not wait for the bodies, nor make other clients wait. False: no bodies are under
 * way, and the header travels by itself. */
bool server_link_ride(const struct world *w, struct link_side *s, struct parcel *header);
void server_link_finish(struct world *w,
                        struct link_side *s); /* the last byte of the first transfer is through */

/* ---- messages.c: the transport's operations -------------------------------------------------- */
int messages_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                  struct transport_req *req);
int messages_recv(struct transport *t, int from, int tag, void *data, size_t bytes,
                  struct transport_req *req);
int messages_test(struct transport *t, struct transport_req *req);
int messages_cancel(struct transport *t, struct transport_req *req);
void messages_weigh(struct transport *t, int64_t bytes);
void messages_arrive(struct sim_rank *to, struct parcel *p);

/* ---- rings.c --------------------------------------------------------------------------------- */
int rings_join(struct transport *t, const struct transport_ring *ring,
               struct transport_req *req);        /* transport_ops.ring */
void rings_end(struct world *w, uint64_t serial); /* the time of EVENT_RING has come */

/* ---- ranks.c --------------------------------------------------------------------------------- */
/* A message of the operation that is being stepped is under way; a message has ended. */
void world_posted(const struct sim_rank *r, struct transport_req *req);
void world_through(struct sim_rank *r, struct transport_req *req, uint64_t state);
/* Steps an operation of the rank, and returns its state. */
int world_step(struct sim_rank *r, struct comm_op *op);
/* Runs a rank until it blocks, and again while what it did made it runnable. */
void world_run_rank(struct sim_rank *r);
/* Steps the rank's operations that are in `ready`, and resumes the rank if it can go on. */
void world_wake(struct sim_rank *r);

static inline bool world_same_group(const struct world *w, int a, int b)
{
    return w->cluster->groups && w->cluster->nodes[a].group == w->cluster->nodes[b].group;
}

static inline const struct virtual_link *world_link_between(const struct world *w, int a, int b)
{
    return world_same_group(w, a, b) ? &w->cluster->group_links : &w->cluster->links;
}

#endif
