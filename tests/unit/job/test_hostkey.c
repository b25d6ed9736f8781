/* Keys for joining a cluster (job/hostkey.c). They equal keys computed by another program (Python's
 * hmac), so that agents and coordinators of different builds agree. A key for one purpose serves no
 * other. Versions that do not match are named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "job/hostkey.h"

static const char nonce[] = "1111111111111111111111111111111111111111111111111111111111111111",
                  salt[] = "2222222222222222222222222222222222222222222222222222222222222222";
static struct sign_key secret;

static int setup(void **state)
{
    (void)state;
    sign_secret("only-for-this-test", &secret);
    return 0;
}

static void assert_key(const struct sign_key *key, const char *expected)
{
    char hex[SIGN_HEX];
    sign_hex(key, hex);
    assert_string_equal(hex, expected);
}

static void keys_are_those_that_another_program_computes(void **state)
{
    struct sign_key key, zero = {{0}};
    (void)state;
    hostkey_join(&secret, &key);
    assert_key(&key, "6351a8ea7c367e7eb1fe0ff73abb470602e4e34df0249c04226d03b90680c0b8");
    hostkey_welcome(&secret, nonce, &key);
    assert_key(&key, "268fe76451efcc83beb30e8f4565940814bf252b58fb709993d5c7d37d4eb49e");
    hostkey_wrap(&secret, nonce, salt, &zero);
    assert_key(&zero, "febffbd49ec41084bd5464ffe4642f56bd2072cf6951e0b069f8e2cad40c8265");
}

static void a_wrapped_key_is_unwrapped_with_the_same_three_and_no_others(void **state)
{
    struct sign_key key, was, other = secret;
    (void)state;
    for (int i = 0; i < SIGN_KEY; i++) {
        key.bytes[i] = (unsigned char)i;
    }
    was = key;
    hostkey_wrap(&secret, nonce, salt, &key);
    assert_key(&key, "febef9d79ac11683b55d6ef4e8692159ad3160dc7d44f6a771e1f8d1c8119c7a");
    struct sign_key wrapped = key;
    hostkey_wrap(&secret, nonce, salt, &key);
    assert_memory_equal(&key, &was, sizeof key);

    other.bytes[0] ^= 1;
    key = wrapped;
    hostkey_wrap(&other, nonce, salt, &key);
    assert_memory_not_equal(&key, &was, sizeof key);
    key = wrapped;
    hostkey_wrap(&secret, salt, salt, &key);
    assert_memory_not_equal(&key, &was, sizeof key);
    key = wrapped;
    hostkey_wrap(&secret, nonce, nonce, &key);
    assert_memory_not_equal(&key, &was, sizeof key);
}

static json_t *versions(const char *evenstep, const char *mpi, int protocol)
{
    return json_pack("{s:s, s:s, s:i}", "evenstep", evenstep, "openmpi", mpi, "protocol", protocol);
}

static void equal_versions_fit(void **state)
{
    char why[300] = "x";
    json_t *a = versions("0.1.0", "4.1.4", 1), *b = versions("0.1.0", "4.1.4", 1);
    (void)state;
    assert_string_equal(hostkey_mismatch("h", a, b, why), "");
    json_object_set_new(a, "more", json_true()); /* a key that need not be the same on both sides */
    assert_string_equal(hostkey_mismatch("h", a, b, why), "");
    json_decref(a);
    json_decref(b);
}

static void each_version_that_differs_is_a_mismatch_that_names_both(void **state)
{
    char why[300];
    json_t *ours = versions("0.1.0", "4.1.4", 1),
           *its[] = {versions("0.0.9", "4.1.4", 1), versions("0.1.0", "4.0.3", 1),
                     versions("0.1.0", "4.1.4", 2)};
    static const char *const said[] = {"Evenstep 0.0.9 (protocol 1) with Open MPI 4.1.4",
                                       "Evenstep 0.1.0 (protocol 1) with Open MPI 4.0.3",
                                       "Evenstep 0.1.0 (protocol 2) with Open MPI 4.1.4"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char expected[300];
        snprintf(expected, sizeof expected,
                 "the host 'old' has %s, the coordinator has Evenstep 0.1.0 (protocol 1) with Open "
                 "MPI 4.1.4: both must be the same",
                 said[i]);
        assert_string_equal(hostkey_mismatch("old", its[i], ours, why), expected);
        json_decref(its[i]);
    }
    json_decref(ours);
}

static void a_host_that_names_no_version_does_not_fit(void **state)
{
    char why[300];
    json_t *ours = versions("0.1.0", "4.1.4", 1), *none = json_object();
    (void)state;
    assert_non_null(strstr(hostkey_mismatch("h", none, ours, why),
                           "has Evenstep ? (protocol 0) with Open MPI ?, the coordinator"));
    assert_non_null(strstr(hostkey_mismatch("h", NULL, ours, why), "Evenstep ?"));
    json_decref(ours);
    json_decref(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_those_that_another_program_computes),
        cmocka_unit_test(a_wrapped_key_is_unwrapped_with_the_same_three_and_no_others),
        cmocka_unit_test(equal_versions_fit),
        cmocka_unit_test(each_version_that_differs_is_a_mismatch_that_names_both),
        cmocka_unit_test(a_host_that_names_no_version_does_not_fit),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
