/* Documents that programs print at their end: the simulator's summary, answers of --check, scores
 * of a model (job/documents). */
#include "tests/unit/job/documents.h"

#include <math.h>

#include "job/documents/results/checked.h"
#include "job/documents/results/compared.h"
#include "job/documents/results/scored.h"
#include "job/documents/results/summary.h"

/* ---- the simulator's summary ----------------------------------------------------------------- */

static json_t *some_summary(const struct sender *from)
{
    struct staleness staleness = {0};
    staleness_add(&staleness, 1, 8);
    struct live_worker w = {.node = "v",
                            .device = "virtual",
                            .state = "done",
                            .batch = 8,
                            .exchange_seconds = 0.25,
                            .updates = 1,
                            .samples = 8,
                            .staleness = &staleness,
                            .histogram = true};
    json_t *assignments = json_pack("[{s:i}]", "version", 1);
    struct evaluations evaluations = {0};
    evaluations_add(&evaluations,
                    &(struct evaluation){.step = 4, .accuracy = 0.75, .samples = 20, .final = true},
                    64);
    struct summary s = {.from = *from,
                        .name = "t",
                        .strategy = "sync",
                        .batching = "equal",
                        .metrics = {NAN, NAN, NAN, NAN, 12.5, 0.5},
                        .workers = &w,
                        .n_workers = 1,
                        .version = 1,
                        .global_batch = 8,
                        .assignments = assignments,
                        .evaluations = &evaluations,
                        .rank_memory_bytes = 1000};
    json_t *j = summary_json(&s);
    json_decref(assignments);
    evaluations_release(&evaluations);
    staleness_release(&staleness);
    return j;
}

static int read_summary(const json_t *j, struct err *e)
{
    struct summary_read s;
    int rc = summary_read(&s, j, e);
    summary_release(&s);
    return rc;
}

static void a_summary_says_of_which_attempt_it_is_if_it_is_of_one(void **state)
{
    struct sender none = {.rank = COORDINATOR};
    struct summary_read got;
    struct err e = {0};
    json_t *alone = sent(some_summary(&none)), *j = sent(some_summary(&from_coordinator));
    (void)state;
    assert_read(summary_read(&got, alone, &e), &e);
    assert_int_equal(got.from.attempt, 0);
    assert_null(json_object_get(alone, "attempt_of"));
    summary_release(&got);
    assert_read(summary_read(&got, j, &e), &e);
    assert_sender(&got.from, &from_coordinator);
    assert_true(got.samples_per_second == 12.5 && got.rank_memory_bytes == 1000);
    assert_true(got.exchange_seconds == 0.25);
    assert_int_equal(json_array_size(got.assignments), 1);
    assert_null(json_object_get(got.live, "assignments"));
    const json_t *tested = json_array_get(got.evaluations, 0);
    assert_int_equal(json_array_size(got.evaluations), 1);
    assert_true(json_number_value(json_object_get(tested, "accuracy")) == 0.75);
    assert_int_equal(json_integer_value(json_object_get(tested, "samples")), 64);
    assert_int_equal(json_integer_value(json_object_get(tested, "test_samples")), 20);
    assert_null(json_object_get(got.live, "evaluations"));
    assert_null(json_object_get(got.live, "attempt_of"));
    json_t *nodes = json_object_get(got.nodes, "nodes"), *node = json_array_get(nodes, 0);
    assert_string_equal(json_string_value(json_object_get(node, "node")), "v");
    assert_int_equal(json_integer_value(json_object_get(node, "max")), 1);
    summary_release(&got);
    json_decref(alone);
    json_decref(j);
}

static void what_is_wrong_with_a_summary_is_said(void **state)
{
    static const struct wrong wrongs[] = {
        {"metrics", NULL, "the simulator's summary is not valid: /metrics: is missing"},
        {"metrics/samples_per_second", "-1",
         "the simulator's summary is not valid: /metrics/samples_per_second: must be a number, 0 "
         "to 1e+15"},
        {"assignments", "1",
         "the simulator's summary is not valid: /assignments: must be an array of 0 to 1048576 "
         "elements"},
        {"workers/0/staleness", NULL,
         "the simulator's summary is not valid: /workers/0/staleness: is missing"},
        {"rank_memory_bytes", NULL,
         "the simulator's summary is not valid: /rank_memory_bytes: is missing"},
        {"attempt_of/format", "2",
         "the simulator's summary is not valid: /format: is 2, and this version of the program "
         "reads 1"},
    };
    (void)state;
    EACH_SAYS(some_summary(&from_coordinator), wrongs, read_summary);
}

/* ---- answers of --check ---------------------------------------------------------------------- */

