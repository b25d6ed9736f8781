/* Networks that a spec can name instead of writing them out, in the JSON that a user would write.
 * Parameter counts are fixed by a test (docs/catalog.md#networks-by-name). A new preset is one row:
 * a text, or a function for networks of many equal blocks. Residual networks name their layers as
 * torchvision does, so that state_dicts match.
 */
#include "job/network/network.h"

#include <stdio.h>
#include <string.h>

/* ---- residual networks (He et al. 2016) in the form for 32 x 32 images -----------------------
 *
 *   x ─┬─ conv 3x3 ─ bn ─ relu ─ conv 3x3 ─ bn ─┬─ add ─ relu ─►
 *      └─ (downsample: conv 1x1 stride 2 ─ bn) ─┘
 *
 * The first block of every stage but the first halves height and width; its shortcut is a
 * projection. */
enum { NAME = 64 };

static const char *named(char out[NAME], const char *prefix, const char *rest)
{
    snprintf(out, NAME, "%s%s", prefix, rest);
    return out;
}

static void add_layer(json_t *layers, const char *name, const char *inputs[], int n_inputs,
                      json_t *layer)
{
    json_t *list = json_array();
    json_object_set_new(layer, "name", json_string(name));
    for (int i = 0; i < n_inputs; i++) {
        json_array_append_new(list, json_string(inputs[i]));
    }
    json_object_set_new(layer, "inputs", list);
    BUG_ON(json_array_append_new(layers, layer) != 0);
}

/* Adds a convolution without bias and its batch norm. `from` names its input. */
static void add_conv_norm(json_t *layers, const char *conv, const char *norm, const char *from,
                          int filters, int kernel, int stride)
{
    add_layer(layers, conv, &from, 1,
              json_pack("{s:s, s:i, s:i, s:i, s:i, s:b}", "type", "conv2d", "filters", filters,
                        "kernel", kernel, "stride", stride, "padding", kernel / 2, "bias", 0));
    add_layer(layers, norm, &conv, 1, json_pack("{s:s}", "type", "batch_norm"));
}

static void add_relu(json_t *layers, const char *name, const char *from)
{
    add_layer(layers, name, &from, 1, json_pack("{s:s}", "type", "relu"));
}

/* Adds a block with the input `from`, and leaves the name of its output there. */
static void add_block(json_t *layers, const char *prefix, char from[NAME], int filters, int stride,
                      bool project)
{
    char conv1[NAME], bn1[NAME], relu1[NAME], conv2[NAME], bn2[NAME], down[NAME], down_bn[NAME],
        add[NAME];
    const char *shortcut = from;
    add_conv_norm(layers, named(conv1, prefix, "conv1"), named(bn1, prefix, "bn1"), from, filters,
                  3, stride);
    add_relu(layers, named(relu1, prefix, "relu1"), bn1);
    add_conv_norm(layers, named(conv2, prefix, "conv2"), named(bn2, prefix, "bn2"), relu1, filters,
                  3, 1);
    if (project) {
        add_conv_norm(layers, named(down, prefix, "downsample.0"),
                      named(down_bn, prefix, "downsample.1"), from, filters, 1, stride);
        shortcut = down_bn;
    }
    add_layer(layers, named(add, prefix, "add"), (const char *[]){bn2, shortcut}, 2,
              json_pack("{s:s}", "type", "add"));
    add_relu(layers, named(from, prefix, "relu2"), add);
}

static json_t *residual(int width, int stages, int blocks)
{
    json_t *layers = json_array();
    char from[NAME] = "relu", prefix[NAME / 2];
    add_conv_norm(layers, "conv1", "bn1", "input", width, 3, 1);
    add_relu(layers, "relu", "bn1");
    for (int stage = 0; stage < stages; stage++) {
        for (int block = 0; block < blocks; block++) {
            bool narrows = stage > 0 && block == 0;
            snprintf(prefix, sizeof prefix, "layer%d.%d.", stage + 1, block);
            add_block(layers, prefix, from, width << stage, narrows ? 2 : 1, narrows);
        }
    }
    add_layer(layers, "avgpool", (const char *[]){from}, 1,
              json_pack("{s:s}", "type", "global_average_pool"));
    add_layer(layers, "fc", (const char *[]){"avgpool"}, 1,
              json_pack("{s:s, s:i}", "type", "dense", "units", 10));
    return json_pack("{s:[i,i,i], s:o}", "input", 32, 32, 3, "layers", layers);
}

static json_t *make_resnet20(void)
{
    return residual(16, 3, 3);
}

static json_t *make_resnet18(void)
{
    return residual(64, 4, 2);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define CIFAR_CONV(filters) \
    "{\"type\": \"conv2d\", \"filters\": " #filters ", \"kernel\": 5, \"padding\": 2}"
#define HALVE(type) "{\"type\": \"" type "\", \"size\": 3, \"stride\": 2, \"padding\": 1}"
#define RELU "{\"type\": \"relu\"}"
#define DENSE(units) "{\"type\": \"dense\", \"units\": " #units "}"
#define LRN "{\"type\": \"lrn\", \"window\": 9, \"alpha\": 0.001}"

static const struct preset {
    const char *name, *json;
    json_t *(*make)(void);
} presets[] = {
    {"mlp", "{\"input\": [28, 28, 1], \"layers\": [" DENSE(128) "," RELU "," DENSE(10) "]}", NULL},
    {"lenet5",
     "{\"input\": [28, 28, 1], \"layers\": [" CIFAR_CONV(
         32) "," RELU
             ", {\"type\": \"max_pool\", \"size\": 2}," CIFAR_CONV(
                 64) "," RELU
                     ", {\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"flatten\"}," DENSE(
                         512) "," RELU "," DENSE(10) "]}",
     NULL},
    /* Caffe's cifar10_quick: its pools round up, as padding 1 does here */
    {"cifar-quick",
     "{\"input\": [32, 32, 3], \"layers\": [" CIFAR_CONV(
         32) "," RELU
             "," HALVE("max_pool") "," CIFAR_CONV(
                 32) "," RELU
                     "," HALVE("average_pool") "," CIFAR_CONV(64) "," RELU "," HALVE(
                         "average_pool") ", {\"type\": \"flatten\"}," DENSE(10) "]}",
     NULL},
    /* TensorFlow's cifar10 tutorial on 24 x 24 crops; its lrn has alpha 0.001/9 per element, which
       is 0.001 over a window of 9 */
    {"tf-cifar",
     "{\"input\": [24, 24, 3], \"layers\": [" CIFAR_CONV(64) "," RELU "," HALVE(
         "max_pool") "," LRN
                     "," CIFAR_CONV(64) "," RELU "," LRN "," HALVE(
                         "max_pool") ","
                                     "{\"type\": \"flatten\"}," DENSE(1024) "," RELU "," DENSE(
                                         1024) "," RELU "," DENSE(10) "]}",
     NULL},
    {"resnet20", NULL, make_resnet20},
    {"resnet18", NULL, make_resnet18},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

json_t *network_preset(const char *name)
{
    for (int i = 0; name != NULL && i < PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            json_t *j =
                presets[i].make != NULL ? presets[i].make() : json_loads(presets[i].json, 0, NULL);
            BUG_ON(j == NULL);
            return j;
        }
    }
    return NULL;
}

static const char *names[PRESETS + 1];

__attribute__((constructor)) static void collect_names(void)
{
    for (int i = 0; i < PRESETS; i++) {
        names[i] = presets[i].name;
    }
}

const char *const *network_presets(int *count)
{
    if (count != NULL) {
        *count = PRESETS;
    }
    return names;
}
