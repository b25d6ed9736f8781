/* Jobs against a real redis-server: what docs/store-schema.md and the transition table promise. */
#include "tests/unit/store/fixture.h"

#include <pthread.h>

static const char *const spec_text =
    "{\"name\":\"mnist\",\"epochs\":10,\"batching\":{\"global_batch\":256}}";

static void a_new_job_has_every_key_of_the_contract(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    new_job(s, spec_text, 3, id);
    assert_int_equal(strlen(id), 16);
    assert_int_equal(strspn(id, "0123456789abcdef"), 16);
    json_t *j = store_job_get(s, id, &err_);
    assert_non_null(j);
    static const char *const keys[] = {
        "id",         "name",    "state",    "attempt",  "priority",  "restarts",
        "spec",       "created", "started",  "finished", "error",     "waiting",
        "disk_bytes", "pruned",  "progress", "metrics",  "staleness", "staleness_recent",
        "assignment", "servers", "workers",  "tags",     "note",      "owner",
        "resizes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!json_object_get(j, keys[i])) {
            fail_msg("the job has no '%s'", keys[i]);
        }
    }
    assert_int_equal(json_object_size(j), sizeof keys / sizeof *keys);
    assert_string_equal(text_at(j, "/id"), id);
    assert_string_equal(text_at(j, "/name"), "mnist");
    assert_string_equal(text_at(j, "/state"), "queued");
    assert_int_equal(number_at(j, "/priority"), 3);
    assert_int_equal(number_at(j, "/attempt"), 0);
    assert_int_equal(strlen(text_at(j, "/created")), 24);
    assert_true(json_is_null(at(j, "/started")) && json_is_null(at(j, "/finished")) &&
                json_is_null(at(j, "/error")));
    assert_int_equal(number_at(j, "/progress/epochs"), 10);
    assert_int_equal(number_at(j, "/progress/fraction"), 0);
    assert_true(json_is_null(at(j, "/metrics/test_accuracy")));
    assert_int_equal(number_at(j, "/staleness/p95"), 0);
    assert_int_equal(number_at(j, "/staleness_recent/max"), 0);
    assert_int_equal(number_at(j, "/assignment/global_batch"), 256);
    assert_true(json_is_array(at(j, "/servers")) && json_is_array(at(j, "/workers")));
    json_decref(j);
}

static void the_live_document_is_merged_and_wrong_kinds_are_left_out(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    new_job(s, spec_text, 0, id);
    json_t *live = json_of(
        "{\"progress\":{\"step\":7},\"metrics\":5,\"workers\":[{\"rank\":0}],\"id\":\"evil\","
        "\"note\":2,\"remark\":1}");
    OK(store_doc_set(s, id, "live", live, &err_));
    json_t *j = store_job_get(s, id, &err_);
    assert_int_equal(number_at(j, "/progress/step"), 7);
    assert_int_equal(number_at(j, "/progress/epochs"), 10);
    assert_true(json_is_null(at(j, "/metrics/train_loss")));
    assert_int_equal(number_at(j, "/workers/0/rank"), 0);
    assert_string_equal(text_at(j, "/id"), id);
    assert_true(json_is_null(at(j, "/note"))); /* a key of the job, not of what is live */
    assert_int_equal(number_at(j, "/remark"), 1);
    json_decref(j);
    json_decref(live);
}

