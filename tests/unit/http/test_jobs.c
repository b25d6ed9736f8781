/* Jobs over HTTP: their documents, and every mistake in a submission. */
#include "common/clock.h"
#include "tests/unit/http/fixture.h"

#define ID_PATH(path, id, sub) snprintf(path, sizeof path, "/api/v1/jobs/%s%s", id, sub)

static void a_submitted_job_answers_201_with_its_document_and_location(void **state)
{
    struct site *s = *state;
    int woken = s->woken;
    struct answer a = post(s, "/api/v1/jobs", SPEC("first"));
    char location[256], path[64];
    expect_status(&a, 201);
    ID_PATH(path, text_at(a.json, "/id"), "");
    assert_true(header_of(&a, "Location", location));
    assert_string_equal(location, path);
    assert_string_equal(text_at(a.json, "/name"), "first");
    assert_string_equal(text_at(a.json, "/state"), "queued");
    assert_int_equal((int)number_at(a.json, "/attempt"), 0);
    assert_int_equal((int)number_at(a.json, "/spec/workers"), 2);
    assert_true(json_is_string(at(a.json, "/created")));
    static const char *const nulls[] = {"/started",
                                        "/finished",
                                        "/error",
                                        "/metrics/train_loss",
                                        "/metrics/test_loss",
                                        "/metrics/test_accuracy"};
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
        assert_true(json_is_null(at(a.json, nulls[i])));
    }
    static const char *const numbers[] = {
        "/progress/epoch",        "/progress/epochs",        "/progress/step",
        "/progress/samples",      "/progress/fraction",      "/metrics/samples_per_second",
        "/metrics/step_seconds",  "/staleness/update_mean",  "/staleness/node_mean",
        "/staleness/sample_mean", "/staleness/p50",          "/staleness/p95",
        "/staleness/p99",         "/staleness/max",          "/staleness_recent/max",
        "/assignment/version",    "/assignment/global_batch"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_true(json_is_number(at(a.json, numbers[i])));
    }
    assert_true(json_is_array(at(a.json, "/servers")) && json_is_array(at(a.json, "/workers")));
    assert_true(s->woken > woken);
    struct answer b = get(s, path);
    expect_status(&b, 200);
    assert_true(json_equal(a.json, b.json));
    answer_release(&a);
    answer_release(&b);
}

static void a_malformed_document_is_400_with_line_and_column(void **state)
{
    struct site *s = *state;
    static const char *const bad[] = {"{\n  \"name\": \"x\",\n  oops\n}",
                                      "{\"a\": 1, \"a\": 2}",
                                      "",
                                      "{} trailing",
                                      "[1, 2",
                                      "\xff\xfe"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct answer a = post(s, "/api/v1/jobs", bad[i]);
        expect_problem(&a, 400, "");
        assert_int_equal(json_array_size(at(a.json, "/errors")), 1);
        assert_non_null(strstr(text_at(a.json, "/detail"), "line"));
        answer_release(&a);
    }
    struct answer a = post(s, "/api/v1/jobs", bad[0]);
    assert_non_null(strstr(text_at(a.json, "/detail"), "line 3, column"));
    answer_release(&a);
}

static void a_text_with_nul_is_422_since_the_json_is_good(void **state)
{
    struct site *s = *state;
    static const char *const bad[] = {"{\"name\": \"a\\u0000b\"}", "{\"a\\u0000b\": 1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct answer a = post(s, "/api/v1/jobs", bad[i]);
        expect_problem(&a, 422, NULL);
        assert_non_null(strstr(text_at(a.json, "/detail"), "NUL (\\u0000) at line 1"));
        answer_release(&a);
    }
}

