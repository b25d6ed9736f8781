/* The keeper's half of going on without a lost worker and with one that has come back
 * (worker/exchange/lockstep/survival/survivors.c): whom it asks and when, what it decides, and what
 * it tells the coordinator. The workers are a script. With real ranks: tests/integration. */
#include "keeper_alone.h"

static struct worker_word word_of(int rank, enum saying what, int64_t step)
{
    return (struct worker_word){
        .saying = what, .rank = rank, .standing = {.round = keeper.s.members.round, .step = step}};
}

/* Rank `rank` stands there; the lost workers had made 7 steps with 20 samples. */
static struct worker_word standing_of(int rank, int64_t step)
{
    struct worker_word w = word_of(rank, SAYS_STANDING, step);
    for (int i = 0; i < LOST_MOST; i++) {
        w.standing.lost[i] = (struct tally){7, 20};
    }
    return w;
}

static void hear(const struct worker_word *w)
{
    OK(survivors_hear(&keeper.s, w, 0.5, &err_));
}

static void answers(int rank, int64_t step)
{
    struct worker_word w = standing_of(rank, step);
    hear(&w);
}

static void says_ready(int rank)
{
    struct worker_word w = word_of(rank, SAYS_READY, 0);
    hear(&w);
}

static void answers_as_new(int rank)
{
    struct worker_word w = word_of(rank, SAYS_STANDING, 0);
    w.standing.is_new = 1;
    hear(&w);
}

/* Checks what the keeper has sent since the last call: once to each rank in `whom` (a digit each),
 * and to no other. Returns the verdict to the first of them. */
static const struct verdict *said(enum keeper_saying what, const char *whom)
{
    static struct verdict first;
    size_t n = strlen(whom);
    assert_int_equal(wire.n, n);
    for (size_t k = 0; k < n; k++) {
        int times = 0;
        for (int i = 0; i < wire.n; i++) {
            const struct sent *s = &wire.sent[i];
            assert_int_equal(s->tag, TAG_VERDICT);
            assert_int_equal(s->said.saying, what);
            times += s->to == whom[k] - '0';
            first = s->to == whom[0] - '0' ? s->said : first;
        }
        assert_int_equal(times, 1);
    }
    wire.n = 0;
    return &first;
}

static void lose_rank_2(void)
{
    dies(2);
    look();
    said(KEEPER_ASKS, "013");
    answers(0, 8);
    answers(1, 8);
    answers(3, 8);
    said(KEEPER_DECIDES, "013");
}

