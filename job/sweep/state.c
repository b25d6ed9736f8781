/* Names of a sweep's states: see state.h. */
#include "job/sweep/state.h"

#include <string.h>

static const char *const names[SWEEP_STATE_COUNT] = {"running", "cancelling", "cancelled",
                                                     "succeeded", "failed"};

const char *sweep_state_name(enum sweep_state state)
{
    return (int)state >= 0 && state < SWEEP_STATE_COUNT ? names[state] : "unknown";
}

int sweep_state_find(const char *name)
{
    for (int i = 0; name && i < SWEEP_STATE_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}
