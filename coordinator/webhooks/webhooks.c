/* The thread that tells webhooks of changes; see webhooks.h. In a turn it reads the hooks from the
 * store, queues the new events, sends what is due, and notes the answers. While deliveries are
 * under way it waits for them, else for the next event. While the store is away it waits. Then it
 * goes on where it was, and repeats what it had not noted.
 */
#include "coordinator/webhooks/webhooks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "coordinator/webhooks/hooks.h"
#include "coordinator/webhooks/send.h"

enum { EVENTS_MOST = 500, WAIT_MS = 250, SENDING_MS = 50 };
static const double load_seconds = 1, place_seconds = 10;

struct webhooks {
    struct store *store;
    struct hooks hooks;
    struct webhook_sender *sender;
    char place[STORE_PLACE]; /* the last event that was read; "": not known yet */
    double loaded, noted;    /* clock_now() when the hooks were read, the place written */
    bool away;               /* the store is away, and the log has said so */
    pthread_t thread;
    atomic_bool stopping;
};

/* ---- events ---------------------------------------------------------------------------------- */

/* Finds where reading begins: after the events that were read already, and after those that are
 * older than all of these hooks. */
static int find_place(struct webhooks *w, struct err *e)
{
    char since[STORE_PLACE];
    int rc = w->place[0] ? 0 : store_webhook_place(w->store, w->place, e);
    if (rc < 0) {
        w->place[0] = '\0';
    } else if (hooks_since(&w->hooks, since) && store_stream_compare(since, w->place) > 0) {
        memcpy(w->place, since, sizeof since);
    }
    return rc;
}

static int load(struct webhooks *w, struct err *e)
{
    w->loaded = clock_now();
    return hooks_load(&w->hooks, e);
}

/* Queues the changes of a batch. It reads the hooks again first if the batch has a change, so a
 * hook that was made before an event gets it. */
static int queue_all(struct webhooks *w, const json_t *events, bool *changes, struct err *e)
{
    size_t i;
    json_t *event;
    int rc = 0;
    json_array_foreach((json_t *)events, i, event) {
        struct event_entry entry;
        if (!event_entry_read(event, &entry) || entry.kind != EVENT_JOB) {
            continue;
        }
        if (!*changes) {
            *changes = true;
            rc = load(w, e);
        }
        if (rc < 0 || (rc = hooks_event(&w->hooks, &entry, e)) < 0) {
            break;
        }
    }
    return rc;
}

/* The place moves on only when everything before it is queued. */
static int read_events(struct webhooks *w, int wait_ms, struct err *e)
{
    char last[STORE_PLACE];
    bool gap = false, changes = false;
    int rc = find_place(w, e);
    if (rc < 0) {
        return rc;
    }
    memcpy(last, w->place, sizeof last);
    json_t *events = store_events_read(w->store, last, EVENTS_MOST, wait_ms, &gap, e);
    rc = events ? queue_all(w, events, &changes, e) : -(int)e->code;
    json_decref(events);
    if (rc < 0) {
        return rc;
    }
    if (gap) {
        log_warn("webhooks", "events were lost before webhooks could be told of them", "place=%s",
                 w->place);
    }
    bool moved = strcmp(last, w->place) != 0;
    memcpy(w->place, last, sizeof last);
    if (moved && (changes || clock_now() > w->noted + place_seconds)) {
        w->noted = clock_now();
        rc = store_webhook_place_set(w->store, w->place, e);
    }
    return rc;
}

/* ---- sending --------------------------------------------------------------------------------- */

static int note(struct webhooks *w, const struct sent *sent, struct err *e)
{
    struct hooks_answer answer = {sent->status, sent->why[0] ? sent->why : NULL, sent->later};
    return hooks_answered(&w->hooks, sent->ctx, &answer, clock_wall_ms(), e);
}

static int begin(struct webhooks *w, struct hook *hook, struct err *e)
{
    struct err why = {0};
    struct send_wish wish = {.address = hook->about.address,
                             .secret = hook->about.secret,
                             .id = hook->sending->id,
                             .body = hook->sending->body,
                             .seconds = clock_wall_ms() / 1000,
                             .ctx = hook};
    if (send_begin(w->sender, &wish, &why) == 0) {
        return 0;
    }
    struct hooks_answer answer = {.message = why.message};
    return hooks_answered(&w->hooks, hook, &answer, clock_wall_ms(), e);
}

static int send_all(struct webhooks *w, struct err *e)
{
    struct sent sent;
    int rc = 0;
    for (struct hook *hook; rc >= 0 && (hook = hooks_due(&w->hooks, clock_wall_ms()));) {
        rc = begin(w, hook, e);
    }
    if (send_under_way(w->sender)) {
        send_wait(w->sender, SENDING_MS);
    }
    while (send_ended(w->sender, &sent)) {
        int noted = note(w, &sent, e);
        if (rc >= 0) { /* the first error stays */
            rc = noted;
        }
    }
    return rc;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int turn(struct webhooks *w, struct err *e)
{
    int rc = clock_now() > w->loaded + load_seconds ? load(w, e) : 0;
    if (rc < 0) {
        return rc;
    }
    if (!w->hooks.first) {
        clock_sleep(WAIT_MS / 1000.0);
        return 0;
    }
    bool busy = send_under_way(w->sender);
    int wait = busy ? 0 : hooks_next(&w->hooks, clock_wall_ms(), WAIT_MS);
    rc = read_events(w, wait, e);
    int sent = send_all(w, e); /* sends what is queued even if no event can be read */
    return rc < 0 ? rc : sent;
}

static void *run(void *arg)
{
    struct webhooks *w = arg;
    while (!atomic_load(&w->stopping)) {
        struct err e = {0};
        int rc = turn(w, &e);
        if (rc < 0 && !w->away) {
            log_warn("webhooks", "webhooks are told nothing until the store is back", "why=\"%s\"",
                     e.message);
        }
        w->away = rc < 0;
        if (rc < 0) {
            clock_sleep(WAIT_MS / 1000.0);
        }
    }
    return NULL;
}

static void release(struct webhooks *w)
{
    send_close(w->sender);
    hooks_release(&w->hooks);
    store_close(w->store);
    free(w);
}

struct webhooks *webhooks_start(const struct webhooks_config *c, struct err *e)
{
    struct webhooks *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(e, ERR_MEMORY, "cannot serve webhooks: memory ran out");
        return NULL;
    }
    w->store = store_open(c->store_url, c->password, e);
    w->hooks.store = w->store;
    w->sender = w->store ? send_open(c->local, e) : NULL;
    if (w->sender) {
        store_fence(w->store, c->fence);
        if (pthread_create(&w->thread, NULL, run, w) == 0) {
            return w;
        }
        err_set(e, ERR_MEMORY, "cannot start the thread that tells webhooks");
    }
    release(w);
    return NULL;
}

void webhooks_tell(struct webhooks *w)
{
    if (w) {
        atomic_store(&w->stopping, true);
    }
}

void webhooks_stop(struct webhooks *w)
{
    if (w) {
        webhooks_tell(w);
        pthread_join(w->thread, NULL);
        release(w);
    }
}
