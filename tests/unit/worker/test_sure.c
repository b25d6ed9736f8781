/* How many of the next steps are sure (struct work): only the next step follows each of them, so a
 * program may make them before its rank hears of them. tests/client/test_c_alone.py has real
 * programs. */
#include "fixture.h"
#include "no_messages.h"

#include "worker/exchange/lockstep/steps/lockstep.h"

enum { BATCH = 16, STEPS = 10, EPOCHS = 2, AHEAD = 3 };

static struct rank {
    struct silent wire;
    struct comm comm;
    struct rank_env env;
    struct lockstep l;
    struct jobspec *spec;
    bool stops;
} rank;

static void control(void *ctx, struct control *out)
{
    (void)ctx;
    out->stop = rank.stops;
}

/* more: keys of the job, ending with a comma. */
static void begin(const char *more)
{
    struct run_state from = {.cursor = {.samples = BATCH * STEPS, .epochs = EPOCHS}};
    char spec[400];
    snprintf(spec, sizeof spec,
             "{%s \"model\": \"mlp\", \"data\": {\"format\": \"glyphs\"}, \"workers\": 1, "
             "\"epochs\": 2, \"batching\": {\"global_batch\": 16}}",
             more);
    rank = (struct rank){.wire = {{&no_messages}, 0, 2}, .spec = make_spec(spec)};
    OK(comm_init(&rank.comm, &rank.wire.t, 1, 1, &err_));
    rank.env = (struct rank_env){.spec = rank.spec,
                                 .comm = &rank.comm,
                                 .train_samples = BATCH * STEPS,
                                 .program.ahead = AHEAD,
                                 .program.wants_sure = true,
                                 .control = control,
                                 .first_sizes = {BATCH},
                                 .first_version = 1};
    lockstep_init(&rank.l, &rank.env, &from);
}

static void end(void)
{
    lockstep_release(&rank.l);
    comm_release(&rank.comm);
    drop_spec(rank.spec);
}

/* Makes the next step; returns how many were sure when it began. */
static int next(void)
{
    struct work w = {0};
    float words[64];
    lockstep_train(&rank.l, &w);
    assert_int_equal(w.action, DO_TRAIN);
    lockstep_write(&rank.l, words, 0, 1);
    lockstep_done(&rank.l);
    return w.sure;
}

static void expect(const int *sure, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(next(), sure[i]);
    }
}

static void as_many_as_are_cut_and_none_before_the_end_of_the_run(void **state)
{
    const int sure[2 * STEPS] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 2, 1, 0};
    (void)state;
    begin("\"evaluate\": {\"every_epochs\": 2},");
    expect(sure, 2 * STEPS);
    end();
}

static void none_before_an_evaluation_or_a_checkpoint(void **state)
{
    const int to_the_epochs_end[STEPS] = {4, 4, 4, 4, 4, 4, 3, 2, 1, 0},
              to_the_fourth_step[8] = {3, 2, 1, 0, 0, 0, 0, 0};
    (void)state;
    begin("\"evaluate\": {\"every_epochs\": 1},");
    expect(to_the_epochs_end, STEPS);
    end();
    begin("\"evaluate\": {\"every_epochs\": 2}, \"checkpoint\": {\"every_steps\": 4},");
    expect(to_the_fourth_step, 4);
    end();
}

static void none_before_an_end_that_the_program_may_choose(void **state)
{
    const int sure[STEPS] = {4, 4, 4, 4, 4, 4, 3, 2, 1, 0};
    (void)state;
    begin("\"evaluate\": {\"every_epochs\": 2},");
    rank.env.program.open = true;
    expect(sure, STEPS);
    end();
}

/* An announced step stays sure; no further one is sure until the request was met. */
static void a_request_waits_for_the_steps_that_are_sure(void **state)
{
    const int before[] = {4, 4}, after[] = {4, 3, 2, 1, 0}; /* asked for during the first */
    (void)state;
    begin("\"evaluate\": {\"every_epochs\": 2},");
    expect(before, 2);
    rank.stops = true;
    expect(after, 5);
    end();
}

static void none_where_nobody_asks(void **state)
{
    (void)state;
    begin("\"evaluate\": {\"every_epochs\": 2},");
    rank.env.program.wants_sure = false;
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(next(), 0);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_are_cut_and_none_before_the_end_of_the_run),
        cmocka_unit_test(none_before_an_evaluation_or_a_checkpoint),
        cmocka_unit_test(none_before_an_end_that_the_program_may_choose),
        cmocka_unit_test(a_request_waits_for_the_steps_that_are_sure),
        cmocka_unit_test(none_where_nobody_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
