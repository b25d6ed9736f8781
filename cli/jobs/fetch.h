/* Downloads a job's artifacts into a folder. */
#ifndef CLI_JOBS_FETCH_H
#define CLI_JOBS_FETCH_H

#include "cli/session.h"

/* Writes one artifact of the job into `folder`, which it makes, with the folders of a name such as
 * "plots/loss.png". The file has a temporary name first, so a file there is always complete. Its
 * path is added to `files` (an array, or NULL). */
int fetch_one(struct session *s, const char *id, const char *folder, const char *name,
              json_t *files);
/* The same for every artifact of the job. Returns how many there were. */
int fetch_all(struct session *s, const char *id, const char *folder, json_t *files);

#endif
