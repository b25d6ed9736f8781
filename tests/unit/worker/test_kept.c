/* Where the next process of a program starts, after a process that copied its parameters before its
 * step (worker/program/step/kept.c, WIRE_KEEP). tests/own-program has real programs. */
#include "tests/unit/worker/program_alone.h"

static struct wire_shared shared;
static float params[] = {7}, copy[] = {5}, kept[1];

/* Gradients of slice 4 were answered; the parameters in the block are 7, those of the copy 5. */
static void died(int64_t begun, int64_t copied, enum own_step own_step)
{
    begin();
    rank.p.block.shared = &shared;
    rank.p.block.copy = copy;
    rank.g.source = FROM_KEPT;
    rank.g.replica.host[DEV_PARAMS] = params;
    rank.g.replica.count[DEV_PARAMS] = 1;
    rank.g.kept = kept;
    rank.g.answered = 4;
    rank.g.begun_last = 4;
    rank.g.own_step = own_step;
    kept[0] = 0;
    atomic_store(&shared.begun, begun);
    atomic_store(&shared.copied, copied);
    OK(kept_save(&rank.g, &err_));
    end();
}

static void one_that_died_in_its_step_makes_it_again_from_before_it(void **state)
{
    (void)state;
    died(4, 4, OWN_STEP);
    assert_true(kept[0] == 5 && rank.g.own_step == OWN_STEP);
}

static void before_the_copy_is_whole_the_parameters_stand_still(void **state)
{
    (void)state;
    died(4, 3, OWN_STEP);
    assert_true(kept[0] == 7 && rank.g.own_step == OWN_STEP);
    died(4, 3, NO_STEP); /* it waits for GO */
    assert_true(kept[0] == 7 && rank.g.own_step == NO_STEP);
}

static void a_step_is_made_once_the_next_slice_has_begun(void **state)
{
    (void)state;
    died(5, 4, OWN_STEP);
    assert_true(kept[0] == 7 && rank.g.own_step == NO_STEP && rank.g.begun_last == 5);
}

/* Its message about slice 5 did not arrive: that slice is due again. */
static void a_step_that_nobody_heard_of_did_not_happen(void **state)
{
    (void)state;
    died(5, 5, OWN_STEP);
    assert_true(kept[0] == 5 && rank.g.own_step == NO_STEP && rank.g.begun_last == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_died_in_its_step_makes_it_again_from_before_it),
        cmocka_unit_test(before_the_copy_is_whole_the_parameters_stand_still),
        cmocka_unit_test(a_step_is_made_once_the_next_slice_has_begun),
        cmocka_unit_test(a_step_that_nobody_heard_of_did_not_happen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
