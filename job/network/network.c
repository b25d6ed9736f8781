/* Builds a network from a spec's "model": resolves the graph of layers, has each type
 * (job/network/layers.c) work out its shape and tensors, and lays the tensors out in the flat
 * blocks.
 *
 *   "model" ─► preset or object ─► each layer: name, type, attributes, inputs ─► build ─► tensors
 *                                        └─ a mistake: reported; the next layers are still
 *                                           checked for everything but shapes
 *
 * Layers stand in the order in which they were written, and an input must be written before it is
 * used, so the order is one in which inputs come first. Initial parameters are drawn per tensor
 * name, not in sequence, so a layer's values stay the same when another layer is added before it.
 */
#include "job/network/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "job/spec/fields.h"
#include "job/network/layers.h"

/* What is known while layers are read. */
struct build {
    struct network *net;
    struct jsonx_problems *problems;
    struct shape *counted; /* [layers], see layer_work.out_counted */
    bool *good;            /* [layers], shape is known */
    bool *used;            /* [layers], something reads the output */
    int type_counts[CAT_COUNT];
};

static const size_t most_params = (size_t)1 << 30;
static const size_t most_outputs =
    (size_t)1 << 28; /* elements of a layer per sample: no product of shapes overflows an int */

static bool read_input(struct network *net, struct fields *f, const json_t *v)
{
    char pointer[FIELDS_POINTER], at[FIELDS_POINTER];
    size_t n = json_array_size(v);
    if (v == NULL) {
        return false;
    }
    if (!json_is_array(v) || (n != 1 && n != 3)) {
        char shown[48];
        fields_problem(f, "input", "'input' must be [n] or [height, width, channels], not %s",
                       fields_show(shown, v));
        return false;
    }
    jsonx_join(pointer, sizeof pointer, f->pointer, "input");
    struct shape input = {.rank = (int)n};
    double count = 1;
    for (size_t i = 0; i < n; i++) {
        double x;
        if (!fields_number(f, jsonx_join_index(at, sizeof at, pointer, i), json_array_get(v, i),
                           true, 1, n == 1 ? 16777216 : 65536, &x)) {
            return false;
        }
        input.dim[i] = (int)x;
        count *= x;
    }
    if (count > 16777216) {
        fields_problem(f, "input", "'input' has %.0f elements, more than 16777216", count);
        return false;
    }
    net->input = input; /* rank 0 until it is known to be valid */
    return true;
}