static void every_mistake_of_a_spec_is_told_at_once(void **state)
{
    struct site *s = *state;
    struct answer a =
        post(s, "/api/v1/jobs",
             "{\"name\": \"x\", \"modle\": \"mlp\", \"data\": {\"format\": \"glyphs\"}, "
             "\"strategy\": {\"type\": \"synk\"}, "
             "\"workers\": 0, \"epochs\": -1}");
    expect_problem(&a, 422, "/strategy/type");
    expect_problem(&a, 422, "/workers");
    expect_problem(&a, 422, "/epochs");
    expect_problem(&a, 422, "/modle");
    answer_release(&a);
    a = post(s, "/api/v1/jobs", "[]");
    expect_status(&a, 422);
    answer_release(&a);
}

static void what_only_machines_know_is_422_too(void **state)
{
    struct site *s = *state;
    s->plan_problem = "there is no data set 'nowhere'";
    struct answer a = post(s, "/api/v1/jobs", SPEC("nowhere"));
    expect_problem(&a, 422, "/data/path");
    s->plan_problem = NULL;
    answer_release(&a);
    a = get(s, "/api/v1/jobs?q=nowhere");
    assert_int_equal(json_array_size(at(a.json, "/jobs")), 0);
    answer_release(&a);
}

static void a_dry_run_answers_200_and_queues_nothing(void **state)
{
    struct site *s = *state;
    struct answer a = post(s, "/api/v1/jobs?dryRun=true", SPEC("only-asked"));
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/starts"), "now");
    assert_string_equal(text_at(a.json, "/nodes/0/node"), "one");
    assert_int_equal((int)number_at(a.json, "/parameters"), 7850);
    assert_string_equal(text_at(a.json, "/spec/name"), "only-asked");
    answer_release(&a);
    a = get(s, "/api/v1/jobs?q=only-asked");
    assert_int_equal(json_array_size(at(a.json, "/jobs")), 0);
    answer_release(&a);
    a = post(s, "/api/v1/jobs?dryrun=true", SPEC("only-asked"));
    expect_problem(&a, 422, "dryrun");
    answer_release(&a);
}

static void an_idempotency_key_makes_one_job(void **state)
{
    struct site *s = *state;
    struct ask first = {.method = "POST",
                        .path = "/api/v1/jobs",
                        .token = s->token,
                        .body = SPEC("once"),
                        .headers = {"Idempotency-Key: k-1"}};
    struct ask other = first;
    char replayed[256];
    other.body = SPEC("another");
    struct answer a = ask(s, first), b = ask(s, first), c = ask(s, other);
    expect_status(&a, 201);
    expect_status(&b, 201);
    assert_string_equal(text_at(a.json, "/id"), text_at(b.json, "/id"));
    assert_false(header_of(&a, "Idempotency-Replayed", replayed));
    assert_true(header_of(&b, "Idempotency-Replayed", replayed));
    expect_problem(&c, 409, NULL);
    answer_release(&a);
    answer_release(&b);
    answer_release(&c);
    first.headers[1] = "Idempotency-Key: k-2"; /* which of the two? */
    a = ask(s, first);
    expect_problem(&a, 422, NULL);
    answer_release(&a);
}

