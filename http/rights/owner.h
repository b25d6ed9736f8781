/* Whose a job is. Its owner is the name of the token that submitted it, so all tokens of one name
 * are one owner, who keeps the jobs when a token is replaced. An owner changes their own jobs; an
 * admin changes everybody's, and those that are nobody's.
 */
#ifndef HTTP_RIGHTS_OWNER_H
#define HTTP_RIGHTS_OWNER_H

#include "common/err.h"

struct request;

/* The id of the job in the path, for a handler that changes it: as request_job(), and
 * ERR_FORBIDDEN if the job belongs to somebody else. ERR_NOT_FOUND, ERR_UNAVAILABLE. */
const char *owner_job(const struct request *q, struct err *e);

/* May this request change something of this owner (NULL or "": nobody's)? `what`, `id`: how the
 * error names it, "job" or "sweep". 0, or ERR_FORBIDDEN. */
int owner_check(const struct request *q, const char *what, const char *id, const char *owner,
                struct err *e);

#endif
