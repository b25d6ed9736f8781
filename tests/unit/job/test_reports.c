/* Heartbeats that ranks write while they train, and what the coordinator keeps and shows people of
 * their facts (job/documents). test_facts.c has the facts themselves. */
#include "tests/unit/job/documents.h"

#include <math.h>
#include <signal.h>

#include "job/documents/ranks/beat.h"
#include "job/documents/ranks/fact.h"
#include "job/documents/people/failure.h"

/* ---- heartbeats ------------------------------------------------------------------------------ */

static struct beat some_beat(void)
{
    struct beat b = {.from = from_rank,
                     .number = 12,
                     .node = "n2",
                     .phase = PHASE_EXCHANGE,
                     .progress_age = 0.25,
                     .work_age = 0.5,
                     .comm_age = 0.125,
                     .step = 20,
                     .epoch = 0.75,
                     .samples = 640,
                     .updates = 20,
                     .batch = 32,
                     .rows_dropped = 3,
                     .busy_fraction = 0.5,
                     .quota_batch = 32,
                     .quota_seconds = 0.25,
                     .door = "10.0.0.3:41234",
                     .received = 100,
                     .receives = 1000};
    staleness_add(&b.staleness, 2, 32);
    return b;
}

static int read_beat(const json_t *j, struct err *e)
{
    struct beat b;
    int rc = beat_read(&b, j, e);
    beat_release(&b);
    return rc;
}

static void a_heartbeat_is_read_as_it_was_written(void **state)
{
    struct beat b = some_beat(), got;
    struct err e = {0};
    json_t *j = sent(beat_json(&b));
    (void)state;
    json_object_set_new(j, "at", json_integer(1700000000000)); /* as the store adds it */
    json_object_set_new(j, "age", json_real(1.5));
    assert_read(beat_read(&got, j, &e), &e);
    assert_sender(&got.from, &from_rank);
    assert_true(got.phase == PHASE_EXCHANGE && got.progress_age == 0.25 && got.work_age == 0.5 &&
                got.comm_age == 0.125);
    assert_true(got.staleness.count == 1 && got.staleness.max == 2);
    assert_string_equal(got.door, "10.0.0.3:41234");
    assert_true(got.at == 1700000000000 && got.age == 1.5);
    json_object_del(j, "at");
    json_object_del(j, "age");
    assert_same(beat_json(&got), j);
    beat_release(&got);
    beat_release(&b);
}

/* Counters begin with 0. */
static void a_rank_that_has_made_nothing_yet_is_read(void **state)
{
    static const char *const counters[] = {"step", "samples", "updates", "batch", "epoch"};
    struct beat b = some_beat(), got;
    struct err e = {0};
    json_t *j = sent(beat_json(&b));
    (void)state;
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        json_object_set_new(j, counters[i], json_integer(0));
    }
    assert_read(beat_read(&got, j, &e), &e);
    assert_true(got.step == 0 && got.samples == 0 && got.updates == 0 && got.batch == 0);
    beat_release(&got);
    beat_release(&b);
    json_decref(j);
}

static void what_is_wrong_with_a_heartbeat_is_said(void **state)
{
    static const struct wrong wrongs[] = {
        {"node", NULL, "the heartbeat is not valid: /node: is missing"},
        {"phase", "'asleep'", "the heartbeat is not valid: /phase: 'asleep' is unknown"},
        {"phase", "4", "the heartbeat is not valid: /phase: must be a text"},
        {"progress_age", "'x'",
         "the heartbeat is not valid: /progress_age: must be a number, -1e+09 to 1e+09"},
        {"work_age", NULL, "the heartbeat is not valid: /work_age: is missing"},
        {"comm_age", "null",
         "the heartbeat is not valid: /comm_age: must be a number, -1e+09 to 1e+09"},
        {"step", "-1",
         "the heartbeat is not valid: /step: must be a whole number, 0 to 9223372036854775807"},
        {"batch", NULL, "the heartbeat is not valid: /batch: is missing"},
        {"staleness", "[]", "the heartbeat is not valid: /staleness: must be an object"},
        {"staleness/count", "99", "the heartbeat is not valid: /staleness: is malformed"},
        {"receiving/bytes", "-1",
         "the heartbeat is not valid: /receiving/bytes: must be a whole number, 0 to "
         "9223372036854775807"},
        {"busy_fraction", "-1",
         "the heartbeat is not valid: /busy_fraction: must be a number, 0 to 1e+09"},
        {"quota/batch", "0",
         "the heartbeat is not valid: /quota/batch: must be a whole number, 1 to 2147483647"},
        {"quota/step_seconds", "-1",
         "the heartbeat is not valid: /quota/step_seconds: must be a number, 0 to 1e+09"},
    };
    struct beat b = some_beat();
    (void)state;
    EACH_SAYS(beat_json(&b), wrongs, read_beat);
    beat_release(&b);
}

static const struct program_end raised = {.there = true,
                                          .exit_code = 1,
                                          .exception = "KeyError: 'x'",
                                          .file = "train.py",
                                          .line = 12,
                                          .last_line = "KeyError: 'x'",
                                          .epoch = 2,
                                          .step = 5};

