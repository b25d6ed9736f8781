/* Applies complete sums, in whatever way they were made: makes the update, unless the caller's
 * judge refuses it, and settles the running statistics of batch norm, which are summed along. */
#include "worker/exchange/gradients/ways.h"
#include "worker/exchange/norm_stats.h"

/* ---- the update ------------------------------------------------------------------------------ */

static bool judge(const struct gradients *g, double *scale)
{
    *scale = 1;
    return !g->judge || g->judge(g->judge_ctx, g->sums + g->env->n_stats, scale);
}

int gradients_apply(struct gradients *g, double learning_rate, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    double scale;
    return judge(g, &scale) ? r->dev->ops->update(r, learning_rate, scale, e) : 0;
}

/* The only gradient is the mean, whatever its weight. */
int gradients_apply_alone(struct gradients *g, const struct work *w, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    double scale;
    bool update = !w->updated && judge(g, &scale);
    return update ? r->dev->ops->update(r, w->learning_rate, 1.0, e) : 0;
}

/* ---- running statistics ---------------------------------------------------------------------- */

int gradients_weigh_statistics(struct gradients *g, double share, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    size_t n = g->env->n_stats;
    int rc = n > 0 ? r->dev->ops->fetch(r, DEV_STATS, 0, n, e) : 0;
    if (rc >= 0) {
        norm_stats_weigh(g->written, r->host[DEV_STATS], g->env->mean_of, n, (float)share);
    }
    return rc;
}

int gradients_settle_statistics(struct gradients *g, struct err *e)
{
    struct dev_replica *r = g->env->replica;
    size_t n = g->env->n_stats;
    norm_stats_settle(r->host[DEV_STATS], g->sums, g->env->mean_of, n);
    gradients_keep_stats(g);
    return n > 0 ? r->dev->ops->store(r, DEV_STATS, 0, n, e) : 0;
}
