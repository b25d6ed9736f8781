/* Webhooks and what waits for them; see hooks.h. */
#include "coordinator/webhooks/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json/jsonx.h"
#include "common/log.h"

enum { FIRST_DELAY_MS = 5000, DELAY_FACTOR = 4, MOST_DELAY_MS = 3600 * 1000 };
static const int64_t give_up_ms = (int64_t)86400 * 1000;

/* ---- memory ---------------------------------------------------------------------------------- */

static void delivery_free(struct delivery *d)
{
    if (d) {
        free(d->body);
        free(d);
    }
}

static void hook_free(struct hook *hook)
{
    while (hook->waiting) {
        struct delivery *d = hook->waiting;
        hook->waiting = d->next;
        delivery_free(d);
    }
    free(hook);
}

void hooks_release(struct hooks *h)
{
    while (h->first) {
        struct hook *hook = h->first;
        h->first = hook->next;
        hook_free(hook);
    }
}

/* Appends a delivery after those that wait already. */
static void append(struct hook *hook, struct delivery *d)
{
    struct delivery **at = &hook->waiting;
    while (*at) {
        at = &(*at)->next;
    }
    *at = d;
}

static void take_out(struct hook *hook, struct delivery *d)
{
    struct delivery **at = &hook->waiting;
    while (*at != d) {
        at = &(*at)->next;
    }
    *at = d->next;
    delivery_free(d);
}

/* ---- documents ------------------------------------------------------------------------------- */

static json_t *delivery_json(const struct delivery *d)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:i}", "id", d->id, "job", d->job, "type",
                     d->type, "body", d->body, "created", (json_int_t)d->created, "due",
                     (json_int_t)d->due, "tries", d->tries);
}

/* The delivery in a document; NULL: memory ran out, or it is malformed. */
static struct delivery *delivery_of(const json_t *j)
{
    struct delivery *d = calloc(1, sizeof *d);
    const char *body = jsonx_string_at(j, "body");
    if (!d || !(d->body = strdup(body)) || !*body) {
        delivery_free(d);
        return NULL;
    }
    snprintf(d->id, sizeof d->id, "%s", jsonx_string_at(j, "id"));
    snprintf(d->job, sizeof d->job, "%s", jsonx_string_at(j, "job"));
    snprintf(d->type, sizeof d->type, "%s", jsonx_string_at(j, "type"));
    d->created = json_integer_value(json_object_get(j, "created"));
    d->due = json_integer_value(json_object_get(j, "due"));
    d->tries = (int)json_integer_value(json_object_get(j, "tries"));
    return d;
}

/* ---- what the store has ---------------------------------------------------------------------- */

static struct hook *find(const struct hooks *h, const char *id)
{
    struct hook *hook = h->first;
    while (hook && strcmp(hook->about.id, id) != 0) {
        hook = hook->next;
    }
    return hook;
}

static int by_time(const void *a, const void *b)
{
    const struct delivery *x = *(struct delivery *const *)a, *y = *(struct delivery *const *)b;
    return (x->created > y->created) - (x->created < y->created);
}

static int add_waiting(struct hook *hook, const json_t *waiting, struct err *e)
{
    size_t i, n = 0;
    json_t *one;
    struct delivery **sorted = calloc(json_array_size(waiting) + 1, sizeof *sorted);
    if (!sorted) {
        return err_set(e, ERR_MEMORY, "cannot read the pending webhook deliveries: memory ran out");
    }
    json_array_foreach((json_t *)waiting, i, one) {
        struct delivery *d = delivery_of(one);
        if (d) {
            sorted[n++] = d;
        }
    }
    qsort(sorted, n, sizeof *sorted, by_time);
    for (i = 0; i < n; i++) {
        append(hook, sorted[i]);
    }
    free(sorted);
    return 0;
}

static int add(struct hooks *h, const struct webhook *about, struct err *e)
{
    struct hook *hook = calloc(1, sizeof *hook);
    if (!hook) {
        return err_set(e, ERR_MEMORY, "cannot read webhooks: memory ran out");
    }
    hook->about = *about;
    json_t *waiting = store_webhook_waiting(h->store, about->id, e);
    int rc = waiting ? add_waiting(hook, waiting, e) : -(int)e->code;
    json_decref(waiting);
    if (rc < 0) {
        hook_free(hook);
        return rc;
    }
    hook->there = true;
    hook->next = h->first;
    h->first = hook;
    return 0;
}

static void drop_deleted(struct hooks *h)
{
    struct hook **at = &h->first;
    while (*at) {
        struct hook *hook = *at;
        if (!hook->there && !hook->sending) {
            *at = hook->next;
            hook_free(hook);
        } else {
            at = &hook->next;
        }
    }
}

