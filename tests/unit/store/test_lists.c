/* Lists of jobs: order, filters, and pages that together contain every job once. */
#include "tests/unit/store/fixture.h"

#include "common/json/jsonx.h"

enum { JOBS = 23 };
static char ids[JOBS][STORE_ID];

static int some_jobs(void **state)
{
    if (place_open(state)) {
        return -1;
    }
    struct store *s = ((struct place *)*state)->store;
    for (int i = 0; i < JOBS; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "{\"name\":\"%s-%02d\"}", i % 2 ? "odd" : "even",
                 (i * 7) % JOBS);
        new_job(s, spec, i % 3, ids[i]);
    }
    for (int i = 0; i < 4; i++) {
        store_job_transition(s, ids[i], JOB_QUEUED, JOB_LAUNCHING, NULL, &err_);
    }
    return 0;
}

/* All pages of a request; checks that no page is longer than `limit`. */
static json_t *walk_query(struct store *s, struct job_query query)
{
    json_t *all = json_array();
    char cursor[400] = "";
    query.cursor = cursor;
    for (int pages = 0; pages < 100; pages++) {
        size_t len = 0;
        char *text = store_job_page(s, &query, &len, &err_);
        if (!text) {
            fail_msg("%s", err_.message);
        }
        json_t *page = jsonx_parse(text, len, &err_);
        free(text);
        assert_true(json_array_size(at(page, "/jobs")) <= (size_t)query.limit);
        json_array_extend(all, at(page, "/jobs"));
        bool more = json_is_string(at(page, "/next"));
        snprintf(cursor, sizeof cursor, "%s", text_at(page, "/next"));
        json_decref(page);
        if (!more) {
            return all;
        }
    }
    fail_msg("the list does not end");
    return NULL;
}

static json_t *walk(struct store *s, const char *state, const char *q, const char *sort, int limit)
{
    return walk_query(s, (struct job_query){.states = state, .q = q, .sort = sort, .limit = limit});
}

static void newest_first_is_the_usual_order_and_created_the_other(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *newest = walk(s, NULL, NULL, NULL, 5), *oldest = walk(s, NULL, NULL, "created", 4);
    assert_int_equal(json_array_size(newest), JOBS);
    assert_int_equal(json_array_size(oldest), JOBS);
    for (size_t i = 0; i < JOBS; i++) {
        assert_string_equal(text_at(json_array_get(newest, i), "/id"), ids[JOBS - 1 - i]);
        assert_string_equal(text_at(json_array_get(oldest, i), "/id"), ids[i]);
    }
    json_decref(newest);
    json_decref(oldest);
}

static void sorted_by_name_or_priority_pages_give_every_job_once_in_order(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *names = walk(s, NULL, NULL, "name", 3),
           *priorities = walk(s, NULL, NULL, "priority", 3);
    assert_int_equal(json_array_size(names), JOBS);
    assert_int_equal(json_array_size(priorities), JOBS);
    for (size_t i = 1; i < JOBS; i++) {
        json_t *a = json_array_get(names, i - 1), *b = json_array_get(names, i);
        assert_true(strcmp(text_at(a, "/name"), text_at(b, "/name")) < 0);
        a = json_array_get(priorities, i - 1);
        b = json_array_get(priorities, i);
        assert_true(number_at(a, "/priority") >= number_at(b, "/priority"));
        assert_string_not_equal(text_at(a, "/id"), text_at(b, "/id"));
    }
    json_decref(names);
    json_decref(priorities);
}

static void state_and_part_of_the_name_filter(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *launching = walk(s, "launching", NULL, NULL, 3), *odd = walk(s, NULL, "ODD", NULL, 2),
           *both = walk(s, "launching", "odd", "name", 1);
    assert_int_equal(json_array_size(launching), 4);
    assert_int_equal(json_array_size(odd), JOBS / 2);
    assert_int_equal(json_array_size(both), 2);
    json_decref(launching);
    json_decref(odd);
    json_decref(both);
}

