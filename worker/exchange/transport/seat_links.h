/* The links of a rank (seat_link.h). The keeper has links to the workers that have joined. Such a
 * worker has one to the keeper, and links to other ranks where ranks talk to each other. There are
 * none in an attempt that nobody joins.
 *
 * A rank's door is a name of this host, made of the attempt's name and the rank's number. In an
 * attempt on several hosts it is a port (seat_far.h). */
#ifndef WORKER_EXCHANGE_SEAT_LINKS_H
#define WORKER_EXCHANGE_SEAT_LINKS_H

#include "worker/exchange/transport/seat_far.h"

enum { SEATS_MOST = 4096 }; /* workers that join one attempt */

struct seat_links {
    struct seat_link *_Atomic *of; /* [size] of `all`, or NULL: MPI reaches that rank; owned */
    int rank, size;
    struct seat_link *all[SEATS_MOST]; /* [n] also links to workers that died, since operations
                                          under way may refer to them; owned */
    _Atomic int n;
    char attempt[64]; /* the doors' names begin with it; "": nobody joins */
    int door_fd;      /* -1: not open yet */
    unsigned user;    /* the user that newcomers may be, besides our own */
    struct seat_far far;
};

int seat_links_init(struct seat_links *s, int rank, int size, struct err *e);
void seat_links_release(struct seat_links *s); /* a struct of zeros is allowed */
void seat_links_name(struct seat_links *s, const char *attempt, unsigned user);
/* See transport_ops.admit, which also opens the door, and .open_door. */
int seat_links_admit(struct seat_links *s, const int *seats, int workers);
void seat_links_open_door(struct seat_links *s);
/* A rank's door, which belongs to `user`, and the seat of the worker that comes to it. */
struct seat_knock {
    int rank;
    unsigned user;
    int seat;
    double seconds; /* how long it waits for the door */
};
/* See transport_ops.reach. */
int seat_links_reach(struct seat_links *s, const struct seat_knock *k, struct err *e);

/* Has this rank joined by a door, and is its link still open? */
bool seat_links_has(const struct seat_links *s, int rank);

/* Only the communication thread calls these two. */
static inline struct seat_link *seat_links_to(const struct seat_links *s, int rank)
{
    return rank >= 0 && s->n > 0 ? s->of[rank] : NULL;
}
/* A link with a message of this tag, and its rank; NULL: no link has one. */
struct seat_link *seat_links_with(const struct seat_links *s, int tag, int *rank);

#endif
