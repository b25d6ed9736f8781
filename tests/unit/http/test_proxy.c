/* Sign-in by a proxy's header (http/access/proxy.c, http/request/gate.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/access/proxy.h"
#include "tests/unit/http/fixture.h"

static const char *const here[] = {"127.0.0.1", NULL}, *const elsewhere[] = {"10.9.9.9", NULL};

/* ---- its parts ------------------------------------------------------------------------------- */

static void what_cannot_be_meant_is_refused(void **state)
{
    static const char *const names[] = {"localhost", NULL}, *const none[] = {NULL};
    const struct {
        const char *header, *role, *const *addresses, *sentence;
    } cases[] = {
        {"X User", "viewer", here, "'X User' cannot be the header"},
        {"Cookie", "viewer", here, "'Cookie' cannot be the header"},
        {"", "viewer", here, "'' cannot be the header"},
        {"X-User", "king", here, "'king' is not a role"},
        {"X-User", "viewer", none, "needs --proxy-address"},
        {"X-User", "viewer", NULL, "needs --proxy-address"},
        {"X-User", "viewer", names, "'localhost' is not the address"},
    };
    struct proxy p;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(proxy_init(&p, cases[i].header, cases[i].role, cases[i].addresses, &err_),
                         -(int)ERR_INVALID);
        assert_non_null(strstr(err_.message, cases[i].sentence));
        assert_false(p.header[0]);
    }
    OK(proxy_init(&p, NULL, "viewer", NULL, &err_));
    assert_false(p.header[0]);
}

static bool trusts(const struct proxy *p, const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    return inet_pton(AF_INET, address, &v4.sin_addr) == 1
               ? proxy_trusts(p, (const struct sockaddr *)&v4)
               : inet_pton(AF_INET6, address, &v6.sin6_addr) == 1 &&
                     proxy_trusts(p, (const struct sockaddr *)&v6);
}

static void addresses_are_compared_whole_in_both_forms(void **state)
{
    static const char *const addresses[] = {"10.0.0.7", "fd00::7", NULL};
    struct proxy p;
    (void)state;
    OK(proxy_init(&p, "X-User", NULL, addresses, &err_));
    assert_int_equal(p.role, ROLE_VIEWER);
    assert_true(trusts(&p, "10.0.0.7") && trusts(&p, "::ffff:10.0.0.7") && trusts(&p, "fd00::7"));
    assert_false(trusts(&p, "10.0.0.70") || trusts(&p, "10.0.0.1") || trusts(&p, "fd00::8") ||
                 trusts(&p, "::10.0.0.7") || proxy_trusts(&p, NULL));
}

static void a_name_is_text_without_blanks(void **state)
{
    static const char *const bad[] = {
        "",
        "a b",
        " alice",
        "alice\t",
        "a\x1b[1m",
        "\xff",
        "0123456789012345678901234567890123456789012345678901234567890123"};
    struct proxy p;
    struct identity who;
    (void)state;
    OK(proxy_init(&p, "X-User", "operator", here, &err_));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(proxy_identify(&p, bad[i], &who, &err_), -(int)ERR_UNAUTHORIZED);
        assert_int_equal(who.role, ROLE_NONE);
    }
    OK(proxy_identify(&p, "müller@example.org", &who, &err_));
    assert_string_equal(who.owner, "müller@example.org");
    assert_true(who.role == ROLE_OPERATOR && who.by_proxy);
}

/* ---- at the server --------------------------------------------------------------------------- */

/* A second server of the site, with this proxy. */
static struct site behind(struct site *s, const char *role, const char *const *addresses)
{
    struct site other = *s;
    char tokens[160];
    snprintf(tokens, sizeof tokens, "%s/token", s->dir);
    struct http_config c = {.listen = "127.0.0.1:0",
                            .data_dir = s->dir,
                            .static_dir = s->static_dir,
                            .store_url = s->store_url,
                            .token_file = tokens,
                            .proxy = {"X-Forwarded-User", role, addresses}};
    other.http = http_start(&c, &err_);
    assert_non_null(other.http);
    other.port = http_port(other.http);
    snprintf(other.base, sizeof other.base, "http://127.0.0.1:%d", other.port);
    return other;
}

