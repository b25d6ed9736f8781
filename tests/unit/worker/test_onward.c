/* A worker's half of continuing without a lost worker if its program keeps its steps between
 * averages (worker/exchange/lockstep/survival/onward.c, past.c; docs/decisions/0080).
 * tests/survival/test_lost_averaged_program.py has real programs. */
#include "worker_alone.h"

enum { AHEAD = 2, SAMPLES = 160 };

static int give_up(void *ctx, struct err *e)
{
    (void)e;
    ((struct place *)ctx)->given_up++;
    return 0;
}

/* ---- an own state, from program to program --------------------------------------------------- */

static struct {
    char state[16];
    int64_t made, position;
    bool ends_epoch;
} entered;
static int given; /* what give_own() returns */

static int give_own(void *ctx, struct own_state *out, struct err *e)
{
    (void)ctx;
    OK(own_state_alloc(out, sizeof "momentum", e));
    memcpy(out->bytes, "momentum", sizeof "momentum");
    return given;
}

static int enter_with(void *ctx, const struct entrance *at, const struct own_state *own,
                      struct err *e)
{
    (void)ctx;
    (void)e;
    assert_true(own->n <= sizeof entered.state);
    memcpy(entered.state, own->bytes, own->n);
    entered.made = at->made;
    entered.position = at->at.position;
    entered.ends_epoch = at->ends_epoch;
    return 0;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Groups are {0, 1} and {2, 3}. */
static struct place *begin_with_a_program(int rank, float value)
{
    static const int groups[W] = {0, 0, 1, 1};
    const struct run_state from = {.cursor = {.samples = SAMPLES, .epochs = 2}, .best = -INFINITY};
    struct place *p = stand(rank, value);
    lockstep_release(&p->l);
    p->env.program.ahead = AHEAD;
    p->env.train_samples = SAMPLES;
    lockstep_init(&p->l, &p->env, &from);
    OK(comm_set_groups(&p->comm, groups, &err_));
    p->env.give = give_own;
    p->env.enter = enter_with;
    return p;
}

static struct place *stand_with_a_program(int rank, float value)
{
    struct place *p = begin_with_a_program(rank, value);
    p->s = survival_new_of_averages(&p->l, false, give_up, p, &p->taken, &err_);
    assert_non_null(p->s);
    return p;
}

static void make_step(struct place *p)
{
    begin_step(p);
    OK(survival_count(p->s, &err_));
    lockstep_done(&p->l);
}

static void average(struct place *p, float value)
{
    float words[64] = {0};
    OK(survival_arrive(p->s, MEETS_TO_AVERAGE, &err_));
    fill(p, value);
    lockstep_agree(&p->l, words);
    survival_averaged(p->s, words);
}

/* Comes to this exchange, in which rank 3 is lost. */
static int meet(struct place *p, enum meeting what, const struct verdict *v)
{
    OK(survival_arrive(p->s, what, &err_));
    ask(p, v->members.round);
    say(p, v);
    return survival_recover(p->s, -ERR_CANCELLED, NULL, &err_);
}

static void assert_cut_alike(struct place *a, struct place *b)
{
    begin_step(a);
    begin_step(b);
    assert_int_equal(a->l.slice.count, b->l.slice.count);
    assert_int_equal(a->l.slice.start, b->l.slice.start);
    assert_int_equal(a->l.at.applied, b->l.at.applied);
    assert_memory_equal(a->l.counts, b->l.counts, W * sizeof *a->l.counts);
}

static void steps_stay_and_what_the_lost_one_had_of_them_comes_again(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_with_a_program(1, 1), *as_it_was = stand(1, 5);
    make_step(p);
    average(p, 2);
    make_step(p);
    fill(p, 5);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    assert_int_equal(meet(p, MEETS_TO_AVERAGE, &v), RECOVERED_ONCE_MORE);
    assert_int_equal(p->given_up, 1);
    assert_same_replica(p, as_it_was);
    const struct standing *at = &word(p, 0)->standing;
    assert_true(at->step == 1 && at->averages == 2 && at->held[0] == 0);
    assert_true(at->lost[0].steps == 1 && at->lost[0].samples == 3); /* not those since */
    assert_true(p->undone[0] == 0 && p->l.at.step == 2 && p->l.at.applied == 32 - 3);
    struct undone u = survival_take_undone(p->s);
    assert_true(u.samples == 3 && u.of_group == 0 && !u.shared);
    assert_true(survival_take_undone(p->s).samples == 0);
    int64_t left = 0;
    while (p->l.at.cursor.epoch == 0) {
        begin_step(p);
        assert_int_equal(p->l.counts[3], 0);
        left += p->l.slice.count;
        lockstep_done(&p->l);
    }
    assert_int_equal(left, SAMPLES - 32 + 3);
    leave(p);
    leave(as_it_was);
}

/* Rank 0 has averaged in the sum in which rank 3 died, and is two steps ahead. */
static void who_lacks_an_average_gets_it_and_loses_the_worker_where_the_others_do(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_with_a_program(0, 1), *behind = stand_with_a_program(1, 1),
                 *as_averaged = stand(1, 7);
    make_step(ahead);
    make_step(behind);
    average(ahead, 7);
    make_step(ahead);
    fill(ahead, 8);
    fill(behind, 3);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    v.behind[1] = IS_BEHIND;
    assert_int_equal(meet(ahead, MEETS_TO_AVERAGE, &v), RECOVERED_ONCE_MORE);
    assert_int_equal(ahead->r.host[DEV_PARAMS][0], 8);
    hand_on(ahead, behind);
    assert_int_equal(meet(behind, MEETS_TO_AVERAGE, &v), RECOVERED);
    assert_memory_equal(behind->r.host[DEV_PARAMS], as_averaged->r.host[DEV_PARAMS],
                        behind->r.count[DEV_PARAMS] * sizeof(float));
    assert_true(behind->l.at.step == 1 && survival_take_undone(behind->s).samples == 0);
    begin_step(behind);
    assert_int_equal(behind->l.counts[3], 3); /* it was cut so for rank 0 */
    OK(survival_count(behind->s, &err_));
    lockstep_done(&behind->l);
    OK(survival_arrive(behind->s, MEETS_GROUP, &err_));
    assert_true(survival_take_undone(behind->s).samples == 0);
    OK(survival_arrive(behind->s, MEETS_TO_AVERAGE, &err_));
    assert_true(survival_take_undone(behind->s).samples == 3);
    assert_cut_alike(ahead, behind);
    leave(ahead);
    leave(behind);
    leave(as_averaged);
}

static void an_average_to_be_shown_is_given_and_begins_no_interval(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_with_a_program(0, 1), *behind = stand_with_a_program(1, 1);
    make_step(ahead);
    make_step(behind);
    OK(survival_arrive(ahead->s, MEETS_TO_SHOW, &err_));
    fill(ahead, 7);
    survival_shown(ahead->s);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    v.behind[1] = IS_BEHIND;
    assert_int_equal(meet(ahead, MEETS_TO_TELL, &v), RECOVERED_ONCE_MORE);
    hand_on(ahead, behind);
    assert_int_equal(meet(behind, MEETS_TO_SHOW, &v), RECOVERED);
    assert_int_equal(behind->r.host[DEV_PARAMS][0], 7);
    OK(survival_arrive(behind->s, MEETS_TO_TELL, &err_));
    assert_true(survival_take_undone(ahead->s).samples == 3); /* of the step before, too */
    assert_true(survival_take_undone(behind->s).samples == 3);
    assert_cut_alike(ahead, behind);
    leave(ahead);
    leave(behind);
}

/* Rank 3 has averaged with rank 2 after the first of two steps; that step counts. */
static void what_a_group_has_averaged_with_the_lost_one_counts(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *mate = stand_with_a_program(2, 1), *other = stand_with_a_program(0, 1);
    for (int i = 0; i < 2; i++) {
        make_step(mate);
        make_step(other);
        if (i == 0) {
            OK(survival_arrive(mate->s, MEETS_GROUP, &err_));
            survival_grouped(mate->s);
            survival_grouped(other->s);
        }
    }
    dies(3);
    struct verdict v = decides(1, 0, 0);
    v.held[0] = 1;
    assert_int_equal(meet(mate, MEETS_GROUP, &v), RECOVERED_ONCE_MORE);
    assert_int_equal(meet(other, MEETS_TO_AVERAGE, &v), RECOVERED_ONCE_MORE);
    const struct standing *at = &word(mate, 0)->standing;
    assert_true(at->group == 2 && at->group_averages == 1 && at->held[0] == 1);
    assert_true(at->lost[0].steps == 1 && at->lost[0].samples == 3);
    at = &word(other, 0)->standing;
    assert_true(at->group == 0 && at->held[0] == 0 && at->lost[0].steps == 0);
    struct undone u = survival_take_undone(mate->s);
    assert_true(u.samples == 0 && u.of_group == 3 && u.shared);
    OK(survival_arrive(mate->s, MEETS_TO_AVERAGE, &err_));
    assert_true(survival_take_undone(mate->s).samples == 3);
    u = survival_take_undone(other->s);
    assert_true(u.samples == 3 && u.of_group == 0 && !u.shared);
    assert_cut_alike(mate, other);
    leave(mate);
    leave(other);
}

/* No rank waits for an exchange: rank 0 has made three steps, rank 1 one. */
static void all_go_on_without_it_behind_the_last_step_that_one_has_made(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_with_a_program(0, 1), *behind = stand_with_a_program(1, 1);
    for (int i = 0; i < 3; i++) {
        make_step(ahead);
    }
    make_step(behind);
    dies(3);
    struct verdict v = decides(1, 0, 0);
    v.made = 3;
    assert_int_equal(meet(ahead, MEETS_NOBODY, &v), RECOVERED_ONCE_MORE);
    assert_int_equal(meet(behind, MEETS_NOBODY, &v), RECOVERED_ONCE_MORE);
    assert_true(word(ahead, 0)->standing.made == 3 && word(behind, 0)->standing.made == 1);
    for (int i = 0; i < 2; i++) {
        assert_true(survival_take_undone(behind->s).samples == 0);
        OK(survival_arrive(behind->s, MEETS_NOBODY, &err_));
        begin_step(behind);
        assert_int_equal(behind->l.counts[3], 3); /* it was cut so for rank 0 */
        OK(survival_count(behind->s, &err_));
        lockstep_done(&behind->l);
    }
    OK(survival_arrive(behind->s, MEETS_NOBODY, &err_));
    assert_true(survival_take_undone(ahead->s).samples == 9);
    assert_true(survival_take_undone(behind->s).samples == 9);
    assert_cut_alike(ahead, behind);
    leave(ahead);
    leave(behind);
}

/* Rank 1 hears of the second loss before it has come to where the others noticed the first. */
static void two_are_lost_in_the_order_in_which_the_others_lose_them(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *ahead = stand_with_a_program(0, 1), *behind = stand_with_a_program(1, 1);
    make_step(ahead);
    make_step(ahead);
    make_step(behind);
    dies(3);
    struct verdict v = decides(1, 0, 0);
    v.made = 2;
    meet(ahead, MEETS_NOBODY, &v);
    meet(behind, MEETS_NOBODY, &v);
    make_step(ahead);
    dies(2);
    v.members.round = 2;
    v.members.lost[v.members.n_lost++] = 2;
    v.made = 3;
    meet(ahead, MEETS_NOBODY, &v);
    meet(behind, MEETS_NOBODY, &v);
    for (int i = 0; i < 2; i++) {
        OK(survival_arrive(behind->s, MEETS_NOBODY, &err_));
        make_step(behind);
    }
    OK(survival_arrive(behind->s, MEETS_NOBODY, &err_));
    double both = survival_take_undone(ahead->s).samples;
    assert_true(both > 6 && survival_take_undone(behind->s).samples == both);
    assert_cut_alike(ahead, behind);
    leave(ahead);
    leave(behind);
}

/* Rank 3's second process, which rank 0 has let in and given what it needs. */
static struct place *come_back(struct place *giver)
{
    static const struct members with_3 = {.round = 2, .seat = {0, 0, 0, 1}};
    struct place *back = begin_with_a_program(3, 9);
    struct verdict asks = {.saying = KEEPER_ASKS, .members = with_3},
                   v = {.saying = KEEPER_DECIDES, .members = with_3, .sizes = {4, 5, 4, 3}};
    v.step = 1;
    v.made = giver->l.at.step;
    v.best = 0.25;
    v.behind[3] = IS_NEW;
    coordinator.n_lost = 0;
    coordinator.seats[3] = 1;
    giver->env.seats = back->env.seats = say_seats;
    giver->at_door = 3;
    assert_int_equal(survival_look(giver->s, &err_), 0); /* from now on it listens */
    say(giver, &asks);
    say(giver, &v);
    assert_int_equal(survival_recover(giver->s, -ERR_CANCELLED, NULL, &err_), RECOVERED_ONCE_MORE);
    hand_on(giver, back);
    say(back, &v);
    back->env.comes_back = true;
    back->s = survival_new_of_averages(&back->l, false, give_up, back, &back->taken, &err_);
    assert_non_null(back->s);
    return back;
}

static void lose_rank_2(struct place *p)
{
    struct verdict v = {.saying = KEEPER_ASKS,
                        .members = {.round = 3, .n_lost = 1, .lost = {2}, .seat = {0, 0, 0, 1}}};
    say(p, &v);
    v.saying = KEEPER_DECIDES;
    v.step = 1;
    v.made = p->l.at.step;
    v.sizes[0] = 16;
    say(p, &v);
    assert_int_equal(survival_recover(p->s, -ERR_CANCELLED, NULL, &err_), RECOVERED_ONCE_MORE);
}

/* Between two averages: its replica is the last average, and it knows every rank's samples since
 * then, so that a loss in this interval takes the same from it as from the others. */
static void one_that_comes_back_has_the_last_average_and_what_was_made_since(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_with_a_program(0, 1);
    make_step(p);
    average(p, 2);
    make_step(p);
    fill(p, 5);
    dies(3);
    struct verdict v = decides(1, 1, 0);
    v.made = 2;
    assert_int_equal(meet(p, MEETS_NOBODY, &v), RECOVERED_ONCE_MORE);
    survival_take_undone(p->s);
    make_step(p);
    p->taken = 29;
    OK(survival_arrive(p->s, MEETS_TO_AVERAGE, &err_));
    given = OWN_STATE_AT_EPOCH_END;
    struct place *back = come_back(p), *as_averaged = stand(1, 2);
    given = 0;
    assert_memory_equal(back->r.host[DEV_PARAMS], as_averaged->r.host[DEV_PARAMS],
                        back->r.count[DEV_PARAMS] * sizeof(float));
    assert_int_equal(survival_meeting(back->s), MEETS_TO_AVERAGE);
    assert_true(back->taken == 29 && back->l.best == 0.25 && back->l.at.step == 3);
    assert_string_equal(entered.state, "momentum");
    assert_true(entered.made == 3 && entered.position == p->l.at.cursor.position);
    assert_true(entered.ends_epoch);
    dies(2);
    lose_rank_2(p);
    lose_rank_2(back);
    assert_true(word(back, 0)->standing.step == 1 && word(back, 0)->standing.averages == 2);
    double again = survival_take_undone(p->s).samples;
    assert_true(again > 0 && survival_take_undone(back->s).samples == again);
    assert_cut_alike(p, back);
    leave(p);
    leave(back);
    leave(as_averaged);
}

static void the_lost_one_of_the_last_interval_is_missing(void **state)
{
    (void)state;
    begin_coordinator();
    struct place *p = stand_with_a_program(1, 1);
    for (int i = 0; i < 20; i++) {
        make_step(p);
    }
    dies(3);
    struct verdict v = decides(1, 0, 0);
    FAILS(meet(p, MEETS_TO_AVERAGE, &v), ERR_PEER, "whose end the programs know");
    leave(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_stay_and_what_the_lost_one_had_of_them_comes_again),
        cmocka_unit_test(who_lacks_an_average_gets_it_and_loses_the_worker_where_the_others_do),
        cmocka_unit_test(an_average_to_be_shown_is_given_and_begins_no_interval),
        cmocka_unit_test(what_a_group_has_averaged_with_the_lost_one_counts),
        cmocka_unit_test(all_go_on_without_it_behind_the_last_step_that_one_has_made),
        cmocka_unit_test(two_are_lost_in_the_order_in_which_the_others_lose_them),
        cmocka_unit_test(one_that_comes_back_has_the_last_average_and_what_was_made_since),
        cmocka_unit_test(the_lost_one_of_the_last_interval_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
