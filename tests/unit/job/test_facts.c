/* Facts that ranks report (job/documents/ranks/fact.h): each kind is read as it was written, and
 * what is wrong with one is said. */
#include "tests/unit/job/documents.h"

#include <math.h>
#include <signal.h>

#include "job/documents/ranks/fact.h"

static const struct program_end raised = {.there = true,
                                          .exit_code = 1,
                                          .exception = "KeyError: 'x'",
                                          .file = "train.py",
                                          .line = 12,
                                          .last_line = "KeyError: 'x'",
                                          .epoch = 2,
                                          .step = 5};

static struct fact some_fact(enum fact_type type)
{
    struct fact f = {.type = type, .from = from_rank, .number = 7, .node = "n2"};
    switch (type) {
    case FACT_LOADED:
        f.loaded = 60000;
        break;
    case FACT_EVALUATION:
        f.evaluation = (struct evaluation){16, 1.5, 2.5, 0.25, 0.75, 100, true};
        break;
    case FACT_NORMS:
        f.norms = (struct norms){16, 1.5, 2.5, 2, 3, calloc(2, sizeof(struct tensor_norms))};
        f.norms.items[0] = (struct tensor_norms){"fc.weight", 100, 1.25, 0.5};
        f.norms.items[1] = (struct tensor_norms){"fc.bias", 10, 0, NAN};
        break;
    case FACT_LOGGED:
        f.logged = (struct logged){2, calloc(2, sizeof(struct logged_point))};
        f.logged.points[0] = (struct logged_point){"bleu", 16, 1.5, 2.5, 31.25};
        f.logged.points[1] = (struct logged_point){"eval/\xce\xba", 16, 1.5, 2.5, NAN};
        break;
    case FACT_JOINED:
        f.joined = (struct joined){"torch 2.15.0", "AdamW", 1199882, 8, 60000, 64, 14};
        break;
    case FACT_CRASHED:
        snprintf(f.crashed, sizeof f.crashed, "the program of rank 1 on 'n2' ended");
        break;
    case FACT_PROFILE:
        f.profile.a = 0.002;
        f.profile.k = 0.0005;
        f.profile.max_batch = 64;
        break;
    case FACT_TUNING:
        f.tuning = json_pack("{s:i}", "choice", 3);
        break;
    case FACT_CHECKPOINT:
        snprintf(f.saved.file, sizeof f.saved.file, "/data/jobs/x/checkpoints/step-16.safetensors");
        f.saved.step = 16;
        f.saved.time = 2.5;
        break;
    case FACT_ARTIFACT:
        snprintf(f.saved.file, sizeof f.saved.file, "best");
        f.saved.step = 20;
        break;
    case FACT_RESTORED:
        f.version = 16;
        break;
    case FACT_LOST:
        fact_describe_end(f.lost, SIGKILL);
        break;
    case FACT_LEFT:
    case FACT_RETURNED:
        f.left = (struct departure){.who = 1, .step = 412, .others = 3, .pushes = 2};
        staleness_add(&f.left.staleness, 2, 32);
        break;
    case FACT_ENDED:
        f.ended = (struct ended){OUTCOME_FAILED, ERR_DATA, "cannot read it", 1, "n2", raised};
        break;
    }
    return f;
}

static json_t *some_fact_json(enum fact_type type)
{
    struct fact f = some_fact(type);
    json_t *j = fact_json(&f);
    fact_release(&f);
    return j;
}

static int read_fact(const json_t *j, struct err *e)
{
    struct fact f;
    int rc = fact_read(&f, j, e);
    fact_release(&f);
    return rc;
}

static void every_kind_of_fact_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (int type = 0; type < FACT_TYPES; type++) {
        struct fact got;
        struct err e = {0};
        json_t *j = sent(some_fact_json((enum fact_type)type));
        assert_read(fact_read(&got, j, &e), &e);
        assert_int_equal(got.type, type);
        assert_sender(&got.from, &from_rank);
        assert_string_equal(got.node, "n2");
        assert_same(fact_json(&got), j);
        fact_release(&got);
    }
}

static void an_end_says_which_rank_told_it(void **state)
{
    struct fact got;
    struct err e = {0};
    json_t *j = sent(some_fact_json(FACT_ENDED));
    (void)state;
    assert_read(fact_read(&got, j, &e), &e);
    assert_true(got.ended.outcome == OUTCOME_FAILED && got.ended.code == ERR_DATA);
    assert_int_equal(got.ended.rank, 1);
    assert_string_equal(got.ended.node, "n2");
    assert_string_equal(got.ended.message, "cannot read it");
    fact_release(&got);
    json_decref(j);
}

