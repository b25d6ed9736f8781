/* A sweep as the API shows it: the document, and what its jobs say (job/sweep/runs.h). */
#ifndef HTTP_API_SWEEP_VIEW_H
#define HTTP_API_SWEEP_VIEW_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "job/sweep/sweep.h"

/* `kept`: from store_sweep_get(). whole: returns the schema Sweep; else SweepRow, without spec and
 * trials. New reference; NULL with ERR_DATA. */
json_t *sweep_view(const json_t *kept, bool whole, struct err *e);
/* What a sweep that is not started yet would be: the schema SweepPlan. New reference. */
json_t *sweep_plan(const struct sweep *sweep);

#endif
