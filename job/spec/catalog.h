/* The catalogue as a table: see job/spec/catalog.def. Everything here is static and lives for
 * ever. */
#ifndef JOB_SPEC_CATALOG_H
#define JOB_SPEC_CATALOG_H

#include <jansson.h>

enum catalog_kind {
    CATALOG_STRATEGY,
    CATALOG_BATCHING,
    CATALOG_OPTIMIZER,
    CATALOG_SCHEDULE,
    CATALOG_LAYER,
    CATALOG_FORMAT,
    CATALOG_AUGMENT,
    CATALOG_DEVICE,
    CATALOG_KINDS
};

enum param_kind {
    PARAM_INT,
    PARAM_REAL,
    PARAM_BOOL,
    PARAM_ENUM,
    PARAM_INTS,
    PARAM_NAMES,
    PARAM_AUTO
};

struct catalog_param {
    const char *name;
    enum param_kind kind;
    int required;
    double fallback, min, max;
    const char *choices; /* "a|b|c" for PARAM_ENUM, the default first named by `fallback_text` */
    const char *fallback_text;
    const char *help;
};

struct catalog_entry {
    enum catalog_kind kind;
    int id; /* one of enum catalog_id */
    const char *name, *help;
    const struct catalog_param *params; /* ends with name == NULL */
};

/* CAT_STRATEGY_SYNC, CAT_LAYER_DENSE, … : unique over all kinds, in the order of catalog.def. */
enum catalog_id {
#define ENTRY(kind, ident, name, help, params) CAT_##kind##_##ident,
#include "job/spec/catalog.def"
#undef ENTRY
    CAT_COUNT
};

const struct catalog_entry *catalog_get(int id);
const struct catalog_entry *catalog_find(enum catalog_kind kind, const char *name); /* or NULL */
/* Names of a kind, NULL-terminated, for "nearest valid name". */
const char *const *catalog_names(enum catalog_kind kind, int *count);
const char *catalog_kind_name(enum catalog_kind kind); /* "strategy" */
/* {"strategy": [{"name", "help", "parameters":
 * [{"name","type","default","min","max","choices","required","help"}]}], …}; strategies have their
 * traits, too (strategy_traits_json()). */
json_t *catalog_json(void);

#endif
