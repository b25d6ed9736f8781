/* Reasons of assignments: measured times decide which node is called slow
 * (tests/browser/test_balance.py tests the page's sentence with the same numbers). */
#include "job/minibatch/reason.h"
#include "tests/unit/job/balancing.h"

static const char *const measured[] = {"fast", "slow", "third"};

static void expect(const struct speeds *s, const int *next, const char *want)
{
    char reason[240];
    reason_print(s, next, reason, sizeof reason);
    assert_string_equal(reason, want);
}

/* The line of `fast` still comes from its first steps, and lies above that of `slow`. */
static void who_is_slow_is_who_was_measured_to_be_slow(void **state)
{
    const int sizes[] = {84, 44}, next[] = {94, 34}, back[] = {68, 60};
    const double seconds[] = {.10, .15};
    const struct line lines[] = {{0, .0035}, {0, .0025}};
    const struct speeds s = {2, sizes, seconds, lines, measured};
    (void)state;
    expect(&s, next, "fast computes 2.9 times faster than slow; its minibatch goes from 84 to 94");
    expect(&s, back,
           "slow computes 1.4 times faster than fast by the fitted lines; its minibatch goes "
           "from 44 to 60");
}

/* A fixed part changes the ratio of speeds, but not which node is slower. */
static void of_a_line_only_the_form_counts(void **state)
{
    const int sizes[] = {64, 64, 64}, next[] = {76, 76, 40};
    const double seconds[] = {.064, .064, .128};
    const struct line proportional[] = {{0, .005}, {0, .0001}, {0, .003}},
                      constant[] = {{.320, 0}, {.0064, 0}, {.192, 0}}, none[3] = {{0, 0}};
    const struct line *const all[] = {proportional, constant, none};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct speeds s = {3, sizes, seconds, all[i], measured};
        expect(&s, next,
               "third computes 2.0 times slower than the median; its minibatch goes from 64 to 40");
    }
}

/* "1.0 times as long" would say nothing. Its minibatch was made when it was faster. */
static void a_step_that_is_little_longer_is_told_in_percent(void **state)
{
    const int sizes[] = {44, 40, 40}, less[] = {40, 40, 44}, more[] = {48, 40, 36};
    const double longer[] = {.0412, .04, .04}, shorter[] = {.0388, .04, .04};
    const struct line lines[] = {{0, .001}, {0, .001}, {0, .001}};
    const struct speeds slow = {3, sizes, longer, lines, measured},
                        fast = {3, (const int[]){36, 40, 48}, shorter, lines, measured};
    (void)state;
    expect(&slow, less,
           "fast takes 3 % longer than the median for a step; its minibatch goes from 44 to 40");
    expect(&fast, more,
           "fast takes 3 % less than the median for a step; its minibatch goes from 36 to 48");
}

/* Its minibatch was made when it was slower. */
static void of_two_nodes_a_step_is_held_against_that_of_the_other(void **state)
{
    const int sizes[] = {20, 180}, next[] = {40, 160}, turned[] = {180, 20}, back[] = {160, 40};
    const double seconds[] = {.02, .2}, other[] = {.2, .02};
    const struct line lines[] = {{0, .001}, {0, .001}};
    const struct speeds first = {2, sizes, seconds, lines, measured},
                        second = {2, turned, other, lines, measured};
    (void)state;
    expect(&first, next,
           "fast finishes a step 10.0 times faster than slow; its minibatch goes from 20 to 40");
    expect(&second, back,
           "slow finishes a step 10.0 times faster than fast; its minibatch goes from 20 to 40");
}

static void a_node_whose_minibatch_stays_explains_nothing(void **state)
{
    const int sizes[] = {64, 64, 64}, next[] = {68, 60, 64};
    const double seconds[] = {.060, .064, .200};
    const struct line lines[] = {{0, .001}, {0, .001}, {0, .003}};
    const struct speeds s = {3, sizes, seconds, lines, measured};
    (void)state;
    expect(&s, next,
           "fast computes 1.1 times faster than the median; its minibatch goes from 64 to 68");
}

/* With a share of 2 samples, the fixed part of a step is as large as the rest of a step
 * elsewhere. */
static void speeds_are_those_of_an_equal_share(void **state)
{
    const int sizes[] = {2, 2}, next[] = {3, 1};
    const double seconds[] = {.008, .012};
    const struct line lines[] = {{.008, 0}, {0, .004}};
    const struct speeds s = {2, sizes, seconds, lines, measured};
    (void)state;
    expect(&s, next, "fast computes 1.5 times faster than slow; its minibatch goes from 2 to 3");
}

static void a_change_that_nothing_speaks_for_names_nobody(void **state)
{
    const int sizes[] = {64, 64, 64}, next[] = {60, 64, 68};
    const double seconds[] = {.064, .064, .128};
    const struct line lines[] = {{0, .001}, {0, .001}, {0, .002}};
    const struct speeds s = {3, sizes, seconds, lines, measured};
    (void)state;
    expect(&s, next, "the nodes finish a step closer together");
}

