/* See rollback.h. */
#include "worker/exchange/lockstep/survival/rollback.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"

enum { BLOCKS = 3 };
static const enum dev_block blocks[BLOCKS] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};

static float *kept(const struct rollback *b, int i)
{
    float *const all[BLOCKS] = {b->params, b->optim, b->stats};
    return all[i];
}

static float *block_like(const struct dev_replica *r, enum dev_block b)
{
    return malloc((r->count[b] + 1) * sizeof(float));
}

struct rollback *rollback_new(struct lockstep *l, bool by_rounds, struct err *e)
{
    const struct dev_replica *r = l->env->replica;
    struct rollback *b = calloc(1, sizeof *b);
    BUG_ON(r->dev->ops->memory);
    if (b) {
        b->l = l;
        b->by_rounds = by_rounds;
        b->params = block_like(r, DEV_PARAMS);
        b->optim = block_like(r, DEV_OPTIM);
        b->stats = block_like(r, DEV_STATS);
    }
    if (!b || !b->params || !b->optim || !b->stats) {
        rollback_free(b);
        err_set(e, ERR_MEMORY, "cannot keep an average's parameters: memory ran out");
        return NULL;
    }
    rollback_keep(b);
    return b;
}

void rollback_free(struct rollback *b)
{
    if (b) {
        free(b->params);
        free(b->optim);
        free(b->stats);
        free(b);
    }
}

/* Copies n floats. An empty block has no memory. */
static void copy(float *to, const float *from, size_t n)
{
    if (n > 0) {
        memcpy(to, from, n * sizeof(float));
    }
}

void rollback_keep(struct rollback *b)
{
    if (!b) {
        return;
    }
    const struct dev_replica *r = b->l->env->replica;
    for (int i = 0; i < BLOCKS; i++) {
        copy(kept(b, i), r->host[blocks[i]], r->count[blocks[i]]);
    }
    b->mark = b->next = b->l->at;
    b->averages++;
    b->told = b->told_next = (struct told){0};
}

void rollback_begin(struct rollback *b, int64_t averages, const struct lockstep_mark *mark)
{
    rollback_keep(b);
    b->averages = averages;
    b->mark = *mark;
    b->mark.agenda.spec = b->l->env->spec; /* the mark came from another process */
    b->next = b->mark;
}

void rollback_round_ended(struct rollback *b)
{
    if (b) {
        b->next = b->l->at;
        b->told.rows += b->told_next.rows;
        b->told.steps += b->told_next.steps;
        b->told.samples += b->told_next.samples;
        b->told_next = (struct told){0};
    }
}

void rollback_landed(struct rollback *b, const float *w, const float *sum)
{
    if (b) {
        size_t n = b->l->env->replica->count[DEV_PARAMS];
        memcpy(b->params, w, n * sizeof(float));
        flat_subtract(b->params, sum, n);
        rollback_keep_stats(b);
        b->mark = b->next;
        b->mark.evaluated_here = false; /* an evaluation there was made without the sum */
        b->averages++;
        b->told = (struct told){0};
    }
}

void rollback_keep_stats(struct rollback *b)
{
    if (b) {
        const struct dev_replica *r = b->l->env->replica;
        copy(b->stats, r->host[DEV_STATS], r->count[DEV_STATS]);
    }
}

void rollback_evaluated(struct rollback *b)
{
    if (b && b->mark.step == b->l->at.step) {
        b->mark = b->l->at;
    }
    if (b && b->next.step == b->l->at.step) {
        b->next = b->l->at;
    }
}

/* The row of the step of an average may be reported after the copy was made, and that of a round's
 * last step after the round's end. */
void rollback_count(struct rollback *b, const struct row *row)
{
    if (b && row->step > b->mark.step) {
        struct told *t = row->step > b->next.step ? &b->told_next : &b->told;
        t->rows++;
        t->steps += row->batch > 0;
        t->samples += row->batch;
    }
}

static void take_back(struct rollback *b)
{
    const struct rank_env *env = b->l->env;
    if (b->told.rows + b->told_next.rows > 0) {
        env->undone(env->ctx, b->by_rounds, b->told.steps + b->told_next.steps,
                    b->told.samples + b->told_next.samples);
    }
    b->told = b->told_next = (struct told){0};
}

static int put_back(const struct rollback *b, struct err *e)
{
    struct dev_replica *r = b->l->env->replica;
    int rc = 0;
    for (int i = 0; i < BLOCKS && rc >= 0; i++) {
        size_t n = r->count[blocks[i]];
        copy(r->host[blocks[i]], kept(b, i), n);
        rc = n > 0 ? r->dev->ops->store(r, blocks[i], 0, n, e) : 0;
    }
    return rc;
}

int rollback_take(struct rollback *b, struct err *e)
{
    b->mark = b->next = b->l->at;
    b->averages++;
    return put_back(b, e);
}

float *rollback_kept(const struct rollback *b, enum dev_block which, size_t *n)
{
    int i = which == DEV_PARAMS ? 0 : which == DEV_OPTIM ? 1 : 2;
    *n = b->l->env->replica->count[which];
    return kept(b, i);
}

int rollback_return(struct rollback *b, struct err *e)
{
    int rc = put_back(b, e);
    if (b->l->at.checkpoint && !b->mark.checkpoint) { /* one was agreed on, and is not written */
        b->l->asked_checkpoint = true;
    }
    lockstep_return(b->l, &b->mark);
    b->next = b->mark;
    take_back(b);
    return rc;
}

void rollback_advance(struct rollback *b)
{
    if (b->by_rounds) {
        b->told = (struct told){0}; /* these steps count, since the others have them */
        take_back(b);
        lockstep_return(b->l, &b->next);
    }
    b->l->at.evaluated_here = false;
    rollback_keep(b);
}
