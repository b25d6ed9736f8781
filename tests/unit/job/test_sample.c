/* The cursor and its permutation: every epoch has every sample once, in its own order, and the
 * assignment divides a step's samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "job/sample.h"

static void each_epoch_has_every_sample_exactly_once(void **state)
{
    static const int64_t counts[] = {1,  2,  3,  4,   5,    15,   16,   17,
                                     63, 64, 65, 100, 1000, 4096, 4097, 60000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int64_t n = counts[c];
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            unsigned char *seen = calloc((size_t)n, 1);
            for (int64_t i = 0; i < n; i++) {
                int64_t at = sample_index(11, epoch, i, n, true);
                assert_in_range(at, 0, n - 1);
                assert_int_equal(seen[at]++, 0);
            }
            free(seen);
        }
    }
}

/* Positions at which two orders agree; two random orders agree at 1 on average. */
static int agreements(uint64_t seed_a, int64_t epoch_a, uint64_t seed_b, int64_t epoch_b, int64_t n)
{
    int same = 0;
    for (int64_t i = 0; i < n; i++) {
        same +=
            sample_index(seed_a, epoch_a, i, n, true) == sample_index(seed_b, epoch_b, i, n, true);
    }
    return same;
}

static void epochs_and_seeds_have_orders_of_their_own(void **state)
{
    assert_true(agreements(1, 0, 1, 1, 1000) < 12);
    assert_true(agreements(1, 0, 2, 0, 1000) < 12);
    assert_true(agreements(1, 1, 2, 0, 1000) < 12); /* (seed, epoch), not their sum */
    assert_true(agreements(0, 0, 0, 1, 1000) < 12);
    assert_int_equal(agreements(7, 3, 7, 3, 1000), 1000);
}

static void the_order_is_spread_over_the_data_set(void **state)
{
    /* the first tenth of an epoch has about a tenth of each tenth of the data set; and neighbours
     * in the order are strangers in the file */
    enum { N = 10000 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        int tenth[10] = {0};
        double distance = 0;
        for (int64_t i = 0; i < N / 10; i++) {
            int64_t at = sample_index(seed, 0, i, N, true);
            tenth[at * 10 / N]++;
            distance += fabs((double)(sample_index(seed, 0, i + 1, N, true) - at));
        }
        for (int k = 0; k < 10; k++) {
            assert_in_range(tenth[k], 50, 150); /* 100 +- 5 deviations */
        }
        assert_true(fabs(distance / (N / 10.0) / (N / 3.0) - 1) < 0.15);
    }
}

static void without_shuffle_samples_come_in_file_order(void **state)
{
    for (int64_t i = 0; i < 100; i++) {
        assert_int_equal(sample_index(3, i % 4, i, 100, false), i);
    }
}

static void slices_cover_every_epoch_and_never_cross_its_end(void **state)
{
    for (int64_t want = 1; want < 25; want++) {
        struct cursor c;
        struct slice s;
        int64_t epoch = 0, position = 0;
        cursor_init(&c, 20, 3);
        while (cursor_take(&c, want, &s)) {
            int64_t left = 20 - position;
            assert_int_equal(s.epoch, epoch);
            assert_int_equal(s.start, position);
            assert_int_equal(s.count, want < left ? want : left);
            position += s.count;
            if (position == 20) {
                position = 0;
                epoch++;
            }
        }
        assert_int_equal(epoch, 3);
        assert_int_equal(position, 0);
        assert_true(cursor_done(&c));
        assert_false(cursor_take(&c, 1, &s));
    }
}

static void a_cursor_that_is_set_back_hands_out_the_same_again(void **state)
{
    struct cursor c, saved;
    struct slice a, b;
    cursor_init(&c, 100, 2);
    for (int i = 0; i < 9; i++) {
        assert_true(cursor_take(&c, 17, &a));
    }
    saved = c;
    while (cursor_take(&c, 17, &a)) {
        assert_true(cursor_take(&saved, 17, &b));
        assert_memory_equal(&a, &b, sizeof a);
    }
    assert_true(cursor_done(&saved));
}

static void no_epochs_are_done_at_once(void **state)
{
    struct cursor c;
    struct slice s;
    cursor_init(&c, 5, 0);
    assert_true(cursor_done(&c));
    assert_false(cursor_take(&c, 1, &s));
}

static void a_full_step_is_cut_as_assigned(void **state)
{
    const int sizes[] = {28, 20, 12, 4};
    int64_t out[4];
    sample_split(64, sizes, 4, out);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out[i], sizes[i]);
    }
}

static void the_last_slice_is_cut_in_the_same_proportion(void **state)
{
    const int sizes[] = {28, 20, 12, 4};
    int64_t out[4];
    sample_split(16, sizes, 4, out);
    const int64_t quarter[] = {7, 5, 3, 1};
    assert_memory_equal(out, quarter, sizeof out);
    sample_split(2, sizes, 4, out); /* ideal 0.875 0.625 0.375 0.125: a rank may get none */
    const int64_t two[] = {1, 1, 0, 0};
    assert_memory_equal(out, two, sizeof out);
    sample_split(0, sizes, 4, out);
    const int64_t none[] = {0, 0, 0, 0};
    assert_memory_equal(out, none, sizeof out);
    const int equal[] = {4, 4, 4, 4};
    sample_split(6, equal, 4, out); /* ties to the lower rank */
    const int64_t six[] = {2, 2, 1, 1};
    assert_memory_equal(out, six, sizeof out);
}

static void a_split_sums_to_its_step_within_one_of_the_proportion(void **state)
{
    uint64_t idx = 0;
    for (int round = 0; round < 2000; round++) {
        int workers = 1 + (int)rng_below(5, 1, idx++, 40), sizes[40], total = 0;
        int64_t out[40], sum = 0;
        for (int i = 0; i < workers; i++) {
            sizes[i] = (int)rng_below(5, 2, idx++, 200); /* a size may be 0: a rank that has none */
            total += sizes[i];
        }
        sizes[0] += total == 0;
        total += total == 0;
        int64_t count = (int64_t)rng_below(5, 3, idx++, (uint64_t)total + 1);
        sample_split(count, sizes, workers, out);
        for (int i = 0; i < workers; i++) {
            assert_true(fabs((double)out[i] - (double)count * sizes[i] / total) < 1);
            assert_true(out[i] <= sizes[i]);
            sum += out[i];
        }
        assert_int_equal(sum, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_epoch_has_every_sample_exactly_once),
        cmocka_unit_test(epochs_and_seeds_have_orders_of_their_own),
        cmocka_unit_test(the_order_is_spread_over_the_data_set),
        cmocka_unit_test(without_shuffle_samples_come_in_file_order),
        cmocka_unit_test(slices_cover_every_epoch_and_never_cross_its_end),
        cmocka_unit_test(a_cursor_that_is_set_back_hands_out_the_same_again),
        cmocka_unit_test(no_epochs_are_done_at_once),
        cmocka_unit_test(a_full_step_is_cut_as_assigned),
        cmocka_unit_test(the_last_slice_is_cut_in_the_same_proportion),
        cmocka_unit_test(a_split_sums_to_its_step_within_one_of_the_proportion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