/* Rank 2 has waited at the keeper's door, and at all others. */
static void let_rank_2_in(void)
{
    is_started_again(2);
    look();
    assert_int_equal(wire.sent[0].tag, TAG_SEAT);
    wire.n = 0;
    says_ready(2);
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void nobody_is_asked_while_all_are_there(void **state)
{
    (void)state;
    serve();
    look();
    assert_int_equal(wire.n, 0);
    assert_false(survivors_finished(&keeper.s));
    end();
}

static void all_that_are_left_are_asked_and_told_once_all_have_answered(void **state)
{
    (void)state;
    serve();
    dies(2);
    look();
    assert_true(survivors_lost(&keeper.s, 2) && !survivors_lost(&keeper.s, 1));
    const struct verdict *v = said(KEEPER_ASKS, "013");
    assert_int_equal(v->members.round, 1);
    assert_int_equal(v->members.n_lost, 1);
    look(); /* it is no second loss */
    answers(0, 8);
    answers(3, 8);
    assert_int_equal(wire.n, 0);
    answers(1, 9);
    v = said(KEEPER_DECIDES, "013");
    assert_int_equal(v->giver, 1);
    assert_int_equal(v->step, 9);
    assert_int_equal(v->version, 5);
    assert_true(v->sizes[0] == 10 && v->sizes[1] == 11 && v->sizes[2] == 0 && v->sizes[3] == 13);
    assert_true(v->best == 0.5 && !v->first_changed);
    const struct told *t = &coordinator.told[0];
    assert_int_equal(coordinator.n, 1);
    assert_true(t->gone && t->who == 2 && t->others == 3 && t->step == 9 && t->pushes == 7);
    assert_int_equal(t->samples, 10 / W + 20); /* of 10 before, ranks 0 and 1 have one more */
    assert_int_equal(keeper.env.n_lost, 1);
    end();
}

static void the_first_worker_that_changes_is_told(void **state)
{
    (void)state;
    serve();
    dies(0);
    look();
    said(KEEPER_ASKS, "123");
    for (int rank = 1; rank < W; rank++) {
        answers(rank, 8);
    }
    assert_true(said(KEEPER_DECIDES, "123")->first_changed);
    end();
}

static void another_loss_while_they_answer_has_all_asked_again(void **state)
{
    (void)state;
    serve();
    dies(2);
    look();
    said(KEEPER_ASKS, "013");
    answers(0, 8);
    struct worker_word late = standing_of(1, 8);
    dies(3);
    look();
    assert_int_equal(said(KEEPER_ASKS, "01")->members.round, 2);
    hear(&late); /* to the first question */
    answers(1, 8);
    assert_int_equal(wire.n, 0);
    answers(0, 8);
    said(KEEPER_DECIDES, "01");
    assert_int_equal(coordinator.n, 2);
    assert_int_equal(coordinator.told[1].others, 2);
    end();
}

static void what_is_on_its_way_to_a_dead_worker_is_given_up(void **state)
{
    (void)state;
    serve();
    wire.dead = 3;
    dies(2);
    look();
    said(KEEPER_ASKS, "013");
    assert_int_equal(wire.n_given_up, 0);
    dies(3);
    look();
    assert_int_equal(wire.n_given_up, 1);
    end();
}

static void the_last_worker_is_not_lost(void **state)
{
    (void)state;
    serve();
    for (int rank = 0; rank < W; rank++) {
        dies(rank);
    }
    FAILS(survivors_look(&keeper.s, &err_), ERR_PEER, "too many workers are lost to go on: 4 of 4");
    end();
}

static void losses_end_the_run_once_tags_tell_no_more_changes_apart(void **state)
{
    (void)state;
    serve();
    keeper.s.members.round = COMM_GENERATIONS;
    dies(1);
    FAILS(survivors_look(&keeper.s, &err_), ERR_PEER, "too many");
    end();
}

/* ---- returns --------------------------------------------------------------------------------- */

static void nobody_waits_for_one_that_comes_back_until_it_is_ready(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    is_started_again(2);
    wire.at_door = -1;
    look();
    assert_int_equal(wire.n, 0);
    wire.at_door = 2;
    look();
    int n = wire.n;
    assert_true(n > 1 && wire.sent[0].tag == TAG_SEAT && wire.sent[n - 1].tag == TAG_VERDICT);
    assert_int_equal(wire.sent[n - 1].said.saying, KEEPER_LETS_IN);
    assert_int_equal(wire.sent[n - 1].to, 2);
    wire.n = 0;
    look();
    says_ready(1); /* is none that comes */
    assert_int_equal(wire.n, 0);
    assert_true(survivors_lost(&keeper.s, 2));
    says_ready(2);
    const struct verdict *v = said(KEEPER_ASKS, "0123");
    assert_true(v->members.round == 2 && v->members.n_lost == 0 && v->members.seat[2] == 1);
    end();
}

static void one_that_comes_back_gets_everything_and_is_told(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    let_rank_2_in();
    said(KEEPER_ASKS, "0123");
    for (int rank = 0; rank < W; rank++) {
        rank == 2 ? answers_as_new(rank) : answers(rank, 12);
    }
    const struct verdict *v = said(KEEPER_DECIDES, "0123");
    assert_true(v->behind[2] == IS_NEW && !v->behind[0] && !v->behind[1] && !v->behind[3]);
    assert_int_equal(v->sizes[2], 12);
    const struct told *t = &coordinator.told[1];
    assert_int_equal(coordinator.n, 2);
    assert_true(!t->gone && t->who == 2 && t->step == 12 && t->others == 4 && t->pushes == 7);
    assert_int_equal(t->samples, 10 / W + 20);
    assert_int_equal(keeper.env.n_lost, 0);
    look();
    assert_int_equal(wire.n, 0);
    end();
}

static void one_that_does_not_answer_for_3_s_is_left_out(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    let_rank_2_in();
    said(KEEPER_ASKS, "0123");
    answers(0, 12);
    look_for(2.9);
    assert_int_equal(wire.n, 0);
    look_for(0.2);
    const struct sent *last = &wire.sent[--wire.n]; /* it ends, and is restarted */
    assert_true(last->to == 2 && last->tag == TAG_VERDICT && last->said.saying == KEEPER_ENDS);
    const struct verdict *v = said(KEEPER_ASKS, "013");
    assert_true(v->members.round == 3 && v->members.n_lost == 1 && v->members.lost[0] == 2);
    answers(0, 12);
    answers(1, 12);
    answers(3, 12);
    said(KEEPER_DECIDES, "013");
    is_started_again(2);
    look();
    assert_int_equal(wire.sent[0].tag, TAG_SEAT);
    end();
}

/* Its answer may be waiting there. */
static void a_keeper_that_stood_still_leaves_nobody_out(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    let_rank_2_in();
    said(KEEPER_ASKS, "0123");
    wire.now += 20;
    look();
    assert_int_equal(wire.n, 0);
    answers_as_new(2);
    look_for(5);
    assert_int_equal(wire.n, 0);
    end();
}

/* The time counts from the repeated question. */
static void one_that_is_asked_anew_has_its_time_again(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    let_rank_2_in();
    said(KEEPER_ASKS, "0123");
    look_for(2.9);
    coordinator.n_lost = 0;
    dies(3);
    look();
    said(KEEPER_ASKS, "012");
    look_for(2.9);
    assert_int_equal(wire.n, 0);
    end();
}

static void one_that_has_answered_is_waited_with(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    let_rank_2_in();
    said(KEEPER_ASKS, "0123");
    answers_as_new(2);
    look_for(10);
    assert_int_equal(wire.n, 0);
    end();
}

static void one_that_dies_before_it_was_asked_keeps_nobody_waiting(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    is_started_again(2);
    look();
    wire.n = 0;
    dies(2); /* the second process */
    says_ready(2);
    assert_int_equal(wire.n, 0);
    is_started_again(2);
    look();
    assert_true(wire.n > 1); /* the third is let in */
    end();
}

static void nobody_is_let_in_while_others_answer_or_once_one_has_finished(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    dies(3);
    look();
    said(KEEPER_ASKS, "01");
    is_started_again(2);
    coordinator.lost[coordinator.n_lost++] = 3;
    look();
    assert_int_equal(wire.n, 0);
    answers(0, 9);
    answers(1, 9);
    said(KEEPER_DECIDES, "01");
    struct worker_word w = word_of(1, SAYS_FINISHED, 9);
    hear(&w);
    look();
    assert_int_equal(wire.n, 0);
    assert_int_equal(wire.at_door, 2);
    end();
}

/* The three remaining ranks may be lost one after the other. */
static void rounds_are_kept_for_losses_that_may_come(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    is_started_again(2);
    keeper.s.members.round = COMM_GENERATIONS - 3;
    look();
    assert_int_equal(wire.n, 0);
    keeper.s.members.round = COMM_GENERATIONS - 4;
    look();
    assert_true(wire.n > 0);
    end();
}

/* ---- the end --------------------------------------------------------------------------------- */

static void finishes(int rank, uint64_t digest)
{
    struct worker_word w = word_of(rank, SAYS_FINISHED, 40);
    w.standing.digest = digest;
    hear(&w);
}

static void the_run_ends_once_all_that_are_left_have_finished_alike(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    finishes(0, 77);
    finishes(3, 77);
    assert_false(survivors_finished(&keeper.s));
    finishes(1, 77);
    assert_true(survivors_finished(&keeper.s));
    OK(survivors_end(&keeper.s, &err_));
    said(KEEPER_ENDS, "013");
    end();
}

static void replicas_that_differ_at_the_end_are_an_error(void **state)
{
    (void)state;
    serve();
    lose_rank_2();
    finishes(0, 77);
    struct worker_word w = word_of(1, SAYS_FINISHED, 40);
    w.standing.digest = 78;
    FAILS(survivors_hear(&keeper.s, &w, 0, &err_), ERR_PEER, "workers 0 and 1 are not the same");
    end();
}

static void a_loss_after_some_have_finished_asks_them_too(void **state)
{
    (void)state;
    serve();
    finishes(0, 0);
    dies(2);
    look();
    said(KEEPER_ASKS, "013");
    assert_false(survivors_finished(&keeper.s));
    for (int rank = 0; rank < W; rank++) {
        assert_false(keeper.s.finished[rank]);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_asked_while_all_are_there),
        cmocka_unit_test(all_that_are_left_are_asked_and_told_once_all_have_answered),
        cmocka_unit_test(the_first_worker_that_changes_is_told),
        cmocka_unit_test(another_loss_while_they_answer_has_all_asked_again),
        cmocka_unit_test(what_is_on_its_way_to_a_dead_worker_is_given_up),
        cmocka_unit_test(the_last_worker_is_not_lost),
        cmocka_unit_test(losses_end_the_run_once_tags_tell_no_more_changes_apart),
        cmocka_unit_test(nobody_waits_for_one_that_comes_back_until_it_is_ready),
        cmocka_unit_test(one_that_comes_back_gets_everything_and_is_told),
        cmocka_unit_test(one_that_does_not_answer_for_3_s_is_left_out),
        cmocka_unit_test(a_keeper_that_stood_still_leaves_nobody_out),
        cmocka_unit_test(one_that_is_asked_anew_has_its_time_again),
        cmocka_unit_test(one_that_has_answered_is_waited_with),
        cmocka_unit_test(one_that_dies_before_it_was_asked_keeps_nobody_waiting),
        cmocka_unit_test(nobody_is_let_in_while_others_answer_or_once_one_has_finished),
        cmocka_unit_test(rounds_are_kept_for_losses_that_may_come),
        cmocka_unit_test(the_run_ends_once_all_that_are_left_have_finished_alike),
        cmocka_unit_test(replicas_that_differ_at_the_end_are_an_error),
        cmocka_unit_test(a_loss_after_some_have_finished_asks_them_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
