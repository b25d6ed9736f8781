/* A worker dies, and its attempt goes on where a server has the parameters (docs/decisions/0020),
 * or all workers (0022): the ranks are told, minibatches are shared out among the others, and what
 * the keeper counted of the dead one stands for it. Driven by sched_tick. */
#include "tests/unit/coordinator/world.h"

#include "job/documents/coordinator/control.h"
#include "job/documents/people/events.h"
#include "job/documents/ranks/departure.h"

static const char three[] =
    "{'workers': 3, 'strategy': {'type': 'asgd'}, 'batching': "
    "{'global_batch': 96, 'policy': 'equal'}}";

/* All ranks are past the start, and the keeper says so too. */
static struct world *world_serving(void **state, const char *job, char id[STORE_ID])
{
    struct world *w = world_running(state, 3, job, id);
    say_beat(w, id, workers_of(last_attempt(w, id)), PHASE_SERVE, 0, 0);
    return w;
}

/* The rank's guard reports its death. */
static void ends_so(struct world *w, const char *id, int rank, const char *how)
{
    char text[200];
    snprintf(text, sizeof text,
             "{'type': 'lost', 'rank': %d, 'message': '%s', 'number': 4611686018427387904}", rank,
             how);
    say_fact(w, id, text);
}

static void dies(struct world *w, const char *id, int rank)
{
    ends_so(w, id, rank, "exited on signal 9 (Killed)");
}

/* The server continues without a worker. Releases `left`. */
static void departs(struct world *w, const char *id, struct departure *left)
{
    json_t *fact = json_pack("{s:i, s:s, s:i, s:i, s:I, s:s, s:s, s:o}", "format", FACT_FORMAT,
                             "job", id, "attempt", last_attempt(w, id)->number, "rank",
                             workers_of(last_attempt(w, id)), "number", (json_int_t)++w->told,
                             "node", "keeper", "type", "left", "left", departure_json(left));
    seal_as(w, id, last_attempt(w, id)->number);
    OK(store_fact_add(w->store, id, fact, &err_));
    json_decref(fact);
    departure_release(left);
}

/* Continues without rank `who`, of which the server had taken a gradient of this many samples. */
static void leaves(struct world *w, const char *id, int who, int64_t step, int others, int samples)
{
    struct departure left = {.who = who, .step = step, .others = others, .pushes = 1};
    staleness_add(&left.staleness, 1, samples);
    departs(w, id, &left);
}

/* A job of three workers that continues without rank 1, of which the server took 96 samples, and
 * which is not restarted yet (test_returned_worker.c). */
static struct world *world_of_two(void **state, char id[STORE_ID])
{
    struct world *w = world_serving(state, three, id);
    dies(w, id, 1);
    tick(w, 0.5);
    leaves(w, id, 1, 412, 2, 96);
    pass(w, 0.5);
    return w;
}

static void the_server_is_told_and_the_others_share_its_minibatch(void **state)
{
    char id[STORE_ID];
    struct world *w = world_serving(state, three, id);
    dies(w, id, 1);
    tick(w, 0.5);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.lost[0] == 1 && c.version == 2);
    assert_true(c.sizes[0] == 48 && c.sizes[1] == 0 && c.sizes[2] == 48);
    json_t *all = store_assignments(w->store, id, &err_);
    assert_string_equal(text_at(all, "/1/reason"), "n2 left, 2 nodes go on: equal");
    assert_null(json_object_get(json_object_get(json_array_get(all, 1), "batches"), "n2"));
    json_decref(all);
    dies(w, id, 1); /* reported again */
    tick(w, 0.5);
    assert_int_equal(control_of(w, id).version, 2);
    assert_state(w, id, "running");
}

/* The message of the newest event "log" of this kind; the caller frees. */
static char *logged(struct world *w, const char *kind)
{
    char last[STORE_PLACE] = "0-0", *message = NULL;
    bool gap;
    json_t *events = store_events_read(w->store, last, 1000, 0, &gap, &err_), *one;
    size_t i;
    assert_non_null(events);
    json_array_foreach(events, i, one) {
        struct event_entry entry;
        assert_true(event_entry_read(one, &entry));
        json_t *data = event_entry_data(&entry);
        const char *type = json_string_value(json_object_get(data, "type"));
        if (strcmp(entry.type, "log") == 0 && type && strcmp(type, kind) == 0) {
            free(message);
            message = strdup(text_at(data, "/message"));
        }
        json_decref(data);
    }
    json_decref(events);
    return message;
}

static void people_are_told_who_left_and_how_many_go_on(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, id);
    char *message = logged(w, "left");
    assert_non_null(message);
    assert_string_equal(message, "n2 left at step 412, 2 nodes go on");
    free(message);
}

