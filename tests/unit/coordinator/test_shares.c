/* How owners of jobs share nodes: whose turn it is, and which jobs wait because of a quota
 * (coordinator/turn/queue/shares.c, coordinator/files/quotas.c through sched_tick). */
#include "tests/unit/coordinator/world.h"

/* A coordinator with these quotas: JSON with single quotes. */
static void with_quotas(struct world *w, const char *single)
{
    char path[128];
    json_t *document = quoted(single);
    char *text = json_dumps(document, 0);
    snprintf(path, sizeof path, "%s/quotas.json", w->place->dir);
    OK(proc_write_file(path, text, strlen(text), 0600, &err_));
    free(text);
    json_decref(document);
    quotas_close(w->quotas);
    assert_non_null(w->quotas = quotas_open(path, &err_));
    world_new_coordinator(w);
}

static void assert_waits(struct world *w, const char *id, const char *why)
{
    char *waiting = store_job_field(w->store, id, "waiting", &err_);
    assert_state(w, id, "queued");
    assert_non_null(waiting);
    assert_string_equal(waiting, why);
    free(waiting);
}

static void of_equal_priority_the_owner_who_uses_fewer_nodes_goes_first(void **state)
{
    char a[4][STORE_ID], b[STORE_ID];
    struct world *w = world_with(state, 3);
    for (int i = 0; i < 4; i++) {
        submit_as(w, "ada", "{}", a[i]);
    }
    submit_as(w, "bob", "{}", b);
    tick(w, 0.5); /* ada has one, so bob is next though he came last; then they have one each */
    assert_state(w, a[0], "launching");
    assert_state(w, b, "launching");
    assert_state(w, a[1], "launching");
    assert_state(w, a[2], "queued");
    assert_state(w, a[3], "queued");
}

static void who_has_many_jobs_in_the_queue_does_not_hold_up_who_has_one(void **state)
{
    char id[STORE_ID], last[STORE_ID];
    struct world *w = world_with(state, 2);
    for (int i = 0; i < 140; i++) {
        submit_as(w, "ada", "{}", id);
    }
    submit_as(w, "bob", "{}", last);
    tick(w, 0.5);
    assert_state(w, last, "launching");
    assert_int_equal(sched_running(w->sched), 2);
}

static void priority_comes_before_shares(void **state)
{
    char first[STORE_ID], urgent[STORE_ID], other[STORE_ID];
    struct world *w = world_with(state, 2);
    submit_as(w, "ada", "{}", first);
    tick(w, 0.5);
    submit_as(w, "bob", "{}", other);
    submit_as(w, "ada", "{'priority': 1}", urgent);
    tick(w, 0.5);
    assert_state(w, urgent, "launching");
    assert_state(w, other, "queued");
}

static void a_node_counts_for_as_many_as_an_attempt_holds(void **state)
{
    char big[STORE_ID], small[2][STORE_ID], next[STORE_ID];
    struct world *w = world_with(state, 5);
    submit_as(w, "ada", "{'workers': 3}", big);
    submit_as(w, "bob", "{}", small[0]);
    submit_as(w, "bob", "{}", small[1]);
    tick(w, 0.5);
    submit_as(w, "ada", "{}", next);
    end_well(w, small[0], "finished");
    submit_as(w, "bob", "{}", small[0]);
    pass(w, 1);
    assert_state(w, small[0], "launching"); /* bob has one node more to come to ada's three */
    assert_state(w, next, "queued");
}

static void an_owner_at_the_quota_of_nodes_waits_and_is_told_the_figures(void **state)
{
    char a[3][STORE_ID], b[STORE_ID];
    struct world *w = world_with(state, 4);
    with_quotas(w, "{'owners': {'ada': {'nodes': 2}}}");
    submit_as(w, "ada", "{}", a[0]);
    submit_as(w, "ada", "{'workers': 2}", a[1]);
    submit_as(w, "bob", "{'workers': 2}", b);
    tick(w, 0.5);
    assert_state(w, a[0], "launching");
    assert_waits(w, a[1], "ada has 1 of 2 nodes, and the job asks for 2");
    assert_state(w, b, "launching");
    submit_as(w, "ada", "{}", a[2]); /* a smaller job fits */
    tick(w, 0.5);
    assert_state(w, a[2], "launching");
    end_well(w, a[0], "finished");
    end_well(w, a[2], "finished");
    pass(w, 1);
    assert_state(w, a[1], "launching");
}

