/* What a program's first process (join.c) and the one that takes its seat (return.c) have in
 * common. Inside worker/program/start only. */
#ifndef WORKER_PROGRAM_START_JOIN_H
#define WORKER_PROGRAM_START_JOIN_H

#include "worker/checkpoint/checkpoint.h"
#include "worker/program/engine_parts.h"
#include "worker/program/start/enter.h"

struct told { /* from rank 0's program to all */
    double epochs;
    int32_t more;
};

void join_init(struct program *p, const struct program_ask *ask);
/* Puts what p->about says into the spec; rank 0's is everybody's. */
int join_apply(struct program *p, struct err *e);
int join_make_block(struct program *p, struct err *e);
/* How many epochs the run has, and whether it is open. */
void join_settle_epochs(struct program *p, const struct told *told);
/* The rank's own state in a checkpoint that has so many, or else another rank's; it may be empty.
 * Borrowed. */
const struct own_state *join_state_of(const struct checkpoint *from, int states, int rank);

#endif
