/* A cache of answers, for some milliseconds, of routes whose line says `shared`. Many clients that
 * ask for one job at the same time cost the store one query every few milliseconds, not one each.
 *
 *   age 0 to RENEW      the answer is given again
 *   RENEW to KEEP       the next who asks goes to the store, the others still get this answer
 *   beyond KEEP         nobody gets it
 *
 * A change over HTTP is in every later answer: it expires all kept answers at once
 * (recent_changed), and an answer begun before the change is not kept. A client that received an
 * event about a job's state (stream.c) also gets that state in every later answer. Other changes by
 * the coordinator may be KEEP milliseconds late.
 */
#ifndef HTTP_RECENT_H
#define HTTP_RECENT_H

#include <stdbool.h>

struct recent;
struct text;

struct recent *recent_new(void);    /* NULL: memory ran out */
void recent_free(struct recent *r); /* NULL is fine */
/* A reference to what is kept under `key` (a request's target), the caller's. NULL: no answer is fresh enough,
 * or the caller is to renew it; then *generation is what recent_keep() needs. */
struct text *recent_get(struct recent *r, const char *key, long *generation);
/* Keeps the answer, with a reference of its own, whose making began in that generation. */
void recent_keep(struct recent *r, const char *key, long generation, struct text *answer);
void recent_changed(struct recent *r);

#endif
