/* A worker's half of continuing without a lost worker if replicas differ between averages: at the
 * end of a run, and as a worker that has come back (worker/exchange/lockstep/survival/survival.c,
 * talk.c, join.c). test_survival.c has steps in common. */
#include "worker_alone.h"

/* ---- averages -------------------------------------------------------------------------------- */

static int give_up(void *ctx, struct err *e)
{
    (void)e;
    ((struct place *)ctx)->given_up++;
    return 0;
}

static struct place *stand_between_averages(int rank, float value)
{
    struct place *p = stand(rank, value);
    p->s = survival_new_of_averages(&p->l, false, give_up, p, &p->taken, &err_);
    assert_non_null(p->s);
    return p;
}

static void step_alone(struct place *p)
{
    begin_step(p);
    OK(survival_count(p->s, &err_));
    lockstep_done(&p->l);
    struct row row = {.step = p->l.at.step, .batch = (int)p->work.slice.count};
    survival_told(p->s, &row);
}

static void average(struct place *p)
{
    float words[64] = {[WORD_CHECKPOINT] = 1};
    lockstep_agree(&p->l, words);
    survival_averaged(p->s, words);
}

static void all_go_back_to_the_average_and_what_came_since_is_undone(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_between_averages(1, 1), *as_it_was = stand(1, 5);
    step_alone(p);
    fill(p, 5);
    average(p);
    step_alone(p);
    step_alone(p);
    fill(p, 9);
    dies(3);
    ask(p, 1);
    struct verdict v = decides(1, 1, 0);
    say(p, &v);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_int_equal(p->given_up, 1);
    const struct standing *at = &word(p, 0)->standing;
    assert_true(at->step == 1 && at->averages == 2);
    assert_true(at->lost[0].steps == 1 && at->lost[0].samples == 3); /* not those since */
    assert_same_replica(p, as_it_was);
    assert_int_equal(p->l.at.step, 1);
    assert_true(p->undone[0] == 2 && p->undone[1] == 10);
    leave(p);
    leave(as_it_was);
}

/* Samples since the previous average count once, however often that was made. */
static void steps_count_once_all_have_averaged_them(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_between_averages(1, 1);
    for (int i = 0; i < 2; i++) {
        step_alone(p);
        average(p);
    }
    step_alone(p);
    dies(3);
    ask(p, 1);
    struct verdict v = decides(1, 2, 0);
    say(p, &v);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    step_alone(p);
    average(p);
    dies(2);
    struct verdict two = {.saying = KEEPER_ASKS,
                          .members = {.round = 2, .n_lost = 2, .lost = {3, 2}}};
    say(p, &two);
    two.saying = KEEPER_DECIDES;
    two.step = 3;
    two.sizes[0] = two.sizes[1] = 8;
    say(p, &two);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    const struct tally *lost = word(p, 0)->standing.lost;
    assert_true(lost[0].steps == 2 && lost[0].samples == 6);
    lost = word(p, 1)->standing.lost;
    assert_true(lost[0].steps == 2 && lost[0].samples == 6);
    assert_true(lost[1].steps == 3 && lost[1].samples == 12); /* 4 of each 16 */
    leave(p);
}

static void an_average_that_was_evaluated_stays_so(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_between_averages(1, 1);
    step_alone(p);
    average(p);
    OK(lockstep_take_evaluation(&p->l, 0.5, 0.75, 20, &err_));
    survival_evaluated(p->s);
    step_alone(p);
    dies(3);
    ask(p, 1);
    struct verdict v = decides(1, 1, 0);
    v.evaluated = 1;
    say(p, &v);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_int_equal(word(p, 0)->standing.evaluated, 1);
    assert_true(p->l.at.evaluated_here && p->l.at.last_loss == 0.5);
    leave(p);
}