int hooks_load(struct hooks *h, struct err *e)
{
    size_t i;
    json_t *one, *all = store_webhooks(h->store, e);
    int rc = all ? 0 : -(int)e->code;
    for (struct hook *hook = h->first; rc == 0 && hook; hook = hook->next) {
        hook->there = false;
    }
    json_array_foreach(all, i, one) {
        struct webhook about;
        struct err why = {0};
        if (webhook_read(&about, one, &why) < 0) {
            log_warn("webhooks", "a webhook in the store is passed over", "why=\"%s\"",
                     why.message);
            continue;
        }
        struct hook *known = find(h, about.id);
        if (known) {
            known->there = true;
        } else if (rc == 0) {
            rc = add(h, &about, e);
        }
    }
    json_decref(all);
    if (rc == 0) {
        drop_deleted(h);
    }
    return rc;
}

/* ---- events ---------------------------------------------------------------------------------- */

bool hooks_since(const struct hooks *h, char out[STORE_PLACE])
{
    const char *first = NULL;
    for (const struct hook *hook = h->first; hook; hook = hook->next) {
        first = !first || store_stream_compare(hook->about.since, first) < 0 ? hook->about.since
                                                                             : first;
    }
    snprintf(out, STORE_PLACE, "%s", first ? first : "0-0");
    return first != NULL;
}

/* A change of a job's state that hooks are told. */
struct change {
    const char *job, *event; /* event: its id */
    enum job_state state;
    char *owner; /* or NULL: nobody, or the job is gone; owned */
    char *body;  /* owned */
    int64_t ms;
};

/* Does the hook ask for this kind of change? The job's owner is checked elsewhere. */
static bool wants_state(const struct hook *hook, const struct change *c)
{
    return hook->there && store_stream_compare(c->event, hook->about.since) > 0 &&
           webhook_wants(&hook->about, c->state);
}

static bool wants(const struct hook *hook, const struct change *c)
{
    const struct webhook *w = &hook->about;
    return (!w->own || (c->owner && strcmp(c->owner, w->owner) == 0)) && wants_state(hook, c);
}

/* {"type": "job.failed", "timestamp", "data": what the event says, and the owner}. NULL: memory ran
 * out. */
static char *body_of(const json_t *data, const struct change *c)
{
    char type[HOOKS_TYPE], time[32];
    snprintf(type, sizeof type, "job.%s", jobstate_name(c->state));
    json_t *told = job_event_told(data, c->owner),
           *all = json_pack("{s:s, s:s, s:O}", "type", type, "timestamp", clock_format(time, c->ms),
                            "data", told);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(told);
    json_decref(all);
    return text;
}

/* Queues a delivery, in the store first: what is in memory is in the store too. */
static int queue(struct hooks *h, struct hook *hook, const struct change *c, struct err *e)
{
    struct delivery *d = calloc(1, sizeof *d);
    if (!d || !(d->body = strdup(c->body))) {
        delivery_free(d);
        return err_set(e, ERR_MEMORY, "cannot queue a delivery: memory ran out");
    }
    snprintf(d->id, sizeof d->id, "msg_%s_%s", hook->about.id, c->event);
    snprintf(d->job, sizeof d->job, "%s", c->job);
    snprintf(d->type, sizeof d->type, "job.%s", jobstate_name(c->state));
    d->created = d->due = c->ms;
    json_t *document = delivery_json(d);
    int rc = store_webhook_queue(h->store, hook->about.id, d->id, document, e);
    json_decref(document);
    for (const struct delivery *known = hook->waiting; known && rc == WEBHOOK_QUEUED;
         known = known->next) {
        rc = strcmp(known->id, d->id) == 0 ? WEBHOOK_GONE : rc; /* it is the same event, read
                                                                   twice */
    }
    if (rc == WEBHOOK_QUEUED) {
        append(hook, d);
        return 0;
    }
    if (rc == WEBHOOK_FULL) {
        log_warn("webhooks", "too many deliveries wait for a webhook, so one is dropped",
                 "webhook=%s job=%s type=%s", hook->about.id, d->job, d->type);
    }
    delivery_free(d);
    return rc < 0 ? rc : 0;
}

/* Finds the owner and writes the body. */
static int describe(struct hooks *h, struct change *c, const json_t *data, struct err *e)
{
    err_clear(e);
    c->owner = store_job_field(h->store, c->job, "owner", e);
    if (!c->owner && e->code && e->code != ERR_NOT_FOUND) {
        return -(int)e->code;
    }
    err_clear(e);
    c->body = body_of(data, c);
    return c->body ? 0 : err_set(e, ERR_MEMORY, "cannot tell webhooks: memory ran out");
}

