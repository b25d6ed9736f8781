/* Requests about a job: to cancel, pause or resume it, or to leave a host or a coordinator that
 * stops (coordinator/turn/run/run.c through sched_tick). */
#include "tests/unit/coordinator/world.h"

static void a_queued_job_that_is_cancelled_becomes_cancelled(void **state)
{
    struct world *w = *state;
    char id[STORE_ID];
    submit(w, "{}", id);
    tick(w, 0.5);
    assert_state(w, id, "queued");
    asked(w, id, "cancel");
    assert_state(w, id, "cancelled");
    assert_int_equal(w->fake.n, 0);
}

static void a_running_job_that_is_cancelled_is_told_so_and_gives_its_nodes_back(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    asked(w, id, "cancel");
    assert_true(control_says(w, id, "stop"));
    assert_int_equal(last_attempt(w, id)->stops, 0);
    assert_state(w, id, "cancelling");
    ended(w, id, "stopped");
    assert_state(w, id, "cancelled");
    assert_string_equal(node_state(w, "n1"), "ready");
}

static void who_does_not_follow_a_cancel_is_ended_after_a_while(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    ask(w, id, "cancel");
    pass(w, 9);
    assert_int_equal(last_attempt(w, id)->stops, 0);
    pass(w, 3);
    assert_int_equal(last_attempt(w, id)->stops, 1);
    assert_state(w, id, "cancelled");
}

static void one_that_is_cancelled_in_a_long_step_is_ended_at_once(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{}", 10, id);
    tick(w, 0.5);
    ask(w, id, "cancel");
    say_beat(w, id, 0, PHASE_COMPUTE, 0, 0);
    pass(w, 1.5); /* a step may take a little longer than usual */
    assert_int_equal(last_attempt(w, id)->stops, 0);
    say_beat(w, id, 0, PHASE_CHECKPOINT, 0, 0);
    pass(w, 3);
    assert_int_equal(last_attempt(w, id)->stops, 0);
    say_beat(w, id, 0, PHASE_COMPUTE, 0, 0);
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->stops, 1);
    assert_state(w, id, "cancelled");
}

static void a_cancelled_job_is_ended_though_the_store_does_not_answer_any_more(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    asked(w, id, "cancel");
    assert_state(w, id, "cancelling");
    redis_private_stop(w->place->dir);
    for (int i = 0; i < 18; i++) {
        tick(w, 0.5);
    }
    assert_true(sched_store_away(w->sched));
    assert_int_equal(last_attempt(w, id)->stops, 0);
    for (int i = 0; i < 6; i++) {
        tick(w, 0.5);
    }
    assert_int_equal(last_attempt(w, id)->stops, 1);
    OK(redis_private_start(w->place->dir, w->place->url, &w->place->pid, &err_));
    tick(w, 0.5);
    tick(w, 0.5);
    assert_state(w, id, "cancelled");
}

static void a_job_that_has_not_stepped_yet_is_ended_at_once_when_cancelled(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{}", id);
    ask(w, id, "cancel");
    pass(w, 1.5);
    assert_state(w, id, "cancelled");
    assert_string_equal(node_state(w, "n1"), "ready");
}

static void a_paused_job_has_no_process_and_goes_on_as_its_next_attempt_when_resumed(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    asked(w, id, "pause");
    assert_true(control_says(w, id, "pause"));
    assert_state(w, id, "pausing");
    ended(w, id, "paused");
    assert_state(w, id, "paused");
    assert_string_equal(node_state(w, "n1"), "ready");
    pass(w, 10);
    assert_state(w, id, "paused");
    asked(w, id, "resume");
    assert_state(w, id, "launching");
    assert_int_equal(last_attempt(w, id)->number, 2);
    assert_false(control_says(w, id, "pause"));
    assert_int_equal(number_field(w, id, "restarts"), 0); /* a requested pause is no restart */
}

static void a_paused_job_that_is_cancelled_is_cancelled_at_once(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    asked(w, id, "pause");
    ended(w, id, "paused");
    ask(w, id, "cancel");
    assert_state(w, id, "cancelled");
}

