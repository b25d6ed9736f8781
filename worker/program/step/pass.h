/* A backward pass of the program, as far as a step's first one (first.c) and further ones
 * (further.c) have it in common: its weight, and its buckets. Inside worker/program/step only. */
#ifndef WORKER_PROGRAM_STEP_PASS_H
#define WORKER_PROGRAM_STEP_PASS_H

#include "worker/program/engine_parts.h"

struct pass { /* one backward pass of the program */
    bool ready[256];
    double weight;     /* as it told; negative: not yet */
    struct work *work; /* gets the weight before the first mark; NULL, as mark: a further pass */
    double begin;      /* of its computing, evaluations between epochs left out */
    dev_mark_fn *mark;
    void *ctx;
};

/* A pass has one weight: with the first bucket others begin to sum by it. An error if it has
 * another one by now, or one that is no weight. */
int pass_take_weight(struct program_engine *g, struct pass *pass, double weight, struct err *e);
/* Buckets come in any order and are marked in theirs; an error if this one came before. */
int pass_take_bucket(struct program_engine *g, struct pass *pass, const struct wire_message *m,
                     struct err *e);
/* Hands the next bucket to the strategy. One that weighs nothing is zero, since 0 x NaN is not;
 * buckets that were handed over before may be under way. */
void pass_mark_next(struct program_engine *g, struct pass *pass, bool zero);
/* GO's flags if no update is made: in a strategy that sums, that is so if a pass failed. */
uint32_t pass_no_step(const struct program_engine *g, bool voided);

#endif
