/* Doors of an attempt whose ranks are on several hosts (docs/decisions/0103): ports in the network
 * that Open MPI uses. seat_door.c has those of an attempt on one host.
 *
 *      rank ── opens a door, tells where ──► heartbeat ─► coordinator ─► control ─► newcomer
 *      newcomer ── hello, with its proof ──► the rank's door: waits there until it is let in
 *      rank ── the answer's proof ──► newcomer, before the first message
 *
 * Both sides prove that they have a key. Between the keeper and a worker it is that worker's own
 * (job/seal.h); between two workers it is the one that the attempt's ranks have in common. A hello
 * names seat and door and counts once, so an overheard hello opens nothing. What follows is as
 * readable in the network as what MPI sends.
 */
#ifndef WORKER_EXCHANGE_SEAT_FAR_H
#define WORKER_EXCHANGE_SEAT_FAR_H

#include "common/sign.h"
#include "job/documents/document.h"
#include "worker/exchange/transport/seat_link.h"

struct seat_far {
    bool used;                 /* false: doors are names of this host, and the other fields are not
                                  set */
    char address[64];          /* of this host, IPv4 */
    int first_port, last_port; /* the ports that a door may have; 0, 0: any */
    int keeper;                /* the rank */
    struct sign_key among;     /* the key that the ranks have in common */
    void *ctx;                 /* passed to the calls below */
    /* The worker's own key, for the keeper and for that worker. */
    void (*key_of)(void *ctx, int worker, struct sign_key *out);
    void (*tell)(void *ctx, const char *door);
    /* Where this rank's door is, DOCUMENT_DOOR bytes; false: not known yet. */
    bool (*find)(void *ctx, int rank, char *out);
};

/* A worker's visit at a door. */
struct seat_visit {
    const char *attempt;
    int door; /* the rank whose door it is */
    struct seat_hello hello;
};

/* Opens this rank's door, and tells where it is: a socket, or negative. */
int seat_far_open(const struct seat_far *f, struct err *e);
/* The socket of the next worker that waits there and has proved who it is; negative: none waits.
 * `v` names attempt and door, and gets the hello. */
int seat_far_answer(const struct seat_far *f, int door, struct seat_visit *v);
/* Connects to the door of rank v->door, and waits at most `seconds` until it is known and open.
 * Returns a socket, or negative. */
int seat_far_knock(const struct seat_far *f, const struct seat_visit *v, double seconds,
                   struct err *e);
/* The proof with which the door's answer to a newcomer begins. */
void seat_far_prove(const struct seat_far *f, const struct seat_visit *v, struct sign_key *out);

#endif
