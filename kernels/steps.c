/* See steps.h. Buckets are cut from the end of the flat block, because the backward pass completes
 * the last layers first. */
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

/* Can every reader of this layer read an image as it is stored, in place of the vector? */
static bool readers_take_image(const struct network *net, int layer,
                               steps_keeps_shape_fn *keeps_shape)
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

bool steps_flatten_is_none(const struct network *net, int layer, const struct shape *stored,
                           steps_keeps_shape_fn *keeps_shape)
{
    return stored->rank == 1 || stored->dim[2] == 1 || stored->dim[0] * stored->dim[1] == 1 ||
           readers_take_image(net, layer, keeps_shape);
}

/* Does an input of this layer get a gradient: is there a parameter before it? */
static bool to_inputs(const struct layer *l, const bool *needs)
{
    bool any = false;
    for (int k = 0; k < l->n_inputs; k++) {
        any = any || (l->inputs[k] >= 0 && needs[l->inputs[k]]);
    }
    return any;
}

/* As much as forward for the gradient of its parameters, and as much for those of its inputs. */
static double backward_work(const struct layer *l, const bool *needs)
{
    return layer_flops(l) * ((l->n_tensors > 0) + to_inputs(l, needs));
}

int steps_cut(const struct network *net, size_t bucket_bytes, struct dev_bucket *buckets,
              int *layer)
{
    bool needs[NET_LAYERS];
    double total = 0, done = 0;
    size_t end = net->n_params;
    int n = 0;
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *l = &net->layers[i];
        needs[i] = l->n_tensors > 0 || to_inputs(l, needs);
        total += layer_flops(l) + backward_work(l, needs);
        done += layer_flops(l);
    }
    for (int i = net->n_layers - 1; i >= 0; i--) {
        const struct layer *l = &net->layers[i];
        done += backward_work(l, needs);
        if (l->n_tensors == 0) {
            continue;
        }
        size_t first = net->tensors[l->first_tensor].first;
        if ((end - first) * sizeof(float) >= bucket_bytes || first == 0) {
            double share = total > 0 ? done / total : 1;
            buckets[n] = (struct dev_bucket){
                .first = first, .count = end - first, .work_done = share < 1 ? share : 1};
            if (layer) {
                layer[n] = i;
            }
            n++;
            end = first;
        }
    }
    return n;
}