static void what_is_no_state_sort_or_cursor_is_said(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    assert_null(store_job_list(s, "sleeping", NULL, NULL, NULL, 5, &err_));
    assert_int_equal(err_.code, ERR_INVALID);
    assert_null(store_job_list(s, NULL, NULL, "colour", NULL, 5, &err_));
    assert_int_equal(err_.code, ERR_INVALID);
    static const char *const bad[] = {"x",   "12x", "12.", "12.zz", "-5", "99999999999999999999999",
                                      "12.6"};
    static const char *const sorts[] = {"created", "name", "priority"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t k = 0; k < 3; k++) {
            json_t *page = store_job_list(s, NULL, NULL, sorts[k], bad[i], 5, &err_);
            assert_true(page ||
                        err_.code == ERR_INVALID); /* 12.6 is one by priority, 12. one by name */
            json_decref(page);
        }
    }
}

/* ---- tags, conditions, orders ---------------------------------------------------------------- */

/* Job i has the strategy sync or asgd, a tag t0 to t2 and, except every fifth job, an accuracy. */
static int labelled_jobs(void **state)
{
    if (place_open(state)) {
        return -1;
    }
    struct store *s = ((struct place *)*state)->store;
    for (int i = 0; i < JOBS; i++) {
        char spec[256], live[128];
        snprintf(spec, sizeof spec,
                 "{\"name\":\"job-%02d\",\"model\":\"mlp\",\"strategy\":{\"type\":\"%s\"},"
                 "\"optimizer\":{\"learning_rate\":%g},\"tags\":[\"t%d\",\"all\"]}",
                 i, i % 2 ? "asgd" : "sync", 0.01 * (i + 1), i % 3);
        new_job(s, spec, 0, ids[i]);
        if (i % 5) {
            snprintf(live, sizeof live, "{\"metrics\":{\"best_test_accuracy\":%g}}",
                     0.5 + 0.02 * ((i * 7) % JOBS));
            json_t *j = json_of(live);
            OK(store_doc_set(s, ids[i], "live", j, &err_));
            json_decref(j);
        }
    }
    return 0;
}

/* Two jobs on each page. */
static json_t *ask(struct store *s, struct job_query query)
{
    query.limit = 2;
    return walk_query(s, query);
}

static json_t *ask_where(struct store *s, const char *conditions, const char *sort)
{
    struct filter where;
    OK(filter_parse(&where, conditions, &err_));
    return ask(s, (struct job_query){.where = &where, .sort = sort});
}

static void a_job_is_listed_if_it_has_all_of_the_tags(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *one = ask(s, (struct job_query){.tags = "t1"}),
           *both = ask(s, (struct job_query){.tags = "all,t1"}),
           *none = ask(s, (struct job_query){.tags = "t1,t2"}),
           *part = ask(s, (struct job_query){.tags = "t"});
    assert_int_equal(json_array_size(one), 8);
    assert_int_equal(json_array_size(both), 8);
    assert_int_equal(json_array_size(none), 0);
    assert_int_equal(json_array_size(part), 0);
    assert_string_equal(text_at(json_array_get(one, 0), "/tags/0"), "t1");
    json_decref(one);
    json_decref(both);
    json_decref(none);
    json_decref(part);
}

static void conditions_on_settings_and_metrics_must_all_hold(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *sync = ask_where(s, "spec.strategy.type=sync", NULL),
           *fast = ask_where(s, "spec.strategy.type=sync,spec.optimizer.learning_rate>=0.2", NULL),
           *good = ask_where(s, "metrics.best_test_accuracy>=0.9", NULL),
           *other = ask_where(s, "spec.strategy.type!=sync", NULL),
           *gone = ask_where(s, "spec.strategy.kind=sync", NULL),
           *named = ask_where(s, "name=job-03", NULL);
    assert_int_equal(json_array_size(sync), 12);
    assert_int_equal(json_array_size(fast), 2); /* 0.21 and 0.23 */
    assert_int_equal(json_array_size(other), 11);
    assert_int_equal(json_array_size(gone), 0);
    assert_int_equal(json_array_size(named), 1);
    assert_true(json_array_size(good) > 0);
    for (size_t i = 0; i < json_array_size(good); i++) {
        json_t *best = at(json_array_get(good, i), "/metrics/best_test_accuracy");
        assert_true(json_number_value(best) >= 0.9);
    }
    json_decref(sync);
    json_decref(fast);
    json_decref(good);
    json_decref(other);
    json_decref(gone);
    json_decref(named);
}

