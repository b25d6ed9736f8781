/* The private redis-server: it is found again, restarted after a kill, works in long folders, and
 * keeps everything that it had accepted. */
#include "tests/unit/store/fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

static void wait_gone(int pid, uint64_t ticks)
{
    double until = clock_now() + 60;
    while (proc_alive(pid, ticks)) {
        assert_true(clock_now() < until);
        clock_sleep(0.002);
    }
}

static void a_second_start_finds_the_first(void **state)
{
    struct place *p = *state;
    char url[512];
    int pid = 0;
    assert_int_equal(redis_private_start(p->dir, url, &pid, &err_), SERVER_WAS_THERE);
    assert_string_equal(url, p->url);
    assert_int_equal(pid, p->pid);
    assert_true(pid > 1);
}

struct starter {
    const char *dir;
    char url[512];
    int pid, rc;
};

static void *start(void *arg)
{
    struct starter *s = arg;
    struct err e;
    s->rc = redis_private_start(s->dir, s->url, &s->pid, &e);
    return NULL;
}

static void two_who_start_at_once_get_one_server(void **state)
{
    char dir[] = "/tmp/evenstep-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    pthread_t threads[3];
    struct starter starters[3];
    int started = 0;
    for (int i = 0; i < 3; i++) {
        starters[i] = (struct starter){.dir = dir};
        assert_int_equal(pthread_create(&threads[i], NULL, start, &starters[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_true(starters[i].rc >= 0);
        started += starters[i].rc;
        assert_int_equal(starters[i].pid, starters[0].pid);
    }
    assert_int_equal(started, 1);
    redis_private_stop(dir);
    assert_int_equal(proc_remove_tree(dir, &err_), 0);
}

static void after_a_kill_it_starts_anew_with_every_accepted_job(void **state)
{
    struct place *p = *state;
    char id[50][STORE_ID];
    for (int i = 0; i < 50; i++) {
        new_job(p->store, "{\"name\":\"kept\"}", 0, id[i]);
    }
    uint64_t ticks = proc_start_ticks(p->pid);
    kill(p->pid, SIGKILL); /* leaves a stale socket and pid file */
    wait_gone(p->pid, ticks);
    assert_int_equal(store_ping(p->store, &err_), -ERR_UNAVAILABLE);
    assert_null(store_job_get(p->store, id[0], &err_));
    assert_int_equal(err_.code, ERR_UNAVAILABLE);
    char url[512];
    assert_int_equal(redis_private_start(p->dir, url, &p->pid, &err_), SERVER_STARTED);
    for (int i = 0; i < 50; i++) {
        json_t *job =
            store_job_get(p->store, id[i], &err_); /* the same connection object connects again */
        assert_non_null(job);
        assert_string_equal(text_at(job, "/state"), "queued");
        json_decref(job);
    }
}

static void a_restart_between_two_calls_costs_no_call(void **state)
{
    struct place *p = *state;
    char url[512];
    OK(store_ping(p->store, &err_));
    redis_private_stop(p->dir);
    OK(redis_private_start(p->dir, url, &p->pid, &err_));
    OK(store_ping(p->store, &err_));
}

static void one_that_stands_still_is_said_to_be_late(void **state)
{
    struct place *p = *state;
    OK(store_ping(p->store, &err_));
    kill(p->pid, SIGSTOP);
    int rc = store_ping(p->store, &err_);
    kill(p->pid, SIGCONT);
    assert_int_equal(rc, -ERR_UNAVAILABLE);
    assert_non_null(strstr(err_.message, "is away: it did not answer in time"));
    err_clear(&err_);
    OK(store_ping(p->store, &err_));
}

static void a_server_that_lost_its_socket_is_ended_before_another_starts(void **state)
{
    struct place *p = *state;
    char url[512];
    int old = p->pid;
    uint64_t ticks = proc_start_ticks(old);
    OK(unlink(p->url + 5));
    assert_int_equal(redis_private_start(p->dir, url, &p->pid, &err_), SERVER_STARTED);
    assert_false(proc_alive(old, ticks));
    assert_int_not_equal(p->pid, old);
}

static void a_folder_too_long_for_a_socket_gets_a_short_one(void **state)
{
    char root[] = "/tmp/evenstep-test-XXXXXX", dir[300], name[110], path[400], url[512], again[512];
    assert_non_null(mkdtemp(root));
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    snprintf(dir, sizeof dir, "%s/%s", root, name);
    int pid = 0, found = 0;
    OK(redis_private_start(dir, url, &pid, &err_));
    assert_true(strlen(url) < 60);
    snprintf(path, sizeof path, "%s/redis.path", dir);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(redis_private_start(dir, again, &found, &err_), SERVER_WAS_THERE);
    assert_string_equal(url, again);
    assert_int_equal(pid, found);
    struct store *s = store_open(url, NULL, &err_);
    OK(store_ping(s, &err_));
    store_close(s);
    redis_private_stop(dir);
    assert_int_not_equal(access(url + 5, F_OK), 0);
    OK(proc_remove_tree(root, &err_));
}

static void addresses_that_are_none_are_refused_with_the_reason(void **state)
{
    static const char *const bad[] = {"",
                                      "http://x",
                                      "unix:",
                                      "redis://",
                                      "redis://h:0",
                                      "redis://h:x",
                                      "redis://h/db",
                                      "redis://user:secret@h",
                                      "unix:/tmp/x?nodb=1",
                                      "redis://[::1",
                                      "redis://h?ca=/a",
                                      "rediss://h?ca=",
                                      "rediss://h/0?sni=x",
                                      "rediss://h?cert=/c",
                                      "rediss://h?key=/k&ca=/a",
                                      "rediss://h/db?ca=/a",
                                      "rediss://user:secret@h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(store_open(bad[i], NULL, &err_));
        assert_int_equal(err_.code, ERR_INVALID);
        assert_null(strstr(err_.message, "secret"));
    }
    struct store *s = store_open("unix:/nowhere/at/all.sock?db=2", NULL, &err_);
    assert_non_null(s);
    assert_int_equal(store_ping(s, &err_), -ERR_UNAVAILABLE);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_start_finds_the_first),
        cmocka_unit_test(two_who_start_at_once_get_one_server),
        cmocka_unit_test(after_a_kill_it_starts_anew_with_every_accepted_job),
        cmocka_unit_test(a_restart_between_two_calls_costs_no_call),
        cmocka_unit_test(one_that_stands_still_is_said_to_be_late),
        cmocka_unit_test(a_server_that_lost_its_socket_is_ended_before_another_starts),
        cmocka_unit_test(a_folder_too_long_for_a_socket_gets_a_short_one),
        cmocka_unit_test(addresses_that_are_none_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
