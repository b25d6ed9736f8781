/* Threads that run handlers, so that a handler that waits (for the store, for a hook that starts a
 * process, for the digest of a large file) delays no event stream. The connection is suspended
 * meanwhile.
 *
 *   event thread: suspend, add ──► queue ──► thread: run, resume ──► event thread: send
 */
#ifndef HTTP_THREADS_WORK_H
#define HTTP_THREADS_WORK_H

#include <stdbool.h>

#include "common/err.h"

struct MHD_Connection;
struct work;

/* What is to be run; the caller's, until `run` has been called and the connection is resumed. */
struct work_item {
    struct MHD_Connection *connection;
    void (*run)(struct work_item *item); /* on one of the threads */
    struct work_item *next;              /* in the queue */
};

/* As many threads as could be made, at least one. NULL: none could. */
struct work *work_start(int threads, struct err *e);
/* Suspends the item's connection and queues it. false: they are stopping, run it yourself. */
bool work_add(struct work *w, struct work_item *item);
/* Runs what is queued, ends the threads; every connection is resumed then. NULL is fine. */
void work_stop(struct work *w);
/* After the daemon has stopped: until then work_add may be called. NULL is fine. */
void work_free(struct work *w);

#endif
