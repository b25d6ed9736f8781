/* What a rank reads from its attempt's plan (worker/config.c). */
#include "fixture.h"

#include "worker/config.h"

static const char id[] = "0123456789abcdef";

/* Two workers of a job with a global batch of 64. */
static json_t *plan_with(int attempt, int first, int second)
{
    struct plan *p = calloc(1, sizeof *p);
    p->from = (struct sender){.attempt = attempt, .rank = COORDINATOR};
    snprintf(p->from.job, sizeof p->from.job, "%s", id);
    p->spec = json_pack(
        "{s:s, s:s, s:{s:s, s:i, s:i}, s:{s:s, s:f}, s:{s:s}, s:{s:i, s:s}, s:i, s:i}", "name",
        "test", "model", "mlp", "data", "format", "glyphs", "samples", 1000, "test_samples", 100,
        "optimizer", "type", "sgd", "learning_rate", 0.05, "strategy", "type", "sync", "batching",
        "global_batch", 64, "policy", "equal", "workers", 3, "epochs", 1);
    p->workers = calloc(2, sizeof *p->workers);
    p->n_workers = 2;
    p->servers = 1;
    for (int i = 0; i < 2; i++) {
        p->workers[i] = (struct plan_worker){.host = "here", .device = "cpu:1", .slowdown = 1 + i};
        snprintf(p->workers[i].node, sizeof p->workers[i].node, "n%d", i + 1);
        p->speeds[i] = 1;
    }
    snprintf(p->job_dir, sizeof p->job_dir, "/nowhere/jobs/%s", id);
    p->first_version = 4;
    p->first_sizes[0] = first;
    p->first_sizes[1] = second;
    json_t *j = plan_json(p);
    plan_release(p);
    free(p);
    return j;
}

/* Reads it as a rank of attempt 2. Takes the reference. */
static int read_as(struct worker_config *c, json_t *plan)
{
    memset(c, 0, sizeof *c);
    char words[][24] = {"--job", "", "--attempt", "2", "--store", "unix:/nowhere"}, *argv[7] = {0};
    snprintf(words[1], sizeof words[1], "%s", id);
    for (int i = 0; i < 6; i++) {
        argv[i] = words[i];
    }
    assert_int_equal(config_parse(c, 6, argv, &err_), 0);
    err_clear(&err_);
    c->job = id; /* the words are local to this function */
    int rc = config_read_plan(c, plan, &err_);
    json_decref(plan);
    return rc;
}

static void a_restart_has_as_many_workers_as_its_plan(void **state)
{
    struct worker_config *c = calloc(1, sizeof *c);
    (void)state;
    OK(read_as(c, plan_with(2, 48, 16)));
    assert_int_equal(c->spec->workers, 2); /* of three */
    assert_int_equal(c->plan.first_version, 4);
    assert_int_equal(c->plan.first_sizes[1], 16);
    assert_string_equal(c->plan.workers[1].node, "n2");
    assert_true(c->plan.workers[1].slowdown == 2);
    config_release(c);
    free(c);
}

static void the_plan_of_another_attempt_is_refused(void **state)
{
    struct worker_config *c = calloc(1, sizeof *c);
    (void)state;
    assert_int_equal(read_as(c, plan_with(3, 48, 16)), -ERR_CONFLICT);
    assert_string_equal(err_.message,
                        "the plan is of attempt 3 of job '0123456789abcdef', "
                        "this rank of attempt 2 of job '0123456789abcdef'");
    config_release(c);
    free(c);
}

static void minibatches_that_do_not_sum_to_the_global_batch_are_refused(void **state)
{
    struct worker_config *c = calloc(1, sizeof *c);
    (void)state;
    assert_int_equal(read_as(c, plan_with(2, 48, 15)), -ERR_DATA);
    assert_string_equal(err_.message,
                        "the plan's minibatches do not sum to the global batch of 64");
    config_release(c);
    free(c);
}

static void an_agent_s_host_has_data_folders_of_its_own(void **state)
{
    struct worker_config *c = calloc(1, sizeof *c);
    (void)state;
    setenv("EVENSTEP_NODE_DATA", "/its/own", 1);
    int rc = read_as(c, plan_with(2, 48, 16));
    unsetenv("EVENSTEP_NODE_DATA");
    OK(rc);
    assert_string_equal(c->plan.roots, "/its/own");
    config_release(c);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_has_as_many_workers_as_its_plan),
        cmocka_unit_test(the_plan_of_another_attempt_is_refused),
        cmocka_unit_test(minibatches_that_do_not_sum_to_the_global_batch_are_refused),
        cmocka_unit_test(an_agent_s_host_has_data_folders_of_its_own),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
