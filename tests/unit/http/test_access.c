/* Who may do what: tokens and roles, sessions and their Origin, links for one use, the Host header.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/unit/http/fixture.h"

static struct answer as(struct site *s, const char *token, const char *method, const char *path)
{
    return ask(s, (struct ask){.method = method,
                               .path = path,
                               .token = token,
                               .body = strcmp(method, "POST") == 0 ? "" : NULL});
}

/* Exchanges a token or code; the cookie's "name=value" goes into cookie[256]. The status. */
static long start_session(struct site *s, const char *token, char cookie[256])
{
    char body[256], header[256];
    snprintf(body, sizeof body, "{\"token\": \"%s\"}", token);
    struct answer a =
        ask(s, (struct ask){.method = "POST", .path = "/api/v1/session", .body = body});
    long status = a.status;
    cookie[0] = '\0';
    if (header_of(&a, "Set-Cookie", header)) {
        assert_non_null(strstr(header, "HttpOnly"));
        assert_non_null(strstr(header, "SameSite=Strict"));
        assert_non_null(strstr(header, "Path=/"));
        snprintf(cookie, 256, "Cookie: %.*s", (int)strcspn(header, ";"), header);
    }
    answer_release(&a);
    return status;
}

static void without_a_token_nothing_of_the_api_is_told(void **state)
{
    struct site *s = *state;
    static const char *const paths[] = {"/api/v1/jobs",   "/api/v1/nodes", "/api/v1/catalog",
                                        "/api/v1/events", "/metrics",      "/api/v1/session"};
    char challenge[256];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct answer a = as(s, NULL, "GET", paths[i]),
                      b = as(s, "wrong-0123456789abcdef", "GET", paths[i]);
        expect_problem(&a, 401, NULL);
        expect_problem(&b, 401, NULL);
        assert_true(header_of(&a, "WWW-Authenticate", challenge));
        answer_release(&a);
        answer_release(&b);
    }
    struct answer a = as(s, NULL, "GET", "/healthz"), b = as(s, NULL, "GET", "/readyz");
    expect_status(&a, 200);
    expect_status(&b, 200);
    answer_release(&a);
    answer_release(&b);
}

static void a_role_allows_what_it_says_and_no_more(void **state)
{
    struct site *s = *state;
    struct {
        const char *method, *path;
        long viewer, operator, admin;
    } const cases[] = {
        {"GET", "/api/v1/jobs", 200, 200, 200},
        {"GET", "/metrics", 200, 200, 200},
        {"POST", "/api/v1/jobs", 403, 400, 400},
        {"DELETE", "/api/v1/jobs/0123456789abcdef", 403, 404, 404},
        {"POST", "/api/v1/jobs/0123456789abcdef/cancel", 403, 404, 404},
        {"POST", "/api/v1/nodes/none/drain", 403, 404, 404},
        {"POST", "/api/v1/link", 403, 403, 201},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a = as(s, s->viewer_token, cases[i].method, cases[i].path),
                      b = as(s, s->operator_token, cases[i].method, cases[i].path),
                      c = as(s, s->token, cases[i].method, cases[i].path);
        expect_status(&a, cases[i].viewer);
        expect_status(&b, cases[i].operator);
        expect_status(&c, cases[i].admin);
        answer_release(&a);
        answer_release(&b);
        answer_release(&c);
    }
    struct answer a = as(s, s->operator_token, "GET", "/api/v1/session");
    assert_string_equal(text_at(a.json, "/role"), "operator");
    assert_string_equal(text_at(a.json, "/name"), "Olga");
    answer_release(&a);
}

static void a_session_cookie_changes_things_only_from_our_own_page(void **state)
{
    struct site *s = *state;
    char cookie[256], origin[128];
    assert_int_equal(start_session(s, s->token, cookie), 201);
    struct answer a =
        ask(s, (struct ask){.method = "GET", .path = "/api/v1/jobs", .headers = {cookie}});
    expect_status(&a, 200);
    answer_release(&a);
    struct ask change = {
        .method = "POST", .path = "/api/v1/jobs", .body = SPEC("cookie"), .headers = {cookie}};
    a = ask(s, change);
    expect_problem(&a, 403, NULL);
    answer_release(&a);
    static const char *const foreign[] = {"Origin: http://evil.example", "Origin: null",
                                          "Origin: http://127.0.0.1:1"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        change.headers[1] = foreign[i];
        a = ask(s, change);
        expect_problem(&a, 403, NULL);
        answer_release(&a);
    }
    snprintf(origin, sizeof origin, "Origin: %s", s->base);
    change.headers[1] = origin;
    a = ask(s, change);
    expect_status(&a, 201);
    answer_release(&a);
    /* the session ends where it is told to */
    a = ask(s, (struct ask){
                   .method = "DELETE", .path = "/api/v1/session", .headers = {cookie, origin}});
    expect_status(&a, 204);
    answer_release(&a);
    a = ask(s, (struct ask){.method = "GET", .path = "/api/v1/jobs", .headers = {cookie}});
    expect_problem(&a, 401, NULL);
    answer_release(&a);
}

