/* Messages of a virtual world. A message exists from its send until a receive of its destination
 * matches it (by sender and tag, in order of arrival). Its bytes stay with the sender until then,
 * and the send is done when the receiver has taken them. Bytes that the sender lends are not copied
 * even then: the receiver reads them in place.
 *
 * A worker sends over one link to its group and one to the others: messages to other workers leave
 * one after the other, so that concurrent reductions of several buckets take at least the time of
 * their bytes. Headers and messages without cost do not queue. Messages to or from a server take
 * the server's link (server_link.c). */
#include <stdlib.h>
#include <string.h>

#include "simulator/world.h"

static void match(struct sim_rank *to, struct parcel *p, struct posted *q)
{
    struct world *w = to->world;
    bool fits = p->bytes <= q->bytes, lent = (p->tag & TRANSPORT_LENT) != 0;
    if (fits && p->bytes && !lent) {
        memcpy(q->data, p->data, p->bytes);
    }
    q->req->from = p->from;
    q->req->bytes = p->bytes;
    q->req->at = lent ? (void *)(uintptr_t)p->data : q->data;
    world_through(to, q->req, fits ? REQ_DONE : REQ_TOO_LONG);
    struct sim_rank *from = &w->ranks[p->from];
    world_through(from, p->send, REQ_DONE);
    if (from != to) {
        events_push(w, w->now, p->from, EVENT_WAKE, NULL, 0); /* the sender's send is done */
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

void messages_arrive(struct sim_rank *to, struct parcel *p)
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

/* The time at which the last of these bytes to another worker has left. */
static double leaves_at(const struct world *w, struct sim_rank *r, int to, double bytes)
{
    double *out_free = &r->out_free[world_same_group(w, r->rank, to)],
           bandwidth = world_link_between(w, r->rank, to)->bytes_per_second;
    if (bytes <= 0 || bandwidth <= 0) {
        return w->now;
    }
    *out_free = (*out_free > w->now ? *out_free : w->now) + bytes / bandwidth;
    return *out_free;
}

int messages_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                  struct transport_req *req)
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
    *p = (struct parcel){.from = r->rank,
                         .to = to,
                         .tag = tag,
                         .data = data,
                         .bytes = bytes,
                         .send = req,
                         .cost = cost};
    world_posted(r, req);
    r->gathered =
        r->gathered || (r->free_sends && r->rank < w->workers && to < w->workers && w->now > 0);
    if (r->free_sends || (r->rank >= w->workers && to >= w->workers)) {
        events_push(w, w->now, to, EVENT_ARRIVE, p, 0);
        return 0;
    }
    int server = to >= w->workers ? to : r->rank;
    bool control =
        (tag & TRANSPORT_CONTROL) != 0; /* a header precedes its body and costs the latency alone */
    if (server < w->workers) {
        events_push(w,
                    leaves_at(w, r, to, control ? 0 : cost) +
                        world_link_between(w, r->rank, to)->latency_seconds,
                    to, EVENT_ARRIVE, p, 0);
        return 0;
    }
    struct link_side *side = &w->sides[2 * (server - w->workers) + (server == r->rank)];
    p->latency = w->cluster->links.latency_seconds + w->cluster->server.latency_seconds;
    if (!control &&
        (w->cluster->links.bytes_per_second > 0 || w->cluster->server.bytes_per_second > 0)) {
        server_link_add(w, side, p);
    } else if (!control || !server_link_ride(w, side, p)) {
        events_push(w, w->now + p->latency, to, EVENT_ARRIVE, p, 0);
    }
    return 0;
}

int messages_recv(struct transport *t, int from, int tag, void *data, size_t bytes,
                  struct transport_req *req)
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
    world_posted(r, req);
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

int messages_test(struct transport *t, struct transport_req *req)
{
    return req->impl[0] == REQ_DONE ? 1 : req->impl[0] == REQ_TOO_LONG ? -ERR_CONFLICT : 0;
}

int messages_cancel(struct transport *t, struct transport_req *req)
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

void messages_weigh(struct transport *t, int64_t bytes)
{
    ((struct sim_rank *)t)->extra_bytes = bytes;
}
