/* libevenstep when a rank ends, a program forks or gets signals, and without a rank. */
#include "tests/unit/client/joining.h"

#include <signal.h>
#include <sys/time.h>

/* ---- ends, forks, signals -------------------------------------------------------------------- */

static int outlives_the_rank(void)
{
    struct es_run run;
    struct es_slice a;

    MUST(join(&run, 0) == 0);
    MUST(es_next(&a) < 0 && strstr(es_error(), "has ended"));
    MUST(es_log("{}") < 0);
    return 0;
}

static void test_the_ranks_end_is_a_sentence(void **state)
{
    struct standin r;

    standin_run(&r, outlives_the_rank);
    start(&r);
    close(r.fd);
    r.fd = -1;
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

/* The program's child reports by its exit status whether it was refused, and lives on until the
 * test has seen the program's socket end. */
static int forks(void)
{
    struct es_run run;
    struct es_slice a;
    pid_t child;

    MUST(join(&run, 0) == 0);
    child = fork();
    if (child == 0) {
        sleep(es_next(&a) < 0 && strstr(es_error(), "forked child") ? 20 : 0);
        _exit(0);
    }
    MUST(es_next(&a) == 1);
    printf("%d\n", (int)child);
    run.params[0] = (float)child;
    return 0;
}

static void test_a_forked_child_is_refused_and_holds_no_socket(void **state)
{
    struct wire_message m;
    struct standin r;
    pid_t child;

    standin_run(&r, forks);
    start(&r);
    standin_slice(&r, 0, 1, 0);
    assert_int_equal(recv(r.fd, &m, sizeof(m), 0), 0);
    assert_int_equal(standin_exit(&r), 0);
    child = (pid_t)r.params[0];
    assert_int_equal(kill(child, 0), 0);
    kill(child, SIGKILL);
    standin_end(&r);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    alarms++;
}

static int is_interrupted(void)
{
    const struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    const struct itimerval often = {{0, 500}, {0, 500}};
    struct es_run run;
    struct es_slice a;

    MUST(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    MUST(join(&run, 0) == 0);
    for (int64_t i = 0; i < 50; i++) {
        MUST(es_next(&a) == 1 && a.number == i && es_begin(i) == 0 && es_gradients(NULL) == 0);
    }
    MUST(alarms > 5);
    return es_leave();
}

static void test_signals_do_not_end_a_wait(void **state)
{
    struct standin r;

    standin_run(&r, is_interrupted);
    start(&r);
    for (int64_t i = 0; i < 50; i++) {
        usleep(1000);
        standin_slice(&r, i, 1, 0);
        standin_get(&r, WIRE_BEGIN, NULL);
        for (int b = 0; b < 3; b++) {
            standin_get(&r, WIRE_BUCKET, NULL);
        }
        standin_get(&r, WIRE_GRADIENTS, NULL);
        standin_say(&r, WIRE_GO, 0);
    }
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

enum { EMPTY = 9 * SLOTS };

static int hears_of_many_epochs(void)
{
    struct es_run run;
    struct es_slice a;

    MUST(join(&run, 0) == 0);
    MUST(es_next(&a) == 1 && es_begin(0) == 0 && es_gradients(NULL) == ES_GO_STEP);
    for (int64_t i = 0; i < EMPTY; i++) {
        MUST(es_next(&a) == 1 && a.number == -1 && a.epoch_last && a.epoch == i);
    }
    MUST(es_next(&a) == 1 && a.number == 1 && a.epoch == EMPTY && es_begin(1) == 0);
    MUST(es_gradients(NULL) == ES_GO_STEP);
    return es_leave();
}

/* Other ranks had all samples of these epochs within one step of this program. */
static void test_any_number_of_epochs_may_end_within_a_step(void **state)
{
    struct wire_message m = {.type = WIRE_SLICE, .flags = WIRE_NO_STEP | WIRE_EPOCH_LAST};
    struct standin r;

    standin_run(&r, hears_of_many_epochs);
    r.bucket_floats = 8;
    start(&r);
    standin_slice(&r, 0, 3, 0);
    standin_get(&r, WIRE_BEGIN, NULL);
    standin_get(&r, WIRE_GRADIENTS, NULL);
    for (m.slice.epoch = 0; m.slice.epoch < EMPTY; m.slice.epoch++) {
        standin_put(&r, m, -1);
    }
    m.flags = 0;
    m.slice.number = m.slice.slot = 1;
    m.slice.count = m.slice.step_count = 3;
    standin_put(&r, m, -1);
    standin_say(&r, WIRE_GO, 0);
    standin_get(&r, WIRE_GRADIENTS, NULL);
    standin_say(&r, WIRE_GO, 0);
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

/* ---- alone ----------------------------------------------------------------------------------- */

static void test_alone_every_sample_of_an_epoch_comes_once(void **state)
{
    int seen[2][20] = {{0}}, steps = 0, rc;
    struct es_run run;
    struct es_slice s;

    unsetenv("EVENSTEP_SOCKET");
    assert_int_equal(es_alone(), 1);
    assert_int_equal(join(&run, 0), 0);
    assert_true(run.workers == 1 && run.params[5] == 6);
    while ((rc = es_step(&s)) == 1) {
        for (int64_t i = 0; i < s.count; i++) {
            seen[s.epoch][s.indices[i]]++;
        }
        run.grads[0] = (float)++steps;
        assert_int_equal(es_gradients(NULL), ES_GO_STEP);
        assert_true(run.grads[0] == (float)steps);
        assert_int_equal(s.epoch_last, steps % 3 == 0);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(steps, 6);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(seen[i / 20][i % 20], 1);
    }
    assert_int_equal(es_leave(), 0);
    assert_true(es_next(&s) < 0 && strstr(es_error(), "has left"));
}

static int is_refused_late(void)
{
    struct es_run run;
    struct es_slice s;

    MUST(join(&run, 0) == 0 && es_next(&s) == 1 && es_begin(0) == 0);
    MUST(es_log("{\"a\": 1}") == 0); /* which the rank does not read */
    MUST(es_gradients(NULL) < 0 && strstr(es_error(), "another rank failed"));
    return 0;
}

/* The kernel first reports that the program's message was not read, and then delivers the
 * rank's. */
static void test_what_the_rank_said_last_is_heard_before_its_end(void **state)
{
    struct standin r;
    int file = memfd_create("text", 0);
    char any;

    standin_run(&r, is_refused_late);
    start(&r);
    standin_slice(&r, 0, 3, 0);
    standin_get(&r, WIRE_BEGIN, NULL);
    assert_true(recv(r.fd, &any, 1, MSG_PEEK) == 1); /* its log lies there */
    assert_true(write(file, "another rank failed", 19) == 19);
    standin_put(&r, (struct wire_message){.type = WIRE_REFUSED}, file);
    close(file);
    close(r.fd);
    r.fd = -1;
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ranks_end_is_a_sentence),
        cmocka_unit_test(test_a_forked_child_is_refused_and_holds_no_socket),
        cmocka_unit_test(test_signals_do_not_end_a_wait),
        cmocka_unit_test(test_any_number_of_epochs_may_end_within_a_step),
        cmocka_unit_test(test_what_the_rank_said_last_is_heard_before_its_end),
        /* last: this process then is the one that joined */
        cmocka_unit_test(test_alone_every_sample_of_an_epoch_comes_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