static int read_checked(const json_t *j, struct err *e)
{
    struct checked c;
    int rc = checked_read(&c, j, e);
    checked_release(&c);
    return rc;
}

static void an_answer_of_a_check_is_read_as_it_was_printed(void **state)
{
    static const struct wrong wrongs[] = {
        {"errors", NULL, "the answer of --check is not valid: /errors: is missing"},
        {"errors/0/pointer", NULL,
         "the answer of --check is not valid: /errors/0: must have a pointer and a message"},
        {"samples", "'many'",
         "the answer of --check is not valid: /samples: must be a whole number, 0 to "
         "9223372036854775807"},
        {"memory_bytes", "5",
         "the answer of --check is not valid: /memory_bytes: "
         "must be an array of 0 to 1024 elements"},
    };
    struct checked c = {.samples = 60000, .test_samples = 10000, .workers = 2}, got;
    struct err e = {0};
    (void)state;
    c.memory_bytes[1] = 123456789;
    jsonx_problem(&c.errors, "/data/path", "is not there");
    json_t *j = sent(checked_json(&c));
    assert_read(checked_read(&got, j, &e), &e);
    assert_true(got.samples == 60000 && got.workers == 2 && got.memory_bytes[1] == 123456789);
    assert_string_equal(got.errors.items[0].pointer, "/data/path");
    assert_same(checked_json(&got), json_incref(j));
    checked_release(&got);
    checked_release(&c);
    EACH_SAYS(j, wrongs, read_checked);
}

static void the_simulator_answers_with_what_the_whole_process_needs(void **state)
{
    struct checked c = {.is_virtual = true, .process_bytes = 500, .node_bytes = 7}, got;
    struct err e = {0};
    (void)state;
    c.blocks = json_pack("{s:i}", "parameters", 400);
    json_t *j = sent(checked_json(&c));
    assert_read(checked_read(&got, j, &e), &e);
    assert_true(got.is_virtual && got.process_bytes == 500 && got.node_bytes == 7);
    assert_same(checked_json(&got), j);
    checked_release(&got);
    checked_release(&c);
}

/* ---- compared -------------------------------------------------------------------------------- */

static int read_compared(const json_t *j, struct err *e)
{
    struct compared c;
    return compared_read(&c, j, e);
}

static void of_two_models_the_tensors_are_told_that_are_farthest_apart(void **state)
{
    static const struct wrong wrongs[] = {
        {"tensors", "0",
         "the answer of --compare is not valid: /tensors: must be a whole number, 1 to "
         "9223372036854775807"},
        {"largest", "[]",
         "the answer of --compare is not valid: /largest: must be an array of 1 to 5 elements"},
        {"largest/0/name", NULL,
         "the answer of --compare is not valid: /largest/0/name: is missing"},
    };
    static const double differences[] = {1e-7, 3, 2e-7, NAN, 0, 2, 3, 1e-3};
    struct compared c = {.tensors = 8, .values = 80}, got;
    struct err e = {0};
    (void)state;
    for (int i = 0; i < 8; i++) {
        compared_add(&c, (char[]){(char)('a' + i), '\0'}, differences[i], 0);
    }
    json_t *j = sent(compared_json(&c));
    assert_read(compared_read(&got, j, &e), &e);
    assert_true(got.tensors == 8 && got.values == 80 && got.n_largest == COMPARED_LARGEST);
    assert_true(isnan(got.largest[0].difference) && got.largest[4].difference == 1e-3);
    char names[COMPARED_LARGEST + 1] = "";
    for (int i = 0; i < COMPARED_LARGEST; i++) {
        strcat(names, got.largest[i].name);
    }
    assert_string_equal(names, "dbgfh");
    EACH_SAYS(j, wrongs, read_compared);
}

/* Up to a difference of 1e-5, or of ten times the effect of rounding on its tensor, a model is the
 * same. */
