/* Events as text; see event.h. What comes from the store is checked before it is printed: a type or
 * a job with a line break in it would begin another event.
 */
#include "http/events/event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool event_id_parse(const char *text, struct event_id *id)
{
    char end;
    return sscanf(text, "%" SCNu64 "-%" SCNu64 "%c", &id->ms, &id->seq, &end) == 2;
}

bool event_id_after(const struct event_id *a, const struct event_id *b)
{
    return a->ms != b->ms ? a->ms > b->ms : a->seq > b->seq;
}

struct event *event_new(const char *text, size_t len)
{
    struct event *ev = calloc(1, sizeof(*ev) + len + 1);
    if (ev) {
        ev->refs = 1;
        ev->len = len;
        memcpy(ev->text, text, len);
    }
    return ev;
}

struct event *event_new_gap(const char *last)
{
    char text[96];
    int n = last[0] == '$' ? snprintf(text, sizeof(text), "event: gap\ndata: {}\n\n")
                           : snprintf(text, sizeof(text), "id: %s\nevent: gap\ndata: {}\n\n", last);
    struct event *ev = event_new(text, (size_t)n);
    if (ev) {
        ev->for_all = true;
    }
    return ev;
}

void event_drop(struct event *ev)
{
    if (ev && --ev->refs == 0) {
        free(ev);
    }
}

static bool is_word(const char *text)
{
    return text[strspn(text,
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")] == 0;
}

bool event_print(struct buf *out, const struct event_entry *entry, struct event_id *id,
                 char job[STORE_ID])
{
    if (!is_word(entry->type) || !is_word(entry->job) || !event_id_parse(entry->id, id) ||
        strpbrk(entry->data, "\r\n")) {
        return false;
    }
    snprintf(job, STORE_ID, "%s", entry->job);
    buf_addf(out, "id: %s\nevent: %s\ndata: {\"job\":\"%s\",\"type\":\"%s\",\"data\":", entry->id,
             entry->type, entry->job, entry->type);
    buf_adds(out, entry->data);
    buf_adds(out, "}\n\n");
    return !out->failed;
}
