/* What a job does when its attempt ends (coordinator/turn/run/run.c through sched_tick). */
#include "tests/unit/coordinator/world.h"

#include "job/documents/results/summary.h"

static void a_job_runs_once_every_worker_has_made_a_step(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 2, "{'workers': 2}", id);
    struct row row = {.step = 1, .local_step = 1, .batch = 32, .rank = 0, .attempt = 1};
    say_row(w, id, &row);
    pass(w, 2);
    assert_state(w, id, "launching");
    row.rank = 1;
    say_row(w, id, &row);
    tick(w, 0.5);
    assert_state(w, id, "running");
}

static void an_exit_code_of_0_without_a_word_of_a_rank_is_a_lost_attempt(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    process_ends(w, id, 0, "");
    pass(w, 1);
    assert_state(w, id, "launching"); /* the next attempt */
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 1);
    assert_error(w, id, "peer", "attempt 1 was lost");
}

static void a_job_that_finished_has_succeeded_whatever_the_exit_code(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    say_all_samples(w, id);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished', 'rank': 2}");
    process_ends(w, id, 1, "");
    tick(w, 0.5);
    assert_state(w, id, "succeeded");
    json_t *job = job_of(w, id);
    assert_true(json_is_null(at(job, "/error")));
    assert_int_equal((int)number_at(job, "/progress/fraction"), 1);
    json_decref(job);
}

static void a_job_that_ended_before_anybody_saw_it_step_has_succeeded_too(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 2, "{}", id);
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
}

static void a_launch_that_fails_counts_as_an_attempt(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with(state, 2);
    w->fake.refuses = true;
    submit(w, "{'max_restarts': 1}", id);
    pass(w, 3);
    assert_state(w, id, "failed");
    assert_int_equal(number_field(w, id, "attempt"), 2);
    assert_error(w, id, "io", "cannot start 'mpirun'");
    assert_string_equal(node_state(w, "n1"), "ready");
}

static void a_launch_that_is_lost_before_the_first_step_counts_too(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 2, "{'max_restarts': 1}", id);
    process_ends(w, id, 1, "mpirun was unable to launch the specified application");
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
    process_ends(w, id, 1, "");
    pass(w, 1);
    assert_state(w, id, "failed");
}

static void after_max_restarts_the_job_has_failed_and_says_who_was_lost(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(
        state, 2, "{'workers': 2, 'max_restarts': 2, 'exchange': {'allreduce': 'mpi'}}", id);
    for (int attempt = 1; attempt <= 3; attempt++) {
        OK(store_node_well(w->store, "n2", &err_)); /* an operator does not let it rest */
        pass(w, 1);
        assert_int_equal(attempts_of(w, id), attempt);
        process_ends(w, id, 137,
                     "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 "
                     "(Killed).");
        pass(w, 1);
    }
    assert_state(w, id, "failed");
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: it exited on signal 9");
    json_t *job = job_of(w, id);
    assert_int_equal((int)number_at(job, "/error/rank"), 1);
    assert_string_equal(text_at(job, "/error/node"), "n2");
    assert_int_equal((int)number_at(job, "/error/attempt"), 3);
    json_decref(job);
    assert_string_equal(node_state(w, "n1"), "ready");
}

static void workers_of_an_attempt_that_has_ended_compute_no_more(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2, 'max_restarts': 0}", id);
    say_beat(w, id, 0, PHASE_COMPUTE, 0.1, 0);
    pass(w, 1);
    assert_text_of(w, id, "/workers/0/state", "computing");
    process_ends(w, id, 137,
                 "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9.");
    pass(w, 1);
    assert_state(w, id, "failed");
    assert_text_of(w, id, "/workers/0/state", "stopped");
}

static void an_error_that_every_attempt_would_meet_again_fails_the_job_at_once(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 2, "{'workers': 2}", id);
    say_fact(w, id,
             "{'type': 'ended', 'outcome': 'failed', 'code': 'peer', 'message': 'a peer is lost', "
             "'rank': 0, 'node': 'n1'}");
    say_fact(
        w, id,
        "{'type': 'ended', 'outcome': 'failed', 'code': 'data', 'message': 'cannot read dataset: "
        "too short', 'rank': 2, 'node': 'keeper'}");
    process_ends(w, id, 1, "");
    tick(w, 0.5);
    assert_state(w, id, "failed");
    assert_error(w, id, "data", "cannot read dataset: too short");
    assert_int_equal(attempts_of(w, id), 1);
}

