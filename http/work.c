/* The threads that run handlers; see work.h. A newcomer would get the end of a request wrong: once
 * its connection is resumed, the event thread may answer and free it at once, so nothing of it is
 * touched after that.
 */
#include "http/work.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>

#include "http/request.h"

struct work {
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t wake;
    struct request *first, **last;
    bool stopping;
    pthread_t threads[HTTP_WORKERS];
    int n_threads;
};

static struct request *take(struct work *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->stopping) {
        pthread_cond_wait(&w->wake, &w->lock);
    }
    struct request *q = w->first;
    if (q) {
        w->first = q->next;
        if (!w->first) {
            w->last = &w->first;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return q;
}

static void *work_main(void *ctx)
{
    struct work *w = ctx;
    for (struct request *q = take(w); q; q = take(w)) {
        struct MHD_Connection *connection = q->connection;
        dispatch_run(q);
        MHD_resume_connection(connection);
    }
    return NULL;
}

struct work *work_start(struct err *e)
{
    struct work *w = calloc(1, sizeof(*w));
    if (!w) {
        err_set(e, ERR_MEMORY, "cannot start the threads of the HTTP server: memory ran out");
        return NULL;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->last = &w->first;
    while (w->n_threads < HTTP_WORKERS &&
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

bool work_add(struct work *w, struct request *q)
{
    pthread_mutex_lock(&w->lock);
    bool taken = !w->stopping;
    if (taken) {
        MHD_suspend_connection(q->connection);
        q->next = NULL;
        *w->last = q;
        w->last = &q->next;
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
