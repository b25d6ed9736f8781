/* Networks that a spec can name instead of writing them out, as the JSON a user would write. Parameter
 * counts are fixed by SEMANTICS.md 2 and tested. A new preset is one text and one row.
 */
#include "job/network.h"

#include <string.h>

static const struct preset {
    const char *name, *json;
} presets[] = {
    {"mlp", "{\"input\": [28, 28, 1], \"layers\": ["
            "{\"type\": \"dense\", \"units\": 128}, {\"type\": \"relu\"},"
            "{\"type\": \"dense\", \"units\": 10}]}"},
    {"lenet5", "{\"input\": [28, 28, 1], \"layers\": ["
               "{\"type\": \"conv2d\", \"filters\": 32, \"kernel\": 5, \"padding\": 2}, {\"type\": \"relu\"},"
               "{\"type\": \"max_pool\", \"size\": 2},"
               "{\"type\": \"conv2d\", \"filters\": 64, \"kernel\": 5, \"padding\": 2}, {\"type\": \"relu\"},"
               "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"flatten\"},"
               "{\"type\": \"dense\", \"units\": 512}, {\"type\": \"relu\"},"
               "{\"type\": \"dense\", \"units\": 10}]}"},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

json_t *network_preset(const char *name)
{
    for (int i = 0; name != NULL && i < PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            json_t *j = json_loads(presets[i].json, 0, NULL);
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
