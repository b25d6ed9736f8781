/* How the watchdog judges ranks with steps of different lengths; test_monitor.c has whole attempts.
 * Pure functions: tests write ages instead of waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/monitor/watchdog.h"

enum { FAST, SLOW, KEEPER, RANKS };

static struct rank all[RANKS];
static struct ranks ranks = {.workers = KEEPER, .servers = 1, .all = all};
static struct failure failure;

/* Steps of 10 ms and of 12 s, so deadlines of 3 s and of 12 s; all ranks are well. */
static int set_up(void **state)
{
    static const float seconds[] = {0.01F, 12};
    (void)state;
    memset(all, 0, sizeof all);
    ranks.coldest = 0;
    for (int r = 0; r < RANKS; r++) {
        all[r].heard = true;
        all[r].beat.phase = r == KEEPER ? PHASE_SERVE : PHASE_COMPUTE;
        snprintf(all[r].node, sizeof all[r].node, "n%d", r);
        for (int i = 0; i < 10 && r < KEEPER; i++) {
            const struct row row = {.rank = (int16_t)r, .compute_seconds = seconds[r], .batch = 32};
            step_times_add(&all[r].times, &row);
            all[r].rows++;
        }
    }
    return 0;
}

/* The rank that is over its deadline now and was a second ago; -1: none. */
static int lost(void)
{
    struct jobspec spec = {0};
    struct watchdog dog;
    watchdog_init(&dog, 0, 0);
    assert_false(watchdog_lost(&dog, &ranks, &spec, 100, &failure));
    return watchdog_lost(&dog, &ranks, &spec, 101, &failure) ? failure.rank : -1;
}

static void a_silent_rank_has_the_deadline_of_its_own_steps(void **state)
{
    (void)state;
    assert_int_equal(lost(), -1);
    all[SLOW].beat.age = 10; /* within the time of its step */
    assert_int_equal(lost(), -1);
    all[SLOW].beat.age = 13;
    assert_int_equal(lost(), SLOW);
    all[SLOW].beat.age = 0;
    all[FAST].beat.age = 2;
    assert_int_equal(lost(), -1);
    all[FAST].beat.age = 4;
    assert_int_equal(lost(), FAST);
    assert_non_null(strstr(failure.message, "no heartbeat for 4.0 s while computing"));
}

static void the_keeper_is_waited_for_as_long_as_the_slowest_steps_take(void **state)
{
    (void)state;
    all[KEEPER].beat.age = 10;
    assert_int_equal(lost(), -1);
    all[KEEPER].beat.age = 13;
    assert_int_equal(lost(), KEEPER);
}

static void a_rank_that_loads_before_its_first_step_may_be_silent_for_longer(void **state)
{
    (void)state;
    all[FAST].beat.phase = PHASE_LOAD;
    all[FAST].beat.age = 10;
    assert_int_equal(lost(), FAST); /* the pause between two steps may take as long as a step */
    all[FAST].rows = 0;
    assert_int_equal(lost(), -1);
    all[FAST].beat.age = 21;
    assert_int_equal(lost(), FAST);
}

static void the_communication_thread_has_a_turn_within_5_seconds_or_a_step(void **state)
{
    (void)state;
    all[FAST].beat.comm_age = 4; /* longer than its steps may take */
    assert_int_equal(lost(), -1);
    all[FAST].beat.comm_age = 6;
    assert_int_equal(lost(), FAST);
    all[FAST].beat.comm_age = 0;
    all[SLOW].beat.comm_age = 10;
    assert_int_equal(lost(), -1);
    all[SLOW].beat.comm_age = 13;
    assert_int_equal(lost(), SLOW);
}

static void one_that_works_may_be_ten_times_slower_than_before(void **state)
{
    (void)state;
    all[FAST].beat.progress_age = all[FAST].beat.work_age = 4;
    assert_int_equal(lost(), FAST);
    all[FAST].beat.work_age = 0;
    assert_int_equal(lost(), -1);
    all[FAST].beat.progress_age = 31;
    assert_int_equal(lost(), FAST);
}

/* FAST died before it had made five steps, and was let in again. */
static void comes_back(enum phase phase)
{
    all[FAST].seats = 1;
    all[FAST].rows = 2;
    all[FAST].warm_at = 7;
    all[FAST].times.count = 2;
    all[FAST].beat.phase = phase;
}

