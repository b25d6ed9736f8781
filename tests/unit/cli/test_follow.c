/* Commands that follow a job (cli/jobs/watch.c, cli/jobs/logs.c): their requests, their output, and
 * when they end. */
#include "tests/unit/cli/fixture.h"

#define ID "0123456789abcdef"

/* ---- logs ------------------------------------------------------------------------------------ */

static void the_last_lines_of_a_log_are_printed_and_nothing_that_a_terminal_obeys(void **state)
{
    static const struct {
        const char *arguments, *printed;
    } cases[] = {{ID, "one\ntwo\nth\\u009bree\n"},
                 {ID " --tail 2", "two\nth\\u009bree\n"},
                 {ID " --tail 9", "one\ntwo\nth\\u009bree\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        service_close(state);
        assert_int_equal(service_open(state), 0);
        answers(200, "one\ntwo\nth\xc2\x9bree");
        run("logs", cases[i].arguments);
        assert_int_equal(ran.status, 0);
        assert_asked(0, "GET /api/v1/jobs/" ID "/logs");
        assert_string_equal(ran.out, cases[i].printed);
    }
}

static void a_followed_log_is_read_on_from_where_it_was_until_the_job_ends(void **state)
{
    (void)state;
    answers(200, "{\"state\": \"running\"}");
    answers(206, "one\ntw");
    answers(200, "{\"state\": \"succeeded\"}");
    answers(206, "o\nthree\n");
    run("logs", ID " -f --rank 3");
    assert_int_equal(ran.status, 0);
    assert_asked(1, "GET /api/v1/jobs/" ID "/logs?rank=3");
    assert_said(service.asked[3], "Range: bytes=6-\r\n");
    assert_string_equal(ran.out, "one\ntwo\nthree\n");
}

/* ---- watch ----------------------------------------------------------------------------------- */

static void watch_prints_each_tenth_until_the_job_has_succeeded(void **state)
{
    (void)state;
    answers(
        200,
        "{\"state\": \"running\", \"progress\": {\"fraction\": 0.51, \"step\": 9, \"epochs\": 2}}");
    answers(
        200,
        "{\"state\": \"running\", \"progress\": {\"fraction\": 0.52, \"step\": 9, \"epochs\": 2}}");
    answers(200,
            "{\"state\": \"succeeded\", "
            "\"progress\": {\"fraction\": 1, \"step\": 18, \"epochs\": 2}, "
            "\"metrics\": {\"test_accuracy\": 0.9}}");
    run("watch", ID);
    assert_int_equal(ran.status, 0);
    assert_said(ran.out, "running [");
    assert_said(ran.out, "  51 %  epoch");
    assert_null(strstr(ran.out, "  52 %"));
    assert_said(ran.out, " 100 %  epoch 0.0/2  accuracy 90.00 %");
}

static void watch_says_why_a_job_failed(void **state)
{
    (void)state;
    answers(200, "{\"state\": \"failed\", \"error\": {\"message\": \"it burnt\"}}");
    run("watch", ID);
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "the job failed: it burnt");
}

static void watch_waits_for_a_service_that_comes_back_and_for_no_job_that_is_not_there(void **state)
{
    (void)state;
    answers(503, "{\"detail\": \"the store is away\"}");
    answers(200, "{\"state\": \"succeeded\"}");
    run("watch", ID);
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.err, "");
    service_close(state);
    assert_int_equal(service_open(state), 0);
    answers(503, "{\"detail\": \"the store is away\"}");
    answers(503, "{\"detail\": \"the store is away\"}");
    answers(200, "{\"state\": \"succeeded\"}");
    run("watch", ID);
    assert_int_equal(ran.status, 0);
    assert_said(ran.err, "does not answer");
    assert_said(ran.err, "there again");
    service_close(state);
    assert_int_equal(service_open(state), 0);
    answers(404, "{\"detail\": \"there is no such job\"}");
    run("watch", ID);
    assert_int_equal(ran.status, 6);
    assert_said(ran.err, "there is no such job");
    assert_int_equal(service.n_asked, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVICE(the_last_lines_of_a_log_are_printed_and_nothing_that_a_terminal_obeys),
        WITH_A_SERVICE(a_followed_log_is_read_on_from_where_it_was_until_the_job_ends),
        WITH_A_SERVICE(watch_prints_each_tenth_until_the_job_has_succeeded),
        WITH_A_SERVICE(watch_says_why_a_job_failed),
        WITH_A_SERVICE(watch_waits_for_a_service_that_comes_back_and_for_no_job_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
