/* Jobs that have not ended, asked for what they need. */
#ifndef COORDINATOR_OPENJOBS_H
#define COORDINATOR_OPENJOBS_H

#include "store/store.h"

/* Does the spec of a job that has not ended contain this text (another job's id, a program's
 * digest)? 1, with that job's id in `by` (which may be NULL); 0; or negative: the store is away. */
int openjobs_name(struct store *s, const char *text, char by[STORE_ID], struct err *e);

#endif
