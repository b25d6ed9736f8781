/* Which queued jobs start, on which nodes, and in which order (coordinator/turn/queue/queue.c,
 * placement.c through sched_tick). */
#include "tests/unit/coordinator/world.h"

static void a_job_gets_the_fastest_free_nodes_and_holds_them_until_it_ends(void **state)
{
    struct world *w = *state;
    char id[STORE_ID];
    world_node(w, "slow", 4);
    world_node(w, "fast-2", 1);
    world_node(w, "fast-1", 1);
    start_job(w, "{'workers': 2}", id);
    json_t *plan = last_attempt(w, id)->plan;
    assert_string_equal(text_at(plan, "/workers/0/node"), "fast-1");
    assert_string_equal(text_at(plan, "/workers/1/node"), "fast-2");
    assert_int_equal((int)number_at(plan, "/servers"), 1);
    assert_string_equal(node_state(w, "fast-1"), "busy");
    assert_string_equal(node_state(w, "slow"), "ready");
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
    assert_string_equal(node_state(w, "fast-1"), "ready");
    assert_int_equal(sched_running(w->sched), 0);
}

static void jobs_run_side_by_side_where_nodes_are_free(void **state)
{
    char a[STORE_ID], b[STORE_ID], c[STORE_ID];
    struct world *w = world_with(state, 3);
    submit(w, "{'workers': 2}", a);
    submit(w, "{'workers': 1}", b);
    submit(w, "{'workers': 1}", c);
    tick(w, 0.5);
    assert_int_equal(sched_running(w->sched), 2);
    assert_state(w, a, "launching");
    assert_state(w, b, "launching");
    assert_state(w, c, "queued");
    const char *used = text_at(last_attempt(w, b)->plan, "/workers/0/node");
    assert_string_equal(used, "n3");
}

static void where_nodes_are_few_priority_comes_before_age(void **state)
{
    char old[STORE_ID], late[STORE_ID], urgent[STORE_ID];
    struct world *w = world_with(state, 1);
    submit(w, "{'priority': 0}", old);
    submit(w, "{'priority': 0}", late);
    submit(w, "{'priority': 10}", urgent);
    tick(w, 0.5);
    assert_state(w, urgent, "launching");
    end_well(w, urgent, "finished");
    pass(w, 1);
    assert_state(w, urgent, "succeeded");
    assert_state(w, old, "launching");
    end_well(w, old, "finished");
    pass(w, 1);
    assert_state(w, late, "launching");
}

static void a_priority_that_was_changed_counts(void **state)
{
    char first[STORE_ID], second[STORE_ID], running[STORE_ID];
    struct world *w = world_running(state, 1, "{}", running);
    submit(w, "{}", first);
    submit(w, "{}", second);
    OK(store_job_change(w->store, second, &(struct job_change){.priority = &(int){5}}, NULL,
                        &err_));
    end_well(w, running, "finished");
    pass(w, 1);
    assert_state(w, second, "launching");
    assert_state(w, first, "queued");
}

static void a_smaller_job_overtakes_one_that_waits_until_that_one_has_waited_long(void **state)
{
    char running[STORE_ID], big[STORE_ID], small[STORE_ID], later[STORE_ID];
    struct world *w = world_running(state, 2, "{}", running);
    submit(w, "{'workers': 2}", big);
    submit(w, "{}", small);
    tick(w, 0.5);
    assert_state(w, big, "queued");
    assert_state(w, small, "launching");
    ranks_step(w, small, 1, 1, 0.01);
    pass(w, 30);
    pass(w, 35);
    end_well(w, small, "finished");
    submit(w, "{}", later);
    pass(w, 2);
    assert_state(w, later, "queued"); /* a node is free, but reserved */
    end_well(w, running, "finished");
    pass(w, 2);
    assert_state(w, big, "launching");
}

static void nodes_that_a_job_waits_for_are_kept_from_jobs_of_lower_priority(void **state)
{
    char running[STORE_ID], urgent[STORE_ID], lower[STORE_ID];
    struct world *w = world_running(state, 2, "{}", running);
    submit(w, "{'workers': 2, 'priority': 5}", urgent);
    submit(w, "{}", lower);
    pass(w, 6);
    assert_state(w, lower, "queued");
    end_well(w, running, "finished");
    pass(w, 1);
    assert_state(w, urgent, "launching");
    assert_state(w, lower, "queued");
}

static void a_job_that_waits_for_a_missing_node_keeps_nobody_from_running(void **state)
{
    char big[STORE_ID], small[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'workers': 3, 'priority': 9}", big);
    json_t *job = job_of(w, big);
    assert_state(w, big, "queued");
    char *waiting = store_job_field(w->store, big, "waiting", &err_);
    assert_string_equal(waiting, "it asks for 3 workers, and there is 1 node");
    free(waiting);
    json_decref(job);
    submit(w, "{}", small);
    tick(w, 0.5);
    assert_state(w, small, "launching");
    world_node(w, "n2", 1);
    world_node(w, "n3", 1);
    end_well(w, small, "finished");
    pass(w, 1);
    assert_state(w, big, "launching");
}