static void a_figure_that_became_infinite_is_told_as_unknown(void **state)
{
    struct fact f = some_fact(FACT_EVALUATION), got;
    struct err e = {0};
    (void)state;
    f.evaluation.loss = INFINITY;
    json_t *j = sent(fact_json(&f));
    assert_read(fact_read(&got, j, &e), &e);
    assert_true(isnan(got.evaluation.loss) && got.evaluation.accuracy == 0.75);
    json_decref(j);
}

static void a_message_that_is_cut_within_a_letter_is_told_all_the_same(void **state)
{
    struct fact f = some_fact(FACT_ENDED), got;
    struct err e = {0};
    (void)state;
    snprintf(f.ended.message, sizeof f.ended.message, "cannot read \xc3");
    json_t *j = sent(fact_json(&f));
    assert_read(fact_read(&got, j, &e), &e);
    assert_string_equal(got.ended.message, "cannot read ");
    json_decref(j);
}

static void what_is_wrong_with_a_fact_is_said(void **state)
{
    static const struct wrong any[] = {
        {"node", NULL, "the fact is not valid: /node: is missing"},
        {"number", "0",
         "the fact is not valid: /number: must be a whole number, 1 to 9223372036854775807"},
        {"type", "'rumour'", "the fact is not valid: /type: 'rumour' is unknown"},
        {"version", "-1",
         "the fact is not valid: /version: must be a whole number, 0 to 9223372036854775807"},
    };
    static const struct wrong loaded[] = {
        {"samples", NULL, "the fact is not valid: /samples: is missing"},
    };
    static const struct wrong evaluation[] = {
        {"loss", "'low'", "the fact is not valid: /loss: must be a number or null"},
        {"epoch", "-1", "the fact is not valid: /epoch: must be a number, 0 to 1e+12"},
        {"final", NULL, "the fact is not valid: /final: is missing"},
    };
    static const struct wrong joined[] = {
        {"program", NULL, "the fact is not valid: /program: is missing"},
        {"program/global_batch", "0",
         "the fact is not valid: /program/global_batch: must be a whole number, 1 to 16777216"},
        {"program/samples", "'many'",
         "the fact is not valid: /program/samples: must be a "
         "whole number, 1 to 9223372036854775807"},
    };
    static const struct wrong profile[] = {
        {"k", "'x'", "the fact is not valid: /k: must be a number, -1e+12 to 1e+12"},
        {"max_batch", "-1",
         "the fact is not valid: /max_batch: must be a whole number, 0 to 2147483647"},
    };
    static const struct wrong tuning[] = {
        {"tuning", "[]", "the fact is not valid: /tuning: must be an object"},
        {"tuning", NULL, "the fact is not valid: /tuning: is missing"},
    };
    static const struct wrong checkpoint[] = {
        {"path", NULL, "the fact is not valid: /path: is missing"}};
    static const struct wrong artifact[] = {
        {"name", "''", "the fact is not valid: /name: must be a text of 1 to 4095 bytes"}};
    (void)state;
    EACH_SAYS(some_fact_json(FACT_RESTORED), any, read_fact);
    EACH_SAYS(some_fact_json(FACT_LOADED), loaded, read_fact);
    EACH_SAYS(some_fact_json(FACT_EVALUATION), evaluation, read_fact);
    EACH_SAYS(some_fact_json(FACT_JOINED), joined, read_fact);
    EACH_SAYS(some_fact_json(FACT_PROFILE), profile, read_fact);
    EACH_SAYS(some_fact_json(FACT_TUNING), tuning, read_fact);
    EACH_SAYS(some_fact_json(FACT_CHECKPOINT), checkpoint, read_fact);
    EACH_SAYS(some_fact_json(FACT_ARTIFACT), artifact, read_fact);
}

