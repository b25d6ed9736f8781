/* A coordinator that was killed, and a store that was away: running attempts are adopted, attempts
 * that ended meanwhile are completed, and unknown states decide nothing
 * (coordinator/turn/recover.c, scheduler.c). */
#include "tests/unit/coordinator/world.h"

static void a_running_attempt_is_adopted_and_not_started_again(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    world_new_coordinator(w);
    tick(w, 0.5);
    assert_int_equal(sched_running(w->sched), 1);
    assert_int_equal(w->fake.n, 1);
    assert_state(w, id, "running");
    assert_string_equal(node_state(w, "n1"), "busy");
    ranks_step(w, id, 2, 5, 0.01);
    tick(w, 0.5);
    json_t *job = job_of(w, id);
    assert_int_equal((int)number_at(job, "/progress/step"), 5);
    assert_int_equal((int)number_at(job, "/attempt"), 1);
    json_decref(job);
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
}

static void an_attempt_that_finished_while_nobody_looked_has_succeeded(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    end_well(w, id, "finished");
    world_new_coordinator(w);
    tick(w, 0.5);
    assert_state(w, id, "succeeded");
    assert_string_equal(node_state(w, "n1"), "ready");
}

static void an_attempt_that_died_while_nobody_looked_is_started_again(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    process_ends(w, id, 137, "");
    world_new_coordinator(w);
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
    assert_state(w, id, "launching");
}

static void a_job_that_was_cancelled_while_nobody_looked_is_told_so(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    ask(w, id, "cancel");
    world_new_coordinator(w);
    tick(w, 0.5);
    tick(w, 0.5);
    assert_true(control_says(w, id, "stop"));
    ended(w, id, "stopped");
    assert_state(w, id, "cancelled");
}

static void a_launch_of_which_only_the_state_is_known_is_made_again_and_not_counted(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with(state, 1);
    submit(w, "{'max_restarts': 0}", id);
    OK(store_job_increment(w->store, id, "attempt", &err_));
    OK(store_job_transition(w->store, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    tick(w, 0.5);
    assert_int_equal(w->fake.strangers, 1); /* whatever might have been started */
    assert_error(w, id, "peer", "the coordinator ended while it was being launched");
    pass(w, 1);
    assert_state(w, id, "launching");
    assert_int_equal(last_attempt(w, id)->number, 2);
    assert_int_equal(number_field(w, id, "restarts"), 0);
}

/* A key of the launch record, as the killed coordinator left it. */
static void set_in_record(struct world *w, const char *id, const char *key, json_t *value)
{
    char *text = store_job_field(w->store, id, "launch", &err_);
    json_t *record = json_of(text);
    free(text);
    json_object_set_new(record, key, value);
    text = json_dumps(record, JSON_COMPACT);
    OK(store_job_set(w->store, id, "launch", text, &err_));
    free(text);
    json_decref(record);
}

static void a_process_that_was_not_recorded_is_found_by_what_it_carries(void **state)
{
    for (int lost = 0; lost < 2; lost++) { /* the pid was not written yet; all of it is gone */
        char id[STORE_ID];
        struct world *w = lost ? *state : world_with(state, 1);
        start_job(w, "{'max_restarts': 0}", id);
        if (lost) {
            OK(store_job_set(w->store, id, "launch", NULL, &err_));
        } else {
            set_in_record(w, id, "pid", json_integer(0));
        }
        world_new_coordinator(w);
        tick(w, 0.5);
        assert_int_equal(sched_running(w->sched), 1);
        assert_int_equal(attempts_of(w, id), 1);
        assert_false(last_attempt(w, id)->over);
        tick(w, 0.5);
        char *record = store_job_field(w->store, id, "launch", &err_);
        assert_true(record && !strstr(record, "\"pid\":0,")); /* now the pid is recorded */
        free(record);
        ended(w, id, "finished");
        assert_state(w, id, "succeeded");
    }
}

static void a_launch_that_had_not_started_its_process_is_made_again_and_not_counted(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'max_restarts': 0}", id);
    set_in_record(w, id, "pid", json_integer(0));
    last_attempt(w, id)->over = true; /* no process of it is found */
    world_new_coordinator(w);
    pass(w, 2);
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 0);
    assert_state(w, id, "launching");
}

static void store_goes_away(void *world)
{
    redis_private_stop(((struct world *)world)->place->dir);
}

static void a_process_that_could_not_be_recorded_is_recorded_later(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with(state, 1);
    w->fake.on_start = store_goes_away;
    w->fake.world = w;
    submit(w, "{'max_restarts': 0}", id);
    tick(w, 0.5);
    OK(redis_private_start(w->place->dir, w->place->url, &w->place->pid, &err_));
    assert_int_equal(attempts_of(w, id), 1);
    pass(w, 2);
    char *record = store_job_field(w->store, id, "launch", &err_);
    assert_true(record && !strstr(record, "\"pid\":0,"));
    free(record);
    assert_int_equal(attempts_of(w, id), 1);
    ranks_step(w, id, 1, 1, 0.01);
    pass(w, 1);
    assert_state(w, id, "running");
}

static void a_process_of_another_host_is_judged_by_its_heartbeats_alone(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{'max_restarts': 0}", 20, id);
    tick(w, 0.5);
    set_in_record(w, id, "space", json_string("another-boot-1"));
    process_ends(w, id, 1, "what this number means here is another process");
    world_new_coordinator(w);
    say_beat(w, id, 0, PHASE_COMPUTE, 0, 0);
    pass(w, 2);
    assert_state(w, id, "running");
    assert_int_equal(attempts_of(w, id), 1);
    say_beat(w, id, 0, PHASE_COMPUTE, 100, 0);
    pass(w, 15);
    assert_int_equal(attempts_of(w, id),
                     2); /* lost with its host, which is no failure of the job */
    assert_int_equal(number_field(w, id, "restarts"), 0);
}

