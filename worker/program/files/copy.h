/* A rank's own copy of an uploaded program: unpacked into a new folder for this run alone, and
 * removed with the rank, so that a program may write where it stands and no other run sees it. What
 * is unpacked has the digest that the job names, or the rank ends.
 *
 *     the coordinator's host   DATA/uploads/DIGEST.tar           is there
 *     a host with an agent     its folder of received data sets  kept there once the keeper sent it
 *
 * Copies that a killed rank left behind are removed by the next one of the host.
 */
#ifndef WORKER_PROGRAM_FILES_COPY_H
#define WORKER_PROGRAM_FILES_COPY_H

#include <limits.h>
#include <stdbool.h>

#include "worker/data/files/received.h"
#include "worker/exchange/transport/comm.h"
#include "worker/program/files/own_folder.h"
#include "worker/telemetry.h"

struct copy_ask {
    struct comm *comm; /* borrowed, as all */
    struct telemetry *telemetry;
    const char *digest, *archive; /* the coordinator's file */
    struct received received;     /* with a folder: this host's own, in place of that file */
    bool works;                   /* this rank starts a program; others only pass it on */
    bool alone;                   /* it takes the seat of one that died: nobody sends it anything */
};

/* Collective, unless `alone`: every rank of the attempt calls it. Needs own_folder_remove in any
 * case. */
int copy_open(struct own_folder *c, const struct copy_ask *ask, struct err *e);
/* An empty folder of such a kind beneath `base`. */
int copy_folder(struct own_folder *c, const char *base, struct err *e);

#endif
