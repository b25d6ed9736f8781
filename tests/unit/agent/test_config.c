/* The options of evenstep-agent (agent/config.c): their results, and that each mistake is reported
 * before the agent contacts anybody, with option and value.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config.h"
#include "common/machine/host.h"
#include "common/process/proc.h"

enum { WORDS = 24, WORD = 200 };

static char dir[64];
static struct agent_config config;
static struct err e;

static void write_file(const char *name, const char *text)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(proc_write_file(path, text, strlen(text), 0600, &e), 0);
}

static int setup(void **state)
{
    (void)state;
    unsetenv("EVENSTEP_CONFIG");
    snprintf(dir, sizeof dir, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(dir) || chdir(dir) != 0) { /* the default data folder is made where it starts */
        return -1;
    }
    write_file("secret", "the secret of this cluster\n");
    write_file("password", "a password\nmore\n");
    write_file("worker-password", "another password\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return proc_remove_tree(dir, NULL);
}

/* Parses options, words separated by blanks; @ stands for the test's folder. */
static int read_options(const char *text)
{
    static char words[WORDS][WORD];
    char *argv[WORDS + 1] = {NULL};
    int n = 0;
    for (const char *at = text; *at; n++) {
        size_t len = strcspn(at, " ");
        const char *folder = memchr(at, '@', len);
        bool stands = folder && folder[1] == '/';
        assert_true(n < WORDS);
        snprintf(words[n], WORD, "%.*s%s%.*s", stands ? (int)(folder - at) : (int)len, at,
                 stands ? dir : "", stands ? (int)(at + len - folder - 1) : 0,
                 stands ? folder + 1 : "");
        argv[n] = words[n];
        at += len + (at[len] == ' ');
    }
    err_clear(&e);
    return agent_config_read(&config, NULL, n, argv, &e);
}

#define STORE "--store unix:/run/redis.sock "
#define PLACES "--secret-file @/secret --data-dir @/data "

static void ready(const char *options)
{
    int rc = read_options(options);
    if (rc != 0) {
        fail_msg("%s: %d %s", options, rc, e.message);
    }
}

/* Each of these fails with this code and these words in its message. */
struct mistake {
    const char *options;
    enum err_code code;
    const char *part;
};

static void assert_mistakes(const struct mistake *mistakes)
{
    for (; mistakes->options; mistakes++) {
        int rc = read_options(mistakes->options);
        if (rc != -(int)mistakes->code || !strstr(e.message, mistakes->part)) {
            fail_msg("%s: %d '%s'", mistakes->options, rc, e.message);
        }
        agent_config_release(&config);
    }
}

static const char *node_text(size_t i, const char *key)
{
    return json_string_value(json_object_get(json_array_get(config.nodes, i), key));
}

/* ---- what follows from them ------------------------------------------------------------------ */

static void without_options_the_host_is_one_node_of_all_its_cores(void **state)
{
    char name[48];
    (void)state;
    ready(STORE PLACES);
    host_name(name);
    assert_string_equal(config.host, name);
    assert_int_equal(json_array_size(config.nodes), 1);
    assert_string_equal(node_text(0, "name"), name);
    assert_string_equal(node_text(0, "host"), name);
    assert_int_equal(strncmp(node_text(0, "device"), "cpu:", 4), 0);
    assert_string_equal(config.store, "unix:/run/redis.sock");
    assert_string_equal(config.worker_store, "unix:/run/redis.sock");
    assert_null(config.password);
    assert_null(config.worker_password);
    assert_null(config.ports);
    assert_int_equal(config.cache_bytes, 20000000000);
    agent_config_release(&config);
}

static void nodes_are_of_this_host_and_have_its_versions_and_labels(void **state)
{
    (void)state;
    ready(STORE PLACES "--host beta --node big=cpu:2 --node small=cpu:1,slowdown=4 --label rack=7");
    assert_int_equal(json_array_size(config.nodes), 2);
    assert_string_equal(node_text(0, "name"), "big");
    assert_string_equal(node_text(1, "name"), "small");
    for (size_t i = 0; i < 2; i++) {
        const json_t *node = json_array_get(config.nodes, i);
        assert_string_equal(node_text(i, "host"), "beta");
        assert_true(json_is_true(json_object_get(node, "agent")));
        assert_true(json_equal(json_object_get(node, "versions"), config.versions));
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(node, "labels"), "rack")), "7");
    }
    agent_config_release(&config);
}

static void the_secret_is_that_of_the_file(void **state)
{
    struct sign_key key;
    (void)state;
    ready(STORE PLACES);
    sign_secret("the secret of this cluster", &key);
    assert_memory_equal(&config.secret, &key, sizeof key);
    agent_config_release(&config);
}

static void workers_have_the_agents_user_unless_they_are_given_one(void **state)
{
    (void)state;
    ready("--store redis://agent@10.0.0.1:6379 --store-password-file @/password " PLACES);
    assert_string_equal(config.worker_store, "redis://agent@10.0.0.1:6379");
    assert_string_equal(config.password, "a password");
    assert_string_equal(config.worker_password, "a password");
    agent_config_release(&config);
    ready(
        "--store redis://agent@10.0.0.1:6379 --store-password-file @/password "
        "--worker-user worker --worker-password-file @/worker-password " PLACES);
    assert_string_equal(config.store, "redis://agent@10.0.0.1:6379");
    assert_string_equal(config.password, "a password");
    assert_string_equal(config.worker_store, "redis://worker@10.0.0.1:6379");
    assert_string_equal(config.worker_password, "another password");
    agent_config_release(&config);
    ready("--store redis://10.0.0.1:6379 --worker-user worker " PLACES);
    assert_string_equal(config.worker_store, "redis://worker@10.0.0.1:6379");
    assert_null(config.worker_password);
    agent_config_release(&config);
}

