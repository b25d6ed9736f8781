/* See load.h. */
#include "job/documents/hosts/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

enum { FIGURES = 1 + LOAD_FIGURES };
static const char *const names[FIGURES] = {"seconds",
                                           "cpu",
                                           "memory_used_bytes",
                                           "memory_bytes",
                                           "received_bytes_per_second",
                                           "sent_bytes_per_second",
                                           "gpu_busy",
                                           "gpu_memory_used_bytes",
                                           "gpu_memory_bytes"};

/* In the order of `names`. */
static void figures_of(struct load *l, double *out[FIGURES])
{
    out[0] = &l->seconds;
    load_figures(l, out + 1);
}

void load_print(const struct load *l, char out[LOAD_TEXT])
{
    struct load copy = *l;
    double *figures[FIGURES];
    size_t n = 0;
    figures_of(&copy, figures);
    for (int i = 0; i < FIGURES; i++) {
        const char *before = i ? "," : "[";
        n += (size_t)(isfinite(*figures[i])
                          ? snprintf(out + n, LOAD_TEXT - n, "%s%.4g", before, *figures[i])
                          : snprintf(out + n, LOAD_TEXT - n, "%snull", before));
    }
    snprintf(out + n, LOAD_TEXT - n, "]");
}

bool load_parse(struct load *out, double *ms, const char *text)
{
    double *figures[FIGURES];
    char *end;
    *ms = strtod(text, &end);
    json_t *list = end > text ? jsonx_parse(end, strlen(end), NULL) : NULL;
    bool whole = json_array_size(list) == FIGURES && isfinite(*ms) && *ms > 0;
    figures_of(out, figures);
    for (size_t i = 0; whole && i < FIGURES; i++) {
        const json_t *v = json_array_get(list, i);
        whole = json_is_null(v) || (json_is_number(v) && json_number_value(v) >= 0);
        *figures[i] = json_is_null(v) ? NAN : json_number_value(v);
    }
    json_decref(list);
    return whole;
}

json_t *load_lists(void)
{
    json_t *out = json_pack("{s:[]}", "at");
    for (int i = 0; i < FIGURES; i++) {
        json_object_set_new(out, names[i], json_array());
    }
    return out;
}

void load_lists_add(json_t *lists, double ms, const struct load *l)
{
    struct load copy = *l;
    double *figures[FIGURES];
    figures_of(&copy, figures);
    json_array_append_new(json_object_get(lists, "at"), json_real(ms / 1000));
    for (int i = 0; i < FIGURES; i++) {
        json_array_append_new(json_object_get(lists, names[i]), document_real(*figures[i]));
    }
}
