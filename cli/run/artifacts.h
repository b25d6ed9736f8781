/* A job's artifacts, brought back into a folder. */
#ifndef CLI_RUN_ARTIFACTS_H
#define CLI_RUN_ARTIFACTS_H

#include "cli/session.h"

/* Writes every artifact of the job into `folder`, which is made; how many there were. Each comes
 * under a temporary name first, so a file there is whole. Negative: s->err. */
int artifacts_fetch(struct session *s, const char *id, const char *folder);

#endif
