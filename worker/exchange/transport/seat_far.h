/* Doors of an attempt whose ranks are on several hosts (docs/decisions/0103): ports in the network
 * that Open MPI has. seat_door.c has those of an attempt on one host.
 *
 *      rank ── opens a door, tells where ──► heartbeat ─► coordinator ─► control ─► newcomer
 *      newcomer ── hello, with its proof ──► the rank's door: waits there until it is let in
 *      rank ── the answer's proof ──► newcomer, before the first message
 *
 * Both prove that they have a key: of the keeper and a worker that worker's own (job/seal.h), of
 * two workers one that the attempt's ranks have in common. A hello names seat and door and counts
 * once, so one that was overheard opens nothing. What follows is as open to the network as what MPI
 * sends.
 */
#ifndef WORKER_EXCHANGE_SEAT_FAR_H
#define WORKER_EXCHANGE_SEAT_FAR_H

#include "common/sign.h"
#include "job/documents/document.h"
#include "worker/exchange/transport/seat_link.h"

struct seat_far {
    bool used;                 /* else doors are names of this host, and the rest is not there */
    char address[64];          /* of this host, IPv4 */
    int first_port, last_port; /* that a door may have; 0, 0: any */
    int keeper;                /* the rank */
    struct sign_key among;     /* the key that the ranks have in common */
    void *ctx;                 /* of the calls: */
    /* Of the keeper: the worker's own key. Of that worker: its own. */
    void (*key_of)(void *ctx, int worker, struct sign_key *out);
    void (*tell)(void *ctx, const char *door);
    /* Where this rank's door is, DOCUMENT_DOOR bytes; false: nobody has told yet. */
    bool (*find)(void *ctx, int rank, char *out);
};

/* What a worker says at a door, and what it is answered. */
struct seat_visit {
    const char *attempt;
    int door; /* whose it is */
    struct seat_hello hello;
};

/* Opens this rank's door, and tells where it is: a socket, or negative. */
int seat_far_open(const struct seat_far *f, struct err *e);
/* The next worker that waits there and has proved who it is: its socket, or negative: none does.
 * v: attempt and door; gets the hello. */
int seat_far_answer(const struct seat_far *f, int door, struct seat_visit *v);
/* Connects to the door of v->door once it is known, and waits at most `seconds` for it: a socket,
 * or negative. */
int seat_far_knock(const struct seat_far *f, const struct seat_visit *v, double seconds,
                   struct err *e);
/* What the newcomer is to be answered first. */
void seat_far_prove(const struct seat_far *f, const struct seat_visit *v, struct sign_key *out);

#endif
