/* Sweeps over the API (http/api/sweeps.c): how they are checked, owned and shown. The coordinator
 * runs them (tests/unit/coordinator/test_sweeps.c). */
#include "tests/unit/http/fixture.h"

#include "job/sweep/sweep.h"
#include "store/sweeps.h"

#define SWEEPS "/api/v1/sweeps"
#define BODY(parameters) \
    "{\"spec\": " SPEC("s") ", \"method\": {\"type\": \"grid\"}, \"parameters\": " parameters "}"
#define RATES BODY("[{\"pointer\": \"/optimizer/learning_rate\", \"values\": [1, 2, 3, 4, 5, 6]}]")

static void start(struct site *s, const char *body, char id[STORE_ID])
{
    struct answer a = post(s, SWEEPS, body);
    expect_status(&a, 201);
    snprintf(id, STORE_ID, "%s", text_at(a.json, "/id"));
    answer_release(&a);
}

static long status_of(struct site *s, const char *token, const char *method, const char *path)
{
    struct answer a = ask(s, (struct ask){.method = method, .path = path, .token = token});
    long status = a.status;
    answer_release(&a);
    return status;
}

/* How many plans a sweep took. */
static int plans_of(struct site *s, const char *body)
{
    char id[STORE_ID];
    s->planned = 0;
    start(s, body, id);
    return s->planned;
}

static void machines_are_asked_about_what_differs_for_them(void **state)
{
    struct site *s = *state;
    assert_int_equal(plans_of(s, RATES), 1);
    assert_int_equal(plans_of(s, BODY("[{\"pointer\": \"/workers\", \"values\": [1, 2]}]")), 2);
    assert_int_equal(
        plans_of(s, BODY("[{\"pointer\": \"/epochs\", \"values\": [1, 2, 3, 4, 5, 6]}]")), 4);
}

/* A program is code: the right to run it is checked for each user. */
static void every_program_is_asked_about(void **state)
{
    static const char programs[] =
        "{\"spec\": {\"strategy\": {\"type\": \"sync\"}, \"batching\": {\"global_batch\": 8, "
        "\"policy\": \"equal\"}, \"program\": {\"name\": \"p\"}}, "
        "\"method\": {\"type\": \"grid\"}, "
        "\"parameters\": [{\"pointer\": \"/program/args\", \"values\": [[\"1\"], [\"2\"], [\"3\"], "
        "[\"4\"], [\"5\"], [\"6\"]]}]}";
    struct site *s = *state;
    assert_int_equal(plans_of(s, programs), 6);
}

static void what_machines_say_stands_where_the_value_came_from(void **state)
{
    struct site *s = *state;
    s->plan_problem = "there is no such data set";
    struct answer a = post(s, SWEEPS, RATES),
                  b = post(s, SWEEPS, BODY("[{\"pointer\": \"/data/path\", \"values\": [\"a\"]}]"));
    s->plan_problem = NULL;
    expect_problem(&a, 422, "/spec/data/path");
    expect_problem(&b, 422, "/parameters/0");
    answer_release(&a);
    answer_release(&b);
}

static void a_mistake_of_all_trials_is_told_once(void **state)
{
    struct site *s = *state;
    struct answer a =
        post(s, SWEEPS,
             "{\"spec\": {\"name\": \"x\", \"modle\": 1, " GLYPHS
             "}, \"method\": {\"type\": "
             "\"grid\"}, \"parameters\": [{\"pointer\": \"/epochs\", \"values\": [1, 2, 0]}]}");
    expect_status(&a, 422);
    const json_t *errors = json_object_get(a.json, "errors");
    assert_int_equal(json_array_size(errors), 2);
    assert_string_equal(text_at(a.json, "/errors/0/pointer"), "/spec/modle");
    assert_string_equal(text_at(a.json, "/errors/1/pointer"), "/parameters/0");
    assert_non_null(strstr(text_at(a.json, "/errors/1/message"), "trial 3: "));
    answer_release(&a);
}

static void a_dry_run_says_what_there_would_be_and_starts_nothing(void **state)
{
    static const char dry[] = SWEEPS "?dryRun=true";
    struct site *s = *state;
    struct answer before = get(s, SWEEPS), grid = post(s, dry, RATES),
                  halving = post(s, dry,
                                 "{\"spec\": " SPEC("s") ", \"method\": {\"type\": \"halving\", "
                                 "\"trials\": 10, \"eta\": 3, \"rungs\": [1, 3, 9]}, \"seeds\": 2, "
                                 "\"parameters\": [{\"pointer\": \"/optimizer/learning_rate\", "
                                 "\"range\": [0.01, 1], \"scale\": \"log\"}]}"),
                  bad = post(s, dry, BODY("[{\"pointer\": \"/epochs\", \"values\": [0]}]")),
                  after = get(s, SWEEPS);
    expect_status(&grid, 200);
    assert_int_equal(number_at(grid.json, "/trials"), 6);
    assert_int_equal(number_at(grid.json, "/jobs"), 6);
    assert_int_equal(json_array_size(json_object_get(grid.json, "settings")), 6);
    expect_status(&halving, 200);
    assert_int_equal(number_at(halving.json, "/jobs"), 2 * (10 + 3 + 1));
    assert_int_equal(number_at(halving.json, "/rungs/1/trials"), 3);
    assert_int_equal(number_at(halving.json, "/rungs/2/epochs"), 9);
    expect_problem(&bad, 422, "/parameters/0");
    assert_string_equal(before.body, after.body);
    answer_release(&before);
    answer_release(&grid);
    answer_release(&halving);
    answer_release(&bad);
    answer_release(&after);
}