static void one_that_came_back_is_judged_by_the_steps_of_the_others(void **state)
{
    (void)state;
    comes_back(PHASE_PREPARE);
    all[SLOW].times = (struct step_times){0};
    for (int i = 0; i < 10; i++) {
        const struct row row = {.rank = SLOW, .compute_seconds = 5, .batch = 32};
        step_times_add(&all[SLOW].times, &row);
    }
    all[FAST].beat.age = 4; /* within a step of theirs */
    assert_int_equal(lost(), -1);
    all[FAST].beat.age = 6;
    assert_int_equal(lost(), FAST);
    all[FAST].rows = 0; /* it died before its first step */
    assert_int_equal(lost(), FAST);
    all[SLOW].times.count = 0; /* nobody knows how long a step takes */
    assert_int_equal(lost(), -1);
    all[FAST].beat.age = 21;
    assert_int_equal(lost(), FAST);
}

static void a_hang_in_its_first_steps_is_judged_by_first_steps(void **state)
{
    (void)state;
    comes_back(PHASE_COMPUTE);
    all[FAST].beat.progress_age = all[FAST].beat.work_age = 50;
    assert_int_equal(lost(), -1); /* they are not known */
    ranks.coldest = 4.5;
    assert_int_equal(lost(), FAST);
    all[FAST].beat.progress_age = all[FAST].beat.work_age = 44;
    assert_int_equal(lost(), -1);
    ranks.coldest = 0.1;
    assert_int_equal(lost(), FAST);
    all[FAST].beat.progress_age = all[FAST].beat.work_age = 19; /* a machine may stand still */
    assert_int_equal(lost(), -1);
    all[FAST].beat.progress_age = 500; /* one that works */
    all[FAST].beat.work_age = 0;
    assert_int_equal(lost(), -1);
    ranks.coldest = 100;
    all[FAST].beat.progress_age = all[FAST].beat.work_age = 61;
    assert_int_equal(lost(), FAST);
}

static void one_that_has_ended_may_be_silent_for_ever(void **state)
{
    (void)state;
    all[FAST].beat.phase = PHASE_DONE;
    all[FAST].beat.age = all[FAST].beat.progress_age = all[FAST].beat.comm_age = 1000;
    assert_int_equal(lost(), -1);
}

/* The rank that is blamed is always one of the workers. */
static void the_last_worker_counts_as_the_first_where_all_are_lost(void **state)
{
    (void)state;
    all[FAST].lost = true;
    assert_int_equal(ranks_first(&ranks), SLOW);
    all[SLOW].lost = true;
    assert_int_equal(ranks_first(&ranks), SLOW);
}

static void who_is_silent_is_worse_than_who_is_stuck(void **state)
{
    (void)state;
    all[FAST].beat.progress_age = all[FAST].beat.work_age = 500;
    all[SLOW].beat.age = 13;
    assert_int_equal(lost(), SLOW);
}

/* It made no progress while it stood still, so it gets a second to make some. */
static void one_that_was_silent_and_wakes_up_is_suspected_anew(void **state)
{
    (void)state;
    struct jobspec spec = {0};
    struct watchdog dog;
    watchdog_init(&dog, 0, 0);
    all[FAST].beat.age = 4;
    assert_false(watchdog_lost(&dog, &ranks, &spec, 100, &failure));
    all[FAST].beat.age = 0;
    all[FAST].beat.progress_age = all[FAST].beat.work_age = 5;
    assert_false(watchdog_lost(&dog, &ranks, &spec, 101.5, &failure));
    assert_false(watchdog_lost(&dog, &ranks, &spec, 102, &failure));
    assert_true(watchdog_lost(&dog, &ranks, &spec, 102.5, &failure)); /* it is stuck */
    assert_non_null(strstr(failure.message, "no progress for 5.0 s while computing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_silent_rank_has_the_deadline_of_its_own_steps, set_up),
        cmocka_unit_test_setup(the_keeper_is_waited_for_as_long_as_the_slowest_steps_take, set_up),
        cmocka_unit_test_setup(a_rank_that_loads_before_its_first_step_may_be_silent_for_longer,
                               set_up),
        cmocka_unit_test_setup(the_communication_thread_has_a_turn_within_5_seconds_or_a_step,
                               set_up),
        cmocka_unit_test_setup(one_that_works_may_be_ten_times_slower_than_before, set_up),
        cmocka_unit_test_setup(one_that_came_back_is_judged_by_the_steps_of_the_others, set_up),
        cmocka_unit_test_setup(a_hang_in_its_first_steps_is_judged_by_first_steps, set_up),
        cmocka_unit_test_setup(one_that_has_ended_may_be_silent_for_ever, set_up),
        cmocka_unit_test_setup(the_last_worker_counts_as_the_first_where_all_are_lost, set_up),
        cmocka_unit_test_setup(who_is_silent_is_worse_than_who_is_stuck, set_up),
        cmocka_unit_test_setup(one_that_was_silent_and_wakes_up_is_suspected_anew, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
