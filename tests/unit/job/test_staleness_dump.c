/* Dumps of staleness figures, in heartbeats and checkpoints: a restored dump continues, also with
 * another number of workers, and a malformed one is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/rng.h"
#include "job/staleness.h"

static json_t *figures_of(const struct staleness *s, bool recent)
{
    return staleness_job_json(&s, 1, recent);
}

/* Releases both. */
static void assert_same(json_t *a, json_t *b)
{
    assert_true(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

/* If there are few different values, many in a row are equal. */
static void dumped_is_read_and_goes_on(int n, uint64_t values)
{
    struct staleness s, t;
    staleness_init(&s);
    for (int i = 0; i < n; i++) {
        staleness_add(&s, (int)rng_below(2, 0, (uint64_t)i, values),
                      (int)rng_below(2, 1, (uint64_t)i, values));
    }
    json_t *dump = staleness_dump(&s);
    assert_int_equal(staleness_read(&t, dump), 0);
    for (int i = 0; i < 50; i++) {
        staleness_add(&s, i % 11, 5);
        staleness_add(&t, i % 11, 5);
    }
    for (int recent = 0; recent < 2; recent++) {
        assert_same(figures_of(&s, recent), figures_of(&t, recent));
    }
    json_decref(dump);
    staleness_release(&s);
    staleness_release(&t);
}

static void what_was_dumped_is_read_and_goes_on_as_before(void **state)
{
    for (int n = 0; n < 260; n += 37) {
        dumped_is_read_and_goes_on(n, 30);
        dumped_is_read_and_goes_on(n, 2);
        dumped_is_read_and_goes_on(n, 1);
    }
}

static void the_last_hundred_that_are_alike_are_dumped_once(void **state)
{
    struct staleness s;
    staleness_init(&s);
    for (int i = 0; i < 130; i++) {
        staleness_add(&s, 0, i < 125 ? 64 : 72);
    }
    json_t *dump = staleness_dump(&s),
           *wanted = json_pack("[[i,i,i],[i,i,i]]", 0, 64, 95, 0, 72, 5);
    assert_true(json_equal(json_object_get(dump, "recent"), wanted));
    json_decref(wanted);
    json_decref(dump);
    staleness_release(&s);
}

static void a_dump_of_before_has_one_of_each(void **state)
{
    struct staleness s;
    json_t *dump = json_pack("{s:i, s:i, s:i, s:i, s:i, s:[i,i], s:[[i,i],[i,i],[i,i,i]]}", "count",
                             3, "sum", 1, "sample_sum", 8, "samples", 24, "max", 1, "histogram", 2,
                             1, "recent", 0, 8, 1, 8, 0, 8, -4);
    assert_int_equal(staleness_read(&s, dump), 0);
    assert_int_equal(s.recent_n, 3);
    json_decref(dump);
    staleness_release(&s);
}

static void a_dump_with_the_last_bin_is_read_again(void **state)
{
    struct staleness s, t;
    staleness_init(&s);
    staleness_add(&s, 70000, 3);
    json_t *dump = staleness_dump(&s);
    assert_int_equal(staleness_read(&t, dump), 0);
    assert_same(staleness_json(&s), staleness_json(&t));
    json_decref(dump);
    staleness_release(&s);
    staleness_release(&t);
}

static void malformed_dumps_are_refused_and_leave_nothing_behind(void **state)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "3",
        "{\"histogram\": 3}",
        "{\"histogram\": [1], \"count\": -1}",
        "{\"histogram\": [1], \"count\": 1, \"max\": -2}",
        "{\"histogram\": [-5], \"count\": 1, \"max\": 0}",
        "{\"histogram\": [1], \"count\": 1, \"sum\": -1}",
        "{\"histogram\": [1, 2], \"count\": 7, \"sum\": 2, \"max\": 1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct staleness s;
        json_t *j = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        assert_non_null(j);
        if (staleness_read(&s, j) >= 0) {
            fail_msg("%s was read", bad[i]);
        }
        staleness_release(&s);
        json_decref(j);
    }
}

/* Three workers, then two, then three again: always 3 + 4 + 5 gradients. */
static void no_gradient_is_forgotten_when_the_number_of_workers_changes(void **state)
{
    static const int workers[] = {3, 2, 3, 1};
    json_t *dumps = json_array();
    for (int i = 0; i < 3; i++) {
        struct staleness s;
        staleness_init(&s);
        for (int k = 0; k < 3 + i; k++) {
            staleness_add(&s, i, 10);
        }
        json_array_append_new(dumps, staleness_dump(&s));
        staleness_release(&s);
    }
    for (size_t n = 0; n < sizeof workers / sizeof *workers; n++) {
        json_t *next = json_array();
        int64_t count = 0, histogram[3] = {0};
        double samples = 0;
        for (int i = 0; i < workers[n]; i++) {
            struct staleness s;
            staleness_init(&s);
            staleness_restore(&s, dumps, i, workers[n]);
            count += s.count;
            samples += s.samples;
            for (int tau = 0; tau < 3 && tau < s.bins; tau++) {
                histogram[tau] += s.histogram[tau];
            }
            json_array_append_new(next, staleness_dump(&s));
            staleness_release(&s);
        }
        assert_int_equal(count, 12);
        assert_true(samples == 120);
        assert_int_equal(histogram[0], 3);
        assert_int_equal(histogram[1], 4);
        assert_int_equal(histogram[2], 5);
        json_decref(dumps);
        dumps = next;
    }
    json_decref(dumps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_dumped_is_read_and_goes_on_as_before),
        cmocka_unit_test(the_last_hundred_that_are_alike_are_dumped_once),
        cmocka_unit_test(a_dump_of_before_has_one_of_each),
        cmocka_unit_test(a_dump_with_the_last_bin_is_read_again),
        cmocka_unit_test(malformed_dumps_are_refused_and_leave_nothing_behind),
        cmocka_unit_test(no_gradient_is_forgotten_when_the_number_of_workers_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
