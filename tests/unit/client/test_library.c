/* libevenstep against a stand-in rank: joining and steps. Each test forks the program and plays the
 * rank itself. See test_library_ends.c. */
#include "tests/unit/client/joining.h"

#include <math.h>

/* ---- joining --------------------------------------------------------------------------------- */

static int joins(void)
{
    struct es_run run;
    double *kept;

    MUST(es_alone() == 0 && es_kept(&kept) < 0);
    MUST(join(&run, 0) == 0);
    MUST(es_kept(&kept) == 0 && kept[0] == 2.5 && kept[ES_KEPT - 1] == 0);
    kept[ES_KEPT - 1] = 7;
    MUST(run.rank == 1 && run.workers == 3 && run.n_params == 8 && run.global_batch == BATCH);
    MUST(run.params[0] == 10 && run.params[7] == 1);
    MUST(join(&run, 0) < 0 && strstr(es_error(), "joined already"));
    return es_leave();
}

static void test_a_program_joins_once_and_gets_everybodys_parameters(void **state)
{
    struct standin r;

    standin_run(&r, joins);
    standin_welcome(&r, 8, WIRE_VERSION);
    standin_get(&r, WIRE_READY, NULL);
    assert_non_null(strstr(r.description,
                           "{\"name\": \"w \\u0022quoted\\u0022\", \"shape\": [2, 2]"
                           ", \"decay\": true}"));
    assert_non_null(strstr(r.description, "\"shape\": [], \"decay\": true"));
    assert_non_null(strstr(r.description, "\"learning_rate\": 0.5"));
    assert_int_equal(r.join.join.pid, r.program);
    assert_true(r.params[0] == 1 && r.params[6] == 7 && r.params[7] == 1);
    r.params[0] = 10;
    standin_say(&r, WIRE_START, 0);
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_true(shared(&r)->kept[ES_KEPT - 1] == 7);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int other_version(void)
{
    struct es_run run;

    MUST(join(&run, 0) < 0 && strstr(es_error(), "speaks version 77 of the protocol"));
    return 0;
}

static void test_another_version_of_the_protocol_is_a_sentence(void **state)
{
    struct standin r;

    standin_run(&r, other_version);
    standin_welcome(&r, 8, 77);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int is_refused(void)
{
    struct es_run run;

    MUST(join(&run, 0) < 0 && strstr(es_error(), "optimizer 'Rprop' is not for servers"));
    return 0;
}

static void test_a_refusal_gives_the_ranks_sentence(void **state)
{
    struct standin r;
    int file = memfd_create("text", 0);

    standin_run(&r, is_refused);
    standin_get(&r, WIRE_JOIN, NULL);
    assert_true(write(file, "optimizer 'Rprop' is not for servers", 36) == 36);
    standin_put(&r, (struct wire_message){.type = WIRE_REFUSED}, file);
    close(file);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int steps(void)
{
    struct es_run run;
    struct es_slice a, b;
    const struct es_result result = {.samples = 3, .loss = 0.25, .correct = -1};

    MUST(join(&run, 0) == 0);
    MUST(es_next(&a) == 1 && a.number == 0 && a.count == 3 && a.indices[2] == 2);
    MUST(es_next(&b) == 1 && b.number == 1 && b.epoch_last && b.indices[0] == 100);
    MUST(es_ready(0) < 0 && strstr(es_error(), "no slice was begun"));
    MUST(es_begin(0) == 0);
    MUST(es_begin(2) < 0 && strstr(es_error(), "slice 2 follows slice 0"));
    MUST(es_weight(2.5) == 0);
    MUST(es_ready(2) == 0 && es_ready(1) == 0);
    MUST(es_ready(1) < 0 && strstr(es_error(), "ready before"));
    run.grads[0] = 3;
    MUST(es_gradients(&result) == ES_GO_STEP && run.grads[0] == 6);
    MUST(es_again() == 0 && es_gradients(NULL) == ES_GO_STEP);
    MUST(es_begin(1) == 0 && es_gradients(NULL) == ES_GO_DIFFERENCE);
    MUST(es_difference() == 0);
    MUST(es_next(&a) == 0);
    return es_leave();
}

static void gets_bucket(struct standin *r, int index, double weight)
{
    struct wire_message m = standin_get(r, WIRE_BUCKET, NULL);

    assert_int_equal(m.bucket.index, index);
    assert_true(m.bucket.weight == weight);
}

static void test_a_bucket_goes_out_with_the_last_of_its_tensors(void **state)
{
    struct wire_message m;
    struct standin r;

    /* tensors [0,4) [4,7) [7,8); buckets 0: [6,8), 1: [4,6), 2: [2,4), 3: [0,2) */
    standin_run(&r, steps);
    start(&r);
    standin_slice(&r, 0, 3, 0);
    standin_slice(&r, 1, 4, WIRE_EPOCH_LAST | WIRE_RUN_LAST);
    assert_int_equal(standin_get(&r, WIRE_BEGIN, NULL).slice.number, 0);
    gets_bucket(&r, 0, 2.5);
    gets_bucket(&r, 1, 2.5);
    gets_bucket(&r, 2, 2.5);
    m = standin_get(&r, WIRE_GRADIENTS, NULL);
    assert_int_equal(m.flags, 0);
    assert_true(m.gradients.samples == 3 && m.gradients.loss == 0.25 && m.gradients.weight == 2.5);
    r.grads[0] *= 2;
    standin_say(&r, WIRE_GO, 0);
    m = standin_get(&r, WIRE_BEGIN, NULL);
    assert_true(m.slice.number == 0 && m.flags == WIRE_AGAIN);
    for (int i = 0; i < 3; i++) {
        gets_bucket(&r, i, 3);
    }
    standin_get(&r, WIRE_GRADIENTS, NULL);
    standin_say(&r, WIRE_GO, 0);
    standin_get(&r, WIRE_BEGIN, NULL);
    for (int i = 0; i < 3; i++) {
        gets_bucket(&r, i, 4);
    }
    standin_get(&r, WIRE_GRADIENTS, NULL);
    standin_say(&r, WIRE_GO, WIRE_DIFFERENCE);
    assert_int_equal(standin_get(&r, WIRE_GRADIENTS, NULL).flags, WIRE_DIFFERENCE);
    standin_say(&r, WIRE_GO, WIRE_SKIP_STEP);
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

enum { STEPS = 20 };

static int takes_one_slice_at_a_time(void)
{
    struct es_run run;
    struct es_slice a;

    MUST(join(&run, 0) == 0);
    for (int64_t i = 0; i < STEPS; i++) {
        MUST(es_next(&a) == 1 && a.number == i && a.count == 3 && es_begin(i) == 0);
        MUST(es_ready(2) == 0 && es_ready(1) == 0 && es_ready(0) == 0);
        MUST(es_gradients(NULL) == ES_GO_STEP);
    }
    return es_leave();
}

/* Each additional packet costs a step another system call on both sides, or another wake-up. */
static void test_a_step_of_one_bucket_is_one_packet_each_way(void **state)
{
    struct wire_message m;
    struct standin r;

    standin_run(&r, takes_one_slice_at_a_time);
    r.bucket_floats = 8;
    start(&r);
    standin_slice(&r, 0, 3, 0);
    standin_get(&r, WIRE_BEGIN, NULL); /* of the first slice alone: the rank waits for it */
    for (int64_t i = 0; i < STEPS; i++) {
        m = standin_get(&r, WIRE_GRADIENTS, NULL);
        assert_int_equal(m.gradients.number, i);
        assert_int_equal(m.flags, i == 0 ? 0 : WIRE_WITH_BEGIN);
        assert_int_equal(shared(&r)->begun, i);
        m = (struct wire_message){.type = WIRE_GO, .flags = WIRE_WITH_SLICE};
        m.slice.number = i + 1;
        m.slice.count = 3;
        m.slice.slot = (int)((i + 1) % SLOTS);
        standin_put(&r, m, -1);
    }
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int waits_for_samples(void)
{
    struct es_run run;
    struct es_slice a;

    MUST(es_loading(1) < 0 && strstr(es_error(), "es_loading"));
    MUST(join(&run, 0) == 0 && es_next(&a) == 1);
    MUST(es_begin(0) == 0 && es_loading(0.25) == 0 && es_loading(0.5) == 0);
    MUST(es_gradients(NULL) == ES_GO_STEP);
    MUST(es_next(&a) == 1 && es_begin(1) == 0 && es_gradients(NULL) == ES_GO_STEP);
    return es_leave();
}

static void test_what_a_pass_waited_for_its_samples_goes_with_its_gradients(void **state)
{
    struct standin r;

    standin_run(&r, waits_for_samples);
    r.bucket_floats = 8;
    start(&r);
    standin_slice(&r, 0, 3, 0);
    standin_slice(&r, 1, 3, WIRE_EPOCH_LAST | WIRE_RUN_LAST);
    standin_get(&r, WIRE_BEGIN, NULL);
    assert_true(standin_get(&r, WIRE_GRADIENTS, NULL).gradients.loading == 0.75);
    standin_say(&r, WIRE_GO, 0);
    assert_true(standin_get(&r, WIRE_GRADIENTS, NULL).gradients.loading == 0);
    standin_say(&r, WIRE_GO, 0);
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int has_steps_granted(void)
{
    const struct es_result good = {.samples = -1, .loss = 1},
                           bad = {.samples = -1, .loss = INFINITY};
    struct es_run run;
    struct es_slice a;

    MUST(join(&run, 0) == 0 && es_takes_gradients() == 1 && es_sums_gradients() == 0);
    MUST(es_next(&a) == 1 && es_begin(0) == 0 && es_gradients(&good) == ES_GO_STEP);
    MUST(es_again() == 0 && es_gradients(&good) == ES_GO_VOID);
    MUST(es_next(&a) == 1 && es_begin(1) == 0 && es_gradients(&bad) == ES_GO_VOID);
    MUST(es_next(&a) == 1 && es_begin(2) == 0 && es_weight(0) == 0);
    MUST(es_gradients(&good) == ES_GO_VOID);
    MUST(es_next(&a) == 1 && es_begin(3) == 0 && es_gradients(&good) == ES_GO_VOID);
    return es_leave();
}

/* Every answer of the rank differs from the grant's, so a step that waits for the answer shows
 * it. */
static void test_a_granted_step_waits_for_nothing_unless_its_pass_is_no_plain_one(void **state)
{
    const uint32_t flags[] = {WIRE_MADE, 0, WIRE_WITH_BEGIN | WIRE_NOT_FINITE, WIRE_WITH_BEGIN,
                              WIRE_WITH_BEGIN};
    struct standin r;

    standin_run(&r, has_steps_granted);
    r.bucket_floats = 8;
    standin_welcome(&r, 8, WIRE_VERSION);
    standin_get(&r, WIRE_READY, NULL);
    atomic_store(&shared(&r)->granted, 2);
    standin_say(&r, WIRE_START, 0);
    for (int64_t i = 0; i < 4; i++) {
        standin_slice(&r, i, 3, 0);
    }
    standin_get(&r, WIRE_BEGIN, NULL);
    for (int i = 0; i < 5; i++) {
        if (i == 1) {
            assert_int_equal(standin_get(&r, WIRE_BEGIN, NULL).flags, WIRE_AGAIN);
        }
        assert_int_equal(standin_get(&r, WIRE_GRADIENTS, NULL).flags, flags[i]);
        if (i > 0) {
            standin_say(&r, WIRE_GO, WIRE_SKIP_STEP | WIRE_VOID);
        }
    }
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int is_summed(void)
{
    struct es_run run;

    MUST(join(&run, 0) == 0 && es_sums_gradients() == 1 && es_takes_gradients() == 1);
    return es_leave();
}

static void test_a_program_knows_whether_all_ranks_sum_each_pass(void **state)
{
    struct standin r;

    standin_run(&r, is_summed);
    r.welcomes = WIRE_SUMS;
    standin_welcome(&r, 8, WIRE_VERSION);
    standin_get(&r, WIRE_READY, NULL);
    standin_say(&r, WIRE_START, 0);
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int steps_three_times(void)
{
    const struct es_result good = {.samples = -1, .loss = 1};
    struct es_run run;
    struct es_slice a;

    MUST(join(&run, 0) == 0);
    for (int i = 0; i < 3; i++) {
        MUST(es_next(&a) == 1 && es_begin(i) == 0);
        MUST(es_gradients(&good) == (i == 1 ? ES_GO_VOID : ES_GO_STEP));
        run.params[0] += 10;
        MUST(es_again() == 0 && es_gradients(&good) == ES_GO_STEP);
    }
    return es_leave();
}

/* A granted step, a skipped one, and one that waits for GO; each with a further pass. */
static void test_parameters_are_copied_before_the_steps_of_a_slice(void **state)
{
    static const int64_t copied[] = {0, 0, 0, 0, 1, 2}; /* when the gradients of a pass come */
    static const float values[] = {1, 1, 1, 1, 21, 21};
    const float *copy;
    struct standin r;

    standin_run(&r, steps_three_times);
    r.bucket_floats = 8;
    r.welcomes = WIRE_KEEP;
    standin_welcome(&r, 8, WIRE_VERSION);
    copy = (const float *)(r.block + 8192 - 64);
    standin_get(&r, WIRE_READY, NULL);
    atomic_store(&shared(&r)->granted, 0);
    standin_say(&r, WIRE_START, 0);
    for (int64_t i = 0; i < 3; i++) {
        standin_slice(&r, i, 3, 0);
    }
    standin_get(&r, WIRE_BEGIN, NULL);
    for (int i = 0; i < 6; i++) {
        if (i % 2) {
            assert_int_equal(standin_get(&r, WIRE_BEGIN, NULL).flags, WIRE_AGAIN);
        }
        standin_get(&r, WIRE_GRADIENTS, NULL);
        assert_int_equal(atomic_load(&shared(&r)->copied), copied[i]);
        assert_true(copy[0] == values[i]);
        if (i > 0) {
            standin_say(&r, WIRE_GO, i == 2 ? WIRE_SKIP_STEP | WIRE_VOID : 0);
        }
    }
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int gives_up(void)
{
    struct es_run run;
    struct es_slice a;

    MUST(join(&run, 0) == 0);
    MUST(es_next(&a) == 1 && es_begin(0) == 0 && es_ready(0) == 0);
    MUST(es_next(&a) == 1 && es_begin(1) == 0);
    MUST(es_held_back(NULL) == ES_GO_STEP);
    MUST(es_next(&a) == 1 && a.number == -1 && a.epoch_last);
    MUST(es_next(&a) == 0);
    MUST(es_epoch_end(0) == 0);
    return es_leave();
}

static void test_a_pass_that_did_not_end_is_void_and_one_held_back_sends_no_bucket(void **state)
{
    struct wire_message m;
    struct standin r;

    standin_run(&r, gives_up);
    start(&r);
    standin_slice(&r, 0, 3, 0);
    standin_slice(&r, 1, 3, 0);
    standin_slice(&r, -1, 0, WIRE_EPOCH_LAST | WIRE_NO_STEP);
    standin_slice(&r, -1, 0, WIRE_RUN_LAST | WIRE_NO_STEP);
    standin_get(&r, WIRE_BEGIN, NULL);
    gets_bucket(&r, 2, 3);
    gets_bucket(&r, 3, 3);
    assert_int_equal(standin_get(&r, WIRE_GRADIENTS, NULL).flags, WIRE_VOID);
    standin_say(&r, WIRE_GO, WIRE_SKIP_STEP);
    m = standin_get(&r, WIRE_GRADIENTS, NULL);
    assert_int_equal(m.flags, WIRE_HELD_BACK | WIRE_WITH_BEGIN);
    assert_int_equal(m.gradients.number, 1);
    standin_say(&r, WIRE_GO, 0);
    standin_get(&r, WIRE_EPOCH_END, NULL);
    standin_say(&r, WIRE_CONTINUE, 0);
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

static int saves(void)
{
    struct es_run run;
    struct es_slice a;

    MUST(join(&run, 1) == 0);
    MUST(es_next(&a) == 1 && es_begin(0) == 0 && es_gradients(NULL) == ES_GO_STEP);
    MUST(es_state("x", 1) < 0);
    MUST(es_next(&a) == 1);
    MUST(es_begin(1) == ES_SAVE);
    MUST(es_state("mine", 4) == 0);
    MUST(es_begin(1) == 0 && run.params[0] == 99);
    MUST(es_gradients(NULL) == ES_GO_SKIP);
    MUST(es_next(&a) == 0);
    return es_leave();
}

static void test_a_hold_saves_the_programs_state_and_changes_parameters(void **state)
{
    struct standin r;
    char text[8] = "";
    int file;

    standin_run(&r, saves);
    start(&r);
    standin_slice(&r, 0, 3, 0);
    standin_slice(&r, 1, 3, 0);
    for (int step = 0; step < 2; step++) {
        standin_get(&r, WIRE_BEGIN, NULL);
        if (step == 1) {
            standin_slice(&r, 2, 1, 0);
            standin_say(&r, WIRE_SAVE, 0);
            standin_get(&r, WIRE_STATE, &file);
            assert_true(pread(file, text, sizeof(text), 0) == 4 && !memcmp(text, "mine", 4));
            close(file);
            r.params[0] = 99;
            standin_say(&r, WIRE_CONTINUE, 0);
        }
        for (int i = 0; i < 3; i++) {
            standin_get(&r, WIRE_BUCKET, NULL);
        }
        standin_get(&r, WIRE_GRADIENTS, NULL);
        standin_say(&r, WIRE_GO, step == 0 ? WIRE_HOLD : WIRE_SKIP_STEP | WIRE_STOP);
    }
    standin_get(&r, WIRE_LEAVE, NULL);
    assert_int_equal(standin_exit(&r), 0);
    standin_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_joins_once_and_gets_everybodys_parameters),
        cmocka_unit_test(test_another_version_of_the_protocol_is_a_sentence),
        cmocka_unit_test(test_a_refusal_gives_the_ranks_sentence),
        cmocka_unit_test(test_a_bucket_goes_out_with_the_last_of_its_tensors),
        cmocka_unit_test(test_a_step_of_one_bucket_is_one_packet_each_way),
        cmocka_unit_test(test_what_a_pass_waited_for_its_samples_goes_with_its_gradients),
        cmocka_unit_test(test_a_granted_step_waits_for_nothing_unless_its_pass_is_no_plain_one),
        cmocka_unit_test(test_a_program_knows_whether_all_ranks_sum_each_pass),
        cmocka_unit_test(test_parameters_are_copied_before_the_steps_of_a_slice),
        cmocka_unit_test(test_a_pass_that_did_not_end_is_void_and_one_held_back_sends_no_bucket),
        cmocka_unit_test(test_a_hold_saves_the_programs_state_and_changes_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
