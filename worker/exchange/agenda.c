/* When to evaluate and when to write a checkpoint: see agenda.h. */
#include "worker/exchange/agenda.h"

#include <math.h>

static int64_t boundaries(const struct agenda *a, int64_t applied, int64_t step)
{
    if (a->spec->evaluate_every_steps > 0) {
        return step / a->spec->evaluate_every_steps;
    }
    double every = a->spec->evaluate_every_epochs * (double)a->train_samples;
    return every > 0 ? (int64_t)((double)applied / every + 1e-9) : 0;
}

void agenda_init(struct agenda *a, const struct jobspec *spec, int64_t train_samples,
                 int64_t applied, int64_t step, double now)
{
    *a = (struct agenda){
        .spec = spec, .train_samples = train_samples, .saved_step = step, .saved_time = now};
    a->evaluations = boundaries(a, applied, step);
}

bool agenda_evaluate(struct agenda *a, int64_t applied, int64_t step)
{
    int64_t n = boundaries(a, applied, step);
    bool due = n > a->evaluations;
    a->evaluations = due ? n : a->evaluations; /* lost samples may come again after the boundary */
    return due;
}

static bool is_checkpoint_due(const struct agenda *a, int64_t step, double now)
{
    return a->spec->checkpoint_every_steps > 0
               ? step - a->saved_step >= a->spec->checkpoint_every_steps
               : a->spec->checkpoint_every_seconds > 0 &&
                     now - a->saved_time >= a->spec->checkpoint_every_seconds;
}

bool agenda_is_due(const struct agenda *a, int64_t applied, int64_t step, double now)
{
    return boundaries(a, applied, step) > a->evaluations || is_checkpoint_due(a, step, now);
}

bool agenda_checkpoint(struct agenda *a, int64_t step, double now)
{
    bool due = is_checkpoint_due(a, step, now);
    if (due) {
        a->saved_step = step;
        a->saved_time = now;
    }
    return due;
}

static int64_t shorter(int64_t steps, double other)
{
    other = ceil(other);
    return !(other > 0) || other >= (double)steps ? steps : (int64_t)other;
}

int64_t agenda_shortest(const struct agenda *a, int batch)
{
    double epoch = batch > 0 ? (double)a->train_samples / batch : 0;
    int64_t steps = shorter(INT64_MAX, epoch);
    steps = a->spec->evaluate_every_steps > 0
                ? shorter(steps, (double)a->spec->evaluate_every_steps)
                : shorter(steps, a->spec->evaluate_every_epochs * epoch);
    return shorter(steps, (double)a->spec->checkpoint_every_steps);
}

double slice_epoch(const struct slice *s, int64_t train_samples)
{
    return (double)s->epoch + (train_samples > 0 ? (double)s->start / (double)train_samples : 0);
}
