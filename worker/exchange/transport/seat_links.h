/* The links of a rank (seat_link.h): of the keeper to the workers that have joined, of such a
 * worker to the keeper, and where ranks talk to each other to them. Empty in an attempt that nobody
 * joins.
 *
 * A rank's door is a name of this host, that of the attempt and the rank's number; in an attempt on
 * several hosts it is a port (seat_far.h). */
#ifndef WORKER_EXCHANGE_SEAT_LINKS_H
#define WORKER_EXCHANGE_SEAT_LINKS_H

#include "worker/exchange/transport/seat_far.h"

enum { SEATS_MOST = 4096 }; /* workers that join one attempt */

struct seat_links {
    struct seat_link *_Atomic *of; /* [size] of `all`, or NULL: MPI reaches that rank; owned */
    int rank, size;
    struct seat_link *all[SEATS_MOST]; /* [n] also those to workers that died, to which what was
                                          under way refers; owned */
    _Atomic int n;
    char attempt[64]; /* begins the names of doors; "": nobody joins */
    int door_fd;      /* -1: not open yet */
    unsigned user;    /* that those who join may be, besides our own */
    struct seat_far far;
};

int seat_links_init(struct seat_links *s, int rank, int size, struct err *e);
void seat_links_release(struct seat_links *s); /* also of one that is all zero */
void seat_links_name(struct seat_links *s, const char *attempt, unsigned user);
/* As transport_ops.admit, which opens the door, too, and .open_door. */
int seat_links_admit(struct seat_links *s, const int *seats, int workers);
void seat_links_open_door(struct seat_links *s);
/* A rank's door, which is that of `user`, and the seat of the worker that comes to it. */
struct seat_knock {
    int rank;
    unsigned user;
    int seat;
    double seconds; /* it waits for as long until there is one */
};
/* As transport_ops.reach. */
int seat_links_reach(struct seat_links *s, const struct seat_knock *k, struct err *e);

/* Has this rank joined by a door, and is it there? */
bool seat_links_has(const struct seat_links *s, int rank);

/* The communication thread's: */
static inline struct seat_link *seat_links_to(const struct seat_links *s, int rank)
{
    return rank >= 0 && s->n > 0 ? s->of[rank] : NULL;
}
/* One with a message of this tag, and whose it is; NULL: none has. */
struct seat_link *seat_links_with(const struct seat_links *s, int tag, int *rank);

#endif