static void what_is_wrong_with_a_fact_of_lists_is_said(void **state)
{
    static const struct wrong norms[] = {
        {"names", "[]", "the fact is not valid: /names: must be an array of 1 to 1024 elements"},
        {"weights", "[1]", "the fact is not valid: /weights: must be an array of 2 to 2 elements"},
        {"gradients", "[1, -1]",
         "the fact is not valid: /gradients: must hold numbers of at least 0, or null"},
        {"elements", "[100, 0]",
         "the fact is not valid: /names: must hold names, each of a tensor with elements"},
        {"left_out", NULL, "the fact is not valid: /left_out: is missing"},
    };
    static const struct wrong logged[] = {
        {"names", "[]", "the fact is not valid: /names: must be an array of 1 to 256 elements"},
        {"names", "['bleu', '']",
         "the fact is not valid: /names: must hold texts of 1 to 63 bytes"},
        {"steps", "[1, -1]", "the fact is not valid: /steps: must hold numbers, 0 to 1e+12"},
        {"times", "[1]", "the fact is not valid: /times: must be an array of 2 to 2 elements"},
        {"values", "[1, 'x']", "the fact is not valid: /values: must hold numbers, or null"},
        {"epochs", NULL, "the fact is not valid: /epochs: is missing"},
    };
    (void)state;
    EACH_SAYS(some_fact_json(FACT_NORMS), norms, read_fact);
    EACH_SAYS(some_fact_json(FACT_LOGGED), logged, read_fact);
}

static void what_is_wrong_with_a_fact_about_an_end_is_said(void **state)
{
    static const struct wrong crashed[] = {
        {"message", "5", "the fact is not valid: /message: must be a text"},
    };
    static const struct wrong lost[] = {
        {"message", NULL, "the fact is not valid: /message: is missing"},
    };
    static const struct wrong left[] = {
        {"left", NULL, "the fact is not valid: /left: is missing"},
        {"left/who", "-1", "the fact is not valid: /left/who: must be a whole number, 0 to 32767"},
        {"left/staleness", "[]", "the fact is not valid: /left/staleness: must be an object"},
        {"left/staleness/count", "99", "the fact is not valid: /left/staleness: is malformed"},
    };
    static const struct wrong ended[] = {
        {"outcome", "'lost'", "the fact is not valid: /outcome: 'lost' is unknown"},
        {"code", NULL, "the fact is not valid: /code: is missing"},
        {"code", "'a'", "the fact is not valid: /code: 'a' is not the code of an error"},
        {"message", "5", "the fact is not valid: /message: must be a text"},
        {"program", "5", "the fact is not valid: /program: must be an object"},
        {"program/line", "-1",
         "the fact is not valid: /program/line: must be a whole number, 0 to 2147483647"},
        {"program/every_rank/step", "0",
         "the fact is not valid: /program/every_rank/step: must be a whole number, 1 to "
         "9223372036854775807"},
    };
    (void)state;
    EACH_SAYS(some_fact_json(FACT_CRASHED), crashed, read_fact);
    EACH_SAYS(some_fact_json(FACT_LOST), lost, read_fact);
    EACH_SAYS(some_fact_json(FACT_LEFT), left, read_fact);
    EACH_SAYS(some_fact_json(FACT_ENDED), ended, read_fact);
}

static void people_are_told_a_file_without_its_folder(void **state)
{
    struct fact f = some_fact(FACT_CHECKPOINT);
    (void)state;
    assert_same(fact_saved_json(&f), json_pack("{s:s, s:s, s:i, s:f}", "type", "checkpoint", "path",
                                               "step-16.safetensors", "step", 16, "time", 2.5));
}

static void how_a_process_ended_tells_whether_it_was_killed(void **state)
{
    (void)state;
    char lost[DOCUMENT_MESSAGE];
    fact_describe_end(lost, SIGKILL); /* a status of waitpid() */
    assert_string_equal(lost, "exited on signal 9 (Killed)");
    assert_true(fact_tells_kill(lost));
    fact_describe_end(lost, SIGSEGV);
    assert_false(fact_tells_kill(lost));
    fact_describe_end(lost, 9 << 8);
    assert_string_equal(lost, "exited with code 9");
    assert_false(fact_tells_kill(lost) || fact_tells_kill(""));
    assert_false(fact_tells_kill("exited on signal 90 (Unknown)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_fact_is_read_as_it_was_written),
        cmocka_unit_test(how_a_process_ended_tells_whether_it_was_killed),
        cmocka_unit_test(an_end_says_which_rank_told_it),
        cmocka_unit_test(a_figure_that_became_infinite_is_told_as_unknown),
        cmocka_unit_test(a_message_that_is_cut_within_a_letter_is_told_all_the_same),
        cmocka_unit_test(what_is_wrong_with_a_fact_is_said),
        cmocka_unit_test(what_is_wrong_with_a_fact_of_lists_is_said),
        cmocka_unit_test(what_is_wrong_with_a_fact_about_an_end_is_said),
        cmocka_unit_test(people_are_told_a_file_without_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
