/* The one session of a process: its errors, its permitted callers, and the effect of a fork. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/session.h"

struct session es_session = {.fd = -1, .begun = -1, .ended = -1};

static char sentence[1024];

int es_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return -1;
}

PUBLIC const char *es_error(void)
{
    return sentence;
}

PUBLIC int es_abi(void)
{
    return ES_ABI;
}

PUBLIC int es_alone(void)
{
    const char *path = getenv("EVENSTEP_SOCKET");

    if (es_session.joined || es_session.forked) {
        return es_session.fd < 0;
    }
    return !path || !*path;
}

int es_usable(const char *call)
{
    const struct session *s = &es_session;

    if (s->forked) {
        return es_fail(
            "%s: the parent of this process joined the run: a forked child cannot take "
            "part in it",
            call);
    }
    if (!s->joined) {
        return es_fail("%s: the program has not joined (es_join)", call);
    }
    if (s->left) {
        return es_fail("%s: the program has left the run", call);
    }
    return 0;
}

/* Runs in a forked child. The rank detects the program's end by the end of its socket, which a data
 * loader's process must not keep open. */
static void forked(void)
{
    struct session *s = &es_session;

    if (s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
        s->forked = true;
    }
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forked);
}

void session_part(struct session *s)
{
    s->left = true;
    free(s->state);
    s->state = NULL;
    if (s->fd >= 0) {
        shutdown(s->fd, SHUT_WR);
    }
}
