/* A network: its layers with their shapes, and where each tensor is in the flat blocks.
 *
 * Shapes are per sample, in the order height, width, channels (NHWC without N); a vector is {n}.
 *
 * All parameters are in ONE flat block, in the order of the layers. A tensor has the shape and
 * order of the model's file, which are PyTorch's: convolution O,I,H,W; dense out,in, with the input
 * of a flatten counted C,H,W. So checkpoint, exchange and model file copy bytes, and only devices
 * reorder. Statistics (running mean and variance) are in a block of their own.
 */
#ifndef JOB_NETWORK_NETWORK_H
#define JOB_NETWORK_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json/jsonx.h"
#include "job/spec/catalog.h"

enum { NET_NAME = 64, NET_RANK = 4, NET_INPUTS = 8, NET_LAYERS = 1024 };

struct shape {
    int rank; /* 1: {n}; 3: {h, w, c} */
    int dim[3];
};
static inline size_t shape_count(const struct shape *s)
{
    size_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        n *= (size_t)s->dim[i];
    }
    return n;
}

struct layer {
    char name[NET_NAME];
    int type;               /* CAT_LAYER_… */
    int inputs[NET_INPUTS]; /* indices of layers; -1 is the network's input */
    int n_inputs;
    struct shape in, out; /* of the first input; of the output */
    /* attributes; those that the type does not have are 0 */
    int units;                            /* dense units, conv2d filters */
    int kernel[2], stride[2], padding[2]; /* height, width; pools use kernel for their size */
    bool bias;
    double rate;           /* dropout rate, leaky slope, batch-norm momentum */
    double eps;            /* batch norm */
    int window;            /* lrn: channels, of i: i - window/2 … i + (window-1)/2 */
    double alpha, beta, k; /* lrn: x / (k + alpha/window * sum of squares)^beta */
    /* the input of a dense layer before it was flattened: {h, w, c} or {n} */
    struct shape flat_from;
    int first_tensor, n_tensors; /* its parameters, in network.tensors */
    int first_stat, n_stats;     /* its running statistics, in network.stats */
};

struct tensor {
    char name[NET_NAME + 24]; /* "conv1.weight" */
    int layer;
    int rank;
    int64_t dim[NET_RANK];
    size_t first, count; /* floats, in the flat block */
    int fan_in, fan_out;
    bool he;    /* weights before a relu: He normal, else Glorot; biases are zero */
    int mean;   /* for a statistic that is a variance: 1 + the index of its mean; else 0 */
    bool decay; /* weight decay applies: to every parameter, as PyTorch's optimizers do unless told
                   otherwise */
};

enum loss_type { LOSS_SOFTMAX_CROSS_ENTROPY, LOSS_MSE };

/* A user's program has tensors and statistics here, and neither layers nor shapes. */
struct network {
    char preset[NET_NAME]; /* or "" */
    struct shape input;
    enum loss_type loss;
    struct layer *layers; /* owned, in an order in which inputs come first */
    int n_layers;
    struct tensor *tensors; /* parameters */
    int n_tensors;
    size_t n_params;      /* floats */
    struct tensor *stats; /* running statistics */
    int n_stats;
    size_t n_stat_floats;
    struct shape output;
};

/* Builds from a spec's "model" (preset name or {"input", "layers", "loss"}). Every mistake is
 * reported with its pointer beneath `pointer` ("/model"); impossible shapes name the layer and the
 * shape it got. 0, or negative if anything was reported. */
int network_build(struct network *net, const json_t *model, const char *pointer,
                  struct jsonx_problems *problems);
void network_release(struct network *net);
/* The JSON of a preset's layers, as a user would write them; NULL if there is no such preset. */
json_t *network_preset(const char *name);
const char *const *network_presets(int *count);
/* The network as layers with every default filled in (artifact metadata, show). New reference. */
json_t *network_json(const struct network *net);
/* The output's shape and the parameters of each layer, for people who edit it: [{"name", "type",
 * "shape", "parameters"}], in the order of the layers. New reference. */
json_t *network_outline(const struct network *net);
/* Initial parameters and statistics: a function of the seed and the layer only. */
void network_init(const struct network *net, uint64_t seed, float *params, float *stats);
/* Estimates for placement: bytes of activations per sample, floating-point operations per sample
 * forward. */
size_t network_activation_bytes(const struct network *net);
double network_flops(const struct network *net);
double layer_flops(const struct layer *l);
/* A stable hash (16 hex digits) of everything that step time depends on: the key of profiles. */
void network_hash(const struct network *net, char out[17]);

#endif
