/* The threads that run handlers; see work.h. Once a request's connection is resumed, the event
 * thread may answer and free the request at once. So the request is not touched after that.
 */
#include "http/threads/work.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MOST = 64 };

struct work {
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t wake;
    struct work_item *first, **last;
    bool stopping;
    pthread_t threads[THREADS_MOST];
    int n_threads;
};

static struct work_item *take(struct work *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->stopping) {
        pthread_cond_wait(&w->wake, &w->lock);
    }
    struct work_item *item = w->first;
    if (item) {
        w->first = item->next;
        if (!w->first) {
            w->last = &w->first;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return item;
}

static void *work_main(void *ctx)
{
    struct work *w = ctx;
    for (struct work_item *item = take(w); item; item = take(w)) {
        struct MHD_Connection *connection = item->connection;
        item->run(item);
        MHD_resume_connection(connection);
    }
    return NULL;
}

struct work *work_start(int threads, struct err *e)
{
    struct work *w = calloc(1, sizeof(*w));
    if (!w) {
        err_set(e, ERR_MEMORY, "cannot start the threads of the HTTP server: memory ran out");
        return NULL;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->last = &w->first;
    BUG_ON(threads < 1 || threads > THREADS_MOST);
    while (w->n_threads < threads &&
           pthread_create(&w->threads[w->n_threads], NULL, work_main, w) == 0) {
        w->n_threads++;
    }
    if (w->n_threads == 0) {
        err_set(e, ERR_MEMORY,
                "cannot start the threads of the HTTP server: no thread could be made");
        work_free(w);
        return NULL;
    }
    return w;
}

bool work_add(struct work *w, struct work_item *item)
{
    pthread_mutex_lock(&w->lock);
    bool taken = !w->stopping;
    if (taken) {
        MHD_suspend_connection(item->connection);
        item->next = NULL;
        *w->last = item;
        w->last = &item->next;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    return taken;
}

void work_stop(struct work *w)
{
    if (!w) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_threads; i++) {
        pthread_join(w->threads[i], NULL);
    }
    w->n_threads = 0;
}

void work_free(struct work *w)
{
    if (w) {
        pthread_cond_destroy(&w->wake);
        pthread_mutex_destroy(&w->lock);
        free(w);
    }
}
