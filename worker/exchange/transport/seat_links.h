/* The links of a rank (seat_link.h): of the keeper to the workers that have joined, of such a
 * worker to the keeper. Empty in an attempt that nobody joins. */
#ifndef WORKER_EXCHANGE_SEAT_LINKS_H
#define WORKER_EXCHANGE_SEAT_LINKS_H

#include "worker/exchange/transport/seat_link.h"

enum { SEATS_MOST = 256 }; /* workers that join one attempt */

struct seat_links {
    struct seat_link *_Atomic *of; /* [size] of `all`, or NULL: MPI reaches that rank; owned */
    int size;
    struct seat_link *all[SEATS_MOST]; /* [n] also those to workers that died, to which what was
                                          under way refers; owned */
    _Atomic int n;
    char door[64]; /* where workers that join find the keeper; "": nowhere */
    int door_fd;   /* -1: not open yet */
    unsigned user; /* that they may be, besides our own */
};

int seat_links_init(struct seat_links *s, int size, struct err *e);
void seat_links_release(struct seat_links *s); /* also of one that is all zero */
void seat_links_open(struct seat_links *s, const char *door, unsigned user);
/* As transport_ops.admit. */
int seat_links_admit(struct seat_links *s, const int *seats, int workers);
/* Of a worker: reaches the keeper, which runs as `user` and has to let it in. */
int seat_links_join(struct seat_links *s, int keeper, const char *door, unsigned user,
                    const struct seat_hello *hello, struct err *e);

/* The communication thread's: */
static inline struct seat_link *seat_links_to(const struct seat_links *s, int rank)
{
    return rank >= 0 && s->n > 0 ? s->of[rank] : NULL;
}
/* One with a message of this tag, and whose it is; NULL: none has. */
struct seat_link *seat_links_with(const struct seat_links *s, int tag, int *rank);

#endif