static void the_data_directory_is_made_and_nobody_else_sees_into_it(void **state)
{
    struct stat st;
    char expected[100];
    (void)state;
    ready(STORE "--secret-file @/secret --data-dir @/new/data --data-limit 5");
    assert_int_equal(stat(config.data_dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(config.cache_bytes, 5000000);
    snprintf(expected, sizeof expected, "%s/new/data", dir);
    assert_string_equal(config.data_dir, expected);
    agent_config_release(&config);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void store_and_secret_must_be_given(void **state)
{
    static const struct mistake mistakes[] = {
        {PLACES, ERR_INVALID, "--store is missing"},
        {STORE, ERR_INVALID, "--secret-file is missing"},
        {STORE PLACES "now", ERR_INVALID, "takes options only, not 'now'"},
        {STORE PLACES "--colour red", ERR_INVALID, "colour"},
        {STORE PLACES "--log-level loud", ERR_INVALID, "loud"},
        {0}};
    (void)state;
    assert_mistakes(mistakes);
}

static void files_must_be_there_and_hold_what_they_should(void **state)
{
    static const struct mistake mistakes[] = {
        {STORE "--data-dir @/data --secret-file @/none", ERR_NOT_FOUND, "the cluster's secret"},
        {STORE "--data-dir @/data --secret-file @/short", ERR_INVALID, "less than 16"},
        {STORE PLACES "--store-password-file @/none", ERR_NOT_FOUND, "the store's password"},
        {"--store redis://h:1 --worker-user w --worker-password-file @/none " PLACES, ERR_NOT_FOUND,
         "the store's password"},
        {STORE PLACES "--worker-user w", ERR_INVALID, "only a store at redis://HOST:PORT has"},
        {0}};
    (void)state;
    write_file("short", "too short\n");
    assert_mistakes(mistakes);
    assert_int_equal(read_options(STORE "--secret-file @/secret --data-dir @/secret/data"),
                     -ERR_IO);
    assert_non_null(strstr(e.message, "/secret/data'"));
    agent_config_release(&config);
}

static void names_and_ports_have_their_forms(void **state)
{
    static const struct mistake mistakes[] = {
        {STORE PLACES "--host a_b", ERR_INVALID, "--host 'a_b'"},
        {STORE PLACES "--host aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ERR_INVALID,
         "at most 40"},
        {STORE PLACES "--mpi-ports 1023-2000", ERR_INVALID, "--mpi-ports '1023-2000'"},
        {STORE PLACES "--mpi-ports 65000-65536", ERR_INVALID, "--mpi-ports"},
        {STORE PLACES "--mpi-ports 20000-20006", ERR_INVALID, "at least 8 ports"},
        {STORE PLACES "--mpi-ports 20000", ERR_INVALID, "--mpi-ports"},
        {STORE PLACES "--mpi-ports 20000-20127x", ERR_INVALID, "--mpi-ports"},
        {STORE PLACES "--mpi-ports 20127-20000", ERR_INVALID, "--mpi-ports"},
        {0}};
    (void)state;
    assert_mistakes(mistakes);
    ready(STORE PLACES "--host aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa --mpi-ports 1024-1031");
    assert_string_equal(config.ports, "1024-1031");
    agent_config_release(&config);
    ready(STORE PLACES "--mpi-ports 65528-65535");
    agent_config_release(&config);
}

static void nodes_must_be_possible_on_this_host(void **state)
{
    static const struct mistake mistakes[] = {
        {STORE PLACES "--node a", ERR_INVALID, "--node 'a'"},
        {STORE PLACES "--node a=tpu:1", ERR_INVALID, "is not a device"},
        {STORE PLACES "--node a=cpu:0", ERR_INVALID, "is not a device"},
        {STORE PLACES "--node a=cuda:0", ERR_DEVICE, "this host has 0 GPUs"},
        {STORE PLACES "--node a=cpu:1 --node a=cpu:2", ERR_INVALID, "two nodes of this name"},
        {STORE PLACES "--label rack", ERR_INVALID, "--label 'rack'"},
        {0}};
    (void)state;
    assert_mistakes(mistakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_the_host_is_one_node_of_all_its_cores),
        cmocka_unit_test(nodes_are_of_this_host_and_have_its_versions_and_labels),
        cmocka_unit_test(the_secret_is_that_of_the_file),
        cmocka_unit_test(workers_have_the_agents_user_unless_they_are_given_one),
        cmocka_unit_test(the_data_directory_is_made_and_nobody_else_sees_into_it),
        cmocka_unit_test(store_and_secret_must_be_given),
        cmocka_unit_test(files_must_be_there_and_hold_what_they_should),
        cmocka_unit_test(names_and_ports_have_their_forms),
        cmocka_unit_test(nodes_must_be_possible_on_this_host),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
