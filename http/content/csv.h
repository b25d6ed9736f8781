/* Documents of the API as tables (text/csv, RFC 4180): a line of names, then one line for each
 * point or result. What is null is an empty field.
 */
#ifndef HTTP_CONTENT_CSV_H
#define HTTP_CONTENT_CSV_H

#include <jansson.h>

#include "common/text/buf.h"
#include "http/answer/reply.h"

/* The lists of the schemas Series, Evaluations and Accounting, as text. */
struct buf csv_of_series(const json_t *series);
struct buf csv_of_evaluations(const json_t *evaluations);
struct buf csv_of_accounting(const json_t *rows);
/* The documents Norms (a line for each tensor and step) and NodeLoad, as text. */
/* metric,x,epoch,time,min,max,mean */
struct buf csv_of_logged(const json_t *metrics);
struct buf csv_of_norms(const json_t *norms);
struct buf csv_of_load(const json_t *load);
/* Answers with the text. Releases it, and `body`, from which it was made. */
int csv_reply(struct reply *out, struct buf text, json_t *body, struct err *e);

#endif
