/* The limits of an owner: the document of `serve --quotas FILE` (job/quota.c). */
#include <math.h>

#include "tests/unit/job/parsed.h"

#include "job/quota.h"

static json_t *document(const char *text)
{
    struct err e;
    json_t *j = jsonx_parse(text, strlen(text), &e);
    assert_non_null(j);
    return j;
}

static void an_owner_has_what_their_entry_says_and_else_the_default(void **state)
{
    struct quota q;
    (void)state;
    json_t *j = document(
        "{\"default\": {\"nodes\": 4, \"queued\": 10, \"disk\": \"2K\", "
        "\"seconds\": 60, \"max_seconds\": 90.5, \"max_wall_seconds\": 7},"
        " \"owners\": {\"ada\": {\"nodes\": 8, \"disk\": null}},"
        " \"preemption\": {\"after\": 30}}");
    quota_of(j, "bob", &q);
    assert_int_equal(q.nodes, 4);
    assert_int_equal(q.queued, 10);
    assert_int_equal(q.running, -1);
    assert_int_equal(q.disk_bytes, 2048);
    assert_true(q.seconds == 60 && fabs(q.max_seconds - 90.5) < 1e-9 &&
                fabs(q.max_wall_seconds - 7) < 1e-9);
    quota_of(j, "ada", &q);
    assert_int_equal(q.nodes, 8);
    assert_int_equal(q.queued, 10);
    assert_int_equal(q.disk_bytes, -1);
    assert_true(quota_preemption(j).after == 30 && quota_preemption(j).keep == 60);
    json_decref(j);
}

static void without_a_document_nothing_is_limited(void **state)
{
    struct quota q;
    (void)state;
    quota_of(NULL, "ada", &q);
    assert_true(q.nodes < 0 && q.queued < 0 && q.running < 0 && q.disk_bytes < 0 && q.seconds < 0 &&
                q.max_seconds < 0 && q.max_wall_seconds < 0);
    assert_true(quota_preemption(NULL).after < 0);
    json_t *j = quota_json(&q), *value;
    const char *key;
    assert_int_equal(json_object_size(j), 7);
    json_object_foreach(j, key, value) {
        assert_true(json_is_null(value));
    }
    json_decref(j);
}

static void every_mistake_is_told_with_its_place(void **state)
{
    static const char *const places[][2] = {
        {"/default/node", "did you mean 'nodes'"},
        {"/owners/ada/nodes", "a whole number"},
        {"/owners/ada/disk", "20G"},
        {"/owners/ada/seconds", "above 0"},
        {"/owners/bob", "an object of limits"},
        {"/preemption/after", "seconds"},
        {"/owners/c\u2060d", "the invisible character U+2060 at byte 1"},
        {"/owner", "did you mean 'owners'"},
    };
    struct parsed p = {.rc = 0};
    (void)state;
    json_t *j = document(
        "{\"default\": {\"node\": 4}, \"owners\": {\"ada\": {\"nodes\": 1.5, "
        "\"disk\": \"much\", \"seconds\": 0}, \"bob\": 3, \"c\u2060d\": {}}, "
        "\"preemption\": {\"after\": \"soon\"}, \"owner\": {}}");
    assert_false(quota_check(j, &p.problems));
    assert_int_equal(p.problems.count, sizeof places / sizeof *places);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!has(&p, places[i][0], places[i][1])) {
            fail_msg("nothing is told of %s", places[i][0]);
        }
    }
    jsonx_problems_release(&p.problems);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_has_what_their_entry_says_and_else_the_default),
        cmocka_unit_test(without_a_document_nothing_is_limited),
        cmocka_unit_test(every_mistake_is_told_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
