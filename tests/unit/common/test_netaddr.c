/* Which addresses are of this host or its link, in every notation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/machine/netaddr.h"

static void addresses_of_this_host_and_its_link_are_local(void **state)
{
    static const char *const local[] = {"127.0.0.1",
                                        "127.1",
                                        "2130706433",
                                        "0x7f.1",
                                        "0.0.0.0",
                                        "169.254.169.254",
                                        "224.0.0.1",
                                        "255.255.255.255",
                                        "100.100.100.200",
                                        "192.0.0.192",
                                        "::1",
                                        "[::1]",
                                        "::",
                                        "fe80::1",
                                        "febf::1",
                                        "ff02::1",
                                        "fd00:ec2::254",
                                        "fd20:ce::254",
                                        "168.63.129.16",
                                        "2002:a9fe:a9fe::1",
                                        "2002:7f00:1::",
                                        "::ffff:127.0.0.1",
                                        "[::ffff:169.254.169.254]",
                                        "::127.0.0.1",
                                        "64:ff9b::169.254.169.254",
                                        "localhost",
                                        "LocalHost.",
                                        "a.localhost"};
    (void)state;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        if (!netaddr_names_local(local[i])) {
            fail_msg("%s is not taken for local", local[i]);
        }
    }
}

static void other_addresses_and_names_are_not(void **state)
{
    static const char *const others[] = {"10.0.0.1",        "192.168.1.7",
                                         "172.16.0.1",      "8.8.8.8",
                                         "126.255.255.255", "128.0.0.1",
                                         "100.100.100.201", "169.253.0.1",
                                         "223.255.255.255", "2001:db8::1",
                                         "fd00::1",         "2002:808:808::1",
                                         "fec0::1",         "::ffff:8.8.8.8",
                                         "example.org",     "localhost.example.org",
                                         "notlocalhost",    ""};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (netaddr_names_local(others[i])) {
            fail_msg("%s is taken for local", others[i]);
        }
    }
}

static void what_is_no_internet_address_is_local(void **state)
{
    struct sockaddr at = {.sa_family = AF_UNIX};
    (void)state;
    assert_true(netaddr_is_local(&at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_this_host_and_its_link_are_local),
        cmocka_unit_test(other_addresses_and_names_are_not),
        cmocka_unit_test(what_is_no_internet_address_is_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
