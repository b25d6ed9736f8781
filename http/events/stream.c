/* The event stream; see stream.h. Locks: everything shared is under stream.lock; libmicrohttpd's
 * own locks are taken inside it (suspend, resume), never the other way round. From stored to live
 * events: the client's cursor is set to the ring's head first. Then the missed events are read up
 * to now. Events of the ring whose id is not beyond the client's last are skipped. So none is lost
 * and none comes twice.
 */
#include "http/events/stream.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "http/access/auth.h"
#include "http/events/event.h"
#include "http/events/tally.h"
#include "http/answer/recent.h"
#include "http/answer/reply.h"
#include "store/store.h"

enum { READ_COUNT = 500, READ_BLOCK_MS = 500, MISSED_BYTES = 4 << 20, CHUNK_BYTES = 8192 };

struct client {
    struct client *next, **back;
    struct stream *stream;
    struct MHD_Connection *connection;
    char job[STORE_ID]; /* filter, or "" */
    struct event_id seen;
    uint64_t cursor;       /* number of the next event of the ring */
    struct event *sending; /* or NULL */
    size_t sent;           /* bytes of it */
    bool suspended, beat;
    bool ended; /* its token is gone, so its answer ends */
    struct identity who;
    double next_beat;
};

struct stream {
    pthread_mutex_t lock; /* guards everything below, all clients and reference counts */
    pthread_cond_t wake;
    pthread_t thread;
    struct store *store;   /* the reader thread's */
    struct recent *recent; /* borrowed, as the two below; all have their own locks */
    struct auth *auth;
    struct tally *tally;
    double judged; /* when all clients' tokens were looked up last */
    bool finishing;
    struct event *ring[STREAM_RING];
    uint64_t head; /* events ever put in; ring[i % STREAM_RING] */
    char last[32]; /* newest id read, or "$" */
    struct client *clients;
    int n_clients;
};

/* ---- clients; the lock is held --------------------------------------------------------------- */

static void client_resume(struct client *c)
{
    if (c->suspended) {
        c->suspended = false;
        MHD_resume_connection(c->connection);
    }
}

static bool client_wants(const struct client *c, const struct event *ev)
{
    return ev->for_all || ((c->job[0] == '\0' || strcmp(c->job, ev->job) == 0) &&
                           event_id_after(&ev->id, &c->seen));
}

/* The next thing to send, or NULL. */
static struct event *client_next(struct client *c)
{
    struct stream *s = c->stream;
    if (s->head - c->cursor > STREAM_RING) {
        c->cursor = s->head;
        return event_new_gap(s->last);
    }
    while (c->cursor < s->head) {
        struct event *ev = s->ring[c->cursor++ % STREAM_RING];
        if (client_wants(c, ev)) {
            ev->refs++;
            return ev;
        }
    }
    if (c->beat) {
        c->beat = false;
        return event_new(": \n\n", 4);
    }
    return NULL;
}

/* libmicrohttpd asks for bytes to send. Gives what there is, or suspends the connection. */
static ssize_t client_read(void *ctx, uint64_t position, char *out, size_t most)
{
    struct client *c = ctx;
    struct stream *s = c->stream;
    size_t n = 0;
    (void)position;
    pthread_mutex_lock(&s->lock);
    while (n < most && !c->ended && (c->sending || (c->sending = client_next(c)))) {
        size_t part = c->sending->len - c->sent < most - n ? c->sending->len - c->sent : most - n;
        memcpy(out + n, c->sending->text + c->sent, part);
        n += part;
        c->sent += part;
        if (c->sent == c->sending->len) {
            event_drop(c->sending);
            c->sending = NULL;
            c->sent = 0;
        }
    }
    bool finishing = s->finishing || c->ended;
    if (n == 0 && !finishing) {
        c->suspended = true;
        MHD_suspend_connection(c->connection);
    } else if (n > 0) {
        c->next_beat = clock_now() + STREAM_HEARTBEAT_SECONDS;
    }
    pthread_mutex_unlock(&s->lock);
    return n == 0 && finishing ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)n;
}

static void client_free(void *ctx)
{
    struct client *c = ctx;
    struct stream *s = c->stream;
    pthread_mutex_lock(&s->lock);
    *c->back = c->next;
    if (c->next) {
        c->next->back = c->back;
    }
    s->n_clients--;
    event_drop(c->sending);
    pthread_mutex_unlock(&s->lock);
    free(c);
}

/* ---- the reader thread ----------------------------------------------------------------------- */

/* Puts an event into the ring and wakes the clients that want it. Takes ev. */
static void publish(struct stream *s, struct event *ev)
{
    struct event **slot = &s->ring[s->head % STREAM_RING];
    event_drop(*slot);
    *slot = ev;
    s->head++;
    for (struct client *c = s->clients; c; c = c->next) {
        if (c->suspended && client_wants(c, ev)) {
            client_resume(c);
        }
    }
}

