/* What /metrics counts of events as they pass: ends of jobs, restarts, failures by code, changes of
 * nodes, how long jobs waited in the queue; step time and staleness of the rows that events carry
 * (some of all rows). Counted since the service started; the events of a time without the store are
 * not seen.
 */
#ifndef HTTP_EVENTS_TALLY_H
#define HTTP_EVENTS_TALLY_H

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "job/documents/people/events.h"

struct tally;

struct tally *tally_new(struct err *e);
void tally_free(struct tally *t); /* NULL is fine */
/* One event, which came at `ms` by Redis's clock. By one thread. */
void tally_event(struct tally *t, const struct event_entry *entry, uint64_t ms);
/* Appends the metrics; any thread. */
void tally_print(struct tally *t, struct buf *out);

#endif
