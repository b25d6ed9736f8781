/* The command line and the environment of Open MPI's daemon (agent/daemon_line.c): every value is a
 * word of its own, only named variables of our environment are passed on, and a password is in the
 * environment, never in the arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon_parts.h"
#include "store/users.h"

static const struct daemon_config config = {.host = "beta",
                                            .store_url = "redis://10.0.0.1:6379",
                                            .store_password = "a password",
                                            .data_roots = "/data:/more",
                                            .data_dir = "/var/agent",
                                            .network = "10.0.0.0/24",
                                            .cache_bytes = 20000000000};
static const struct request request = {
    .job = "0123456789abcdef",
    .attempt = 3,
    .family = 4294967295,
    .daemon = 2,
    .daemons = 5,
    .nodes = "vm,[2:es-a,es-b]@0(3)",
    .mpirun = "4294967295.0;tcp://10.0.0.1:9",
    .seal = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
    .nonce = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
static struct err e;

static struct daemon_line made(const struct daemon_config *c)
{
    struct daemon_line line;
    if (daemon_line_make(&line, c, &request, &e) < 0) {
        fail_msg("%s", e.message);
    }
    return line;
}

/* The value of `-mca NAME VALUE`, or NULL; it must appear only once. */
static const char *mca(const struct daemon_line *line, const char *name)
{
    const char *value = NULL;
    for (int i = 1; line->argv[i]; i += 3) {
        assert_string_equal(line->argv[i], "-mca");
        assert_non_null(line->argv[i + 1]);
        assert_non_null(line->argv[i + 2]);
        if (strcmp(line->argv[i + 1], name) == 0) {
            assert_null(value);
            value = line->argv[i + 2];
        }
    }
    return value;
}

/* The value of NAME=VALUE in the environment, or NULL; it must appear only once. */
static const char *variable(const struct daemon_line *line, const char *name)
{
    const char *value = NULL;
    size_t n = strlen(name);
    for (int i = 0; line->env[i]; i++) {
        if (strncmp(line->env[i], name, n) == 0 && line->env[i][n] == '=') {
            assert_null(value);
            value = line->env[i] + n + 1;
        }
    }
    return value;
}

static void the_daemon_is_told_what_was_asked_for(void **state)
{
    struct daemon_line line = made(&config);
    char folder[64];
    (void)state;
    assert_string_equal(line.argv[0], "orted");
    assert_string_equal(mca(&line, "ess_base_jobid"), "4294967295");
    assert_string_equal(mca(&line, "ess_base_vpid"), "2");
    assert_string_equal(mca(&line, "ess_base_num_procs"), "5");
    assert_string_equal(mca(&line, "orte_node_regex"), request.nodes);
    assert_string_equal(mca(&line, "orte_hnp_uri"), request.mpirun);
    assert_string_equal(mca(&line, "oob_tcp_if_include"), "10.0.0.0/24");
    assert_string_equal(mca(&line, "orte_tmpdir_base"), daemon_tmp(folder, "/tmp", &request));
    assert_string_equal(variable(&line, "EVENSTEP_JOB"), "0123456789abcdef");
    assert_string_equal(variable(&line, "EVENSTEP_ATTEMPT"), "3");
    assert_string_equal(variable(&line, "EVENSTEP_LAUNCH"), request.nonce);
    daemon_line_free(&line);
}

/* No daemon starts others or uses a shell. */
static void the_daemon_starts_no_others(void **state)
{
    struct daemon_line line = made(&config);
    (void)state;
    assert_string_equal(mca(&line, "plm_rsh_no_tree_spawn"), "1");
    assert_string_equal(mca(&line, "plm_rsh_agent"), "/bin/false");
    daemon_line_free(&line);
}

