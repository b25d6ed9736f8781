/* A server's link, one side for each direction: n transfers in one direction each get min(client's
 * bandwidth, server's / n). All have the same rate, so one counter per direction, the bytes that
 * every transfer has got so far, orders their ends without touching them all. A client sends one
 * message after the other, so it has one transfer at a time in each direction. */
#include <math.h>

#include "simulator/world.h"

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
        events_push(w, at, (int)(s - w->sides), EVENT_LINK, s->flows, s->generation);
    }
}

void server_link_add(struct world *w, struct link_side *s, struct parcel *p)
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

bool server_link_ride(const struct world *w, struct link_side *s, struct parcel *header)
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

void server_link_finish(struct world *w, struct link_side *s)
{
    struct parcel *p = s->flows;
    side_advance(w, s);
    s->got = p->ends_at; /* set exactly, so that rounding does not add up */
    s->flows = p->next;
    p->next = NULL;
    s->n--;
    s->of_client[p->to < w->workers ? p->to : p->from] = NULL;
    events_push(w, w->now + p->latency, p->to, EVENT_ARRIVE, p, 0);
    for (struct parcel *header = p->riders; header; header = p->riders) {
        p->riders = header->next;
        events_push(w, w->now + p->latency, p->to, EVENT_ARRIVE, header, 0);
    }
    side_schedule(w, s);
    if (p->behind) {
        server_link_add(w, s, p->behind);
        p->behind = NULL;
    }
}