static int tell_all(struct hooks *h, struct change *c, const json_t *data, struct err *e)
{
    const struct hook *first = h->first;
    while (first && !wants_state(first, c)) {
        first = first->next;
    }
    int rc = first ? describe(h, c, data, e) : 0;
    for (struct hook *hook = h->first; first && rc == 0 && hook; hook = hook->next) {
        rc = wants(hook, c) ? queue(h, hook, c, e) : 0;
    }
    free(c->owner);
    free(c->body);
    return rc;
}

int hooks_event(struct hooks *h, const struct event_entry *entry, struct err *e)
{
    struct job_event event;
    json_t *data = event_entry_data(entry);
    struct change c = {.job = entry->job, .event = entry->id, .ms = strtoll(entry->id, NULL, 10)};
    int rc = 0;
    if (*c.job && job_event_read(data, &event) && job_event_changes(&event)) {
        c.state = event.state;
        rc = tell_all(h, &c, data, e);
    }
    json_decref(data);
    return rc;
}

/* ---- sending --------------------------------------------------------------------------------- */

static struct delivery *first_due(const struct hook *hook, int64_t now)
{
    struct delivery *found = NULL;
    for (struct delivery *d = hook->waiting; d && !found; d = d->next) {
        found = d->due <= now ? d : NULL;
    }
    return found;
}

struct hook *hooks_due(struct hooks *h, int64_t now)
{
    for (struct hook *hook = h->first; hook; hook = hook->next) {
        struct delivery *d = hook->there && !hook->sending ? first_due(hook, now) : NULL;
        if (d) {
            hook->sending = d;
            return hook;
        }
    }
    return NULL;
}

int hooks_next(const struct hooks *h, int64_t now, int most)
{
    int64_t left = most;
    for (const struct hook *hook = h->first; hook; hook = hook->next) {
        for (const struct delivery *d = hook->sending ? NULL : hook->waiting; d; d = d->next) {
            int64_t ms = d->due > now ? d->due - now : 0;
            left = ms < left ? ms : left;
        }
    }
    return (int)left;
}

static int64_t delay_after(int tries, int64_t later)
{
    int64_t delay = FIRST_DELAY_MS;
    for (int i = 1; i < tries && delay < MOST_DELAY_MS; i++) {
        delay *= DELAY_FACTOR;
    }
    if (later > delay / 1000) {
        delay = later < MOST_DELAY_MS / 1000 ? later * 1000 : MOST_DELAY_MS;
    }
    return delay < MOST_DELAY_MS ? delay : MOST_DELAY_MS;
}

static json_t *try_json(const struct delivery *d, const struct hooks_answer *a, const char *outcome,
                        int64_t now)
{
    char at[32], next[32];
    bool waits = strcmp(outcome, "waits") == 0;
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:s, s:o}", "id", d->id, "type", d->type,
                     "job", d->job, "time", clock_format(at, now), "try", d->tries, "status",
                     a->status ? json_integer(a->status) : json_null(), "message",
                     a->message ? json_string(a->message) : json_null(), "outcome", outcome, "next",
                     waits ? json_string(clock_format(next, d->due)) : json_null());
}

int hooks_answered(struct hooks *h, struct hook *hook, const struct hooks_answer *a, int64_t now,
                   struct err *e)
{
    struct delivery *d = hook->sending;
    bool delivered = !a->message, late = now - d->created > give_up_ms;
    const char *outcome = delivered ? "delivered" : late ? "given_up" : "waits";
    bool done = delivered || late;
    d->tries++;
    d->due = now + (done ? 0 : delay_after(d->tries, a->later));
    json_t *tried = try_json(d, a, outcome, now), *left = done ? NULL : delivery_json(d);
    int rc = store_webhook_tried(h->store, hook->about.id, d->id, left, tried, e);
    json_decref(tried);
    json_decref(left);
    hook->sending = NULL;
    if (!delivered) {
        log_write(late ? LOG_WARN : LOG_INFO, "webhooks",
                  late ? "a delivery is given up" : "a delivery failed, it is tried again",
                  "webhook=%s delivery=%s try=%d why=\"%s\"", hook->about.id, d->id, d->tries,
                  a->message);
    }
    if (rc >= 0 && done) {
        take_out(hook, d);
    } else if (rc < 0) { /* the answer could not be noted, so the delivery is sent again under the
                            same id */
        d->due = now + FIRST_DELAY_MS;
    }
    return rc;
}
