/* Events: one stream for all who watch.
 *
 * The stream is capped: if the event after a reader's last one has been trimmed, the reader gets a
 * gap. A reader's position may also lie in the future, if it comes from another store (one that was
 * emptied, or at another address). No event would ever follow it, so the reader starts anew, with a
 * gap. Both are checked once per connection, not with every read.
 */
#include "job/documents/people/events.h"
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_MOST = 10000, BLOCK_MOST_MS = 60000 };

/* ---- telling --------------------------------------------------------------------------------- */

int store_event(struct store *s, const char *job, const char *type, const json_t *body,
                struct err *e)
{
    char *text = body ? store_dump(body, "an event", e) : strdup("{}");
    if (!text) {
        return store_failed(e);
    }
    const char *argv[] = {"XADD", key_text(KEY_EVENTS), "MAXLEN", "~",  STORE_EVENTS, "*",
                          "job",  job ? job : "",       "type",   type, "j",          text};
    redisReply *r = store_change(s, sizeof argv / sizeof *argv, argv, e);
    free(text);
    return store_done(r, e);
}

static struct script publish_script = {.text = LUA_PUBLISH};

int store_publish(struct store *s, const char *id, const struct store_news *news, int n,
                  struct err *e)
{
    char job[STORE_KEY], live[STORE_KEY], detail[STORE_KEY];
    const char *args[2 + 3 * STORE_NEWS];
    char *texts[STORE_NEWS] = {0};
    int rc = key_of_job(job, KEY_JOB, id, e), made = 0;
    BUG_ON(n < 0 || n > STORE_NEWS);
    if (rc < 0 || (rc = key_of_job(live, KEY_JOB_LIVE, id, e)) < 0 ||
        (rc = key_of_job(detail, KEY_JOB_DETAIL, id, e)) < 0) {
        return rc;
    }
    args[0] = id;
    args[1] = STORE_EVENTS;
    for (; made < n; made++) {
        const char *doc = news[made].doc ? news[made].doc : "", **arg = args + 2 + 3 * (size_t)made;
        if (!(texts[made] = store_dump(news[made].body, "what is new of a job", e))) {
            rc = store_failed(e);
            break;
        }
        arg[0] = !strncmp(doc, "detail:", 7) ? doc + 7 : doc;
        arg[1] = news[made].event ? news[made].event : "";
        arg[2] = texts[made];
    }
    const char *keys[] = {job, live, detail, key_text(KEY_EVENTS)};
    rc =
        rc < 0 || n == 0
            ? rc
            : store_did(id, store_script(s, &publish_script, 4, keys, 2 + 3 * n, args, NULL, e), e);
    for (int i = 0; i < made; i++) {
        free(texts[i]);
    }
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The id of the newest or the oldest event that is kept; "0-0": there is none. */
static int event_end(struct store *s, bool newest, char out[STORE_PLACE], struct err *e)
{
    const char *events = key_text(KEY_EVENTS);
    redisReply *r = newest ? store_commandf(s, e, "XREVRANGE %s + - COUNT 1", events)
                           : store_commandf(s, e, "XRANGE %s - + COUNT 1", events);
    int n = r ? reply_array(r, 0, e) : store_failed(e);
    struct stream_entry at;
    snprintf(out, STORE_PLACE, "0-0");
    if (n > 0 && (n = reply_entry(r, 0, &at, e)) == 0) {
        snprintf(out, STORE_PLACE, "%s", at.id);
    }
    freeReplyObject(r);
    return n < 0 ? n : 0;
}

int store_events_newest(struct store *s, char out[STORE_PLACE], struct err *e)
{
    return event_end(s, true, out, e);
}

static json_t *event_json(const struct stream_entry *at)
{
    const char *job = reply_field(at->fields, "job", NULL),
               *type = reply_field(at->fields, "type", NULL);
    const char *text = reply_field(at->fields, "j", NULL);
    return event_entry_json(&(struct event_entry){
        .id = at->id, .job = job ? job : "", .type = type ? type : "", .data = text ? text : "{}"});
}

/* Replaces "$" by the newest id, so that no event between two calls is missed. An id from the
 * future comes from another store, and the reader starts anew. */
static int event_place(struct store *s, char last[STORE_PLACE], bool *gap, struct err *e)
{
    bool from_now = !strcmp(last, "$");
    if (!from_now && !store_stream_valid(last)) {
        return err_set(e, ERR_INVALID, "'%.40s' is not the id of an event", last);
    }
    char newest[STORE_PLACE];
    int rc = event_end(s, true, newest, e);
    if (rc == 0 && (from_now || store_stream_compare(last, newest) > 0)) {
        *gap = !from_now;
        snprintf(last, STORE_PLACE, "%s", newest);
    }
    return rc;
}

/* Has the event after `last` been trimmed? */
static int find_gap(struct store *s, const char *last, bool *gap, struct err *e)
{
    char first[STORE_PLACE];
    int rc = strcmp(last, "0-0") ? event_end(s, false, first, e) : 0;
    *gap |= rc == 0 && strcmp(last, "0-0") && store_stream_compare(last, first) < 0;
    return rc;
}

static redisReply *read_after(struct store *s, const char *last, int count, int block_ms,
                              struct err *e)
{
    const char *events = key_text(KEY_EVENTS);
    char most[16], wait[16];
    block_ms = block_ms > BLOCK_MOST_MS ? BLOCK_MOST_MS : block_ms;
    snprintf(most, sizeof most, "%d", count);
    snprintf(wait, sizeof wait, "%d", block_ms > 0 ? block_ms : 1);
    const char *blocking[] = {"XREAD", "COUNT", most, "BLOCK", wait, "STREAMS", events, last};
    const char *plain[] = {"XREAD", "COUNT", most, "STREAMS", events, last};
    return block_ms > 0 ? store_wait(s, block_ms, 8, blocking, e) : store_wait(s, 0, 6, plain, e);
}

static json_t *read_events(struct store *s, char last[STORE_PLACE], int count, int block_ms,
                           bool *gap, struct err *e)
{
    bool missed = false, follows = block_ms > 0 && strcmp(last, "$") && store_follows(s);
    count = count < 1 ? 1 : count > READ_MOST ? READ_MOST : count;
    if (!follows && event_place(s, last, &missed, e) < 0) {
        return NULL;
    }
    redisReply *r = read_after(s, last, count, block_ms, e);
    const redisReply *list = NULL;
    int n = r ? reply_only_stream(r, &list, e) : -1, rc = n < 0 ? -1 : 0;
    /* the stream keeps more than one read returns, so a reader that got fewer has got all of them
     */
    if (n > 0 && (!follows || n == count)) {
        rc = find_gap(s, last, &missed, e);
    }
    json_t *out =
        /* an event that is no text is left out */
        rc < 0 ? NULL : reply_entries(list, n, event_json, last, e);
    freeReplyObject(r);
    if (out && gap) {
        *gap = missed;
    }
    return out;
}

json_t *store_events_read(struct store *s, char last[STORE_PLACE], int count, int block_ms,
                          bool *gap, struct err *e)
{
    char before[STORE_PLACE];
    snprintf(before, sizeof before, "%s", last);
    json_t *out = read_events(s, last, count, block_ms, gap, e);
    if (!out && e && e->code == ERR_DATA) {
        snprintf(last, STORE_PLACE, "%s", before); /* what came before it is read again */
        store_mend(s, key_text(KEY_EVENTS), e);
    }
    return out;
}