/* The programs of all ranks end in one step; the words of rank 0 or of another rank arrive
 * first. */
static void programs_end(struct world *w, const char *id, int rank, int step)
{
    char fact[420];
    say_fact(w, id, "{'type': 'restored', 'version': 1, 'rank': 2}");
    ranks_step(w, id, 2, 4, 0.01);
    tick(w, 0.5);
    assert_state(w, id, "running");
    snprintf(fact, sizeof fact,
             "{'type': 'ended', 'outcome': 'failed', 'code': 'program', 'rank': %d, 'node': 'n%d', "
             "'message': 'the programs of all ranks ended in step %d of epoch 2; here: the program "
             "of rank %d on \\u0027n%d\\u0027 cannot go on: NameError', "
             "'program': {'exception': 'NameError', 'every_rank': {'epoch': 2, 'step': %d}}}",
             rank, rank + 1, step, rank, rank + 1, step);
    say_fact(w, id, fact);
    process_ends(w, id, 1, "");
    pass(w, 1);
}

static void programs_that_end_twice_in_the_same_step_in_the_same_way_fail_the_job(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    programs_end(w, id, 0, 1);
    assert_state(w, id, "launching");
    programs_end(w, id, 1, 4); /* another step: it may have been an accident */
    assert_state(w, id, "launching");
    assert_int_equal(attempts_of(w, id), 3);
    programs_end(w, id, 0, 4);
    assert_state(w, id, "failed");
    assert_error(w, id, "program", "ended in step 4 of epoch 2");
    assert_int_equal(attempts_of(w, id), 3);
    assert_string_equal(node_state(w, "n1"), "ready"); /* no node is to blame */
}

static void a_late_end_of_an_attempt_does_not_end_the_next_one(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    process_ends(w, id, 137, "");
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 2);
    say_fact_of(w, id, 1, "{'type': 'ended', 'outcome': 'finished', 'rank': 2, 'node': 'keeper'}");
    tick(w, 0.5);
    say_fact(w, id, "{'type': 'restored', 'version': 1, 'rank': 2}");
    ranks_step(w, id, 2, 4, 0.01);
    pass(w, 20); /* longer than an ended attempt may take to disappear */
    assert_state(w, id, "running");
    assert_int_equal(last_attempt(w, id)->stops, 0);
    process_ends(w, id, 137, ""); /* lost, and not finished as attempt 1 said */
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 3);
}

/* Writes progress.json of this attempt. */
static void leave_progress(struct world *w, const char *id, int attempt, int step,
                           const struct err *error)
{
    char dir[200], path[300];
    struct live_worker none = {0};
    struct evaluations evaluations = {0};
    struct summary s = {.from = {.attempt = attempt, .rank = COORDINATOR},
                        .name = "test",
                        .strategy = "sync",
                        .batching = "equal",
                        .progress.step = step,
                        .workers = &none,
                        .assignments = json_array(),
                        .evaluations = &evaluations,
                        .error = error};
    snprintf(s.from.job, sizeof s.from.job, "%s", id);
    snprintf(dir, sizeof dir, "%s/jobs/%s", w->place->dir, id);
    snprintf(path, sizeof path, "%s/progress.json", dir);
    OK(proc_mkdirs(dir, 0755, &err_));
    json_t *j = summary_json(&s);
    assert_int_equal(json_dump_file(j, path, 0), 0);
    json_decref(j);
    json_decref(s.assignments);
}

/* The job's first attempt runs. */
static void begin_virtual(struct world *w, char id[STORE_ID])
{
    submit(w,
           "{'cluster': {'seed': 1, 'nodes': [{'name': 'v', 'fixed_seconds': 0.001,"
           " 'seconds_per_sample': 0.001}]}}",
           id);
    tick(w, 0.5);
}

static void progress_that_an_earlier_virtual_attempt_left_is_not_told(void **state)
{
    struct world *w = *state;
    char id[STORE_ID];
    begin_virtual(w, id);
    for (int attempt = 2; attempt >= 1; attempt--) {
        leave_progress(w, id, attempt, 7 * attempt, NULL);
        tick(w, 0.5);
        assert_int_equal(number_of(w, id, "/progress/step"), attempt == 1 ? 7 : 0);
    }
}

