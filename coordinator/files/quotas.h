/* The quotas of `serve --quotas FILE` (job/quota.h). The file is read again when it has changed, at
 * most once a second; one that is gone or not valid leaves the quotas as they were, and the log
 * says why.
 */
#ifndef COORDINATOR_FILES_QUOTAS_H
#define COORDINATOR_FILES_QUOTAS_H

#include "common/err.h"
#include "job/quota.h"

struct quotas; /* any thread may ask; NULL: there are no quotas */
struct quotas *quotas_open(const char *file, struct err *e);
void quotas_close(struct quotas *q); /* NULL is fine */
/* Reads the file now if it has changed; NULL is fine. */
void quotas_read_again(struct quotas *q);
/* What this owner may have now. */
void quotas_find(struct quotas *q, const char *owner, struct quota *out);
/* As quota_preemption(). */
struct preemption quotas_preemption(struct quotas *q);
/* A number that grows each time the file is read anew. */
long quotas_version(struct quotas *q);

#endif
