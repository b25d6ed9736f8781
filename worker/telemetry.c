/* Names of a rank's phases, as heartbeats carry them and the page shows them. */
#include "worker/telemetry.h"

const char *phase_name(enum phase p)
{
    static const char *const names[] = {
        [PHASE_LOAD] = "loading",        [PHASE_PREPARE] = "preparing",
        [PHASE_COMPUTE] = "computing",   [PHASE_EXCHANGE] = "exchange",
        [PHASE_EVALUATE] = "evaluating", [PHASE_CHECKPOINT] = "checkpoint",
        [PHASE_SERVE] = "serving",       [PHASE_DONE] = "done",
    };
    return names[p];
}