static void a_foreign_page_cannot_log_a_user_in(void **state)
{
    struct site *s = *state;
    struct answer a = ask(s, (struct ask){.method = "POST",
                                          .path = "/api/v1/session",
                                          .body = "{\"token\": \"admin-0123456789abcdef\"}",
                                          .headers = {"Origin: http://evil.example"}});
    expect_problem(&a, 403, NULL);
    answer_release(&a);
}

static void a_session_survives_a_restart_of_the_server(void **state)
{
    struct site *s = *state;
    char cookie[256], listen[32];
    assert_int_equal(start_session(s, s->viewer_token, cookie), 201);
    snprintf(listen, sizeof listen, "127.0.0.1:%d", s->port);
    http_stop(s->http);
    assert_int_equal(site_start(s, listen, NULL), 0);
    struct answer a =
        ask(s, (struct ask){.method = "GET", .path = "/api/v1/session", .headers = {cookie}});
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/role"), "viewer");
    answer_release(&a);
}

static void the_code_of_a_link_is_good_once(void **state)
{
    struct site *s = *state;
    char cookie[256], link[512], code[64];
    OK(http_link(s->http, link, &err_));
    assert_int_equal(strncmp(link, s->base, strlen(s->base)), 0);
    const char *hash = strstr(link, "/#token=");
    assert_non_null(hash);
    snprintf(code, sizeof code, "%s", hash + strlen("/#token="));
    struct answer a = as(s, code, "GET", "/api/v1/jobs");
    expect_problem(&a, 401, NULL); /* a code is no token */
    answer_release(&a);
    assert_int_equal(start_session(s, code, cookie), 201);
    a = ask(s, (struct ask){.method = "GET", .path = "/api/v1/session", .headers = {cookie}});
    assert_string_equal(text_at(a.json, "/role"), "admin");
    answer_release(&a);
    assert_int_equal(start_session(s, code, cookie), 401);
    a = ask(s, (struct ask){.method = "POST",
                            .path = "/api/v1/link",
                            .token = s->token,
                            .body = "{\"role\": \"viewer\"}"});
    expect_status(&a, 201);
    hash = strstr(text_at(a.json, "/url"), "/#token=");
    assert_non_null(hash);
    assert_int_equal(start_session(s, hash + strlen("/#token="), cookie), 201);
    answer_release(&a);
    a = ask(s, (struct ask){.method = "GET", .path = "/api/v1/session", .headers = {cookie}});
    assert_string_equal(text_at(a.json, "/role"), "viewer");
    answer_release(&a);
    a = ask(s, (struct ask){.method = "POST",
                            .path = "/api/v1/link",
                            .token = s->token,
                            .body = "{\"role\": \"root\"}"});
    expect_problem(&a, 422, "/role");
    answer_release(&a);
}

static void a_session_needs_a_token_that_is_text(void **state)
{
    struct site *s = *state;
    static const char *const bad[] = {"{}", "{\"token\": 7}", "{\"token\": null}",
                                      "{\"tokn\": \"x\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct answer a =
            ask(s, (struct ask){.method = "POST", .path = "/api/v1/session", .body = bad[i]});
        expect_problem(&a, 422, NULL);
        answer_release(&a);
    }
}

static void a_name_that_is_not_ours_is_refused(void **state)
{
    struct site *s = *state;
    static const char *const foreign[] = {"Host: evil.example", "Host: 127.0.0.1",
                                          "Host: 127.0.0.1:1", "Host: 10.0.0.1:80"};
    char own[64];
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        struct answer a =
            ask(s, (struct ask){.method = "GET", .path = "/healthz", .headers = {foreign[i]}});
        expect_problem(&a, 403, NULL);
        answer_release(&a);
    }
    struct answer a =
        ask(s, (struct ask){.method = "GET", .path = "/healthz", .headers = {"Host;"}});
    expect_problem(&a, 400, "");
    answer_release(&a);
    snprintf(own, sizeof own, "Host: localhost:%d", s->port);
    a = ask(s, (struct ask){.method = "GET", .path = "/healthz", .headers = {own}});
    expect_status(&a, 200);
    answer_release(&a);
}

