/* See norms.h. */
#include "job/documents/ranks/norms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double longest = 1e12;

void norms_write(json_t *j, const struct norms *n)
{
    json_t *names = json_array(), *elements = json_array(), *weights = json_array(),
           *gradients = json_array();
    for (int i = 0; i < n->count; i++) {
        json_array_append_new(names, json_string(n->items[i].name));
        json_array_append_new(elements, json_integer((json_int_t)n->items[i].elements));
        json_array_append_new(weights, document_real(n->items[i].weight));
        json_array_append_new(gradients, document_real(n->items[i].gradient));
    }
    json_object_set_new(j, "step", json_integer((json_int_t)n->step));
    json_object_set_new(j, "epoch", json_real(n->epoch));
    json_object_set_new(j, "time", json_real(n->time));
    json_object_set_new(j, "left_out", json_integer(n->left_out));
    json_object_set_new(j, "names", names);
    json_object_set_new(j, "elements", elements);
    json_object_set_new(j, "weights", weights);
    json_object_set_new(j, "gradients", gradients);
}

/* null is NaN. */
static double norm_of(const struct document *d, const char *key, const json_t *list, size_t i)
{
    const json_t *v = json_array_get(list, i);
    if (json_is_null(v)) {
        return NAN;
    }
    if (!json_is_number(v) || json_number_value(v) < 0) {
        document_problem(d, key, "must hold numbers of at least 0, or null");
    }
    return json_number_value(v);
}

static void parse_items(const struct document *d, struct norms *out)
{
    const json_t *names = document_list(d, "names", 1, NORMS_MOST);
    size_t n = json_array_size(names);
    if (!names) {
        return;
    }
    const json_t *elements = document_list(d, "elements", n, n),
                 *weights = document_list(d, "weights", n, n),
                 *gradients = document_list(d, "gradients", n, n);
    if (!elements || !weights || !gradients) {
        return;
    }
    out->items = calloc(n, sizeof *out->items);
    BUG_ON(!out->items);
    out->count = (int)n;
    for (size_t i = 0; i < n; i++) {
        struct tensor_norms *t = &out->items[i];
        const char *name = json_string_value(json_array_get(names, i));
        t->elements = json_integer_value(json_array_get(elements, i));
        if (!name || !name[0] || t->elements < 1) {
            document_problem(d, "names", "must hold names, each of a tensor with elements");
            return;
        }
        snprintf(t->name, sizeof t->name, "%s", name);
        t->weight = norm_of(d, "weights", weights, i);
        t->gradient = norm_of(d, "gradients", gradients, i);
    }
}

void norms_parse(const struct document *d, struct norms *out)
{
    memset(out, 0, sizeof *out);
    out->step = document_integer(d, "step", 0, INT64_MAX);
    out->epoch = document_number(d, "epoch", 0, longest);
    out->time = document_number(d, "time", -longest, longest);
    out->left_out = (int)document_integer(d, "left_out", 0, INT32_MAX);
    parse_items(d, out);
}

void norms_release(struct norms *n)
{
    free(n->items);
    memset(n, 0, sizeof *n);
}