static void ranks_are_told_of_this_hosts_store_data_and_network(void **state)
{
    struct daemon_line line = made(&config);
    char folder[64];
    (void)state;
    assert_string_equal(variable(&line, "EVENSTEP_STORE"), "redis://10.0.0.1:6379");
    assert_string_equal(variable(&line, "EVENSTEP_NODE_DATA"), "/data:/more");
    assert_string_equal(variable(&line, "EVENSTEP_NODE_CACHE"), "/var/agent/received");
    assert_string_equal(variable(&line, "EVENSTEP_NODE_CACHE_BYTES"), "20000000000");
    assert_string_equal(variable(&line, "EVENSTEP_MCA_btl_tcp_if_include"), "10.0.0.0/24");
    assert_string_equal(variable(&line, "EVENSTEP_MCA_btl_vader_backing_directory"),
                        daemon_tmp(folder, "/dev/shm", &request));
    daemon_line_free(&line);
}

/* Its password follows from the key of the ranks. */
static void ranks_with_a_user_of_their_own_have_no_other_password(void **state)
{
    struct request own = request;
    struct daemon_config c = config;
    struct daemon_line line;
    struct sign_key key;
    char password[SIGN_HEX];
    (void)state;
    snprintf(own.user, sizeof own.user, "own");
    c.store_url = "redis://worker@10.0.0.1:6379";
    assert_int_equal(sign_unhex(own.seal, &key, &e), 0);
    store_user_password(&key, password);
    assert_int_equal(daemon_line_make(&line, &c, &own, &e), 0);
    assert_string_equal(variable(&line, "EVENSTEP_STORE_PASSWORD"), password);
    const char *url = variable(&line, "EVENSTEP_STORE");
    assert_int_equal(strncmp(url, "redis://ranks.0123456789abcdef.3.", 33), 0);
    assert_non_null(strstr(url, "@10.0.0.1:6379"));
    daemon_line_free(&line);
    c.store_url = "unix:/redis.sock"; /* has no users */
    assert_int_equal(daemon_line_make(&line, &c, &own, &e), 0);
    assert_string_equal(variable(&line, "EVENSTEP_STORE"), "unix:/redis.sock");
    daemon_line_free(&line);
}

static void passwords_and_keys_are_in_the_environment_alone(void **state)
{
    struct daemon_config none = config;
    struct daemon_line line = made(&config);
    (void)state;
    assert_string_equal(variable(&line, "EVENSTEP_STORE_PASSWORD"), "a password");
    assert_string_equal(variable(&line, SEAL_VARIABLE), request.seal);
    for (int i = 0; line.argv[i]; i++) {
        assert_null(strstr(line.argv[i], "a password"));
        assert_null(strstr(line.argv[i], request.seal));
    }
    daemon_line_free(&line);
    none.store_password = NULL;
    line = made(&none);
    assert_null(variable(&line, "EVENSTEP_STORE_PASSWORD"));
    daemon_line_free(&line);
}

static void nothing_of_our_environment_is_handed_on_but_what_is_named(void **state)
{
    (void)state;
    setenv("OMP_PLACES", "cores", 1);
    setenv("LD_PRELOAD", "/tmp/x.so", 1);
    setenv("EVENSTEP_TOKEN", "a token", 1);
    setenv("PATH", "/tmp/mine", 1);
    setenv("OMPI_MCA_btl", "self", 1);
    struct daemon_line line = made(&config);
    assert_string_equal(variable(&line, "OMP_PLACES"), "cores");
    assert_null(variable(&line, "LD_PRELOAD"));
    assert_null(variable(&line, "EVENSTEP_TOKEN"));
    assert_null(variable(&line, "OMPI_MCA_btl"));
    assert_null(strstr(variable(&line, "PATH"), "/tmp/mine"));
    daemon_line_free(&line);
    unsetenv("OMP_PLACES");
    line = made(&config);
    assert_null(variable(&line, "OMP_PLACES"));
    daemon_line_free(&line);
}