static void publish_all(struct stream *s, const json_t *events, bool gap)
{
    struct buf text;
    size_t i;
    json_t *item;
    struct event *ev;
    if (gap && (ev = event_new_gap(s->last))) {
        publish(s, ev);
    }
    buf_init(&text, 16 << 20);
    json_array_foreach(events, i, item) {
        struct event_id id;
        struct event_entry entry;
        char job[STORE_ID];
        if (!event_entry_read(item, &entry)) {
            continue;
        }
        if (entry.kind == EVENT_JOB || entry.kind == EVENT_DELETED) {
            recent_changed(s->recent);
        }
        buf_reset(&text);
        if (event_print(&text, &entry, &id, job) && (ev = event_new(text.data, text.len))) {
            ev->id = id;
            memcpy(ev->job, job, sizeof(job));
            publish(s, ev);
        }
    }
    buf_release(&text);
}

/* Counts events. Called without the lock, since it parses them. */
static void count_all(struct stream *s, const json_t *events)
{
    size_t i;
    json_t *item;
    json_array_foreach(events, i, item) {
        struct event_id id;
        struct event_entry entry;
        if (event_entry_read(item, &entry) && event_id_parse(entry.id, &id)) {
            tally_event(s->tally, &entry, id.ms);
        }
    }
}

static void beat_all(struct stream *s, double now)
{
    for (struct client *c = s->clients; c; c = c->next) {
        if (c->suspended && now >= c->next_beat) {
            c->beat = true;
            client_resume(c);
        }
    }
}

/* Ends the answers to clients whose tokens are gone. */
static void end_revoked(struct stream *s, double now)
{
    if (now < s->judged + STREAM_REVOKED_SECONDS / 2.0) {
        return;
    }
    s->judged = now;
    for (struct client *c = s->clients; c; c = c->next) {
        if (!c->ended && !auth_still(s->auth, &c->who)) {
            c->ended = true;
            client_resume(c);
        }
    }
}

static void pause_reader(struct stream *s, long ms)
{
    struct timespec until = clock_timespec(clock_now() + (double)ms / 1000);
    pthread_cond_timedwait(&s->wake, &s->lock, &until);
}

static void *reader_main(void *ctx)
{
    struct stream *s = ctx;
    char last[32];
    bool away = false;
    snprintf(last, sizeof(last), "%s", s->last);
    pthread_mutex_lock(&s->lock);
    while (!s->finishing) {
        struct err e;
        bool gap = false, unplaced = last[0] == '$';
        pthread_mutex_unlock(&s->lock);
        err_clear(&e);
        json_t *events = store_events_read(s->store, last, READ_COUNT, READ_BLOCK_MS, &gap, &e);
        count_all(s, events);
        pthread_mutex_lock(&s->lock);
        if (events) {
            gap |= unplaced; /* the store was away at the start, so clients have missed what came
                                before this call */
            snprintf(s->last, sizeof(s->last), "%s", last);
            publish_all(s, events, gap);
            json_decref(events);
        } else if (!away) {
            log_warn("http", "cannot read events, browsers see none until it is back",
                     "reason=\"%s\"", e.message);
        }
        if (events && away) {
            log_info("http", "events can be read again", "%s", "");
        }
        away = !events;
        beat_all(s, clock_now());
        end_revoked(s, clock_now());
        if (away && !s->finishing) {
            pause_reader(s, READ_BLOCK_MS);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- from outside ---------------------------------------------------------------------------- */

struct stream *stream_start(const char *store_url, const char *store_password,
                            struct recent *recent, struct auth *auth, struct tally *tally,
                            struct err *e)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot start the event stream: memory ran out");
        return NULL;
    }
    s->recent = recent;
    s->auth = auth;
    s->tally = tally;
    s->store = store_open(store_url, store_password, e);
    if (!s->store) {
        free(s);
        return NULL;
    }
    snprintf(s->last, sizeof(s->last), "$");
    struct err away;
    json_decref(store_events_read(s->store, s->last, 1, 0, NULL,
                                  &away)); /* begins with events from now on; later if the store is
                                              away */
    clock_cond_init(&s->wake);
    pthread_mutex_init(&s->lock, NULL);
    if (pthread_create(&s->thread, NULL, reader_main, s) != 0) {
        err_set(e, ERR_MEMORY, "cannot start the event stream: no thread could be made");
        s->finishing = true;
        stream_free(s);
        return NULL;
    }
    return s;
}

void stream_finish(struct stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->finishing = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&s->lock);
    for (struct client *c = s->clients; c; c = c->next) {
        client_resume(c);
    }
    pthread_mutex_unlock(&s->lock);
}