static void what_the_server_counted_stands_for_it(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, id);
    assert_int_equal(number_of(w, id, "/workers/1/samples"), 96);
    assert_int_equal(number_of(w, id, "/workers/1/updates"), 1);
    assert_text_of(w, id, "/workers/1/state", "left");
    say_beat(w, id, 1, PHASE_COMPUTE, 0, 0); /* a heartbeat that was on its way is no news */
    pass(w, 2);
    assert_int_equal(number_of(w, id, "/workers/1/samples"), 96);
    assert_state(w, id, "running");
}

static void another_coordinator_knows_it_too(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, id);
    dies(w, id, 2);
    tick(w, 0.5);
    world_new_coordinator(w);
    pass(w, 0.5);
    assert_int_equal(number_of(w, id, "/workers/1/samples"), 96);
    assert_text_of(w, id, "/workers/1/state", "left");
    assert_text_of(w, id, "/workers/2/state", "left");
    asked(w, id, "pause"); /* which writes the document again */
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 2 && c.sizes[0] == 96 && c.sizes[1] == 0 && c.sizes[2] == 0);
}

/* Rank 1 dies and leaves; this coordinator and a new one know of two rows. */
static void assert_two_rows_missing(struct world *w, const char *id, struct departure *left)
{
    dies(w, id, 1);
    tick(w, 0.5);
    departs(w, id, left);
    pass(w, 3);
    assert_int_equal(number_of(w, id, "/rows_dropped"), 2);
    world_new_coordinator(w);
    pass(w, 3);
    assert_int_equal(number_of(w, id, "/rows_dropped"), 2);
}

/* The server took three of its gradients; it had sent the row of one. */
static void another_coordinator_tells_of_its_missing_rows_too(void **state)
{
    char id[STORE_ID];
    struct world *w = world_serving(state, three, id);
    struct departure left = {.who = 1, .step = 412, .others = 2, .pushes = 3};
    staleness_add(&left.staleness, 3, 96);
    assert_two_rows_missing(w, id, &left);
}

/* The attempt has ended with the death of this rank, and the next one starts. */
static void assert_ended(struct world *w, const char *id, int dead, const char *node)
{
    char says[100];
    snprintf(says, sizeof says, "rank %d on node '%s' is lost: it exited on signal 9", dead, node);
    pass(w, 2);
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 1);
    assert_error(w, id, "peer", says);
}

static void ends(void **state, const char *job, int dead, const char *node)
{
    char id[STORE_ID];
    struct world *w = world_serving(state, job, id);
    dies(w, id, dead);
    assert_ended(w, id, dead, node);
}

static void without_the_keeper_nothing_goes_on(void **state)
{
    ends(state, three, 3, "keeper");
}

/* The remaining workers repeat overlapping rounds (decision 0050). */
static void hpsgd_goes_on_without_a_worker(void **state)
{
    char id[STORE_ID];
    struct world *w = world_serving(state, "{'workers': 3, 'strategy': {'type': 'hpsgd'}}", id);
    dies(w, id, 1);
    tick(w, 0.5);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.lost[0] == 1);
    assert_state(w, id, "running");
}

static void mpis_own_sum_needs_all_workers(void **state)
{
    ends(state, "{'workers': 3, 'exchange': {'allreduce': 'mpi'}}", 1, "n2");
}

/* A step takes the global batch, whoever remains: minibatches that the job gives become weights. */
static void in_lockstep_the_others_take_the_whole_batch(void **state)
{
    char id[STORE_ID];
    struct world *w = world_serving(state,
                                    "{'workers': 3, 'batching': {'global_batch': 96, 'policy': "
                                    "'static', 'sizes': [16, 32, 48]}}",
                                    id);
    dies(w, id, 1);
    tick(w, 0.5);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.lost[0] == 1);
    assert_true(c.sizes[0] == 24 && c.sizes[1] == 0 && c.sizes[2] == 72);
    assert_state(w, id, "running");
}

static void fewer_than_the_job_wants_do_not_go_on(void **state)
{
    ends(state, "{'workers': 3, 'min_workers': 3, 'strategy': {'type': 'asgd'}}", 1, "n2");
}

static void several_servers_need_all_their_workers(void **state)
{
    ends(state, "{'workers': 3, 'strategy': {'type': 'asgd', 'servers': 2}}", 1, "n2");
}

/* Which of the others waits for it for ever is unknown: the attempt starts again, and the first two
 * times are not charged to the job. */
