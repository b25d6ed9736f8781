/* Threads that run handlers, so that one who waits (for the store, for a hook that starts a
 * process, for the digest of a large file) holds up nobody's event stream. The connection is
 * suspended meanwhile.
 *
 *   event thread: suspend, add ──► queue ──► thread: dispatch_run, resume ──► event thread: send
 */
#ifndef HTTP_WORK_H
#define HTTP_WORK_H

#include <stdbool.h>

#include "common/err.h"

struct work;
struct request;

struct work *work_start(struct err *e);
/* Suspends the request's connection and queues it. false: they are stopping, run it yourself. */
bool work_add(struct work *w, struct request *q);
/* Runs what is queued, ends the threads; every connection is resumed then. NULL is fine. */
void work_stop(struct work *w);
void work_free(
    struct work *w); /* after the daemon has stopped: until then work_add may be called */

#endif
