/* How one program enters its rank: it is started, describes itself, gets the block, and fills it.
 * That happens at the attempt's start (join.c), and again when the program has ended (again.c).
 * Inside worker/program only. */
#ifndef WORKER_PROGRAM_START_ENTER_H
#define WORKER_PROGRAM_START_ENTER_H

#include "worker/program/program.h"

struct entry { /* where the program begins */
    bool resumed;
    int64_t epoch, step;
};

/* Starts the process and waits for its JOIN. *about needs description_release after success. */
int enter_start(struct program *p, struct description *about, struct err *e);
/* Sends WELCOME with the block, and with p->state if there is one, and waits for READY: the block
 * then holds the program's own first parameters and statistics. */
int enter_welcome(struct program *p, const struct entry *at, struct err *e);
/* Ends the process and closes the link; the block stays. */
void enter_undo(struct program *p, double grace);

#endif
