/* A cache of answers, for some milliseconds, of routes whose line says `shared`. Many clients that
 * ask for one job at the same time cost the store one query every few milliseconds, not one each.
 *
 *   age 0 to RENEW      the answer is given again
 *   RENEW to KEEP       the next who asks makes a new one, the others still get this one
 *   beyond KEEP         the next who asks makes a new one, the others wait for it
 *
 * RENEW is 10 ms and KEEP 50 ms, of an answer that takes long to make twice and four times as long
 * as that took, 250 ms at most: making a page of 500 jobs never takes all of the service's time.
 *
 * A change over HTTP is in every later answer: it expires all kept answers at once
 * (recent_changed), and an answer begun before the change is neither kept nor waited for. A client
 * that received an event about a job's state (stream.c) also gets that state in every later answer.
 * Other changes by the coordinator may be KEEP late.
 */
#ifndef HTTP_ANSWER_RECENT_H
#define HTTP_ANSWER_RECENT_H

#include <stdbool.h>

struct recent;
struct text;

/* A request that can wait for an answer which another one makes. The struct belongs to the caller,
 * and stays valid until wake() was called. Both functions are called without any lock of the
 * caller's; wait() under the cache's own. */
struct recent_waiter {
    struct recent_waiter *next;
    void (*wait)(struct recent_waiter *w);
    void (*wake)(struct recent_waiter *w); /* ask again */
};

/* Held by the request that makes an answer, for which others may wait. */
struct recent_ticket {
    int place;   /* -1: nobody waits for it, and it is not kept */
    long serial; /* of this making */
    double begun;
};

enum recent_found {
    RECENT_MAKE,  /* make it, then call recent_made with the ticket */
    RECENT_GIVEN, /* *answer is a reference, the caller's */
    RECENT_WAITS  /* the waiter will be woken */
};

struct recent *recent_new(void);    /* NULL: memory ran out */
void recent_free(struct recent *r); /* NULL is fine */
/* The answer that is kept under `key` (a request's target). */
enum recent_found recent_get(struct recent *r, const char *key, struct recent_waiter *w,
                             struct recent_ticket *ticket, struct text **answer);
/* Keeps the answer, with a reference of its own, unless something has changed since its making
 * began; NULL: there is none. Wakes all that wait for it, either way. */
void recent_made(struct recent *r, const struct recent_ticket *ticket, struct text *answer);
void recent_changed(struct recent *r);

#endif
