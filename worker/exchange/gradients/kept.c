/* Gradients that are summed into memory of the sums' own, and copied to the replica once all sums
 * have ended. For a device that cannot compute a gradient twice, as a user's program: this rank's
 * stays in the replica until the sum takes its place. So the sum can be made again by the workers
 * that are left after one was lost (docs/decisions/0029), and a rank can join late (late.c).
 *
 *      replica    [ this rank's gradients ] ─ x share, ring ─► [ step s     | trailer ]    by turns
 *                           ▲────────────── copied ─────────── [ step s - 1 | trailer ]
 *
 * Gradients are not copied into the sum: the ring reads the replica when it first adds to a chunk.
 * PyTorch's DDP copies back, too (docs/own-program-frameworks.md).
 *
 * The last sum that ended stays until the one after the next begins. In lockstep all ranks have it
 * by then, so a rank that lacks it can still get it from one that has it. */
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/gradients/ways.h"

static void begin_turn(struct gradients *g, int turn)
{
    g->turn = turn;
    g->last = g->kept[turn].last;
    g->written = g->last + gradients_last(g)->floats;
}

static int lay_out(struct gradients *g, struct bucket *b, struct err *e)
{
    bool last = b == gradients_last(g);
    for (int i = 0; i < 2; i++) {
        struct kept_sum *k = &g->kept[i];
        k->rest = k->rest ? k->rest : malloc(g->env->n_params * sizeof(float) + 1);
        k->last = last ? malloc((b->floats + g->trailer) * sizeof(float)) : NULL;
        if (!k->rest || (last && !k->last)) {
            return err_set(e, ERR_MEMORY, "cannot hold two sums of %zu gradients: memory ran out",
                           g->env->n_params);
        }
    }
    if (last) {
        begin_turn(g, 0);
    }
    return 0;
}

void gradients_kept_free(struct gradients *g)
{
    for (int i = 0; i < 2; i++) {
        g->last = g->last == g->kept[i].last ? NULL : g->last;
        free(g->kept[i].rest);
        free(g->kept[i].last);
    }
}

/* ---- a sum ----------------------------------------------------------------------------------- */

static int add(struct gradients *g, struct bucket *b, float share, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    bool last = b == gradients_last(g);
    int rc = r->dev->ops->fetch(r, DEV_GRADS, b->first, b->floats, e);
    struct allreduce_source mine = {r->host[DEV_GRADS] + b->first, b->floats, share};
    if (rc < 0) {
        return rc;
    }
    if (last) {
        g->last_share = share;
    } else {
        allreduce_start_from(&b->sum, g->kept[g->turn].rest + b->first, b->floats, 0, &mine);
    }
    return 0;
}

static void send_last(struct gradients *g)
{
    struct bucket *b = gradients_last(g);
    struct allreduce_source mine = {g->env->replica->host[DEV_GRADS], b->floats, g->last_share};
    allreduce_start_from(&b->sum, g->last, b->floats + g->trailer, g->words, &mine);
}

/* Replaces the replica's gradients by this turn's sum. */
static int use(struct gradients *g, double learning_rate, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    size_t n = g->env->n_params, first = gradients_last(g)->floats;
    memcpy(r->host[DEV_GRADS], g->last, first * sizeof(float));
    memcpy(r->host[DEV_GRADS] + first, g->kept[g->turn].rest + first, (n - first) * sizeof(float));
    g->sums = g->written;
    begin_turn(g, !g->turn);
    int rc = r->dev->ops->store(r, DEV_GRADS, 0, n, e);
    return rc < 0 ? rc : gradients_apply(g, learning_rate, e);
}

static int update(struct gradients *g, double learning_rate, struct err *e)
{
    int rc;
    send_last(g);
    if ((rc = gradients_wait(g, e)) < 0 ||
        (g->late && (rc = g->late(g->late_ctx, g->written + g->env->n_stats, e)) < 0)) {
        return rc;
    }
    return use(g, learning_rate, e);
}

const struct gradients_way gradients_kept = {
    .name = "kept", .keeps_sums = true, .lay_out = lay_out, .add = add, .update = update};

/* ---- after a loss ---------------------------------------------------------------------------- */

int gradients_add_again(struct gradients *g, double share, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < g->n_buckets && rc >= 0; i++) {
        rc = add(g, &g->buckets[i], (float)share, e);
    }
    return rc;
}

float *gradients_sum_part(struct gradients *g, enum which_sum which, int part, size_t *n)
{
    struct kept_sum *k = &g->kept[which == SUM_ENDED ? !g->turn : g->turn];
    size_t first = gradients_last(g)->floats;
    *n = part == 0 ? first + g->trailer : g->env->n_params - first;
    return part == 0 ? k->last : k->rest + first;
}

int gradients_use_given(struct gradients *g, const struct work *w, const float **sums,
                        struct err *e)
{
    int rc = use(g, w->learning_rate, e);
    if (rc >= 0) {
        rc = gradients_settle_statistics(g, e);
    }
    *sums = rc < 0 ? NULL : g->sums + g->env->n_stats;
    return rc;
}
