/* The query of GET /api/v1/jobs, checked against the keys of a job. A path that no job has is an
 * error, which names the nearest path, not an empty list.
 */
#ifndef HTTP_API_JOB_QUERY_H
#define HTTP_API_JOB_QUERY_H

#include "common/json/jsonx.h"
#include "job/filter.h"
#include "store/store.h"

struct request;

/* Report what is wrong with the values of `sort` and `where`; the gate calls them with the other
 * checks of a query. */
void job_query_check_order(const char *order, struct jsonx_problems *problems);
void job_query_check_conditions(const char *conditions, struct jsonx_problems *problems);
/* Reads the parameters; *query borrows from the request and from *where. ERR_INVALID: what is wrong
 * with tags and fields is among the request's problems, which name the parameter. */
int job_query_read(struct request *q, struct job_query *query, struct filter *where, struct err *e);

#endif