static void a_virtual_run_that_tells_why_it_failed_is_not_tried_again(void **state)
{
    struct world *w = *state;
    char id[STORE_ID];
    begin_virtual(w, id);
    struct err why = {0};
    err_set(&why, ERR_NOT_FINITE, "rank 0: the loss became NaN or infinite");
    leave_progress(w, id, 1, 7, &why);
    assert_int_equal(w->simulated.n, 1);
    w->simulated.attempts[0].over = true;
    w->simulated.attempts[0].code = 1;
    pass(w, 1);
    assert_state(w, id, "failed");
    assert_error(w, id, "not_finite", "rank 0: the loss became NaN or infinite");
    assert_int_equal(w->simulated.n, 1);
    assert_int_equal(number_of(w, id, "/progress/step"), 7);
}

static void a_restart_goes_on_with_the_nodes_that_are_left_down_to_min_workers(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2, 'min_workers': 1}", id);
    world_node_gone(w, "n2");
    process_ends(w, id, 1, "");
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
    json_t *plan = last_attempt(w, id)->plan;
    assert_int_equal(workers_of(last_attempt(w, id)), 1);
    assert_int_equal((int)number_at(plan, "/first/sizes/0"), 64); /* B does not change */
    assert_true(number_at(plan, "/first/version") > 1);
}

static void a_restart_waits_where_fewer_nodes_than_min_workers_are_left(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2, 'min_workers': 2}", id);
    world_node_gone(w, "n2");
    process_ends(w, id, 1, "");
    pass(w, 6);
    assert_state(w, id, "queued");
    world_node(w, "n3", 1);
    pass(w, 1);
    assert_state(w, id, "launching");
    assert_int_equal(workers_of(last_attempt(w, id)), 2);
}

static void what_is_invalid_for_fewer_workers_is_refused(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(
        state, 2,
        "{'workers': 2, 'min_workers': 1, 'batching': {'global_batch': 64, 'policy': 'static', "
        "'sizes': [32, 32]}}",
        id);
    world_node_gone(w, "n2");
    process_ends(w, id, 1, "");
    pass(w, 1);
    assert_state(w, id, "failed");
    assert_text_of(w, id, "/error/code", "invalid");
    char *error = store_job_field(w->store, id, "error", NULL);
    assert_non_null(strstr(error, "the job cannot go on with 1 of its 2 workers"));
    assert_non_null(strstr(error, "; the attempt before ended so: attempt 1 was lost"));
    free(error);
}

static void a_stuck_rank_ends_the_attempt_and_is_named(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 40, id);
    tick(w, 0.5);
    say_beat(w, id, 0, PHASE_EXCHANGE, 5, 0);
    say_beat(w, id, 1, PHASE_COMPUTE, 5, 0);
    say_beat(w, id, 2, PHASE_SERVE, 5, 0);
    tick(w, 0.5);
    assert_int_equal(last_attempt(w, id)->stops, 0); /* one failure is not enough */
    tick(w, 1.0);
    assert_int_equal(last_attempt(w, id)->stops, 1);
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: no progress for 5");
}

static void a_rank_that_works_ten_times_slower_than_before_is_not_lost(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 40, id);
    tick(w, 0.5);
    for (double age = 5; age < 30; age += 5) {
        say_beat(w, id, 0, PHASE_EXCHANGE, age, 0);
        say_ages(w, id, 1, PHASE_COMPUTE, age, 0.4, 0);
        say_beat(w, id, 2, PHASE_SERVE, age, 0);
        tick(w, 0.5);
        tick(w, 1.5);
        assert_int_equal(last_attempt(w, id)->stops, 0);
    }
    say_ages(w, id, 1, PHASE_COMPUTE, 31, 0.4, 0); /* longer than 3 s, the shortest deadline */
    tick(w, 0.5);
    tick(w, 1.5);
    assert_int_equal(last_attempt(w, id)->stops, 1);
    pass(w, 1);
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: no progress for 31");
}

static void ranks_that_never_report_are_lost_after_two_minutes(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'max_restarts': 0}", id);
    pass(w, 60);
    pass(w, 55);
    assert_state(w, id, "launching");
    pass(w, 10);
    assert_state(w, id, "failed");
    assert_error(w, id, "peer", "no heartbeat");
}

static void a_job_that_has_used_its_time_is_told_to_stop_and_fails(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{'max_seconds': 10}", id);
    ranks_step(w, id, 2, 2, 6.0);
    tick(w, 0.5);
    tick(w, 0.5);
    assert_true(control_says(w, id, "stop"));
    ended(w, id, "stopped");
    assert_state(w, id, "failed");
    assert_error(w, id, "timeout", "max_seconds");
}

/* The job's first start was this long ago. */
static void began(struct world *w, const char *id, double seconds_ago)
{
    char then[32];
    clock_format(then, clock_wall_ms() - (int64_t)(1000 * seconds_ago));
    OK(store_job_set(w->store, id, "started", then, &err_));
}

