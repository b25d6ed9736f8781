/* What a rank and its program tell each other between steps (step/talk.c and settle.c of
 * worker/program). The test is the program, at the other end of the socket. tests/client has real
 * programs. */
#include "program_alone.h"

#include "no_messages.h"

/* ---- hearing --------------------------------------------------------------------------------- */

static void what_it_may_say_at_any_time_is_heard_aside(void **state)
{
    struct wire_message m, epochs = {.type = WIRE_EPOCHS, .epochs = 7};
    struct dev_result sum;
    (void)state;
    begin();
    program_says(&epochs);
    says_text(WIRE_LOG, 0, "{\"test_accuracy\": 0.5}");
    begins(1, 0);
    OK(talk_hear(&rank.g, &m, &err_));
    assert_true(m.type == WIRE_BEGIN && m.slice.number == 1);
    assert_true(rank.p.epochs == 7);
    assert_true(metrics_take_oldest(&rank.g.metrics, &sum) > 0);
    assert_true(sum.correct == METRICS_SAMPLES / 2);
    end();
}

static void a_descriptor_that_comes_along_is_the_callers_or_closed(void **state)
{
    struct wire_message m;
    int fd, before, after;
    (void)state;
    begin();
    says_text(WIRE_STATE, 0, "state");
    OK(talk_hear_with(&rank.g, &m, &fd, &err_));
    assert_true(m.type == WIRE_STATE && fd >= 0);
    close(fd);
    before = dup(0);
    close(before);
    says_text(WIRE_STATE, 0, "state");
    OK(talk_hear(&rank.g, &m, &err_));
    after = dup(0);
    close(after);
    assert_int_equal(after, before);
    end();
}

static void what_a_program_that_gives_up_says_is_the_error(void **state)
{
    struct wire_message m;
    (void)state;
    begin();
    says_text(WIRE_FAILED, 0, "no such file");
    FAILS(talk_hear(&rank.g, &m, &err_), ERR_PEER,
          "the program of rank 1 on 'fast' cannot go on: no such file");
    assert_true(rank.p.link.gone && !rank.p.refused);
    says_text(WIRE_FAILED, WIRE_FINAL, "no such file");
    FAILS(talk_hear(&rank.g, &m, &err_), ERR_INVALID, "no such file");
    assert_true(rank.p.refused);
    end();
}

/* Until then, a process that ends leaves its step undone. */
static void a_step_is_made_once_the_program_says_what_follows_it(void **state)
{
    static const struct {
        uint32_t type, flags;
        bool made;
    } cases[] = {{WIRE_BEGIN, 0, true},
                 {WIRE_BEGIN, WIRE_AGAIN, false},
                 {WIRE_BUCKET, 0, false},
                 {WIRE_EPOCH_END, 0, true},
                 {WIRE_LEAVE, 0, true}};
    struct wire_message m;
    (void)state;
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank.g.own_step = OWN_STEP;
        says(cases[i].type, cases[i].flags);
        OK(talk_hear(&rank.g, &m, &err_));
        assert_int_equal(rank.g.own_step, cases[i].made ? NO_STEP : OWN_STEP);
    }
    end();
}

static void leaves_without_a_word(int status)
{
    close(rank.program);
    rank.program = -1;
    rank.p.child.reaped = true;
    rank.p.child.status = status << 8;
}

static void one_that_ends_without_a_word_is_an_error(void **state)
{
    struct wire_message m;
    (void)state;
    begin();
    rank.g.own_step = OWN_STEP;
    leaves_without_a_word(3);
    FAILS(talk_hear(&rank.g, &m, &err_), ERR_PEER, "ended with exit code 3");
    assert_true(rank.p.link.gone && rank.g.own_step == OWN_STEP);
    rank.g.answered = -1;
    FAILS(settle_step(&rank.g, &err_), ERR_PEER, "ended with exit code 3");
    rank.g.doing = HELD;
    rank.g.held_at = WIRE_LEAVE;
    FAILS(talk_go_on(&rank.g, 0, &err_), ERR_PEER, "ended with exit code 3");
    end();
}

/* The kernel first reports that a message to the program was not read, and then delivers the
 * program's own. */