static void a_list_has_only_the_fields_and_states_that_are_asked_for(void **state)
{
    struct site *s = *state;
    char queued[STORE_ID], running[STORE_ID], cancelled[STORE_ID];
    submit(s, SPEC("some-1"), queued);
    submit(s, SPEC("some-2"), running);
    submit(s, SPEC("some-3"), cancelled);
    move(s, running, JOB_QUEUED, JOB_LAUNCHING);
    move(s, running, JOB_LAUNCHING, JOB_RUNNING);
    move(s, cancelled, JOB_QUEUED, JOB_CANCELLING);
    move(s, cancelled, JOB_CANCELLING, JOB_CANCELLED);
    struct answer a = get(s, "/api/v1/jobs?q=some-&state=running,queued&fields=name,state"),
                  each = get(s,
                             "/api/v1/jobs?q=some-&state=running&state=queued&fields=name"
                             "&fields=state"); /* as clients that were generated ask */
    assert_string_equal(each.body, a.body);
    answer_release(&each);
    expect_status(&a, 200);
    assert_int_equal(json_array_size(at(a.json, "/jobs")), 2);
    assert_string_equal(text_at(a.json, "/jobs/0/id"), running);
    assert_string_equal(text_at(a.json, "/jobs/1/name"), "some-1");
    assert_int_equal(json_object_size(at(a.json, "/jobs/0")), 3);
    answer_release(&a);
    a = get(s,
            "/api/v1/jobs?q=some-&state=cancelled,running,queued&sort=created&limit=2&fields=id");
    assert_string_equal(text_at(a.json, "/jobs/0/id"), queued);
    assert_string_equal(text_at(a.json, "/jobs/1/id"), running);
    char path[200];
    snprintf(path, sizeof path,
             "/api/v1/jobs?q=some-&state=cancelled,running,queued&sort=created&limit=2&cursor=%s",
             text_at(a.json, "/next"));
    answer_release(&a);
    a = get(s, path);
    assert_int_equal(json_array_size(at(a.json, "/jobs")), 1);
    assert_string_equal(text_at(a.json, "/jobs/0/id"), cancelled);
    answer_release(&a);
    a = get(s, "/api/v1/jobs?state=running,,queued&fields=name,colour");
    expect_problem(&a, 422, "state");
    answer_release(&a);
    a = get(s, "/api/v1/jobs?fields=name,colour");
    expect_problem(&a, 422, "fields");
    answer_release(&a);
}

/* Many requests for the same page share one answer; every later answer has a change. */
static void a_list_that_was_kept_shows_every_change_over_http(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[64];
    submit(s, SPEC("kept-list"), id);
    ID_PATH(path, id, "/cancel");
    for (int i = 0; i < 20; i++) {
        struct answer a = get(s, "/api/v1/jobs?q=kept-list");
        assert_string_equal(text_at(a.json, "/jobs/0/state"), "queued");
        answer_release(&a);
    }
    struct answer a = post(s, path, "");
    expect_status(&a, 200);
    answer_release(&a);
    a = get(s, "/api/v1/jobs?q=kept-list");
    assert_string_equal(text_at(a.json, "/jobs/0/state"), "cancelling");
    answer_release(&a);
}

static void jobs_are_listed_by_pages_newest_first(void **state)
{
    struct site *s = *state;
    char ids[3][STORE_ID], path[512];
    for (int i = 0; i < 3; i++) {
        submit(s, SPEC("page"), ids[i]);
    }
    struct answer a = get(s, "/api/v1/jobs?q=page&limit=2");
    expect_status(&a, 200);
    assert_int_equal(json_array_size(at(a.json, "/jobs")), 2);
    assert_string_equal(text_at(a.json, "/jobs/0/id"), ids[2]);
    snprintf(path, sizeof path, "/api/v1/jobs?q=page&limit=2&cursor=%s", text_at(a.json, "/next"));
    answer_release(&a);
    a = get(s, path);
    assert_int_equal(json_array_size(at(a.json, "/jobs")), 1);
    assert_string_equal(text_at(a.json, "/jobs/0/id"), ids[0]);
    assert_true(json_is_null(at(a.json, "/next")));
    answer_release(&a);
    a = get(s, "/api/v1/jobs?state=nonsense&sort=up&limit=0&colour=red");
    expect_problem(&a, 422, "state");
    expect_problem(&a, 422, "sort");
    expect_problem(&a, 422, "limit");
    expect_problem(&a, 422, "colour");
    answer_release(&a);
    a = get(s, "/api/v1/jobs?cursor=nonsense");
    expect_problem(&a, 422, "cursor");
    answer_release(&a);
}

static void a_job_can_be_cancelled_paused_and_resumed(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[96];
    submit(s, SPEC("asked"), id);
    ID_PATH(path, id, "/pause");
    struct answer a = post(s, path, "");
    expect_problem(&a, 409, NULL);
    answer_release(&a);
    move(s, id, JOB_QUEUED, JOB_LAUNCHING);
    move(s, id, JOB_LAUNCHING, JOB_RUNNING);
    a = post(s, path, "");
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/state"), "pausing");
    answer_release(&a);
    move(s, id, JOB_PAUSING, JOB_PAUSED);
    ID_PATH(path, id, "/resume");
    a = post(s, path, "");
    assert_string_equal(text_at(a.json, "/state"), "queued");
    answer_release(&a);
    ID_PATH(path, id, "/cancel");
    a = post(s, path, "");
    assert_string_equal(text_at(a.json, "/state"), "cancelling");
    answer_release(&a);
}

