/* A sweep's document, and what follows from its jobs (job/sweep/). */
#include <math.h>

#include "tests/unit/job/swept.h"

#include "job/sweep/record.h"
#include "job/sweep/runs.h"
#include "job/sweep/state.h"

/* ---- the document ---------------------------------------------------------------------------- */

static bool told(const struct jsonx_problems *p, const char *pointer, const char *part)
{
    for (int i = 0; i < p->count; i++) {
        if (strcmp(p->items[i].pointer, pointer) == 0 && strstr(p->items[i].message, part)) {
            return true;
        }
    }
    return false;
}

static void every_mistake_is_told_at_once_with_its_place(void **state)
{
    static const char text[] =
        "{\"spec\": {\"optimizer\": {\"schedule\": {\"type\": \"cosine\"}}, \"init\": \"x\", "
        "\"cluster\": {}}, \"parallel\": 0, \"seed\": 3, \"metric\": {\"name\": \"accuracy\"}, "
        "\"method\": {\"type\": \"halving\", \"trials\": 2, \"rungs\": [4, 2]}, \"parameters\": ["
        "{\"pointer\": \"rate\", \"values\": []}, {\"pointer\": \"/x\", \"range\": [2, 1]}, "
        "{\"pointer\": \"/y\", \"range\": [0, 1], \"scale\": \"log\"}, "
        "{\"pointer\": \"/epochs\", \"values\": [1]}, {\"pointer\": \"/seed\", \"values\": [1]}, "
        "{\"pointer\": \"/z\", \"values\": [1], \"range\": [0, 1]}, "
        "{\"pointer\": \"/z\", \"range\": [0.5, 3], \"scale\": \"int\", \"steps\": 2}]}";
    static const char *const places[][2] = {
        {"/parallel", "whole number from 1"},
        {"/seed", "did you mean 'seeds'"},
        {"/metric/name", "must be one of test_accuracy"},
        {"/method/rungs/1", "more epochs"},
        {"/method/trials", "leave none to go on"},
        {"/parameters/0/pointer", "JSON pointer"},
        {"/parameters/0/values", "1 to 100"},
        {"/parameters/1/range", "below the greatest"},
        {"/parameters/2/range", "above 0"},
        {"/parameters/3/pointer", "sets '/epochs' itself"},
        {"/parameters/4/pointer", "'seeds' says"},
        {"/parameters/5/values", "not both"},
        {"/parameters/6", "given twice"},
        {"/parameters/6/range/0", "whole number"},
        {"/parameters/6/steps", "only a grid"},
    };
    struct jsonx_problems problems = {0};
    struct sweep s;
    (void)state;
    json_t *j = json_of(text);
    assert_true(sweep_parse(&s, j, &problems) < 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!told(&problems, places[i][0], places[i][1])) {
            fail_msg("nothing about %s: %s", places[i][0], places[i][1]);
        }
    }
    assert_int_equal(problems.count, sizeof places / sizeof *places);
    jsonx_problems_release(&problems);
    sweep_release(&s);
    json_decref(j);
}

static const char example[] = /* a job's spec */
    "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\"}, \"strategy\": {\"type\": \"sync\"}, "
    "\"batching\": {\"global_batch\": 32}, "
    "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1}}";

static void a_halving_refuses_specs_that_could_not_go_on(void **state)
{
    static const char cannot[] =
        "{\"cluster\": {\"nodes\": [{\"name\": \"a\", \"seconds_per_sample\": 1}]}, "
        "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 1, "
        "\"schedule\": {\"type\": \"cosine\"}}, \"init\": \"x\"}";
    struct sweep halving, grid;
    struct parsed *good = parse_patched(example, "{}"), *bad = parse_patched(example, cannot);
    (void)state;
    assert_true(good->rc == 0 && bad->rc == 0);
    read_text(&halving, SWEEP(RATE, "{\"type\": \"halving\", \"trials\": 4, \"rungs\": [1, 2]}"));
    read_text(&grid, SWEEP("[{\"pointer\": \"/x\", \"values\": [1]}]", "{\"type\": \"grid\"}"));
    sweep_check_run(&halving, &good->spec, &good->problems);
    sweep_check_run(&grid, &bad->spec, &good->problems);
    assert_int_equal(good->problems.count, 0);
    sweep_check_run(&halving, &bad->spec, &bad->problems);
    assert_true(has(bad, "/init", "own checkpoints"));
    assert_true(has(bad, "/cluster", "no checkpoint"));
    assert_true(has(bad, "/optimizer/schedule/type", "cosine"));
    done(good);
    done(bad);
    sweep_release(&halving);
    sweep_release(&grid);
}