/* Unless its user has set where to look. */
static void open_mpi_does_not_look_for_devices(void **state)
{
    (void)state;
    unsetenv("HWLOC_COMPONENTS");
    unsetenv("PMIX_MCA_gds");
    struct daemon_line line = made(&config);
    assert_non_null(strstr(variable(&line, "HWLOC_COMPONENTS"), "-pci,-gl,-opencl"));
    assert_string_equal(variable(&line, "PMIX_MCA_gds"), "hash");
    daemon_line_free(&line);
    setenv("HWLOC_COMPONENTS", "-gl", 1);
    line = made(&config);
    assert_string_equal(variable(&line, "HWLOC_COMPONENTS"), "-gl");
    daemon_line_free(&line);
    unsetenv("HWLOC_COMPONENTS");
}

static void root_is_allowed_to_open_mpi_where_we_are_root(void **state)
{
    struct daemon_line line = made(&config);
    const char *once = variable(&line, "OMPI_ALLOW_RUN_AS_ROOT"),
               *twice = variable(&line, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    (void)state;
    assert_int_equal(once != NULL, geteuid() == 0);
    assert_int_equal(twice != NULL, geteuid() == 0);
    daemon_line_free(&line);
}

static void the_interpreter_of_programs_is_told_where_one_was_named(void **state)
{
    struct daemon_config c = config;
    struct daemon_line line = made(&c);
    (void)state;
    assert_null(variable(&line, "EVENSTEP_NODE_PYTHON"));
    daemon_line_free(&line);
    c.python = "/srv/venv/bin/python";
    line = made(&c);
    assert_string_equal(variable(&line, "EVENSTEP_NODE_PYTHON"), "/srv/venv/bin/python");
    daemon_line_free(&line);
}

static void a_range_of_ports_is_kept_to(void **state)
{
    struct daemon_config c = config;
    struct daemon_line line = made(&c);
    (void)state;
    assert_null(mca(&line, "oob_tcp_dynamic_ipv4_ports"));
    assert_null(variable(&line, "EVENSTEP_MCA_btl_tcp_port_min_v4"));
    daemon_line_free(&line);
    c.ports = "20000-20127";
    line = made(&c);
    assert_string_equal(variable(&line, "EVENSTEP_MCA_btl_tcp_port_min_v4"), "20000");
    assert_string_equal(variable(&line, "EVENSTEP_MCA_btl_tcp_port_range_v4"), "128");
    long port = strtol(mca(&line, "oob_tcp_dynamic_ipv4_ports"), NULL, 10);
    assert_in_range(port, 20000, 20127);
    daemon_line_free(&line);
}

/* It contains sockets, and the path of a socket has at most 107 bytes. */
static void an_attempts_folder_is_short_and_its_own(void **state)
{
    char one[64], other[64];
    struct request r = request;
    (void)state;
    daemon_tmp(one, "/dev/shm", &r);
    assert_in_range(strlen(one), 1, 50);
    r.attempt++;
    assert_string_not_equal(one, daemon_tmp(other, "/dev/shm", &r));
    r = request;
    r.daemon++;
    assert_string_not_equal(one, daemon_tmp(other, "/dev/shm", &r));
    r = request;
    r.job[7] = 'x';
    assert_string_not_equal(one, daemon_tmp(other, "/dev/shm", &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_daemon_is_told_what_was_asked_for),
        cmocka_unit_test(the_daemon_starts_no_others),
        cmocka_unit_test(ranks_are_told_of_this_hosts_store_data_and_network),
        cmocka_unit_test(ranks_with_a_user_of_their_own_have_no_other_password),
        cmocka_unit_test(passwords_and_keys_are_in_the_environment_alone),
        cmocka_unit_test(nothing_of_our_environment_is_handed_on_but_what_is_named),
        cmocka_unit_test(open_mpi_does_not_look_for_devices),
        cmocka_unit_test(root_is_allowed_to_open_mpi_where_we_are_root),
        cmocka_unit_test(the_interpreter_of_programs_is_told_where_one_was_named),
        cmocka_unit_test(a_range_of_ports_is_kept_to),
        cmocka_unit_test(an_attempts_folder_is_short_and_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
