/* Steps that a program makes without GO (worker/program/step/granted.c): how many are granted, how
 * long the rank sleeps meanwhile, and what it takes for their time. tests/client/test_c_alone.py
 * has real programs. */
#include "program_alone.h"

#include "common/clock.h"

static struct wire_shared shared;
static float copy[1];

static void begin_alone(void)
{
    begin();
    rank.p.block.shared = &shared;
    rank.p.block.copy = copy;
    rank.g.base.program.wants_sure = true;
    rank.g.granted.last = -1;
    rank.g.measured = MEASURED_FIRST;
    rank.g.here = 1;
}

static int64_t told(void)
{
    granted_tell(&rank.g);
    return atomic_load(&shared.granted);
}

static void so_many_are_granted_as_are_sure_and_no_more_than_eight(void **state)
{
    (void)state;
    begin_alone();
    rank.g.number = 10;
    granted_begin(&rank.g, 0);
    assert_int_equal(told(), -1);
    granted_begin(&rank.g, 1);
    assert_int_equal(told(), 10);
    granted_begin(&rank.g, 5);
    assert_int_equal(told(), 14);
    granted_begin(&rank.g, 20);
    assert_int_equal(told(), 10 + GRANTED_MOST - 1);
    rank.g.here = 0; /* the first step of a process, in which a framework compiles */
    assert_int_equal(told(), -1);
    end();
}

static void one_at_a_time_while_the_program_is_new_or_its_rank_copies(void **state)
{
    (void)state;
    begin_alone();
    rank.g.number = 10;
    rank.g.measured = MEASURED_FIRST - 1;
    granted_begin(&rank.g, 5);
    assert_int_equal(told(), 10);
    rank.g.measured = MEASURED_FIRST;
    rank.p.block.copy = NULL;
    granted_begin(&rank.g, 5);
    assert_int_equal(told(), 10);
    end();
}

static void a_step_that_was_granted_stays_so(void **state)
{
    (void)state;
    begin_alone();
    rank.g.number = 10;
    granted_begin(&rank.g, 3);
    rank.g.paced = true;
    rank.g.number = 11;
    granted_begin(&rank.g, 2);
    assert_int_equal(told(), 12);
    rank.g.number = 13;
    granted_begin(&rank.g, 5);
    assert_int_equal(told(), -1);
    end();
}

/* The program reports a step at this time of its clock. Returns the seconds that the rank
 * waited. */
static void made(double at, double waited)
{
    struct wire_message m = {.type = WIRE_GRADIENTS, .flags = WIRE_MADE, .gradients = {.at = at}};
    rank.g.base.idle = 0;
    granted_made(&rank.g, &m, waited);
}

static double slept(void)
{
    rank.g.number = 10;
    granted_begin(&rank.g, GRANTED_MOST);
    return rank.p.link.nap;
}

static void the_rank_sleeps_for_half_of_them_where_steps_are_short(void **state)
{
    (void)state;
    begin_alone();
    for (int i = 0; i < GRANTED_MOST; i++) {
        assert_true(slept() == 0);
        made(100 + 1e-4 * i, 1e-4);
    }
    assert_true(fabs(slept() - 3.5e-4) < 1e-8);
    for (int i = 0; i < 100; i++) {
        made(200 + 1e-3 * i, 1e-3);
    }
    assert_true(slept() == 1e-3); /* at most */
    for (int i = 0; i < 100; i++) {
        made(300 + 3e-3 * i, 3e-3);
    }
    assert_true(slept() == 0); /* waking up costs little in a long step */
    end();
}

/* It would wait for the rank to wake up. */
static void the_rank_is_awake_where_the_program_waits_for_answers(void **state)
{
    struct wire_message asks = {.type = WIRE_GRADIENTS};
    (void)state;
    begin_alone();
    for (int i = 0; i < 20; i++) {
        made(100 + 1e-4 * i, 1e-4);
        if (i % (GRANTED_MOST - 1) == 0) {
            granted_made(&rank.g, &asks, 1e-4);
        }
        assert_true(slept() == 0);
    }
    end();
}

/* The rank hears of the third step together with the second, 0.2 s after that was made. */
static void the_programs_clock_tells_how_long_a_step_took(void **state)
{
    double now = clock_now();
    (void)state;
    begin_alone();
    made(now - 0.5, 0.7); /* it began 0.7 s ago */
    assert_true(rank.g.base.idle > 0.5 - 1e-9 && rank.g.base.idle <= 0.7);
    made(now - 0.4, 0.3);
    assert_true(fabs(rank.g.base.idle - 0.2) < 1e-9);
    made(now - 0.2, 0);
    assert_true(fabs(rank.g.base.idle + 0.2) < 1e-9);
    granted_break(&rank.g); /* the program has evaluated */
    made(now, 0.01);
    assert_true(rank.g.base.idle >= 0 && rank.g.base.idle <= 0.01);
    rank.g.base.program.wants_sure = false; /* of several ranks, none sleeps */
    made(now + 7, 0.1);
    assert_true(rank.g.base.idle == 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_are_granted_as_are_sure_and_no_more_than_eight),
        cmocka_unit_test(one_at_a_time_while_the_program_is_new_or_its_rank_copies),
        cmocka_unit_test(a_step_that_was_granted_stays_so),
        cmocka_unit_test(the_rank_sleeps_for_half_of_them_where_steps_are_short),
        cmocka_unit_test(the_rank_is_awake_where_the_program_waits_for_answers),
        cmocka_unit_test(the_programs_clock_tells_how_long_a_step_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
