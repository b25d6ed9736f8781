/* Deadlines of connections; see guard.h. One thread wakes once a second. The list's lock is held
 * while a socket is shut down, and guard_leave() takes it before libmicrohttpd closes the socket.
 * So the descriptor cannot belong to another connection yet.
 */
#include "http/threads/guard.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "http/server.h"

static const struct http_deadlines usual = {.header = 10, .body = 60, .idle = 60};

struct guarded {
    struct guarded *next, **back;
    int fd;
    double deadline; /* clock_now(), or 0: none */
    bool hung_up;    /* at the last look: nothing more comes from there */
};

struct guard {
    struct http_deadlines limits;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t wake;
    pthread_t thread;
    bool stopping;
    struct guarded *first;
};

/* libmicrohttpd 0.9.75 does not notice a client that has closed its end before what it had sent was
 * read, and keeps the request, with its upload, until its own time-out. One that waits for an
 * answer may have closed its end, too: that has no deadline. */
static bool has_hung_up(struct guarded *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    int unread = 0;
    bool before = c->hung_up;
    c->hung_up = c->deadline > 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLRDHUP) &&
                 ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0;
    return before && c->hung_up;
}

static void shut_late(struct guard *g, double now)
{
    for (struct guarded *c = g->first; c; c = c->next) {
        bool late = c->deadline > 0 && now > c->deadline;
        if (late || has_hung_up(c)) {
            log_debug("http", "a request took too long to arrive, closing its connection",
                      "hung_up=%d", !late);
            shutdown(c->fd, SHUT_RDWR);
            c->deadline = 0;
        }
    }
}

static void *guard_main(void *ctx)
{
    struct guard *g = ctx;
    pthread_mutex_lock(&g->lock);
    while (!g->stopping) {
        struct timespec until = clock_timespec(clock_now() + 1);
        pthread_cond_timedwait(&g->wake, &g->lock, &until);
        shut_late(g, clock_now());
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

struct guard *guard_start(const struct http_deadlines *wanted, struct err *e)
{
    struct guard *g = calloc(1, sizeof(*g));
    if (!g) {
        err_set(e, ERR_MEMORY, "cannot start the guard of connections: memory ran out");
        return NULL;
    }
    g->limits =
        (struct http_deadlines){.header = wanted->header > 0 ? wanted->header : usual.header,
                                .body = wanted->body > 0 ? wanted->body : usual.body,
                                .idle = wanted->idle > 0 ? wanted->idle : usual.idle};
    clock_cond_init(&g->wake);
    pthread_mutex_init(&g->lock, NULL);
    if (pthread_create(&g->thread, NULL, guard_main, g) != 0) {
        err_set(e, ERR_MEMORY, "cannot start the guard of connections: no thread could be made");
        pthread_cond_destroy(&g->wake);
        pthread_mutex_destroy(&g->lock);
        free(g);
        return NULL;
    }
    return g;
}

void guard_stop(struct guard *g)
{
    if (!g) {
        return;
    }
    pthread_mutex_lock(&g->lock);
    g->stopping = true;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->thread, NULL);
    pthread_cond_destroy(&g->wake);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

struct guarded *guard_enter(struct guard *g, int fd)
{
    struct guarded *c = calloc(1, sizeof(*c));
    if (!c) {
        return NULL;
    }
    c->fd = fd;
    c->deadline = clock_now() + g->limits.header;
    pthread_mutex_lock(&g->lock);
    c->next = g->first;
    c->back = &g->first;
    if (c->next) {
        c->next->back = &c->next;
    }
    g->first = c;
    pthread_mutex_unlock(&g->lock);
    return c;
}

void guard_leave(struct guard *g, struct guarded *c)
{
    if (!c) {
        return;
    }
    pthread_mutex_lock(&g->lock);
    *c->back = c->next;
    if (c->next) {
        c->next->back = c->back;
    }
    pthread_mutex_unlock(&g->lock);
    free(c);
}

static void set_deadline(struct guard *g, struct guarded *c, double deadline)
{
    if (c) {
        pthread_mutex_lock(&g->lock);
        c->deadline = deadline;
        pthread_mutex_unlock(&g->lock);
    }
}

void guard_header_done(struct guard *g, struct guarded *c)
{
    set_deadline(g, c, clock_now() + g->limits.body);
}

void guard_upload(struct guard *g, struct guarded *c, double seconds)
{
    set_deadline(g, c, clock_now() + seconds);
}

void guard_body_done(struct guard *g, struct guarded *c)
{
    set_deadline(g, c, 0);
}

void guard_answered(struct guard *g, struct guarded *c)
{
    set_deadline(g, c, clock_now() + g->limits.idle);
}
