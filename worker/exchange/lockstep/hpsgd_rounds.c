/* Rounds of hpsgd and the sum under way; see hpsgd_parts.h. */
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/lockstep/hpsgd_parts.h"
#include "worker/exchange/norm_stats.h"

static float *words_of(const struct hpsgd *s)
{
    return s->flying + s->n + s->n_stats;
}

int hpsgd_launch(struct hpsgd *s, struct err *e)
{
    struct lockstep *l = &s->l;
    struct dev_replica *r = l->env->replica;
    int W = l->env->comm->workers, left = l->env->comm->n_members[COMM_ALL];
    float *words = words_of(s), *reductions = words + lockstep_words(l);
    if (s->n_stats > 0) {
        int rc = r->dev->ops->fetch(r, DEV_STATS, 0, s->n_stats, e);
        if (rc < 0) {
            return rc;
        }
        memcpy(s->launched, r->host[DEV_STATS], s->n_stats * sizeof(float));
        norm_stats_weigh(s->flying + s->n, s->launched, l->env->mean_of, s->n_stats,
                         (float)(l->at.step > 0 ? lockstep_share(l) : 1.0 / left));
    }
    memcpy(s->flying, s->g, s->n * sizeof(float));
    memset(s->g, 0, s->n * sizeof(float));
    lockstep_write(l, words, s->step_seconds, 0);
    lockstep_weigh(l, words, s->weight, false, false);
    s->weighing.step = l->at.step + 1;
    weighing_leave(&s->weighing, &(struct dev_result){.leaves = s->leaves}, words);
    s->flying_samples = s->samples;
    s->weight = s->samples = 0;
    memset(reductions, 0, (size_t)W * sizeof(float));
    reductions[l->env->comm->rank] = (float)s->reduction_seconds;
    s->in_flight = true;
    s->landed = s->gathered = s->restored = false;
    allreduce_start(&s->sum, s->flying, s->n + s->n_stats + lockstep_words(l) + (size_t)W,
                    lockstep_words(l) + (size_t)W);
    return 0;
}

int hpsgd_land(struct hpsgd *s, struct err *e)
{
    if (s->landed) {
        return 0;
    }
    survival_watch(s->survival, true);
    int rc = comm_wait(s->l.env->comm, &s->sum.op, e);
    survival_watch(s->survival, false);
    if (rc >= 0) {
        double scale = lockstep_correct(&s->l, words_of(s), s->flying_samples);
        s->landed = true;
        s->reduction_seconds = s->sum.op.finished - s->sum.op.started;
        if (scale != 1) {
            flat_scale(s->flying, s->flying, (float)scale, s->n);
        }
        survival_landed(s->survival, s->w, s->flying);
        rc = weighing_left(&s->weighing, words_of(s), e);
        s->l.at.left = s->l.at.left || rc == WEIGHING_ALL_LEFT;
    }
    return rc;
}

static int next_k(struct hpsgd *s)
{
    const struct lockstep *l = &s->l;
    const float *words = words_of(s);
    double step = lockstep_slowest(l, words),
           reduction = lockstep_fastest(l, words + lockstep_words(l));
    int k = round_length_next(&s->length, reduction, step);
    return s->given_k > 0 ? s->given_k : s->round < 3 ? 1 : k;
}

static int merge_stats(struct hpsgd *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    const int32_t *mean_of = s->l.env->mean_of;
    float *merged = s->flying + s->n, *own = r->host[DEV_STATS];
    int rc = r->dev->ops->fetch(r, DEV_STATS, 0, s->n_stats, e);
    if (rc < 0) {
        return rc;
    }
    norm_stats_settle(merged, merged, mean_of, s->n_stats);
    for (size_t i = 0; i < s->n_stats; i++) {
        own[i] += merged[i] - s->launched[i];
        own[i] = mean_of[i] >= 0 && own[i] < 0 ? 0 : own[i];
    }
    rc = r->dev->ops->store(r, DEV_STATS, 0, s->n_stats, e);
    survival_merged_stats(s->survival);
    return rc;
}

int hpsgd_merge(struct hpsgd *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    bool summed = s->in_flight;
    int rc;
    if (summed) {
        if ((rc = hpsgd_land(s, e)) < 0) {
            return rc;
        }
        flat_subtract(s->w, s->flying, s->n);
    }
    s->in_flight = false;
    memcpy(r->host[DEV_PARAMS], s->w, s->n * sizeof(float));
    if ((rc = r->dev->ops->store(r, DEV_PARAMS, 0, s->n, e)) < 0) {
        return rc;
    }
    return s->n_stats > 0 && summed && !s->restored ? merge_stats(s, e) : 0;
}

int hpsgd_end_round(struct hpsgd *s, struct err *e)
{
    bool summed = s->in_flight;
    int rc = hpsgd_merge(s, e);
    if (rc < 0) {
        return rc;
    }
    s->round++;
    s->done = 0;
    s->gathered = true;
    if (summed) {
        lockstep_agree(&s->l, words_of(s));
        s->k = next_k(s);
    }
    survival_round_ended(s->survival);
    return 0;
}

int hpsgd_drain(struct hpsgd *s, struct err *e)
{
    int rc = hpsgd_launch(s, e);
    s->l.at.evaluated_here = false;
    if (rc < 0) {
        return rc;
    }
    return hpsgd_merge(s, e);
}

int hpsgd_leave(struct hpsgd *s, struct err *e)
{
    int rc = s->done > 0 ? hpsgd_end_round(s, e) : s->in_flight ? hpsgd_merge(s, e) : 0;
    s->leaves = true;
    return rc < 0 ? rc : hpsgd_drain(s, e);
}
