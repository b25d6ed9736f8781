/* The worker's program beside this one, which does what needs a model (`--evaluate`,
 * `--export-onnx`) and prints one JSON document. No service is asked.
 */
#ifndef CLI_WORKER_H
#define CLI_WORKER_H

#include <jansson.h>

#include "common/err.h"

/* Runs it and gives what it printed: new reference. argv: NULL-terminated; argv[0] is set here to
 * the program. NULL after an error: the program refused, and *e is what its document says, or it
 * failed, and *e has its last lines. */
json_t *worker_answer(const char **argv, struct err *e);

#endif
