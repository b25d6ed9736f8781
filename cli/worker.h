/* The worker's program beside this one, which does what needs a model (`--evaluate`,
 * `--export-onnx`) and prints one JSON document. No service is asked.
 */
#ifndef CLI_WORKER_H
#define CLI_WORKER_H

#include <jansson.h>

#include "common/err.h"

/* Can the model's file be read? ERR_NOT_FOUND with its name: it cannot. */
int worker_check_model(const char *path, struct err *e);
/* Runs it and gives what it printed: new reference. argv: NULL-terminated; argv[0] is set here to
 * the program. NULL after an error: the program refused, and *e is what its document says, or it
 * failed, and *e has its last lines. */
json_t *worker_answer(const char **argv, struct err *e);
/* The exit status (cli/status.h) after a question without an answer: was something named that is
 * not there, or did the work fail? */
int worker_status(const struct err *e);

#endif
