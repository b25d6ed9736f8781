/* A worker that died is started again and joins its attempt (docs/decisions/0049): when the
 * coordinator asks for that, how often, and what counts until it has joined. Driven by
 * sched_tick. */
#include "tests/unit/coordinator/world.h"

#include "job/documents/coordinator/control.h"
#include "job/documents/people/events.h"
#include "job/documents/ranks/departure.h"

static const char three[] =
    "{'workers': 3, 'strategy': {'type': 'asgd'}, 'batching': "
    "{'global_batch': 96, 'policy': 'equal'}}";

/* The guard of this rank reports the death of the process that was restarted `seat` times. */
static void dies(struct world *w, const char *id, int rank, int seat)
{
    char text[200];
    snprintf(text, sizeof text,
             "{'type': 'lost', 'rank': %d, 'message': 'exited on signal 9 (Killed)', "
             "'number': %lld}",
             rank, (long long)fact_number_last(seat));
    say_fact(w, id, text);
}

/* The server reports that rank `who` has left, or has returned. */
static void server_says(struct world *w, const char *id, const char *type, int who, int samples)
{
    struct departure d = {.who = who, .step = 412, .others = 2, .pushes = 1};
    staleness_add(&d.staleness, 1, samples);
    json_t *fact = json_pack("{s:i, s:s, s:i, s:i, s:I, s:s, s:s, s:o}", "format", FACT_FORMAT,
                             "job", id, "attempt", last_attempt(w, id)->number, "rank",
                             workers_of(last_attempt(w, id)), "number", (json_int_t)++w->told,
                             "node", "keeper", "type", type, "left", departure_json(&d));
    seal_as(w, id, last_attempt(w, id)->number);
    OK(store_fact_add(w->store, id, fact, &err_));
    json_decref(fact);
    departure_release(&d);
}

static void leaves(struct world *w, const char *id, int seat)
{
    dies(w, id, 1, seat);
    tick(w, 0.5);
    server_says(w, id, "left", 1, 96);
    tick(w, 0.1);
}

/* A job whose rank 1 has left. */
static struct world *world_of_two(void **state, const char *job, char id[STORE_ID])
{
    struct world *w = world_running(state, 3, job, id);
    say_beat(w, id, workers_of(last_attempt(w, id)), PHASE_SERVE, 0, 0);
    leaves(w, id, 0);
    return w;
}

static void it_is_started_again_after_a_second(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.seats[1] == 0);
    pass(w, 2);
    c = control_of(w, id);
    assert_true(c.n_lost == 0 && c.seats[0] == 0 && c.seats[1] == 1);
    assert_true(c.sizes[0] == 48 && c.sizes[1] == 0 && c.sizes[2] == 48);
    assert_text_of(w, id, "/workers/1/state", "left"); /* no other worker relies on it yet */
}

/* The doors where the other ranks wait for it. */
static void it_is_told_where_the_others_are(void **state)
{
    char id[STORE_ID], door[DOCUMENT_DOOR];
    struct world *w = world_of_two(state, three, id);
    struct beat b = beat_of(w, id, 0, PHASE_EXCHANGE), k = beat_of(w, id, 3, PHASE_SERVE);
    snprintf(b.door, sizeof b.door, "10.0.0.1:4001");
    snprintf(k.door, sizeof k.door, "10.0.0.4:4002");
    say_beat_of(w, id, &b);
    say_beat_of(w, id, &k);
    tick(w, 0.5);
    tick(w, 0.1);
    json_t *j = store_doc_get(w->store, id, "control", &err_), *doors = control_doors(j);
    assert_true(control_door(doors, 0, door));
    assert_string_equal(door, "10.0.0.1:4001");
    assert_true(control_door(doors, 3, door)); /* the keeper's door */
    assert_string_equal(door, "10.0.0.4:4002");
    assert_false(control_door(doors, 1, door) || control_door(doors, 2, door));
    assert_false(control_door(doors, 4, door) || control_door(doors, -1, door));
    json_decref(doors);
    json_decref(j);
}

/* The newest line "log" among the events since then. */
static void assert_newest_line(struct world *w, char since[STORE_PLACE], const char *message)
{
    bool gap;
    json_t *all = store_events_read(w->store, since, 100, 0, &gap, &err_), *one, *line = NULL;
    size_t i;
    assert_non_null(all);
    json_array_foreach(all, i, one) {
        struct event_entry entry;
        if (event_entry_read(one, &entry) && strcmp(entry.type, "log") == 0) {
            json_decref(line);
            line = event_entry_data(&entry);
        }
    }
    assert_non_null(line);
    assert_string_equal(jsonx_string_at(line, "message"), message);
    json_decref(line);
    json_decref(all);
}

