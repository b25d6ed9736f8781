/* The section of a key that is at the top of a job spec by mistake. The sections' keys are in the
 * catalogue and in the rows of parts.h. */
#include "job/spec/parts.h"

#include <string.h>

static bool in_rows(const struct catalog_param *rows, const char *key)
{
    for (; rows && rows->name; rows++) {
        if (strcmp(rows->name, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Is it a parameter of any entry of this kind? */
static bool in_catalog(enum catalog_kind kind, const char *key)
{
    int n;
    const char *const *names = catalog_names(kind, &n);
    for (int i = 0; i < n; i++) {
        if (in_rows(catalog_find(kind, names[i])->params, key)) {
            return true;
        }
    }
    return false;
}

static bool is_one_of(const char *const *names, const char *key)
{
    while (*names && strcmp(*names, key) != 0) {
        names++;
    }
    return *names != NULL;
}

const char *spec_place(const char *key)
{
    static const char *const of_model[] = {"input", "layers", "loss", NULL},
                             *const of_batching[] = {"policy", "sizes", "weights", NULL};
    const struct {
        const char *section;
        bool has;
    } all[] = {
        {"model", is_one_of(of_model, key)},
        {"data", in_rows(spec_data_params, key) || in_catalog(CATALOG_FORMAT, key)},
        {"optimizer", in_catalog(CATALOG_OPTIMIZER, key) || strcmp(key, "schedule") == 0},
        {"batching", in_rows(spec_batching_params, key) || is_one_of(of_batching, key)},
        {"strategy", in_catalog(CATALOG_STRATEGY, key)},
        {"evaluate", in_rows(spec_evaluate_params, key)},
        {"checkpoint", in_rows(spec_checkpoint_params, key) || strcmp(key, "keep") == 0},
        {"exchange", in_rows(spec_exchange_params, key)},
        {"target", strcmp(key, spec_accuracy_param.name) == 0},
    };
    const char *found = NULL;
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        found = all[i].has ? all[i].section : found;
        n += all[i].has;
    }
    return n == 1 ? found : NULL;
}
