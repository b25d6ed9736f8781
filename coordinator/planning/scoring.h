/* The confusion matrix of a job's model on the test set, and the samples with the greatest loss,
 * with pictures of them. */
#ifndef COORDINATOR_PLANNING_SCORING_H
#define COORDINATOR_PLANNING_SCORING_H

#include "common/json/jsonx.h"

/* As http_hooks.scored; ctx is a struct dryrun. The worker's program evaluates the job's
 * `model.safetensors` once; what it found is kept in the job's folder until the model is another
 * one. Of several requests one evaluates, and the others are refused (ERR_UNAVAILABLE) until it is
 * done. New reference to job/documents/results/scored.h. */
json_t *scoring_of_job(void *ctx, const char *id, struct err *e);

#endif
