/* What /metrics counts of events as they pass: ends of jobs, restarts, failures by code, changes of
 * nodes, how long jobs waited in the queue; step time and staleness of the rows that events carry
 * (a sample of all rows). Counts begin when the service starts; events that happen while the store
 * cannot be reached are not counted.
 */
#ifndef HTTP_EVENTS_TALLY_H
#define HTTP_EVENTS_TALLY_H

#include <stdint.h>

#include "common/text/buf.h"
#include "common/err.h"
#include "job/documents/people/events.h"

struct tally;

struct tally *tally_new(struct err *e); /* NULL: memory ran out */
void tally_free(struct tally *t);       /* NULL is fine */
/* Counts one event of time `ms` (Redis's clock, ms since 1970). One thread calls it. */
void tally_event(struct tally *t, const struct event_entry *entry, uint64_t ms);
/* Appends the metrics; any thread. */
void tally_print(struct tally *t, struct buf *out);

#endif
