/* See phase.h. */
#include "job/documents/ranks/phase.h"

const char *const phase_names[PHASES] = {
    [PHASE_LOAD] = "loading",        [PHASE_PREPARE] = "preparing",
    [PHASE_COMPUTE] = "computing",   [PHASE_EXCHANGE] = "exchange",
    [PHASE_EVALUATE] = "evaluating", [PHASE_CHECKPOINT] = "checkpoint",
    [PHASE_SERVE] = "serving",       [PHASE_DONE] = "done",
};

const char *phase_name(enum phase p)
{
    return phase_names[p];
}