static void what_it_said_last_is_heard_before_its_end(void **state)
{
    struct wire_message m;
    (void)state;
    begin();
    OK(talk_say(&rank.g, WIRE_CONTINUE, 0, &err_)); /* it is not read */
    begins(1, 0);
    ends_epoch(0);
    leaves_without_a_word(3);
    OK(talk_hear(&rank.g, &m, &err_));
    assert_int_equal(m.type, WIRE_BEGIN);
    OK(talk_say(&rank.g, WIRE_CONTINUE, 0, &err_)); /* nobody hears it */
    OK(talk_hear(&rank.g, &m, &err_));
    assert_int_equal(m.type, WIRE_EPOCH_END);
    FAILS(talk_say(&rank.g, WIRE_CONTINUE, 0, &err_), ERR_PEER, "ended with exit code 3");
    FAILS(talk_hear(&rank.g, &m, &err_), ERR_PEER, "ended with exit code 3");
    end();
}

/* ---- saying ---------------------------------------------------------------------------------- */

static void go_says_who_makes_the_step(void **state)
{
    static const struct {
        uint32_t flags;
        enum own_step own;
        bool holding;
    } cases[] = {{0, OWN_STEP, false},
                 {WIRE_HOLD, OWN_STEP, true},
                 {WIRE_DIFFERENCE, OWN_DIFFERENCE, false},
                 {WIRE_SKIP_STEP, NO_STEP, false},
                 {WIRE_SKIP_STEP | WIRE_HOLD, NO_STEP, true}};
    (void)state;
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank.g.doing = AWAITS_GO;
        rank.g.own_step = NO_STEP;
        rank.g.holding = !cases[i].holding;
        rank.g.gave = true; /* of the step before: forgotten with parameters that are given anew */
        OK(talk_say(&rank.g, WIRE_GO, cases[i].flags, &err_));
        heard(WIRE_GO, cases[i].flags);
        assert_int_equal(rank.g.doing, WORKS);
        assert_int_equal(rank.g.own_step, cases[i].own);
        assert_int_equal(rank.g.holding, cases[i].holding);
        assert_int_equal(rank.g.gave, !(cases[i].flags & WIRE_SKIP_STEP));
    }
    end();
}

static void to_a_process_that_has_ended_nothing_is_said(void **state)
{
    (void)state;
    begin();
    rank.g.lost = true;
    OK(talk_say(&rank.g, WIRE_GO, WIRE_HOLD, &err_));
    assert_int_equal(hears().type, 0);
    assert_true(rank.g.holding && rank.g.doing == WORKS);
    rank.g.lost = rank.g.holding = false;
    rank.g.doing = HELD;
    OK(talk_say(&rank.g, WIRE_SAVE, 0, &err_)); /* it answers, and stays where it is */
    heard(WIRE_SAVE, 0);
    assert_int_equal(rank.g.doing, HELD);
    end();
}

/* ---- standing still -------------------------------------------------------------------------- */

static void it_settles_where_the_next_step_begins(void **state)
{
    (void)state;
    begin();
    rank.g.go = WIRE_SKIP_STEP;
    begins(5, 0);
    OK(settle_step(&rank.g, &err_));
    heard(WIRE_GO, WIRE_SKIP_STEP | WIRE_HOLD);
    assert_true(rank.g.doing == HELD && rank.g.held_at == WIRE_BEGIN);
    assert_true(rank.g.begun && rank.g.begun_last == 5);
    assert_int_equal(rank.p.phase, PHASE_EXCHANGE);
    OK(settle_step(&rank.g, &err_)); /* it stands */
    assert_int_equal(hears().type, 0);
    end();
}

static void one_that_works_without_a_hold_is_not_waited_for(void **state)
{
    (void)state;
    begin();
    rank.g.doing = WORKS;
    OK(settle_step(&rank.g, &err_));
    assert_int_equal(rank.g.doing, WORKS);
    rank.g.holding = true;
    begins(1, 0);
    OK(settle_step(&rank.g, &err_));
    assert_int_equal(rank.g.doing, HELD);
    assert_int_equal(hears().type, 0);
    end();
}

static void an_epoch_ends_where_its_last_slice_was(void **state)
{
    (void)state;
    begin();
    *slice_told(&rank.g, 0) = WIRE_EPOCH_LAST;
    rank.g.averages = true;
    ends_epoch(0);
    OK(settle_step(&rank.g, &err_));
    assert_true(rank.g.doing == HELD && rank.g.held_at == WIRE_EPOCH_END && !rank.g.early);
    end();
    begin();
    rank.g.number = 3;
    ends_epoch(0);
    FAILS(settle_step(&rank.g, &err_), ERR_PEER,
          "the program of rank 1 on 'fast' ended its epoch early, in step 3: each epoch has all of "
          "its samples");
    end();
}