/* In either direction, over pages, each job comes once; jobs without the value come last. */
static void jobs_are_sorted_by_a_metric_and_those_without_it_come_last(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    for (int falls = 0; falls < 2; falls++) {
        const char *sort = falls ? "-metrics.best_test_accuracy" : "metrics.best_test_accuracy";
        json_t *all = ask(s, (struct job_query){.sort = sort});
        assert_int_equal(json_array_size(all), JOBS);
        for (size_t i = 0; i + 1 < JOBS; i++) {
            json_t *a = at(json_array_get(all, i), "/metrics/best_test_accuracy"),
                   *b = at(json_array_get(all, i + 1), "/metrics/best_test_accuracy");
            double x = json_number_value(a), y = json_number_value(b);
            assert_int_equal(json_is_null(a), i >= JOBS - 5);
            assert_true(json_is_null(b) || (falls ? x >= y : x <= y));
            assert_string_not_equal(text_at(json_array_get(all, i), "/id"),
                                    text_at(json_array_get(all, i + 1), "/id"));
        }
        json_decref(all);
    }
}

static void fields_leave_out_what_was_not_asked_for(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    static const char *const asked[] = {"name", "name,metrics", "workers", "state,spec"};
    static const size_t keys[] = {2, 3, 2, 3};
    for (size_t i = 0; i < 4; i++) {
        json_t *all = ask(s, (struct job_query){.fields = asked[i]});
        assert_int_equal(json_array_size(all), JOBS);
        json_t *first = json_array_get(all, 0);
        assert_int_equal(json_object_size(first), keys[i]);
        assert_string_equal(text_at(first, "/id"), ids[JOBS - 1]);
        json_decref(all);
    }
}

static void tags_and_notes_change_only_what_was_seen(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char seen[STORE_VERSION], now[STORE_VERSION];
    json_t *tags = json_of("[\"new\"]"), *note = json_string("first\nsecond"), *no = json_null();
    OK(store_job_version(s, ids[0], seen, &err_));
    assert_int_equal(
        store_job_change(s, ids[0], &(struct job_change){.tags = tags, .note = note}, seen, &err_),
        JOB_CHANGED);
    OK(store_job_version(s, ids[0], now, &err_));
    assert_string_not_equal(seen, now);
    assert_int_equal(store_job_change(s, ids[0], &(struct job_change){.note = no}, seen, &err_),
                     JOB_WAS_ANOTHER);
    json_t *job = store_job_get(s, ids[0], &err_);
    assert_int_equal(json_array_size(at(job, "/tags")), 1);
    assert_string_equal(text_at(job, "/tags/0"), "new");
    assert_string_equal(text_at(job, "/note"), "first\nsecond");
    json_decref(job);
    assert_int_equal(store_job_change(s, ids[0], &(struct job_change){.note = no}, now, &err_),
                     JOB_CHANGED);
    job = store_job_get(s, ids[0], &err_);
    assert_true(json_is_null(at(job, "/note")));
    assert_string_equal(text_at(job, "/tags/0"), "new");
    json_decref(job);
    json_decref(tags);
    json_decref(note);
    json_decref(no);
}

static void more_jobs_than_a_page_has_are_refused(void **state)
{
    struct place *p = *state;
    json_t *many = json_array();
    for (int i = 0; i < 501; i++) {
        json_array_append_new(many, json_string(ids[0]));
    }
    assert_null(store_jobs_of(p->store, many, "id", &err_));
    assert_int_equal(err_.code, ERR_INVALID);
    json_array_remove(many, 0);
    json_t *list = store_jobs_of(p->store, many, "id", &err_);
    assert_non_null(list);
    json_decref(list);
    json_decref(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_first_is_the_usual_order_and_created_the_other),
        cmocka_unit_test(sorted_by_name_or_priority_pages_give_every_job_once_in_order),
        cmocka_unit_test(state_and_part_of_the_name_filter),
        cmocka_unit_test(what_is_no_state_sort_or_cursor_is_said),
        cmocka_unit_test(more_jobs_than_a_page_has_are_refused),
    };
    const struct CMUnitTest labelled[] = {
        cmocka_unit_test(a_job_is_listed_if_it_has_all_of_the_tags),
        cmocka_unit_test(conditions_on_settings_and_metrics_must_all_hold),
        cmocka_unit_test(jobs_are_sorted_by_a_metric_and_those_without_it_come_last),
        cmocka_unit_test(fields_leave_out_what_was_not_asked_for),
        cmocka_unit_test(tags_and_notes_change_only_what_was_seen),
    };
    int failed = cmocka_run_group_tests(tests, some_jobs, place_close);
    return failed + cmocka_run_group_tests(labelled, labelled_jobs, place_close);
}
