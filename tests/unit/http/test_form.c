/* The form of requests: framing of bodies, targets and Host, lengths, media types, ids. A
 * well-behaved client would send little of this, so it goes over plain sockets.
 */
#include <zlib.h>

#include "http/content/accept.h"
#include "tests/unit/http/fixture.h"

enum { TEXT = 1 << 17 };

/* Sends bytes in which HOST stands for our name and \1 for a NUL, then nothing more. out[TEXT] gets
 * what arrives until the server closes the connection. */
static void talk(struct site *s, const char *text, char *out)
{
    char own[64], *copy = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&copy, &n);
    snprintf(own, sizeof own, "127.0.0.1:%d", s->port);
    for (const char *at = text; *at;) {
        bool host = strncmp(at, "HOST", 4) == 0;
        if (host) {
            fputs(own, f);
        } else {
            fputc(*at == '\1' ? '\0' : *at, f);
        }
        at += host ? 4 : 1;
    }
    fclose(f);
    int fd = dial(s);
    assert_int_equal(send(fd, copy, n, MSG_NOSIGNAL), n);
    shutdown(fd, SHUT_WR);
    out[0] = '\0';
    int ended = hear(fd, NULL, out, TEXT, 60);
    if (ended != 0) {
        fail_msg("the connection was not ended after '%s': '%s'", copy, out);
    }
    close(fd);
    free(copy);
}

static int answers_in(const char *text)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, "HTTP/1.1 ")); at++) {
        n++;
    }
    return n;
}

/* Expects one answer of this status, as problem+json and with an id. */
static void expect_one(const char *out, int status, const char *sent)
{
    char line[32];
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(out, line, strlen(line)) != 0 || answers_in(out) != 1) {
        fail_msg("expected one %d to '%s', heard '%s'", status, sent, out);
    }
    assert_non_null(strcasestr(out, "\r\nContent-Type: application/problem+json"));
    assert_non_null(strcasestr(out, "\r\nX-Request-Id: "));
    assert_non_null(strcasestr(out, "\r\nContent-Security-Policy: "));
}

#define POST_HEAD "POST /api/v1/jobs HTTP/1.1\r\nHost: HOST\r\n"
#define CLOSE "Connection: close\r\n"
#define SMUGGLED "GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"

