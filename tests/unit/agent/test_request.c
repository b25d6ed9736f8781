/* Requests to an agent (agent/request.c): each field's range and alphabet at its limits, every
 * missing field, unknown fields; and what is taken from mpirun's command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/request.h"

#define NONCE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SEAL "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
static struct err e;

static json_t *body(void)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:s}", "kind",
                     "launch", "nonce", NONCE, "at", (json_int_t)1767323045000, "host", "beta",
                     "job", "0123456789abcdef", "attempt", 3, "family", 77, "daemon", 1, "daemons",
                     2, "nodes", "vm,es-beta@0(2)", "mpirun", "77.0;tcp://127.0.0.1:9", "seal",
                     SEAL, "user", "own");
}

static int read_body(json_t *j)
{
    struct request r;
    err_clear(&e);
    int rc = request_read(&r, j, "beta", &e);
    json_decref(j);
    return rc;
}

/* The body with this value of the field; takes the value's reference. */
static int with(const char *field, json_t *value)
{
    json_t *j = body();
    json_object_set_new(j, field, value);
    return read_body(j);
}

static char *repeated(char c, size_t n)
{
    static char text[5000];
    memset(text, c, n);
    text[n] = 0;
    return text;
}

static void assert_wrong(int rc, const char *field)
{
    char expected[120];
    snprintf(expected, sizeof expected, "the request's field '%s' is missing or invalid", field);
    if (rc != -ERR_INVALID || strcmp(e.message, expected) != 0) {
        fail_msg("field '%s': %d '%s'", field, rc, e.message);
    }
}

static void a_request_is_read_as_it_was_written(void **state)
{
    struct request r;
    json_t *j = body();
    (void)state;
    assert_int_equal(request_read(&r, j, "beta", &e), 0);
    assert_string_equal(r.job, "0123456789abcdef");
    assert_int_equal(r.attempt, 3);
    assert_int_equal(r.family, 77);
    assert_int_equal(r.daemon, 1);
    assert_int_equal(r.daemons, 2);
    assert_string_equal(r.nodes, "vm,es-beta@0(2)");
    assert_string_equal(r.mpirun, "77.0;tcp://127.0.0.1:9");
    assert_string_equal(r.nonce, NONCE);
    json_decref(j);
}

static void every_field_must_be_there(void **state)
{
    static const char *const fields[] = {"nonce",   "job",   "attempt", "family", "daemon",
                                         "daemons", "nodes", "mpirun",  "seal"};
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        json_t *j = body();
        json_object_del(j, fields[i]);
        assert_wrong(read_body(j), fields[i]);
        assert_wrong(with(fields[i], json_null()), fields[i]);
        assert_wrong(with(fields[i], json_true()), fields[i]);
    }
}

static void the_user_of_the_store_is_one_of_two(void **state)
{
    struct request r;
    json_t *j = body();
    (void)state;
    assert_int_equal(request_read(&r, j, "beta", &e), 0);
    assert_string_equal(r.user, "own");
    json_object_del(j, "user");
    assert_int_equal(request_read(&r, j, "beta", &e), 0);
    assert_string_equal(r.user, "shared");
    json_decref(j);
    assert_wrong(with("user", json_string("root")), "user");
    assert_wrong(with("user", json_null()), "user");
}

/* Somebody who reads the agent's mail on its way cannot use it. */
static void the_key_of_the_ranks_is_wrapped_with_the_hosts_own(void **state)
{
    struct sign_key host = {{7}}, seal, sent;
    struct request r;
    char hex[SIGN_HEX];
    (void)state;
    assert_int_equal(sign_unhex(SEAL, &seal, &e), 0);
    sent = seal;
    seal_wrap(&host, NONCE, &sent);
    assert_false(sign_same(&sent, &seal));
    sign_hex(&sent, hex);
    json_t *j = body();
    json_object_set_new(j, "seal", json_string(hex));
    assert_int_equal(request_read(&r, j, "beta", &e), 0);
    request_unwrap(&r, &host);
    assert_string_equal(r.seal, SEAL);
    json_decref(j);
}

static void no_other_field_may_be_there(void **state)
{
    (void)state;
    assert_int_equal(with("program", json_string("/bin/sh")), -ERR_INVALID);
    assert_string_equal(e.message, "the request has the unknown field 'program'");
}

