/* Each thread's connection to the store is thread-specific data, freed with the thread; see
 * connections.h.
 */
#include "http/threads/connections.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "store/store.h"

#define HANGS 1.0 /* seconds; in other cases a store that is away fails at once */

struct connections {
    char *url, *password; /* owned; the password may be NULL */
    pthread_key_t key;    /* key of each thread's struct store */
    atomic_long rest;     /* the store is not asked before this time, in milliseconds of
                             clock_now() */
};

static void close_store(void *store)
{
    store_close(store);
}

struct connections *connections_new(const char *url, const char *password, struct err *e)
{
    struct connections *c = calloc(1, sizeof(*c));
    if (!c || pthread_key_create(&c->key, close_store) != 0) {
        err_set(e, ERR_MEMORY, "cannot keep connections to the store: memory ran out");
        free(c);
        return NULL;
    }
    c->url = strdup(url);
    c->password = password ? strdup(password) : NULL;
    if (!c->url || (password && !c->password)) {
        err_set(e, ERR_MEMORY, "cannot keep connections to the store: memory ran out");
        connections_free(c);
        return NULL;
    }
    return c;
}

void connections_free(struct connections *c)
{
    if (c) {
        close_store(pthread_getspecific(c->key));
        pthread_key_delete(c->key);
        free(c->url);
        free(c->password);
        free(c);
    }
}

struct store *connections_store(struct connections *c, struct err *e)
{
    struct store *store = pthread_getspecific(c->key);
    if ((long)(clock_now() * 1e3) < atomic_load(&c->rest)) {
        err_set(e, ERR_UNAVAILABLE, "the store does not answer");
        err_hint(e, "it is asked again within a second");
        return NULL;
    }
    if (!store) {
        store = store_open(c->url, c->password, e);
        if (store && pthread_setspecific(c->key, store) != 0) {
            store_close(store);
            store = NULL;
            err_set(e, ERR_MEMORY, "cannot keep a connection to the store: memory ran out");
        }
    }
    return store;
}

void connections_away(struct connections *c, double seconds)
{
    if (seconds >= HANGS) {
        atomic_store(&c->rest, (long)((clock_now() + CONNECTIONS_REST) * 1e3));
    }
}
