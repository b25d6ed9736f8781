/* A job's artifacts, brought into a folder. */
#ifndef CLI_JOBS_FETCH_H
#define CLI_JOBS_FETCH_H

#include "cli/session.h"

/* Writes one artifact of the job into `folder`, which is made; so are the folders of a name such as
 * "plots/loss.png". It comes under a temporary name first, so that a file there is whole. Its path
 * is added to `files` (an array, or NULL). */
int fetch_one(struct session *s, const char *id, const char *folder, const char *name,
              json_t *files);
/* The same for every artifact of the job; how many there were. */
int fetch_all(struct session *s, const char *id, const char *folder, json_t *files);

#endif