/* If nodes step by themselves, all average then, and the run ends. */
static void a_loop_over_steps_may_end_within_an_epoch(void **state)
{
    (void)state;
    for (int averages = 0; averages < 2; averages++) {
        begin();
        rank.g.averages = averages;
        ends_epoch(-1);
        OK(settle_step(&rank.g, &err_));
        assert_true(rank.g.doing == HELD && rank.g.early == averages);
        end();
    }
}

static double further_weight;
static int n_further;

static int sum_further(void *ctx, double weight, enum further_pass how, struct err *e)
{
    (void)ctx;
    further_weight = weight;
    n_further++;
    return how == PASS_MADE ? 0 : err_set(e, ERR_DATA, "the pass failed");
}

/* All passes over the step are summed before its parameters are read. */
static void further_passes_come_before_it_stands_still(void **state)
{
    struct wire_message m = {.type = WIRE_GRADIENTS, .gradients.weight = 5};
    struct comm comm;
    struct silent wire = {{&no_messages}, 0, 3};
    (void)state;
    begin();
    OK(comm_init(&comm, &wire.t, 2, 1, &err_));
    rank.env.comm = &comm;
    rank.g.base.further = sum_further;
    rank.g.base.idle = -1;
    n_further = 0;
    for (int i = 0; i < 2; i++) {
        begins(0, WIRE_AGAIN);
        program_says(&m);
    }
    begins(1, 0);
    OK(settle_step(&rank.g, &err_));
    assert_true(n_further == 2 && further_weight == 5);
    assert_true(rank.g.doing == HELD && rank.g.held_at == WIRE_BEGIN && rank.g.begun_last == 1);
    for (int i = 0; i < 3; i++) { /* after the step, and after each further pass */
        heard(WIRE_GO, WIRE_HOLD);
    }
    rank.g.doing = AWAITS_GO;
    m.flags = WIRE_VOID;
    begins(1, WIRE_AGAIN);
    program_says(&m);
    FAILS(settle_step(&rank.g, &err_), ERR_DATA, "the pass failed");
    comm_release(&comm);
    end();
}

static void what_is_out_of_turn_is_an_error(void **state)
{
    (void)state;
    begin();
    rank.g.doing = WORKS;
    rank.g.holding = true;
    says(WIRE_READY, 0);
    FAILS(settle_step(&rank.g, &err_), ERR_PEER, "sent message 2 of the protocol out of turn");
    end();
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void it_leaves_after_the_last_slice_of_the_run(void **state)
{
    (void)state;
    begin();
    *slice_told(&rank.g, 0) = WIRE_EPOCH_LAST | WIRE_RUN_LAST;
    says(WIRE_LEAVE, 0);
    OK(settle_step(&rank.g, &err_));
    assert_true(rank.g.doing == HELD && rank.g.held_at == WIRE_LEAVE && !rank.g.early);
    end();
    begin();
    rank.g.number = 2;
    *slice_told(&rank.g, 2) = WIRE_EPOCH_LAST;
    says(WIRE_LEAVE, 0);
    FAILS(settle_step(&rank.g, &err_), ERR_PEER,
          "left after step 2, before the job's end after epoch 3");
    assert_non_null(strstr(err_.hint, "evenstep.epochs(n)"));
    end();
}

static void when_it_may_leave(void **state)
{
    static const struct {
        int64_t last;
        uint32_t told;
        bool open, resumed, quits, may, early;
    } cases[] = {
        {0, WIRE_RUN_LAST, false, false, false, true, false},
        {0, WIRE_EPOCH_LAST, true, false, false, true,
         false}, /* it says how many epochs there are */
        {0, WIRE_EPOCH_LAST, false, false, false, false, false},
        {0, 0, true, false, false, false, false},
        {0, 0, false, false, true, true, true},
        {0, WIRE_RUN_LAST, false, false, true, true, false},
        {-1, 0, false, false, false, false, false},
        {-1, 0, true, true, false, true, false}, /* restarted from the very end */
        {-1, 0, true, false, false, false, false},
    };
    (void)state;
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        *slice_told(&rank.g, 0) = cases[i].told;
        rank.p.open = cases[i].open;
        rank.p.resumed = cases[i].resumed;
        rank.g.quits = cases[i].quits;
        rank.g.early = false;
        int rc = talk_check_leave(&rank.g, cases[i].last, &err_);
        if ((rc == 0) != cases[i].may || rank.g.early != cases[i].early) {
            fail_msg("case %zu: %d, early %d", i, rc, rank.g.early);
        }
    }
    end();
}

