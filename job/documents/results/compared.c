/* See compared.h. */
#include "job/documents/results/compared.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sums over nodes are rounded differently from those of one node, and the differences add up over
 * the steps. Programs of a few steps end about 1e-7 apart (tests/own-program); a wrong gradient
 * moves them a thousand times as far. Some programs enlarge a rounding, so they are measured
 * against themselves. */
static const double LEAST_ROUNDING = 1e-6, OF_ROUNDING = 10, BLIND = 1e-3;

/* How many times larger a difference is than what rounding explains. */
static double excess(double difference, double rounding)
{
    double explained = OF_ROUNDING * (rounding > LEAST_ROUNDING ? rounding : LEAST_ROUNDING);
    return difference / explained;
}

static bool is_larger(double a, double b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

void compared_add(struct compared *c, const char *name, double difference, double rounding)
{
    int at = c->n_largest;
    while (at > 0 && is_larger(excess(difference, rounding), excess(c->largest[at - 1].difference,
                                                                    c->largest[at - 1].rounding))) {
        at--;
    }
    if (at == COMPARED_LARGEST) {
        return;
    }
    c->n_largest += c->n_largest < COMPARED_LARGEST;
    memmove(&c->largest[at + 1], &c->largest[at],
            (size_t)(c->n_largest - at - 1) * sizeof *c->largest);
    snprintf(c->largest[at].name, sizeof c->largest[at].name, "%s", name);
    c->largest[at].difference = difference;
    c->largest[at].rounding = rounding;
}

bool compared_is_same(const struct compared *c)
{
    const struct compared_tensor *t = &c->largest[0];
    return excess(t->difference, t->rounding) <= 1 && !compared_is_blind(c); /* NaN is not */
}

bool compared_is_blind(const struct compared *c)
{
    return !(c->rounding <= BLIND);
}

json_t *compared_json(const struct compared *c)
{
    json_t *largest = json_array();
    for (int i = 0; i < c->n_largest; i++) {
        const struct compared_tensor *t = &c->largest[i];
        json_array_append_new(largest, json_pack("{s:s, s:o, s:o}", "name", t->name, "difference",
                                                 document_real(t->difference), "rounding",
                                                 document_real(t->rounding)));
    }
    return json_pack("{s:i, s:I, s:I, s:o, s:o}", "format", COMPARED_FORMAT, "tensors",
                     (json_int_t)c->tensors, "values", (json_int_t)c->values, "rounding",
                     document_real(c->rounding), "largest", largest);
}

int compared_read(struct compared *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, COMPARED_FORMAT, NULL, &problems);
    out->tensors = document_integer(&d, "tensors", 1, INT64_MAX);
    out->values = document_integer(&d, "values", 0, INT64_MAX);
    out->rounding = document_maybe(&d, "rounding");
    size_t n = json_array_size(document_list(&d, "largest", 1, COMPARED_LARGEST));
    for (size_t i = 0; i < n; i++) {
        struct document one = document_element(&d, "largest", i);
        struct compared_tensor *t = &out->largest[out->n_largest++];
        document_text(&one, "name", t->name, sizeof t->name);
        t->difference = document_maybe(&one, "difference");
        t->rounding = document_maybe(&one, "rounding");
    }
    return document_close(&d, "the answer of --compare", e);
}
