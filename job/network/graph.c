/* Layers that join, normalise or summarise what other layers make: global pooling, batch norm, lrn,
 * add, concat. See job/network/layers.h.
 *
 * Where vectors are joined or normalised element by element, an image that was flattened counts
 * channel, row, column (as in the artifact), so devices must really reorder it there, which
 * elsewhere they need not.
 */
#include <string.h>

#include "job/network/layers.h"

bool layer_build_global_pool(struct layer_work *w)
{
    struct layer *l = w->layer;
    if (!layer_need_image(w)) {
        return false;
    }
    l->out = w->out_counted = (struct shape){.rank = 1, .dim = {l->in.dim[2]}};
    return true;
}

bool layer_build_batch_norm(struct layer_work *w)
{
    struct layer *l = w->layer;
    int channels = l->in.dim[l->in.rank - 1];
    l->out = l->in;
    w->out_counted = l->in;
    layer_add_tensor(w, "weight", 1, (int64_t[]){channels}, channels, channels);
    layer_add_tensor(w, "bias", 1, (int64_t[]){channels}, channels, channels);
    layer_add_stat(w, "running_mean", channels);
    layer_add_stat(w, "running_var", channels);
    return true;
}

bool layer_build_lrn(struct layer_work *w)
{
    if (!layer_need_image(w)) {
        return false;
    }
    w->layer->out = w->out_counted = w->layer->in;
    return true;
}

static bool same_shape(const struct shape *a, const struct shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof(a->dim[0]) * (size_t)a->rank) == 0;
}

/* Reports input k of a layer whose inputs do not fit together. */
static bool misfit(struct layer_work *w, int k, const char *rule)
{
    char first[48], other[48];
    jsonx_problem(w->problems, w->pointer, "layer '%s' (%s) needs inputs of %s and gets %s and %s",
                  w->layer->name, catalog_get(w->layer->type)->name, rule,
                  layer_show_shape(first, &w->input[0]), layer_show_shape(other, &w->input[k]));
    return false;
}

bool layer_build_add(struct layer_work *w)
{
    for (int k = 1; k < w->layer->n_inputs; k++) {
        if (!same_shape(&w->input[0], &w->input[k])) {
            return misfit(w, k, "one shape");
        }
    }
    w->layer->out = w->out_counted = w->layer->in;
    return true;
}

bool layer_build_concat(struct layer_work *w)
{
    struct layer *l = w->layer;
    struct shape out = w->input[0];
    int last = out.rank - 1;
    for (int k = 1; k < l->n_inputs; k++) {
        const struct shape *s = &w->input[k];
        if (s->rank != out.rank ||
            (out.rank == 3 && (s->dim[0] != out.dim[0] || s->dim[1] != out.dim[1]))) {
            return misfit(w, k, "one height and width");
        }
        if (s->dim[last] > (1 << 24) - out.dim[last]) {
            jsonx_problem(w->problems, w->pointer, "layer '%s' would have more than %d channels",
                          l->name, 1 << 24);
            return false;
        }
        out.dim[last] += s->dim[last];
    }
    l->out = w->out_counted = out;
    return true;
}
