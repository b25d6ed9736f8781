/* Harmful requests: large and endless bodies and headers, slow requests, strange methods and paths.
 * After each of them the server still answers others.
 */
#include "tests/unit/http/fixture.h"

enum { TEXT = 1 << 16 };

static void expect_alive(struct site *s)
{
    struct answer a = get(s, "/healthz");
    expect_status(&a, 200);
    answer_release(&a);
}

static char *filled(size_t n)
{
    char *text = malloc(n + 1);
    memset(text, ' ', n);
    text[n] = '\0';
    return text;
}

static void a_body_that_is_too_large_is_413(void **state)
{
    struct site *s = *state;
    static const size_t sizes[] = {(4 << 20) + 1, 100u << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *body = filled(sizes[i]);
        struct ask big = {.method = "POST",
                          .path = "/api/v1/jobs",
                          .token = s->token,
                          .body = body,
                          .body_len = sizes[i]};
        struct answer a = ask(s, big);
        expect_problem(&a, 413, NULL);
        answer_release(&a);
        big.headers[0] = "Expect:"; /* sent without asking */
        a = ask(s, big);
        expect_problem(&a, 413, NULL);
        answer_release(&a);
        big.headers[1] = "Transfer-Encoding: chunked"; /* without saying how large */
        a = ask(s, big);
        expect_problem(&a, 413, NULL);
        answer_release(&a);
        big.token = NULL; /* who is not known is told that first */
        big.headers[1] = NULL;
        a = ask(s, big);
        expect_problem(&a, 401, NULL);
        answer_release(&a);
        free(body);
    }
    expect_alive(s);
}

static void a_body_as_large_as_allowed_is_read(void **state)
{
    struct site *s = *state;
    size_t n = 4 << 20;
    char *body = filled(n);
    struct answer a = ask(s, (struct ask){.method = "POST",
                                          .path = "/api/v1/jobs",
                                          .token = s->token,
                                          .body = body,
                                          .body_len = n});
    expect_problem(&a, 400, "");
    answer_release(&a);
    free(body);
}

static void a_deeply_nested_document_is_400(void **state)
{
    struct site *s = *state;
    size_t n = 1 << 20;
    char *body = filled(n);
    memset(body, '[', n);
    struct answer a = post(s, "/api/v1/jobs", body);
    expect_problem(&a, 400, "");
    answer_release(&a);
    free(body);
}

static void sixty_four_levels_of_a_document_are_read_and_no_more(void **state)
{
    struct site *s = *state;
    for (int levels = 64; levels <= 65; levels++) {
        char body[200] = "";
        for (int i = 0; i < 2 * levels; i++) {
            body[i] = i < levels ? '[' : ']';
        }
        struct answer a = post(s, "/api/v1/jobs", body);
        if (levels > 64) {
            expect_problem(&a, 400, "");
            assert_non_null(strstr(text_at(a.json, "/detail"), "deeper than 64 levels"));
        } else {
            expect_status(&a, 422);
        }
        answer_release(&a);
    }
}

/* Sends `begin`, then `more` without end, until the server answers. It must answer with this status
 * line and close the connection. It may do so while the client still sends; the client can read the
 * earlier answer all the same. */
static void expect_ended(struct site *s, const char *begin, const char *more, const char *status)
{
    char out[TEXT] = "";
    int fd = dial(s), heard = -1;
    double until = clock_now() + 60;
    assert_true(say(fd, begin));
    while (heard < 0 && clock_now() < until) {
        heard = hear(fd, status, out, sizeof out, say(fd, more) ? 0.001 : 1);
    }
    if (heard != 1 || strncmp(out, status, strlen(status)) != 0) {
        fail_msg("expected '%s', heard (%d) '%s'", status, heard, out);
    }
    assert_int_equal(hear(fd, NULL, out, sizeof out, 60), 0);
    close(fd);
    expect_alive(s);
}

static void a_header_without_end_is_ended(void **state)
{
    expect_ended(*state, "GET /healthz HTTP/1.1\r\nHost: x\r\n",
                 "X-More: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
                 "HTTP/1.1 431 ");
}

static void a_request_line_without_end_is_ended(void **state)
{
    expect_ended(*state, "GET /", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                 "HTTP/1.1 414 ");
}

/* One byte now and then, for ever. The connection is closed all the same, because the deadline
 * holds for the whole header. */
