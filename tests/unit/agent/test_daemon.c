/* The life of a host's daemons (agent/daemon.c), with a clock that the test moves: leases, ends,
 * answers, and that nothing is left over. A script replaces Open MPI's daemon; it is found because
 * a daemon's PATH begins with the folder of the program that starts it.
 */
#include "tests/unit/store/fixture.h"

#include <limits.h>
#include <sys/stat.h>

#include "agent/daemon_parts.h"
#include "common/path.h"

/* The script's behaviour depends on the job. */
static const char script[] =
    "#!/bin/sh\n"
    "case $EVENSTEP_JOB in\n"
    "e*) echo first; echo '------'; echo the last words; exit 7 ;;\n"
    "c*) setsid sleep 300 & ;;\n"
    "esac\n"
    "exec sleep 300\n";
static const double patience = 60;

struct host {
    struct place *place;
    char orted[PATH_MAX + 8];
    struct sign_key key;
    struct daemon_config config;
    struct daemons *daemons;
    double now;
};

static int open_host(void **state)
{
    struct host *h = calloc(1, sizeof *h);
    char here[PATH_MAX];
    path_program_dir(here);
    snprintf(h->orted, sizeof h->orted, "%s/orted", here);
    if (place_open((void **)&h->place) < 0 || sign_random(&h->key, &err_) < 0 ||
        proc_write_file(h->orted, script, sizeof script - 1, 0755, &err_) < 0) {
        return -1;
    }
    h->config = (struct daemon_config){.host = "beta",
                                       .store_url = h->place->url,
                                       .data_roots = "/nowhere",
                                       .data_dir = h->place->dir,
                                       .network = "127.0.0.0/8"};
    h->daemons = daemons_new(&h->config, &err_);
    h->now = 1000;
    *state = h;
    return h->daemons ? 0 : -1;
}

static int close_host(void **state)
{
    struct host *h = *state;
    daemons_free(h->daemons, 3);
    unlink(h->orted);
    place_close((void **)&h->place);
    free(h);
    return 0;
}

/* `job` is the first digit of the job and of the nonce. The other digits are this process's own,
 * because they name folders in /tmp and marks of processes. */
static struct request start(struct host *h, char job)
{
    struct request r = {.attempt = 1,
                        .family = 77,
                        .daemon = 1,
                        .daemons = 2,
                        .nodes = "vm,es-beta@0(2)",
                        .mpirun = "77.0;tcp://127.0.0.1:9",
                        .seal = "0123456789abcdef"};
    snprintf(r.job, sizeof r.job, "%c%07x%08x", job, (unsigned)getpid(), 0);
    snprintf(r.nonce, sizeof r.nonce, "%s%s%s%s", r.job, r.job, r.job, r.job);
    OK(daemons_start(h->daemons, &r, &err_));
    return r;
}

static void give_lease(struct host *h, const struct request *r, int seconds)
{
    char name[96];
    snprintf(name, sizeof name, "launch.%s", r->nonce);
    OK(store_lease_set(h->place->store, name, seconds, &err_));
}

static void tick(struct host *h, double seconds)
{
    h->now += seconds;
    daemons_tick(h->daemons, h->place->store, &h->key, h->now);
}

/* The opened answer in the request's box; NULL: there is none. */
static json_t *answer(struct host *h, const struct request *r)
{
    char box[96];
    snprintf(box, sizeof box, "answer.%s", r->nonce);
    char *text = store_mail_take(h->place->store, box, 0, &err_);
    json_t *body = text ? sign_open(&h->key, "answer", text, &err_) : NULL;
    assert_int_equal(text != NULL, body != NULL);
    free(text);
    return body;
}

static void assert_ended(struct host *h, const struct request *r, int code, const char *message)
{
    json_t *body = answer(h, r);
    assert_non_null(body);
    assert_string_equal(text_at(body, "/state"), "ended");
    assert_string_equal(text_at(body, "/nonce"), r->nonce);
    assert_string_equal(text_at(body, "/message"), message);
    assert_int_equal((int)number_at(body, "/code"), code);
    json_decref(body);
}

static bool folders_are_there(const struct request *r)
{
    char a[64], b[64];
    bool there = access(daemon_tmp(a, "/tmp", r), F_OK) == 0;
    assert_int_equal(there, access(daemon_tmp(b, "/dev/shm", r), F_OK) == 0);
    return there;
}

static int processes_of(const struct request *r)
{
    char mark[96];
    snprintf(mark, sizeof mark, "EVENSTEP_LAUNCH=%s", r->nonce);
    const char *const marks[] = {mark, NULL};
    return proc_signal_marked(marks, 0);
}

static void until_there_are(const struct request *r, int processes)
{
    for (double until = clock_now() + patience; processes_of(r) != processes;) {
        assert_true(clock_now() < until);
    }
}

