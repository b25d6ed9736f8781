/* The own state of a rank's trainer: what it keeps beside the blocks that a strategy knows, and
 * needs in order to go on exactly where a run was. Our networks have none. A user's program has its
 * optimizer, its schedules, its random numbers: bytes that nobody but the program reads.
 *
 * Each worker has one of its own, since random numbers differ, and under local steps optimizers do.
 * The keeper writes them beside a checkpoint (worker/checkpoint/checkpoint.h).
 */
#ifndef WORKER_EXCHANGE_OWN_STATE_H
#define WORKER_EXCHANGE_OWN_STATE_H

#include <stdint.h>
#include <stdlib.h>

#include "common/err.h"

#define OWN_STATE_MOST (INT64_C(4) << 30) /* bytes of one worker's */

struct own_state {
    uint8_t *bytes; /* [n], and after them room up to whole floats; malloc'd, owned by the struct */
    size_t n;       /* 0: there is none */
};

/* Returned by rank_env.own_state in place of 0: the user's program has ended, and only other ranks
 * have the state from which its next process can go on. */
#define OWN_STATE_AWAY 1
/* Returned by rank_env.give in place of 0: the program is at an epoch's end. What it does there (it
 * evaluates, its schedules step) is not in the state yet, and comes after the evaluation that is
 * due. */
#define OWN_STATE_AT_EPOCH_END 2

/* How many floats hold so many bytes. */
static inline size_t own_state_floats(size_t bytes)
{
    return (bytes + sizeof(float) - 1) / sizeof(float);
}
/* Allocates room for n bytes. */
int own_state_alloc(struct own_state *s, size_t n, struct err *e);
/* Takes n > 0 bytes that were malloc'd, without the room behind them; frees them if it fails. */
int own_state_adopt(struct own_state *s, uint8_t *bytes, size_t n, struct err *e);
/* *out is overwritten. */
int own_state_copy(struct own_state *out, const struct own_state *from, struct err *e);
/* A zeroed struct is allowed. */
static inline void own_state_release(struct own_state *s)
{
    free(s->bytes);
    *s = (struct own_state){0};
}

#endif
