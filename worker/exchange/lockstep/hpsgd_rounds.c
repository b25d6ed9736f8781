/* How rounds of hpsgd end, with the sum under way; see hpsgd_parts.h. */
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/lockstep/hpsgd_parts.h"
#include "worker/exchange/norm_stats.h"

static int land_once(struct hpsgd *s, struct err *e)
{
    survival_watch(s->survival, true);
    int rc = comm_wait(s->l.env->comm, &s->sum.op, e);
    survival_watch(s->survival, false);
    if (rc >= 0) {
        double scale = lockstep_correct(&s->l, hpsgd_words(s), s->flying_samples);
        s->reduction_seconds = s->sum.op.finished - s->sum.op.started;
        if (scale != 1) {
            flat_scale(s->flying, s->flying, (float)scale, s->n);
        }
        rc = hpsgd_landed(s, e);
    }
    return rc;
}

int hpsgd_land(struct hpsgd *s, struct err *e)
{
    enum meeting what = s->ends_round ? MEETS_TO_MERGE : MEETS_TO_AVERAGE;
    int rc = hpsgd_arrive(s, what, e);
    while (rc >= 0 && !s->landed && (rc = land_once(s, e)) < 0 && s->keeps) {
        rc = hpsgd_go_on(s, rc, e);
    }
    return rc < 0 ? rc : 0;
}

static int next_k(struct hpsgd *s)
{
    const struct lockstep *l = &s->l;
    const float *words = hpsgd_words(s);
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
    s->ends_round = true;
    int rc = hpsgd_merge(s, e);
    s->ends_round = false;
    if (rc < 0) {
        return rc;
    }
    s->round++;
    s->done = 0;
    s->gathered = true;
    if (summed) {
        lockstep_agree(&s->l, hpsgd_words(s));
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