static void a_daemon_that_ends_is_answered_with_its_code_and_last_words(void **state)
{
    struct host *h = *state;
    struct request r = start(h, 'e');
    give_lease(h, &r, 600);
    assert_int_equal(daemons_running(h->daemons), 1);
    for (double until = clock_now() + patience; daemons_running(h->daemons) > 0;) {
        assert_true(clock_now() < until);
        tick(h, 0);
    }
    assert_ended(h, &r, 7, "the last words");
    assert_false(folders_are_there(&r));
    give_lease(h, &r, 0);
}

static void a_daemon_whose_lease_is_kept_goes_on(void **state)
{
    struct host *h = *state;
    struct request r = start(h, 'a');
    give_lease(h, &r, 600);
    for (int i = 0; i < 100; i++) {
        tick(h, 1);
    }
    assert_int_equal(daemons_running(h->daemons), 1);
    assert_true(folders_are_there(&r));
    assert_null(answer(h, &r));
}

static void a_daemon_whose_lease_is_gone_for_five_seconds_is_ended(void **state)
{
    struct host *h = *state;
    struct request r = start(h, 'b');
    tick(h, 1);
    tick(h, 4.9);
    assert_int_equal(daemons_running(h->daemons), 1);
    tick(h, 1);
    assert_int_equal(daemons_running(h->daemons), 0);
    assert_ended(h, &r, -1, "mpirun on the coordinator's host is gone");
    assert_int_equal(processes_of(&r), 0);
    assert_false(folders_are_there(&r));
}

static void a_lease_that_comes_back_counts_from_anew(void **state)
{
    struct host *h = *state;
    struct request r = start(h, 'd');
    tick(h, 1);
    tick(h, 4);
    give_lease(h, &r, 600);
    tick(h, 1);
    give_lease(h, &r, 0);
    tick(h, 1);
    tick(h, 4.9);
    assert_int_equal(daemons_running(h->daemons), 1);
    tick(h, 1);
    assert_int_equal(daemons_running(h->daemons), 0);
    assert_ended(h, &r, -1, "mpirun on the coordinator's host is gone");
}

/* A restart of Redis ends no training. */
static void a_store_that_is_away_says_nothing_about_leases(void **state)
{
    struct host *h = *state;
    struct store *away = store_open("unix:/nowhere/redis.sock", NULL, &err_), *was;
    start(h, 'a');
    was = h->place->store;
    h->place->store = away;
    for (int i = 0; i < 20; i++) {
        tick(h, 1);
    }
    assert_int_equal(daemons_running(h->daemons), 1);
    h->place->store = was;
    store_close(away);
}

static void what_a_daemon_started_ends_with_it(void **state)
{
    struct host *h = *state;
    struct request r = start(h, 'c');
    until_there_are(&r, 2);
    tick(h, 1);
    tick(h, 5);
    assert_int_equal(daemons_running(h->daemons), 0);
    assert_int_equal(processes_of(&r), 0);
}

static void all_daemons_end_with_their_agent(void **state)
{
    struct host *h = *state;
    struct request one = start(h, 'a'), other = start(h, 'c');
    until_there_are(&other, 2);
    assert_int_equal(daemons_running(h->daemons), 2);
    daemons_free(h->daemons, 3);
    assert_int_equal(processes_of(&one) + processes_of(&other), 0);
    assert_false(folders_are_there(&one) || folders_are_there(&other));
    h->daemons = daemons_new(&h->config, &err_);
}

static void no_port_that_is_free_is_an_error_and_starts_nothing(void **state)
{
    struct host *h = *state;
    struct daemon_config c = h->config;
    struct daemons *d;
    struct request r = start(h, 'a');
    struct err e = {0};
    c.ports = "1-0";
    d = daemons_new(&c, &err_);
    r.attempt = 2;
    assert_int_equal(daemons_start(d, &r, &e), -ERR_UNAVAILABLE);
    assert_non_null(strstr(e.message, "no port of --mpi-ports 1-0 is free"));
    assert_int_equal(daemons_running(d), 0);
    assert_false(folders_are_there(&r));
    daemons_free(d, 3);
}

#define ON_A_HOST(test) cmocka_unit_test_setup_teardown(test, open_host, close_host)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_HOST(a_daemon_that_ends_is_answered_with_its_code_and_last_words),
        ON_A_HOST(a_daemon_whose_lease_is_kept_goes_on),
        ON_A_HOST(a_daemon_whose_lease_is_gone_for_five_seconds_is_ended),
        ON_A_HOST(a_lease_that_comes_back_counts_from_anew),
        ON_A_HOST(a_store_that_is_away_says_nothing_about_leases),
        ON_A_HOST(what_a_daemon_started_ends_with_it),
        ON_A_HOST(all_daemons_end_with_their_agent),
        ON_A_HOST(no_port_that_is_free_is_an_error_and_starts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
