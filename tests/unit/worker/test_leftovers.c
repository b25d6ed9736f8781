/* Samples of lost workers come again: positions of the longer epoch lead to each sample once, and a
 * state may be saved where everything before it has been computed. */
#include "fixture.h"

#include "worker/exchange/leftovers.h"

enum { SAMPLES = 40, MOST = 80 };

/* What an epoch with two losses hands out: positions without the lost ones, in order of cuts. */
struct epoch {
    struct leftovers left;
    bool lost[MOST]; /* positions that no worker computes */
    int64_t length;
};

static void lose(struct epoch *x, const struct slice *of, int n, int64_t at)
{
    OK(leftovers_add(&x->left, of, n, 3, at, &err_));
    for (int i = 0; i < n; i++) {
        x->length += of[i].count;
        for (int64_t p = of[i].start; p < of[i].start + of[i].count; p++) {
            x->lost[p] = true;
        }
    }
}

static void check_each_once(const struct epoch *x)
{
    int times[SAMPLES] = {0};
    for (int64_t p = 0; p < x->length; p++) {
        int64_t epoch = 3, other = 4, sample = leftovers_position(&x->left, &epoch, p);
        assert_in_range(sample, 0, SAMPLES - 1);
        times[sample] += !x->lost[p];
        assert_int_equal(leftovers_position(&x->left, &other, p), p);
        assert_true(epoch == 3 && other == 4);
    }
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(times[i], 1);
    }
}

static void each_sample_comes_once_whoever_is_lost(void **state)
{
    (void)state;
    struct epoch x = {.length = SAMPLES};
    const struct slice first[] = {{3, 6, 2}, {3, 14, 2}},
                       second[] = {{3, 17, 3}, {3, 21, 1}}; /* some of it came again already */
    check_each_once(&x);
    lose(&x, first, 2, 16);
    check_each_once(&x);
    lose(&x, second, 2, 24);
    check_each_once(&x);
    leftovers_release(&x.left);
}

static void what_is_lost_while_it_comes_again_comes_once_more(void **state)
{
    (void)state;
    struct epoch x = {.length = SAMPLES};
    const struct slice first[] = {{3, 0, 8}}, second[] = {{3, 9, 2}, {3, 12, 2}};
    lose(&x, first, 1, 8);
    lose(&x, second, 2, 14); /* within what the first loss added, 8 … 15 */
    check_each_once(&x);
    leftovers_release(&x.left);
}

static void check_settled(const struct leftovers *l, int64_t at, int64_t expected)
{
    struct cursor c = {.samples = SAMPLES + 4, .epochs = 9, .epoch = 3, .position = at}, out;
    bool settled = leftovers_settle(l, &c, SAMPLES, &out);
    assert_int_equal(settled, expected >= 0);
    assert_int_equal(out.position, expected >= 0 ? expected : at);
    assert_int_equal(out.samples, expected >= 0 ? SAMPLES : c.samples);
}

static void a_state_is_saved_where_nothing_before_it_is_missing(void **state)
{
    (void)state;
    struct leftovers l = {0};
    const struct slice lost[] = {{3, 6, 2}, {3, 14, 2}};
    check_settled(&l, 7, 7);
    OK(leftovers_add(&l, lost, 2, 3, 16, &err_));
    check_settled(&l, 0, 0);
    check_settled(&l, 6, 6); /* the step before the first one that lacks samples */
    check_settled(&l, 8, -1);
    check_settled(&l, 16, -1);
    check_settled(&l, 19, -1);
    check_settled(&l, 20, 16);
    check_settled(&l, 40, 36);
    leftovers_release(&l);
}

/* Two losses in epoch 3, the second one after its end, and one in epoch 4 while that one comes
 * again. */
static void what_an_ended_epoch_lacks_comes_in_the_next_one(void **state)
{
    (void)state;
    enum { EPOCHS = 2, FIRST = 3 };
    struct leftovers l = {0};
    const struct slice first[] = {{3, 6, 2}}, second[] = {{3, 5, 1}, {3, 17, 2}, {4, 3, 2}},
                       third[] = {{4, 7, 2}, {4, 9, 3}};
    int times[EPOCHS][SAMPLES] = {0};
    OK(leftovers_add(&l, first, 1, 3, 16, &err_));
    OK(leftovers_add(&l, second, 3, 4, 8, &err_));
    OK(leftovers_add(&l, third, 2, 4, 12, &err_));
    const int64_t length[EPOCHS] = {SAMPLES + 2, SAMPLES + 5 + 5};
    for (int64_t epoch = FIRST; epoch < FIRST + EPOCHS; epoch++) {
        for (int64_t p = 0; p < length[epoch - FIRST]; p++) {
            bool lost3 = epoch == 3 && (p == 5 || p == 6 || p == 7 || p == 17 || p == 18),
                 lost4 = epoch == 4 && (p == 3 || p == 4 || (p >= 7 && p < 12));
            int64_t of = epoch, sample = leftovers_position(&l, &of, p);
            assert_in_range(sample, 0, SAMPLES - 1);
            times[of - FIRST][sample] += !lost3 && !lost4;
        }
    }
    for (int i = 0; i < EPOCHS * SAMPLES; i++) {
        assert_int_equal(times[i / SAMPLES][i % SAMPLES], 1);
    }
    leftovers_release(&l);
}

static void a_state_waits_for_what_comes_in_the_next_epoch(void **state)
{
    (void)state;
    struct leftovers l = {0};
    const struct slice lost[] = {{2, 30, 2}, {3, 2, 2}};
    struct cursor before = {.samples = SAMPLES, .epochs = 9, .epoch = 2, .position = 30}, out,
                  behind = before, later = {.samples = SAMPLES, .epochs = 9, .epoch = 4};
    OK(leftovers_add(&l, lost, 2, 3, 6, &err_));
    behind.position = 33;
    assert_true(leftovers_settle(&l, &before, SAMPLES, &out) && out.position == 30);
    assert_false(leftovers_settle(&l, &behind, SAMPLES, &out));
    assert_true(leftovers_settle(&l, &later, SAMPLES, &out) && out.position == 0);
    check_settled(&l, 0, -1);
    check_settled(&l, 9, -1);
    check_settled(&l, 10, 6);
    check_settled(&l, 40, 36);
    leftovers_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_comes_once_whoever_is_lost),
        cmocka_unit_test(what_is_lost_while_it_comes_again_comes_once_more),
        cmocka_unit_test(a_state_is_saved_where_nothing_before_it_is_missing),
        cmocka_unit_test(what_an_ended_epoch_lacks_comes_in_the_next_one),
        cmocka_unit_test(a_state_waits_for_what_comes_in_the_next_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
