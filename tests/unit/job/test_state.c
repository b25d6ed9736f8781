/* The states of a job: exactly the arrows of the table in docs/semantics.md#states-of-a-job are
 * allowed. The table is repeated here, row by row as on the page, so that a change must be made
 * twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "job/state.h"

static const struct {
    const char *from, *to;
} table[] = {
    {"queued", "launching"},     {"queued", "cancelling"},  {"queued", "failed"},
    {"launching", "running"},    {"launching", "queued"},   {"launching", "failed"},
    {"launching", "cancelling"}, {"running", "succeeded"},  {"running", "failed"},
    {"running", "pausing"},      {"running", "cancelling"}, {"running", "queued"},
    {"pausing", "paused"},       {"pausing", "queued"},     {"pausing", "failed"},
    {"pausing", "cancelling"},   {"paused", "queued"},      {"paused", "cancelled"},
    {"cancelling", "cancelled"},
};
enum { ROWS = sizeof table / sizeof *table };

static bool listed(const char *from, const char *to)
{
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(table[i].from, from) == 0 && strcmp(table[i].to, to) == 0) {
            return true;
        }
    }
    return false;
}

static void every_arrow_of_the_table_is_allowed_and_no_other(void **state)
{
    int allowed = 0;
    for (int from = 0; from < JOB_STATE_COUNT; from++) {
        for (int to = 0; to < JOB_STATE_COUNT; to++) {
            const char *a = jobstate_name(from), *b = jobstate_name(to);
            if (jobstate_allowed(from, to) != listed(a, b)) {
                fail_msg("%s -> %s is %s", a, b, listed(a, b) ? "refused" : "allowed");
            }
            allowed += jobstate_allowed(from, to);
        }
    }
    assert_int_equal(allowed, ROWS); /* no name in the table is misspelt */
}

static void a_job_that_has_ended_goes_nowhere(void **state)
{
    for (int from = 0; from < JOB_STATE_COUNT; from++) {
        int ways = 0;
        for (int to = 0; to < JOB_STATE_COUNT; to++) {
            ways += jobstate_allowed(from, to);
        }
        assert_int_equal(jobstate_ended(from), ways == 0);
    }
    assert_true(jobstate_ended(JOB_SUCCEEDED) && jobstate_ended(JOB_FAILED));
    assert_true(jobstate_ended(JOB_CANCELLED) && !jobstate_ended(JOB_PAUSED));
}

static void every_state_can_be_reached_from_queued(void **state)
{
    bool reached[JOB_STATE_COUNT] = {[JOB_QUEUED] = true};
    for (int round = 0; round < JOB_STATE_COUNT; round++) {
        for (int from = 0; from < JOB_STATE_COUNT; from++) {
            for (int to = 0; to < JOB_STATE_COUNT; to++) {
                reached[to] = reached[to] || (reached[from] && jobstate_allowed(from, to));
            }
        }
    }
    for (int s = 0; s < JOB_STATE_COUNT; s++) {
        assert_true(reached[s]);
    }
}

static void names_are_found_again_and_others_are_not(void **state)
{
    for (int s = 0; s < JOB_STATE_COUNT; s++) {
        assert_int_equal(jobstate_find(jobstate_name(s)), s);
    }
    assert_int_equal(jobstate_find("Running"), -1);
    assert_int_equal(jobstate_find("run"), -1);
    assert_int_equal(jobstate_find(""), -1);
    assert_int_equal(jobstate_find(NULL), -1);
}

static void numbers_that_are_no_state_are_harmless(void **state)
{
    int strange[] = {-1, JOB_STATE_COUNT, 31, 32, 1000};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        enum job_state s = (enum job_state)strange[i];
        assert_string_equal(jobstate_name(s), "unknown");
        assert_false(jobstate_allowed(s, JOB_QUEUED));
        assert_false(jobstate_allowed(JOB_QUEUED, s));
        assert_false(jobstate_ended(s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_arrow_of_the_table_is_allowed_and_no_other),
        cmocka_unit_test(a_job_that_has_ended_goes_nowhere),
        cmocka_unit_test(every_state_can_be_reached_from_queued),
        cmocka_unit_test(names_are_found_again_and_others_are_not),
        cmocka_unit_test(numbers_that_are_no_state_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
