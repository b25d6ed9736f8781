/* Marks of the parameters, by which programs that change theirs in a way of their own are found:
 * where all ranks' must be equal the ranks compare marks (worker/exchange/lockstep/steps/equal.h),
 * and where others make the step a mark tells whether the program changed what it was given.
 *
 *      tensor   ├── range 0 ──┼── range 1 ──┼ … at most 32 of them
 *      mark       Σ ±x          Σ ±x          a sign by the element's index
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "worker/program/engine_parts.h"

enum { RANGES = 32 };

struct range {
    const struct tensor *of;
    size_t first, n;
};

/* ±1 by the index, alike on all ranks. */
static float sign(size_t i)
{
    uint32_t x = (uint32_t)i * 0x9e3779b1u;
    x ^= x >> 15;
    x *= 0x85ebca77u;
    return (x >> 31) & 1 ? 1.0f : -1.0f;
}

static size_t ranges_of(const struct tensor *t)
{
    return t->count < RANGES ? t->count : RANGES;
}

static struct range range_of(const struct tensor *t, size_t i)
{
    size_t n = ranges_of(t), from = t->count * i / n;
    return (struct range){t, t->first + from, t->count * (i + 1) / n - from};
}

static struct range find_range(const struct network *net, size_t mark)
{
    int t = 0;
    while (mark >= ranges_of(&net->tensors[t])) {
        mark -= ranges_of(&net->tensors[t++]);
    }
    return range_of(&net->tensors[t], mark);
}

static const struct network *network_of(const struct program_engine *g)
{
    return &g->base.env->spec->network;
}

static size_t count_marks(const struct network *net)
{
    size_t n = 0;
    for (int t = 0; t < net->n_tensors; t++) {
        n += ranges_of(&net->tensors[t]);
    }
    return n;
}

bool marks_write(struct program_engine *g, float *out)
{
    const struct network *net = network_of(g);
    const float *x = g->replica.host[DEV_PARAMS];
    for (int t = 0; t < net->n_tensors; t++) {
        for (size_t i = 0; i < ranges_of(&net->tensors[t]); i++) {
            struct range r = range_of(&net->tensors[t], i);
            double sum = 0;
            for (size_t k = r.first; k < r.first + r.n; k++) {
                sum += sign(k) * x[k];
            }
            *out++ = (float)sum;
        }
    }
    return !g->lost;
}

/* ---- of ranks -------------------------------------------------------------------------------- */

/* Is `off` more than this of what a mark would be by the tensor's root mean square? */
static bool is_off(const struct program_engine *g, const struct range *r, double off, double share)
{
    static const double absolute = 1e-5; /* of an element */
    const float *x = g->replica.host[DEV_PARAMS] + r->of->first;
    double squares = 0;
    for (size_t k = 0; k < r->of->count; k++) {
        squares += (double)x[k] * x[k];
    }
    double size = sqrt(squares / (double)r->of->count);
    return !(off <= (share * size + absolute) * sqrt((double)r->n));
}

/* Processors that round otherwise set the parameters of ranks apart by less than a hundredth of
 * this. */
static const double of_ranks = 1e-3;

int marks_differ(struct program_engine *g, size_t mark, double off, struct err *e)
{
    struct range r = find_range(network_of(g), mark);
    if (!is_off(g, &r, off, of_ranks)) {
        return 0;
    }
    char why[200];
    snprintf(why, sizeof(why),
             "has other parameters than the others after step %lld, first in '%.60s': it changes "
             "them between steps in a way of its own",
             (long long)g->number + 1, r.of->name);
    child_gave_up(&g->p->child, why);
    bool again = g->p->incarnation > 0; /* in another attempt all programs begin alike */
    err_set(e, again ? ERR_PEER : ERR_PROGRAM, "%s %s", g->p->link.who, why);
    err_hint(e, "%s",
             again
                 ? "it was started again: if it computes its rate by a count of its own, "
                   "evenstep.steps(n) has the run's count"
                 : "code that changes parameters or gradients beside the optimizer must do the "
                   "same on every rank; layers that take their first values from a batch (ActNorm) "
                   "see one before prepare()");
    return -(int)e->code;
}

/* ---- of one program -------------------------------------------------------------------------- */

/* A small block at every step, any other one now and then. */
enum { SMALL = 4096, NOW_AND_THEN = 50 };

/* What a bfloat16 tensor loses on its way through the program is less. */
static const double of_one = 1e-2;

int marks_init(struct program_engine *g, struct err *e)
{
    g->n_marks = count_marks(network_of(g));
    g->given = calloc(2 * g->n_marks + 1, sizeof(float));
    return g->given ? 0 : err_set(e, ERR_MEMORY, "cannot watch the parameters: memory ran out");
}

void marks_give(struct program_engine *g)
{
    const struct strategy_ops *strategy = strategy_find(g->base.env->spec->strategy.type);
    bool elsewhere = strategy->program->step == STEP_BY_STRATEGY,
         due = g->replica.count[DEV_PARAMS] <= SMALL || g->number % NOW_AND_THEN == 0;
    g->gave = elsewhere && due && !g->told_lost && marks_write(g, g->given);
}

void marks_take(struct program_engine *g)
{
    const float *was = g->given;
    float *is = g->given + g->n_marks;
    if (!g->gave) {
        return;
    }
    g->gave = false;
    marks_write(g, is);
    for (size_t i = 0; i < g->n_marks && !g->told_lost; i++) {
        struct range r = find_range(network_of(g), i);
        if (is[i] != was[i] && is_off(g, &r, fabs((double)is[i] - was[i]), of_one)) {
            char name[2 * sizeof(r.of->name)];
            g->told_lost = true;
            log_warn(
                "program",
                "parameters that the program changes between steps are lost: the strategy's next "
                "ones take their place",
                "node=%s step=%lld tensor=%s strategy=%s", g->p->ask.node, (long long)g->number,
                log_quote(name, sizeof(name), r.of->name),
                catalog_get(g->base.env->spec->strategy.type)->name);
        }
    }
}
