/* A store that accepts connections and does not answer. Requests with sessions that only the store
 * knows wait on threads that may wait. Requests that need no store are answered meanwhile. Requests
 * that ask the store soon afterwards are refused without waiting again
 * (http/threads/connections.c).
 */
#include <poll.h>
#include <signal.h>

#include "tests/unit/http/fixture.h"

enum { ASKING = 24, OTHERS = 20 };

/* Sends n requests, each on its own connection, with cookies of unknown sessions. */
static void send_many(struct site *s, int n, const char *path, bool cookie, int *fds)
{
    for (int i = 0; i < n; i++) {
        char request[512], line[128] = "";
        if (cookie) {
            snprintf(line, sizeof line, "Cookie: evenstep_%d=%048d\r\n", s->port, i);
        }
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n", path,
                 s->port, line);
        fds[i] = dial(s);
        assert_true(say(fds[i], request));
    }
}

static void hear_all(const int *fds, int n, const char *status)
{
    for (int i = 0; i < n; i++) {
        char out[4096] = "";
        assert_int_equal(hear(fds[i], status, out, sizeof out, 60), 1);
        close(fds[i]);
    }
}

static int answered(const int *fds, int n)
{
    int ready = 0;
    for (int i = 0; i < n; i++) {
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        ready += poll(&p, 1, 0) > 0;
    }
    return ready;
}

/* How often Redis was asked for a secret so far, including commands sent while it stood still,
 * which it reads at the latest together with the PING. */
static int secrets_asked(struct site *s)
{
    redisContext *c = redisConnectUnix(s->store_url + strlen("unix:"));
    assert_true(c && !c->err);
    freeReplyObject(redisCommand(c, "PING"));
    redisReply *r = redisCommand(c, "INFO commandstats");
    assert_true(r && r->type == REDIS_REPLY_STRING);
    const char *calls = strstr(r->str, "cmdstat_get:calls=");
    int n = calls ? (int)strtol(calls + strlen("cmdstat_get:calls="), NULL, 10) : 0;
    freeReplyObject(r);
    redisFree(c);
    return n;
}

/* Each of these waits at most 2 s, on one of six threads. */
static void a_store_that_hangs_stalls_nobody(void **state)
{
    struct site *s = *state;
    int asking[ASKING], others[OTHERS], before = secrets_asked(s);
    kill(s->pid, SIGSTOP);
    send_many(s, ASKING, "/api/v1/session", true, asking);
    send_many(s, OTHERS, "/healthz", false, others);
    hear_all(others, OTHERS, "HTTP/1.1 200");
    assert_int_equal(answered(asking, ASKING), 0); /* they came first, and they wait */
    hear_all(asking, ASKING, "HTTP/1.1 503");
    kill(s->pid, SIGCONT);
    assert_in_range(secrets_asked(s) - before, 1, ASKING / 2);
    long back = 0;
    for (double until = clock_now() + 60; back != 200 && clock_now() < until;) {
        struct answer a = get(s, "/api/v1/jobs");
        back = a.status;
        answer_release(&a);
    }
    assert_int_equal(back, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_hangs_stalls_nobody),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
