/* Predictions of a dry run (coordinator/planning/predict.c), made by the real simulator. */
#include "tests/unit/coordinator/world.h"

#include <libgen.h>

#include "coordinator/planning/predict.h"
#include "coordinator/planning/predict_run.h"

enum { SAMPLES = 5000 };
static const double host_link = 1.3e9; /* bytes per second between ranks of one host */

/* Of the build that $EVENSTEP_BUILD names, else of this program's own,
 * BUILD/tests/unit/coordinator/test_predict. */
static const char *simulator(void)
{
    static char path[300];
    char self[256] = "";
    const char *build = getenv("EVENSTEP_BUILD");
    if (!build) {
        assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
        build = dirname(dirname(dirname(dirname(self))));
    }
    snprintf(path, sizeof path, "%s/evenstep-simulate", build);
    return path;
}

/* Makes `changes` to a job of two workers with a global batch of 100. */
static json_t *try_predict(struct world *w, const char *program, const char *changes, int samples)
{
    struct dryrun d = {.store_url = w->place->url, .local_host = "here", .simulator = program};
    json_t *more = json_of(changes), *spec = world_spec(
                                         "{'workers': 2, 'strategy': {'type': 'sync'}, "
                                         "'batching': {'global_batch': 100, 'policy': 'dynamic'}}");
    json_object_update(spec, more);
    json_t *answer = predict_job(&d, spec, samples, &err_);
    json_decref(spec);
    json_decref(more);
    return answer;
}

static json_t *predict(struct world *w, const char *changes, int samples)
{
    json_t *answer = try_predict(w, simulator(), changes, samples);
    if (!answer) {
        fail_msg("%s", err_.message);
    }
    return answer;
}

/* Two nodes of 1 and 4 ms per sample, whose links take almost no time. */
#define UNEQUAL                                                                    \
    "\"cluster\": {\"nodes\": [{\"name\": \"a\", \"seconds_per_sample\": 0.001}, " \
    "{\"name\": \"b\", \"seconds_per_sample\": 0.004}], "                          \
    "\"links\": {\"latency_seconds\": 1e-9, \"bytes_per_second\": 1e15}}"

static void assert_near(double is, double wanted, double off)
{
    if (fabs(is - wanted) > off * wanted) {
        fail_msg("%g is not within %g %% of %g", is, 100 * off, wanted);
    }
}

static void minibatches_are_those_that_balancing_ends_with(void **state)
{
    json_t *answer = predict(*state, "{" UNEQUAL "}", SAMPLES), *row = at(answer, "/strategies/0");
    assert_string_equal(text_at(row, "/strategy"), "sync");
    assert_true(json_is_true(at(row, "/chosen")));
    assert_int_equal(number_at(row, "/workers/0/batch"), 80);
    assert_int_equal(number_at(row, "/workers/1/batch"), 20);
    assert_near(number_at(row, "/workers/1/compute_seconds"), 0.08, 0.01);
    assert_near(number_at(row, "/step_seconds"), 0.08, 0.03);
    assert_near(number_at(row, "/samples_per_second"), 100 / 0.08, 0.03);
    assert_near(number_at(row, "/epoch_seconds"), SAMPLES * 0.08 / 100, 0.03);
    assert_near(number_at(row, "/step_seconds_least"), number_at(row, "/step_seconds"), 0.01);
    assert_near(number_at(row, "/step_seconds_most"), number_at(row, "/step_seconds"), 0.01);
    assert_string_equal(text_at(answer, "/cluster/nodes/1/name"), "b");
    assert_true(json_is_null(at(answer, "/reason")));
    json_decref(answer);
}

