/* Link: messages between two ranks over a socket. One of the two is a newcomer that has taken the
 * seat of a dead worker (docs/decisions/0049); MPI connects only ranks that start together.
 * Messages of one tag arrive in order, as transport.h requires.
 *
 * Only the communication thread uses a link. If the other end is gone, a message to it counts as
 * sent and a receive stays under way, as over MPI with a rank that died.
 */
#ifndef WORKER_EXCHANGE_SEAT_LINK_H
#define WORKER_EXCHANGE_SEAT_LINK_H

#include "common/sign.h"
#include "worker/exchange/transport/transport.h"

struct seat_link;

struct seat_link *seat_link_new(int fd); /* owns the socket from then on; NULL: memory ran out */
void seat_link_free(struct seat_link *l);
/* Call them before anything is sent or received. The first sends these bytes before all messages.
 * The second expects them from the other end, and breaks the link if other bytes come. */
bool seat_link_begin_with(struct seat_link *l, const struct sign_key *proof); /* false: memory */
void seat_link_expect(struct seat_link *l, const struct sign_key *proof);

/* See transport_ops.send, .recv and .test. `r` has the link in impl[0]. */
int seat_link_send(struct seat_link *l, int tag, const void *data, size_t bytes,
                   struct transport_req *r);
int seat_link_recv(struct seat_link *l, int tag, void *data, size_t bytes, struct transport_req *r);
int seat_link_test(struct transport_req *r);
/* Sends and receives what it can without blocking. True: some bytes moved. */
bool seat_link_pump(struct seat_link *l);
/* Has a whole message of this tag come that no receive has taken? */
bool seat_link_has(struct seat_link *l, int tag);
bool seat_link_is_broken(const struct seat_link *l); /* the other end is gone */

/* ---- how the two ends meet ------------------------------------------------------------------- */

struct seat_hello { /* what a worker says first */
    int32_t rank;
    int32_t seat; /* how often the rank has been started again, this time included */
};

/* Opens a name of this host, without a file, at which a rank can be reached. Returns a socket, or
 * negative. */
int seat_door_open(const char *name, struct err *e);
/* The socket of the next worker that waits there and has said who it is; negative: none waits. It
 * turns away processes of other users than these two. */
int seat_door_answer(int door, unsigned user, unsigned other, struct seat_hello *out);
/* Connects to the door, which must be this user's, and waits at most `seconds` for it. Returns a
 * socket, or negative. */
int seat_door_knock(const char *name, unsigned user, const struct seat_hello *hello, double seconds,
                    struct err *e);

#endif
