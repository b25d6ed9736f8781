/* The averages of strategies that average parameters: see averaging_parts.h.
 *
 * Where users' programs have made the steps, they keep them when a worker is lost. The remaining
 * workers then make the average once more, weighted by their own steps (docs/decisions/0080). */
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/lockstep/averaging_parts.h"
#include "worker/exchange/norm_stats.h"

static int fetch(struct averaging *s, bool optim, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    const struct device_ops *ops = r->dev->ops;
    int rc = ops->fetch(r, DEV_PARAMS, 0, s->n_params, e);
    if (rc >= 0 && optim && s->n_optim > 0) {
        rc = ops->fetch(r, DEV_OPTIM, 0, s->n_optim, e);
    }
    return rc < 0 || s->n_stats == 0 ? rc : ops->fetch(r, DEV_STATS, 0, s->n_stats, e);
}

static float share_of(double mine, const struct interval *since)
{
    return since->samples > 0 ? (float)(mine / since->samples) : 0;
}

/* Copies the blocks, weighted by this rank's share, into the buffer; *floats: how many. */
static int gather(struct averaging *s, bool optim, const struct interval *since, size_t *floats,
                  struct err *e)
{
    const struct dev_replica *r = s->l.env->replica;
    float share = share_of(since->weight, since), by_samples = share_of(since->mine, since);
    size_t n = s->n_params;
    int rc = fetch(s, optim, e);
    if (rc < 0) {
        return rc;
    }
    flat_scale(s->sum, r->host[DEV_PARAMS], share, s->n_params);
    if (optim) {
        flat_scale(s->sum + n, r->host[DEV_OPTIM], share, s->n_optim);
        n += s->n_optim;
    }
    norm_stats_weigh(s->sum + n, r->host[DEV_STATS], s->l.env->mean_of, s->n_stats, by_samples);
    *floats = n + s->n_stats;
    return 0;
}

/* Copies the sums to the replica. */
static int load(struct averaging *s, bool optim, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    const struct device_ops *ops = r->dev->ops;
    size_t n = s->n_params;
    memcpy(r->host[DEV_PARAMS], s->sum, s->n_params * sizeof(float));
    int rc = ops->store(r, DEV_PARAMS, 0, s->n_params, e);
    if (rc >= 0 && optim && s->n_optim > 0) {
        memcpy(r->host[DEV_OPTIM], s->sum + n, s->n_optim * sizeof(float));
        rc = ops->store(r, DEV_OPTIM, 0, s->n_optim, e);
        n += s->n_optim;
    }
    if (rc >= 0 && s->n_stats > 0) {
        norm_stats_settle(r->host[DEV_STATS], s->sum + n, s->l.env->mean_of, s->n_stats);
        rc = ops->store(r, DEV_STATS, 0, s->n_stats, e);
    }
    return rc;
}

static int end_sum(struct averaging *s, struct allreduce *over, struct err *e)
{
    survival_watch(s->survival, true);
    int rc = comm_wait(s->l.env->comm, &over->op, e);
    survival_watch(s->survival, false);
    return rc;
}

/* Sums the n gathered floats, without words; with a weight, where ranks have one. */
static int sum(struct averaging *s, struct allreduce *over, size_t n, const struct interval *since,
               struct err *e)
{
    size_t weights = s->l.env->program.weighed;
    if (weights > 0) {
        s->sum[n] = (float)since->weight;
    }
    allreduce_start(over, s->sum, n + weights, weights);
    return end_sum(s, over, e);
}

/* Turns the sum into a mean, where gradients weighed `weight` in all instead of their samples. If
 * the weight is 0, nobody has made a step since the last average, and the replica is the mean. */
static void correct(struct averaging *s, bool optim, const struct interval *since, double weight)
{
    const struct dev_replica *r = s->l.env->replica;
    size_t n_optim = optim ? s->n_optim : 0;
    if (!s->l.env->program.weighed || weight == since->samples) {
        return;
    }
    if (weight > 0) {
        flat_scale(s->sum, s->sum, (float)(since->samples / weight), s->n_params + n_optim);
        return;
    }
    memcpy(s->sum, r->host[DEV_PARAMS], s->n_params * sizeof(float));
    if (n_optim > 0) {
        memcpy(s->sum + s->n_params, r->host[DEV_OPTIM], n_optim * sizeof(float));
    }
}

/* Takes out the samples of lost workers since the last average, which are in no replica. What their
 * group had averaged before is in its replicas, and counts for its remaining workers. */
static void take_out(struct averaging *s)
{
    struct undone u = survival_take_undone(s->survival);
    struct interval *in = &s->in_group, *was = &s->mine_in_group;
    int there = s->l.env->comm->n_members[COMM_MINE];
    s->all_since.samples -= u.samples;
    s->group_since.samples -= u.of_group;
    if (u.shared && in->samples > 0) {
        s->all_since.mine += in->samples / there - was->mine;
        s->all_since.weight += in->weight / there - was->weight;
        *was = (struct interval){.mine = in->samples / there, .weight = in->weight / there};
    }
}

static int arrive(struct averaging *s, enum meeting what, struct err *e)
{
    int rc = survival_arrive(s->survival, what, e);
    take_out(s);
    return rc;
}

void averaging_begin_interval(struct averaging *s)
{
    s->group_since = s->all_since = s->in_group = s->mine_in_group = (struct interval){0};
}

int averaging_go_on(struct averaging *s, int rc, struct err *e)
{
    if ((rc = survival_recover(s->survival, rc, NULL, e)) >= 0) {
        take_out(s);
    }
    return rc;
}