static void it_must_be_for_this_host(void **state)
{
    (void)state;
    assert_int_equal(with("host", json_string("alpha")), -ERR_INVALID);
    assert_string_equal(e.message, "the request is for the host 'alpha', this is 'beta'");
    assert_int_equal(with("host", json_string("bet")), -ERR_INVALID);
    assert_int_equal(with("host", json_string("beta2")), -ERR_INVALID);
    assert_int_equal(with("host", json_integer(1)), -ERR_INVALID);
    assert_string_equal(e.message, "the request is for the host '', this is 'beta'");
}

static void numbers_have_limits_and_are_numbers(void **state)
{
    static const struct {
        const char *field;
        int64_t least, most;
    } cases[] = {{"attempt", 1, 30000}, {"daemons", 2, 4096}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *field = cases[i].field;
        assert_int_equal(with(field, json_integer(cases[i].least)), 0);
        assert_int_equal(with(field, json_integer(cases[i].most)), 0);
        assert_wrong(with(field, json_integer(cases[i].least - 1)), field);
        assert_wrong(with(field, json_integer(cases[i].most + 1)), field);
        assert_wrong(with(field, json_integer(INT64_MAX)), field);
        assert_wrong(with(field, json_string("2")), field);
        assert_wrong(with(field, json_real(2)), field);
    }
    assert_wrong(with("family", json_integer(0)), "family");
    assert_wrong(with("family", json_integer((json_int_t)UINT32_MAX + 1)), "family");
}

/* Daemon 0 is mpirun itself. */
static void a_daemon_is_one_of_those_that_there_are(void **state)
{
    (void)state;
    assert_wrong(with("daemon", json_integer(0)), "daemon");
    assert_wrong(with("daemon", json_integer(2)), "daemon");
    json_t *j = body();
    json_object_set_new(j, "daemons", json_integer(9));
    json_object_set_new(j, "daemon", json_integer(8));
    assert_int_equal(read_body(j), 0);
}

/* Values that go into a command line, a folder's name and an environment. */
static void texts_have_narrow_alphabets(void **state)
{
    static const char *const jobs[] = {"0123456789abcde",  "0123456789abcdef0", "0123456789abcdeF",
                                       "../../../etc/abc", "0123456789abcde ",  ""};
    static const char *const nodes[] = {"vm",       "vm,es-beta;touch /tmp/x",
                                        "vm,$(x)",  "vm,`x`",
                                        "vm,\"x\"", "vm, x",
                                        "vm,x\n",   "vm,x/y",
                                        "vm,x=y"};
    static const char *const addresses[] = {"77.0;tcp://127.0.0.1:9 -mca x y",
                                            "77.0;tcp://$HOME:9",
                                            "77.0;tcp://a`b`:9",
                                            "77.0;tcp://a\"b:9",
                                            "77.0;tcp://a\nb:9",
                                            "77.0;tcp://a\\b:9",
                                            "77.0;tc"};
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        assert_wrong(with("job", json_string(jobs[i])), "job");
    }
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        assert_wrong(with("nodes", json_string(nodes[i])), "nodes");
    }
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        assert_wrong(with("mpirun", json_string(addresses[i])), "mpirun");
    }
    assert_wrong(with("nonce", json_string("0123")), "nonce");
    assert_wrong(with("nonce", json_string(NONCE "0")), "nonce");
    assert_int_equal(with("mpirun", json_string("77.0;tcp6://[fe80::1%eth0],[::1]:9;x")), 0);
    assert_int_equal(with("nodes", json_string("vm,[2:es-a,es-b]@0(3)")), 0);
}

static void texts_fit_their_room(void **state)
{
    char address[1100];
    (void)state;
    assert_int_equal(with("nodes", json_string(repeated('a', 2047))), 0);
    assert_wrong(with("nodes", json_string(repeated('a', 2048))), "nodes");
    snprintf(address, sizeof address, "77.0;tcp%s", repeated('a', 1023 - 8));
    assert_int_equal(with("mpirun", json_string(address)), 0);
    snprintf(address, sizeof address, "77.0;tcp%s", repeated('a', 1024 - 8));
    assert_wrong(with("mpirun", json_string(address)), "mpirun");
}

