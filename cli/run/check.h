/* `evenstep run --check`: does a program compute on several workers what it computes on one? It
 * trains twice, on one worker and on several whose shares of a batch are unequal, and both models
 * are compared. Where they differ it trains once more on one worker, from first parameters that are
 * rounded otherwise: that shows what rounding alone makes of it. docs/own-program-support.md says
 * what else may differ. */
#ifndef CLI_RUN_CHECK_H
#define CLI_RUN_CHECK_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/status.h"
#include "common/opt.h"
#include "job/documents/results/compared.h"

/* Makes the job of the options the one on several workers: strategy sync, three workers unless
 * --workers says how many, static minibatches as W : W-1 : … : 1 unless the job says some of its
 * own. Refuses options that the two jobs could not both have. */
int check_several(json_t *spec, const struct opt_values *o, struct err *e);
/* The same job on one worker. A new reference. */
json_t *check_alone(const json_t *several);
/* The job on one worker once more, rounded otherwise. A new reference. */
json_t *check_beside(const json_t *alone);
/* Compares the models in these files, of which `beside` may be NULL. STATUS_FAILED: they cannot be
 * compared, which *e says. */
enum status check_compare(struct compared *out, const char *alone, const char *several,
                          const char *beside, struct err *e);
/* Tells the result: on stderr, or as JSON on stdout with `jobs`, their ids. told: what the library
 * said to the program on several workers. Both are borrowed. STATUS_DONE: the models are the same
 * within rounding; STATUS_FAILED: they are not, which *e says. */
enum status check_tell(const struct compared *found, const json_t *jobs, const json_t *told,
                       bool json, struct err *e);

#endif