static void a_row_is_the_median_of_runs_that_differ(void **state)
{
    json_t *answer = predict(
               *state,
               "{\"cluster\": {\"nodes\": [{\"name\": \"a\", \"seconds_per_sample\": 0.001, "
               "\"jitter\": 0.3}, {\"name\": \"b\", \"seconds_per_sample\": 0.001, "
               "\"jitter\": 0.3}]}}",
               SAMPLES),
           *row = at(answer, "/strategies/0");
    assert_true(number_at(row, "/step_seconds_least") < number_at(row, "/step_seconds") &&
                number_at(row, "/step_seconds") < number_at(row, "/step_seconds_most"));
    json_decref(answer);
}

static void equal_minibatches_wait_for_the_slow_node(void **state)
{
    json_t *answer = predict(*state,
                             "{" UNEQUAL
                             ", \"batching\": {\"global_batch\": 100, "
                             "\"policy\": \"equal\"}}",
                             SAMPLES);
    assert_int_equal(number_at(answer, "/strategies/0/workers/0/batch"), 50);
    assert_near(number_at(answer, "/strategies/0/step_seconds"), 0.2, 0.03);
    assert_near(number_at(answer, "/strategies/0/workers/0/wait_seconds"), 0.15, 0.1);
    json_decref(answer);
}

static void a_strategy_is_compared_once_and_only_the_chosen_one_tells_of_its_workers(void **state)
{
    json_t *answer = predict(*state, "{" UNEQUAL ", \"strategy\": {\"type\": \"asgd\"}}", SAMPLES),
           *rows = at(answer, "/strategies"), *row;
    size_t i;
    int syncs = 0, asgds = 0, drift = 0;
    assert_string_equal(text_at(rows, "/0/strategy"), "asgd");
    json_array_foreach(rows, i, row) {
        syncs += strcmp(text_at(row, "/strategy"), "sync") == 0;
        asgds += strcmp(text_at(row, "/strategy"), "asgd") == 0;
        assert_true(json_is_true(at(row, "/chosen")) == (i == 0));
        assert_true(!json_object_get(row, "workers") == (i > 0));
        drift += json_is_true(at(row, "/replicas_drift"));
        if (strcmp(text_at(row, "/strategy"), "local-sgd") == 0) {
            assert_true(json_is_true(at(row, "/replicas_drift")));
        }
    }
    assert_true(syncs == 1 && asgds == 1 && json_array_size(rows) > 4);
    assert_true(drift >= 1 && drift <= 3);
    json_decref(answer);
}

static void a_set_smaller_than_the_batch_is_a_step(void **state)
{
    json_t *answer = predict(*state, "{" UNEQUAL "}", 10), *row = at(answer, "/strategies/0");
    assert_int_equal(number_at(row, "/workers/0/batch") + number_at(row, "/workers/1/batch"), 10);
    assert_near(number_at(row, "/epoch_seconds"), number_at(row, "/step_seconds"), 1e-6);
    json_decref(answer);
    answer = predict(*state, "{" UNEQUAL "}", 1); /* the simulator has no empty minibatch */
    assert_true(number_at(answer, "/strategies/0/workers/0/batch") >= 1 &&
                number_at(answer, "/strategies/0/workers/1/batch") >= 1);
    json_decref(answer);
}

/* ---- on nodes that there are ----------------------------------------------------------------- */

/* As a monitor keeps it, for a node that computes a sample in `each` seconds and exchanges for
 * `exchange` seconds; 0: no exchange was measured. */
static void keep_measured(struct world *w, const char *node, double each, double exchange)
{
    json_t *j = world_spec("{}");
    struct jobspec *spec = calloc(1, sizeof *spec);
    char key[PROFILES_KEY];
    struct measured kept = {.device = "cpu:1", .slowdown = 1};
    OK(jobspec_read(spec, j, &err_));
    profiles_key(spec, key);
    profile_init(&kept.profile);
    for (int i = 0; i < 40; i++) {
        profile_observe(&kept.profile, 8 + i % 4 * 8, each * (8 + i % 4 * 8));
    }
    if (exchange > 0) {
        kept.exchange = (struct exchanged){"sync", 2, exchange};
    }
    json_t *document = measured_json(&kept);
    OK(store_profile_put(w->store, node, key, document, &err_));
    json_decref(document);
    jobspec_release(spec);
    free(spec);
    json_decref(j);
}

