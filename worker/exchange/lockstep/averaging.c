/* Averaging of parameters, for `local-sgd`, `hier-sgd` and their like: see averaging.h.
 *
 * Every worker steps by itself with its own optimizer; the policy decides after which steps which
 * workers average. Parameters are weighted by the samples that each worker took since the last
 * average (docs/semantics.md#averages-and-rounds), or by what a user's program says that they
 * weigh; running statistics always by samples. Only averages over all workers include optimizer
 * state and words, so sizes change and a job pauses there. The job ends with an average over all.
 * An evaluation or the best checkpoint between two such averages uses an average that changes no
 * replica.
 *
 * When a worker dies the others go back to the last average over all, and make its interval again
 * without it (rollback.h). */
#include "worker/exchange/lockstep/averaging.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/lockstep/survival/survival.h"
#include "worker/exchange/lockstep/steps/weights.h"
#include "worker/exchange/norm_stats.h"

/* What was taken since an average. */
struct interval {
    double samples, mine; /* by all who average; by this rank */
    double weight;        /* of this rank's gradients */
};

struct averaging {
    struct strategy base;
    struct lockstep l;
    const struct averaging_policy *policy;
    struct interval group_since, all_since; /* the last average of the group, of all */
    struct allreduce group, all;
    struct survival *survival; /* NULL: a lost worker ends the run */
    struct weighing weighing;  /* of the average over all: whose programs have left */
    /* [n] what is summed: parameters, optimizer state, statistics, then words or a weight; owned */
    float *sum;
    float *own; /* [n_params + n_stats] this rank's replica while the average is evaluated; owned */
    size_t n_params, n_optim, n_stats;
    float distance; /* of this rank's replica from the last average over all, just before it; NaN:
                       none at this step */
    bool average_loaded; /* the replica's blocks hold the average, `own` the replica */
};

/* Groups of `group_size`; else those of the cluster or of the hosts, as the comm has them. */
static int set_groups(const struct rank_env *env, struct err *e)
{
    int groups[SPEC_WORKERS], size = env->spec->strategy.group_size;
    if (size <= 0) {
        return 0;
    }
    for (int i = 0; i < env->comm->workers; i++) {
        groups[i] = i / size;
    }
    return comm_set_groups(env->comm, groups, e);
}

static int give_up(void *ctx, struct err *e)
{
    struct averaging *s = ctx;
    int rc = allreduce_cancel(&s->group, e);
    return rc < 0 ? rc : allreduce_cancel(&s->all, e);
}

static int init(struct averaging *s, struct rank_env *env, const struct run_state *state,
                struct err *e)
{
    const struct dev_replica *r = env->replica;
    lockstep_init(&s->l, env, state);
    s->weighing.l = env->weighed ? &s->l : NULL;
    s->n_params = r->count[DEV_PARAMS];
    s->n_optim = r->count[DEV_OPTIM];
    s->n_stats = r->count[DEV_STATS];
    size_t all = s->n_params + s->n_optim + s->n_stats + lockstep_words(&s->l);
    s->sum = malloc(all * sizeof(float));
    s->own = malloc((s->n_params + s->n_stats + 1) * sizeof(float));
    if (!s->sum || !s->own) {
        return err_set(e, ERR_MEMORY, "cannot average %zu parameters: memory ran out", s->n_params);
    }
    allreduce_init(&s->all, env->comm, COMM_ALL, all);
    int rc = set_groups(env, e);
    if (rc >= 0 && env->comm->n_members[COMM_MINE] > 1) {
        allreduce_init(&s->group, env->comm, COMM_MINE, s->n_params + s->n_stats + env->weighed);
    }
    if (rc >= 0 && survival_is_possible(env)) {
        s->survival = survival_new_of_averages(&s->l, false, give_up, s, e);
        rc = s->survival ? 0 : -(int)e->code;
    }
    return rc;
}

const struct program_part averaging_program = {.step = STEP_BY_PROGRAM};

struct strategy *averaging_start(const struct strategy_ops *ops,
                                 const struct averaging_policy *policy, struct rank_env *env,
                                 const struct run_state *state, struct err *e)
{
    struct averaging *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the strategy: memory ran out");
        return NULL;
    }
    s->base.ops = ops;
    s->policy = policy;
    if (init(s, env, state, e) < 0) {
        averaging_free(&s->base);
        return NULL;
    }
    return &s->base;
}