static void an_allowed_name_is_ours(void **state)
{
    struct site *s = *state, other = *s;
    static const char *const allow[] = {"train.example", NULL};
    assert_int_equal(site_start(&other, "127.0.0.1:0", allow), 0);
    struct answer a =
        ask(&other,
            (struct ask){.method = "GET", .path = "/healthz", .headers = {"Host: train.example"}});
    expect_status(&a, 200);
    answer_release(&a);
    a = ask(&other,
            (struct ask){.method = "GET", .path = "/healthz", .headers = {"Host: other.example"}});
    expect_problem(&a, 403, NULL);
    answer_release(&a);
    http_stop(other.http);
}

static bool machine_has_ipv6(void)
{
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    close(fd);
    return has;
}

static void an_address_of_version_6_works_as_well(void **state)
{
    struct site *s = *state;
    char token[160], link[512];
    snprintf(token, sizeof token, "%s/token", s->dir);
    struct http_config c = {.listen = "[::1]:0",
                            .data_dir = s->dir,
                            .static_dir = s->static_dir,
                            .store_url = s->store_url,
                            .token_file = token};
    if (!machine_has_ipv6()) {
        skip();
    }
    struct http_server *h = http_start(&c, &err_);
    assert_non_null(h);
    struct site other = *s;
    OK(http_link(h, link, &err_));
    snprintf(other.base, sizeof other.base, "%.*s", (int)(strstr(link, "/#") - link), link);
    assert_int_equal(strncmp(other.base, "http://[::1]:", 13), 0);
    struct answer a = as(&other, s->token, "GET", "/api/v1/jobs");
    expect_status(&a, 200);
    answer_release(&a);
    http_stop(h);
}

static void a_token_that_is_added_to_the_file_is_known_without_a_restart(void **state)
{
    struct site *s = *state;
    site_write(s->dir, "token",
               "# tokens\nadmin-0123456789abcdef\noperator-0123456789abcdef operator Olga\n"
               "viewer-0123456789abcdef viewer\nlater-0123456789abcdef viewer\n");
    double until = clock_now() + 60;
    long status = 0;
    while (status != 200 && clock_now() < until) {
        struct answer a = as(s, "later-0123456789abcdef", "GET", "/api/v1/session");
        status = a.status;
        answer_release(&a);
    }
    assert_int_equal(status, 200);
}

#define OTHERS "admin-0123456789abcdef\noperator-0123456789abcdef operator Olga\n"

/* A cookie of a session, and one of a session that a link made; both from the token `leaving`. */
static void enter_with(struct site *s, const char *leaving, char own[256], char linked[256])
{
    double until = clock_now() + 60;
    while (start_session(s, leaving, own) != 201 && clock_now() < until) {
        clock_sleep(0.1); /* wrong credentials are counted */
    }
    struct answer a = ask(s, (struct ask){.method = "POST",
                                          .path = "/api/v1/link",
                                          .token = leaving,
                                          .body = "{\"role\": \"viewer\"}"});
    expect_status(&a, 201);
    const char *code = strstr(text_at(a.json, "/url"), "/#token=") + strlen("/#token=");
    assert_int_equal(start_session(s, code, linked), 201);
    answer_release(&a);
}

static long status_of(struct site *s, const char *cookie)
{
    struct answer a =
        ask(s, (struct ask){.method = "GET", .path = "/api/v1/session", .headers = {cookie}});
    long status = a.status;
    answer_release(&a);
    return status;
}

/* 401, or 429 after many wrong credentials. */
static bool is_refused(struct site *s, const char *cookie)
{
    long status = status_of(s, cookie);
    return status == 401 || status == 429;
}

static void what_a_token_opened_ends_with_its_line(void **state)
{
    struct site *s = *state;
    char own[256], linked[256], kept[256], out[1 << 14] = "", request[512];
    site_write(s->dir, "token", OTHERS "leaving-0123456789abcdef admin Leo\n");
    enter_with(s, "leaving-0123456789abcdef", own, linked);
    assert_int_equal(start_session(s, s->token, kept), 201);
    snprintf(request, sizeof request,
             "GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n\r\n", s->port, own);
    int fd = dial(s);
    assert_true(say(fd, request));
    assert_int_equal(hear(fd, "event: hello", out, sizeof out, 60), 1);
    assert_int_equal(status_of(s, linked), 200);
    site_write(s->dir, "token", OTHERS "viewer-0123456789abcdef viewer\n");
    double gone = clock_now();
    while (!is_refused(s, own) && clock_now() < gone + 60) {
        clock_sleep(0.1);
    }
    assert_true(is_refused(s, own));
    assert_true(is_refused(s, linked));
    assert_int_equal(status_of(s, kept), 200);
    assert_int_equal(hear(fd, "\r\n0\r\n", out, sizeof out, 60), 1); /* the last chunk */
    close(fd);
}