static void a_body_whose_end_is_uncertain_is_refused_and_nothing_after_it_answered(void **state)
{
    static const struct {
        int status;
        const char *text;
    } cases[] = {
        {400, POST_HEAD "Content-Length: 0\r\nContent-Length: 38\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Content-Length: 38\r\nContent-Length: 0\r\n\r\n" SMUGGLED},
        {400,
         POST_HEAD "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED},
        {400,
         POST_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Content-Length : 38\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" SMUGGLED},
        {400, "POST /api/v1/jobs HTTP/1.1\r\n X: y\r\nHost: HOST\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "X-\"Quoted\": 1\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "X-Bell: \a\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Content-Length: 3\r\n 8\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Content-Length:\r\n\t38\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "X-Folded: a\r\n  b\r\n\r\n" SMUGGLED},
        {501, POST_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" SMUGGLED},
        {501, POST_HEAD "Transfer-Encoding: identity\r\n\r\n" SMUGGLED},
        {501, POST_HEAD
         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED},
    };
    char *out = malloc(TEXT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talk(*state, cases[i].text, out);
        expect_one(out, cases[i].status, cases[i].text);
        assert_non_null(strcasestr(out, "\r\nConnection: close"));
    }
    talk(*state, POST_HEAD CLOSE "Transfer-Encoding: CHUNKED\r\n\r\n2\r\n{}\r\n0\r\n\r\n", out);
    expect_one(out, 401, "a body in chunks");
    free(out);
}

/* libmicrohttpd refuses these before it asks us (docs/decisions/0025). The answer is a problem with
 * the usual headers too, and bytes that follow are not taken for a request. */
static void what_the_library_cannot_read_ends_the_connection(void **state)
{
    static const struct {
        int status;
        const char *text;
    } cases[] = {
        {505, "GET /healthz HTTP/2.0\r\nHost: HOST\r\n\r\n" SMUGGLED},
        {400, "GET /healthz\r\nHost: HOST\r\n\r\n" SMUGGLED},
        {400, "GET /healthz HTTP/1.1\r\nHost: HOST\r\nno colon\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Content-Length: +38\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Content-Length: 38, 38\r\n\r\n" SMUGGLED},
        {413, POST_HEAD "Content-Length: 99999999999999999999999\r\n\r\n" SMUGGLED},
        {400, POST_HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n" SMUGGLED},
    };
    char *out = malloc(TEXT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talk(*state, cases[i].text, out);
        expect_one(out, cases[i].status, cases[i].text);
        assert_non_null(strcasestr(out, "\r\nConnection: close"));
        assert_non_null(strstr(out, "\r\n\r\n{\"type\":\"urn:evenstep:problem:"));
        assert_null(strstr(out, "\"status\":\"ok\""));
    }
    free(out);
}

static void a_request_without_host_is_400(void **state)
{
    static const char *const cases[] = {
        "GET /healthz HTTP/1.1\r\n" CLOSE "\r\n", "GET /healthz HTTP/1.0\r\n" CLOSE "\r\n",
        "GET /healthz HTTP/1.1\r\n" CLOSE "Host: \r\n\r\n",
        "GET /healthz HTTP/1.1\r\n" CLOSE "Host: HOST\r\nHost: HOST\r\n\r\n"};
    char *out = malloc(TEXT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talk(*state, cases[i], out);
        expect_one(out, 400, cases[i]);
    }
    free(out);
}

static void an_absolute_target_names_the_host(void **state)
{
    char *out = malloc(TEXT);
    talk(*state, "GET http://HOST/healthz HTTP/1.1\r\n" CLOSE "Host: evil.example\r\n\r\n", out);
    assert_non_null(strstr(out, "{\"status\":\"ok\"}"));
    talk(*state, "GET HTTP://HOST/healthz?x=1 HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n", out);
    expect_one(out, 422, "a query in an absolute target");
    talk(*state, "GET http://evil.example/healthz HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n", out);
    expect_one(out, 403, "another host");
    talk(*state, "GET http://HOST@evil.example/healthz HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
         out);
    expect_one(out, 403, "a user's name");
    talk(*state, "GET http://HOST HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n", out);
    assert_non_null(strstr(out, "<title>Evenstep"));
    free(out);
}

static void a_long_target_is_414_and_a_long_header_431(void **state)
{
    char *out = malloc(TEXT), *text = malloc(TEXT), *fill = malloc(TEXT);
    memset(fill, 'a', TEXT);
    snprintf(text, TEXT, "GET /%.*s HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n", 9 << 10, fill);
    talk(*state, text, out);
    expect_one(out, 414, "9 KiB of target");
    assert_non_null(strstr(out, "has more than 8192 bytes"));
    snprintf(text, TEXT, "GET /healthz HTTP/1.1\r\n" CLOSE "Host: HOST\r\nX-More: %.*s\r\n\r\n",
             17 << 10, fill);
    talk(*state, text, out);
    expect_one(out, 431, "17 KiB of header");
    snprintf(text, TEXT, "GET /healthz HTTP/1.1\r\n" CLOSE "Host: HOST\r\nX-More: %.*s\r\n\r\n",
             15 << 10, fill);
    talk(*state, text, out);
    assert_non_null(strstr(out, "{\"status\":\"ok\"}"));
    /* beyond the connection's memory, where libmicrohttpd refuses by itself */
    snprintf(text, TEXT, "GET /%.*s HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n", 100 << 10, fill);
    talk(*state, text, out);
    expect_one(out, 414, "100 KiB of target");
    snprintf(text, TEXT, "GET /healthz HTTP/1.1\r\n" CLOSE "Host: HOST\r\nX-More: %.*s\r\n\r\n",
             100 << 10, fill);
    talk(*state, text, out);
    expect_one(out, 431, "100 KiB of header");
    free(out);
    free(text);
    free(fill);
}

/* libmicrohttpd keeps a list of cookies, which takes far more memory than their text. */
static void cookies_beyond_memory_are_431_whatever_follows(void **state)
{
    static const char *const follows[] = {"", "Content-Length: x\r\n", "Transfer-Encoding: x\r\n",
                                          "Host: HOST\r\n"};
    char *out = malloc(TEXT), *text = malloc(TEXT), fill[12001] = "";
    for (size_t i = 0; i + 4 < sizeof fill; i += 4) {
        memcpy(fill + i, "a=b;", 4);
    }
    for (size_t i = 0; i < 10 * sizeof follows / sizeof *follows; i++) {
        snprintf(text, TEXT,
                 "POST /api/v1/jobs HTTP/1.1\r\n" CLOSE "Host: HOST\r\nCookie: %s\r\n%s\r\n", fill,
                 follows[i % 4]);
        talk(*state, text, out);
        expect_one(out, 431, "3000 cookies");
    }
    free(out);
    free(text);
}

static void a_malformed_target_is_400(void **state)
{
    static const char *const cases[] = {
        "GET /healthz\1x HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET /api/v1/jobs?q=a\1&limit=1 HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET /healthz\1 HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET /healthz  HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET /api/v1/jobs?q=a b HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET /healthz\x7f HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET /health%zz HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET /api/v1/jobs?q=50% HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
        "GET http://HOST/healthz%2 HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n",
    };
    char *out = malloc(TEXT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talk(*state, cases[i], out);
        expect_one(out, 400, cases[i]);
        assert_non_null(strstr(out, "a space, or a control character"));
    }
    free(out);
}

/* The answer does not wait for the body, which the client may hold back until it is told to send
 * it. */
static void an_unknown_expectation_is_417_and_100_continue_is_met(void **state)
{
    struct site *s = *state;
    char *out = malloc(TEXT);
    talk(s, POST_HEAD CLOSE "Expect: 200-ok\r\nContent-Length: 38\r\n\r\n", out);
    expect_one(out, 417, "another expectation");
    assert_non_null(strstr(out, "'200-ok'"));
    talk(s, POST_HEAD CLOSE "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n{}", out);
    expect_one(out, 401, "100-continue of nobody known");
    assert_int_equal(status_with(s, "POST", "/api/v1/jobs", "Expect: 100-continue", SPEC("asked")),
                     201);
    free(out);
}

/* Not even the end of a chunked body, which would begin the next answer. */
static void a_head_of_the_events_has_no_byte_of_a_body(void **state)
{
    struct site *s = *state;
    char ask[400], *out = malloc(TEXT);
    snprintf(ask, sizeof ask,
             "HEAD /api/v1/events HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer %s\r\n\r\n",
             s->token);
    talk(s, ask, out);
    assert_non_null(strstr(out, "HTTP/1.1 200 "));
    assert_non_null(strcasestr(out, "\r\nContent-Type: text/event-stream"));
    assert_string_equal(strstr(out, "\r\n\r\n"), "\r\n\r\n");
    free(out);
}

static void options_says_what_a_path_takes(void **state)
{
    static const struct {
        const char *path, *allow;
    } cases[] = {{"/api/v1/jobs", "GET, HEAD, POST, OPTIONS"},
                 {"/api/v1/jobs/0123456789abcdef", "GET, HEAD, PATCH, DELETE, OPTIONS"},
                 {"/app.js", "GET, HEAD, OPTIONS"}};
    char allow[256], *out = malloc(TEXT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a = ask(*state, (struct ask){.method = "OPTIONS", .path = cases[i].path});
        expect_status(&a, 204);
        assert_true(header_of(&a, "Allow", allow));
        assert_string_equal(allow, cases[i].allow);
        assert_false(header_of(&a, "Content-Length", allow));
        answer_release(&a);
    }
    struct answer a = ask(*state, (struct ask){.method = "OPTIONS", .path = "/api/v1/nothing"});
    expect_problem(&a, 404, NULL);
    answer_release(&a);
    talk(*state, "OPTIONS * HTTP/1.1\r\n" CLOSE "Host: HOST\r\n\r\n", out);
    assert_non_null(strstr(out, "HTTP/1.1 204 "));
    assert_non_null(strstr(out, "Allow: GET, HEAD, POST, PATCH, DELETE, OPTIONS"));
    free(out);
}

/* ---- media types ----------------------------------------------------------------------------- */

static void accept_headers_mean_what_rfc_9110_says(void **state)
{
    static const struct {
        const char *header, *type;
        int quality;
    } types[] = {
        {NULL, "application/json", 1000},
        {"", "application/json", 1000},
        {"*/*", "application/json", 1000},
        {"text/html", "application/json", 0},
        {"application/*;q=0.25", "application/json", 250},
        {"application/json;q=0, */*", "application/json", 0},
        {"*/*;q=0.1, text/csv", "text/csv", 1000},
        {"Text/CSV ; q=0.5 , */*;q=0.1", "text/csv", 500},
        {"text/csv;charset=utf-8;q=0.125", "text/csv", 125},
        {"application/problem+json", "application/json", 0},
        {",,;;,", "application/json", 0},
    };
    static const struct {
        const char *header;
        int quality;
    } codings[] = {{NULL, 0},        {"gzip", 1000},        {"deflate, GZIP;q=0.5", 500},
                   {"*", 1000},      {"gzip;q=0, *", 0},    {"identity", 0},
                   {"*;q=0.001", 1}, {"x-gzip;q=0.5", 500}, {"x-gzi", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        assert_int_equal(accept_type(types[i].header, types[i].type), types[i].quality);
    }
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++) {
        assert_int_equal(accept_coding(codings[i].header, "gzip"), codings[i].quality);
    }
}

static void what_no_answer_can_be_is_406_and_what_is_no_json_415(void **state)
{
    struct site *s = *state;
    assert_int_equal(status_with(s, "GET", "/api/v1/jobs", "Accept: text/html", NULL), 406);
    assert_int_equal(
        status_with(s, "GET", "/api/v1/jobs", "Accept: text/html, application/*", NULL), 200);
    assert_int_equal(status_with(s, "GET", "/metrics", "Accept: application/json", NULL), 406);
    assert_int_equal(status_with(s, "GET", "/app.js", "Accept: text/css", NULL), 200);
    assert_int_equal(
        status_with(s, "POST", "/api/v1/jobs", "Content-Type: text/plain", SPEC("plain")), 415);
    assert_int_equal(status_with(s, "POST", "/api/v1/jobs",
                                 "Content-Type: application/json; charset=utf-8", SPEC("utf")),
                     201);
    assert_int_equal(status_with(s, "POST", "/api/v1/jobs",
                                 "Content-Type: application/x-www-form-urlencoded", SPEC("curl")),
                     201);
    assert_int_equal(
        status_with(s, "POST", "/api/v1/jobs", "Content-Encoding: gzip", SPEC("packed")), 415);
    assert_int_equal(
        status_with(s, "POST", "/api/v1/jobs", "Content-Encoding: identity", SPEC("same")), 201);
}

static void a_large_answer_is_compressed_for_who_takes_that(void **state)
{
    struct site *s = *state;
    char value[256];
    struct ask packed = {.method = "GET",
                         .path = "/api/v1/catalog",
                         .token = s->token,
                         .headers = {"Accept-Encoding: gzip"}};
    struct answer a = get(s, packed.path), b = ask(s, packed);
    expect_status(&b, 200);
    assert_true(header_of(&b, "Content-Encoding", value));
    assert_string_equal(value, "gzip");
    assert_true(header_of(&a, "Vary", value) && header_of(&b, "Vary", value));
    assert_false(header_of(&a, "Content-Encoding", value));
    assert_true(header_of(&b, "Content-Type", value));
    assert_string_equal(value, "application/json");
    assert_true(b.len > 100 && b.len < a.len / 3);
    char *text = malloc(a.len + 1);
    z_stream z = {.next_in = (Bytef *)b.body,
                  .avail_in = (uInt)b.len,
                  .next_out = (Bytef *)text,
                  .avail_out = (uInt)a.len + 1};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, a.len);
    assert_memory_equal(text, a.body, a.len);
    inflateEnd(&z);
    free(text);
    answer_release(&a);
    answer_release(&b);
    packed.path = "/healthz"; /* small */
    a = ask(s, packed);
    assert_false(header_of(&a, "Content-Encoding", value));
    answer_release(&a);
}

/* ---- ids and conditions ---------------------------------------------------------------------- */

static void every_answer_has_an_id_which_is_the_clients_if_it_gave_one(void **state)
{
    struct site *s = *state;
    static const char *const paths[] = {"/", "/nothing", "/healthz", "/api/v1/jobs",
                                        "/api/v1/jobs/0123456789abcdef"};
    char id[256], last[256] = "", job[STORE_ID], path[64];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct answer a = get(s, paths[i]);
        assert_true(header_of(&a, "X-Request-Id", id));
        assert_string_not_equal(id, last);
        memcpy(last, id, sizeof last);
        answer_release(&a);
    }
    submit(s, SPEC("named"), job);
    snprintf(path, sizeof path, "/api/v1/jobs/%s", job);
    for (int i = 0; i < 3; i++) { /* the answer is kept, its id is not */
        char header[64];
        snprintf(header, sizeof header, "X-Request-Id: night-%d.x", i);
        struct answer a = ask(
            s, (struct ask){.method = "GET", .path = path, .token = s->token, .headers = {header}});
        assert_true(header_of(&a, "X-Request-Id", id));
        assert_string_equal(id, header + strlen("X-Request-Id: "));
        answer_release(&a);
    }
    struct answer a = ask(s, (struct ask){.method = "GET",
                                          .path = "/healthz",
                                          .headers = {"X-Request-Id: two words \"quoted\""}});
    assert_true(header_of(&a, "X-Request-Id", id));
    assert_null(strchr(id, ' '));
    answer_release(&a);
}

static void an_idempotency_key_is_its_askers_own_and_not_empty(void **state)
{
    struct site *s = *state;
    struct ask first = {.method = "POST",
                        .path = "/api/v1/jobs",
                        .token = s->token,
                        .body = SPEC("mine"),
                        .headers = {"Idempotency-Key: shared"}};
    struct ask second = first;
    second.token = s->operator_token;
    second.body = SPEC("hers");
    struct answer a = ask(s, first), b = ask(s, second);
    expect_status(&a, 201);
    expect_status(&b, 201);
    assert_string_not_equal(text_at(a.json, "/id"), text_at(b.json, "/id"));
    answer_release(&a);
    answer_release(&b);
    first.headers[0] = "Idempotency-Key;"; /* curl's way to send an empty one */
    a = ask(s, first);
    expect_problem(&a, 422, NULL);
    answer_release(&a);
}

static void events_of_an_unknown_job_are_404(void **state)
{
    static const char *const jobs[] = {"0123456789abcdef", "nope", ""};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char path[64];
        snprintf(path, sizeof path, "/api/v1/events?job=%s", jobs[i]);
        struct answer a = get(*state, path);
        expect_problem(&a, 404, NULL);
        answer_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_whose_end_is_uncertain_is_refused_and_nothing_after_it_answered),
        cmocka_unit_test(what_the_library_cannot_read_ends_the_connection),
        cmocka_unit_test(a_request_without_host_is_400),
        cmocka_unit_test(an_absolute_target_names_the_host),
        cmocka_unit_test(a_long_target_is_414_and_a_long_header_431),
        cmocka_unit_test(cookies_beyond_memory_are_431_whatever_follows),
        cmocka_unit_test(a_malformed_target_is_400),
        cmocka_unit_test(an_unknown_expectation_is_417_and_100_continue_is_met),
        cmocka_unit_test(a_head_of_the_events_has_no_byte_of_a_body),
        cmocka_unit_test(options_says_what_a_path_takes),
        cmocka_unit_test(accept_headers_mean_what_rfc_9110_says),
        cmocka_unit_test(what_no_answer_can_be_is_406_and_what_is_no_json_415),
        cmocka_unit_test(a_large_answer_is_compressed_for_who_takes_that),
        cmocka_unit_test(every_answer_has_an_id_which_is_the_clients_if_it_gave_one),
        cmocka_unit_test(an_idempotency_key_is_its_askers_own_and_not_empty),
        cmocka_unit_test(events_of_an_unknown_job_are_404),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
