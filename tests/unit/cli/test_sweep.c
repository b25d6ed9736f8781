/* `evenstep sweep` and `evenstep sweeps` (cli/jobs/sweep.c). */
#include "tests/unit/cli/fixture.h"

#define ID "0123456789abcdef"
#define SWEEP(state, best)                                                                         \
    "{\"id\": \"" ID "\", \"name\": \"rates\", \"state\": \"" state                                \
    "\", \"metric\": {\"name\": \"test_accuracy\"}, "                                              \
    "\"counts\": {\"trials\": 2, \"jobs\": 2, \"ended\": 1}, \"best\": " best                      \
    ", \"parameters\": [{\"pointer\": \"/optimizer/learning_rate\"}, {\"pointer\": \"/model\"}], " \
    "\"trials\": [{\"number\": 1, \"state\": \"succeeded\", \"settings\": "                        \
    "{\"/optimizer/learning_rate\": 0.1, \"/model\": \"mlp\"}, \"metric\": 0.75, "                 \
    "\"spread\": null, \"jobs\": [{\"id\": \"" ID                                                  \
    "\"}]}, {\"number\": 2, \"state\": \"waiting\", \"settings\": "                                \
    "{\"/optimizer/learning_rate\": 0.01, \"/model\": \"lenet5\"}, \"metric\": null, "             \
    "\"spread\": null, \"jobs\": []}]}"
#define BEST "{\"trial\": 1, \"metric\": 0.75}"

static const char shown[] =
    "succeeded: 1 of 2 jobs have ended, 2 trials; the best: test_accuracy 0.75, of trial 1\n"
    "  trial  state      learning_rate  model   metric  spread  jobs\n"
    "      1  succeeded            0.1  mlp       0.75       -  " ID
    "\n"
    "      2  waiting             0.01  lenet5       -       -\n";

static void a_sweep_is_started_and_watched_until_its_end(void **state)
{
    char path[] = "/tmp/evenstep-test-XXXXXX";
    (void)state;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "{\"spec\": {}}", 12), 12);
    close(fd);
    char arguments[100];
    snprintf(arguments, sizeof arguments, "--watch %s", path);
    answers(201, SWEEP("running", "null"));
    answers(200, SWEEP("running", "null"));
    answers(200, SWEEP("succeeded", BEST));
    run("sweep", arguments);
    unlink(path);
    assert_int_equal(ran.status, 0);
    assert_asked(0, "POST /api/v1/sweeps");
    assert_said(service.asked[0], "{\"spec\":{}}");
    assert_asked(2, "GET /api/v1/sweeps/" ID);
    assert_said(ran.out, ID "\nrunning: 1 of 2 jobs have ended, 2 trials\n");
    assert_said(ran.out, shown);
}

static void a_dry_run_shows_the_trials_and_starts_nothing(void **state)
{
    char path[] = "/tmp/evenstep-test-XXXXXX", arguments[100];
    (void)state;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "{\"spec\": {}}", 12), 12);
    close(fd);
    snprintf(arguments, sizeof arguments, "--dry-run %s", path);
    answers(200,
            "{\"valid\": true, \"trials\": 3, \"jobs\": 6, \"rungs\": [], \"settings\": "
            "[{\"/epochs\": 1}, {\"/model\": \"\u202e\"}]}");
    run("sweep", arguments);
    unlink(path);
    assert_int_equal(ran.status, 0);
    assert_asked(0, "POST /api/v1/sweeps?dryRun=true");
    assert_string_equal(ran.out,
                        "3 trials, 6 jobs\n1  {\"/epochs\": 1}\n2  {\"/model\": \"\\\\u202e\"}\n");
}

static void a_sweep_without_a_result_fails_its_command(void **state)
{
    (void)state;
    answers(200, SWEEP("failed", "null"));
    run("sweeps", "--watch --json " ID);
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "no trial has a result");
    json_t *j = json_loads(ran.out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "state")), "failed");
    json_decref(j);
}

static void sweeps_are_listed_and_found_by_name(void **state)
{
    (void)state;
    answers(200, "{\"sweeps\": [" SWEEP("succeeded", BEST) "]}");
    run("sweeps", "");
    assert_asked(0, "GET /api/v1/sweeps?limit=500");
    assert_said(ran.out, ID "  rates  succeeded");
}

static void one_is_found_by_its_name_and_shown(void **state)
{
    (void)state;
    answers(200, "{\"sweeps\": [" SWEEP("succeeded", BEST) "]}");
    answers(200, SWEEP("succeeded", BEST));
    run("sweeps", "rates");
    assert_asked(1, "GET /api/v1/sweeps/" ID);
    assert_string_equal(ran.out, shown);
}

static void one_that_is_not_there_is_said_so_with_the_nearest(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        answers(200, "{\"sweeps\": [" SWEEP("running", "null") "]}");
    }
    run("sweeps", "--cancel raets");
    assert_int_equal(ran.status, 6);
    assert_said(ran.err, "there is no sweep 'raets'");
    assert_said(ran.err, "did you mean 'rates'?");
    for (int i = 0; i < service.n_asked; i++) {
        assert_asked(i, "GET /api/v1/sweeps?limit=500");
    }
}

static void cancelling_asks_for_just_that(void **state)
{
    (void)state;
    answers(200, SWEEP("cancelling", "null"));
    run("sweeps", "--cancel " ID);
    assert_asked(0, "POST /api/v1/sweeps/" ID "/cancel");
    assert_int_equal(ran.status, 0);
}

static void deleting_asks_for_just_that(void **state)
{
    (void)state;
    answers(204, "");
    run("sweeps", "--delete " ID);
    assert_asked(0, "DELETE /api/v1/sweeps/" ID);
    assert_int_equal(ran.status, 0);
}

static void two_things_at_once_are_not_asked(void **state)
{
    (void)state;
    run("sweeps", "--delete --cancel " ID);
    assert_said(ran.err, "exclude each other");
    assert_int_equal(service.n_asked, 0);
}

static void what_is_done_to_a_sweep_needs_one(void **state)
{
    (void)state;
    run("sweeps", "--watch");
    assert_said(ran.err, "which sweep?");
    assert_int_equal(service.n_asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVICE(a_sweep_is_started_and_watched_until_its_end),
        WITH_A_SERVICE(a_dry_run_shows_the_trials_and_starts_nothing),
        WITH_A_SERVICE(a_sweep_without_a_result_fails_its_command),
        WITH_A_SERVICE(sweeps_are_listed_and_found_by_name),
        WITH_A_SERVICE(one_is_found_by_its_name_and_shown),
        WITH_A_SERVICE(one_that_is_not_there_is_said_so_with_the_nearest),
        WITH_A_SERVICE(cancelling_asks_for_just_that),
        WITH_A_SERVICE(deleting_asks_for_just_that),
        WITH_A_SERVICE(two_things_at_once_are_not_asked),
        WITH_A_SERVICE(what_is_done_to_a_sweep_needs_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
