/* The members of a run: the workers that take part in its steps (docs/decisions/0022, 0062). The
 * keeper decides who they are. Each loss and each return makes a new list with the next number, the
 * round:
 *
 *      round 0     0  1  2  3        all
 *      round 1     0  1  .  3        rank 2 has died
 *      round 2     0  1  2' 3        a second process has its seat
 *
 * A lost rank may come back as another process, and the ranks hear of it at different times. So a
 * process is named by its rank and its seat: the number of times that the rank's worker had been
 * started again when the process began (2' above has seat 1). A report of the coordinator that the
 * process with seat 0 is lost says nothing about the one with seat 1.
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_MEMBERS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_MEMBERS_H

#include "worker/exchange/strategy.h"

enum { LOST_MOST = 31 }; /* workers of one attempt that may be lost at the same time */

struct members {
    int32_t round, n_lost;
    int32_t lost[LOST_MOST]; /* [n_lost] the ranks that take no part, in the order of the losses */
    uint8_t
        seat[SPEC_WORKERS]; /* seat of each rank's process; of a lost rank, its last process's */
};

/* Is this rank on the list of lost ones? */
bool members_lack(const struct members *m, int rank);
/* Both change the list and leave the round as it is. */
void members_drop(struct members *m, int rank);
void members_take(struct members *m, int rank, int seat);

/* Finds the members whose process the coordinator has declared lost since. Writes their ranks to
 * out[workers] and returns their number. */
int members_find_lost(const struct members *m, const struct rank_env *env, int *out);
/* Has the coordinator declared the process of this member lost? */
bool members_lost(const struct members *m, const struct rank_env *env, int rank);
/* Finds the lost ranks that were started again. Writes the seat of each to out[workers], 0 for all
 * other ranks, and returns their number. */
int members_find_expected(const struct members *m, const struct rank_env *env, int *out);

#endif