static void a_job_that_ends_before_it_could_pause_has_succeeded(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    asked(w, id, "pause");
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
}

static void a_job_that_is_lost_while_pausing_goes_back_to_the_queue(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{'max_restarts': 1}", id);
    asked(w, id, "pause");
    process_ends(w, id, 137, "");
    world_node_gone(w, "n1");
    tick(w, 0.5);
    assert_state(w, id, "queued");
    assert_int_equal(number_field(w, id, "restarts"), 1);
}

static void a_cancel_while_pausing_wins(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    asked(w, id, "pause");
    ask(w, id, "cancel");
    ended(w, id, "paused");
    assert_state(w, id, "cancelled");
}

static void a_clean_stop_writes_checkpoints_and_starts_nothing(void **state)
{
    char id[STORE_ID], waiting[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    submit(w, "{}", waiting);
    sched_drain(w->sched);
    tick(w, 0.5);
    assert_true(control_says(w, id, "pause"));
    ended(w, id, "paused");
    assert_state(w, id, "queued");
    assert_state(w, waiting, "queued");
    assert_int_equal(sched_running(w->sched), 0);
    assert_int_equal(number_field(w, id, "restarts"), 0);
    world_new_coordinator(w);
    tick(w, 0.5);
    assert_int_equal(sched_running(w->sched), 1);
}

static void a_host_that_leaves_gets_a_checkpoint_written_and_its_job_goes_on_elsewhere(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{'max_restarts': 0}", id);
    world_node(w, "n2", 1);
    json_object_set_new(w->nodes[0], "leaving",
                        json_true()); /* as its agent reports with the next heartbeat */
    pass(w, 0.5);
    pass(w, 1);
    assert_string_equal(node_state(w, "n1"), "draining");
    assert_true(control_says(w, id, "pause"));
    end_well(w, id, "paused");
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 0);
    assert_text_of(w, id, "/workers/0/node", "n2");
}

static void a_host_that_leaves_before_a_checkpoint_is_written_is_nobodys_fault(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{'max_restarts': 0}", id);
    json_object_set_new(w->nodes[0], "leaving", json_true());
    pass(w, 0.5);
    pass(w, 1);
    process_ends(w, id, 137, "");
    pass(w, 1);
    assert_state(w, id, "queued");
    assert_int_equal(number_field(w, id, "restarts"), 0);
}

static void a_request_that_wakes_the_scheduler_is_followed_at_its_next_turn(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    tick(w, 0.5); /* the turn has read all states */
    ask(w, id, "pause");
    sched_woken(w->sched);
    tick(w, 0.001);
    assert_true(control_says(w, id, "pause"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_request_that_wakes_the_scheduler_is_followed_at_its_next_turn),
        IN_A_WORLD(a_host_that_leaves_gets_a_checkpoint_written_and_its_job_goes_on_elsewhere),
        IN_A_WORLD(a_host_that_leaves_before_a_checkpoint_is_written_is_nobodys_fault),
        IN_A_WORLD(a_queued_job_that_is_cancelled_becomes_cancelled),
        IN_A_WORLD(a_running_job_that_is_cancelled_is_told_so_and_gives_its_nodes_back),
        IN_A_WORLD(who_does_not_follow_a_cancel_is_ended_after_a_while),
        IN_A_WORLD(one_that_is_cancelled_in_a_long_step_is_ended_at_once),
        IN_A_WORLD(a_cancelled_job_is_ended_though_the_store_does_not_answer_any_more),
        IN_A_WORLD(a_job_that_has_not_stepped_yet_is_ended_at_once_when_cancelled),
        IN_A_WORLD(a_paused_job_has_no_process_and_goes_on_as_its_next_attempt_when_resumed),
        IN_A_WORLD(a_paused_job_that_is_cancelled_is_cancelled_at_once),
        IN_A_WORLD(a_job_that_ends_before_it_could_pause_has_succeeded),
        IN_A_WORLD(a_job_that_is_lost_while_pausing_goes_back_to_the_queue),
        IN_A_WORLD(a_cancel_while_pausing_wins),
        IN_A_WORLD(a_clean_stop_writes_checkpoints_and_starts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
