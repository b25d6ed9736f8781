/* See recent.h. A few answers under one lock. */
#include "http/recent.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "http/content/text.h"

enum { KEPT = 64, KEY_BYTES = 256 };
static const double renew_seconds = 0.01, keep_seconds = 0.05;

struct recent {
    pthread_mutex_t lock;
    long generation;
    struct kept {
        char key[KEY_BYTES];
        struct text *answer; /* a reference; NULL: free */
        double made;
        long generation;
        bool renewing; /* somebody is on the way to the store */
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

static struct kept *find(struct recent *r, const char *key)
{
    for (int i = 0; i < KEPT; i++) {
        if (r->kept[i].answer && strcmp(r->kept[i].key, key) == 0) {
            return &r->kept[i];
        }
    }
    return NULL;
}

struct text *recent_get(struct recent *r, const char *key, long *generation)
{
    struct text *found = NULL;
    pthread_mutex_lock(&r->lock);
    *generation = r->generation;
    struct kept *k = find(r, key);
    double age = k ? clock_now() - k->made : 0;
    if (k && k->generation == r->generation && age < keep_seconds) {
        found = age < renew_seconds || k->renewing ? text_ref(k->answer) : NULL;
        k->renewing = k->renewing || !found;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

/* Answers that nobody gets any more; a list of jobs is large. */
static void drop_old(struct recent *r, double now)
{
    for (int i = 0; i < KEPT; i++) {
        if (r->kept[i].answer && now > r->kept[i].made + keep_seconds) {
            text_drop(r->kept[i].answer);
            r->kept[i].answer = NULL;
        }
    }
}

/* The place of this key, else a free one, else the oldest. */
static struct kept *place_for(struct recent *r, const char *key)
{
    struct kept *place = find(r, key);
    for (int i = 0; !place && i < KEPT; i++) {
        place = r->kept[i].answer ? NULL : &r->kept[i];
    }
    if (place) {
        return place;
    }
    place = &r->kept[0];
    for (int i = 1; i < KEPT; i++) {
        place = r->kept[i].made < place->made ? &r->kept[i] : place;
    }
    return place;
}

void recent_keep(struct recent *r, const char *key, long generation, struct text *answer)
{
    struct text *old = NULL;
    pthread_mutex_lock(&r->lock);
    if (generation == r->generation && strlen(key) < KEY_BYTES) {
        drop_old(r, clock_now());
        struct kept *k = place_for(r, key);
        old = k->answer;
        memcpy(k->key, key, strlen(key) + 1);
        k->answer = text_ref(answer);
        k->made = clock_now();
        k->generation = generation;
        k->renewing = false;
    }
    pthread_mutex_unlock(&r->lock);
    text_drop(old);
}

void recent_changed(struct recent *r)
{
    pthread_mutex_lock(&r->lock);
    r->generation++;
    pthread_mutex_unlock(&r->lock);
}