void averaging_free(struct strategy *base)
{
    struct averaging *s = (struct averaging *)base;
    survival_free(s->survival);
    allreduce_release(&s->all);
    allreduce_release(&s->group);
    lockstep_release(&s->l);
    free(s->sum);
    free(s->own);
    free(s);
}

/* ---- averages -------------------------------------------------------------------------------- */

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

/* What was summed, into the replica. */
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

/* Sums what was gathered, n floats, where no words go along; a weight does, where ranks have one.
 */
static int sum(struct averaging *s, struct allreduce *over, size_t n, const struct interval *since,
               struct err *e)
{
    size_t weights = s->l.env->weighed;
    if (weights > 0) {
        s->sum[n] = (float)since->weight;
    }
    allreduce_start(over, s->sum, n + weights, weights);
    return end_sum(s, over, e);
}

/* The sum becomes a mean: gradients weighed `weight` in all, and not as the samples. If nothing,
 * then nobody has made a step since the last average, and the replica is the mean. */
static void correct(struct averaging *s, bool optim, const struct interval *since, double weight)
{
    const struct dev_replica *r = s->l.env->replica;
    size_t n_optim = optim ? s->n_optim : 0;
    if (!s->l.env->weighed || weight == since->samples) {
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

static int average_group(struct averaging *s, struct err *e)
{
    struct comm *c = s->l.env->comm;
    size_t n;
    struct interval *since = &s->group_since;
    int rc;
    if (c->n_members[COMM_MINE] < 2 || since->samples <= 0) {
        return 0;
    }
    if ((rc = gather(s, false, since, &n, e)) < 0 || (rc = sum(s, &s->group, n, since, e)) < 0) {
        return rc;
    }
    correct(s, false, since, s->sum[n]);
    *since = (struct interval){0};
    return load(s, false, e);
}

/* After a step, or in place of the one that the program would not make (r->leaves). */
static int average_all(struct averaging *s, const struct dev_result *r, double step_seconds,
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
    if (s->l.env->weighed) {
        correct(s, true, since, lockstep_weighed(&s->l, words)[WORD_WEIGHT]);
    }
    s->group_since = s->all_since = (struct interval){0};
    lockstep_agree(&s->l, words);
    s->l.at.evaluated_here = false;
    if (!moved) {
        return 0; /* the replicas are equal */
    }
    if (s->n_params > 0) { /* else there are no numbers */
        const float *own = s->l.env->replica->host[DEV_PARAMS];
        s->distance = (float)flat_distance(own, s->sum, s->n_params);
    }
    if ((rc = load(s, true, e)) >= 0) {
        survival_averaged(s->survival, words);
    }
    return rc;
}

/* Loads the average into the device's blocks for an evaluation, and saves the replica in `own`. */
static int load_average(struct averaging *s, struct err *e)
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
    return load(s, false, e);
}

static int load_own(struct averaging *s, struct err *e)
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

/* ---- steps ----------------------------------------------------------------------------------- */

static int find_next(struct averaging *s, struct work *out, struct err *e)
{
    struct lockstep *l = &s->l;
    int rc = survival_look(s->survival, e);
    if (rc < 0 || lockstep_leaves(l, out)) {
        return rc;
    }
    if (lockstep_over(l) && s->all_since.samples > 0 && /* the target came between two averages */
        (rc = average_all(s, &(struct dev_result){0}, 0, e)) < 0) {
        return rc;
    }
    if (lockstep_evaluates(l, out)) {
        return load_average(s, e);
    }
    if ((rc = lockstep_checkpoint(l, NULL, 0, e)) >= 0) {
        lockstep_train(l, out);
    }
    return rc;
}

/* After an exchange that ended with `rc`: goes back to the last average if a worker is lost. */
static int recover(struct averaging *s, int rc, struct err *e)
{
    if ((rc = survival_recover(s->survival, rc, NULL, e)) >= 0) {
        s->group_since = s->all_since = (struct interval){0};
        s->average_loaded = false;
    }
    return rc;
}

int averaging_next(struct strategy *base, struct work *out, struct err *e)
{
    struct averaging *s = (struct averaging *)base;
    int rc = find_next(s, out, e);
    while (rc < 0 && (rc = recover(s, rc, e)) >= 0) {
        *out = (struct work){0};
        rc = find_next(s, out, e);
    }
    return rc;
}

void averaging_bucket(struct strategy *base, const struct work *w, const struct dev_bucket *b,
                      int index, int n_buckets)
{
    (void)base; /* gradients stay here */
    (void)w;
    (void)b;
    (void)index;
    (void)n_buckets;
}

int averaging_further(struct strategy *base, const struct work *w, struct err *e)
{
    (void)base; /* what it adds to them too */
    (void)w;
    (void)e;
    return 0;
}

static void count_mine(struct interval *since, const struct work *w)
{
    since->mine += (double)w->slice.count;
    since->weight += w->slice.count > 0 ? w->weight : 0;
}

static void count_samples(struct averaging *s, const struct work *w)
{
    const struct lockstep *l = &s->l;
    const struct comm *c = l->env->comm;
    count_mine(&s->group_since, w);
    count_mine(&s->all_since, w);
    s->all_since.samples += (double)l->slice.count;
    for (int i = 0; i < c->n_members[COMM_MINE]; i++) {
        s->group_since.samples += (double)l->counts[c->members[COMM_MINE][i]];
    }
}

bool averaging_is_alone(const struct comm *c)
{
    (void)c;
    return true; /* what is summed are parameters */
}

static int update(struct averaging *s, const struct work *w, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    bool done = w->updated || w->slice.count == 0 || w->weight <= 0;
    return done ? 0 : r->dev->ops->update(r, w->learning_rate, 1.0, e);
}

/* Makes the average that the step ends with; *floats: how many of each replica. */
static int average(struct averaging *s, const struct dev_result *r, double step_seconds,
                   size_t *floats, struct err *e)
{
    const struct lockstep *l = &s->l;
    double epoch = (double)l->at.applied / (double)l->env->train_samples;
    bool last = cursor_done(&l->at.cursor);
    switch (last ? AVERAGE_ALL : s->policy->after(l->env->spec, l->at.step, epoch)) {
    case AVERAGE_ALL:
        *floats = s->n_params + s->n_optim + s->n_stats;
        return average_all(s, r, step_seconds, e);
    case AVERAGE_GROUP:
        *floats = s->n_params + s->n_stats;
        return average_group(s, e);
    case AVERAGE_NONE:
        break;
    }
    *floats = 0;
    return 0;
}

int averaging_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e)
{
    struct averaging *s = (struct averaging *)base;
    struct lockstep *l = &s->l;
    double begin = comm_now(l->env->comm);
    size_t floats;
    int rc = r->leaves ? average_all(s, r, compute_s, e) : update(s, w, e);
    if (rc < 0 || r->leaves) {
        return rc;
    }
    count_samples(s, w);
    survival_count(s->survival);
    s->distance = NAN;
    lockstep_done(l);
    int64_t step = l->at.step;
    if ((rc = average(s, r, compute_s, &floats, e)) < 0 &&
        ((rc = recover(s, rc, e)) < 0 || l->at.step < step)) {
        return rc; /* the step is undone */
    }
    struct row row = lockstep_row(l, w, r, compute_s, begin);
    row.bytes = 2 * floats * sizeof(float);
    row.strategy_value = s->distance;
    l->env->row(l->env->ctx, &row);
    survival_told(s->survival, &row);
    return 0;
}

int averaging_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    struct averaging *s = (struct averaging *)base;
    int rc = lockstep_evaluated(&s->l, w, r, e);
    if (rc < 0) {
        return recover(s, rc, e);
    }
    survival_evaluated(s->survival);
    return load_own(s, e);
}

int averaging_finish(struct strategy *base, struct err *e)
{
    struct averaging *s = (struct averaging *)base;
    return s->survival ? survival_finish(s->survival, NULL, 0, e)
                       : lockstep_finish(&s->l, NULL, 0, e);
}

void averaging_footprint(const struct averaging_policy *policy, struct footprint *f)
{
    double all = f->params + f->optim + f->stats;
    footprint_add_workers(f, "what is summed", all + f->words);
    footprint_add_workers(f, "replicas set aside", f->params + f->stats);
    footprint_add_workers(f, "chunks of rings", 2 * f->chunk + (policy->groups ? all / 2 : 0));
    f->summed += (size_t)f->optim;
    f->survivors = f->workers > 1 ? all : 0; /* rollback.c */
}
