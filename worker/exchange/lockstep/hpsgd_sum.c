/* The sum of a round's gradients in hpsgd, from its launch to its end, and the copies that allow to
 * launch it once more. See hpsgd_parts.h. */
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/lockstep/hpsgd_parts.h"
#include "worker/exchange/norm_stats.h"

/* ---- what is kept ---------------------------------------------------------------------------- */

int hpsgd_keep(struct hpsgd *s, size_t all, struct err *e)
{
    s->mine = calloc(s->n + 1, sizeof(float));
    s->spare = calloc(all, sizeof(float));
    s->counts = calloc((size_t)s->l.env->comm->workers, sizeof *s->counts);
    s->counts_then = calloc((size_t)s->l.env->comm->workers, sizeof *s->counts);
    if (!s->mine || !s->spare || !s->counts || !s->counts_then) {
        return err_set(e, ERR_MEMORY, "cannot keep a round of %zu parameters: memory ran out",
                       s->n);
    }
    s->sums = (struct round_sums){.landed = s->flying, .under_way = s->flying, .n = all};
    survival_lend_sums(s->survival, &s->sums);
    s->keeps = true;
    return 0;
}

/* Keeps this rank's part of the sum that is launched now. */
static void set_aside(struct hpsgd *s)
{
    float *before = s->flying;
    if (s->keeps) {
        memcpy(s->mine, s->g, s->n * sizeof(float));
        memcpy(s->counts_then, s->counts, (size_t)s->l.env->comm->workers * sizeof *s->counts);
        s->flying = s->spare;
        s->spare = before;
        s->sums.landed = before;
        s->sums.under_way = s->flying;
    }
}

/* This rank's share of the statistics, among the remaining workers. */
static double share_of(const struct hpsgd *s)
{
    const struct lockstep *l = &s->l;
    const struct comm *c = l->env->comm;
    int left = c->n_members[COMM_ALL];
    int64_t all = 0;
    for (int i = 0; i < left && s->keeps; i++) {
        all += s->counts_then[c->members[COMM_ALL][i]];
    }
    bool none = s->keeps ? all == 0 : l->at.step == 0;
    return none       ? 1.0 / left
           : s->keeps ? (double)s->counts_then[c->rank] / (double)all
                      : lockstep_share(l);
}

/* ---- the sum --------------------------------------------------------------------------------- */

/* Starts the sum; `flying` has this rank's part of G. */
static void start_sum(struct hpsgd *s)
{
    struct lockstep *l = &s->l;
    int W = l->env->comm->workers;
    float *words = hpsgd_words(s), *reductions = words + lockstep_words(l);
    norm_stats_weigh(s->flying + s->n, s->launched, l->env->mean_of, s->n_stats,
                     (float)share_of(s));
    lockstep_write(l, words, s->step_seconds, 0);
    lockstep_weigh(l, words, s->flying_weight, false, false);
    s->weighing.step = l->at.step + 1;
    weighing_leave(&s->weighing, &(struct dev_result){.leaves = s->leaves}, words);
    memset(reductions, 0, (size_t)W * sizeof(float));
    reductions[l->env->comm->rank] = (float)s->reduction_seconds;
    allreduce_start(&s->sum, s->flying, s->n + s->n_stats + lockstep_words(l) + (size_t)W,
                    lockstep_words(l) + (size_t)W);
}

int hpsgd_launch(struct hpsgd *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    if (s->n_stats > 0) {
        int rc = r->dev->ops->fetch(r, DEV_STATS, 0, s->n_stats, e);
        if (rc < 0) {
            return rc;
        }
        memcpy(s->launched, r->host[DEV_STATS], s->n_stats * sizeof(float));
    }
    set_aside(s);
    memcpy(s->flying, s->g, s->n * sizeof(float));
    memset(s->g, 0, s->n * sizeof(float));
    s->flying_samples = s->samples;
    s->flying_weight = s->weight;
    s->weight = s->samples = 0;
    s->in_flight = true;
    s->landed = s->gathered = s->restored = false;
    start_sum(s);
    return 0;
}

void hpsgd_launch_again(struct hpsgd *s)
{
    memcpy(s->flying, s->mine, s->n * sizeof(float));
    start_sum(s);
}

int hpsgd_landed(struct hpsgd *s, struct err *e)
{
    s->landed = true;
    s->sums.landed = s->flying;
    survival_landed(s->survival, s->w, s->flying);
    int rc = weighing_left(&s->weighing, hpsgd_words(s), e);
    s->l.at.left = s->l.at.left || rc == WEIGHING_ALL_LEFT;
    return rc < 0 ? rc : 0;
}
