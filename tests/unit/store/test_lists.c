/* Lists of jobs: order, filters, and pages that together give every job once. */
#include "tests/unit/store/fixture.h"

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

/* All pages of a list; checks that no page is longer than asked. */
static json_t *walk(struct store *s, const char *state, const char *q, const char *sort, int limit)
{
    json_t *all = json_array();
    char cursor[400] = "";
    for (int pages = 0; pages < 100; pages++) {
        json_t *page = store_job_list(s, state, q, sort, cursor, limit, &err_);
        if (!page) {
            fail_msg("%s", err_.message);
        }
        assert_true(json_array_size(at(page, "/jobs")) <= (size_t)limit);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_first_is_the_usual_order_and_created_the_other),
        cmocka_unit_test(sorted_by_name_or_priority_pages_give_every_job_once_in_order),
        cmocka_unit_test(state_and_part_of_the_name_filter),
        cmocka_unit_test(what_is_no_state_sort_or_cursor_is_said),
    };
    return cmocka_run_group_tests(tests, some_jobs, place_close);
}
