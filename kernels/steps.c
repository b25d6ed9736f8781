/* See steps.h. What a newcomer would get wrong: buckets are cut from the end of the flat block, since the backward pass completes the
 * last layers first. */
#include "kernels/steps.h"

int steps_readers(const struct network *net, int layer)
{
    int readers = 0;
    for (int i = layer + 1; i < net->n_layers; i++) {
        for (int k = 0; k < net->layers[i].n_inputs; k++) {
            readers += net->layers[i].inputs[k] == layer;
        }
    }
    return readers;
}

/* Does every reader of this layer take an image as it stands for the vector that it is? */
static bool readers_take_image(const struct network *net, int layer, steps_keeps_shape_fn *keeps_shape)
{
    for (int i = layer + 1; i < net->n_layers; i++) {
        const struct layer *l = &net->layers[i];
        for (int k = 0; k < l->n_inputs; k++) {
            if (l->inputs[k] != layer || l->type == CAT_LAYER_DENSE) {
                continue;
            }
            bool passes = l->type == CAT_LAYER_FLATTEN || keeps_shape(l->type);
            if (!passes || !readers_take_image(net, i, keeps_shape)) {
                return false;
            }
        }
    }
    return true;
}

bool steps_flatten_is_none(const struct network *net, int layer, const struct shape *stored, steps_keeps_shape_fn *keeps_shape)
{
    return stored->rank == 1 || stored->dim[2] == 1 || stored->dim[0] * stored->dim[1] == 1 || readers_take_image(net, layer, keeps_shape);
}

static double backward_work(const struct steps_cost *c)
{
    double weights = c->layer->n_tensors > 0 ? c->forward : 0;
    return c->backward ? weights + (c->to_inputs ? c->forward : 0) : 0;
}

int steps_cut(const struct network *net, int n_steps, steps_cost_fn *cost, const void *ctx, size_t bucket_bytes, struct dev_bucket *buckets,
              int *bucket_step)
{
    double total = 0, done = 0;
    size_t end = net->n_params;
    int n = 0;
    for (int i = 0; i < n_steps; i++) {
        struct steps_cost c = cost(ctx, i);
        total += c.forward + backward_work(&c);
        done += c.forward;
    }
    for (int i = n_steps - 1; i >= 0; i--) {
        struct steps_cost c = cost(ctx, i);
        done += backward_work(&c);
        if (c.layer->n_tensors == 0) {
            continue;
        }
        size_t first = net->tensors[c.layer->first_tensor].first;
        if ((end - first) * sizeof(float) >= bucket_bytes || first == 0) {
            double share = total > 0 ? done / total : 1;
            buckets[n] = (struct dev_bucket){.first = first, .count = end - first, .work_done = share < 1 ? share : 1};
            bucket_step[n++] = i;
            end = first;
        }
    }
    return n;
}
