/* Expands job/spec/catalog.def into tables that live for ever, and prints them as JSON.
 *
 * The def file is read three times: once in the header for the ids, once here for each entry's
 * parameters, once for the entries. A strategy, layer or format is therefore added by its line
 * alone; nothing here knows any of them by name. SERVER_PARAMS is defined here, because every
 * server strategy has the same parameters and the line in the def file only names it.
 */
#include "job/spec/catalog.h"

#include <stdbool.h>
#include <string.h>

#include "job/spec/spec.h"

#define NOPARAMS
#define PINT(n, fallback, lo, hi, help) {#n, PARAM_INT, 0, fallback, lo, hi, NULL, NULL, help},
#define PREAL(n, fallback, lo, hi, help) {#n, PARAM_REAL, 0, fallback, lo, hi, NULL, NULL, help},
#define PBOOL(n, fallback, help) {#n, PARAM_BOOL, 0, fallback, 0, 1, NULL, NULL, help},
#define PENUM(n, fallback, choices, help) {#n, PARAM_ENUM, 0, 0, 0, 0, choices, #fallback, help},
#define PREQ_INT(n, lo, hi, help) {#n, PARAM_INT, 1, 0, lo, hi, NULL, NULL, help},
#define PREQ_REAL(n, lo, hi, help) {#n, PARAM_REAL, 1, 0, lo, hi, NULL, NULL, help},
#define PINTS(n, lo, hi, help) {#n, PARAM_INTS, 0, 0, lo, hi, NULL, NULL, help},
#define PREQ_INTS(n, lo, hi, help) {#n, PARAM_INTS, 1, 0, lo, hi, NULL, NULL, help},
#define PAUTO(n, lo, hi, help) {#n, PARAM_AUTO, 0, 0, lo, hi, NULL, "auto", help},
#define PNAMES(n, help) {#n, PARAM_NAMES, 0, 0, 0, 0, NULL, NULL, help},
#define WARMUP \
    PREAL(warmup_epochs, 0, 0, 1000000, "the learning rate rises linearly from 0 over these epochs")
#define SERVER_PARAMS                                                                         \
    PENUM(weighting, sample, "sample|plain",                                                  \
          "what a gradient weighs: every sample the same, or every gradient the same")        \
    PENUM(scale, global, "global|per_update",                                                 \
          "global: W updates together make one full step; per_update: each makes a full one") \
    PINT(servers, 1, 1, 64, "parameter servers that share the parameters")
#define SOFTSYNC_PARAMS                                                                            \
    PENUM(rate, fixed, "fixed|n|tau",                                                              \
          "learning rate: as it is; divided by n; divided by the staleness of each gradient")      \
    PENUM(                                                                                         \
        pull, free, "free|blocking",                                                               \
        "free: a worker pulls right after its push; blocking: after the update with its gradient") \
    SERVER_PARAMS
#define CLIP \
    PREAL(clip_norm, 0, 0, 1e30, "a longer gradient is shortened to this length; 0: no limit")
#define ADAM_PARAMS(decay)                                                    \
    PREAL(learning_rate, 0.001, 0, 1000, "step size for the global batch")    \
    PREAL(beta1, 0.9, 0, 0.999999, "share of the mean gradient that is kept") \
    PREAL(beta2, 0.999, 0, 0.999999, "share of the mean square that is kept") \
    PREAL(eps, 1e-8, 1e-30, 1, "added to the root")                           \
    PREAL(weight_decay, decay, 0, 10, "pull of the weights towards zero")

#define ENTRY(kind, ident, title, text, params) \
    static const struct catalog_param params_##kind##_##ident[] = {params{.name = NULL}};
#include "job/spec/catalog.def"
#undef ENTRY

