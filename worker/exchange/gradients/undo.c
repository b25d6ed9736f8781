/* Undoes a step in which a worker was lost (docs/decisions/0022). Its sums are cancelled, and the
 * replica is again what it was when the step began.
 *
 *      update   part 3 ▓ part 1 ▓ part 2 …     a part is copied before it changes: the update is
 *      kept     part 3 ▓ part 1 ▓              about to read it anyway
 *
 * Only those parameters must be put back that were updated while other sums were under way. Running
 * statistics change with each minibatch, so a copy is kept from the end of the step before. */
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/gradients/ways.h"

struct range {
    size_t first, n;
};

struct undo {
    float *params, *optim, *stats; /* [as the replica's blocks] owned */
    struct range *parts;           /* [n_parts] the parts that have changed in the step under way;
                                      owned */
    int n_parts, room;
};

void gradients_undo_free(struct gradients *g)
{
    struct undo *u = g->undo;
    if (u) {
        free(u->params);
        free(u->optim);
        free(u->stats);
        free(u->parts);
        free(u);
    }
}

static float *block_like(const struct dev_replica *r, enum dev_block b)
{
    return malloc((r->count[b] + 1) * sizeof(float));
}

int gradients_keep(struct gradients *g, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    if (g->way && g->way->keeps_sums) {
        return 0;
    }
    struct undo *u = g->undo = calloc(1, sizeof *u);
    BUG_ON(r->dev->ops->memory || g->env->comm->native);
    if (u) {
        u->params = block_like(r, DEV_PARAMS);
        u->optim = block_like(r, DEV_OPTIM);
        u->stats = block_like(r, DEV_STATS);
    }
    if (!u || !u->params || !u->optim || !u->stats) {
        return err_set(e, ERR_MEMORY, "cannot keep a step's parameters: memory ran out");
    }
    gradients_keep_stats(g);
    return 0;
}

void gradients_keep_stats(struct gradients *g)
{
    const struct dev_replica *r = g->env->replica;
    if (g->undo) {
        memcpy(g->undo->stats, r->host[DEV_STATS], r->count[DEV_STATS] * sizeof(float));
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Copies a part of the optimizer's state, which may have several floats for each parameter, and
 * after them some that belong to all (kernels/cpu/update.c). */
static void copy_optim(const struct dev_replica *r, float *to, const float *from, size_t first,
                       size_t n)
{
    size_t params = r->count[DEV_PARAMS], all = r->count[DEV_OPTIM], each = all / params;
    for (size_t k = 0; k < each; k++) {
        memcpy(to + k * params + first, from + k * params + first, n * sizeof(float));
    }
    memcpy(to + each * params, from + each * params, (all - each * params) * sizeof(float));
}

void gradients_begin_parts(struct gradients *g)
{
    struct undo *u = g->undo;
    if (u && !u->parts) { /* allocated once: a ring has a part for each of its members */
        u->room = g->n_buckets * g->env->comm->workers;
        u->parts = malloc((size_t)u->room * sizeof *u->parts);
        BUG_ON(!u->parts);
    }
    if (u) {
        u->n_parts = 0;
    }
}

void gradients_keep_part(struct gradients *g, size_t first, size_t n)
{
    const struct dev_replica *r = g->env->replica;
    struct undo *u = g->undo;
    if (!u) {
        return;
    }
    BUG_ON(u->n_parts == u->room);
    u->parts[u->n_parts++] = (struct range){first, n};
    memcpy(u->params + first, r->host[DEV_PARAMS] + first, n * sizeof(float));
    copy_optim(r, u->optim, r->host[DEV_OPTIM], first, n);
}

void gradients_end_parts(struct gradients *g)
{
    if (g->undo) {
        g->undo->n_parts = 0;
    }
}

/* ---- back ------------------------------------------------------------------------------------ */

static int give_up_sums(struct gradients *g, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < g->n_buckets && rc >= 0; i++) {
        rc = allreduce_cancel(&g->buckets[i].sum, e);
    }
    return rc;
}

static int put_back(struct gradients *g, struct err *e)
{
    static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
    struct dev_replica *r = g->env->replica;
    const struct undo *u = g->undo;
    int rc = 0;
    for (int i = 0; i < u->n_parts; i++) {
        const struct range *p = &u->parts[i];
        memcpy(r->host[DEV_PARAMS] + p->first, u->params + p->first, p->n * sizeof(float));
        copy_optim(r, r->host[DEV_OPTIM], u->optim, p->first, p->n);
    }
    memcpy(r->host[DEV_STATS], u->stats, r->count[DEV_STATS] * sizeof(float));
    for (int i = 0; i < 3 && rc >= 0; i++) {
        size_t n = r->count[blocks[i]];
        rc = n > 0 ? r->dev->ops->store(r, blocks[i], 0, n, e) : 0;
    }
    return rc;
}

int gradients_undo(struct gradients *g, struct err *e)
{
    int rc = give_up_sums(g, e);
    if (rc >= 0 && g->undo) {
        rc = put_back(g, e);
    }
    gradients_end_parts(g);
    return rc;
}