static void what_rounding_makes_of_a_tensor_is_the_same_model(void **state)
{
    static const struct {
        double difference, rounding, of_all;
        bool same, blind;
    } cases[] = {
        {0.9e-5, 0, 0, true, false},        {1.1e-5, 0, 0, false, false},
        {1.1e-5, 1e-6, 1e-7, false, false}, {0.9e-3, 1e-4, 1e-7, true, false},
        {1.1e-3, 1e-4, 1e-7, false, false}, {NAN, 1e-4, 1e-7, false, false},
        {1e-1, 1e-1, 1.1e-3, false, true},  {NAN, NAN, NAN, false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct compared c = {.tensors = 2, .values = 8, .rounding = cases[i].of_all};
        compared_add(&c, "explained", 1e-2, 1e-2);
        compared_add(&c, "it", cases[i].difference, cases[i].rounding);
        assert_int_equal(compared_is_same(&c), cases[i].same);
        assert_int_equal(compared_is_blind(&c), cases[i].blind);
    }
}

/* ---- scored ---------------------------------------------------------------------------------- */

static void a_score_is_read_as_it_was_written(void **state)
{
    int64_t confusion[] = {3, 1, 0, 2, 4, 0, 0, 0, 0};
    struct scored told = {.model = "m.safetensors",
                          .format = "idx",
                          .path = "mnist",
                          .part = "test",
                          .digest = "d",
                          .device = "cpu",
                          .parameters = 101770,
                          .samples = 10,
                          .loss = 0.25,
                          .classes = 3,
                          .confusion = confusion,
                          .names = json_pack("[s,s,s]", "a", "b", "c")},
                  got;
    struct err e = {0};
    json_t *j = sent(scored_json(&told));
    (void)state;
    assert_read(scored_read(&got, j, &e), &e);
    assert_int_equal(scored_right(&got), 7);
    struct scored_class b = scored_class(&got, 1), c = scored_class(&got, 2);
    assert_true(strcmp(b.name, "b") == 0 && b.samples == 6 && b.right == 4 && b.answers == 5);
    assert_true(b.accuracy == 4.0 / 6 && b.precision == 0.8);
    assert_true(c.samples == 0 && c.accuracy != c.accuracy && c.precision != c.precision);
    assert_same(scored_json(&got), j);
    scored_release(&got);
    json_decref(told.names);
}

static void a_score_without_labels_has_no_classes(void **state)
{
    struct scored told = {.model = "m",
                          .format = "npy",
                          .path = "",
                          .part = "test",
                          .digest = "d",
                          .device = "cpu",
                          .samples = 10,
                          .loss = 0.25},
                  got;
    struct err e = {0};
    json_t *j = sent(scored_json(&told));
    (void)state;
    assert_true(json_is_null(json_object_get(j, "accuracy")));
    assert_read(scored_read(&got, j, &e), &e);
    assert_true(got.classes == 0 && !got.confusion && !got.names && got.loss == 0.25);
    assert_same(scored_json(&got), j);
    scored_release(&got);
}

static void a_model_that_cannot_be_scored_says_why(void **state)
{
    struct err why = {.code = ERR_NOT_FOUND}, e = {0};
    struct scored got;
    (void)state;
    snprintf(why.message, sizeof why.message, "cannot read it");
    snprintf(why.hint, sizeof why.hint, "give it a path");
    json_t *j = sent(scored_refusal(&why));
    assert_true(scored_read(&got, j, &e) < 0);
    assert_string_equal(e.message, "cannot read it");
    assert_string_equal(e.hint, "give it a path");
    scored_release(&got);
    json_decref(j);
    e = (struct err){0};
    j = json_pack("{s:[[i,i],[i]]}", "confusion", 1, 2, 3);
    assert_int_equal(scored_read(&got, j, &e), -ERR_DATA);
    assert_string_equal(e.message, "row 1 of the confusion matrix must have 2 counts");
    scored_release(&got);
    json_decref(j);
}

static void recent_staleness_is_of_the_last_hundred_gradients(void **state)
{
    struct staleness staleness = {0};
    (void)state;
    for (int i = 0; i < 200; i++) {
        staleness_add(&staleness, i < 100 ? 6 : 2, 1);
    }
    struct live_worker w = {.node = "n", .device = "cpu", .state = "", .staleness = &staleness};
    json_t *j = live_json(&(struct live){.workers = &w, .n_workers = 1});
    assert_true(json_number_value(json_object_get(json_object_get(j, "staleness"), "max")) == 6);
    json_t *recent = json_object_get(j, "staleness_recent");
    assert_true(json_number_value(json_object_get(recent, "max")) == 2);
    json_decref(j);
    staleness_release(&staleness);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_summary_says_of_which_attempt_it_is_if_it_is_of_one),
        cmocka_unit_test(what_is_wrong_with_a_summary_is_said),
        cmocka_unit_test(an_answer_of_a_check_is_read_as_it_was_printed),
        cmocka_unit_test(a_score_is_read_as_it_was_written),
        cmocka_unit_test(a_score_without_labels_has_no_classes),
        cmocka_unit_test(a_model_that_cannot_be_scored_says_why),
        cmocka_unit_test(the_simulator_answers_with_what_the_whole_process_needs),
        cmocka_unit_test(of_two_models_the_tensors_are_told_that_are_farthest_apart),
        cmocka_unit_test(what_rounding_makes_of_a_tensor_is_the_same_model),
        cmocka_unit_test(recent_staleness_is_of_the_last_hundred_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