static void what_was_changed_over_http_is_in_every_answer_after_it(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[96], body[40];
    submit(s, SPEC("changed"), id);
    ID_PATH(path, id, "");
    for (int i = 0; i < 100; i++) {
        snprintf(body, sizeof body, "{\"priority\": %d}", i);
        struct answer a =
            ask(s, (struct ask){.method = "PATCH", .path = path, .token = s->token, .body = body});
        expect_status(&a, 200);
        answer_release(&a);
        for (int k = 0; k < 3; k++) { /* the first is made for it, the others are given again */
            a = get(s, path);
            assert_int_equal((int)number_at(a.json, "/priority"), i);
            assert_non_null(strstr(a.headers, "Content-Security-Policy"));
            answer_release(&a);
        }
    }
}

static void what_others_changed_is_in_an_answer_soon(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[96];
    bool seen = false;
    submit(s, SPEC("moved"), id);
    ID_PATH(path, id, "");
    struct answer a = get(s, path);
    answer_release(&a);
    move(s, id, JOB_QUEUED, JOB_LAUNCHING);
    for (double end = clock_now() + 60; !seen && clock_now() < end;) {
        a = get(s, path);
        seen = strcmp(text_at(a.json, "/state"), "launching") == 0;
        answer_release(&a);
    }
    assert_true(seen);
}

static void a_job_that_has_not_ended_is_not_deleted(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[96], folder[160];
    struct stat st;
    submit(s, SPEC("kept"), id);
    ID_PATH(path, id, "");
    snprintf(folder, sizeof folder, "%s/jobs/%s/logs", s->dir, id);
    OK(proc_mkdirs(folder, 0755, &err_));
    struct answer a = ask(s, (struct ask){.method = "DELETE", .path = path, .token = s->token});
    expect_problem(&a, 409, NULL);
    answer_release(&a);
    move(s, id, JOB_QUEUED, JOB_CANCELLING);
    move(s, id, JOB_CANCELLING, JOB_CANCELLED);
    a = ask(s, (struct ask){.method = "DELETE", .path = path, .token = s->token});
    expect_status(&a, 204);
    assert_int_equal(a.len, 0);
    answer_release(&a);
    assert_int_equal(stat(folder, &st), -1);
    a = get(s, path);
    expect_problem(&a, 404, NULL);
    answer_release(&a);
}

static void the_priority_can_be_changed_and_nothing_else(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[96];
    submit(s, SPEC("urgent"), id);
    ID_PATH(path, id, "");
    struct answer a = ask(
        s, (struct ask){
               .method = "PATCH", .path = path, .token = s->token, .body = "{\"priority\": 7}"});
    expect_status(&a, 200);
    assert_int_equal((int)number_at(a.json, "/priority"), 7);
    answer_release(&a);
    a = ask(s,
            (struct ask){
                .method = "PATCH", .path = path, .token = s->token, .body = "{\"priority\": 1.5}"});
    expect_problem(&a, 422, "/priority");
    answer_release(&a);
    a = ask(s, (struct ask){.method = "PATCH",
                            .path = path,
                            .token = s->token,
                            .body = "{\"state\": \"succeeded\"}"});
    expect_problem(&a, 422, "/state");
    answer_release(&a);
    a = ask(s, (struct ask){.method = "PATCH", .path = path, .token = s->token, .body = "7"});
    expect_status(&a, 400);
    answer_release(&a);
}

