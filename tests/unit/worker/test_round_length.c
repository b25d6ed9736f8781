/* How many local steps a round of hpsgd has (worker/exchange/lockstep/round_length.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/exchange/lockstep/round_length.h"

static void a_round_is_as_long_as_a_reduction(void **state)
{
    struct round_length l = {0};
    (void)state;
    assert_int_equal(round_length_next(&l, 0, 0.1), 1); /* nothing measured yet */
    assert_int_equal(round_length_next(&l, 0.4, 0.1), 4);
    assert_int_equal(round_length_next(&l, 0.41, 0.1), 5);
    assert_int_equal(round_length_next(&l, 0.05, 0.1), 1);
    assert_int_equal(round_length_next(&l, 0.05, 0), 1);
}

static void one_stall_does_not_make_the_next_round_as_long_as_it_lasted(void **state)
{
    struct round_length l = {0};
    (void)state;
    for (int round = 0; round < 4; round++) {
        assert_int_equal(round_length_next(&l, 0.08, 0.04), 2);
    }
    assert_int_equal(round_length_next(&l, 8, 0.04), 2); /* not 200 */
    assert_int_equal(round_length_next(&l, 0.08, 0.04), 2);
}

static void a_link_that_stays_slow_is_believed_within_three_rounds(void **state)
{
    struct round_length l = {0};
    int k = 0;
    (void)state;
    for (int round = 0; round < 8; round++) {
        assert_int_equal(round_length_next(&l, 0.08, 0.04), 2);
    }
    for (int round = 0; round < 3; round++) {
        assert_int_equal(round_length_next(&l, 0.8, 0.04), 2);
    }
    k = round_length_next(&l, 0.8, 0.04);
    assert_int_equal(k, 20);
}

static void what_doubles_or_falls_is_followed_at_once(void **state)
{
    struct round_length l = {0};
    (void)state;
    for (int round = 0; round < 5; round++) {
        round_length_next(&l, 0.4, 0.1);
    }
    assert_int_equal(round_length_next(&l, 0.8, 0.1), 8);
    assert_int_equal(round_length_next(&l, 0.1, 0.1), 1);
    assert_int_equal(round_length_next(&l, 1e30, 1e-9), 4);
}

static void a_round_has_no_more_steps_than_it_may(void **state)
{
    struct round_length l = {.most = 7};
    (void)state;
    assert_int_equal(round_length_next(&l, 10, 0.1), 7);
    assert_int_equal(round_length_next(&l, 0.3, 0.1), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_as_long_as_a_reduction),
        cmocka_unit_test(one_stall_does_not_make_the_next_round_as_long_as_it_lasted),
        cmocka_unit_test(a_link_that_stays_slow_is_believed_within_three_rounds),
        cmocka_unit_test(a_round_has_no_more_steps_than_it_may),
        cmocka_unit_test(what_doubles_or_falls_is_followed_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
