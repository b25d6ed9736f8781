/* Read-ahead from disk (worker/data/ahead.h): every slice is asked for once, more and more of them
 * while slices come as predicted, and one at a time otherwise. */
#include "fixture.h"

#include "worker/data/ahead.h"

enum { SAMPLES = 1000, STRIDE = 100, COUNT = 40 };
static const struct dataset_part part_ = {.samples = SAMPLES};
static const struct ahead_from from_ = {.part = &part_, .bytes = 100};

static int plan(struct ahead *a, const struct ahead_from *from, int64_t epoch, int64_t start,
                int64_t count, struct slice out[AHEAD_SLICES])
{
    struct slice s = {epoch, start, count};
    ahead_next(a, from, &s);
    return ahead_plan(a, from, out);
}

static void assert_slice(const struct slice *s, int64_t epoch, int64_t start)
{
    assert_int_equal(s->epoch, epoch);
    assert_int_equal(s->start, start);
    assert_int_equal(s->count, COUNT);
}

static void slices_that_come_as_told_are_asked_for_further_ahead_and_each_once(void **state)
{
    struct ahead a = {0};
    struct slice out[AHEAD_SLICES];
    int64_t asked = 0;
    /* this rank's part of each step begins at 20: 9 whole steps, then those of the next epoch */
    for (int64_t step = 0; step < 40; step++) {
        int n = plan(&a, &from_, step / 10, 20 + step % 10 * STRIDE, COUNT, out);
        for (int i = 0; i < n; i++, asked++) {
            assert_slice(&out[i], asked / 10, 20 + asked % 10 * STRIDE);
        }
        int64_t ahead = asked - step;
        assert_int_equal(ahead, step < 2 ? 1 : step < 3 ? 2 : step < 4 ? 4 : AHEAD_SLICES);
    }
}

static void a_slice_that_was_not_told_begins_with_one_again(void **state)
{
    struct ahead a = {0};
    struct slice out[AHEAD_SLICES];
    for (int64_t step = 0; step < 5; step++) {
        plan(&a, &from_, 0, step * STRIDE, COUNT, out);
    }
    assert_int_equal(plan(&a, &from_, 0, 630, COUNT, out), 1); /* the minibatches changed */
    assert_slice(&out[0], 0, 630);
    assert_int_equal(plan(&a, &from_, 0, 730, COUNT, out), 1); /* by the distance of one step */
    assert_int_equal(plan(&a, &from_, 0, 830, COUNT, out), 2);
    assert_slice(&out[0], 0, 830);
    assert_slice(&out[1], 0, 930);
    assert_int_equal(plan(&a, &from_, 0, 100, COUNT, out), 1); /* back, as after a lost worker */
    assert_slice(&out[0], 0, 100);
}

static void large_samples_are_bounded_by_bytes(void **state)
{
    struct ahead a = {0};
    struct slice out[AHEAD_SLICES];
    struct ahead_from large = {.part = &part_, .bytes = AHEAD_BYTES / COUNT / 2 - 1};
    for (int64_t step = 0; step < 6; step++) {
        assert_int_equal(plan(&a, &large, 0, step * STRIDE, COUNT, out), step == 2 ? 2 : 1);
    }
    large.bytes = AHEAD_BYTES; /* a minibatch is above the bound: it alone */
    assert_int_equal(plan(&a, &large, 0, 600, COUNT, out), 0); /* which was asked for */
    assert_int_equal(plan(&a, &large, 0, 700, COUNT, out), 1);
}

static void an_evaluation_ends_with_its_part(void **state)
{
    struct ahead a = {0};
    struct slice out[AHEAD_SLICES];
    struct ahead_from test = {.part = &part_, .bytes = 100, .test = true};
    int64_t asked = 0;
    for (int64_t first = 0; first < SAMPLES; first += COUNT) {
        int n = plan(&a, &test, 0, first, COUNT, out);
        for (int i = 0; i < n; i++, asked += COUNT) {
            assert_slice(&out[i], 0, asked);
        }
    }
    assert_int_equal(asked, SAMPLES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_that_come_as_told_are_asked_for_further_ahead_and_each_once),
        cmocka_unit_test(a_slice_that_was_not_told_begins_with_one_again),
        cmocka_unit_test(large_samples_are_bounded_by_bytes),
        cmocka_unit_test(an_evaluation_ends_with_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
