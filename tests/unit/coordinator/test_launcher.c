/* Common code of the launchers (coordinator/launchers/process.c), with real processes: small shells
 * instead of mpirun. */
#include "tests/unit/store/fixture.h"

#include <limits.h>
#include <signal.h>

#include "coordinator/launchers/launcher.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/evenstep-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return proc_remove_tree(dir, NULL);
}

static struct attempt run_shell(const char *job, int number, const char *script)
{
    struct attempt a = {.number = number};
    char job_env[64], attempt_env[64];
    snprintf(a.job, sizeof a.job, "%s", job);
    snprintf(job_env, sizeof job_env, "EVENSTEP_JOB=%s", job);
    snprintf(attempt_env, sizeof attempt_env, "EVENSTEP_ATTEMPT=%d", number);
    const char *argv[] = {"sh", "-c", script, NULL}, *env[] = {job_env, attempt_env, NULL};
    OK(attempt_start(dir, &a, argv, env, &err_));
    assert_true(a.pid > 0 && a.start_ticks > 0);
    return a;
}

static const char *const telling[] = {"noticed that process rank", "error", NULL};

static struct attempt_end wait_for_end(const struct attempt *a)
{
    double until = clock_now() + 60;
    struct attempt_end end;
    while (!attempt_poll(dir, a, telling, &end)) {
        assert_true(clock_now() < until);
        clock_sleep(0.01);
    }
    return end;
}

/* The number that the script wrote to the file. */
static pid_t pid_from(const char *name)
{
    char path[200];
    double until = clock_now() + 60;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (;;) {
        char *text = proc_read_file(path, 100, NULL, NULL);
        pid_t pid = text && strchr(text, '\n') ? (pid_t)strtol(text, NULL, 10) : 0;
        free(text);
        if (pid > 0) {
            return pid;
        }
        assert_true(clock_now() < until);
        clock_sleep(0.01);
    }
}

static void it_is_known_when_and_how_an_attempt_ended(void **state)
{
    (void)state;
    struct attempt a = run_shell("00000000000000a1", 1, "read x; exit 3");
    assert_int_equal(wait_for_end(&a).exit_code, 3);
    a = run_shell("00000000000000a1", 2, "kill -9 $$");
    assert_int_equal(wait_for_end(&a).exit_code, 128 + SIGKILL);
}

static void the_line_of_mpirun_that_names_the_culprit_is_found_among_those_of_ranks(void **state)
{
    (void)state;
    struct attempt a = run_shell(
        "00000000000000a2", 1,
        "echo '[1,0]<stderr>:error: not this'; echo ------; echo 'some error of mpirun'; "
        "echo 'mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 "
        "(Killed).'; echo -----; exit 137");
    struct attempt_end end = wait_for_end(&a);
    assert_non_null(strstr(end.why, "process rank 2"));
    struct attempt silent = run_shell("00000000000000a2", 2, "exit 1");
    end = wait_for_end(&silent);
    assert_string_equal(end.why, "");
    struct attempt indented = run_shell("00000000000000a2", 3, "echo '   an error'; exit 1");
    end = wait_for_end(&indented);
    assert_string_equal(end.why, "an error");
}

static struct attempt_end read_end(const char *says)
{
    struct attempt_end end = {.exit_code = 1};
    snprintf(end.why, sizeof end.why, "%s", says);
    mpirun_read_end(&end);
    assert_int_equal(end.exit_code, 1);
    return end;
}

static void what_mpirun_says_tells_which_rank_ended_first_and_how(void **state)
{
    (void)state;
    struct attempt_end end = read_end(
        "mpirun noticed that process rank 12 with PID 0 on node vm "
        "exited on signal 9 (Killed).");
    assert_true(end.named && end.rank == 12 && end.killed && !end.unnamed);
    assert_string_equal(end.why, "exited on signal 9 (Killed).");
    end = read_end(
        "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 11 "
        "(Segmentation fault).");
    assert_true(end.named && end.rank == 0 && !end.killed && !end.unnamed);
}

static void where_mpirun_cannot_name_the_rank_it_is_known_that_ranks_failed(void **state)
{
    (void)state;
    static const char *const unnamed[] = {
        "*** Unknown error",
        "mpirun detected that one or more processes exited with non-zero exit "
        "code, thus causing the job to be terminated"};
    for (int i = 0; i < 2; i++) {
        struct attempt_end end = read_end(unnamed[i]);
        assert_true(end.unnamed && !end.named && !end.killed);
        assert_string_equal(end.why, unnamed[i]);
    }
    struct attempt_end end = read_end("There are not enough slots available in the system");
    assert_true(!end.unnamed && !end.named && !end.killed);
}

static void stragglers_are_found_by_their_environment_and_nobody_else_is_ended(void **state)
{
    (void)state;
    char mine[500], other[500];
    snprintf(mine, sizeof mine,
             "setsid sh -c 'trap \"\" TERM; echo $$ > %s/mine; exec sleep 300' & wait", dir);
    snprintf(other, sizeof other, "echo $$ > %s/other; exec sleep 300", dir);
    struct attempt a = run_shell("00000000000000a3", 1, mine),
                   b = run_shell("00000000000000a3", 2, other);
    pid_t straggler = pid_from("mine"), neighbour = pid_from("other");
    uint64_t ticks = proc_start_ticks(straggler);
    assert_true(proc_alive(straggler, ticks));
    attempt_stop(&a, 1);
    double until = clock_now() + 60;
    while (proc_alive(straggler, ticks)) {
        assert_true(clock_now() < until);
        clock_sleep(0.01);
    }
    assert_true(proc_alive(neighbour, b.start_ticks));
    attempt_stop(&b, 1);
    assert_false(proc_alive(b.pid, b.start_ticks));
}

static void an_attempt_of_a_dead_coordinator_is_told_from_a_stranger_with_its_pid(void **state)
{
    (void)state;
    struct attempt_end end;
    struct attempt a = run_shell("00000000000000a4", 1, "exec sleep 300"), recorded = a;
    recorded.start_ticks++; /* another process has this pid now */
    assert_int_equal(attempt_poll(dir, &recorded, telling, &end), 1);
    assert_int_equal(attempt_poll(dir, &a, telling, &end), 0);
    attempt_stop(&a, 1);
    assert_int_equal(attempt_poll(dir, &a, telling, &end), 1);
}

static void a_program_that_is_not_there_is_an_error_and_no_attempt(void **state)
{
    (void)state;
    struct attempt a = {.job = "00000000000000a5", .number = 1};
    const char *argv[] = {"/nowhere/mpirun", NULL};
    err_clear(&err_);
    assert_true(attempt_start(dir, &a, argv, NULL, &err_) < 0);
    assert_non_null(strstr(err_.message, "/nowhere/mpirun"));
    assert_int_equal(a.pid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_known_when_and_how_an_attempt_ended),
        cmocka_unit_test(the_line_of_mpirun_that_names_the_culprit_is_found_among_those_of_ranks),
        cmocka_unit_test(what_mpirun_says_tells_which_rank_ended_first_and_how),
        cmocka_unit_test(where_mpirun_cannot_name_the_rank_it_is_known_that_ranks_failed),
        cmocka_unit_test(stragglers_are_found_by_their_environment_and_nobody_else_is_ended),
        cmocka_unit_test(an_attempt_of_a_dead_coordinator_is_told_from_a_stranger_with_its_pid),
        cmocka_unit_test(a_program_that_is_not_there_is_an_error_and_no_attempt),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
