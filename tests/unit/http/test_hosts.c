/* Names and origins (http/access/hosts.c) without a server: valid Host headers, the comparison of
 * an Origin, and the address that a browser is told to open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "http/access/hosts.h"

/* Listens on this address, and was given port 8080. */
static struct hosts opened(const char *listen, const char *allowed)
{
    struct hosts h;
    struct err e = {0};
    char with_port[80];
    const char *const allow[] = {allowed, NULL};
    snprintf(with_port, sizeof with_port, strchr(listen, ':') ? "[%s]:0" : "%s:0", listen);
    if (hosts_init(&h, with_port, 8080, allowed ? allow : NULL, &e) < 0) {
        fail_msg("%s", e.message);
    }
    return h;
}

static void the_address_is_what_is_listened_on_or_an_allowed_name_of_the_wildcard(void **state)
{
    static const struct {
        const char *listen, *allowed, *address;
    } cases[] = {{"127.0.0.1", NULL, "127.0.0.1:8080"},
                 {"127.0.0.1", "training.example", "127.0.0.1:8080"},
                 {"10.0.0.1", "training.example:80", "10.0.0.1:8080"},
                 {"::1", NULL, "[::1]:8080"},
                 {"::1", "training.example", "[::1]:8080"},
                 {"0.0.0.0", NULL, "127.0.0.1:8080"},
                 {"0.0.0.0", "training.example", "training.example:8080"},
                 {"0.0.0.0", "training.example:80", "training.example:80"},
                 {"::", "training.example", "training.example:8080"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hosts h = opened(cases[i].listen, cases[i].allowed);
        char address[300];
        hosts_address(&h, address, sizeof address);
        assert_string_equal(address, cases[i].address);
    }
}

static void a_host_header_names_us_by_address_loopback_or_allowed_name(void **state)
{
    static const struct {
        const char *listen, *allowed, *header;
        bool ours;
    } cases[] = {{"127.0.0.1", NULL, "127.0.0.1:8080", true},
                 {"127.0.0.1", NULL, "localhost:8080", true},
                 {"127.0.0.1", NULL, "LOCALHOST:8080", true},
                 {"127.0.0.1", NULL, "[::1]:8080", true},
                 {"::1", NULL, "127.0.0.1:8080", true},
                 {"127.0.0.1", NULL, "127.0.0.1:8081", false},
                 {"0.0.0.0", NULL, "127.0.0.1:8080", true},
                 {"0.0.0.0", NULL, "127.evil.example:8080", false},
                 {"127.0.0.1", NULL, "127.0.0.1", false},
                 {"127.0.0.1", NULL, "evil.example:8080", false},
                 {"127.0.0.1", NULL, "", false},
                 {"127.0.0.1", NULL, NULL, false},
                 {"127.0.0.1", "a.example", "a.example:8080", true},
                 {"127.0.0.1", "a.example", "a.example:443", true},
                 {"127.0.0.1", "a.example", "a.example", true},
                 {"127.0.0.1", "a.example", "b.example", false},
                 {"127.0.0.1", "a.example:443", "a.example:443", true},
                 {"127.0.0.1", "a.example:443", "a.example:444", false},
                 {"10.0.0.1", NULL, "10.0.0.1:8080", true},
                 {"10.0.0.1", NULL, "localhost:8080", false},
                 {"0.0.0.0", NULL, "192.168.7.7:8080", true},
                 {"0.0.0.0", NULL, "evil.example:8080", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hosts h = opened(cases[i].listen, cases[i].allowed);
        if (hosts_allowed(&h, cases[i].header) != cases[i].ours) {
            fail_msg("on %s '%s' is %s", cases[i].listen, cases[i].header,
                     cases[i].ours ? "refused" : "taken");
        }
    }
}

static void an_origin_is_ours_with_the_very_host_of_the_request(void **state)
{
    (void)state;
    assert_true(hosts_own_origin("http://127.0.0.1:8080", "127.0.0.1:8080"));
    assert_true(hosts_own_origin("https://a.example", "A.example"));
    assert_false(hosts_own_origin("http://127.0.0.1:8081", "127.0.0.1:8080"));
    assert_false(hosts_own_origin("https://b.example", "a.example"));
    assert_false(hosts_own_origin("ftp://a.example", "a.example"));
    assert_false(hosts_own_origin("a.example", "a.example"));
    assert_false(hosts_own_origin("null", "a.example"));
    assert_false(hosts_own_origin(NULL, "a.example"));
    assert_false(hosts_own_origin("http://a.example", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_is_what_is_listened_on_or_an_allowed_name_of_the_wildcard),
        cmocka_unit_test(a_host_header_names_us_by_address_loopback_or_allowed_name),
        cmocka_unit_test(an_origin_is_ours_with_the_very_host_of_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