static void a_job_that_waits_because_of_a_quota_keeps_no_node_from_others(void **state)
{
    char a[2][STORE_ID], b[STORE_ID];
    struct world *w = world_with(state, 2);
    with_quotas(w, "{'default': {'nodes': 1}}");
    submit_as(w, "ada", "{}", a[0]);
    submit_as(w, "ada", "{'priority': 9}", a[1]);
    tick(w, 0.5);
    assert_state(w, a[1], "launching");
    assert_waits(w, a[0], "ada has 1 of 1 node, and the job asks for 1");
    pass(w, 70);
    ranks_step(w, a[1], 1, 1, 0.01);
    submit_as(w, "bob", "{}", b);
    tick(w, 0.5);
    assert_state(w, b, "launching");
}

static void an_owner_at_the_quota_of_running_jobs_waits(void **state)
{
    const char *virtual_one =
        "{'cluster': {'seed': 1, 'nodes': [{'name': 'v', 'fixed_seconds': 0.001, "
        "'seconds_per_sample': 0.001}]}}";
    char a[2][STORE_ID];
    struct world *w = world_with(state, 2);
    with_quotas(w, "{'default': {'running': 1, 'nodes': 0}}");
    submit_as(w, "ada", virtual_one, a[0]); /* a virtual job takes no node */
    submit_as(w, "ada", virtual_one, a[1]);
    tick(w, 0.5);
    assert_int_equal(w->simulated.n, 1);
    assert_waits(w, a[1], "ada has 1 of 1 running job");
}

static void quotas_that_are_written_anew_hold_without_a_restart(void **state)
{
    char id[STORE_ID], path[128];
    static const char more[] = "{\"default\": {\"nodes\": 10}}";
    struct world *w = world_with(state, 1);
    with_quotas(w, "{'default': {'nodes': 0}}");
    submit_as(w, "ada", "{}", id);
    tick(w, 0.5);
    assert_waits(w, id, "ada has 0 of 0 nodes, and the job asks for 1");
    snprintf(path, sizeof path, "%s/quotas.json", w->place->dir);
    long before = quotas_version(w->quotas);
    OK(proc_write_file(path, more, strlen(more), 0600, &err_));
    for (double until = clock_now() + 60; quotas_version(w->quotas) == before;) {
        assert_true(clock_now() < until); /* the file is checked once a second */
        clock_sleep(0.05);
    }
    tick(w, 0.5);
    assert_state(w, id, "launching");
}

static void a_job_of_nobody_has_no_quota(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with(state, 1);
    with_quotas(w, "{'default': {'nodes': 0, 'running': 0}}");
    submit(w, "{}", id);
    tick(w, 0.5);
    assert_state(w, id, "launching");
}

static void nodes_count_after_a_coordinator_was_killed(void **state)
{
    char a[2][STORE_ID];
    struct world *w = world_with(state, 2);
    with_quotas(w, "{'default': {'nodes': 1}}");
    submit_as(w, "ada", "{}", a[0]);
    tick(w, 0.5);
    world_new_coordinator(w);
    submit_as(w, "ada", "{}", a[1]);
    pass(w, 6);
    assert_waits(w, a[1], "ada has 1 of 1 node, and the job asks for 1");
}

/* ---- preemption ------------------------------------------------------------------------------ */

/* The keeper has paused the attempt, as it was asked to. */
static void yields(struct world *w, const char *id)
{
    assert_true(control_says(w, id, "pause"));
    ended(w, id, "paused");
}

static void a_job_of_higher_priority_has_lower_ones_paused_and_they_resume(void **state)
{
    char low[STORE_ID], high[STORE_ID];
    struct world *w = world_with(state, 2);
    with_quotas(w, "{'preemption': {'after': 5, 'keep': 10}}");
    start_job(w, "{'workers': 2}", low);
    pass(w, 12);
    submit(w, "{'priority': 1}", high);
    pass(w, 4);
    assert_false(control_says(w, low, "pause")); /* the other job has not waited long enough */
    pass(w, 7);
    yields(w, low);
    pass(w, 1);
    assert_state(w, high, "launching");
    assert_state(w, low, "queued");
    char why[200];
    snprintf(why, sizeof why,
             "paused for job %s of higher priority; it asks for 2 workers, and 1 node is free",
             high);
    assert_waits(w, low, why);
    end_well(w, high, "finished");
    pass(w, 1);
    assert_state(w, low, "launching");
    assert_int_equal(number_field(w, low, "restarts"), 0);
}