static int find_layer(const struct network *net, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(net->layers[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Reads a layer's name, or makes one of type and number. It has only letters, digits and "_-.",
 * because tensors are named after it. */
static void read_name(struct build *b, struct fields *f, int i, int type)
{
    struct layer *l = &b->net->layers[i];
    int number = type >= 0 ? ++b->type_counts[type] : 0;
    const char *name = fields_text(f, "name", false, NET_NAME);
    const char *prefix = type >= 0 ? layer_type_get(type)->prefix : "layer";
    snprintf(l->name, sizeof l->name, "%s%d", prefix, number);
    if (name != NULL &&
        (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") !=
             strlen(name) ||
         strcmp(name, "input") == 0)) {
        fields_problem(f, "name",
                       "the name '%s' must consist of letters, digits, '_', '-' and '.', and "
                       "not be 'input'",
                       name);
        name = NULL;
    }
    if (name != NULL) {
        snprintf(l->name, sizeof l->name, "%s", name);
    }
    int other = type >= 0 ? find_layer(b->net, i, l->name) : -1;
    if (other >= 0) {
        fields_problem(f, "name",
                       "the name '%s' belongs to layer %d already; give one of them another",
                       l->name, other);
    }
}

static bool read_one_input(struct build *b, struct fields *f, int i, const char *pointer,
                           const json_t *v)
{
    struct layer *l = &b->net->layers[i];
    const char *name = json_string_value(v);
    int at =
        name != NULL && strcmp(name, "input") == 0 ? -1 : find_layer(b->net, i, name ? name : "");
    if (name == NULL || (at < 0 && strcmp(name, "input") != 0)) {
        const char *names[NET_LAYERS + 1] = {"input"};
        for (int k = 0; k < i; k++) {
            names[k + 1] = b->net->layers[k].name;
        }
        const char *near = name != NULL ? jsonx_nearest(name, names, i + 1) : NULL;
        char shown[48];
        jsonx_problem(f->problems, pointer, "no layer %s stands before layer '%s'%s%s%s",
                      fields_show(shown, v), l->name, near != NULL ? "; did you mean '" : "",
                      near != NULL ? near : "", near != NULL ? "'?" : "");
        return false;
    }
    l->inputs[l->n_inputs++] = at;
    return true;
}

/* Reads the names in "inputs"; without them the input is the layer before. */
static bool read_inputs(struct build *b, struct fields *f, int i, const struct layer_type *type)
{
    struct layer *l = &b->net->layers[i];
    const json_t *v = fields_get(f, "inputs");
    int n = v != NULL ? (int)json_array_size(v) : 1;
    if (v != NULL && (!json_is_array(v) || n > NET_INPUTS)) {
        fields_problem(f, "inputs", "'inputs' must be an array of at most %d names of layers",
                       NET_INPUTS);
        return false;
    }
    if (type != NULL && (n < type->min_inputs || n > type->max_inputs)) {
        char many[32];
        snprintf(many, sizeof many, type->max_inputs == 1 ? "1 input" : "%d to %d inputs",
                 type->min_inputs, type->max_inputs);
        fields_problem(f, "inputs", "layer '%s' (%s) takes %s, not %d", l->name,
                       catalog_get(type->id)->name, many, n);
        return false;
    }
    if (v == NULL) {
        l->inputs[0] = i - 1;
        l->n_inputs = 1;
        return true;
    }
    char pointer[FIELDS_POINTER], at[FIELDS_POINTER];
    jsonx_join(pointer, sizeof pointer, f->pointer, "inputs");
    bool good = true;
    for (int k = 0; k < n; k++) {
        jsonx_join_index(at, sizeof at, pointer, (size_t)k);
        good = read_one_input(b, f, i, at, json_array_get(v, (size_t)k)) && good;
    }
    return good;
}

static bool build_shapes(struct build *b, int i, const char *pointer)
{
    struct network *net = b->net;
    struct layer *l = &net->layers[i];
    struct layer_work w = {.net = net, .layer = l, .pointer = pointer, .problems = b->problems};
    for (int k = 0; k < l->n_inputs; k++) {
        int at = l->inputs[k];
        if (at >= 0 && !b->good[at]) {
            return false; /* reported there */
        }
        w.input[k] = at < 0 ? net->input : net->layers[at].out;
        w.counted[k] = at < 0 ? net->input : b->counted[at];
    }
    l->in = w.input[0];
    l->flat_from = w.counted[0];
    l->first_tensor = net->n_tensors;
    l->first_stat = net->n_stats;
    if (!layer_type_get(l->type)->build(&w)) {
        return false;
    }
    if (shape_count(&l->out) > most_outputs) {
        jsonx_problem(b->problems, pointer,
                      "layer '%s' would have %zu outputs per sample, more than %zu", l->name,
                      shape_count(&l->out), most_outputs);
        return false;
    }
    b->counted[i] = w.out_counted;
    return true;
}

static void read_layer(struct build *b, int i, const json_t *given, const char *pointer,
                       bool input_good)
{
    struct layer *l = &b->net->layers[i];
    struct fields f;
    json_t *full = json_object();
    fields_open(&f, given, full, pointer, b->problems);
    l->type = -1;
    if (f.given == NULL) {
        goto out;
    }
    const struct catalog_entry *entry = fields_entry(&f, "type", CATALOG_LAYER, NULL);
    const struct layer_type *type = entry != NULL ? layer_type_get(entry->id) : NULL;
    l->type = entry != NULL ? entry->id : -1;
    read_name(b, &f, i, l->type);
    bool good = read_inputs(b, &f, i, type) && input_good && entry != NULL;
    for (int k = 0; k < l->n_inputs; k++) {
        if (l->inputs[k] >= 0) {
            b->used[l->inputs[k]] = true;
        }
    }
    if (entry != NULL) {
        good = fields_params(&f, entry->params) && good;
        fields_close(&f); /* the keys of an unknown type are not known */
    }
    if (good) {
        layer_read(l, full);
        b->good[i] = build_shapes(b, i, pointer);
    }
out:
    json_decref(full);
}

static void mark_inputs(const struct layer *l, bool marks[NET_LAYERS])
{
    for (int k = 0; k < l->n_inputs; k++) {
        if (l->inputs[k] >= 0) {
            marks[l->inputs[k]] = true;
        }
    }
}

/* Marks weights for He normal: those whose outputs reach a relu with only layers without weights in
 * between. A batch norm has a factor per channel, which starts at one, and does not count. */
static void mark_he(struct network *net)
{
    bool reaches[NET_LAYERS] = {false}; /* the layer's output goes into a relu */
    for (int i = net->n_layers - 1; i >= 0; i--) {
        const struct layer *l = &net->layers[i];
        bool passes = l->n_tensors == 0 || l->type == CAT_LAYER_BATCH_NORM;
        for (int k = 0; k < l->n_tensors; k++) {
            net->tensors[l->first_tensor + k].he = reaches[i];
        }
        if (l->type == CAT_LAYER_RELU || l->type == CAT_LAYER_LEAKY_RELU ||
            (passes && reaches[i])) {
            mark_inputs(l, reaches);
        }
    }
}

static void check_whole(struct build *b, const char *pointer)
{
    struct network *net = b->net;
    char at[FIELDS_POINTER], shown[48];
    int last = net->n_layers - 1;
    jsonx_join_index(at, sizeof at, pointer, (size_t)last);
    for (int i = 0; i < last; i++) {
        char here[FIELDS_POINTER];
        if (!b->used[i]) {
            jsonx_problem(b->problems, jsonx_join_index(here, sizeof here, pointer, (size_t)i),
                          "nothing uses the output of layer '%s'", net->layers[i].name);
        }
    }
    if (!b->good[last]) {
        return; /* reported there */
    }
    net->output = net->layers[last].out;
    const struct shape *counted = &b->counted[last];
    bool reordered =
        counted->rank == 3 && counted->dim[2] > 1 && counted->dim[0] * counted->dim[1] > 1;
    if (net->output.rank != 1 || reordered) {
        jsonx_problem(b->problems, at,
                      "the network ends in %s of layer '%s'; end it with a dense layer",
                      layer_show_shape(shown, counted), net->layers[last].name);
    } else if (net->n_params == 0) {
        jsonx_problem(b->problems, pointer, "the network has no parameters to train");
    } else if (net->n_params > most_params) {
        jsonx_problem(b->problems, pointer, "the network has %zu parameters, more than %zu",
                      net->n_params, most_params);
    }
}

static void read_layers(struct network *net, const json_t *list, const char *pointer,
                        bool input_good, struct jsonx_problems *problems)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || n > NET_LAYERS) {
        jsonx_problem(problems, pointer, "'layers' must be an array of 1 to %d layers", NET_LAYERS);
        return;
    }
    struct build b = {.net = net, .problems = problems};
    net->layers = calloc(n, sizeof *net->layers);
    net->tensors = calloc(n * LAYER_TENSORS, sizeof *net->tensors);
    net->stats = calloc(n * LAYER_STATS, sizeof *net->stats);
    b.counted = calloc(n, sizeof *b.counted);
    b.good = calloc(n, sizeof *b.good);
    b.used = calloc(n, sizeof *b.used);
    if (!net->layers || !net->tensors || !net->stats || !b.counted || !b.good || !b.used) {
        jsonx_problem(problems, pointer, "memory ran out for %zu layers", n);
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        char at[FIELDS_POINTER];
        net->n_layers = (int)i + 1;
        read_layer(&b, (int)i, json_array_get(list, i), jsonx_join_index(at, sizeof at, pointer, i),
                   input_good);
    }
    check_whole(&b, pointer);
    mark_he(net);
out:
    free(b.counted);
    free(b.good);
    free(b.used);
}

static const struct catalog_param loss_param = {"loss",
                                                PARAM_ENUM,
                                                0,
                                                0,
                                                0,
                                                0,
                                                "softmax_cross_entropy|mse",
                                                "softmax_cross_entropy",
                                                "what is minimised"};

int network_build(struct network *net, const json_t *model, const char *pointer,
                  struct jsonx_problems *problems)
{
    *net = (struct network){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    int before = problems->count + problems->dropped;
    json_t *preset = NULL, *full = json_object();
    const char *name = json_string_value(model);
    char at[FIELDS_POINTER];
    struct fields f;
    if (name != NULL) {
        preset = network_preset(name);
        if (preset == NULL) {
            int n;
            const char *const *names = network_presets(&n);
            const char *near = jsonx_nearest(name, names, n);
            jsonx_problem(problems, pointer, "there is no preset '%.40s'; did you mean '%s'?", name,
                          near != NULL ? near : names[0]);
            goto out;
        }
        snprintf(net->preset, sizeof net->preset, "%s", name);
        model = preset;
    }
    if (!json_is_object(model)) {
        char shown[48];
        jsonx_problem(
            problems, pointer,
            "this must be the name of a preset, or an object with 'input' and 'layers', not %s",
            fields_show(shown, model));
        goto out;
    }
    fields_open(&f, model, full, pointer, problems);
    bool input_good = read_input(net, &f, fields_need(&f, "input"));
    const json_t *layers = fields_need(&f, "layers");
    if (fields_param(&f, &loss_param)) {
        const char *loss = json_string_value(json_object_get(full, "loss"));
        net->loss = strcmp(loss, "mse") == 0 ? LOSS_MSE : LOSS_SOFTMAX_CROSS_ENTROPY;
    }
    if (layers != NULL) {
        read_layers(net, layers, jsonx_join(at, sizeof at, pointer, "layers"), input_good,
                    problems);
    }
    fields_close(&f);
out:
    json_decref(preset);
    json_decref(full);
    return problems->count + problems->dropped == before ? 0 : -ERR_INVALID;
}

void network_release(struct network *net)
{
    free(net->layers);
    free(net->tensors);
    free(net->stats);
    *net = (struct network){.n_layers = 0};
}