static void a_start_needs_all_workers(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 3, three, id);
    for (int attempt = 1; attempt <= 3; attempt++) {
        OK(store_node_well(w->store, "n2", &err_)); /* an operator does not let it rest */
        say_beat(w, id, 0, PHASE_LOAD, 0, 0);
        dies(w, id, 1);
        pass(w, 5);
        assert_int_equal(attempts_of(w, id), attempt + 1);
        assert_int_equal(number_field(w, id, "restarts"), attempt < 3 ? 0 : 1);
    }
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: it exited on signal 9");
}

/* Before there is a guard, mpirun ends all ranks. */
static void a_rank_that_is_killed_in_the_start_costs_no_restart(void **state)
{
    static const char says[] =
        "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).";
    char id[STORE_ID];
    struct world *w = world_submitted(state, 3, three, id);
    process_ends(w, id, 137, says);
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 0);
    assert_string_equal(node_state(w, "n2"), "busy"); /* nor is it blamed */
}

/* MPI's messages for the other ranks, in the middle of its own start, name no rank. */
static void others_that_fail_because_of_a_death_are_not_the_cause(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 3, three, id);
    dies(w, id, 1);
    process_ends(w, id, 1, "*** Unknown error");
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 0);
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: it exited on signal 9");
    process_ends(w, id, 1, "*** Unknown error"); /* and its guard's report did not arrive */
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 3);
    assert_int_equal(number_field(w, id, "restarts"), 0);
    process_ends(w, id, 1, "mpirun was unable to launch the specified application");
    pass(w, 1);
    assert_int_equal(number_field(w, id, "restarts"), 1);
}

/* It has a guard, but its job could not continue without it later either. */
static void a_job_that_needs_all_its_workers_pays_for_its_starts(void **state)
{
    char id[STORE_ID];
    struct world *w =
        world_submitted(state, 3, "{'workers': 3, 'exchange': {'allreduce': 'mpi'}}", id);
    process_ends(w, id, 137, "mpirun noticed that process rank 1 exited on signal 9 (Killed).");
    pass(w, 1);
    assert_int_equal(number_field(w, id, "restarts"), 1);
}

static void beat_all_but_1(struct world *w, const char *id, enum phase workers, enum phase keeper)
{
    say_beat(w, id, 0, workers, 0, 0);
    say_beat(w, id, 2, workers, 0, 0);
    say_beat(w, id, 3, keeper, 0, 0);
}

/* Its last heartbeat is from before; the others show that they do not wait for it in the start. */
static void one_that_dies_just_after_the_start_is_done_without(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 3, three, id);
    say_beat(w, id, 1, PHASE_LOAD, 0, 0);
    beat_all_but_1(w, id, PHASE_LOAD, PHASE_LOAD);
    dies(w, id, 1);
    tick(w, 0.5);
    assert_int_equal(control_of(w, id).n_lost, 0);
    for (int i = 0; i < 10; i++) { /* they prepare for long */
        beat_all_but_1(w, id, PHASE_PREPARE, PHASE_SERVE);
        pass(w, 1);
    }
    assert_int_equal(control_of(w, id).n_lost, 0);
    beat_all_but_1(w, id, PHASE_COMPUTE, PHASE_SERVE);
    tick(w, 0.5);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.lost[0] == 1 && c.sizes[1] == 0);
    assert_int_equal(attempts_of(w, id), 1);
}

/* All of its rows are missing, not only those after the newest received one. */
static void one_that_dies_before_its_first_row_came_has_lost_them_all(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 3, three, id);
    struct departure left = {.who = 1, .step = 5, .others = 2, .pushes = 2};
    staleness_add(&left.staleness, 1, 32);
    staleness_add(&left.staleness, 1, 32);
    say_beat(w, id, 1, PHASE_COMPUTE, 0, 0);
    beat_all_but_1(w, id, PHASE_COMPUTE, PHASE_SERVE);
    assert_two_rows_missing(w, id, &left);
}

/* The keeper waits in the start for a message of the dead worker. */
static void while_the_keeper_is_in_the_start_nobody_goes_on(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 3, three, id);
    beat_all_but_1(w, id, PHASE_COMPUTE, PHASE_LOAD);
    dies(w, id, 1);
    tick(w, 0.5);
    assert_int_equal(control_of(w, id).n_lost, 0);
    pass(w, 5);
    assert_int_equal(attempts_of(w, id), 2);
}

/* The keeper has reported that the job is done; the dead worker's guard delays mpirun's end. */
static void one_that_dies_after_the_end_holds_nothing_up(void **state)
{
    char id[STORE_ID];
    struct world *w = world_serving(state, three, id);
    say_all_samples(w, id);
    say_beat(w, id, 3, PHASE_DONE, 0, 0);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished'}");
    tick(w, 0.5);
    dies(w, id, 1);
    pass(w, 3);
    assert_int_equal(last_attempt(w, id)->stops, 1);
    assert_state(w, id, "succeeded");
}