/* Ends the group's interval, once per average. `weight`: in all. */
static void end_group(struct averaging *s, double weight)
{
    const struct rank_env *env = s->l.env;
    s->in_group.samples += s->group_since.samples;
    s->in_group.weight += env->program.weighed ? weight : s->group_since.samples;
    s->mine_in_group = s->all_since;
    s->group_since = (struct interval){0};
    survival_grouped(s->survival);
}

static int group_once(struct averaging *s, struct err *e)
{
    struct interval *since = &s->group_since;
    size_t n;
    int rc = gather(s, false, since, &n, e);
    if (rc < 0 || (rc = sum(s, &s->group, n, since, e)) < 0) {
        return rc;
    }
    correct(s, false, since, s->sum[n]);
    end_group(s, s->sum[n]);
    return load(s, false, e);
}

int averaging_of_group(struct averaging *s, struct err *e)
{
    const struct comm *c = s->l.env->comm;
    int rc = arrive(s, MEETS_GROUP, e);
    while (rc >= 0 && c->n_members[COMM_MINE] > 1 && s->group_since.samples > 0 &&
           (rc = group_once(s, e)) < 0 && s->keeps) {
        rc = averaging_go_on(s, rc, e);
    }
    return rc < 0 ? rc : 0;
}

static int average_once(struct averaging *s, const struct dev_result *r, double step_seconds,
                        struct err *e)
{
    size_t n, n_words = lockstep_words(&s->l);
    struct interval *since = &s->all_since;
    bool moved = since->samples > 0;
    int rc = gather(s, true, since, &n, e);
    if (rc < 0) {
        return rc;
    }
    float *words = s->sum + n;
    lockstep_write(&s->l, words, step_seconds, 0);
    lockstep_weigh(&s->l, words, since->weight, false, false);
    s->weighing.step = s->l.at.step + 1;
    weighing_leave(&s->weighing, r, words);
    allreduce_start(&s->all, s->sum, n + n_words, n_words);
    if ((rc = end_sum(s, &s->all, e)) < 0 || (rc = weighing_left(&s->weighing, words, e)) < 0) {
        return rc;
    }
    s->l.at.left = s->l.at.left || rc == WEIGHING_ALL_LEFT;
    if (s->l.env->program.weighed) {
        correct(s, true, since, lockstep_weighed(&s->l, words)[WORD_WEIGHT]);
    }
    averaging_begin_interval(s);
    lockstep_agree(&s->l, words);
    s->l.at.evaluated_here = false;
    if (moved && s->n_params > 0) { /* without parameters there are no numbers */
        const float *own = s->l.env->replica->host[DEV_PARAMS];
        s->distance = (float)flat_distance(own, s->sum, s->n_params);
    }
    if (!moved || (rc = load(s, true, e)) >= 0) { /* else the replicas are equal already */
        survival_averaged(s->survival, words);
    }
    return rc < 0 ? rc : 0;
}

int averaging_of_all(struct averaging *s, const struct dev_result *r, double step_seconds,
                     struct err *e)
{
    int rc = arrive(s, MEETS_TO_AVERAGE, e);
    while (rc >= 0 && (rc = average_once(s, r, step_seconds, e)) < 0 && s->keeps &&
           (rc = averaging_go_on(s, rc, e)) >= 0) {
        if (rc == RECOVERED) { /* the others have averaged */
            averaging_begin_interval(s);
            return 0;
        }
    }
    return rc;
}

static int load_once(struct averaging *s, struct err *e)
{
    struct rank_env *env = s->l.env;
    const struct dev_replica *r = env->replica;
    size_t n;
    if (s->all_since.samples <= 0) {
        return 0; /* the replicas are equal */
    }
    int rc = gather(s, false, &s->all_since, &n, e);
    if (rc < 0) {
        return rc;
    }
    memcpy(s->own, r->host[DEV_PARAMS], s->n_params * sizeof(float));
    if (s->n_stats > 0) {
        memcpy(s->own + s->n_params, r->host[DEV_STATS], s->n_stats * sizeof(float));
    }
    env->aside(env->ctx, true);
    rc = sum(s, &s->all, n, &s->all_since, e);
    env->aside(env->ctx, false);
    s->average_loaded = true;
    if (rc < 0) {
        return rc;
    }
    correct(s, false, &s->all_since, s->sum[n]);
    if ((rc = load(s, false, e)) >= 0) {
        survival_shown(s->survival);
    }
    return rc;
}

int averaging_load(struct averaging *s, struct err *e)
{
    int rc = arrive(s, MEETS_TO_SHOW, e);
    while (rc >= 0 && (rc = load_once(s, e)) < 0 && s->keeps &&
           (rc = averaging_go_on(s, rc, e)) == RECOVERED_ONCE_MORE) {
    }
    return rc < 0 ? rc : 0;
}

int averaging_load_own(struct averaging *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    const struct device_ops *ops = r->dev->ops;
    if (!s->average_loaded) {
        return 0;
    }
    s->average_loaded = false;
    memcpy(r->host[DEV_PARAMS], s->own, s->n_params * sizeof(float));
    int rc = ops->store(r, DEV_PARAMS, 0, s->n_params, e);
    if (rc >= 0 && s->n_stats > 0) {
        memcpy(r->host[DEV_STATS], s->own + s->n_params, s->n_stats * sizeof(float));
        rc = ops->store(r, DEV_STATS, 0, s->n_stats, e);
    }
    return rc;
}

int averaging_meet(struct averaging *s, struct err *e)
{
    return arrive(s, MEETS_TO_TELL, e);
}

int averaging_look(struct averaging *s, struct err *e)
{
    int rc = arrive(s, MEETS_NOBODY, e);
    if (rc >= 0 && (rc = survival_look(s->survival, e)) < 0) {
        rc = averaging_go_on(s, rc, e);
    }
    return rc < 0 ? rc : 0;
}
