/* The front of gradients.h. It chooses the way in which a rank's gradients are summed, and sets the
 * limits of buckets, which all ways share. apply.c applies the sums. */
#include "worker/exchange/gradients/gradients.h"

#include <stdlib.h>

#include "worker/exchange/footprint.h"
#include "worker/exchange/gradients/ways.h"

bool gradients_are_alone(const struct comm *c)
{
    return c->workers == 1;
}

/* Can parameters be updated part by part? Not by an optimizer that clips, which needs all gradients
 * first, nor with weighed gradients, whose weights come with the last bucket. */
static bool updates_by_part(const struct rank_env *env)
{
    return env->replica->dev->ops->parts && env->spec->optimizer.clip_norm <= 0 &&
           !env->program.weighed;
}

static const struct gradients_way *choose(struct gradients *g)
{
    struct rank_env *env = g->env;
    if (!env->comm->native &&
        device_buffer_open(&g->buffer, env, g->trailer + env->n_params, g->trailer)) {
        return &gradients_on_device;
    }
    if (env->resume) {
        return &gradients_kept;
    }
    return updates_by_part(env) ? &gradients_by_part : &gradients_host;
}

struct gradients *gradients_new(struct rank_env *env, size_t words, struct err *e)
{
    struct gradients *g = calloc(1, sizeof *g);
    if (!g) {
        goto no_memory;
    }
    g->env = env;
    g->words = words;
    g->trailer = env->n_stats + words;
    if (!gradients_are_alone(env->comm)) {
        g->way = choose(g);
    } else if ((g->last = malloc(g->trailer * sizeof(float)))) {
        g->sums = g->written = g->last; /* there is only a trailer, no bucket */
    } else {
        goto no_memory;
    }
    return g;
no_memory:
    err_set(e, ERR_MEMORY, "cannot hold the gradients: memory ran out");
    free(g);
    return NULL;
}

bool gradients_keeps_sums(const struct gradients *g)
{
    return g->way && g->way->keeps_sums;
}

void gradients_set_judge(struct gradients *g, gradients_judge_fn *judge, void *ctx)
{
    g->judge = judge;
    g->judge_ctx = ctx;
}

void gradients_free(struct gradients *g)
{
    if (!g) {
        return;
    }
    for (int i = 0; i < g->n_buckets; i++) {
        allreduce_release(&g->buckets[i].sum);
    }
    gradients_kept_free(g);
    gradients_late_free(g);
    gradients_undo_free(g);
    device_buffer_close(&g->buffer);
    free(g->buckets);
    free(g->last);
    free(g);
}

/* ---- buckets --------------------------------------------------------------------------------- */

static int count_buckets(struct gradients *g, int n, struct err *e)
{
    g->buckets = calloc((size_t)n, sizeof *g->buckets);
    if (!g->buckets) {
        return err_set(e, ERR_MEMORY, "cannot hold %d buckets of gradients: memory ran out", n);
    }
    g->n_buckets = n;
    if (n == 1 && g->way == &gradients_host && device_reads_in_place(g->env->replica)) {
        g->way = &gradients_lent;
    }
    return 0;
}

static int lay_out(struct gradients *g, struct bucket *b, const struct dev_bucket *from,
                   struct err *e)
{
    bool last = b == gradients_last(g);
    BUG_ON(last && from->first != 0);
    allreduce_init(&b->sum, g->env->comm, COMM_ALL, from->count + (last ? g->trailer : 0));
    b->sum.shares = !last;
    b->first = from->first;
    b->floats = from->count;
    return g->way->lay_out(g, b, e);
}

int gradients_add(struct gradients *g, const struct dev_bucket *b, int index, int n_buckets,
                  double share, struct err *e)
{
    int rc;
    if (gradients_are_alone(g->env->comm)) {
        return 0;
    }
    if (!g->buckets && (rc = count_buckets(g, n_buckets, e)) < 0) {
        return rc;
    }
    struct bucket *mine = &g->buckets[index];
    if (!mine->sum.comm && (rc = lay_out(g, mine, b, e)) < 0) {
        return rc;
    }
    return g->way->add(g, mine, (float)share, e);
}

/* ---- the end of a step ----------------------------------------------------------------------- */

float *gradients_words(struct gradients *g)
{
    return g->written + g->env->n_stats;
}

int gradients_update(struct gradients *g, const struct work *w, double share, const float **sums,
                     struct err *e)
{
    int rc;
    if (gradients_are_alone(g->env->comm)) {
        rc = gradients_apply_alone(g, w, e);
    } else if ((rc = gradients_weigh_statistics(g, share, e)) >= 0 &&
               (rc = g->way->update(g, w->learning_rate, e)) >= 0) {
        rc = gradients_settle_statistics(g, e);
    }
    *sums = rc < 0 ? NULL : g->sums + g->env->n_stats;
    return rc;
}

uint64_t gradients_bytes(const struct gradients *g)
{
    size_t W = (size_t)g->env->comm->n_members[COMM_ALL];
    return W > 1 ? 2 * g->env->n_params * sizeof(float) * (W - 1) / W : 0;
}

void gradients_footprint(struct footprint *f)
{
    double sum = f->params + f->stats + f->words;
    footprint_add_workers(f, "buckets under way", sum);
    footprint_add_workers(f, "chunks of rings", 4 * f->chunk);
    footprint_add(f, "a ring's sum", sum, 1); /* in a transport that lends it */
    f->by_bucket = true;
}