enum { UNTOLD = 61 };

/* The keeper's last state has all samples; no worker reported the last UNTOLD ones. */
static struct world *world_untold(void **state, char id[STORE_ID], int64_t *samples)
{
    struct world *w = world_serving(state, three, id);
    json_t *plan = last_attempt(w, id)->plan;
    *samples = (int64_t)(number_at(plan, "/spec/epochs") * number_at(plan, "/spec/data/samples"));
    say_samples(w, id, *samples - UNTOLD);
    struct beat keeper = beat_of(w, id, 3, PHASE_DONE);
    keeper.samples = *samples;
    say_beat_of(w, id, &keeper);
    return w;
}

static void what_one_had_not_told_that_died_at_the_end_the_keeper_counts(void **state)
{
    char id[STORE_ID];
    int64_t samples;
    struct world *w = world_untold(state, id, &samples);
    dies(w, id, 1);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished'}");
    process_ends(w, id, 0, "");
    pass(w, 1);
    assert_state(w, id, "succeeded");
    assert_int_equal(number_of(w, id, "/progress/samples"), samples);
    assert_int_equal(number_of(w, id, "/workers/0/samples"), (samples - UNTOLD) / 3);
    assert_int_equal(number_of(w, id, "/workers/1/samples"), (samples - UNTOLD) / 3 + UNTOLD);
    assert_int_equal(number_of(w, id, "/rows_dropped"), 1); /* of 32 samples; one row has arrived */
}

static void where_nobody_died_the_workers_count(void **state)
{
    char id[STORE_ID];
    int64_t samples;
    struct world *w = world_untold(state, id, &samples);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished'}");
    process_ends(w, id, 0, "");
    pass(w, 1);
    assert_int_equal(attempts_of(w, id), 2);
}

static void one_that_dies_after_its_own_end_has_not_left(void **state)
{
    char id[STORE_ID];
    struct world *w = world_serving(state, three, id);
    say_beat(w, id, 1, PHASE_DONE, 0, 0);
    tick(w, 0.5);
    dies(w, id, 1);
    tick(w, 0.5);
    leaves(w, id, 1, 412, 2, 96);
    pass(w, 0.5);
    assert_text_of(w, id, "/workers/1/state", "done");
    assert_state(w, id, "running");
}

/* It has finished too, and reported nothing else, because the others continue. */
static void one_that_failed_has_left(void **state)
{
    char id[STORE_ID];
    struct world *w = world_serving(state, three, id);
    say_beat(w, id, 1, PHASE_DONE, 0, 0);
    tick(w, 0.5);
    ends_so(w, id, 1, "exited with code 1");
    tick(w, 0.5);
    leaves(w, id, 1, 412, 2, 96);
    pass(w, 0.5);
    assert_text_of(w, id, "/workers/1/state", "left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(the_server_is_told_and_the_others_share_its_minibatch),
        IN_A_WORLD(people_are_told_who_left_and_how_many_go_on),
        IN_A_WORLD(what_the_server_counted_stands_for_it),
        IN_A_WORLD(another_coordinator_knows_it_too),
        IN_A_WORLD(another_coordinator_tells_of_its_missing_rows_too),
        IN_A_WORLD(without_the_keeper_nothing_goes_on),
        IN_A_WORLD(hpsgd_goes_on_without_a_worker),
        IN_A_WORLD(mpis_own_sum_needs_all_workers),
        IN_A_WORLD(in_lockstep_the_others_take_the_whole_batch),
        IN_A_WORLD(fewer_than_the_job_wants_do_not_go_on),
        IN_A_WORLD(several_servers_need_all_their_workers),
        IN_A_WORLD(a_start_needs_all_workers),
        IN_A_WORLD(a_rank_that_is_killed_in_the_start_costs_no_restart),
        IN_A_WORLD(others_that_fail_because_of_a_death_are_not_the_cause),
        IN_A_WORLD(a_job_that_needs_all_its_workers_pays_for_its_starts),
        IN_A_WORLD(one_that_dies_just_after_the_start_is_done_without),
        IN_A_WORLD(one_that_dies_before_its_first_row_came_has_lost_them_all),
        IN_A_WORLD(while_the_keeper_is_in_the_start_nobody_goes_on),
        IN_A_WORLD(one_that_dies_after_the_end_holds_nothing_up),
        IN_A_WORLD(what_one_had_not_told_that_died_at_the_end_the_keeper_counts),
        IN_A_WORLD(where_nobody_died_the_workers_count),
        IN_A_WORLD(one_that_dies_after_its_own_end_has_not_left),
        IN_A_WORLD(one_that_failed_has_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
