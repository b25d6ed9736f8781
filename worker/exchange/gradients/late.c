/* Ranks whose gradients join a step late, into sums that are there already (gradients.h).
 *
 *      kept       sums of the step (kept.c), so a rank that computes again may use its replica
 *      joining    [ what this rank adds | trailer ]   summed over ranks, added to the sums
 *
 * A rank that gave `given` buckets in the step adds the others. They are the front of the
 * parameters, since bucket 0 has the last parameters. */
#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/gradients/ways.h"
#include "worker/exchange/norm_stats.h"

void gradients_set_late(struct gradients *g, gradients_late_fn *late, void *ctx)
{
    BUG_ON(g->way && !g->way->keeps_sums);
    g->late = late;
    g->late_ctx = ctx;
}

void gradients_late_free(struct gradients *g)
{
    allreduce_release(&g->join);
    free(g->joining);
}

int gradients_join_begin(struct gradients *g, struct err *e)
{
    size_t n = g->env->n_params;
    if (!g->joining) { /* allocated once in an attempt, and in few attempts */
        allreduce_init(&g->join, g->env->comm, COMM_ALL, n + g->trailer);
        g->joining = malloc((n + g->trailer) * sizeof(float));
    }
    return g->joining ? 0 : err_set(e, ERR_MEMORY, "cannot hold %zu gradients: memory ran out", n);
}

float *gradients_join_words(struct gradients *g)
{
    return g->joining + g->env->n_params + g->env->n_stats;
}

static void add_mine(struct gradients *g, const struct late_part *mine)
{
    const struct dev_replica *r = g->env->replica;
    size_t n = g->env->n_params, floats = mine->given > 0 ? g->buckets[mine->given - 1].first : n;
    flat_scale(g->joining, r->host[DEV_GRADS], (float)mine->share, floats);
    norm_stats_weigh(g->joining + n, r->host[DEV_STATS], g->env->mean_of, g->env->n_stats,
                     (float)mine->stats_share);
}

int gradients_join(struct gradients *g, const struct late_part *mine, struct err *e)
{
    size_t n = g->env->n_params, first = gradients_last(g)->floats;
    memset(g->joining, 0, (n + g->env->n_stats) * sizeof(float));
    if (mine) {
        add_mine(g, mine);
    }
    allreduce_start(&g->join, g->joining, n + g->trailer, g->words);
    int rc = comm_wait(g->env->comm, &g->join.op, e);
    if (rc < 0) {
        return rc;
    }
    flat_add(g->last, g->joining, first);
    flat_add(g->kept[g->turn].rest + first, g->joining + first, n - first);
    flat_add(g->written, g->joining + n, g->trailer);
    return 0;
}
