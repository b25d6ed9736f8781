/* A worker's half of continuing without a lost worker, and with one that has come back
 * (worker/exchange/lockstep/survival/survival.c, talk.c, join.c): what it tells the keeper, what it
 * gives and takes, and where it stands afterwards. The keeper is a script.
 * tests/survival/test_lost_worker.py has real ranks. */
#include "worker_alone.h"

/* ---- the step is made anew ------------------------------------------------------------------- */

static void what_no_loss_has_cancelled_is_not_recovered_from(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_in_sync(1, 1);
    make_steps(p, 1);
    begin_step(p);
    assert_int_equal(recover(p), -ERR_CANCELLED); /* all are there */
    dies(3);
    assert_int_equal(survival_recover(p->s, -ERR_PEER, NULL, &err_), -ERR_PEER);
    assert_int_equal(survival_recover(NULL, -ERR_CANCELLED, NULL, &err_), -ERR_CANCELLED);
    assert_int_equal(p->n_out, 0);
    leave(p);
}

static void who_is_alone_or_hears_of_no_loss_goes_on_with_nobody(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand(1, 1);
    assert_true(survival_is_possible(&p->env));
    p->comm.workers = 2;
    assert_true(survival_is_possible(&p->env));
    p->comm.workers = 1;
    assert_false(survival_is_possible(&p->env));
    p->comm.workers = W;
    p->env.lost = NULL;
    assert_false(survival_is_possible(&p->env));
    leave(p);
}

static void it_tells_where_it_stands_and_what_the_lost_one_made(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_in_sync(1, 1);
    make_steps(p, 2);
    begin_step(p);
    dies(3);
    ask(p, 1);
    struct verdict v = decides(1, 2, 0);
    say(p, &v);
    assert_int_equal(recover(p), RECOVERED);
    const struct worker_word *w = word(p, 0);
    assert_int_equal(w->saying, SAYS_STANDING);
    assert_int_equal(w->rank, 1);
    assert_true(w->standing.round == 1 && w->standing.step == 2 && w->standing.averages == 0);
    assert_true(!w->standing.torn && !w->standing.is_new && !w->standing.evaluated);
    assert_int_equal(w->standing.lost[0].steps, 2);
    assert_int_equal(w->standing.lost[0].samples, 6); /* 3 of each 16 */
    leave(p);
}

static void the_step_is_cut_anew_for_those_that_are_left(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_in_sync(1, 1);
    make_steps(p, 2);
    begin_step(p);
    assert_true(p->l.slice.start == 32 && p->work.slice.start == 36 && p->work.slice.count == 5);
    p->l.next_version = 8; /* announced, but never used: it was for four */
    dies(3);
    ask(p, 1);
    struct verdict v = decides(1, 2, 0);
    say(p, &v);
    assert_int_equal(recover(p), RECOVERED);
    assert_int_equal(p->comm.n_members[COMM_ALL], 3);
    assert_int_equal(p->comm.generation, 1);
    assert_true(p->l.version == 9 && p->l.next_version == 0);
    assert_int_equal(p->n_rows, 0);
    begin_step(p);
    assert_true(p->l.slice.start == 32 && p->l.slice.count == 16);
    assert_true(p->work.slice.start == 38 && p->work.slice.count == 6);
    leave(p);
}

/* ---- giving and taking ----------------------------------------------------------------------- */

/* Rank 0 has ended the third step, whose words ask for a stop; rank 1 has not. */
static void one_behind_gets_the_step_that_others_have_ended(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_in_sync(0, 7), *behind = stand_in_sync(1, 1);
    make_steps(ahead, 2);
    make_steps(behind, 2);
    begin_step(ahead);
    begin_step(behind);
    end_step(ahead, 48, true);
    dies(3);
    struct verdict v = decides(1, 3, 0);
    v.behind[1] = IS_BEHIND;
    ask(ahead, 1);
    say(ahead, &v);
    assert_int_equal(recover(ahead), RECOVERED);
    assert_int_equal(hand_on(ahead, behind), 6); /* a header and a body of each block */
    ask(behind, 1);
    say(behind, &v);
    assert_int_equal(recover(behind), RECOVERED);
    assert_same_replica(ahead, behind);
    assert_true(behind->l.at.step == 3 && behind->l.at.applied == 48);
    assert_true(behind->l.at.stop && !behind->l.at.pause && !behind->l.at.checkpoint);
    assert_int_equal(behind->n_rows, 1);
    const struct row *row = &behind->rows[0];
    assert_true(row->step == 3 && row->batch == 5 && row->compute_seconds == 0.25f);
    assert_true(row->loss == 3 && row->accuracy == 0.5f);
    assert_int_equal(ahead->n_rows, 0);
    assert_int_equal(behind->n_in, 0);
    leave(ahead);
    leave(behind);
}

static void rank_0_may_be_the_one_behind(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_in_sync(1, 7), *behind = stand_in_sync(0, 1);
    begin_step(ahead);
    begin_step(behind);
    end_step(ahead, 48, false);
    dies(3);
    struct verdict v = decides(1, 1, 1);
    v.behind[0] = IS_BEHIND;
    say(ahead, &v);
    assert_int_equal(recover(ahead), RECOVERED);
    assert_int_equal(hand_on(ahead, behind), 6);
    say(behind, &v);
    assert_int_equal(recover(behind), RECOVERED);
    assert_same_replica(ahead, behind);
    assert_false(behind->l.at.stop);
    leave(ahead);
    leave(behind);
}

