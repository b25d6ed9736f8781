/* The steps that all have made since the last average over all, and what each worker had of them,
 * where users' programs make the steps: nobody takes these back, so what a lost worker had of them
 * is handed out again (docs/decisions/0080).
 *
 *      step      8    9    10   11   12
 *      rank 0    █────┼────┼────┼────╫       █ average over all
 *      rank 1    █────┼────┼────┼────╫       ╫ the next one, of ranks 0 and 1
 *      rank 2    █────┼──╳ ◄── killed
 *      again          ▀    ▀    ▀    ▀       rank 2's parts, and those of steps cut in advance
 *
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PAST_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PAST_H

#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/survival/verdict.h"

struct past {
    struct lockstep *l; /* borrowed */
    int64_t first;      /* the step behind which they begin */
    struct past_step {
        int64_t epoch, start;
        int row; /* of the step's parts */
    } * steps;   /* [n], owned */
    int n, room;
    int64_t *rows; /* [n_rows][2 workers] samples of each, and where they begin in the step; owned.
                      Steps that are cut alike share one */
    int n_rows, rows_room;
};

/* NULL: memory ran out. */
struct past *past_new(struct lockstep *l, struct err *e);
void past_free(struct past *p); /* NULL is allowed, as below */
/* The step under way of `l` is made. -ERR_MEMORY. */
int past_add(struct past *p, struct err *e);
/* All have averaged; or have summed what was made up to `step`. */
void past_forget(struct past *p);
void past_forget_until(struct past *p, int64_t step);
/* What ranks lost[n] had behind steps held[n], in the order of steps: the caller frees *out. */
int past_list(const struct past *p, const int *lost, const int64_t *held, int n, struct slice **out,
              int *n_out, struct err *e);
/* The steps as bytes, for a worker that comes back; the caller releases *out. And from those, where
 * none were added. ERR_PEER: they are not of such a job. */
int past_write(const struct past *p, struct own_state *out, struct err *e);
int past_read(struct past *p, const struct own_state *from, struct err *e);
/* What this rank had up to that step, and behind it. */
void past_count(const struct past *p, int rank, int64_t held, struct tally *until,
                struct tally *behind);

#endif