/* ---- evaluations that are kept, failures ----------------------------------------------------- */

static int read_evaluations(const json_t *j, struct err *e)
{
    struct evaluations all;
    int rc = evaluations_read(&all, j, e);
    evaluations_release(&all);
    return rc;
}

static void evaluations_are_kept_and_those_past_a_step_dropped(void **state)
{
    static const struct wrong wrongs[] = {
        {"evaluations", "{}",
         "the document of evaluations is not valid: /evaluations: must be an array of 0 to 1048576 "
         "elements"},
        {"evaluations/0", "3",
         "the document of evaluations is not valid: /evaluations/0: must be an object"},
        {"evaluations/0/test_samples", NULL,
         "the document of evaluations is not valid: /evaluations/0/test_samples: is missing"},
    };
    struct evaluations all = {0}, got;
    struct err e = {0};
    (void)state;
    for (int i = 1; i <= 40; i++) {
        evaluations_add(&all, &(struct evaluation){.step = i, .samples = 100, .accuracy = 0.5},
                        1000 * i);
    }
    evaluations_drop(&all, 30);
    json_t *j = sent(evaluations_json(&all));
    assert_read(evaluations_read(&got, j, &e), &e);
    assert_int_equal(got.count, 30);
    assert_int_equal(evaluations_last(&got)->step, 30);
    assert_true(got.items[29].trained == 30000 && got.items[29].ev.samples == 100);
    assert_same(evaluations_json(&got), json_incref(j));
    evaluations_release(&got);
    evaluations_release(&all);
    assert_null(evaluations_last(&all));
    json_t *none = sent(evaluations_json(&(struct evaluations){0}));
    assert_read(evaluations_read(&got, none, &e), &e);
    assert_int_equal(got.count, 0);
    evaluations_release(&got);
    json_decref(none);
    EACH_SAYS(j, wrongs, read_evaluations);
}

static void a_failure_is_told_as_the_api_prints_it(void **state)
{
    struct failure f = failure_of(ERR_PEER, "rank 1 is lost", 1, "n2", 3);
    (void)state;
    assert_same(failure_json(&f),
                json_pack("{s:s, s:s, s:i, s:s, s:i}", "code", "peer", "message", "rank 1 is lost",
                          "rank", 1, "node", "n2", "attempt", 3));
    f = failure_of(ERR_IO, "cannot start", COORDINATOR, NULL, 3);
    assert_same(failure_json(&f), json_pack("{s:s, s:s, s:n, s:n, s:i}", "code", "io", "message",
                                            "cannot start", "rank", "node", "attempt", 3));
    f = failure_of_loss("no progress for 30.0 s", 1, "n2", 3);
    assert_same(failure_json(&f),
                json_pack("{s:s, s:s, s:i, s:s, s:i, s:s}", "code", "peer", "message",
                          "rank 1 on node 'n2' is lost: no progress for 30.0 s", "rank", 1, "node",
                          "n2", "attempt", 3, "lost", "no progress for 30.0 s"));
}

static void a_programs_end_is_told_as_data(void **state)
{
    struct failure f = failure_of(ERR_PROGRAM, "it ended", 1, "n2", 3);
    (void)state;
    f.program = raised;
    json_t *j = failure_json(&f);
    assert_same(json_incref(json_object_get(j, "program")),
                json_pack("{s:i, s:n, s:s, s:s, s:i, s:n, s:s, s:{s:i, s:i}}", "exit_code", 1,
                          "signal", "exception", "KeyError: 'x'", "file", "train.py", "line", 12,
                          "reason", "last_line", "KeyError: 'x'", "every_rank", "epoch", 2, "step",
                          5));
    json_decref(j);
}

static bool repeats(struct program_end then, struct program_end now)
{
    struct failure f = failure_of(ERR_PROGRAM, "it ended", 1, "n2", 3);
    f.program = then;
    json_t *j = failure_json(&f);
    char *before = json_dumps(j, JSON_COMPACT);
    f = failure_of(ERR_PROGRAM, "another rank tells it", 0, "n1", 4);
    f.program = now;
    bool same = failure_repeats(before, &f);
    free(before);
    json_decref(j);
    return same;
}

static void a_program_that_ends_twice_in_the_same_way_is_recognised(void **state)
{
    struct program_end other = raised, none = {0};
    (void)state;
    snprintf(other.last_line, sizeof other.last_line, "at 12:03");
    assert_true(repeats(raised, other));
    other.step = 6;
    assert_false(repeats(raised, other));
    other = raised;
    other.line = 13;
    assert_false(repeats(raised, other));
    assert_false(repeats(none, none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heartbeat_is_read_as_it_was_written),
        cmocka_unit_test(a_rank_that_has_made_nothing_yet_is_read),
        cmocka_unit_test(what_is_wrong_with_a_heartbeat_is_said),
        cmocka_unit_test(evaluations_are_kept_and_those_past_a_step_dropped),
        cmocka_unit_test(a_failure_is_told_as_the_api_prints_it),
        cmocka_unit_test(a_programs_end_is_told_as_data),
        cmocka_unit_test(a_program_that_ends_twice_in_the_same_way_is_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