static void a_job_is_paused_for_none_of_its_own_priority(void **state)
{
    char first[STORE_ID], second[STORE_ID];
    struct world *w = world_with(state, 1);
    with_quotas(w, "{'preemption': {'after': 0, 'keep': 0}}");
    start_job(w, "{'priority': 3}", first);
    submit(w, "{'priority': 3}", second);
    pass(w, 30);
    assert_false(control_says(w, first, "pause"));
    assert_state(w, second, "queued");
}

static void an_attempt_is_left_alone_until_it_has_run_for_a_while(void **state)
{
    char low[STORE_ID], high[STORE_ID];
    struct world *w = world_with(state, 1);
    with_quotas(w, "{'preemption': {'after': 0, 'keep': 40}}");
    start_job(w, "{}", low);
    submit(w, "{'priority': 1}", high);
    pass(w, 30);
    assert_false(control_says(w, low, "pause"));
    ranks_step(w, low, 2, 1, 0.01);
    pass(w, 15);
    assert_true(control_says(w, low, "pause"));
}

static void as_few_are_paused_as_will_do_the_lowest_first(void **state)
{
    char wide[STORE_ID], low[STORE_ID], lower[STORE_ID], high[STORE_ID];
    struct world *w = world_with(state, 4);
    with_quotas(w, "{'preemption': {'after': 0, 'keep': 0}}");
    start_job(w, "{'priority': -1, 'workers': 2}", wide);
    start_job(w, "{'priority': 1}", low);
    start_job(w, "{'priority': -5}", lower);
    submit(w, "{'priority': 9, 'workers': 2}", high);
    pass(w, 6); /* first -5, which is not enough, then -1, which is */
    assert_true(control_says(w, wide, "pause"));
    assert_false(control_says(w, lower, "pause"));
    assert_false(control_says(w, low, "pause"));
}

static void nobody_is_paused_where_that_would_not_help(void **state)
{
    char low[STORE_ID], high[STORE_ID];
    struct world *w = world_with(state, 1);
    with_quotas(w, "{'preemption': {'after': 0, 'keep': 0}}");
    start_job(w, "{}", low);
    submit(w, "{'priority': 9, 'workers': 2}", high);
    pass(w, 20);
    assert_false(control_says(w, low, "pause"));
}

static void without_the_setting_nobody_is_paused(void **state)
{
    char low[STORE_ID], high[STORE_ID];
    struct world *w = world_with(state, 1);
    start_job(w, "{}", low);
    submit(w, "{'priority': 9}", high);
    pass(w, 20);
    assert_false(control_says(w, low, "pause"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(of_equal_priority_the_owner_who_uses_fewer_nodes_goes_first),
        IN_A_WORLD(who_has_many_jobs_in_the_queue_does_not_hold_up_who_has_one),
        IN_A_WORLD(priority_comes_before_shares),
        IN_A_WORLD(a_node_counts_for_as_many_as_an_attempt_holds),
        IN_A_WORLD(an_owner_at_the_quota_of_nodes_waits_and_is_told_the_figures),
        IN_A_WORLD(a_job_that_waits_because_of_a_quota_keeps_no_node_from_others),
        IN_A_WORLD(an_owner_at_the_quota_of_running_jobs_waits),
        IN_A_WORLD(quotas_that_are_written_anew_hold_without_a_restart),
        IN_A_WORLD(a_job_of_nobody_has_no_quota),
        IN_A_WORLD(nodes_count_after_a_coordinator_was_killed),
        IN_A_WORLD(a_job_of_higher_priority_has_lower_ones_paused_and_they_resume),
        IN_A_WORLD(a_job_is_paused_for_none_of_its_own_priority),
        IN_A_WORLD(an_attempt_is_left_alone_until_it_has_run_for_a_while),
        IN_A_WORLD(as_few_are_paused_as_will_do_the_lowest_first),
        IN_A_WORLD(nobody_is_paused_where_that_would_not_help),
        IN_A_WORLD(without_the_setting_nobody_is_paused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