static const struct catalog_entry entries[CAT_COUNT] = {
#define ENTRY(kind, ident, title, text, params) \
    {CATALOG_##kind, CAT_##kind##_##ident, title, text, params_##kind##_##ident},
#include "job/spec/catalog.def"
#undef ENTRY
};

static const char *const kind_names[CATALOG_KINDS] = {
    [CATALOG_STRATEGY] = "strategy",   [CATALOG_BATCHING] = "batching",
    [CATALOG_OPTIMIZER] = "optimizer", [CATALOG_SCHEDULE] = "schedule",
    [CATALOG_LAYER] = "layer",         [CATALOG_FORMAT] = "format",
    [CATALOG_AUGMENT] = "augment",     [CATALOG_DEVICE] = "device",
};

static const char *const type_names[] = {
    [PARAM_INT] = "integer",          [PARAM_REAL] = "number",
    [PARAM_BOOL] = "boolean",         [PARAM_ENUM] = "enum",
    [PARAM_INTS] = "integers",        [PARAM_NAMES] = "names",
    [PARAM_AUTO] = "integer or auto",
};

const struct catalog_entry *catalog_get(int id)
{
    return id >= 0 && id < CAT_COUNT ? &entries[id] : NULL;
}

const struct catalog_entry *catalog_find(enum catalog_kind kind, const char *name)
{
    for (int i = 0; name != NULL && i < CAT_COUNT; i++) {
        if (entries[i].kind == kind && strcmp(entries[i].name, name) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

/* One array for each kind, ended by NULL; entries of a kind need not be together in the def file.
 * Filled before main(), so that threads only read it. */
static const char *names_of[CATALOG_KINDS][CAT_COUNT + 1];
static int name_counts[CATALOG_KINDS];

__attribute__((constructor)) static void collect_names(void)
{
    for (int i = 0; i < CAT_COUNT; i++) {
        enum catalog_kind k = entries[i].kind;
        names_of[k][name_counts[k]++] = entries[i].name;
    }
}

const char *const *catalog_names(enum catalog_kind kind, int *count)
{
    if (count != NULL) {
        *count = name_counts[kind];
    }
    return names_of[kind];
}

const char *catalog_kind_name(enum catalog_kind kind)
{
    return kind_names[kind];
}

static json_t *choices_json(const char *choices)
{
    json_t *list = json_array();
    while (*choices != '\0') {
        size_t n = strcspn(choices, "|");
        json_array_append_new(list, json_stringn(choices, n));
        choices += n + (choices[n] == '|');
    }
    return list;
}

/* A whole number is printed without a point, so that a form can show it as it is. */
static json_t *number_json(double v, bool whole)
{
    return whole ? json_integer((json_int_t)v) : json_real(v);
}

static json_t *param_json(const struct catalog_param *p)
{
    json_t *j = json_pack("{s:s, s:s, s:b, s:s}", "name", p->name, "type", type_names[p->kind],
                          "required", p->required, "help", p->help);
    bool whole = p->kind == PARAM_INT || p->kind == PARAM_INTS || p->kind == PARAM_AUTO;
    switch (p->kind) {
    case PARAM_INT:
    case PARAM_REAL:
    case PARAM_INTS:
        json_object_set_new(j, "min", number_json(p->min, whole));
        json_object_set_new(j, "max", number_json(p->max, whole));
        if (!p->required && p->kind != PARAM_INTS) {
            json_object_set_new(j, "default", number_json(p->fallback, whole));
        }
        break;
    case PARAM_BOOL:
        json_object_set_new(j, "default", json_boolean(p->fallback != 0));
        break;
    case PARAM_AUTO:
        json_object_set_new(j, "min", number_json(p->min, whole));
        json_object_set_new(j, "max", number_json(p->max, whole));
        json_object_set_new(j, "default", json_string(p->fallback_text));
        break;
    case PARAM_ENUM:
        json_object_set_new(j, "choices", choices_json(p->choices));
        json_object_set_new(j, "default", json_string(p->fallback_text));
        break;
    case PARAM_NAMES:
        break;
    }
    return j;
}

json_t *catalog_json(void)
{
    json_t *all = json_object();
    for (int k = 0; k < CATALOG_KINDS; k++) {
        json_object_set_new(all, kind_names[k], json_array());
    }
    for (int i = 0; i < CAT_COUNT; i++) {
        const struct catalog_entry *e = &entries[i];
        json_t *params = json_array();
        for (const struct catalog_param *p = e->params; p->name != NULL; p++) {
            json_array_append_new(params, param_json(p));
        }
        json_t *j =
            json_pack("{s:s, s:s, s:o}", "name", e->name, "help", e->help, "parameters", params);
        if (e->kind == CATALOG_STRATEGY) {
            strategy_traits_json(e->id, j);
        }
        json_array_append_new(json_object_get(all, kind_names[e->kind]), j);
    }
    return all;
}