static void the_server_lets_it_in_and_it_gets_its_minibatch(void **state)
{
    char id[STORE_ID], since[STORE_PLACE];
    struct world *w = world_of_two(state, three, id);
    pass(w, 2);
    OK(store_events_newest(w->store, since, &err_));
    server_says(w, id, "returned", 1, 96);
    tick(w, 0.5);
    assert_newest_line(w, since, "n2 came back at step 412");
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 0 && c.version == 3);
    assert_true(c.sizes[0] == 32 && c.sizes[1] == 32 && c.sizes[2] == 32);
    json_t *all = store_assignments(w->store, id, &err_);
    assert_string_equal(text_at(all, "/2/reason"), "n2 came back, 3 nodes go on: equal");
    json_decref(all);
    assert_int_equal(number_of(w, id, "/workers/1/samples"), 96);
    assert_state(w, id, "running");
    assert_int_equal(attempts_of(w, id), 1);
}

static void each_time_it_waits_for_longer_and_then_it_stays_out(void **state)
{
    static const int waits[] = {1, 4, 16};
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    for (int seat = 1; seat <= 3; seat++) {
        pass(w, waits[seat - 1] - 1);
        assert_int_equal(control_of(w, id).seats[1], seat - 1);
        pass(w, 2);
        assert_int_equal(control_of(w, id).seats[1], seat);
        server_says(w, id, "returned", 1, 96);
        tick(w, 0.1);
        leaves(w, id, seat);
        struct control c = control_of(w, id);
        assert_true(c.n_lost == 1 && c.lost[0] == 1);
    }
    for (int i = 0; i < 8; i++) { /* longer than the next wait would be */
        say_beat(w, id, 0, PHASE_COMPUTE, 0, 0);
        say_beat(w, id, 2, PHASE_COMPUTE, 0, 0);
        say_beat(w, id, 3, PHASE_SERVE, 0, 0);
        pass(w, 10);
    }
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.seats[1] == 3);
    assert_int_equal(attempts_of(w, id), 1);
}

/* Three times within a while, not in all: an attempt may last for weeks. */
static void what_died_long_ago_does_not_count(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    for (int seat = 1; seat <= 5; seat++) {
        pass(w, 2);
        assert_int_equal(control_of(w, id).seats[1], seat);
        server_says(w, id, "returned", 1, 96);
        for (int i = 0; i < 4; i++) {
            tick(w, 0.1);
            for (int rank = 0; rank <= 3; rank++) {
                say_beat(w, id, rank, rank < 3 ? PHASE_COMPUTE : PHASE_SERVE, 0, 0);
            }
            pass(w, 9);
        }
        leaves(w, id, seat);
        struct control c = control_of(w, id);
        assert_true(c.n_lost == 1 && c.lost[0] == 1);
    }
    assert_int_equal(attempts_of(w, id), 1);
}

/* The next process, which is let in, is not mistaken for the previous one. */
static void one_that_dies_before_it_is_there_is_lost_again(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    pass(w, 2);
    dies(w, id, 1, 1);
    tick(w, 0.5);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.lost[0] == 1 && c.seats[1] == 1);
    pass(w, 5);
    assert_int_equal(control_of(w, id).seats[1], 2);
    server_says(w, id, "returned", 1, 96);
    tick(w, 0.5);
    tick(w, 0.1);
    assert_int_equal(control_of(w, id).n_lost, 0);
}

/* The worker runs again: a later end of the attempt has another cause, and its node is not to
 * blame. */
static void one_that_came_back_is_not_why_the_attempt_ends_later(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    pass(w, 2);
    server_says(w, id, "returned", 1, 96);
    pass(w, 1);
    process_ends(w, id, 137, "");
    pass(w, 1);
    assert_int_equal(number_field(w, id, "restarts"), 1);
    assert_error(w, id, "peer", "attempt 1 was lost: fake ended with code 137");
}

/* The worker reports why it fails; its guard can only report that it did. */
static void why_one_that_came_back_fails_is_what_it_says(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    pass(w, 2);
    server_says(w, id, "returned", 1, 96);
    tick(w, 0.5);
    say_fact(w, id,
             "{'type': 'ended', 'outcome': 'failed', 'code': 'peer', 'message': 'a worker was lost "
             "in the last steps'}");
    char text[200];
    snprintf(text, sizeof text,
             "{'type': 'lost', 'rank': 1, 'message': 'exited with code 1', 'number': %lld}",
             (long long)fact_number_last(1));
    say_fact(w, id, text);
    process_ends(w, id, 1, "");
    pass(w, 1);
    assert_error(w, id, "peer", "a worker was lost in the last steps");
}

