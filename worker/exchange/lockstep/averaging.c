/* Averaging of parameters, for `local-sgd`, `hier-sgd` and their like: see averaging.h.
 *
 * Every worker steps by itself with its own optimizer; the policy decides after which steps which
 * workers average. Parameters are weighted by the samples that each worker took since the last
 * average (docs/semantics.md#averages-and-rounds), or by what a user's program says that they
 * weigh; running statistics always by samples. Only averages over all workers include optimizer
 * state and words, so only there sizes change and a job pauses. The job ends with an average over
 * all. Between two such averages, an evaluation or the best checkpoint uses an average that changes
 * no replica.
 *
 * When a worker dies the others go back to the last average over all, and make its interval again
 * without it (rollback.h). Users' programs keep their steps, and make the next average without it
 * (past.h). */
#include <math.h>
#include <stdlib.h>

#include "worker/exchange/lockstep/averaging_parts.h"

/* Sets groups of `group_size`; without that the comm has those of the cluster or of the hosts. */
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
    s->weighing.l = env->program.weighed ? &s->l : NULL;
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
        allreduce_init(&s->group, env->comm, COMM_MINE,
                       s->n_params + s->n_stats + env->program.weighed);
    }
    if (rc >= 0 && survival_is_possible(env)) {
        s->survival = survival_new_of_averages(&s->l, false, give_up, s, &s->all_since.samples, e);
        s->keeps = env->program.ahead > 0;
        rc = s->survival ? 0 : -(int)e->code;
    }
    return rc;
}

/* A worker that has come back joins the exchange before which the others stand, without a part of
 * its own. `next` then goes on from there. */
static int join(struct averaging *s, struct err *e)
{
    const struct dev_result none = {.finite = true, .absent = true};
    switch (survival_meeting(s->survival)) {
    case MEETS_TO_AVERAGE:
        return averaging_of_all(s, &none, 0, e);
    case MEETS_TO_TELL:
        return averaging_evaluated(&s->base, &(struct work){.action = DO_EVALUATE}, &none, e);
    case MEETS_TO_SHOW:
    case MEETS_GROUP:
    case MEETS_TO_MERGE:
    case MEETS_NOBODY:
        break;
    }
    return 0;
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
    if (init(s, env, state, e) < 0 || (s->keeps && env->comes_back && join(s, e) < 0)) {
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

/* ---- steps ----------------------------------------------------------------------------------- */

static int find_next(struct averaging *s, struct work *out, struct err *e)
{
    struct lockstep *l = &s->l;
    int rc = s->keeps ? averaging_look(s, e) : survival_look(s->survival, e);
    if (rc < 0 || lockstep_leaves(l, out)) {
        return rc;
    }
    if (lockstep_over(l) && s->all_since.samples > 0 && /* the target was reached between two
                                                           averages */
        (rc = averaging_of_all(s, &(struct dev_result){0}, 0, e)) < 0) {
        return rc;
    }
    if (lockstep_evaluates(l, out)) {
        return averaging_load(s, e);
    }
    if ((rc = lockstep_checkpoint(l, NULL, 0, e)) >= 0) {
        lockstep_train(l, out);
    }
    return rc;
}

/* After an exchange that ended with `rc`: goes back to the last average if a worker is lost. */
static int recover(struct averaging *s, int rc, struct err *e)
{
    if (!s->keeps && (rc = survival_recover(s->survival, rc, NULL, e)) >= 0) {
        averaging_begin_interval(s);
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
    (void)base; /* gradients are not exchanged */
    (void)w;
    (void)b;
    (void)index;
    (void)n_buckets;
}

int averaging_further(struct strategy *base, const struct work *w, struct err *e)
{
    (void)base; /* further passes are not exchanged either */
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
    return true; /* parameters are summed, not gradients */
}

static int update(struct averaging *s, const struct work *w, struct err *e)
{
    struct dev_replica *r = s->l.env->replica;
    bool done = w->updated || w->slice.count == 0 || w->weight <= 0;
    return done ? 0 : r->dev->ops->update(r, w->learning_rate, 1.0, e);
}

/* Makes the average with which the step ends. *floats: how many floats of each replica went into
 * it. */
static int average(struct averaging *s, const struct dev_result *r, double step_seconds,
                   size_t *floats, struct err *e)
{
    const struct lockstep *l = &s->l;
    double epoch = (double)l->at.applied / (double)l->env->train_samples;
    bool last = cursor_done(&l->at.cursor);
    switch (last ? AVERAGE_ALL : s->policy->after(l->env->spec, l->at.step, epoch)) {
    case AVERAGE_ALL:
        *floats = s->n_params + s->n_optim + s->n_stats;
        return averaging_of_all(s, r, step_seconds, e);
    case AVERAGE_GROUP:
        *floats = s->n_params + s->n_stats;
        return averaging_of_group(s, e);
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
    int rc = r->leaves ? averaging_of_all(s, r, compute_s, e) : update(s, w, e);
    if (rc < 0 || r->leaves) {
        return rc;
    }
    count_samples(s, w);
    lockstep_note_measured(l, r);
    if ((rc = survival_count(s->survival, e)) < 0) {
        return rc;
    }
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
    int rc = averaging_meet(s, e);
    while (rc >= 0 && (rc = lockstep_evaluated(&s->l, w, r, e)) < 0) {
        if (!s->keeps || (rc = averaging_go_on(s, rc, e)) < 0) {
            return recover(s, rc, e);
        }
        if (rc == RECOVERED) {
            break; /* the others have completed the sum of the evaluation */
        }
    }
    if (rc < 0) {
        return rc;
    }
    survival_evaluated(s->survival);
    return averaging_load_own(s, e);
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