static void one_behind_an_average_takes_it(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_between_averages(0, 1), *behind = stand_between_averages(1, 1);
    step_alone(ahead);
    step_alone(behind);
    fill(ahead, 5);
    average(ahead);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    v.behind[1] = IS_BEHIND;
    ask(ahead, 1);
    say(ahead, &v);
    assert_int_equal(survival_recover(ahead->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    hand_on(ahead, behind);
    ask(behind, 1);
    say(behind, &v);
    assert_int_equal(survival_recover(behind->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_same_replica(ahead, behind);
    assert_int_equal(behind->l.at.step, 1);
    assert_true(behind->l.at.checkpoint);
    assert_int_equal(behind->undone[0], 0); /* its step is in the average */
    step_alone(behind);
    fill(behind, 9);
    dies(2);
    v = (struct verdict){
        .saying = KEEPER_DECIDES, .members = {.round = 2, .n_lost = 2, .lost = {3, 2}}, .step = 1};
    v.sizes[0] = 16;
    say(behind, &v);
    assert_int_equal(survival_recover(behind->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_same_replica(ahead, behind); /* it goes back there */
    leave(ahead);
    leave(behind);
}

static void an_average_of_other_steps_is_refused(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_between_averages(0, 1), *behind = stand_between_averages(1, 1);
    step_alone(ahead);
    step_alone(behind);
    step_alone(ahead);
    average(ahead);
    dies(3);
    struct verdict v = decides(1, 2, 0);
    v.behind[1] = IS_BEHIND;
    say(ahead, &v);
    assert_int_equal(survival_recover(ahead->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    hand_on(ahead, behind);
    say(behind, &v);
    FAILS(survival_recover(behind->s, -ERR_CANCELLED, NULL, &err_), ERR_PEER,
          "this worker is behind step 1, and others have averaged 2");
    leave(ahead);
    leave(behind);
}

/* ---- the end --------------------------------------------------------------------------------- */

static uint64_t digest_at_the_end(float value, size_t other)
{
    begin_coordinator();
    struct place *p = stand_in_sync(1, value);
    make_steps(p, 1);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    say(p, &v);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    p->r.host[DEV_STATS][0] += (float)other;
    v = without_rank_3(KEEPER_ENDS, 1);
    say(p, &v);
    OK(survival_finish(p->s, NULL, 0, &err_));
    const struct worker_word *w = word(p, 0);
    assert_int_equal(w->saying, SAYS_FINISHED);
    assert_true(w->standing.round == 1 && w->standing.step == 1);
    uint64_t digest = w->standing.digest;
    leave(p);
    return digest;
}

static void at_the_end_a_digest_stands_for_the_replica(void **state)
{
    (void)state;
    uint64_t digest = digest_at_the_end(1, 0);
    assert_true(digest != 0 && digest == digest_at_the_end(1, 0));
    assert_true(digest != digest_at_the_end(2, 0) && digest != digest_at_the_end(1, 1));
}

static void without_a_loss_there_is_no_digest(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_in_sync(1, 1);
    make_steps(p, 1);
    struct verdict v = {.saying = KEEPER_ENDS};
    say(p, &v);
    OK(survival_finish(p->s, NULL, 0, &err_));
    assert_int_equal(word(p, 0)->standing.digest, 0);
    leave(p);
}

/* The first worker dies while it gives the last state. */
static void a_loss_at_the_end_has_another_worker_finish(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_in_sync(1, 1);
    make_steps(p, 1);
    dies(0);
    struct verdict v = {.saying = KEEPER_DECIDES,
                        .members = {.round = 1, .n_lost = 1, .lost = {0}},
                        .step = 1,
                        .giver = 2};
    v.sizes[1] = 16;
    say(p, &v);
    v.saying = KEEPER_ENDS;
    say(p, &v);
    OK(survival_finish(p->s, NULL, 0, &err_));
    assert_int_equal(word(p, 0)->saying, SAYS_FINISHED); /* as one of four */
    const struct worker_word *state_word = word(p, 1);   /* now it speaks for all */
    assert_int_equal(state_word->saying, SAYS_STATE);
    assert_true(state_word->state.version == 1 && state_word->state.outcome == RUN_ENDED);
    leave(p);
}

/* ---- one that comes back --------------------------------------------------------------------- */

/* Rank 1 takes part again, as a second process. */
static struct verdict with_rank_1(enum keeper_saying what)
{
    struct verdict v = {.saying = what, .members = {.round = 2, .seat = {0, 1, 0, 0}}};
    v.step = 3;
    v.version = 9;
    v.behind[1] = IS_NEW;
    v.best = -INFINITY;
    v.sizes[0] = v.sizes[1] = v.sizes[2] = v.sizes[3] = 4;
    return v;
}

/* Rank 0 after three steps, of which rank 1 made two before it died; a fourth was under way. */
static struct place *rank_0_without_1(void)
{
    struct place *p = stand_in_sync(0, 7);
    p->env.seats = say_seats;
    make_steps(p, 2);
    dies(1);
    struct verdict v = {.saying = KEEPER_DECIDES,
                        .members = {.round = 1, .n_lost = 1, .lost = {1}},
                        .step = 2,
                        .best = -INFINITY};
    v.sizes[0] = v.sizes[2] = 6;
    v.sizes[3] = 4;
    say(p, &v);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    begin_step(p);
    end_step(p, 48, false);
    begin_step(p);
    return p;
}

static void one_that_comes_back_gets_everything(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = rank_0_without_1(), *back = stand(1, 1);
    coordinator.seats[1] = 1; /* started again, and not lost in that seat */
    coordinator.n_lost = 0;
    assert_int_equal(p->doors, 1);                   /* since its loss */
    assert_int_equal(survival_look(p->s, &err_), 0); /* nobody waits for it yet */
    struct verdict asks = with_rank_1(KEEPER_ASKS), decision = with_rank_1(KEEPER_DECIDES);
    say(p, &asks);
    say(p, &decision);
    p->at_door = 1;
    assert_int_equal(survival_look(p->s, &err_), -ERR_CANCELLED);
    assert_int_equal(recover(p), RECOVERED);
    assert_int_equal(p->admitted[1], 1);
    assert_int_equal(p->comm.n_members[COMM_ALL], 4);

    struct verdict lets_in = {.saying = KEEPER_LETS_IN,
                              .members = {.round = 1, .n_lost = 1, .lost = {1}}};
    back->env.seats = say_seats;
    back->env.comes_back = true;
    back->g = gradients_new(&back->env, lockstep_words(&back->l), &err_);
    say(back, &lets_in);
    say(back, &asks);
    say(back, &decision);
    hand_on(p, back);
    back->s = survival_new(&back->l, back->g, &err_);
    if (!back->s) {
        fail_msg("%s", err_.message);
    }
    assert_true(back->reached[0] == 1 && back->reached[1] == 0 && back->reached[2] == 1);
    assert_int_equal(word(back, 0)->saying, SAYS_READY);
    assert_true(word(back, 1)->saying == SAYS_STANDING && word(back, 1)->standing.is_new);
    assert_same_replica(p, back);
    assert_true(back->l.at.step == 3 && back->l.at.applied == 48);
    assert_int_equal(back->l.at.local_step, 2); /* that the process before it made */
    begin_step(back);
    begin_step(p);
    assert_true(back->l.slice.start == 48 && p->l.slice.start == 48);
    assert_int_equal(back->work.slice.start, p->work.slice.start + p->work.slice.count);
    leave(p);
    leave(back);
}

/* Rank 0 has averaged twice without it; it goes back there when rank 3 dies too. */
static void one_that_comes_back_between_averages_has_theirs(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_between_averages(0, 7), *back = stand(1, 1);
    p->env.seats = back->env.seats = say_seats;
    for (int i = 0; i < 2; i++) {
        step_alone(p);
        average(p);
    }
    coordinator.seats[1] = 1;
    p->s->members = (struct members){.round = 1, .n_lost = 1, .lost = {1}};
    struct verdict asks = with_rank_1(KEEPER_ASKS), decision = with_rank_1(KEEPER_DECIDES);
    decision.step = 2;
    assert_int_equal(survival_look(p->s, &err_), 0);
    p->at_door = 1;
    say(p, &asks);
    say(p, &decision);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    back->env.comes_back = true;
    hand_on(p, back);
    say(back, &decision);
    back->s = survival_new_of_averages(&back->l, false, give_up, back, NULL, &err_);
    assert_non_null(back->s);
    assert_same_replica(p, back);
    step_alone(back);
    fill(back, 3);
    dies(3);
    struct verdict v = {.saying = KEEPER_ASKS,
                        .members = {.round = 3, .n_lost = 1, .lost = {3}, .seat = {0, 1, 0, 0}}};
    say(back, &v);
    v.saying = KEEPER_DECIDES;
    v.step = 2;
    v.sizes[0] = 16;
    say(back, &v);
    assert_int_equal(survival_recover(back->s, -ERR_CANCELLED, NULL, &err_), RECOVERED);
    assert_true(word(back, 0)->standing.averages == 3 && word(back, 0)->standing.step == 2);
    assert_same_replica(p, back);
    leave(p);
    leave(back);
}

static void one_that_is_let_in_after_the_end_is_told(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *back = stand(1, 1);
    back->env.seats = say_seats;
    back->env.comes_back = true;
    back->g = gradients_new(&back->env, lockstep_words(&back->l), &err_);
    struct verdict v = {.saying = KEEPER_ENDS};
    say(back, &v);
    assert_null(survival_new(&back->l, back->g, &err_));
    assert_non_null(strstr(err_.message, "the run has ended, or continues without this worker"));
    leave(back);
}

static void one_that_does_not_come_to_the_door_is_an_error(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = rank_0_without_1();
    coordinator.seats[1] = 1;
    coordinator.n_lost = 0;
    assert_int_equal(survival_look(p->s, &err_), 0);
    struct verdict asks = with_rank_1(KEEPER_ASKS);
    say(p, &asks);
    FAILS(recover(p), ERR_PEER, "does not reach this one");
    leave(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_go_back_to_the_average_and_what_came_since_is_undone),
        cmocka_unit_test(steps_count_once_all_have_averaged_them),
        cmocka_unit_test(an_average_that_was_evaluated_stays_so),
        cmocka_unit_test(one_behind_an_average_takes_it),
        cmocka_unit_test(an_average_of_other_steps_is_refused),
        cmocka_unit_test(at_the_end_a_digest_stands_for_the_replica),
        cmocka_unit_test(without_a_loss_there_is_no_digest),
        cmocka_unit_test(a_loss_at_the_end_has_another_worker_finish),
        cmocka_unit_test(one_that_comes_back_gets_everything),
        cmocka_unit_test(one_that_comes_back_between_averages_has_theirs),
        cmocka_unit_test(one_that_is_let_in_after_the_end_is_told),
        cmocka_unit_test(one_that_does_not_come_to_the_door_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
