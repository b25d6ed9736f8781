/* See layer_norms.h. */
#include "worker/training/layer_norms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/flat.h"

enum { STEPS_BETWEEN = 10, PARTS_OF_A_RUN = 100 };
static const double most_share = 0.005; /* of the run's time */

struct layer_norms {
    struct engine *engine;
    const struct network *net; /* borrowed */
    struct norms norms;
    int64_t next; /* local step at which a measurement is due */
    bool measures, weights_known, measured;
    size_t counted;      /* floats of gradients measured in this step */
    double began, spent; /* clock_now(); seconds of all measurements */
};

struct layer_norms *layer_norms_new(struct engine *engine, struct err *e)
{
    const struct network *net = engine->replica->net;
    struct layer_norms *l = calloc(1, sizeof *l);
    int n = net->n_tensors < NORMS_MOST ? net->n_tensors : NORMS_MOST;
    struct tensor_norms *items = calloc((size_t)n + 1, sizeof *items);
    if (!l || !items) {
        free(l);
        free(items);
        err_set(e, ERR_MEMORY, "cannot measure the model's tensors: memory ran out");
        return NULL;
    }
    l->engine = engine;
    l->net = net;
    l->norms = (struct norms){.count = n, .left_out = net->n_tensors - n, .items = items};
    l->began = clock_now();
    for (int i = 0; i < n; i++) {
        snprintf(items[i].name, sizeof items[i].name, "%s", net->tensors[i].name);
        items[i].elements = (int64_t)net->tensors[i].count;
    }
    return l;
}

void layer_norms_free(struct layer_norms *l)
{
    if (l) {
        norms_release(&l->norms);
    }
    free(l);
}

static bool may_cost(const struct layer_norms *l)
{
    return l->engine->env->virtual_time || l->spent <= most_share * (clock_now() - l->began);
}

void layer_norms_begin(struct layer_norms *l, int64_t local_step, bool first)
{
    l->measures = first && local_step >= l->next && l->norms.count > 0 && may_cost(l);
    l->weights_known = l->measured = false;
    l->counted = 0;
    if (l->measures) {
        int64_t part = local_step / PARTS_OF_A_RUN;
        l->next = local_step + (part > STEPS_BETWEEN ? part : STEPS_BETWEEN);
    }
}

static double length_of(const float *block, const struct tensor *t)
{
    double length = flat_length(block + t->first, t->count);
    return isfinite(length) ? length : NAN;
}

static int measure_weights(struct layer_norms *l, struct err *e)
{
    struct dev_replica *r = l->engine->replica;
    int rc = r->dev->ops->fetch(r, DEV_PARAMS, 0, l->net->n_params, e);
    for (int i = 0; rc >= 0 && i < l->norms.count; i++) {
        l->norms.items[i].weight = length_of(r->host[DEV_PARAMS], &l->net->tensors[i]);
    }
    l->weights_known = rc >= 0;
    return rc;
}

static int measure_gradients(struct layer_norms *l, size_t first, size_t count, struct err *e)
{
    struct dev_replica *r = l->engine->replica;
    double began = clock_now();
    int rc = l->weights_known ? 0 : measure_weights(l, e);
    if (rc < 0 || (rc = r->dev->ops->fetch(r, DEV_GRADS, first, count, e)) < 0) {
        return rc;
    }
    for (int i = 0; i < l->norms.count; i++) {
        const struct tensor *t = &l->net->tensors[i];
        if (t->first >= first && t->first + t->count <= first + count) {
            l->norms.items[i].gradient = length_of(r->host[DEV_GRADS], t);
        }
    }
    l->counted += count;
    l->spent += clock_now() - began;
    return 0;
}

int layer_norms_bucket(struct layer_norms *l, const struct dev_bucket *b, struct err *e)
{
    return l->measures ? measure_gradients(l, b->first, b->count, e) : 0;
}

int layer_norms_end(struct layer_norms *l, struct err *e)
{
    int rc = l->measures && l->counted == 0 ? measure_gradients(l, 0, l->net->n_params, e) : 0;
    l->measured = l->measures && rc >= 0 && l->counted == l->net->n_params;
    l->measures = false;
    return rc;
}

void layer_norms_tell(struct layer_norms *l, const struct row *row, const struct telemetry *t)
{
    if (!l || !l->measured || !t->norms || row->batch <= 0) {
        return;
    }
    l->measured = false;
    l->norms.step = row->step;
    l->norms.epoch = row->epoch;
    l->norms.time = row->time;
    t->norms(t->ctx, &l->norms);
}
