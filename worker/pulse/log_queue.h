/* Metrics that a user's program has logged and that the store does not have yet. They go up with
 * each turn of the pulse. While the store is away, or if more than LOGGED_MOST come between two
 * turns, every other point of the names that were logged most often goes, but never the newest. The
 * pulse's lock guards it.
 */
#ifndef WORKER_PULSE_LOG_QUEUE_H
#define WORKER_PULSE_LOG_QUEUE_H

#include "job/documents/ranks/logged.h"

struct log_queue {
    struct logged_point points[LOGGED_MOST]; /* [n], oldest first */
    int n;
};

/* Appends a point, in place of one with the same name and step. */
void log_queue_add(struct log_queue *q, const struct logged_point *p);
/* Is it so full that it should go up now? */
bool log_queue_is_urgent(const struct log_queue *q);

#endif
