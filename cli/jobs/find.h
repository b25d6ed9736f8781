/* Finds the job that a word names: an id, the beginning of one, or a job's name. */
#ifndef CLI_JOBS_FIND_H
#define CLI_JOBS_FIND_H

#include "cli/session.h"

enum { JOB_ID_BYTES = 64 };

/* Is it a whole id of a job or sweep? */
bool job_is_id(const char *word);
/* The id of the job that `word` names. A whole id is taken as it is, without a question to the
 * service. ERR_NOT_FOUND with the nearest name if there is none; ERR_INVALID if there are several,
 * which are listed in s->client.problems. */
int job_find(struct session *s, const char *word, char id[JOB_ID_BYTES]);
/* The same for an argument of the command: "/api/v1/jobs/ID" and what follows. */
int job_path(struct session *s, const char *word, const char *rest, char out[256]);

#endif
