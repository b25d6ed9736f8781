/* One row per layer type: how it makes its output from its inputs. Inside job/ only;
 * job/network/network.c builds the graph, job/network/layers.c knows the types. A new layer is a
 * line in catalog.def, a row in the table of layers.c and its function; attributes travel between
 * JSON and struct layer by their names.
 */
#ifndef JOB_NETWORK_LAYERS_H
#define JOB_NETWORK_LAYERS_H

#include "job/network/network.h"

enum { LAYER_TENSORS = 2, LAYER_STATS = 2 }; /* the most that a layer has */

/* What a layer's function works on. */
struct layer_work {
    struct network *net;
    struct layer *layer; /* in net->layers; attributes, inputs and `in` are set */
    struct shape input[NET_INPUTS];
    struct shape counted[NET_INPUTS]; /* the shape that each input had before it was flattened */
    struct shape out_counted; /* the same of the output, for layers that follow; `build` sets it */
    const char *pointer;      /* of the layer */
    struct jsonx_problems *problems;
};

struct layer_type {
    int id;             /* CAT_LAYER_… */
    const char *prefix; /* of names made up: conv1 */
    int min_inputs, max_inputs;
    /* Checks shapes, sets layer->out and defaults of attributes, adds tensors. false after
     * reporting. */
    bool (*build)(struct layer_work *w);
    double (*flops)(const struct layer *l); /* forward, per sample */
};

const struct layer_type *layer_type_get(int id); /* never NULL for an id of the catalogue */
/* Attributes from a full object of parameters, and back. */
void layer_read(struct layer *l, const json_t *full);
void layer_write(const struct layer *l, json_t *out);
const char *layer_show_shape(char out[48], const struct shape *s); /* "[28, 28, 1]" */

/* For the types' functions. Adds a tensor of the parameters, or a vector of running statistics. */
void layer_add_tensor(struct layer_work *w, const char *name, int rank, const int64_t *dim,
                      int fan_in, int fan_out);
void layer_add_stat(struct layer_work *w, const char *name, int count);
bool layer_need_image(struct layer_work *w); /* false after reporting an input that is none */
/* The types that join or normalise: job/network/graph.c. */
bool layer_build_global_pool(struct layer_work *w);
bool layer_build_batch_norm(struct layer_work *w);
bool layer_build_lrn(struct layer_work *w);
bool layer_build_add(struct layer_work *w);
bool layer_build_concat(struct layer_work *w);

#endif