static void a_change_within_one_tick_of_the_clock_is_seen(void **state)
{
    struct site *s = *state;
    char path[512], cookie[256];
    struct stat before;
    snprintf(path, sizeof path, "%s/token", s->dir);
    assert_int_equal(stat(path, &before), 0);
    site_write(s->dir, "token", OTHERS "viewer-0123456789abcdef viewer\nnew-0123456789abcdef\n");
    struct timespec times[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    double until = clock_now() + 60;
    while (start_session(s, "new-0123456789abcdef", cookie) != 201 && clock_now() < until) {
        clock_sleep(0.5); /* wrong credentials are counted */
    }
    assert_int_equal(start_session(s, "new-0123456789abcdef", cookie), 201);
}

static void a_session_is_never_above_its_tokens_line(void **state)
{
    struct site *s = *state;
    char cookie[256];
    double until = clock_now() + 60;
    site_write(s->dir, "token",
               OTHERS
               "viewer-0123456789abcdef viewer\n"
               "lowered-0123456789abcdef admin\n");
    while (start_session(s, "lowered-0123456789abcdef", cookie) != 201 && clock_now() < until) {
        clock_sleep(0.1); /* wrong credentials are counted */
    }
    site_write(s->dir, "token",
               OTHERS
               "viewer-0123456789abcdef viewer\n"
               "lowered-0123456789abcdef viewer\n");
    char role[32] = "admin";
    while (strcmp(role, "viewer") != 0 && clock_now() < until) {
        struct answer a =
            ask(s, (struct ask){.method = "GET", .path = "/api/v1/session", .headers = {cookie}});
        snprintf(role, sizeof role, "%s", text_at(a.json, "/role"));
        answer_release(&a);
    }
    assert_string_equal(role, "viewer");
}

static void a_token_file_is_made_for_its_owner_only(void **state)
{
    struct site *s = *state;
    char path[160];
    struct stat st;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/fresh-token", s->dir);
    struct http_config c = {.listen = "127.0.0.1:0",
                            .data_dir = s->dir,
                            .static_dir = s->static_dir,
                            .store_url = s->store_url,
                            .token_file = path};
    struct http_server *h = http_start(&c, &err_);
    assert_non_null(h);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char *token = proc_read_file(path, 1000, &n, &err_);
    struct site other = *s;
    other.port = http_port(h);
    snprintf(other.base, sizeof other.base, "http://127.0.0.1:%d", other.port);
    token[strcspn(token, "\n")] = '\0';
    struct answer a = as(&other, token, "GET", "/api/v1/session");
    assert_string_equal(text_at(a.json, "/role"), "admin");
    answer_release(&a);
    free(token);
    http_stop(h);
}

static void guessing_is_slowed_down_and_does_not_lock_others_out(void **state)
{
    struct site *s = *state;
    long status = 401;
    for (int i = 0; i < 200 && status == 401; i++) {
        struct answer a = as(s, "guess-0123456789abcdef", "GET", "/api/v1/jobs");
        status = a.status;
        answer_release(&a);
    }
    assert_int_equal(status, 429);
    struct answer a = as(s, s->token, "GET", "/api/v1/jobs");
    expect_status(&a, 200);
    answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_token_nothing_of_the_api_is_told),
        cmocka_unit_test(a_role_allows_what_it_says_and_no_more),
        cmocka_unit_test(a_session_cookie_changes_things_only_from_our_own_page),
        cmocka_unit_test(a_foreign_page_cannot_log_a_user_in),
        cmocka_unit_test(a_session_survives_a_restart_of_the_server),
        cmocka_unit_test(the_code_of_a_link_is_good_once),
        cmocka_unit_test(a_session_needs_a_token_that_is_text),
        cmocka_unit_test(a_name_that_is_not_ours_is_refused),
        cmocka_unit_test(an_allowed_name_is_ours),
        cmocka_unit_test(an_address_of_version_6_works_as_well),
        cmocka_unit_test(a_token_that_is_added_to_the_file_is_known_without_a_restart),
        cmocka_unit_test(what_a_token_opened_ends_with_its_line),
        cmocka_unit_test(a_change_within_one_tick_of_the_clock_is_seen),
        cmocka_unit_test(a_session_is_never_above_its_tokens_line),
        cmocka_unit_test(a_token_file_is_made_for_its_owner_only),
        cmocka_unit_test(guessing_is_slowed_down_and_does_not_lock_others_out),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
