/* Events: what the store tells to all who watch (store/events.c). Browsers get them as they are;
 * this file has what our own programs read of them.
 *
 *   {"id": "1700000000000-3", "job": "7f3a…", "type": "job", "data": "{…}"}     data: JSON as text
 *
 *   type    data                                                      store/lua/shared/…
 *   job     {"id", "name", "from", "state", "attempt", "priority",    job_event.lua
 *            "tags", "error"}; from null: it is new
 *   node    {"name", "change"}                                        node_event.lua
 *   rows    {"rows": [a row (job/row.h), "rank", "node"], "samples"}  coordinator
 *
 * These and the other types are the API's own forms (docs/http-api.md): they have no format number.
 * A reader passes over what it does not understand.
 */
#ifndef JOB_DOCUMENTS_PEOPLE_EVENTS_H
#define JOB_DOCUMENTS_PEOPLE_EVENTS_H

#include "job/documents/document.h"
#include "job/row.h"
#include "job/state.h"

enum event_kind { EVENT_JOB, EVENT_DELETED, EVENT_NODE, EVENT_ROWS, EVENT_OTHER };

/* One entry of the stream. */
struct event_entry {
    const char *id, *job, *type, *data; /* job "": an event of nodes */
    enum event_kind kind;
};

/* New reference. It ignores `kind`. */
json_t *event_entry_json(const struct event_entry *entry);
/* Texts are borrowed from `j`. false: one of the four is missing. */
bool event_entry_read(const json_t *j, struct event_entry *out);
/* The event's data, parsed: a new reference, or NULL. */
json_t *event_entry_data(const struct event_entry *entry);

/* ---- job ------------------------------------------------------------------------------------- */

struct job_event {
    int from; /* enum job_state; -1: it is new */
    enum job_state state;
    char code[DOCUMENT_NODE]; /* code of its error; "": none */
};

/* false: the event has no state. */
bool job_event_read(const json_t *data, struct job_event *out);
/* Did its state change? Else its priority, tags or note did. */
bool job_event_changes(const struct job_event *event);
/* The event as webhooks send it, with the job's owner (NULL: it has none). New reference. */
json_t *job_event_told(const json_t *data, const char *owner);

/* ---- node ------------------------------------------------------------------------------------ */

struct node_event {
    const char *name, *change; /* "lost", "back", …; borrowed */
};
bool node_event_read(const json_t *data, struct node_event *out);

/* ---- rows ------------------------------------------------------------------------------------ */

/* The element of a row. New reference. */
json_t *rows_event_row(const struct row *row, const char *node);
/* Takes `rows`, an array of elements; `samples`: of the job so far. New reference. */
json_t *rows_event_json(json_t *rows, int64_t samples);
/* Element i as a row: columns that an event does not have are as in row_blank(). false: there is
 * none. */
bool rows_event_read(const json_t *data, size_t i, struct row *out);

#endif