static void a_client_that_sends_byte_by_byte_is_ended(void **state)
{
    struct site *s = *state;
    char out[TEXT] = "";
    int fd = dial(s), ended = -1;
    double until = clock_now() + 60;
    assert_true(say(fd, "GET /healthz HTTP/1.1\r\nX-Slow: "));
    while (ended != 0 && clock_now() < until) {
        say(fd, "y");
        ended = hear(fd, NULL, out, sizeof out, 0.2);
    }
    assert_int_equal(ended, 0);
    close(fd);
    expect_alive(s);
}

static void connections_that_say_nothing_leave_room_for_others(void **state)
{
    struct site *s = *state;
    enum { SILENT = 300 };
    int fds[SILENT];
    for (int i = 0; i < SILENT; i++) {
        fds[i] = dial(s);
    }
    expect_alive(s);
    for (int i = 0; i < SILENT; i++) {
        close(fds[i]);
    }
}

static void requests_on_one_connection_are_answered_one_after_the_other(void **state)
{
    struct site *s = *state;
    char text[256], out[TEXT] = "";
    snprintf(text, sizeof text, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", s->port);
    int fd = dial(s);
    say(fd, text);
    say(fd, text);
    assert_int_equal(hear(fd, "{\"status\":\"ok\"}", out, sizeof out, 60), 1);
    char *second = strstr(out, "{\"status\":\"ok\"}") + 1;
    assert_int_equal(hear(fd, "{\"status\":\"ok\"}HTTP/1.1 200", out, sizeof out, 60), 1);
    (void)second;
    close(fd);
}

/* Memory of this process, which includes the server, in bytes. */
static long resident(void)
{
    long pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(f, "%ld %ld", &all, &pages), 2);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Starts `n` requests with a body of 4 MiB each, and sends all but the last byte. */
static void begin_bodies(struct site *s, int n, const char *path, const char *token, int *fds)
{
    size_t most = (4 << 20) - 1;
    char head[512], *body = filled(most);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n%s%s%s"
             "Content-Length: %zu\r\n\r\n",
             path, s->port, token ? "Authorization: Bearer " : "", token ? token : "",
             token ? "\r\n" : "", most + 1);
    for (int i = 0; i < n; i++) {
        fds[i] = dial(s);
        assert_true(say(fds[i], head));
        size_t sent = 0;
        while (sent < most) {
            ssize_t got = send(fds[i], body + sent, most - sent, MSG_NOSIGNAL);
            assert_true(got > 0);
            sent += (size_t)got;
        }
    }
    free(body);
}

static void bodies_of_strangers_take_no_memory(void **state)
{
    struct site *s = *state;
    enum { MANY = 250 };
    int fds[MANY];
    begin_bodies(s, 1, "/api/v1/session", NULL, fds);
    close(fds[0]);
    long before = resident();
    begin_bodies(s, MANY, "/api/v1/session", NULL, fds);
    expect_alive(s);
    long more = resident() - before;
    for (int i = 0; i < MANY; i++) {
        char out[TEXT] = "";
        assert_true(say(fds[i], " "));
        assert_int_equal(hear(fds[i], "HTTP/1.1 413 ", out, sizeof out, 60), 1);
        close(fds[i]);
    }
    if (more > MANY * (30L << 10)) { /* a thousand: below 30 MB */
        fail_msg("%d unfinished requests took %ld KiB", MANY, more >> 10);
    }
}

static void all_bodies_together_are_bounded(void **state)
{
    struct site *s = *state;
    enum { MANY = 40 };
    int fds[MANY], refused = 0;
    long before = resident();
    begin_bodies(s, MANY, "/api/v1/jobs", s->token, fds);
    expect_alive(s);
    long more = resident() - before;
    for (int i = 0; i < MANY; i++) {
        char out[TEXT] = "";
        assert_true(say(fds[i], " "));
        assert_int_equal(hear(fds[i], "HTTP/1.1 ", out, sizeof out, 60), 1);
        assert_int_equal(hear(fds[i], "\r\n", out, sizeof out, 60), 1);
        refused += strstr(out, "HTTP/1.1 503 ") != NULL;
        close(fds[i]);
    }
    assert_true(refused > MANY / 2 && refused < MANY);
    if (more > 100 << 20) {
        fail_msg("%d unfinished requests took %ld KiB", MANY, more >> 10);
    }
    char id[STORE_ID];
    submit(s, SPEC("afterwards"), id);
}