/* Rank 1 has come back after 50 steps of 10 ms. */
static struct world *world_with_returned(void **state, char id[STORE_ID])
{
    struct world *w = world_running(state, 3, three, id);
    ranks_step(w, id, 2, 50, 0.01);
    say_beat(w, id, workers_of(last_attempt(w, id)), PHASE_SERVE, 0, 0);
    tick(w, 0.5);
    leaves(w, id, 0);
    pass(w, 2);
    server_says(w, id, "returned", 1, 96);
    tick(w, 0.5);
    return w;
}

/* It computes, and has not worked for so many seconds. */
static void stands_still(struct world *w, const char *id, double seconds)
{
    struct beat b = beat_of(w, id, 1, PHASE_COMPUTE);
    b.number += fact_number_last(0);
    b.progress_age = b.work_age = seconds;
    say_beat_of(w, id, &b);
    pass(w, 2);
}

static void a_hang_in_its_first_steps_is_told_by_what_first_steps_took(void **state)
{
    enum { HANGS = 25 }; /* seconds */
    char id[STORE_ID];
    struct world *w = world_with_returned(state, id);
    stands_still(w, id, HANGS);
    assert_int_equal(attempts_of(w, id), 2);
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: no progress for");
}

/* Those of the process before it were measured when that was warm. */
static void its_first_steps_may_last_longer_than_those_before(void **state)
{
    enum { SLOW = 15, FIRST_STEPS = 5 }; /* seconds; how many have a limit of their own */
    char id[STORE_ID];
    struct world *w = world_with_returned(state, id);
    for (int step = 51; step < 51 + FIRST_STEPS; step++) {
        stands_still(w, id, SLOW);
        assert_int_equal(attempts_of(w, id), 1);
        struct row row = row_of(last_attempt(w, id), 1, step, 0.01);
        say_row(w, id, &row);
        tick(w, 0.5);
    }
    pass(w, 2);
    assert_int_equal(attempts_of(w, id), 2);
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: no progress for");
}

/* Its guard reports it before the server does. */
static void one_that_dies_as_it_comes_is_lost_again(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    pass(w, 2);
    dies(w, id, 1, 1);
    server_says(w, id, "returned", 1, 96);
    tick(w, 0.5);
    tick(w, 0.1);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 1 && c.lost[0] == 1);
    server_says(w, id, "left", 1, 96);
    pass(w, 6);
    assert_int_equal(control_of(w, id).seats[1], 2);
}

static void another_coordinator_goes_on_waiting_for_it(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    pass(w, 2);
    world_new_coordinator(w);
    pass(w, 2);
    struct control c = control_of(w, id);
    assert_true(c.n_lost == 0 && c.seats[1] == 1);
    server_says(w, id, "returned", 1, 96);
    tick(w, 0.5);
    c = control_of(w, id);
    assert_true(c.n_lost == 0 && c.sizes[1] == 32);
    world_new_coordinator(w);
    pass(w, 2);
    assert_int_equal(control_of(w, id).seats[1], 1);
    assert_state(w, id, "running");
}

static void a_job_that_pauses_has_nobody_started(void **state)
{
    char id[STORE_ID];
    struct world *w = world_of_two(state, three, id);
    asked(w, id, "pause");
    pass(w, 3);
    assert_int_equal(control_of(w, id).seats[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(it_is_started_again_after_a_second),
        IN_A_WORLD(it_is_told_where_the_others_are),
        IN_A_WORLD(the_server_lets_it_in_and_it_gets_its_minibatch),
        IN_A_WORLD(each_time_it_waits_for_longer_and_then_it_stays_out),
        IN_A_WORLD(what_died_long_ago_does_not_count),
        IN_A_WORLD(one_that_dies_before_it_is_there_is_lost_again),
        IN_A_WORLD(one_that_came_back_is_not_why_the_attempt_ends_later),
        IN_A_WORLD(why_one_that_came_back_fails_is_what_it_says),
        IN_A_WORLD(a_hang_in_its_first_steps_is_told_by_what_first_steps_took),
        IN_A_WORLD(its_first_steps_may_last_longer_than_those_before),
        IN_A_WORLD(one_that_dies_as_it_comes_is_lost_again),
        IN_A_WORLD(another_coordinator_goes_on_waiting_for_it),
        IN_A_WORLD(a_job_that_pauses_has_nobody_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
