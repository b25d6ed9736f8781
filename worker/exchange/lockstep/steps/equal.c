/* See equal.h. */
#include "worker/exchange/lockstep/steps/equal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_BETWEEN = 50 };

int equal_init(struct equal *q, struct lockstep *l, struct err *e)
{
    const struct rank_env *env = l->env;
    memset(q, 0, sizeof *q);
    if (env->program.marks == 0 || env->comm->workers < 2) {
        return 0;
    }
    q->l = l;
    q->n = env->program.marks;
    l->at.compared = -STEPS_BETWEEN;
    q->own = malloc(q->n * sizeof(float));
    q->sums = malloc((2 * q->n + 1) * sizeof(float));
    allreduce_init(&q->all, env->comm, COMM_ALL, 2 * q->n + 1);
    return q->own && q->sums
               ? 0
               : err_set(e, ERR_MEMORY, "cannot compare the ranks' parameters: memory ran out");
}

void equal_release(struct equal *q)
{
    if (q->l) {
        allreduce_release(&q->all);
    }
    free(q->own);
    free(q->sums);
}

/* Writes this rank's marks and their squares; zeros if its program has ended meanwhile. */
static void write_sums(struct equal *q, bool known)
{
    for (size_t i = 0; i < q->n; i++) {
        q->sums[i] = known ? q->own[i] : 0;
        q->sums[q->n + i] = known ? q->own[i] * q->own[i] : 0;
    }
    q->sums[2 * q->n] = known;
}

static int judge(const struct equal *q, struct err *e)
{
    static const double as_the_others = 0.95; /* the squares of floats are no more exact */
    const struct rank_env *env = q->l->env;
    double ranks = q->sums[2 * q->n];
    for (size_t i = 0; i < q->n; i++) {
        double mean = q->sums[i] / ranks, off = fabs(q->own[i] - mean),
               spread = sqrt(fmax(q->sums[q->n + i] / ranks - mean * mean, 0));
        int rc = off >= as_the_others * spread ? env->differs(env->ctx, i, off, e) : 0;
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static bool is_due(const struct equal *q)
{
    return q->l && (q->l->at.step - q->l->at.compared >= STEPS_BETWEEN || lockstep_over(q->l));
}

int equal_check(struct equal *q, struct err *e)
{
    if (!is_due(q)) {
        return 0;
    }
    const struct rank_env *env = q->l->env;
    size_t floats = 2 * q->n + 1;
    q->l->at.compared = q->l->at.step;
    bool known = env->mark(env->ctx, q->own);
    write_sums(q, known);
    allreduce_start(&q->all, q->sums, floats, 0);
    env->comm->watches = true;
    int rc = comm_wait(env->comm, &q->all.op, e);
    env->comm->watches = false;
    if (rc == -ERR_CANCELLED) { /* the next exchange goes on without the lost worker */
        err_clear(e);
        return allreduce_cancel(&q->all, e);
    }
    return rc < 0 || !known ? rc : judge(q, e);
}

void equal_pass_over(struct equal *q)
{
    if (is_due(q)) {
        q->l->at.compared = q->l->at.step;
    }
}