static void its_maker_and_admins_cancel_it_and_nobody_else(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[100], cancel[120];
    start(s, RATES, id); /* by the admin */
    snprintf(path, sizeof path, SWEEPS "/%s", id);
    snprintf(cancel, sizeof cancel, "%s/cancel", path);
    assert_int_equal(status_of(s, s->viewer_token, "GET", path), 200);
    assert_int_equal(status_of(s, s->viewer_token, "POST", cancel), 403);
    assert_int_equal(status_of(s, s->operator_token, "POST", cancel), 403);
    assert_int_equal(status_of(s, s->operator_token, "DELETE", path), 403);
    assert_int_equal(status_of(s, s->token, "DELETE", path), 409);
    assert_int_equal(status_of(s, s->token, "POST", cancel), 200);
    assert_int_equal(status_of(s, s->token, "POST", cancel), 200); /* it is still at it */
    OK(store_sweep_change(s->store, id, NULL, SWEEP_CANCELLING, SWEEP_CANCELLED, &err_));
    assert_int_equal(status_of(s, s->token, "POST", cancel), 409);
    assert_int_equal(status_of(s, s->token, "DELETE", path), 204);
    assert_int_equal(status_of(s, s->token, "GET", path), 404);
    assert_int_equal(status_of(s, s->token, "GET", SWEEPS "/nope"), 404);
}

static void set_jobs(struct site *s, const char *id, const char *text)
{
    json_t *jobs = json_of(text);
    OK(store_sweep_change(s->store, id, jobs, SWEEP_RUNNING, SWEEP_RUNNING, &err_));
    json_decref(jobs);
}

#define JOB(state, metric) \
    "{\"job\": \"0123456789abcdef\", \"state\": \"" state "\", \"metric\": " metric "}"

static void trials_are_shown_with_what_became_of_them(void **state)
{
    static const char *const states[] = {"succeeded", "failed",  "failed",
                                         "cancelled", "running", "waiting"};
    struct site *s = *state;
    char id[STORE_ID], path[100];
    start(s, RATES, id);
    snprintf(path, sizeof path, SWEEPS "/%s", id);
    set_jobs(s, id,
             "[" JOB("succeeded", "0.5") ", " JOB("succeeded", "null") ", " JOB(
                 "failed", "0.9") ", " JOB("cancelled", "0.9") ", " JOB("running", "0.7") "]");
    struct answer a = get(s, path);
    for (size_t i = 0; i < 6; i++) {
        json_t *trial = json_array_get(json_object_get(a.json, "trials"), i);
        assert_string_equal(text_at(trial, "/state"), states[i]);
        assert_int_equal((int)number_at(trial, "/number"), i + 1);
    }
    assert_int_equal((int)number_at(a.json, "/best/trial"), 1);
    assert_int_equal((int)number_at(a.json, "/counts/active"), 1);
    assert_int_equal((int)number_at(a.json, "/counts/failed"), 1);
    answer_release(&a);
}

static void those_of_a_halving_that_do_not_go_on_are_stopped(void **state)
{
    static const char *const states[] = {"stopped", "running", "stopped", "failed"};
    struct site *s = *state;
    char id[STORE_ID], path[100];
    start(s,
          "{\"spec\": " SPEC("h") ", \"method\": {\"type\": \"halving\", \"trials\": 4, \"eta\": "
          "4, \"rungs\": [1, 2]}, \"parameters\": [{\"pointer\": \"/optimizer/learning_rate\", "
          "\"range\": [0.1, 1]}]}",
          id);
    snprintf(path, sizeof path, SWEEPS "/%s", id);
    set_jobs(s, id,
             "[" JOB("succeeded", "0.5") ", " JOB("succeeded", "0.8") ", " JOB(
                 "succeeded", "0.1") ", " JOB("failed", "null") ", " JOB("running", "0.6") "]");
    struct answer a = get(s, path);
    for (size_t i = 0; i < 4; i++) {
        json_t *trial = json_array_get(json_object_get(a.json, "trials"), i);
        assert_string_equal(text_at(trial, "/state"), states[i]);
        assert_int_equal((int)number_at(trial, "/rung"), i == 1 ? 2 : 1);
    }
    assert_int_equal((int)number_at(a.json, "/best/trial"), 2);
    answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_asked_about_what_differs_for_them),
        cmocka_unit_test(every_program_is_asked_about),
        cmocka_unit_test(what_machines_say_stands_where_the_value_came_from),
        cmocka_unit_test(a_mistake_of_all_trials_is_told_once),
        cmocka_unit_test(a_dry_run_says_what_there_would_be_and_starts_nothing),
        cmocka_unit_test(its_maker_and_admins_cancel_it_and_nobody_else),
        cmocka_unit_test(trials_are_shown_with_what_became_of_them),
        cmocka_unit_test(those_of_a_halving_that_do_not_go_on_are_stopped),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