static void the_address_of_mpirun_is_of_its_family_and_of_tcp(void **state)
{
    (void)state;
    assert_wrong(with("mpirun", json_string("78.0;tcp://127.0.0.1:9")), "mpirun");
    assert_wrong(with("mpirun", json_string("77.1;tcp://127.0.0.1:9")), "mpirun");
    assert_wrong(with("mpirun", json_string("77.0;usock://1.2:9")), "mpirun");
    assert_wrong(with("family", json_integer(78)), "mpirun");
    json_t *j = body();
    json_object_set_new(j, "family", json_integer(UINT32_MAX));
    json_object_set_new(j, "mpirun", json_string("4294967295.0;tcp://127.0.0.1:9"));
    assert_int_equal(read_body(j), 0);
}

/* ---- mpirun's side --------------------------------------------------------------------------- */

static const char *command[] = {"orted",
                                "-mca",
                                "ess_base_jobid",
                                "77",
                                "-mca",
                                "ess_base_vpid",
                                "1",
                                "-mca",
                                "ess_base_num_procs",
                                "2",
                                "-mca",
                                "orte_node_regex",
                                "\"vm,es-beta@0(2)\"",
                                "-mca",
                                "orte_hnp_uri",
                                "\"77.0;tcp://127.0.0.1:9\""};
enum { WORDS = sizeof command / sizeof *command };

static json_t *from_words(int n)
{
    err_clear(&e);
    return request_from_command(n, (char *const *)(uintptr_t)command, &e);
}

static void mpiruns_command_gives_five_fields_without_quotes(void **state)
{
    json_t *j = from_words(WORDS),
           *expected = json_pack("{s:i, s:i, s:i, s:s, s:s}", "family", 77, "daemon", 1, "daemons",
                                 2, "nodes", "vm,es-beta@0(2)", "mpirun", "77.0;tcp://127.0.0.1:9");
    (void)state;
    assert_true(json_equal(j, expected));
    json_decref(j);
    json_decref(expected);
}

static void a_command_that_lacks_one_is_of_an_open_mpi_that_is_not_known(void **state)
{
    static const int names[] = {2, 5, 8, 11, 14};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *was = command[names[i]];
        char expected[100];
        snprintf(expected, sizeof expected,
                 "mpirun's command has no '%s': this Open MPI is not known", was);
        command[names[i]] = "other";
        assert_null(from_words(WORDS));
        assert_int_equal(e.code, ERR_UNSUPPORTED);
        assert_string_equal(e.message, expected);
        command[names[i]] = was;
    }
    assert_null(from_words(WORDS - 1)); /* a name without a value */
    assert_null(from_words(0));
}

static void numbers_of_the_command_are_whole_and_not_negative(void **state)
{
    static const char *const wrong[] = {"", "-1", "7x", "x", "1.5"};
    (void)state;
    for (int at = 3; at <= 9; at += 3) {
        const char *was = command[at];
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            command[at] = wrong[i];
            assert_null(from_words(WORDS));
        }
        command[at] = was;
    }
    json_t *j = from_words(WORDS);
    assert_non_null(j);
    json_decref(j);
}

static void only_a_pair_of_quotes_is_taken_away(void **state)
{
    static const char *const texts[][2] = {
        {"\"a", "\"a"}, {"a\"", "a\""}, {"\"", "\""}, {"\"\"", ""}, {"a\"b", "a\"b"}};
    const char *was = command[12];
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        command[12] = texts[i][0];
        json_t *j = from_words(WORDS);
        assert_string_equal(json_string_value(json_object_get(j, "nodes")), texts[i][1]);
        json_decref(j);
    }
    command[12] = was;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_as_it_was_written),
        cmocka_unit_test(every_field_must_be_there),
        cmocka_unit_test(the_user_of_the_store_is_one_of_two),
        cmocka_unit_test(the_key_of_the_ranks_is_wrapped_with_the_hosts_own),
        cmocka_unit_test(no_other_field_may_be_there),
        cmocka_unit_test(it_must_be_for_this_host),
        cmocka_unit_test(numbers_have_limits_and_are_numbers),
        cmocka_unit_test(a_daemon_is_one_of_those_that_there_are),
        cmocka_unit_test(texts_have_narrow_alphabets),
        cmocka_unit_test(texts_fit_their_room),
        cmocka_unit_test(the_address_of_mpirun_is_of_its_family_and_of_tcp),
        cmocka_unit_test(mpiruns_command_gives_five_fields_without_quotes),
        cmocka_unit_test(a_command_that_lacks_one_is_of_an_open_mpi_that_is_not_known),
        cmocka_unit_test(numbers_of_the_command_are_whole_and_not_negative),
        cmocka_unit_test(only_a_pair_of_quotes_is_taken_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
