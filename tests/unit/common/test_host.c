/* The address by which a host is reached, by the given subnet or interface. The loopback interface
 * exists everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/machine/host.h"

static char address[64], network[72];
static struct err err_;

static int address_on(const char *subnet)
{
    address[0] = network[0] = '\0';
    return host_address(subnet, NULL, address, network, &err_);
}

static void an_address_is_found_by_subnet_and_by_interface(void **state)
{
    static const char *const given[] = {"127.0.0.0/8", "127.0.0.1/32", "127.0.0.1", "126.0.0.0/7",
                                        "lo"};
    (void)state;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (address_on(given[i]) < 0) {
            fail_msg("%s: %s", given[i], err_.message);
        }
        assert_string_equal(address, "127.0.0.1");
        assert_string_equal(network, "127.0.0.0/8"); /* the interface's, whatever was given */
    }
}

static void a_subnet_without_an_interface_here_is_told(void **state)
{
    (void)state;
    assert_int_equal(address_on("203.0.113.0/24"), -ERR_NOT_FOUND);
    assert_non_null(strstr(err_.message, "'203.0.113.0/24'"));
    assert_int_equal(address_on("127.0.0.2"), -ERR_NOT_FOUND); /* all bits count */
}

static void what_is_no_subnet_is_refused(void **state)
{
    static const char *const wrong[] = {"127.0.0.0/33", "127.0.0.0/0",       "127.0.0/8",
                                        "::1/129",      "no-such-interface", ""};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(address_on(wrong[i]), -ERR_INVALID);
        assert_non_null(strstr(err_.message, "expected a subnet"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_found_by_subnet_and_by_interface),
        cmocka_unit_test(a_subnet_without_an_interface_here_is_told),
        cmocka_unit_test(what_is_no_subnet_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
