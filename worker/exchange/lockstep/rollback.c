/* See rollback.h. */
#include "worker/exchange/lockstep/rollback.h"

#include <stdlib.h>
#include <string.h>

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

struct rollback *rollback_new(struct lockstep *l, struct err *e)
{
    const struct dev_replica *r = l->env->replica;
    struct rollback *b = calloc(1, sizeof *b);
    BUG_ON(r->dev->ops->memory);
    if (b) {
        b->l = l;
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

void rollback_keep(struct rollback *b)
{
    if (!b) {
        return;
    }
    const struct dev_replica *r = b->l->env->replica;
    for (int i = 0; i < BLOCKS; i++) {
        memcpy(kept(b, i), r->host[blocks[i]], r->count[blocks[i]] * sizeof(float));
    }
    b->mark = b->l->at;
    b->averages++;
    b->told_steps = b->told_samples = 0;
}

void rollback_evaluated(struct rollback *b)
{
    if (b && b->mark.step == b->l->at.step) {
        b->mark = b->l->at;
    }
}

/* The row of the average's own step may be told after it was kept. */
void rollback_count(struct rollback *b, const struct row *row)
{
    if (b && row->step > b->mark.step && row->batch > 0) {
        b->told_steps++;
        b->told_samples += row->batch;
    }
}

int rollback_return(struct rollback *b, struct err *e)
{
    struct rank_env *env = b->l->env;
    struct dev_replica *r = env->replica;
    int rc = 0;
    for (int i = 0; i < BLOCKS && rc >= 0; i++) {
        size_t n = r->count[blocks[i]];
        memcpy(r->host[blocks[i]], kept(b, i), n * sizeof(float));
        rc = n > 0 ? r->dev->ops->store(r, blocks[i], 0, n, e) : 0;
    }
    lockstep_return(b->l, &b->mark);
    if (b->told_steps > 0) {
        env->undone(env->ctx, b->told_steps, b->told_samples);
    }
    b->told_steps = b->told_samples = 0;
    return rc;
}