static void numbers_that_are_predicted_are_not_compared_by_accuracy(void **state)
{
    struct sweep sweep;
    struct parsed *numbers =
        parse_patched(example,
                      "{\"model\": {\"input\": [784], \"loss\": \"mse\", \"layers\": "
                      "[{\"type\": \"dense\", \"units\": 1}]}}");
    (void)state;
    read_text(&sweep, SWEEP(RATE, "{\"type\": \"random\", \"trials\": 4}"));
    sweep_check_run(&sweep, &numbers->spec, &numbers->problems);
    assert_true(has(numbers, "/model/loss", "'test_loss', not 'test_accuracy'"));
    done(numbers);
    sweep_release(&sweep);
}

static void too_many_trials_and_what_is_no_object_are_refused(void **state)
{
    static const char *const texts[][2] = {
        {SWEEP("[{\"pointer\": \"/x\", \"range\": [0, 1], \"steps\": 60}, "
               "{\"pointer\": \"/y\", \"range\": [0, 1], \"steps\": 60}]",
               "{\"type\": \"grid\"}"),
         "/parameters"},
        {SWEEP("[{\"pointer\": \"/x\", \"range\": [0, 1]}]", "{\"type\": \"grid\"}"),
         "/parameters/0/steps"},
        {SWEEP("[{\"pointer\": \"/x\", \"range\": [1, 3], \"scale\": \"int\", \"steps\": 4}]",
               "{\"type\": \"grid\"}"),
         "/parameters/0/steps"},
        {SWEEP("[]", "{\"type\": \"grid\"}"), "/parameters"},
        {SWEEP(RATE, "{\"type\": \"grit\"}"), "/method/type"},
        {"[]", ""},
        {"{\"spec\": 1, \"parameters\": " RATE ", \"method\": {\"type\": \"random\", "
         "\"trials\": 1}}",
         "/spec"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct jsonx_problems problems = {0};
        struct sweep s;
        json_t *j = json_of(texts[i][0]);
        assert_true(sweep_parse(&s, j, &problems) < 0);
        assert_string_equal(problems.items[0].pointer, texts[i][1]);
        jsonx_problems_release(&problems);
        sweep_release(&s);
        json_decref(j);
    }
}

static void defaults_are_written_and_read_back_the_same(void **state)
{
    struct sweep a, b;
    struct err e = {0};
    (void)state;
    read_text(&a, SWEEP(RATE, "{\"type\": \"halving\", \"trials\": 9, \"rungs\": [1, 3, 9]}"));
    assert_int_equal(sweep_read(&b, a.json, &e), 0);
    assert_true(json_equal(a.json, b.json));
    assert_int_equal(b.eta, 3);
    assert_int_equal(b.n_rungs, 3);
    assert_int_equal(b.parallel, 1);
    assert_int_equal(b.seeds, 1);
    assert_true(b.greatest);
    assert_string_equal(b.metric, "test_accuracy");
    assert_string_equal(b.name, "base");
    sweep_release(&a);
    sweep_release(&b);
    read_patched(&a, SWEEP(RATE, "{\"type\": \"random\", \"trials\": 1}"),
                 "{\"metric\": {\"name\": \"test_loss\"}}");
    assert_false(a.greatest);
    sweep_release(&a);
}

/* ---- what follows from the jobs -------------------------------------------------------------- */

static void add(struct sweep_runs *runs, enum job_state state, double metric)
{
    runs->all[runs->n] = (struct sweep_run){.state = state, .metric = metric};
    snprintf(runs->all[runs->n].job, SWEEP_JOB, "%016d", runs->n);
    runs->n++;
}

static void expect_job(const struct sweep *s, const struct sweep_runs *runs, int trial, int rung,
                       int seed, int before)
{
    struct sweep_run_id id;
    int from;
    assert_int_equal(sweep_next(s, runs, &id, &from), SWEEP_SUBMIT);
    assert_int_equal(id.trial, trial);
    assert_int_equal(id.rung, rung);
    assert_int_equal(id.seed, seed);
    assert_int_equal(from, before);
}

static void expect(const struct sweep *s, const struct sweep_runs *runs, enum sweep_next what)
{
    struct sweep_run_id id;
    int before;
    assert_int_equal(sweep_next(s, runs, &id, &before), what);
}

static void all_seeds_of_a_trial_come_before_the_next_trial(void **state)
{
    struct sweep s;
    struct sweep_runs runs = {.n = 0};
    (void)state;
    read_patched(&s, SWEEP(RATE, "{\"type\": \"random\", \"trials\": 2}"), "{\"seeds\": 2}");
    expect_job(&s, &runs, 0, 0, 0, -1);
    add(&runs, JOB_RUNNING, NAN);
    expect_job(&s, &runs, 0, 0, 1, -1);
    add(&runs, JOB_FAILED, NAN);
    expect_job(&s, &runs, 1, 0, 0, -1);
    add(&runs, JOB_SUCCEEDED, 0.5);
    add(&runs, JOB_QUEUED, NAN);
    expect(&s, &runs, SWEEP_WAIT);
    runs.all[0].state = JOB_SUCCEEDED;
    runs.all[0].metric = 0.9;
    runs.all[3].state = JOB_SUCCEEDED;
    runs.all[3].metric = 0.7;
    expect(&s, &runs, SWEEP_DONE);
    double score = 0;
    assert_int_equal(sweep_best(&s, &runs, &score), 1); /* a seed of trial 0 failed */
    assert_true(fabs(score - 0.6) < 1e-12);
    struct sweep_rung rung;
    assert_true(sweep_rung_get(&s, &runs, 0, &rung));
    struct sweep_score of = sweep_score_of(&s, &runs, &rung, 1);
    assert_true(of.counts && fabs(of.spread - sqrt(0.02)) < 1e-12);
    of = sweep_score_of(&s, &runs, &rung, 0);
    assert_true(!of.counts && fabs(of.mean - 0.9) < 1e-12 && isnan(of.spread));
    sweep_release(&s);
}

static void the_best_of_a_rung_go_on_from_their_own_jobs(void **state)
{
    static const double metrics[] = {0.3, NAN, 0.8, 0.8, 0.9, 0.1, 0.7, 0.2, 0.95};
    struct sweep s;
    struct sweep_runs runs = {.n = 0};
    (void)state;
    read_text(&s, SWEEP(RATE, "{\"type\": \"halving\", \"trials\": 9, \"rungs\": [1, 3, 9]}"));
    for (int i = 0; i < 9; i++) {
        expect_job(&s, &runs, i, 0, 0, -1);
        add(&runs, i == 8 ? JOB_CANCELLED : JOB_RUNNING, metrics[i]);
    }
    expect(&s, &runs, SWEEP_WAIT);
    for (int i = 0; i < 8; i++) {
        runs.all[i].state = JOB_SUCCEEDED;
    }
    expect_job(&s, &runs, 2, 1, 0, 2); /* of equal ones the earlier, not the cancelled one */
    add(&runs, JOB_SUCCEEDED, 0.85);
    expect_job(&s, &runs, 3, 1, 0, 3);
    add(&runs, JOB_SUCCEEDED, 0.92);
    expect_job(&s, &runs, 4, 1, 0, 4);
    add(&runs, JOB_RUNNING, 0.99);
    expect(&s, &runs, SWEEP_WAIT);
    runs.all[11].state = JOB_FAILED;
    expect_job(&s, &runs, 3, 2, 0, 10);
    double score = 0;
    assert_int_equal(sweep_best(&s, &runs, &score), 3);
    add(&runs, JOB_SUCCEEDED, 0.5); /* worse with more epochs, but the highest rung counts */
    expect(&s, &runs, SWEEP_DONE);
    assert_int_equal(sweep_best(&s, &runs, &score), 3);
    assert_true(fabs(score - 0.5) < 1e-12);
    sweep_release(&s);
}

static void a_rung_of_which_nothing_succeeded_ends_the_sweep(void **state)
{
    struct sweep s;
    struct sweep_runs runs = {.n = 0};
    double score;
    (void)state;
    read_text(&s, SWEEP(RATE, "{\"type\": \"halving\", \"trials\": 3, \"rungs\": [1, 3]}"));
    add(&runs, JOB_FAILED, NAN);
    add(&runs, JOB_CANCELLED, 0.9);
    add(&runs, JOB_SUCCEEDED, NAN);
    expect(&s, &runs, SWEEP_DONE);
    assert_int_equal(sweep_best(&s, &runs, &score), -1);
    sweep_release(&s);
}

static void the_least_loss_is_the_best(void **state)
{
    struct sweep s;
    struct sweep_runs runs = {.n = 0};
    double score = 0;
    (void)state;
    read_patched(&s,
                 SWEEP(RATE,
                       "{\"type\": \"halving\", \"trials\": 4, \"rungs\": [1, 2], "
                       "\"eta\": 4}"),
                 "{\"metric\": {\"name\": \"test_loss\"}}");
    add(&runs, JOB_SUCCEEDED, 0.5);
    add(&runs, JOB_SUCCEEDED, 0.2);
    add(&runs, JOB_SUCCEEDED, 0.9);
    add(&runs, JOB_SUCCEEDED, 0.3);
    expect_job(&s, &runs, 1, 1, 0, 1);
    assert_int_equal(sweep_best(&s, &runs, &score), 1);
    sweep_release(&s);
}

static void the_list_reads_back_as_it_was_written(void **state)
{
    struct sweep_runs runs = {.n = 0}, again;
    struct err e = {0};
    (void)state;
    add(&runs, JOB_SUCCEEDED, 0.125);
    add(&runs, JOB_RUNNING, NAN);
    json_t *list = sweep_runs_json(&runs);
    assert_int_equal(sweep_runs_read(&again, list, &e), 0);
    assert_int_equal(again.n, 2);
    assert_string_equal(again.all[1].job, runs.all[1].job);
    assert_int_equal(again.all[0].state, JOB_SUCCEEDED);
    assert_true(fabs(again.all[0].metric - 0.125) < 1e-12 && isnan(again.all[1].metric));
    json_array_append_new(list, json_pack("{s:s}", "state", "flying"));
    assert_int_equal(sweep_runs_read(&again, list, &e), -ERR_DATA);
    json_decref(list);
    for (int i = 0; i < SWEEP_STATE_COUNT; i++) {
        assert_int_equal(sweep_state_find(sweep_state_name((enum sweep_state)i)), i);
    }
    assert_int_equal(sweep_state_find("flying"), -1);
}

static void a_kept_sweep_is_read_or_refused_as_a_whole(void **state)
{
    struct sweep s;
    struct sweep_record r;
    struct err e = {0};
    (void)state;
    read_text(&s, SWEEP(RATE, "{\"type\": \"random\", \"trials\": 2}"));
    json_t *kept = json_pack("{s:s, s:s, s:s, s:n, s:O, s:[]}", "id", "0123456789abcdef", "owner",
                             "ann", "state", "cancelling", "finished", "document", s.json, "jobs");
    assert_int_equal(sweep_record_read(&r, kept, &e), 0);
    assert_string_equal(r.owner, "ann");
    assert_true(r.state == SWEEP_CANCELLING && r.runs.n == 0 && r.sweep.trials == s.trials);
    sweep_record_release(&r);
    json_t *shown = json_object();
    sweep_record_show(kept, shown);
    assert_string_equal(json_string_value(json_object_get(shown, "state")), "cancelling");
    assert_true(json_is_null(json_object_get(shown, "finished")) &&
                !json_object_get(shown, "document"));
    json_object_set_new(kept, "state", json_string("flying"));
    assert_int_equal(sweep_record_read(&r, kept, &e), -ERR_DATA);
    sweep_record_release(&r);
    json_object_set_new(kept, "state", json_string("running"));
    json_object_set_new(kept, "jobs", json_string("none"));
    assert_int_equal(sweep_record_read(&r, kept, &e), -ERR_DATA);
    sweep_record_release(&r);
    json_decref(shown);
    json_decref(kept);
    sweep_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_told_at_once_with_its_place),
        cmocka_unit_test(a_halving_refuses_specs_that_could_not_go_on),
        cmocka_unit_test(numbers_that_are_predicted_are_not_compared_by_accuracy),
        cmocka_unit_test(too_many_trials_and_what_is_no_object_are_refused),
        cmocka_unit_test(defaults_are_written_and_read_back_the_same),
        cmocka_unit_test(all_seeds_of_a_trial_come_before_the_next_trial),
        cmocka_unit_test(the_best_of_a_rung_go_on_from_their_own_jobs),
        cmocka_unit_test(a_rung_of_which_nothing_succeeded_ends_the_sweep),
        cmocka_unit_test(the_least_loss_is_the_best),
        cmocka_unit_test(the_list_reads_back_as_it_was_written),
        cmocka_unit_test(a_kept_sweep_is_read_or_refused_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