static void what_is_no_http_is_ended(void **state)
{
    struct site *s = *state;
    static const char *const noise[] = {
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n",
        "GET\r\n\r\n",
        "\r\n\r\n\r\n\r\nPOST\r\n\r\n",
        "GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
        "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n"};
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        char out[TEXT] = "";
        int fd = dial(s);
        say(fd, noise[i]);
        shutdown(fd, SHUT_WR);
        assert_int_equal(hear(fd, NULL, out, sizeof out, 60), 0);
        assert_null(strstr(out, "200 OK"));
        close(fd);
    }
    expect_alive(s);
}

static void an_unknown_path_is_404_and_an_unknown_method_405_with_allow(void **state)
{
    struct site *s = *state;
    struct {
        const char *method, *path;
        long status;
        const char *allow;
    } const cases[] = {
        {"GET", "/api/v1/nothing", 404, NULL},
        {"GET", "/api/v1/", 404, NULL},
        {"GET", "/api/v1/jobs/", 404, NULL},
        {"GET", "/api/v2/jobs", 404, NULL},
        {"POST", "/api/v1/nothing", 404, NULL},
        {"GET", "/nothing.js", 404, NULL},
        {"PUT", "/api/v1/jobs", 405, "GET, HEAD, POST, OPTIONS"},
        {"DELETE", "/api/v1/jobs", 405, "GET, HEAD, POST, OPTIONS"},
        {"TRACE", "/api/v1/jobs", 405, "GET, HEAD, POST, OPTIONS"},
        {"POST", "/api/v1/jobs/0123456789abcdef", 405, "GET, HEAD, PATCH, DELETE, OPTIONS"},
        {"GET", "/api/v1/jobs/0123456789abcdef/cancel", 405, "POST, OPTIONS"},
        {"POST", "/app.js", 405, "GET, HEAD, OPTIONS"},
        {"BREW", "/healthz", 405, "GET, HEAD, OPTIONS"},
    };
    char allow[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a = ask(
            s, (struct ask){.method = cases[i].method, .path = cases[i].path, .token = s->token});
        expect_problem(&a, cases[i].status, NULL);
        assert_int_equal(header_of(&a, "Allow", allow), cases[i].allow != NULL);
        assert_string_equal(allow, cases[i].allow ? cases[i].allow : "");
        answer_release(&a);
    }
}

static void head_answers_as_get_without_the_body(void **state)
{
    struct site *s = *state;
    static const char *const paths[] = {"/api/v1/jobs", "/healthz", "/app.js", "/metrics",
                                        "/api/v1/events"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct answer a =
            ask(s, (struct ask){.method = "HEAD", .path = paths[i], .token = s->token});
        expect_status(&a, 200);
        assert_int_equal(a.len, 0);
        answer_release(&a);
    }
}

static void every_answer_has_the_security_headers(void **state)
{
    struct site *s = *state;
    static const char *const paths[] = {
        "/", "/app.js", "/nothing", "/api/v1/jobs", "/api/v1/jobs/x", "/healthz", "/metrics"};
    char value[256];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct answer a = get(s, paths[i]);
        assert_true(header_of(&a, "Content-Security-Policy", value));
        assert_non_null(strstr(value, "default-src 'none'"));
        assert_null(strstr(value, "unsafe"));
        assert_true(header_of(&a, "X-Content-Type-Options", value));
        assert_true(header_of(&a, "X-Frame-Options", value));
        assert_true(header_of(&a, "Referrer-Policy", value));
        assert_false(header_of(&a, "Access-Control-Allow-Origin", value));
        answer_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_that_is_too_large_is_413),
        cmocka_unit_test(a_body_as_large_as_allowed_is_read),
        cmocka_unit_test(a_deeply_nested_document_is_400),
        cmocka_unit_test(sixty_four_levels_of_a_document_are_read_and_no_more),
        cmocka_unit_test(a_header_without_end_is_ended),
        cmocka_unit_test(a_request_line_without_end_is_ended),
        cmocka_unit_test(a_client_that_sends_byte_by_byte_is_ended),
        cmocka_unit_test(connections_that_say_nothing_leave_room_for_others),
        cmocka_unit_test(requests_on_one_connection_are_answered_one_after_the_other),
        cmocka_unit_test(bodies_of_strangers_take_no_memory),
        cmocka_unit_test(all_bodies_together_are_bounded),
        cmocka_unit_test(what_is_no_http_is_ended),
        cmocka_unit_test(an_unknown_path_is_404_and_an_unknown_method_405_with_allow),
        cmocka_unit_test(head_answers_as_get_without_the_body),
        cmocka_unit_test(every_answer_has_the_security_headers),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