/* ---- of a balancer ------------------------------------------------------------------------- */

/* Steps until minibatches change; the step that comes next. */
static int64_t train_until_changed(struct balancer *b, const struct node *nodes, int64_t step)
{
    int64_t changes = b->changes;
    while (b->changes == changes) {
        assert_true(step < 200);
        train(b, nodes, 1, step, step + 1);
        step++;
    }
    return step;
}

static void a_node_that_changes_its_speed_is_named(void **state)
{
    struct node nodes[] = {{0, .001, .01}, {0, .001, .01}, {0, .001, .01}, {0, .004, .01}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
    train(&b, nodes, 1, 0, 40);
    assert_memory_equal(b.current.reason, "dan", 3);
    int64_t changes = b.changes;
    nodes[1].k = .003; /* another user's program runs on bob's machine */
    train(&b, nodes, 1, 40, 80);
    assert_true(b.changes > changes);
    assert_memory_equal(b.current.reason, "bob takes ", 10);
    assert_non_null(strstr(b.current.reason, " times as long as the median for a step"));
    assert_true(step_seconds(&b, nodes) < 1.12 * best_seconds(&b, nodes));
    nodes[3].k = .001; /* dan is as fast as the others again */
    changes = b.changes;
    train(&b, nodes, 1, 80, 130);
    assert_true(b.changes > changes);
    assert_non_null(strstr(b.current.reason, "dan computes as fast as the median"));
    assert_true(step_seconds(&b, nodes) < 1.12 * best_seconds(&b, nodes));
    balancer_release(&b);
}

/* bob is the fastest per sample even after it slowed down; its step is the reason for fewer
 * samples. */
static void a_fast_node_that_gives_samples_away_is_not_told_to_be_fast(void **state)
{
    struct node nodes[] = {{0, .004, 0}, {0, .001, 0}, {0, .004, 0}, {0, .004, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 280), 4);
    train(&b, nodes, 0, 0, 40);
    check_sizes(&b.current, (int[]){40, 160, 40, 40});
    nodes[1].k = .003;
    int64_t changes = b.changes;
    int64_t step = 40;
    while (b.changes == changes && step < 200) {
        train(&b, nodes, 0, step, step + 1);
        step++;
    }
    assert_int_equal(b.changes, changes + 1);
    assert_memory_equal(b.current.reason, "bob takes ", 10);
    assert_non_null(strstr(b.current.reason,
                           " times as long as the median for a step; its "
                           "minibatch goes from 160 to "));
    assert_null(strstr(b.current.reason, "faster"));
    balancer_release(&b);
}

static void reasons_read_well_at_any_ratio(void **state)
{
    const struct node nodes[] = {{0, .0001, 0}, {0, .0001, 0}, {0, .0001, 0}, {0, .0123, 0}};
    struct balancer b;
    open_balancer(&b, policy(BATCH_DYNAMIC, 256), 4);
    train(&b, nodes, 0, 0, 4);
    assert_non_null(strstr(b.current.reason, "dan computes 123 times slower"));
    assert_int_equal(b.current.sizes[3],
                     4); /* a quantum, not 1: 8/10 of the ideal would not fit a vector */
    balancer_release(&b);
}

/* By its time per sample at its minibatch of 8 dan would be 9 times slower: the page's test of the
 * same name has the same numbers. */
static void speeds_are_those_of_an_equal_split(void **state)
{
    const struct node nodes[] = {
        {.004, 1e-4, 0}, {.004, 1e-4, 0}, {.004, 1e-4, 0}, {.004, 7e-4, 0}};
    static const int sizes[2][4] = {{100, 100, 100, 68}, {120, 120, 120, 8}};
    struct balancer b;
    (void)state;
    open_balancer(&b, policy(BATCH_DYNAMIC, 368), 4);
    for (int step = 0; step < 45; step++) { /* each seen at two sizes, so that its line is known */
        for (int i = 0; i < 4; i++) {       /* dan ends with so much that it gives some away */
            b.current.sizes[i] = sizes[step < 40 ? step % 2 : 0][i];
            balancer_observe(&b, i, b.current.sizes[i],
                             nodes[i].a + nodes[i].k * b.current.sizes[i], step);
        }
    }
    assert_true(balancer_decide(&b, 45));
    assert_memory_equal(b.current.reason, "dan computes 5.2 times slower than the median;", 46);
    balancer_release(&b);
}

static void of_two_nodes_one_is_held_against_the_other(void **state)
{
    static const struct node nodes[2][2] = {{{0, .001, 0}, {0, .004, 0}},
                                            {{0, .004, 0}, {0, .001, 0}}};
    static const char *const reasons[] = {
        "ada computes 4.0 times faster than bob; its minibatch goes from 128 to 204",
        "bob computes 4.0 times faster than ada; its minibatch goes from 128 to 204"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct balancer b;
        open_balancer(&b, policy(BATCH_DYNAMIC, 256), 2);
        train(&b, nodes[i], 0, 0, 10);
        assert_string_equal(b.current.reason, reasons[i]);
        balancer_release(&b);
    }
}

/* A minibatch that was made for another speed: being 1.1 times slower than the median does not
 * explain a change from 76 to 28; a step that takes 3 times as long does. */
static void a_reason_is_of_the_size_of_the_change(void **state)
{
    struct node nodes[] = {{0, .001, 0}, {0, .003, 0}, {0, .003, 0}, {0, .003, 0}};
    struct balancer b;
    (void)state;
    open_balancer(&b, policy(BATCH_DYNAMIC, 152), 4);
    train(&b, nodes, 0, 0, 10);
    assert_int_equal(b.current.sizes[0], 76);
    nodes[0].k = .0033; /* another user's program runs on ada's machine */
    train(&b, nodes, 0, 10, 60);
    assert_memory_equal(b.current.reason, "ada takes ", 10);
    assert_non_null(strstr(b.current.reason, " times as long as the median for a step"));
    balancer_release(&b);
}

/* ada's new speed is more recent than bob's, so minibatches still follow ada's old line: by the
 * lines bob is twice as slow as ada, but by measured times ada is slower. */
static void a_line_that_waits_for_a_speed_to_hold_does_not_say_who_is_slow(void **state)
{
    static const char *const reasons[] = {
        "ada computes 2.0 times faster than bob by the fitted lines; its minibatch goes from 64 to "
        "84",
        "cleo computes 2.0 times faster than the median; its minibatch goes from 64 to 76"};
    (void)state;
    for (int workers = 2; workers <= 3; workers++) {
        struct node nodes[] = {{0, .001, .01}, {0, .001, .01}, {0, .001, .01}};
        struct balancer b;
        open_balancer(&b, policy(BATCH_DYNAMIC, 64 * workers), workers);
        train(&b, nodes, 1, 0, 60);
        nodes[1].k = .002;
        train(&b, nodes, 1, 60, 64);
        nodes[0].k = .003;
        assert_int_equal(b.changes, 0);
        train_until_changed(&b, nodes, 64);
        assert_true(b.steady[0].waiting && b.current.sizes[0] > b.current.sizes[1]);
        assert_string_equal(b.current.reason, reasons[workers - 2]);
        balancer_release(&b);
    }
}

/* A first step of ten times the length, as with a cold cache, is neither the step before the change
 * nor a speed. */
static void a_cold_first_step_is_not_how_fast_a_node_is(void **state)
{
    const struct node nodes[] = {{0, .001, 0}, {0, .001, 0}, {0, .002, 0}};
    const struct profile fast = {.k = .001, .count = 40}, slow = {.k = .001, .count = 40};
    const struct profile *known[] = {&fast, &fast, &slow};
    struct balancer b;
    struct err e;
    (void)state;
    assert_int_equal(balancer_init(&b, policy(BATCH_DYNAMIC, 192), 3, 4, known, names, &e), 0);
    check_sizes(&b.current, (int[]){64, 64, 64});
    balancer_observe(&b, 0, 64, .64, 0);
    balancer_observe(&b, 1, 64, .064, 0);
    balancer_observe(&b, 2, 64, .128, 0);
    train_until_changed(&b, nodes, 1);
    assert_true(fabs(b.current.measured_seconds - .128) < 1e-9);
    assert_memory_equal(b.current.reason, "cleo computes 2.0 times slower than the median;", 47);
    balancer_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_slow_is_who_was_measured_to_be_slow),
        cmocka_unit_test(of_a_line_only_the_form_counts),
        cmocka_unit_test(a_step_that_is_little_longer_is_told_in_percent),
        cmocka_unit_test(of_two_nodes_a_step_is_held_against_that_of_the_other),
        cmocka_unit_test(a_node_whose_minibatch_stays_explains_nothing),
        cmocka_unit_test(speeds_are_those_of_an_equal_share),
        cmocka_unit_test(a_change_that_nothing_speaks_for_names_nobody),
        cmocka_unit_test(a_node_that_changes_its_speed_is_named),
        cmocka_unit_test(a_fast_node_that_gives_samples_away_is_not_told_to_be_fast),
        cmocka_unit_test(reasons_read_well_at_any_ratio),
        cmocka_unit_test(speeds_are_those_of_an_equal_split),
        cmocka_unit_test(of_two_nodes_one_is_held_against_the_other),
        cmocka_unit_test(a_reason_is_of_the_size_of_the_change),
        cmocka_unit_test(a_line_that_waits_for_a_speed_to_hold_does_not_say_who_is_slow),
        cmocka_unit_test(a_cold_first_step_is_not_how_fast_a_node_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
