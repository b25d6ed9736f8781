/* Clients that take too long: a body that never ends, an answer that is not read. The server's
 * deadlines are short here; whether it keeps them does not depend on their length.
 */
#include "tests/unit/http/fixture.h"

#include <errno.h>

enum { TEXT = 1 << 16, LARGE = 64 << 20 };

static int hurried_open(void **state)
{
    int rc = site_open(state);
    struct site *s = *state;
    if (rc == 0) {
        http_stop(s->http);
        s->deadlines = (struct http_deadlines){.body = 1, .unread = 1};
        rc = site_start(s, "127.0.0.1:0", NULL);
    }
    return rc;
}

static void expect_alive(struct site *s)
{
    struct answer a = get(s, "/healthz");
    expect_status(&a, 200);
    answer_release(&a);
}

/* Bytes keep coming, so silence does not end it. */
static void a_body_that_is_never_complete_is_ended(void **state)
{
    struct site *s = *state;
    char head[512], out[TEXT] = "";
    int fd = dial(s), ended = -1;
    double until = clock_now() + 60;
    snprintf(head, sizeof head,
             "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{",
             s->port, s->token);
    assert_true(say(fd, head));
    while (ended != 0 && clock_now() < until) {
        say(fd, " ");
        ended = hear(fd, NULL, out, sizeof out, 0.1);
    }
    assert_int_equal(ended, 0);
    assert_string_equal(out, "");
    close(fd);
    expect_alive(s);
}

/* Does the server, which is in this process, have a socket whose other end is this one? */
static bool is_served(int fd)
{
    struct sockaddr_in own, peer;
    socklen_t n = sizeof own;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &n), 0);
    for (int i = 0; i < 1024; i++) {
        n = sizeof peer;
        if (i != fd && getpeername(i, (struct sockaddr *)&peer, &n) == 0 &&
            peer.sin_family == AF_INET && peer.sin_port == own.sin_port) {
            return true;
        }
    }
    return false;
}

static void until_served(int fd, bool wanted)
{
    double until = clock_now() + 60;
    while (is_served(fd) != wanted && clock_now() < until) {
        clock_sleep(0.01);
    }
    assert_int_equal(is_served(fd), wanted);
}

static void asks(struct site *s, int fd, const char *path)
{
    char text[512];
    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n", path,
             s->port, s->token);
    assert_true(say(fd, text));
}

static void a_client_that_does_not_read_its_answer_is_ended(void **state)
{
    struct site *s = *state;
    char path[200], out[TEXT] = "";
    snprintf(path, sizeof path, "%s/large.js", s->static_dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), LARGE), 0);
    fclose(f);
    int fd = dial(s);
    asks(s, fd, "/large.js");
    assert_int_equal(hear(fd, "HTTP/1.1 200", out, sizeof out, 60), 1);
    until_served(fd, false);
    close(fd);
    expect_alive(s);
}

/* A stream of events is silent for longer, and is not such a client. */
static void a_stream_that_has_nothing_to_say_stays(void **state)
{
    struct site *s = *state;
    char out[TEXT] = "", id[STORE_ID];
    int fd = dial(s), other = dial(s);
    asks(s, fd, "/api/v1/events");
    assert_int_equal(hear(fd, "\r\n\r\n", out, sizeof out, 60), 1);
    assert_true(say(other, "POST /api/v1/jobs HTTP/1.1\r\n"));
    until_served(other, false); /* longer than the deadlines that there are */
    close(other);
    submit(s, SPEC("after the silence"), id);
    assert_int_equal(hear(fd, id, out, sizeof out, 60), 1);
    close(fd);
}

/* All of the client's bytes, and its end, arrive before they are read. The server's deadlines are
 * the usual ones, which are longer than this test waits. */
static void a_client_that_has_gone_in_the_middle_of_its_body_is_ended(void **state)
{
    enum { CLIENTS = 16 };
    struct site *s = *state;
    static char text[TEXT];
    int fds[CLIENTS];
    int n = snprintf(text, sizeof text,
                     "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer "
                     "%s\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n",
                     s->port, s->token);
    memset(text + n, ' ', sizeof text - (size_t)n - 1);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = dial(s);
        assert_true(say(fds[i], text));
        shutdown(fds[i], SHUT_WR);
    }
    const struct timeval most = {.tv_sec = 30}; /* bodies have 60 s */
    for (int i = 0; i < CLIENTS; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
        ssize_t got = recv(fds[i], text, 1, 0); /* nothing is answered: it is closed, or reset */
        assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
        close(fds[i]);
    }
    expect_alive(s);
}

static void one_that_sends_nothing_more_gets_its_answer(void **state)
{
    struct site *s = *state;
    char out[TEXT] = "";
    int fd = dial(s);
    asks(s, fd, "/healthz");
    shutdown(fd, SHUT_WR);
    hear(fd, "200 OK", out, sizeof out, 30);
    assert_non_null(strstr(out, "200 OK"));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_that_is_never_complete_is_ended),
        cmocka_unit_test(a_client_that_does_not_read_its_answer_is_ended),
        cmocka_unit_test(a_stream_that_has_nothing_to_say_stays),
    };
    const struct CMUnitTest usual[] = {
        cmocka_unit_test(a_client_that_has_gone_in_the_middle_of_its_body_is_ended),
        cmocka_unit_test(one_that_sends_nothing_more_gets_its_answer),
    };
    return cmocka_run_group_tests(tests, hurried_open, site_close) +
           cmocka_run_group_tests(usual, site_open, site_close);
}