static void expect_session(struct site *s, struct ask a, const char *owner, const char *role)
{
    a.method = "GET";
    a.path = "/api/v1/session";
    struct answer got = ask(s, a);
    expect_status(&got, 200);
    assert_string_equal(text_at(got.json, "/owner"), owner);
    assert_string_equal(text_at(got.json, "/role"), role);
    answer_release(&got);
}

static void expect_answer(struct site *s, struct ask a, long status)
{
    struct answer got = ask(s, a);
    expect_status(&got, status);
    answer_release(&got);
}

static void who_comes_through_the_proxy_is_who_it_says(void **state)
{
    struct site s = behind(*state, "operator", here);
    expect_session(&s, (struct ask){.headers = {"X-Forwarded-User: alice"}}, "alice", "operator");
    expect_session(&s, (struct ask){.headers = {"x-forwarded-user: bob"}}, "bob", "operator");
    /* a token takes precedence over the proxy */
    expect_session(&s,
                   (struct ask){.token = s.viewer_token, .headers = {"X-Forwarded-User: alice"}},
                   "viewer", "viewer");
    expect_answer(&s, (struct ask){.method = "GET", .path = "/api/v1/session"}, 401);
    http_stop(s.http);
}

static void from_another_address_the_header_means_nothing(void **state)
{
    struct site s = behind(*state, "admin", elsewhere);
    const struct ask a = {
        .method = "GET", .path = "/api/v1/session", .headers = {"X-Forwarded-User: admin"}};
    expect_answer(&s, a, 401);
    http_stop(s.http);
    expect_answer(*state, a, 401); /* nor if no proxy is named */
}

static void a_header_that_is_doubled_or_no_name_is_refused(void **state)
{
    struct site s = behind(*state, "viewer", here);
    struct ask a = {.method = "GET",
                    .path = "/api/v1/session",
                    .headers = {"X-Forwarded-User: alice", "X-Forwarded-User: admin"}};
    expect_answer(&s, a, 400);
    a.headers[0] = "X-Forwarded-User: alice and bob";
    a.headers[1] = NULL;
    expect_answer(&s, a, 401);
    http_stop(s.http);
}

/* A browser sends the proxy's credentials by itself, like a cookie. */
static void a_page_of_another_origin_changes_nothing_through_the_proxy(void **state)
{
    struct site s = behind(*state, "operator", here);
    char own[64];
    snprintf(own, sizeof own, "Origin: %s", s.base);
    struct ask a = {.method = "POST",
                    .path = "/api/v1/jobs",
                    .body = "{\"name\": 7}",
                    .headers = {"X-Forwarded-User: alice"}};
    expect_answer(&s, a, 403);
    a.headers[1] = "Origin: http://evil.example";
    expect_answer(&s, a, 403);
    a.headers[1] = own;
    expect_answer(&s, a, 422);
    http_stop(s.http);
}

static void who_comes_through_the_proxy_makes_no_links(void **state)
{
    struct site s = behind(*state, "admin", here);
    char own[64];
    snprintf(own, sizeof own, "Origin: %s", s.base);
    expect_answer(&s,
                  (struct ask){.method = "POST",
                               .path = "/api/v1/link",
                               .body = "{}",
                               .headers = {"X-Forwarded-User: alice", own}},
                  403);
    http_stop(s.http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(addresses_are_compared_whole_in_both_forms),
        cmocka_unit_test(a_name_is_text_without_blanks),
        cmocka_unit_test(who_comes_through_the_proxy_is_who_it_says),
        cmocka_unit_test(from_another_address_the_header_means_nothing),
        cmocka_unit_test(a_header_that_is_doubled_or_no_name_is_refused),
        cmocka_unit_test(a_page_of_another_origin_changes_nothing_through_the_proxy),
        cmocka_unit_test(who_comes_through_the_proxy_makes_no_links),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
