/* Programs that were written for DistributedDataParallel have collectives of their own
 * (client/python/evenstep/peers.py), for which the programs of a job meet here. Rank 0 listens
 * before any program is started, and its program inherits the socket. So the order in which they
 * start does not matter. Each attempt has a key of its own, and programs prove to each other that
 * they have it.
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
