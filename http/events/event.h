/* One event of the stream as text (SSE), made of an entry of the store's stream:
 *
 *   id: 1700000000000-3
 *   event: live
 *   data: {"job":"7f3a…","type":"live","data":{…}}
 *
 * The text is shared by the ring of stream.c and the clients that are sending it. References are
 * counted without a lock: whoever holds one holds stream.c's lock.
 */
#ifndef HTTP_EVENTS_EVENT_H
#define HTTP_EVENTS_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text/buf.h"
#include "job/documents/people/events.h"
#include "store/store.h"

struct event_id {
    uint64_t ms, seq;
};

struct event {
    int refs;
    struct event_id id;
    char job[STORE_ID]; /* "" for events of nodes */
    bool for_all;       /* gaps reach every client */
    size_t len;
    char text[]; /* [len] */
};

/* "1700000000000-3"; false: it is no id. */
bool event_id_parse(const char *text, struct event_id *id);
bool event_id_after(const struct event_id *a, const struct event_id *b);

/* One reference, the caller's; `text` is copied. NULL: memory ran out. */
struct event *event_new(const char *text, size_t len);
/* `event: gap` with the newest id; "$" means that there is none. */
struct event *event_new_gap(const char *last);
/* Gives a reference back; NULL is fine. */
void event_drop(struct event *ev);

/* Appends one event; its id and job go into *id and job. Its data is passed
 * on as it is: a line of JSON. false: it is malformed, or `out` is full. */
bool event_print(struct buf *out, const struct event_entry *entry, struct event_id *id,
                 char job[STORE_ID]);

#endif
