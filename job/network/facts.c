/* What can be said of a network once it is built: its JSON, initial values, size, work and hash.
 *
 * Initial values are drawn by counter from (seed, tensor name, element): whoever draws them, in any
 * order, gets the same bits. Step times are kept under the hash across versions of the program. So
 * the hash depends on names of types and on numbers, never on the enumerators of catalog.def, which
 * move when a line is added.
 */
#include "job/network/network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text/hash.h"
#include "common/rng.h"
#include "job/network/layers.h"

static json_t *shape_json(const struct shape *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->rank; i++) {
        json_array_append_new(list, json_integer(s->dim[i]));
    }
    return list;
}

static json_t *layer_json(const struct network *net, int i)
{
    const struct layer *l = &net->layers[i];
    json_t *j = json_pack("{s:s, s:s}", "type", catalog_get(l->type)->name, "name", l->name);
    layer_write(l, j);
    if (l->n_inputs != 1 || l->inputs[0] != i - 1) {
        json_t *inputs = json_array();
        for (int k = 0; k < l->n_inputs; k++) {
            const char *name = l->inputs[k] < 0 ? "input" : net->layers[l->inputs[k]].name;
            json_array_append_new(inputs, json_string(name));
        }
        json_object_set_new(j, "inputs", inputs);
    }
    return j;
}

json_t *network_json(const struct network *net)
{
    json_t *layers = json_array();
    for (int i = 0; i < net->n_layers; i++) {
        json_array_append_new(layers, layer_json(net, i));
    }
    return json_pack("{s:o, s:o, s:s}", "input", shape_json(&net->input), "layers", layers, "loss",
                     net->loss == LOSS_MSE ? "mse" : "softmax_cross_entropy");
}

json_t *network_outline(const struct network *net)
{
    json_t *out = json_array();
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *l = &net->layers[i];
        json_int_t parameters = 0;
        for (int k = 0; k < l->n_tensors; k++) {
            parameters += (json_int_t)net->tensors[l->first_tensor + k].count;
        }
        json_array_append_new(out, json_pack("{s:s, s:s, s:o, s:I}", "name", l->name, "type",
                                             catalog_get(l->type)->name, "shape",
                                             shape_json(&l->out), "parameters", parameters));
    }
    return out;
}

static uint64_t hash_text(uint64_t h, const char *text)
{
    return hash_bytes(h, text, strlen(text) + 1);
}

static uint64_t hash_int(uint64_t h, int64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++) {
        b[i] = (unsigned char)((uint64_t)v >> (8 * i));
    }
    return hash_bytes(h, b, sizeof b);
}

static uint64_t hash_shape(uint64_t h, const struct shape *s)
{
    h = hash_int(h, s->rank);
    for (int i = 0; i < s->rank; i++) {
        h = hash_int(h, s->dim[i]);
    }
    return h;
}

void network_hash(const struct network *net, char out[17])
{
    uint64_t h = hash_shape(HASH_START, &net->input);
    h = hash_int(h, net->loss == LOSS_MSE);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *l = &net->layers[i];
        h = hash_text(h, catalog_get(l->type)->name);
        for (int k = 0; k < l->n_inputs; k++) {
            h = hash_int(h, l->inputs[k]);
        }
        h = hash_shape(h, &l->out);
        for (int k = 0; k < 2; k++) {
            h = hash_int(h, l->kernel[k]);
            h = hash_int(h, l->stride[k]);
            h = hash_int(h, l->padding[k]);
        }
        h = hash_int(h, l->bias);
        if (l->window > 0) {
            h = hash_int(h, l->window);
        }
    }
    for (int i = 0; net->n_layers == 0 && i < net->n_tensors; i++) { /* a user's program has no
                                                                        layers */
        h = hash_text(h, net->tensors[i].name);
        for (int k = 0; k < net->tensors[i].rank; k++) {
            h = hash_int(h, net->tensors[i].dim[k]);
        }
    }
    snprintf(out, 17, "%016llx", (unsigned long long)h);
}

static void init_tensor(const struct tensor *t, uint64_t seed, float *out)
{
    uint64_t stream = rng_mix(hash_text(HASH_START, t->name), 0x696e6974ull);
    if (t->rank < 2) { /* biases, factors and offsets of norms */
        const char *end = strrchr(t->name, '.');
        for (size_t i = 0; i < t->count; i++) {
            out[i] = end != NULL && strcmp(end, ".weight") == 0 ? 1.0f : 0.0f;
        }
        return;
    }
    double he = sqrt(2.0 / t->fan_in), glorot = sqrt(6.0 / ((double)t->fan_in + t->fan_out));
    for (size_t i = 0; i < t->count; i++) {
        out[i] = t->he ? (float)(he * rng_normal(seed, stream, i))
                       : (float)(glorot * (2 * rng_double(seed, stream, i) - 1));
    }
}

void network_init(const struct network *net, uint64_t seed, float *params, float *stats)
{
    for (int i = 0; i < net->n_tensors; i++) {
        init_tensor(&net->tensors[i], seed, params + net->tensors[i].first);
    }
    for (int i = 0; i < net->n_stats; i++) {
        const struct tensor *t = &net->stats[i];
        const char *end = strrchr(t->name, '.');
        float value = end != NULL && strcmp(end, ".running_var") == 0 ? 1.0f : 0.0f;
        for (size_t k = 0; k < t->count; k++) {
            stats[t->first + k] = value;
        }
    }
}

size_t network_activation_bytes(const struct network *net)
{
    size_t floats = shape_count(&net->input);
    for (int i = 0; i < net->n_layers; i++) {
        floats += shape_count(&net->layers[i].out);
    }
    return floats * sizeof(float);
}

double layer_flops(const struct layer *l)
{
    return layer_type_get(l->type)->flops(l);
}

double network_flops(const struct network *net)
{
    double flops = 0;
    for (int i = 0; i < net->n_layers; i++) {
        flops += layer_flops(&net->layers[i]);
    }
    return flops;
}