static void nothing_is_predicted_of_nodes_that_were_not_measured(void **state)
{
    struct world *w = world_with(state, 2);
    keep_measured(w, "n1", 0.001, 0);
    json_t *answer = predict(w, "{}", SAMPLES);
    assert_non_null(strstr(text_at(answer, "/reason"), "node 'n2' was not measured"));
    assert_true(json_is_null(at(answer, "/cluster")));
    assert_int_equal(json_array_size(at(answer, "/strategies")), 0);
    json_decref(answer);
    answer = predict(w, "{\"workers\": 3}", SAMPLES);
    assert_non_null(strstr(text_at(answer, "/reason"), "there are not enough nodes"));
    json_decref(answer);
}

static void measured_nodes_compute_as_they_did(void **state)
{
    struct world *w = world_with(state, 2);
    keep_measured(w, "n1", 0.001, 0);
    keep_measured(w, "n2", 0.004, 0);
    json_t *answer = predict(w, "{}", SAMPLES), *nodes = at(answer, "/cluster/nodes");
    double fast = number_at(nodes, "/0/seconds_per_sample"),
           slow = number_at(nodes, "/1/seconds_per_sample");
    assert_near(fmax(fast, slow) / fmin(fast, slow), 4, 0.05);
    assert_near(number_at(answer, "/strategies/0/workers/0/compute_seconds"), 0.08, 0.06);
    assert_near(number_at(answer, "/cluster/links/bytes_per_second"), host_link, 1e-6);
    json_decref(answer);
}

/* Ranks that share cores exchange for longer than links within one host would take. */
static void links_become_as_slow_as_makes_the_exchange_as_long_as_measured(void **state)
{
    struct world *w = world_with(state, 2);
    keep_measured(w, "n1", 0.001, 0.03);
    keep_measured(w, "n2", 0.004, 0.05);
    json_t *answer = predict(w, "{}", SAMPLES), *workers = at(answer, "/strategies/0/workers");
    double sum = number_at(workers, "/0/exchange_seconds");
    sum += number_at(workers, "/1/exchange_seconds");
    assert_near(sum / 2, 0.04, 0.1);
    assert_true(number_at(answer, "/cluster/links/bytes_per_second") < host_link);
    json_decref(answer);
    keep_measured(w, "n2", 0.004, 0); /* one node says nothing about an exchange between two */
    answer = predict(w, "{}", SAMPLES);
    assert_near(number_at(answer, "/cluster/links/bytes_per_second"), host_link, 1e-6);
    json_decref(answer);
}

static void a_simulator_that_fails_is_an_error(void **state)
{
    err_clear(&err_);
    assert_null(try_predict(*state, "/bin/false", "{" UNEQUAL "}", SAMPLES));
    assert_int_equal(err_.code, ERR_INTERNAL);
    assert_non_null(strstr(err_.message, "the simulator ended with code 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(minibatches_are_those_that_balancing_ends_with),
        IN_A_WORLD(a_row_is_the_median_of_runs_that_differ),
        IN_A_WORLD(equal_minibatches_wait_for_the_slow_node),
        IN_A_WORLD(a_strategy_is_compared_once_and_only_the_chosen_one_tells_of_its_workers),
        IN_A_WORLD(a_set_smaller_than_the_batch_is_a_step),
        IN_A_WORLD(nothing_is_predicted_of_nodes_that_were_not_measured),
        IN_A_WORLD(measured_nodes_compute_as_they_did),
        IN_A_WORLD(links_become_as_slow_as_makes_the_exchange_as_long_as_measured),
        IN_A_WORLD(a_simulator_that_fails_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