static void a_job_over_its_time_by_the_wall_clock_is_told_to_stop_and_fails(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'max_wall_seconds': 3600}", id);
    began(w, id, 3700);
    ranks_step(w, id, 1, 2, 0.01);
    tick(w, 0.5);
    tick(w, 0.5);
    assert_true(control_says(w, id, "stop"));
    ended(w, id, "stopped");
    assert_state(w, id, "failed");
    assert_error(w, id, "timeout", "max_wall_seconds");
}

static void a_job_within_its_time_by_the_wall_clock_goes_on(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'max_wall_seconds': 3600}", id);
    began(w, id, 3000);
    ranks_step(w, id, 1, 2, 0.01);
    tick(w, 0.5);
    tick(w, 0.5);
    assert_false(control_says(w, id, "stop"));
    assert_state(w, id, "running");
}

/* The start of an attempt was read in the turn after it began. If the clock was set between both
 * turns, the attempt ended. */
static void a_clock_that_is_set_right_after_a_jobs_first_step_costs_it_no_time(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{'max_wall_seconds': 3600}", id);
    began(w, id, 7200); /* as it appears after the clock was set forward */
    ranks_step(w, id, 2, 2, 0.01);
    tick(w, 0.5);
    assert_false(control_says(w, id, "stop"));
    assert_state(w, id, "running");
}

static void
a_job_that_waits_for_its_next_attempt_cannot_pass_its_time_by_the_wall_clock(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{'max_wall_seconds': 3600, 'max_restarts': 9}", id);
    began(w, id, 3700);
    process_ends(w, id, 137, "");
    tick(w, 0.5);
    tick(w, 6);
    assert_state(w, id, "failed");
    assert_error(w, id, "timeout", "waiting included");
}

static void a_job_that_never_started_is_not_over_its_time(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 0, "{'max_wall_seconds': 0.001}", id);
    tick(w, 6);
    assert_state(w, id, "queued");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_late_end_of_an_attempt_does_not_end_the_next_one),
        IN_A_WORLD(progress_that_an_earlier_virtual_attempt_left_is_not_told),
        IN_A_WORLD(a_virtual_run_that_tells_why_it_failed_is_not_tried_again),
        IN_A_WORLD(a_job_runs_once_every_worker_has_made_a_step),
        IN_A_WORLD(a_job_over_its_time_by_the_wall_clock_is_told_to_stop_and_fails),
        IN_A_WORLD(a_job_within_its_time_by_the_wall_clock_goes_on),
        IN_A_WORLD(a_clock_that_is_set_right_after_a_jobs_first_step_costs_it_no_time),
        IN_A_WORLD(a_job_that_waits_for_its_next_attempt_cannot_pass_its_time_by_the_wall_clock),
        IN_A_WORLD(a_job_that_never_started_is_not_over_its_time),
        IN_A_WORLD(an_exit_code_of_0_without_a_word_of_a_rank_is_a_lost_attempt),
        IN_A_WORLD(a_job_that_finished_has_succeeded_whatever_the_exit_code),
        IN_A_WORLD(a_job_that_ended_before_anybody_saw_it_step_has_succeeded_too),
        IN_A_WORLD(a_launch_that_fails_counts_as_an_attempt),
        IN_A_WORLD(a_launch_that_is_lost_before_the_first_step_counts_too),
        IN_A_WORLD(after_max_restarts_the_job_has_failed_and_says_who_was_lost),
        IN_A_WORLD(workers_of_an_attempt_that_has_ended_compute_no_more),
        IN_A_WORLD(an_error_that_every_attempt_would_meet_again_fails_the_job_at_once),
        IN_A_WORLD(programs_that_end_twice_in_the_same_step_in_the_same_way_fail_the_job),
        IN_A_WORLD(a_restart_goes_on_with_the_nodes_that_are_left_down_to_min_workers),
        IN_A_WORLD(a_restart_waits_where_fewer_nodes_than_min_workers_are_left),
        IN_A_WORLD(what_is_invalid_for_fewer_workers_is_refused),
        IN_A_WORLD(a_stuck_rank_ends_the_attempt_and_is_named),
        IN_A_WORLD(a_rank_that_works_ten_times_slower_than_before_is_not_lost),
        IN_A_WORLD(ranks_that_never_report_are_lost_after_two_minutes),
        IN_A_WORLD(a_job_that_has_used_its_time_is_told_to_stop_and_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
