/* Who takes part in the steps (docs/decisions/0022, 0062). The keeper says it, and numbers it anew
 * with each loss and each return: a round.
 *
 *      round 0     0  1  2  3        all
 *      round 1     0  1  .  3        rank 2 has died
 *      round 2     0  1  2' 3        a second process has its seat
 *
 * The coordinator tells which ranks are lost and how often each was started again, and each rank
 * hears it at another time. So a process is named by its rank and its seat, which is how often the
 * rank's worker had been started again when it began: rank 2 that is lost is none of round 2 before
 * its seat is the second one there, too. Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_MEMBERS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_MEMBERS_H

#include "worker/exchange/strategy.h"

enum { LOST_MOST = 31 }; /* of the workers of one attempt, at a time */

struct members {
    int32_t round, n_lost;
    int32_t lost[LOST_MOST];    /* [n_lost] ranks that take no part, by the time of the loss */
    uint8_t seat[SPEC_WORKERS]; /* of each rank's process; of a lost one's last that took part */
};

bool members_lack(const struct members *m, int rank);
/* Changes the list, not the round. */
void members_drop(struct members *m, int rank);
void members_take(struct members *m, int rank, int seat);

/* Ranks that take part, and whose process the coordinator has given up, into out[workers]; how many
 * they are. */
int members_find_lost(const struct members *m, const struct rank_env *env, int *out);
/* Is this one of them? */
bool members_lost(const struct members *m, const struct rank_env *env, int rank);
/* Ranks that take no part, and were started again: out[workers] is the seat of each, of others 0;
 * how many they are. */
int members_find_expected(const struct members *m, const struct rank_env *env, int *out);

#endif