static void states_change_only_along_arrows_from_what_they_are(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    new_job(s, spec_text, 0, id);
    assert_int_equal(store_job_transition(s, id, JOB_QUEUED, JOB_RUNNING, NULL, &err_),
                     -ERR_CONFLICT);
    OK(store_job_transition(s, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    assert_int_equal(store_job_transition(s, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_),
                     -ERR_CONFLICT);
    assert_non_null(strstr(err_.message, "launching"));
    OK(store_job_transition(s, id, JOB_LAUNCHING, JOB_RUNNING, NULL, &err_));
    json_t *j = store_job_get(s, id, &err_);
    assert_int_equal(strlen(text_at(j, "/started")), 24);
    char started[32];
    snprintf(started, sizeof started, "%s", text_at(j, "/started"));
    json_decref(j);
    json_t *error = json_of(
        "{\"code\":\"peer\",\"message\":\"rank 2 is "
        "lost\",\"rank\":2,\"node\":\"slow\",\"attempt\":1}");
    OK(store_job_transition(s, id, JOB_RUNNING, JOB_QUEUED, error, &err_));
    OK(store_job_transition(s, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    j = store_job_get(s, id, &err_);
    assert_int_equal(number_at(j, "/error/rank"), 2);
    json_decref(j);
    OK(store_job_transition(s, id, JOB_LAUNCHING, JOB_RUNNING, NULL, &err_));
    OK(store_job_transition(s, id, JOB_RUNNING, JOB_FAILED, error, &err_));
    j = store_job_get(s, id, &err_);
    assert_string_equal(text_at(j, "/started"), started);
    assert_int_equal(strlen(text_at(j, "/finished")), 24);
    assert_string_equal(text_at(j, "/error/message"), "rank 2 is lost");
    json_decref(j);
    json_decref(error);
    assert_int_equal(
        store_job_transition(s, "0123456789abcdef", JOB_QUEUED, JOB_LAUNCHING, NULL, &err_),
        -ERR_NOT_FOUND);
}

struct racer {
    const char *url, *id;
    int won;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct err e;
    struct store *s = store_open(r->url, NULL, &e);
    r->won = s && store_job_transition(s, r->id, JOB_QUEUED, JOB_LAUNCHING, NULL, &e) == 0;
    store_close(s);
    return NULL;
}

static void of_several_who_try_one_transition_exactly_one_succeeds(void **state)
{
    struct place *p = *state;
    char id[STORE_ID];
    new_job(p->store, spec_text, 0, id);
    pthread_t threads[8];
    struct racer racers[8];
    int won = 0;
    for (int i = 0; i < 8; i++) {
        racers[i] = (struct racer){p->url, id, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        won += racers[i].won;
    }
    assert_int_equal(won, 1);
}

static void an_idempotency_key_makes_one_job_and_refuses_another_spec(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char first[STORE_ID], second[STORE_ID];
    json_t *a = json_of("{\"name\":\"a\",\"epochs\":1}"),
           *swapped = json_of("{\"epochs\":1,\"name\":\"a\"}"), *b = json_of("{\"name\":\"b\"}");
    assert_int_equal(store_job_create(s, a, 0, "key 1", NULL, first, &err_), JOB_CREATED);
    assert_int_equal(store_job_create(s, swapped, 0, "key 1", NULL, second, &err_),
                     JOB_CREATED_BEFORE);
    assert_string_equal(first, second);
    assert_int_equal(store_job_create(s, b, 0, "key 1", NULL, second, &err_), -ERR_CONFLICT);
    OK(store_job_request(s, first, "cancel", &err_));
    OK(store_job_transition(s, first, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    OK(store_job_delete(s, first, NULL, &err_));
    assert_int_equal(store_job_create(s, b, 0, "key 1", NULL, second, &err_),
                     0); /* the key went with its job */
    json_decref(a);
    json_decref(b);
    json_decref(swapped);
}

static void the_queue_goes_by_priority_then_age(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[4][STORE_ID];
    const int priority[4] = {0, 5, 0, -3};
    for (int i = 0; i < 4; i++) {
        new_job(s, "{\"name\":\"queue\"}", priority[i] + 50000, id[i]);
    }
    OK(store_job_change(s, id[3], &(struct job_change){.priority = &(int){50009}}, NULL, &err_));
    json_t *ids = store_job_ids(s, JOB_QUEUED, &err_);
    const int order[4] = {3, 1, 0, 2};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(json_string_value(json_array_get(ids, i)), id[order[i]]);
    }
    json_decref(ids);
    OK(store_job_transition(s, id[1], JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    ids = store_job_ids(s, JOB_LAUNCHING, &err_);
    bool there = false;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        there |= !strcmp(json_string_value(json_array_get(ids, i)), id[1]);
    }
    assert_true(there);
    json_decref(ids);
    OK(store_job_transition(s, id[1], JOB_LAUNCHING, JOB_QUEUED, NULL,
                            &err_)); /* takes its old place again */
    ids = store_job_ids(s, JOB_QUEUED, &err_);
    assert_string_equal(json_string_value(json_array_get(ids, 1)), id[1]);
    json_decref(ids);
    assert_int_equal(
        store_job_change(s, id[0], &(struct job_change){.priority = &(int){1 << 30}}, NULL, &err_),
        -ERR_INVALID);
}

static void what_a_user_asks_picks_the_arrow_or_says_why_not(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    enum job_state now;
    new_job(s, spec_text, 0, id);
    assert_int_equal(store_job_request(s, id, "pause", &err_), -ERR_CONFLICT);
    assert_int_equal(store_job_request(s, id, "resume", &err_), -ERR_CONFLICT);
    OK(store_job_transition(s, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    OK(store_job_transition(s, id, JOB_LAUNCHING, JOB_RUNNING, NULL, &err_));
    OK(store_job_request(s, id, "pause", &err_));
    OK(store_job_request(s, id, "pause", &err_));
    OK(store_job_transition(s, id, JOB_PAUSING, JOB_PAUSED, NULL, &err_));
    OK(store_job_request(s, id, "resume", &err_));
    OK(store_job_state(s, id, &now, &err_));
    assert_int_equal(now, JOB_QUEUED);
    assert_int_equal(store_job_delete(s, id, NULL, &err_), -ERR_CONFLICT);
    OK(store_job_request(s, id, "cancel", &err_));
    OK(store_job_state(s, id, &now, &err_));
    assert_int_equal(now, JOB_CANCELLING);
    OK(store_job_transition(s, id, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    OK(store_job_request(s, id, "cancel", &err_));
    assert_int_equal(store_job_request(s, id, "resume", &err_), -ERR_CONFLICT);
    assert_int_equal(store_job_request(s, id, "explode", &err_), -ERR_INVALID);
    assert_int_equal(store_job_request(s, "feedfeedfeedfeed", "cancel", &err_), -ERR_NOT_FOUND);
}

static void a_deleted_job_leaves_nothing_and_late_writers_bring_nothing_back(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    struct row row = row_blank();
    json_t *doc = json_of("{\"a\":1}");
    new_job(s, spec_text, 0, id);
    OK(store_doc_set(s, id, "detail:x", doc, &err_));
    OK(store_assignment_add(s, id, doc, &err_));
    OK(report_rows(s, id, 3, &row, 1, &err_));
    OK(store_job_request(s, id, "cancel", &err_));
    OK(store_job_transition(s, id, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    OK(store_job_delete(s, id, NULL, &err_));
    assert_null(store_job_get(s, id, &err_));
    assert_int_equal(err_.code, ERR_NOT_FOUND);
    assert_int_equal(store_job_delete(s, id, NULL, &err_), -ERR_NOT_FOUND);
    assert_int_equal(store_doc_set(s, id, "live", doc, &err_), -ERR_NOT_FOUND);
    assert_int_equal(store_job_set(s, id, "request", "x", &err_), -ERR_NOT_FOUND);
    assert_int_equal(store_job_increment(s, id, "attempt", &err_), -ERR_NOT_FOUND);
    assert_int_equal(report_rows(s, id, 3, &row, 1, &err_), -ERR_NOT_FOUND);
    assert_int_equal(report_beat(s, id, 3, doc, &err_), -ERR_NOT_FOUND);
    assert_null(store_doc_get(s, id, "detail:x", &err_));
    json_t *list = store_assignments(s, id, &err_);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    json_decref(doc);
}

static void names_that_cannot_be_ids_are_not_found_and_reach_no_other_key(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    static const char *const bad[] = {
        "", "a:b", "../x", "a b", "0123456789abcdef:live", "a\r\nFLUSHALL"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(store_job_get(s, bad[i], &err_));
        assert_int_equal(err_.code, ERR_NOT_FOUND);
    }
    assert_int_equal(store_doc_set(s, "abc", "rows", NULL, &err_), -ERR_INVALID);
    assert_int_equal(store_job_set(s, "abc", "state", "failed", &err_), -ERR_INVALID);
}

static void fields_and_documents_are_read_as_they_were_written(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    new_job(s, spec_text, 0, id);
    OK(store_job_set(s, id, "request", "with space \"and quotes\"", &err_));
    char *text = store_job_field(s, id, "request", &err_);
    assert_string_equal(text, "with space \"and quotes\"");
    free(text);
    OK(store_job_set(s, id, "request", NULL, &err_));
    err_clear(&err_);
    assert_null(store_job_field(s, id, "request", &err_));
    assert_int_equal(err_.code, ERR_NONE);
    assert_int_equal(store_job_increment(s, id, "attempt", &err_), 1);
    assert_int_equal(store_job_increment(s, id, "attempt", &err_), 2);
    json_t *doc = json_of("{\"sizes\":[1,2,3],\"x\":0.4}");
    static const char *const names[] = {"plan", "control", "live", "detail:staleness"};
    for (size_t i = 0; i < 4; i++) {
        OK(store_doc_set(s, id, names[i], doc, &err_));
        json_t *got = store_doc_get(s, id, names[i], &err_);
        assert_true(json_equal(doc, got));
        json_decref(got);
        OK(store_doc_set(s, id, names[i], NULL, &err_));
        assert_null(store_doc_get(s, id, names[i], &err_));
        assert_int_equal(err_.code, ERR_NONE);
    }
    OK(store_assignment_add(s, id, doc, &err_));
    OK(store_assignment_add(s, id, doc, &err_));
    json_t *list = store_assignments(s, id, &err_);
    assert_int_equal(json_array_size(list), 2);
    assert_true(json_equal(json_array_get(list, 1), doc));
    json_decref(list);
    json_t *other = json_of("{\"version\":2}");
    OK(store_assignment_amend(s, id, other, &err_));
    list = store_assignments(s, id, &err_);
    assert_int_equal(json_array_size(list), 2);
    assert_true(json_equal(json_array_get(list, 0), doc));
    assert_true(json_equal(json_array_get(list, 1), other));
    json_decref(list);
    json_decref(other);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_job_has_every_key_of_the_contract),
        cmocka_unit_test(the_live_document_is_merged_and_wrong_kinds_are_left_out),
        cmocka_unit_test(states_change_only_along_arrows_from_what_they_are),
        cmocka_unit_test(of_several_who_try_one_transition_exactly_one_succeeds),
        cmocka_unit_test(an_idempotency_key_makes_one_job_and_refuses_another_spec),
        cmocka_unit_test(the_queue_goes_by_priority_then_age),
        cmocka_unit_test(what_a_user_asks_picks_the_arrow_or_says_why_not),
        cmocka_unit_test(a_deleted_job_leaves_nothing_and_late_writers_bring_nothing_back),
        cmocka_unit_test(names_that_cannot_be_ids_are_not_found_and_reach_no_other_key),
        cmocka_unit_test(fields_and_documents_are_read_as_they_were_written),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
