/* The keeper's decision when a worker is lost or comes back, for every order in which ranks can
 * stand (docs/decisions/0022, 0062, 0080, 0088). test_lockstep_lost.c tests what a rank does
 * then. */
#include "fixture.h"

#include "worker/exchange/lockstep/survival/verdict.h"

enum { W = 4, STEP = 7 };

/* Where a rank can stand: in neighbouring steps, evaluated or not, with half of another's state, or
 * nowhere, because it has come back. */
static const struct standing places[] = {
    {.step = STEP},
    {.step = STEP, .evaluated = 1},
    {.step = STEP + 1},
    {.step = STEP + 1, .evaluated = 1},
    {.step = STEP, .torn = 1},
    {.is_new = 1},
};
enum { PLACES = sizeof places / sizeof *places };

static int furthest(const struct standing *of, const int *left, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        int far = (int)(2 * of[left[i]].step + of[left[i]].evaluated);
        best = !of[left[i]].torn && !of[left[i]].is_new && far > best ? far : best;
    }
    return best;
}

static void check_decision(const struct standing *of, const int *left, int n)
{
    struct verdict v = {0};
    int far = furthest(of, left, n), giver = -1;
    if (far < 0) {
        FAILS(verdict_decide(&v, of, left, n, &err_), ERR_PEER, "no worker");
        return;
    }
    OK(verdict_decide(&v, of, left, n, &err_));
    assert_int_equal(2 * v.step + v.evaluated, far);
    for (int i = n - 1; i >= 0; i--) {
        const struct standing *s = &of[left[i]];
        bool there = !s->torn && !s->is_new && 2 * s->step + s->evaluated == far;
        bool has_step = !s->torn && s->step == v.step;
        assert_int_equal(v.behind[left[i]], s->is_new  ? IS_NEW
                                            : there    ? 0
                                            : has_step ? LACKS_EVALUATION
                                                       : IS_BEHIND);
        giver = there ? left[i] : giver;
    }
    assert_int_equal(v.giver, giver); /* the lowest of those that are there */
}

static void all_get_to_the_furthest_step_of_a_survivor(void **state)
{
    (void)state;
    static const int left[][W] = {{0, 1, 2, 3}, {1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {2, 3}, {1}};
    static const int n[] = {4, 3, 3, 3, 2, 1};
    int all = PLACES * PLACES * PLACES * PLACES;
    for (int set = 0; set < 6; set++) {
        for (int k = 0; k < all; k++) {
            struct standing of[W];
            for (int r = 0, rest = k; r < W; r++, rest /= PLACES) {
                of[r] = places[rest % PLACES];
            }
            check_decision(of, left[set], n[set]);
        }
    }
}

static void ranks_two_steps_apart_are_refused(void **state)
{
    (void)state;
    static const int left[] = {0, 1, 2, 3};
    struct standing of[W] = {{.step = 9}, {.step = 9}, {.step = 7}, {.step = 8}};
    struct verdict v = {0};
    FAILS(verdict_decide(&v, of, left, W, &err_), ERR_PEER, "worker 2 behind 7");
}

static void replicas_are_at_most_one_average_apart_however_many_steps_that_is(void **state)
{
    (void)state;
    static const int left[] = {0, 1, 2};
    struct standing of[W] = {{.step = 32, .averages = 3},
                             {.step = 16, .averages = 2},
                             {.step = 32, .averages = 3, .evaluated = 1}};
    struct verdict v = {0};
    OK(verdict_decide(&v, of, left, 3, &err_));
    assert_int_equal(v.giver, 2);
    assert_int_equal(v.step, 32);
    assert_true(v.behind[0] && v.behind[1] && !v.behind[2]);
    of[1] = (struct standing){.averages = 1};
    FAILS(verdict_decide(&v, of, left, 3, &err_), ERR_PEER, "worker 1 behind 0");
}

/* For users' programs that make several passes over a step (docs/decisions/0088). */
static void of_a_step_of_several_passes_all_get_to_the_last_one_that_was_summed(void **state)
{
    (void)state;
    static const int left[] = {0, 1, 2};
    struct standing of[W] = {
        {.step = 5, .exchanges = 1}, {.step = 5, .exchanges = 2}, {.step = 5, .exchanges = 2}};
    struct verdict v = {0};
    OK(verdict_decide(&v, of, left, 3, &err_));
    assert_int_equal(v.giver, 1);
    assert_int_equal(v.step, 5);
    assert_int_equal(v.exchanges, 2);
    assert_true(v.behind[0] == IS_BEHIND && !v.behind[1] && !v.behind[2]);
    of[2] = (struct standing){.step = 6}; /* it has the sum of the next step already */
    of[0].exchanges = 2;
    OK(verdict_decide(&v, of, left, 3, &err_));
    assert_int_equal(v.giver, 2);
    assert_int_equal(v.exchanges, 0);
    assert_true(v.behind[0] == IS_BEHIND && v.behind[1] == IS_BEHIND);
}

/* For a group of users' programs, whose steps are not undone (docs/decisions/0080). */
static void of_a_group_all_have_averaged_inside_it_or_none_has(void **state)
{
    (void)state;
    static const int left[] = {0, 1, 2};
    struct standing of[W] = {{.averages = 2, .group = 0, .group_averages = 1},
                             {.averages = 2, .group = 0, .group_averages = 1},
                             {.averages = 2, .group = 2, .group_averages = 3, .held = {12}}};
    struct verdict v = {.members = {.n_lost = 1, .lost = {3}}};
    OK(verdict_decide(&v, of, left, 3, &err_));
    assert_int_equal(v.held[0], 12); /* by the one of its group */
    of[1].group_averages = 2;
    FAILS(verdict_decide(&v, of, left, 3, &err_), ERR_PEER, "workers 0 and 1 averaged inside");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_to_the_furthest_step_of_a_survivor),
        cmocka_unit_test(ranks_two_steps_apart_are_refused),
        cmocka_unit_test(replicas_are_at_most_one_average_apart_however_many_steps_that_is),
        cmocka_unit_test(of_a_step_of_several_passes_all_get_to_the_last_one_that_was_summed),
        cmocka_unit_test(of_a_group_all_have_averaged_inside_it_or_none_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