static void a_drained_node_gets_no_job(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with(state, 1);
    OK(store_node_set(w->store, "n1", "drained", "1", &err_));
    submit(w, "{}", id);
    tick(w, 0.5);
    assert_state(w, id, "queued");
    OK(store_node_set(w->store, "n1", "drained", NULL, &err_));
    tick(w, 0.5);
    assert_state(w, id, "launching");
}

static void a_program_starts_as_soon_as_a_node_has_told_its_packages(void **state)
{
    static const char program[] =
        "{'program': {'command': ['python3', 'train.py']}, 'model': "
        "null, 'data': null, 'optimizer': null, 'evaluate': null}";
    char id[STORE_ID];
    struct world *w = world_with(state, 1);
    json_object_set_new(w->nodes[0], "asking", json_true());
    OK(node_beats(w, w->nodes[0]));
    submit(w, program, id);
    tick(w, 0.5);
    assert_state(w, id, "queued");
    json_object_del(w->nodes[0], "asking");
    OK(node_beats(w, w->nodes[0]));
    tick(w, 0.5);
    assert_state(w, id, "launching");
}

static void in_a_long_queue_the_one_job_that_can_run_is_found(void **state)
{
    char id[STORE_ID], last[STORE_ID];
    struct world *w = world_with(state, 1);
    for (int i = 0; i < 140; i++) {
        submit(w, "{'nodes': ['missing']}", id);
    }
    submit(w, "{}", last);
    pass(w, 20);
    assert_state(w, last, "launching");
}

static void a_spec_that_the_nodes_cannot_run_fails_and_says_why(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'init': 'nowhere.safetensors'}", id);
    assert_state(w, id, "failed");
    assert_error(w, id, "not_found", "cannot start from 'nowhere.safetensors'");
    assert_string_equal(node_state(w, "n1"), "ready");
    assert_int_equal(w->fake.n, 0);
}

static void a_stored_spec_that_is_not_valid_fails_without_holding_up_the_queue(void **state)
{
    char bad[STORE_ID], good[STORE_ID];
    struct world *w = world_with(state, 1);
    submit(w, "{'epochs': -1}", bad);
    submit(w, "{}", good);
    tick(w, 0.5);
    assert_state(w, bad, "failed");
    assert_error(w, bad, "invalid", "/epochs");
    assert_state(w, good, "launching");
}

static void virtual_jobs_need_no_node_and_run_as_many_at_a_time_as_allowed(void **state)
{
    struct world *w = *state;
    char a[STORE_ID], b[STORE_ID];
    const char *changes =
        "{'cluster': {'seed': 1, 'nodes': [{'name': 'v', 'fixed_seconds': 0.001, "
        "'seconds_per_sample': 0.001}]}}";
    submit(w, changes, a);
    submit(w, changes, b);
    pass(w, 1);
    assert_int_equal(w->simulated.n, 1);
    assert_int_equal(w->fake.n, 0);
    assert_state(w, a, "running"); /* it has no ranks whose first step could be waited for */
    assert_state(w, b, "queued");
    w->simulated.attempts[0].over = true; /* without a summary: lost */
    pass(w, 1);
    assert_int_equal(w->simulated.n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_job_gets_the_fastest_free_nodes_and_holds_them_until_it_ends),
        IN_A_WORLD(jobs_run_side_by_side_where_nodes_are_free),
        IN_A_WORLD(where_nodes_are_few_priority_comes_before_age),
        IN_A_WORLD(a_priority_that_was_changed_counts),
        IN_A_WORLD(a_smaller_job_overtakes_one_that_waits_until_that_one_has_waited_long),
        IN_A_WORLD(nodes_that_a_job_waits_for_are_kept_from_jobs_of_lower_priority),
        IN_A_WORLD(a_job_that_waits_for_a_missing_node_keeps_nobody_from_running),
        IN_A_WORLD(a_drained_node_gets_no_job),
        IN_A_WORLD(a_program_starts_as_soon_as_a_node_has_told_its_packages),
        IN_A_WORLD(in_a_long_queue_the_one_job_that_can_run_is_found),
        IN_A_WORLD(a_spec_that_the_nodes_cannot_run_fails_and_says_why),
        IN_A_WORLD(a_stored_spec_that_is_not_valid_fails_without_holding_up_the_queue),
        IN_A_WORLD(virtual_jobs_need_no_node_and_run_as_many_at_a_time_as_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
