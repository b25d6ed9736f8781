/* Strategies that average parameters: `local-sgd` (K-AVG(K), Zhou & Cong 2018) and `hier-sgd`
 * (Hier-AVG(K1, K2, S), Cong et al.; P4).
 *
 *      step          1    2    3    4    5    6    7    8            K1 = 2, K2 = 4, two groups
 *      group 0     ──┼────╫────┼────█────┼────╫────┼────█──          ╫ average inside the group
 *      group 1     ──┼────╫────┼────█────┼────╫────┼────█──          █ average over all workers
 *
 * Every worker steps by itself with its own optimizer; step t counts from 1: K2 | t averages over
 * all, else K1 | t inside the group. Parameters weigh as the samples that each worker took since
 * the last average (SEMANTICS.md 3, 6), so with K = 1 and plain SGD an average is what `sync` does.
 * Optimizer state is averaged with the parameters at global averages only, where control words
 * travel too: sizes change and a job pauses there. The job ends with a global average. An
 * evaluation or the best checkpoint between two global averages is made of an average that changes
 * no replica. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/flat.h"
#include "worker/exchange/lockstep/lockstep.h"
#include "worker/exchange/moments.h"

struct averaging {
    struct strategy base;
    struct lockstep l;
    int k1, k2;
    double group_samples, all_samples; /* taken since the last average of the group, of all: by the
                                          whole group, by all */
    double mine_in_group, mine_in_all; /* by this rank */
    struct allreduce group, all;
    float *sum; /* [n] what is summed: parameters, then optimizer state, then statistics, then the
                   words */
    float *own; /* [n_params + n_stats] this rank's replica while the average is evaluated */
    size_t n_params, n_optim, n_stats;
    float distance; /* of this rank's replica from the last global average, just before it; NaN:
                       none at this step */
    bool average_loaded; /* the replica's blocks hold the average, `own` the replica */
};

static int group_of(const struct rank_env *env)
{
    const struct strategy_spec *o = &env->spec->strategy;
    int W = env->comm->workers, groups[SPEC_WORKERS];
    struct err ignored;
    if (o->group_size > 0) {
        for (int i = 0; i < W; i++) {
            groups[i] = i / o->group_size;
        }
        return comm_set_groups(env->comm, groups, &ignored);
    }
    return 0; /* those of the cluster or of the hosts, as the comm has them */
}

static struct strategy *start(const struct strategy_ops *ops, int k1, int k2, struct rank_env *env,
                              const struct run_state *state, struct err *e)
{
    struct averaging *s = calloc(1, sizeof *s);
    const struct dev_replica *r = env->replica;
    if (s) {
        s->base.ops = ops;
        s->k1 = k1;
        s->k2 = k2;
        lockstep_init(&s->l, env, state);
        s->n_params = r->count[DEV_PARAMS];
        s->n_optim = r->count[DEV_OPTIM];
        s->n_stats = r->count[DEV_STATS];
        s->sum =
            malloc((s->n_params + s->n_optim + s->n_stats + lockstep_words(&s->l)) * sizeof(float));
        s->own = malloc((s->n_params + s->n_stats + 1) * sizeof(float));
    }
    if (!s || !s->sum || !s->own || group_of(env) < 0) {
        err_set(e, ERR_MEMORY, "cannot start the strategy: memory ran out");
        if (s) {
            free(s->sum);
            free(s->own);
            free(s);
        }
        return NULL;
    }
    allreduce_init(&s->all, env->comm, COMM_ALL,
                   s->n_params + s->n_optim + s->n_stats + lockstep_words(&s->l));
    if (env->comm->n_members[COMM_MINE] > 1) {
        allreduce_init(&s->group, env->comm, COMM_MINE, s->n_params + s->n_stats);
    }
    return &s->base;
}

static struct strategy *start_local(struct rank_env *env, const struct run_state *state,
                                    struct err *e)
{
    int k = env->spec->strategy.k;
    return start(&strategy_local_sgd, 0, k, env, state, e);
}