/* As above; afterwards both know what rank 3 had made of three steps. */
static void the_step_that_was_given_counts_for_all(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_in_sync(0, 7), *behind = stand_in_sync(1, 1);
    begin_step(ahead);
    begin_step(behind);
    end_step(ahead, 48, false);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    v.behind[1] = IS_BEHIND;
    say(ahead, &v);
    assert_int_equal(recover(ahead), RECOVERED);
    hand_on(ahead, behind);
    say(behind, &v);
    assert_int_equal(recover(behind), RECOVERED);
    struct verdict lost_2 = {.saying = KEEPER_ASKS,
                             .members = {.round = 2, .n_lost = 2, .lost = {3, 2}}};
    dies(2);
    say(behind, &lost_2);
    lost_2.saying = KEEPER_DECIDES;
    lost_2.step = 1;
    lost_2.sizes[0] = 10;
    lost_2.sizes[1] = 6;
    say(behind, &lost_2);
    assert_int_equal(recover(behind), RECOVERED);
    const struct worker_word *w = word(behind, 0);
    assert_true(w->standing.lost[0].steps == 1 && w->standing.lost[0].samples == 3);
    assert_true(w->standing.lost[1].steps == 1 && w->standing.lost[1].samples == 4);
    leave(ahead);
    leave(behind);
}

/* Rank 0 dies as well, after it has given the parameters. */
static void one_whose_giver_dies_has_no_state_and_takes_that_of_another(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_in_sync(2, 7), *behind = stand_in_sync(1, 1);
    begin_step(ahead);
    begin_step(behind);
    end_step(ahead, 48, false);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    v.behind[1] = IS_BEHIND;
    dies(0);
    say(behind, &v);
    struct verdict again = {.saying = KEEPER_ASKS,
                            .members = {.round = 2, .n_lost = 2, .lost = {3, 0}}};
    say(behind, &again);
    again.saying = KEEPER_DECIDES;
    again.step = 1;
    again.giver = 2;
    again.behind[1] = IS_BEHIND;
    again.sizes[1] = again.sizes[2] = 8;
    say(behind, &again);
    say(ahead, &again);
    assert_int_equal(recover(ahead), RECOVERED);
    hand_on(ahead, behind);
    assert_int_equal(recover(behind), RECOVERED);
    assert_true(word(behind, 0)->standing.torn && word(behind, 0)->standing.round == 2);
    assert_same_replica(ahead, behind);
    assert_int_equal(behind->l.at.step, 1);
    assert_int_equal(behind->comm.n_members[COMM_ALL], 2);
    leave(ahead);
    leave(behind);
}

/* ---- evaluations ----------------------------------------------------------------------------- */

static void evaluate(struct place *p, double loss, double accuracy)
{
    OK(lockstep_take_evaluation(&p->l, loss, accuracy, 20, &err_));
}

static void one_that_missed_an_evaluation_gets_its_result(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_in_sync(0, 7), *behind = stand_in_sync(1, 1);
    make_steps(ahead, 1);
    make_steps(behind, 1);
    ahead->l.best = 1; /* nothing is saved */
    evaluate(ahead, 0.5, 0.75);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    v.behind[1] = IS_BEHIND;
    v.evaluated = 1;
    v.best = 0.9;
    say(ahead, &v);
    assert_int_equal(survival_recover(ahead->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_int_equal(ahead->n_told, 1); /* before the loss */
    hand_on(ahead, behind);
    say(behind, &v);
    assert_int_equal(survival_recover(behind->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_true(behind->l.at.evaluated_here && behind->l.at.last_samples == 20);
    assert_true(behind->l.at.last_loss == 0.5 && behind->l.at.last_accuracy == 0.75);
    assert_true(behind->l.best == 0.9);
    assert_int_equal(behind->n_told, 0); /* rank 0 has told it */
    leave(ahead);
    leave(behind);
}

/* Rank 0 may have died before it told the result. */
static void who_speaks_for_all_now_tells_the_evaluation_again(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_in_sync(1, 1);
    make_steps(p, 1);
    evaluate(p, 0.5, 0.75);
    assert_int_equal(p->n_told, 0);
    dies(0);
    struct verdict v = {.saying = KEEPER_DECIDES,
                        .members = {.round = 1, .n_lost = 1, .lost = {0}},
                        .step = 1,
                        .evaluated = 1,
                        .giver = 1,
                        .first_changed = 1,
                        .best = 0.9};
    v.sizes[1] = 16;
    say(p, &v);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_int_equal(p->n_told, 1);
    assert_true(p->told.loss == 0.5 && p->told.accuracy == 0.75 && p->told.step == 1);
    leave(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_loss_has_cancelled_is_not_recovered_from),
        cmocka_unit_test(who_is_alone_or_hears_of_no_loss_goes_on_with_nobody),
        cmocka_unit_test(it_tells_where_it_stands_and_what_the_lost_one_made),
        cmocka_unit_test(the_step_is_cut_anew_for_those_that_are_left),
        cmocka_unit_test(one_behind_gets_the_step_that_others_have_ended),
        cmocka_unit_test(rank_0_may_be_the_one_behind),
        cmocka_unit_test(the_step_that_was_given_counts_for_all),
        cmocka_unit_test(one_whose_giver_dies_has_no_state_and_takes_that_of_another),
        cmocka_unit_test(one_that_missed_an_evaluation_gets_its_result),
        cmocka_unit_test(who_speaks_for_all_now_tells_the_evaluation_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
