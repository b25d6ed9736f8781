/* A cache of answers, for some milliseconds: those of routes whose line says `shared`. Many who ask
 * for one job at the same time cost the store one question every few milliseconds, not one each.
 *
 *   age 0 to RENEW      the answer is given again
 *   RENEW to KEEP       the next who asks goes to the store, the others still get this answer
 *   beyond KEEP         nobody gets it
 *
 * What somebody changed over HTTP is in every answer that comes after: a change makes all that is
 * kept old at once (recent_changed), and an answer whose making began before the change is not
 * kept. A change of a job's state is in every answer to who heard of it by an event (stream.c).
 * What else the coordinator changes may be KEEP milliseconds late.
 */
#ifndef HTTP_RECENT_H
#define HTTP_RECENT_H

#include <stdbool.h>

struct MHD_Connection;
struct MHD_Response;
struct recent;

struct recent *recent_new(void);    /* NULL: memory ran out */
void recent_free(struct recent *r); /* after the daemon has stopped; NULL is fine */
/* Queues what is kept under `key` (a path). False: there is nothing that is fresh enough, or it is
 * for the caller to renew it; then *generation is what recent_keep wants to know of when the making
 * of the answer began. */
bool recent_send(struct recent *r, const char *key, struct MHD_Connection *connection,
                 long *generation, int *sent);
/* Takes the response, headers and all, whose making began in that generation. */
void recent_keep(struct recent *r, const char *key, long generation, struct MHD_Response *response);
void recent_changed(struct recent *r);

#endif
