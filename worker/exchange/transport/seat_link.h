/* Link: messages between two ranks over a socket of this host, of which one is a worker that has
 * taken the seat of one that died (docs/decisions/0049): MPI connects only ranks that start
 * together. Messages of one tag arrive in order, as transport.h asks for.
 *
 * A link is used by one thread, the communication thread. Whatever becomes of the other end, a
 * message to it counts as sent, and a receive stays under way: as MPI has it with a rank that died.
 */
#ifndef WORKER_EXCHANGE_SEAT_LINK_H
#define WORKER_EXCHANGE_SEAT_LINK_H

#include "common/sign.h"
#include "worker/exchange/transport/transport.h"

struct seat_link;

struct seat_link *seat_link_new(int fd); /* takes the socket over; NULL: memory ran out */
void seat_link_free(struct seat_link *l);
/* Before anything is sent or received: these bytes go first; or, of the other end, are to come
 * first, and the link breaks where others do. */
bool seat_link_begin_with(struct seat_link *l, const struct sign_key *proof); /* false: memory */
void seat_link_expect(struct seat_link *l, const struct sign_key *proof);

/* transport_ops.send, .recv and .test. `r` has the link in impl[0]. */
int seat_link_send(struct seat_link *l, int tag, const void *data, size_t bytes,
                   struct transport_req *r);
int seat_link_recv(struct seat_link *l, int tag, void *data, size_t bytes, struct transport_req *r);
int seat_link_test(struct transport_req *r);
/* Moves what can be moved; did anything? */
bool seat_link_pump(struct seat_link *l);
/* A whole message of this tag has come, and no receive took it. */
bool seat_link_has(struct seat_link *l, int tag);
bool seat_link_is_broken(const struct seat_link *l); /* the other end is gone */

/* ---- how the two ends meet ------------------------------------------------------------------- */

struct seat_hello { /* what a worker says first */
    int32_t rank;
    int32_t seat; /* how often the rank's seat was taken again, this time included */
};

/* A name of this host, without a file, at which a rank can be reached: a socket, or negative. */
int seat_door_open(const char *name, struct err *e);
/* The next worker that waits there and has said who it is: its socket, or negative: none does.
 * Processes of other users than these two are turned away. */
int seat_door_answer(int door, unsigned user, unsigned other, struct seat_hello *out);
/* Connects to the door, which must be this user's, and waits at most `seconds` for it: a socket, or
 * negative. */
int seat_door_knock(const char *name, unsigned user, const struct seat_hello *hello, double seconds,
                    struct err *e);

#endif