static void who_has_quit_makes_no_step_any_more(void **state)
{
    static const struct {
        enum doing doing;
        uint32_t held_at;
        bool early, quit;
    } cases[] = {{GONE, 0, false, true},
                 {HELD, WIRE_LEAVE, false, true},
                 {HELD, WIRE_EPOCH_END, true, true},
                 {HELD, WIRE_EPOCH_END, false, false},
                 {HELD, WIRE_BEGIN, true, false},
                 {WORKS, WIRE_LEAVE, true, false},
                 {AWAITS_GO, WIRE_EPOCH_END, true, false}};
    (void)state;
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank.g.doing = cases[i].doing;
        rank.g.held_at = cases[i].held_at;
        rank.g.early = cases[i].early;
        assert_int_equal(talk_has_quit(&rank.g), cases[i].quit);
    }
    end();
}

/* `sys.exit(1)` in the middle of the program's epochs is a failure, not an early end. */
static void one_that_leaves_early_must_end_well(void **state)
{
    (void)state;
    begin();
    rank.p.child.reaped = true;
    rank.g.early = true;
    OK(talk_check_status(&rank.g, &err_));
    assert_true(rank.g.early && !rank.p.link.gone);
    rank.p.child.status = 3 << 8;
    FAILS(talk_check_status(&rank.g, &err_), ERR_PEER,
          "the program of rank 1 on 'fast' ended with exit code 3");
    assert_true(!rank.g.early && rank.p.link.gone);
    end();
}

/* ---- going on -------------------------------------------------------------------------------- */

static void it_goes_on_from_where_it_stands(void **state)
{
    (void)state;
    begin();
    rank.g.go = WIRE_SKIP_STEP;
    OK(talk_go_on(&rank.g, WIRE_HOLD, &err_));
    heard(WIRE_GO, WIRE_SKIP_STEP | WIRE_HOLD);
    assert_int_equal(rank.g.doing, WORKS);
    OK(talk_go_on(&rank.g, WIRE_HOLD, &err_)); /* it works */
    assert_int_equal(hears().type, 0);
    rank.g.doing = HELD;
    rank.g.held_at = WIRE_BEGIN;
    OK(talk_go_on(&rank.g, WIRE_STOP, &err_));
    heard(WIRE_CONTINUE, WIRE_STOP);
    assert_true(rank.g.doing == WORKS && !rank.g.holding);
    rank.g.doing = HELD;
    rank.g.held_at = WIRE_LEAVE;
    OK(talk_go_on(&rank.g, 0, &err_));
    heard(WIRE_CONTINUE, 0);
    assert_int_equal(rank.g.doing, GONE);
    OK(talk_go_on(&rank.g, 0, &err_));
    assert_int_equal(hears().type, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_may_say_at_any_time_is_heard_aside),
        cmocka_unit_test(a_descriptor_that_comes_along_is_the_callers_or_closed),
        cmocka_unit_test(what_a_program_that_gives_up_says_is_the_error),
        cmocka_unit_test(a_step_is_made_once_the_program_says_what_follows_it),
        cmocka_unit_test(one_that_ends_without_a_word_is_an_error),
        cmocka_unit_test(what_it_said_last_is_heard_before_its_end),
        cmocka_unit_test(go_says_who_makes_the_step),
        cmocka_unit_test(to_a_process_that_has_ended_nothing_is_said),
        cmocka_unit_test(it_settles_where_the_next_step_begins),
        cmocka_unit_test(one_that_works_without_a_hold_is_not_waited_for),
        cmocka_unit_test(an_epoch_ends_where_its_last_slice_was),
        cmocka_unit_test(a_loop_over_steps_may_end_within_an_epoch),
        cmocka_unit_test(further_passes_come_before_it_stands_still),
        cmocka_unit_test(what_is_out_of_turn_is_an_error),
        cmocka_unit_test(it_leaves_after_the_last_slice_of_the_run),
        cmocka_unit_test(when_it_may_leave),
        cmocka_unit_test(who_has_quit_makes_no_step_any_more),
        cmocka_unit_test(one_that_leaves_early_must_end_well),
        cmocka_unit_test(it_goes_on_from_where_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
