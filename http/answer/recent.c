/* See recent.h. A few answers under one lock. */
#include "http/answer/recent.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "http/content/text.h"

enum { KEPT = 64, KEY_BYTES = 256 };
static const double renew_seconds = 0.01, keep_seconds = 0.05, most_seconds = 0.25;

struct recent {
    pthread_mutex_t lock;
    long generation, serial;
    struct kept {
        char key[KEY_BYTES]; /* "": this entry is free */
        struct text *answer; /* a reference; NULL: none yet */
        double made, took;   /* when it was ready, and how long it took */
        long generation;     /* the generation in which its making began */
        long making;         /* serial of the request that makes the next one; 0: none */
        long making_generation;
        struct recent_waiter *waiters;
    } kept[KEPT];
};

struct recent *recent_new(void)
{
    struct recent *r = calloc(1, sizeof(*r));
    if (r) {
        pthread_mutex_init(&r->lock, NULL);
    }
    return r;
}

void recent_free(struct recent *r)
{
    for (int i = 0; r && i < KEPT; i++) {
        text_drop(r->kept[i].answer);
    }
    if (r) {
        pthread_mutex_destroy(&r->lock);
        free(r);
    }
}

/* ---- places; the lock is held ---------------------------------------------------------------- */

static double longer(double seconds, double took)
{
    double wanted = seconds > took ? seconds : took;
    return wanted < most_seconds ? wanted : most_seconds;
}

static double renew_after(const struct kept *k)
{
    return longer(renew_seconds, 2 * k->took);
}

static double keep_for(const struct kept *k)
{
    return longer(keep_seconds, 4 * k->took);
}

/* Frees answers that are too old to be given; a list of jobs is large. */
static void drop_old(struct recent *r, double now)
{
    for (int i = 0; i < KEPT; i++) {
        struct kept *k = &r->kept[i];
        if (!k->making && k->key[0] && now > k->made + keep_for(k)) {
            text_drop(k->answer);
            memset(k, 0, sizeof(*k));
        }
    }
}

/* The entry of this key, else a free one, else the oldest. NULL: answers are being made for all
 * entries. */
static struct kept *place_for(struct recent *r, const char *key)
{
    struct kept *free_one = NULL, *oldest = NULL;
    for (int i = 0; i < KEPT; i++) {
        struct kept *k = &r->kept[i];
        if (strcmp(k->key, key) == 0) {
            return k;
        }
        free_one = k->key[0] ? free_one : k;
        oldest = !k->making && (!oldest || k->made < oldest->made) ? k : oldest;
    }
    return free_one ? free_one : oldest;
}

static struct kept *take_place(struct recent *r, const char *key)
{
    struct kept *k = strlen(key) < KEY_BYTES ? place_for(r, key) : NULL;
    if (k && strcmp(k->key, key) != 0) {
        text_drop(k->answer);
        memset(k, 0, sizeof(*k));
        memcpy(k->key, key, strlen(key) + 1);
    }
    return k;
}

static enum recent_found find(struct recent *r, struct kept *k, double now)
{
    double age = now - k->made;
    bool good = k->answer && k->generation == r->generation && age < keep_for(k);
    bool coming = k->making && k->making_generation == r->generation;
    if (good && (coming || age < renew_after(k))) {
        return RECENT_GIVEN;
    }
    return coming ? RECENT_WAITS : RECENT_MAKE;
}

/* ---- from outside ---------------------------------------------------------------------------- */

enum recent_found recent_get(struct recent *r, const char *key, struct recent_waiter *w,
                             struct recent_ticket *ticket, struct text **answer)
{
    double now = clock_now();
    *ticket = (struct recent_ticket){.place = -1, .begun = now};
    pthread_mutex_lock(&r->lock);
    struct kept *k = take_place(r, key);
    enum recent_found found = k ? find(r, k, now) : RECENT_MAKE;
    if (found == RECENT_GIVEN) {
        *answer = text_ref(k->answer);
    } else if (found == RECENT_WAITS) {
        w->next = k->waiters;
        k->waiters = w;
        w->wait(w);
    } else if (k) {
        k->making = ticket->serial = ++r->serial;
        k->making_generation = r->generation;
        ticket->place = (int)(k - r->kept);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

void recent_made(struct recent *r, const struct recent_ticket *ticket, struct text *answer)
{
    struct kept *k = ticket->place < 0 ? NULL : &r->kept[ticket->place];
    struct recent_waiter *waiters = NULL;
    double now = clock_now();
    if (!k) {
        return;
    }
    pthread_mutex_lock(&r->lock);
    if (k->making == ticket->serial) { /* else another request began later, after a change */
        waiters = k->waiters;
        k->waiters = NULL;
        k->making = 0;
        if (answer && k->making_generation == r->generation) {
            text_drop(k->answer);
            k->answer = text_ref(answer);
            k->generation = r->generation;
            k->made = now;
            k->took = now - ticket->begun;
        }
        drop_old(r, now);
    }
    pthread_mutex_unlock(&r->lock);
    while (waiters) {
        struct recent_waiter *next = waiters->next;
        waiters->wake(waiters);
        waiters = next;
    }
}

void recent_changed(struct recent *r)
{
    pthread_mutex_lock(&r->lock);
    r->generation++;
    pthread_mutex_unlock(&r->lock);
}