static struct strategy *start_hier(struct rank_env *env, const struct run_state *state,
                                   struct err *e)
{
    return start(&strategy_hier_sgd, env->spec->strategy.k1, env->spec->strategy.k2, env, state, e);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* Blocks, weighed by this rank's share, into the buffer; *floats: how many. */
static int gather(struct averaging *s, bool optim, double share, size_t *floats, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    size_t n = s->n_params;
    int rc = r->dev->ops->fetch(r, DEV_PARAMS, 0, s->n_params, e);
    flat_scale(s->sum, r->host[DEV_PARAMS], (float)share, s->n_params);
    if (optim && s->n_optim) {
        rc = rc < 0 ? rc : r->dev->ops->fetch(r, DEV_OPTIM, 0, s->n_optim, e);
        flat_scale(s->sum + n, r->host[DEV_OPTIM], (float)share, s->n_optim);
        n += s->n_optim;
    }
    if (s->n_stats) {
        rc = rc < 0 ? rc : r->dev->ops->fetch(r, DEV_STATS, 0, s->n_stats, e);
        moments_weigh(s->sum + n, r->host[DEV_STATS], s->l.env->mean_of, s->n_stats, (float)share);
        n += s->n_stats;
    }
    *floats = n;
    return rc;
}

static int load(struct averaging *s, bool optim, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    size_t n = s->n_params;
    memcpy(r->host[DEV_PARAMS], s->sum, s->n_params * sizeof(float));
    int rc = r->dev->ops->store(r, DEV_PARAMS, 0, s->n_params, e);
    if (optim && s->n_optim) {
        memcpy(r->host[DEV_OPTIM], s->sum + n, s->n_optim * sizeof(float));
        rc = rc < 0 ? rc : r->dev->ops->store(r, DEV_OPTIM, 0, s->n_optim, e);
        n += s->n_optim;
    }
    if (s->n_stats) {
        moments_settle(r->host[DEV_STATS], s->sum + n, s->l.env->mean_of, s->n_stats);
        rc = rc < 0 ? rc : r->dev->ops->store(r, DEV_STATS, 0, s->n_stats, e);
    }
    return rc;
}

static double share_of(double mine, double all)
{
    return all > 0 ? mine / all : 0;
}

static int average_group(struct averaging *s, struct err *e)
{
    if (s->l.env->comm->n_members[COMM_MINE] < 2 || s->group_samples <= 0) {
        return 0;
    }
    size_t n;
    int rc = gather(s, false, share_of(s->mine_in_group, s->group_samples), &n, e);
    if (rc >= 0) {
        allreduce_start(&s->group, s->sum, n, 0);
        rc = comm_wait(s->l.env->comm, &s->group.op, e);
    }
    s->group_samples = s->mine_in_group = 0;
    return rc < 0 ? rc : load(s, false, e);
}

static int average_all(struct averaging *s, double step_seconds, struct err *e)
{
    size_t n;
    if (gather(s, true, share_of(s->mine_in_all, s->all_samples), &n, e) < 0) {
        return -ERR_DEVICE;
    }
    float *words = s->sum + n;
    lockstep_write(&s->l, words, step_seconds, 0);
    allreduce_start(&s->all, s->sum, n + lockstep_words(&s->l), lockstep_words(&s->l));
    int rc = comm_wait(s->l.env->comm, &s->all.op, e);
    s->group_samples = s->mine_in_group = s->all_samples = s->mine_in_all = 0;
    if (rc >= 0) {
        lockstep_agree(&s->l, words);
        /* without numbers */
        s->distance = s->n_params > 0 ? (float)flat_distance(s->l.env->replica->host[DEV_PARAMS],
                                                             s->sum, s->n_params)
                                      : NAN;
    }
    return rc < 0 ? rc : load(s, true, e);
}

/* The average into the device's blocks for an evaluation; the replica waits in `own`. */
static int load_average(struct averaging *s, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    if (s->all_samples <= 0) {
        return 0; /* the replicas are equal */
    }
    size_t n;
    if (gather(s, false, share_of(s->mine_in_all, s->all_samples), &n, e) < 0) {
        return -ERR_DEVICE;
    }
    memcpy(s->own, r->host[DEV_PARAMS], s->n_params * sizeof(float));
    if (s->n_stats) {
        memcpy(s->own + s->n_params, r->host[DEV_STATS], s->n_stats * sizeof(float));
    }
    s->l.env->aside(s->l.env->ctx, true);
    allreduce_start(&s->all, s->sum, n, 0);
    int rc = comm_wait(s->l.env->comm, &s->all.op, e);
    s->l.env->aside(s->l.env->ctx, false);
    s->average_loaded = true;
    return rc < 0 ? rc : load(s, false, e);
}

static int load_own(struct averaging *s, struct err *e)
{
    if (!s->average_loaded) {
        return 0;
    }
    struct dev_replica *r = s->l.env->replica;
    s->average_loaded = false;
    memcpy(r->host[DEV_PARAMS], s->own, s->n_params * sizeof(float));
    int rc = r->dev->ops->store(r, DEV_PARAMS, 0, s->n_params, e);
    if (s->n_stats) {
        memcpy(r->host[DEV_STATS], s->own + s->n_params, s->n_stats * sizeof(float));
        rc = rc < 0 ? rc : r->dev->ops->store(r, DEV_STATS, 0, s->n_stats, e);
    }
    return rc;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int next(struct strategy *base, struct work *out, struct err *e)
{
    struct averaging *s = (struct averaging *)base;
    struct lockstep *l = &s->l;
    if (l->stop || l->pause) {
        out->action = l->stop ? DO_STOP : DO_PAUSE;
        return 0;
    }
    bool over = lockstep_over(l);
    int rc = 0;
    if (over && s->all_samples > 0) {
        rc = average_all(s, 0, e); /* the target was reached between two averages */
        l->evaluated_here = false;
    }
    if (rc >= 0 && (l->evaluate || (over && !l->evaluated_here)) && lockstep_test_part(l, out)) {
        return load_average(s, e);
    }
    if (rc >= 0 && l->checkpoint) {
        l->checkpoint = false;
        rc = lockstep_send_state(l, NULL, 0, SAVE_CHECKPOINT, -1, e);
    }
    if (over || rc < 0) {
        out->action = DO_END;
        return rc;
    }
    lockstep_next(l, out);
    return 0;
}

static void on_bucket(struct strategy *base, const struct dev_bucket *b, int index, int n_buckets)
{
    (void)base; /* gradients stay here */
    (void)b;
    (void)index;
    (void)n_buckets;
}

static void count_samples(struct averaging *s)
{
    const struct lockstep *l = &s->l;
    const struct comm *c = l->env->comm;
    double mine = (double)l->counts[c->rank];
    s->mine_in_group += mine;
    s->mine_in_all += mine;
    s->all_samples += (double)l->slice.count;
    for (int i = 0; i < c->n_members[COMM_MINE]; i++) {
        s->group_samples += (double)l->counts[c->members[COMM_MINE][i]];
    }
}

static bool alone(const struct comm *c)
{
    (void)c;
    return true; /* what is summed are parameters */
}

static int on_gradients(struct strategy *base, const struct work *w, const struct dev_result *r,
                        double compute_s, struct err *e)
{
    struct averaging *s = (struct averaging *)base;
    struct lockstep *l = &s->l;
    struct dev_replica *replica = l->env->replica;
    double begin = comm_now(l->env->comm);
    uint64_t bytes = 0;
    int rc = w->slice.count > 0 && !w->updated
                 ? replica->dev->ops->update(replica, w->learning_rate, 1.0, e)
                 : 0;
    count_samples(s);
    s->distance = NAN;
    lockstep_done(l);
    if (rc >= 0 && (l->step % s->k2 == 0 || cursor_done(&l->cursor))) {
        rc = average_all(s, compute_s, e);
        bytes = 2 * (s->n_params + s->n_optim + s->n_stats) * sizeof(float);
    } else if (rc >= 0 && s->k1 > 0 && l->step % s->k1 == 0) {
        rc = average_group(s, e);
        bytes = 2 * (s->n_params + s->n_stats) * sizeof(float);
    }
    struct row row = lockstep_row(l, w, r, compute_s, begin);
    row.bytes = bytes;
    row.strategy_value = s->distance;
    l->env->row(l->env->ctx, &row);
    return rc;
}

static int on_evaluated(struct strategy *base, const struct work *w, const struct dev_result *r,
                        struct err *e)
{
    struct averaging *s = (struct averaging *)base;
    int rc = lockstep_evaluated(&s->l, w, r, e);
    if (rc > 0) {
        rc = lockstep_send_state(&s->l, NULL, 0, SAVE_BEST, -1, e);
    }
    return rc < 0 ? rc : load_own(s, e);
}

static int finish(struct strategy *base, struct err *e)
{
    return lockstep_finish(&((struct averaging *)base)->l, NULL, 0, e);
}

static void release(struct strategy *base)
{
    struct averaging *s = (struct averaging *)base;
    allreduce_release(&s->all);
    allreduce_release(&s->group);
    lockstep_release(&s->l);
    free(s->sum);
    free(s->own);
    free(s);
}

const struct strategy_ops strategy_local_sgd = {
    .id = CAT_STRATEGY_LOCAL_SGD,
    .server = false,
    .alone = alone,
    .start = start_local,
    .next = next,
    .on_bucket = on_bucket,
    .on_gradients = on_gradients,
    .on_evaluated = on_evaluated,
    .finish = finish,
    .free = release,
    .serve = lockstep_serve,
};

const struct strategy_ops strategy_hier_sgd = {
    .id = CAT_STRATEGY_HIER_SGD,
    .server = false,
    .alone = alone,
    .start = start_hier,
    .next = next,
    .on_bucket = on_bucket,
    .on_gradients = on_gradients,
    .on_evaluated = on_evaluated,
    .finish = finish,
    .free = release,
    .serve = lockstep_serve,
};
