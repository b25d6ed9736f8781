/* Users' own programs that this service may run (a job spec's `program`). Running one is code
 * execution on the nodes as the agent's user, so it is the operator's choice:
 *
 *   DIR/programs/NAME/manifest.json     put there by an operator, on the nodes too (same path, or
 *                                       beneath EVENSTEP_PROGRAMS): {"command": ["python3",
 *                                       "train.py"], "arguments": {"--lr": "number"}, "env": {…}}
 *   serve --allow-programs              jobs may also give a command, any arguments, environment
 *
 * Without that option a job names a program and gives the arguments that its manifest lists, each
 * of its type: number, integer, text, or flag (which has no value).
 */
#ifndef COORDINATOR_PROGRAMS_H
#define COORDINATOR_PROGRAMS_H

#include <limits.h>

#include "job/spec.h"

/* What of the spec's program this service does not run, each a problem beneath /program. Does
 * nothing for a spec without one. */
void programs_check(const struct jobspec *spec, const char *data_dir, bool allowed,
                    struct jsonx_problems *problems);
/* The spec with the manifest's command and environment filled in, as ranks need it: a new
 * reference, NULL with an error. folder: where the program lies; "" for a command without a name.
 */
json_t *programs_resolve(const struct jobspec *spec, const char *data_dir, char folder[PATH_MAX],
                         struct err *e);

#endif