void stream_free(struct stream *s)
{
    if (!s) {
        return;
    }
    for (int i = 0; i < STREAM_RING; i++) {
        event_drop(s->ring[i]);
    }
    store_close(s->store);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Adds an event, unless it is of another job than the one that the client listens to. */
static void add_missed(struct client *c, const json_t *event, struct buf *out)
{
    struct event_id id;
    struct event_entry entry;
    char job[STORE_ID];
    size_t before = out->len;
    if (!event_entry_read(event, &entry) || !event_print(out, &entry, &id, job)) {
        return;
    }
    c->seen = id;
    if (c->job[0] && strcmp(c->job, job) != 0) {
        out->len = before;
    }
}

/* Appends the events that the client missed since its last id, and moves c->seen on. false: they
 * are gone, so the client gets a gap. */
static bool read_missed(struct client *c, struct store *store, const char *last_id, struct buf *out)
{
    char last[32];
    bool gap = false;
    size_t n = READ_COUNT, i;
    json_t *item;
    if (!store || strlen(last_id) >= sizeof(last) || !event_id_parse(last_id, &c->seen)) {
        return false;
    }
    snprintf(last, sizeof(last), "%s", last_id);
    while (n == READ_COUNT) {
        struct err e;
        json_t *events = store_events_read(store, last, READ_COUNT, 0, &gap, &e);
        if (!events || gap || out->len > MISSED_BYTES) {
            json_decref(events);
            return false;
        }
        n = json_array_size(events);
        json_array_foreach(events, i, item) {
            add_missed(c, item, out);
        }
        json_decref(events);
    }
    return !out->failed;
}

static int client_add(struct stream *s, struct client *c, char greeting[96], struct err *e)
{
    pthread_mutex_lock(&s->lock);
    if (s->n_clients >= STREAM_CLIENTS || s->finishing) {
        pthread_mutex_unlock(&s->lock);
        return err_set(e, ERR_UNAVAILABLE, "cannot open another event stream: there are %d",
                       STREAM_CLIENTS);
    }
    c->cursor = s->head;
    c->next = s->clients;
    c->back = &s->clients;
    if (c->next) {
        c->next->back = &c->next;
    }
    s->clients = c;
    s->n_clients++;
    c->next_beat = clock_now() + STREAM_HEARTBEAT_SECONDS;
    if (s->last[0] == '$') {
        snprintf(greeting, 96, "retry: 1000\nevent: hello\ndata: {}\n\n");
    } else {
        snprintf(greeting, 96, "retry: 1000\nid: %s\nevent: hello\ndata: {}\n\n", s->last);
    }
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static void add_headers(struct reply *out)
{
    reply_header(out, "Content-Type", "text/event-stream");
    reply_header(out, "Cache-Control", "no-store");
    reply_header(out, "X-Accel-Buffering", "no");
}

int stream_head(struct reply *out, struct err *e)
{
    int rc = reply_set_endless(out, e);
    if (rc == 0) {
        add_headers(out);
    }
    return rc;
}

int stream_open(struct stream *s, struct store *store, struct MHD_Connection *connection,
                const struct identity *who, const char *last_id, const char *job, struct reply *out,
                struct err *e)
{
    char greeting[96];
    struct buf first;
    struct client *c = calloc(1, sizeof(*c));
    if (!c) {
        return err_set(e, ERR_MEMORY, "cannot open an event stream: memory ran out");
    }
    c->stream = s;
    c->connection = connection;
    c->who = *who;
    snprintf(c->job, sizeof(c->job), "%s", job ? job : "");
    if (client_add(s, c, greeting, e) < 0) {
        free(c);
        return -(int)e->code;
    }
    buf_init(&first, (size_t)2 * MISSED_BYTES);
    if (!last_id) {
        buf_adds(&first, greeting);
    } else {
        buf_adds(&first, "retry: 1000\n: resumed\n\n");
        if (!read_missed(c, store, last_id, &first)) {
            memset(&c->seen, 0, sizeof(c->seen));
            buf_reset(&first);
            buf_adds(&first, "retry: 1000\nevent: gap\ndata: {}\n\n");
        }
    }
    c->sending = first.data ? event_new(first.data, first.len) : NULL;
    buf_release(&first);
    out->status = 200;
    out->response = c->sending ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CHUNK_BYTES,
                                                                   client_read, c, client_free)
                               : NULL;
    if (!out->response) {
        client_free(c);
        return err_set(e, ERR_MEMORY, "cannot open an event stream: memory ran out");
    }
    add_headers(out);
    return 0;
}

int stream_clients(struct stream *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->n_clients;
    pthread_mutex_unlock(&s->lock);
    return n;
}

int64_t stream_events(struct stream *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t n = (int64_t)s->head;
    pthread_mutex_unlock(&s->lock);
    return n;
}