static void an_attempt_whose_plan_cannot_be_read_is_started_over(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    json_t *plan = json_of("{\"attempt\": 1, \"workers\": []}"); /* of another version */
    OK(store_doc_set(w->store, id, "plan", plan, &err_));
    json_decref(plan);
    world_new_coordinator(w);
    pass(w, 1);
    assert_true(w->fake.attempts[0].over); /* the remains were ended */
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 1);
    assert_state(w, id, "launching");
}

static void nodes_of_a_job_that_has_ended_are_given_back(void **state)
{
    char id[STORE_ID], next[STORE_ID];
    struct world *w = world_with(state, 1);
    submit(w, "{}", id);
    ask(w, id, "cancel");
    OK(store_job_transition(w->store, id, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    assert_int_equal(store_node_claim(w->store, "n1", id, &err_), CLAIM_OURS);
    assert_string_equal(node_state(w, "n1"), "busy");
    submit(w, "{}", next);
    tick(w, 0.5);
    assert_state(w, next, "launching");
}

static void minibatches_in_force_and_their_version_survive(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(
        state, 2, "{'workers': 2, 'batching': {'global_batch': 64, 'policy': 'dynamic'}}", id);
    struct control told = {
        .from = {.attempt = 1, .rank = COORDINATOR}, .version = 7, .workers = 2, .sizes = {44, 20}};
    snprintf(told.from.job, sizeof told.from.job, "%s", id);
    json_t *control = control_json(&told);
    OK(store_doc_set(w->store, id, "control", control, &err_));
    json_decref(control);
    world_new_coordinator(w);
    pass(w, 1);
    json_t *job = job_of(w, id);
    assert_int_equal((int)number_at(job, "/assignment/version"), 7);
    assert_int_equal((int)number_at(job, "/workers/0/batch"), 44);
    json_decref(job);
}

static void a_virtual_attempt_is_adopted_too(void **state)
{
    struct world *w = *state;
    char id[STORE_ID];
    submit(w,
           "{'cluster': {'seed': 1, 'nodes': [{'name': 'v', 'fixed_seconds': 0.001, "
           "'seconds_per_sample': 0.001}]}}",
           id);
    pass(w, 1);
    world_new_coordinator(w);
    pass(w, 1);
    assert_int_equal(w->simulated.n, 1);
    assert_state(w, id, "running");
    ask(w, id, "cancel");
    pass(w, 2);
    assert_state(w, id, "cancelled");
    assert_int_equal(w->simulated.attempts[0].stops, 1);
}

static void with_the_store_away_nothing_is_decided_and_the_job_goes_on_afterwards(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{}", 20, id);
    tick(w, 0.5);
    redis_private_stop(w->place->dir);
    pass(w, 3);
    assert_true(sched_store_away(w->sched));
    assert_int_equal(last_attempt(w, id)->stops, 0);
    OK(redis_private_start(w->place->dir, w->place->url, &w->place->pid, &err_));
    pass(w, 1);
    assert_false(sched_store_away(w->sched));
    assert_state(w, id, "running");
    say_beat(w, id, 0, PHASE_COMPUTE, 8, 0); /* old because the rank could not report */
    pass(w, 2);
    assert_int_equal(last_attempt(w, id)->stops, 0);
    say_beat(w, id, 0, PHASE_COMPUTE, 100, 0);
    pass(w, 12);
    assert_int_equal(w->fake.attempts[0].stops, 1);
    assert_int_equal(attempts_of(w, id), 2);
}

static void a_coordinator_that_was_asleep_itself_blames_nobody(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{}", 20, id);
    tick(w, 0.5);
    say_beat(w, id, 0, PHASE_COMPUTE, 50, 0);
    tick(w, 60); /* this process had no CPU for a minute */
    tick(w, 1.5);
    assert_int_equal(last_attempt(w, id)->stops, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_running_attempt_is_adopted_and_not_started_again),
        IN_A_WORLD(an_attempt_that_finished_while_nobody_looked_has_succeeded),
        IN_A_WORLD(an_attempt_that_died_while_nobody_looked_is_started_again),
        IN_A_WORLD(a_job_that_was_cancelled_while_nobody_looked_is_told_so),
        IN_A_WORLD(a_launch_of_which_only_the_state_is_known_is_made_again_and_not_counted),
        IN_A_WORLD(a_process_that_was_not_recorded_is_found_by_what_it_carries),
        IN_A_WORLD(a_launch_that_had_not_started_its_process_is_made_again_and_not_counted),
        IN_A_WORLD(a_process_that_could_not_be_recorded_is_recorded_later),
        IN_A_WORLD(a_process_of_another_host_is_judged_by_its_heartbeats_alone),
        IN_A_WORLD(an_attempt_whose_plan_cannot_be_read_is_started_over),
        IN_A_WORLD(nodes_of_a_job_that_has_ended_are_given_back),
        IN_A_WORLD(minibatches_in_force_and_their_version_survive),
        IN_A_WORLD(a_virtual_attempt_is_adopted_too),
        IN_A_WORLD(with_the_store_away_nothing_is_decided_and_the_job_goes_on_afterwards),
        IN_A_WORLD(a_coordinator_that_was_asleep_itself_blames_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
