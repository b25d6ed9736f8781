/* Which jobs and sweeps that have not ended need a program or a data set. */
#ifndef COORDINATOR_FILES_OPENJOBS_H
#define COORDINATOR_FILES_OPENJOBS_H

#include "store/store.h"

/* `by` gets the id of a job that has not ended and whose spec contains this text (another job's
 * id, a program's digest). It may be the id of a sweep, whose next trial may go on from one of
 * its jobs. "": there is none. Fails where the store is away. */
int openjobs_name(struct store *s, const char *text, char by[STORE_ID], struct err *e);

#endif
