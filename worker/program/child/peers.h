/* Where the programs of one job meet for exchanges of their own: the collectives of a program that
 * was written for DistributedDataParallel (client/python/evenstep/peers.py). Rank 0 listens before
 * any program is started, and its program inherits the socket, so whoever connects is served
 * whichever program starts first. The key is made anew for each attempt; programs prove to each
 * other that they have it.
 */
#ifndef WORKER_PROGRAM_CHILD_PEERS_H
#define WORKER_PROGRAM_CHILD_PEERS_H

#include "job/spec/spec.h"
#include "worker/exchange/transport/comm.h"

struct peers {
    int listener;     /* rank 0's; -1 elsewhere, and where nobody meets */
    char address[64]; /* of rank 0, numeric; "": nobody meets */
    int port;
    char key[65]; /* hexadecimal */
};

/* Collective: every rank of the attempt calls it. p needs peers_close either way. */
int peers_open(struct peers *p, struct comm *c, struct err *e);
void peers_close(struct peers *p);

#endif
