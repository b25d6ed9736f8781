/* A server whose workers die or come back (server_script.h): every sample is applied once, whatever
 * the worker had when it died, and nothing waits for it. */
#include "server_script.h"

static const char *const strategies[] = {
    "{\"type\": \"asgd\"}",
    "{\"type\": \"softsync\", \"n\": 2}",
    "{\"type\": \"softsync\", \"n\": 1, \"pull\": \"blocking\"}",
    "{\"type\": \"dbs-sgd\", \"c\": 4, \"pull\": \"blocking\"}",
    "{\"type\": \"dbs-sgd\"}",
    "{\"type\": \"ssp\", \"s\": 1}",
    "{\"type\": \"dc-asgd\"}",
    "{\"type\": \"dc-asgdk\"}",
    "{\"type\": \"ddc-asgd\"}",
};

static void every_sample_counts_once_whatever_the_worker_had_when_it_died(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        for (enum death how = COMPUTING; how < ALIVE; how++) {
            for (int when = 0; when < 30; when++) {
                struct script *s = make_script(strategies[i]);
                s->how[1] = how;
                s->when[1] = when;
                serve(s);
                /* where nobody ever waits there is no such death */
                assert_true(s->n_left == 1 || how == WAITING || how == EVALUATING);
                assert_int_equal(s->n_left, s->env.n_lost);
                free_script(s);
            }
        }
    }
}

static struct script *make_programs(const char *strategy)
{
    struct script *s = make_script(strategy);
    s->programs = s->env.keeps_own = true;
    s->env.program.ahead = 1;
    s->env.test_samples = 0;
    return s;
}

/* Does it end well, and has each sample counted once? If not, the reason is that no worker asks for
 * more. */
static bool serve_programs(struct script *s)
{
    int rc = strategy_find(s->spec->strategy.type)->serve(&s->env, &s->state, &err_);
    if (rc < 0) {
        assert_non_null(strstr(err_.message, "cannot come again in this attempt"));
        err_clear(&err_);
        return false;
    }
    for (int e = 0; e < EPOCHS; e++) {
        for (int i = 0; i < SAMPLES; i++) {
            assert_int_equal(s->applied[e][i], 1);
        }
    }
    return true;
}

static const int sizes[][W] = {{4, 4, 4, 4}, {1, 6, 2, 7}, {7, 1, 1, 7}};

static void users_programs_get_what_they_were_told_of_and_each_sample_counts_once(void **state)
{
    enum { LAST = SAMPLES / 4 * EPOCHS - 3 * W }; /* pushes after which some know the end */
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        for (enum death how = COMPUTING; how < EVALUATING; how++) {
            for (int when = 0; when < LAST + 2 * W; when++) {
                struct script *s = make_programs(strategies[i]);
                memcpy(s->env.first_sizes, sizes[when % 3], sizeof sizes[0]);
                s->how[1] = how;
                s->when[1] = when;
                bool well = serve_programs(s);
                assert_true(well || when > LAST);
                free_script(s);
            }
        }
    }
}

/* Under a barrier no gradient is stale, so groups are as large as the number of workers. Different
 * minibatches leave some workers with more slices than others at the end. */
static void one_that_comes_back_is_waited_for_and_each_sample_counts_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        bool barrier = strstr(strategies[i], "blocking") != NULL;
        for (int when = 0; when < 24; when++) {
            for (int away = 1; away < 12; away += 2) {
                struct script *s = make_programs(strategies[i]);
                memcpy(s->env.first_sizes, sizes[when % 3], sizeof sizes[0]);
                s->env.seats = tell_seats;
                s->env.returned = note_returned;
                s->how[1] = COMPUTING;
                s->when[1] = when;
                s->back[1] = when + away;
                assert_true(serve_programs(s) && s->n_left == 1 && s->n_back == 1);
                assert_false(barrier && s->stale);
                free_script(s);
            }
        }
    }
}

/* A server that stood still meanwhile hears at once that the next process is awaited. */
static void one_that_dies_as_it_is_let_in_is_not_taken_for_the_next_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        for (int looks = 0; looks < 6; looks++) {
            struct script *s = make_programs(strategies[i]);
            s->env.seats = tell_seats;
            s->env.returned = note_returned;
            s->how[1] = COMPUTING;
            s->when[1] = 5;
            s->back[1] = 7;
            s->on_its_way = looks;
            s->falls_at_door[1] = true;
            assert_true(serve_programs(s) && s->n_left == 2 && s->n_back == 2);
            free_script(s);
        }
    }
}

/* By then all others may know that no slice follows. */
static void what_one_has_in_its_last_slices_it_makes_itself_once_it_is_back(void **state)
{
    enum { PUSHES = SAMPLES / 4 * EPOCHS };
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        int returns = 0; /* where the others may not make them */
        for (int when = PUSHES - 5 * W; when < PUSHES + W; when++) {
            for (int size = 0; size < 3; size++) {
                struct script *s = make_programs(strategies[i]);
                memcpy(s->env.first_sizes, sizes[size], sizeof sizes[0]);
                s->env.seats = tell_seats;
                s->env.returned = note_returned;
                s->how[1] = COMPUTING;
                s->when[1] = s->back[1] = when;
                s->away = 100; /* by then all others have made their known slices */
                assert_true(serve_programs(s));
                returns += s->n_back;
                free_script(s);
            }
        }
        assert_true(returns > 0);
    }
}

/* It is not restarted: the attempt ends after a while, and not before. */
static void one_that_has_the_last_slices_is_not_waited_for_without_end(void **state)
{
    enum { PUSHES = SAMPLES / 4 * EPOCHS };
    (void)state;
    int ended = 0;
    for (int when = PUSHES - 5 * W; when < PUSHES; when++) {
        struct script *s = make_programs(strategies[0]);
        s->env.seats = tell_seats;
        s->env.returned = note_returned;
        s->how[1] = COMPUTING;
        s->when[1] = when;
        bool well = serve_programs(s);
        assert_true(well || s->looks > 400); /* 20 s */
        ended += !well;
        free_script(s);
    }
    assert_true(ended > 0);
}

static void the_last_one_goes_on_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        struct script *s = make_script(strategies[i]);
        for (int r = 1; r < W; r++) {
            s->how[r] = r == 2 ? IN_ITS_PUSH : COMPUTING;
            s->when[r] = 5 * r;
        }
        serve(s);
        assert_int_equal(s->n_left, 3);
        assert_int_equal(s->left[2].others, 1);
        free_script(s);
    }
}

static void a_departure_counts_what_the_server_took(void **state)
{
    (void)state;
    struct script *s = make_script(strategies[0]);
    s->how[2] = IN_ITS_PUSH;
    s->when[2] = 9;
    serve(s);
    assert_int_equal(s->left[0].who, 2);
    assert_int_equal(s->left[0].others, 3);
    assert_int_equal(s->left[0].pushes, 2); /* of pushes 0 … 9 the 3rd and the 7th */
    free_script(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_counts_once_whatever_the_worker_had_when_it_died),
        cmocka_unit_test(users_programs_get_what_they_were_told_of_and_each_sample_counts_once),
        cmocka_unit_test(one_that_comes_back_is_waited_for_and_each_sample_counts_once),
        cmocka_unit_test(one_that_dies_as_it_is_let_in_is_not_taken_for_the_next_one),
        cmocka_unit_test(what_one_has_in_its_last_slices_it_makes_itself_once_it_is_back),
        cmocka_unit_test(one_that_has_the_last_slices_is_not_waited_for_without_end),
        cmocka_unit_test(the_last_one_goes_on_alone),
        cmocka_unit_test(a_departure_counts_what_the_server_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