static void one_that_has_ended_has_tags_and_a_note_to_change_but_no_priority(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[96];
    submit(s, SPEC("over"), id);
    ID_PATH(path, id, "");
    move(s, id, JOB_QUEUED, JOB_FAILED);
    struct answer a = ask(s, (struct ask){.method = "PATCH",
                                          .path = path,
                                          .token = s->token,
                                          .body = "{\"tags\": [\"a\"], \"priority\": 7}"});
    expect_status(&a, 409);
    assert_non_null(strstr(text_at(a.json, "/detail"), "its state is failed"));
    answer_release(&a);
    a = ask(s, (struct ask){.method = "PATCH",
                            .path = path,
                            .token = s->token,
                            .body = "{\"tags\": [\"b\"], \"note\": \"c\"}"});
    expect_status(&a, 200);
    assert_int_equal(json_array_size(json_object_get(a.json, "tags")), 1);
    assert_string_equal(text_at(a.json, "/tags/0"), "b");
    assert_int_equal((int)number_at(a.json, "/priority"), 0);
    answer_release(&a);
}

static void what_cannot_be_a_job_is_404_on_every_route(void **state)
{
    struct site *s = *state;
    static const char *const ids[] = {"0123456789abcdef", "nope", "..",     "%2e%2e",
                                      "0123456789ABCDEF", "a'b",  "%ff%fe", "\xc3\xa4"};
    static const char *const subs[] = {"",           "/series",      "/steps",       "/workers",
                                       "/staleness", "/assignments", "/evaluations", "/logs",
                                       "/artifacts", "/artifacts/x"};
    char path[128];
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        for (size_t k = 0; k < sizeof subs / sizeof *subs; k++) {
            ID_PATH(path, ids[i], subs[k]);
            struct answer a = get(s, path);
            expect_problem(&a, 404, NULL);
            answer_release(&a);
        }
    }
}

static void a_script_in_a_name_stays_text(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[96], type[256], nosniff[256];
    struct answer a =
        post(s, "/api/v1/jobs", "{\"name\": \"<script>alert(1)</script>\", " GLYPHS "}");
    expect_status(&a, 201);
    snprintf(id, sizeof id, "%s", text_at(a.json, "/id"));
    assert_string_equal(text_at(a.json, "/name"), "<script>alert(1)</script>");
    answer_release(&a);
    ID_PATH(path, id, "");
    a = get(s, path);
    assert_true(header_of(&a, "Content-Type", type));
    assert_string_equal(type, "application/json");
    assert_true(header_of(&a, "X-Content-Type-Options", nosniff));
    assert_string_equal(nosniff, "nosniff");
    answer_release(&a);
    a = get(s, "/api/v1/nodes/%3Cscript%3E");
    expect_problem(&a, 404, NULL);
    answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_submitted_job_answers_201_with_its_document_and_location),
        cmocka_unit_test(a_malformed_document_is_400_with_line_and_column),
        cmocka_unit_test(a_text_with_nul_is_422_since_the_json_is_good),
        cmocka_unit_test(every_mistake_of_a_spec_is_told_at_once),
        cmocka_unit_test(what_only_machines_know_is_422_too),
        cmocka_unit_test(a_dry_run_answers_200_and_queues_nothing),
        cmocka_unit_test(an_idempotency_key_makes_one_job),
        cmocka_unit_test(jobs_are_listed_by_pages_newest_first),
        cmocka_unit_test(a_list_has_only_the_fields_and_states_that_are_asked_for),
        cmocka_unit_test(a_list_that_was_kept_shows_every_change_over_http),
        cmocka_unit_test(a_job_can_be_cancelled_paused_and_resumed),
        cmocka_unit_test(what_was_changed_over_http_is_in_every_answer_after_it),
        cmocka_unit_test(what_others_changed_is_in_an_answer_soon),
        cmocka_unit_test(a_job_that_has_not_ended_is_not_deleted),
        cmocka_unit_test(the_priority_can_be_changed_and_nothing_else),
        cmocka_unit_test(one_that_has_ended_has_tags_and_a_note_to_change_but_no_priority),
        cmocka_unit_test(what_cannot_be_a_job_is_404_on_every_route),
        cmocka_unit_test(a_script_in_a_name_stays_text),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
