/* A list of the steps since the last average over all workers, with each worker's samples in them.
 * It is kept where users' programs make the steps. A program cannot take its steps back, so the
 * others keep theirs when a worker is lost, and get the samples of the lost one again
 * (docs/decisions/0080).
 *
 *      step      8    9    10   11   12
 *      rank 0    █────┼────┼────┼────╫       █ average over all
 *      rank 1    █────┼────┼────┼────╫       ╫ the next one, of ranks 0 and 1
 *      rank 2    █────┼──╳ ◄── killed
 *      again          ▀    ▀    ▀    ▀       rank 2's samples, also of steps that were cut in
 * advance
 *
 * Inside worker/exchange/lockstep only. */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PAST_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PAST_H

#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/survival/verdict.h"

struct past {
    struct lockstep *l; /* borrowed */
    int64_t first;      /* the step before the first one of the list */
    struct past_step {
        int64_t epoch, start;
        int row; /* index into `rows` */
    } * steps;   /* [n], owned */
    int n, room;
    int64_t *rows; /* [n_rows][2 workers] how many samples each worker has, and where they begin in
                      the step; owned. Steps with the same parts share a row */
    int n_rows, rows_room;
};

/* NULL: memory ran out. */
struct past *past_new(struct lockstep *l, struct err *e);
void past_free(struct past *p); /* NULL is allowed, as below */
/* Adds the current step of `l`. ERR_MEMORY. */
int past_add(struct past *p, struct err *e);
/* Empties the list, because all have averaged. The second removes the steps up to `step`, because
 * all have summed those. */
void past_forget(struct past *p);
void past_forget_until(struct past *p, int64_t step);
/* The slices that ranks lost[n] had after their steps held[n], in the order of the steps. The
 * caller frees *out. ERR_MEMORY. */
int past_list(const struct past *p, const int *lost, const int64_t *held, int n, struct slice **out,
              int *n_out, struct err *e);
/* The list as bytes, for a newcomer; the caller releases *out. */
int past_write(const struct past *p, struct own_state *out, struct err *e);
/* Reads those bytes into an empty list. ERR_PEER: they do not fit this job. */
int past_read(struct past *p, const struct own_state *from, struct err *e);
/* What this rank made up to step `held`, and after it. */
void past_count(const struct past *p, int rank, int64_t held, struct tally *until,
                struct tally *behind);

#endif
