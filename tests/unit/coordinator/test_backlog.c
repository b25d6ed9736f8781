/* Rows on their way from the store to the history, and what is read before them if many wait
 * (coordinator/monitor/feed.c, driven by sched_tick). */
#include "tests/unit/coordinator/world.h"

#include "job/documents/people/events.h"

static void rows_leave_the_store_once_they_are_on_disk(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 50, id);
    assert_true(rows_in_store(w, id, 0) > 0);
    pass(w, 6);
    assert_int_equal(rows_in_store(w, id, 0), 0);
    assert_int_equal(rows_in_store(w, id, 1), 0);
    assert_int_equal(points_of(w, id, "train_loss"), 50);
}

/* Steps of microseconds: entries have as many rows as they may. */
static void a_turn_reads_so_many_rows_whatever_the_size_of_their_entries(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    ranks_rush(w, id, 2, 20001);
    int before = 1, turns = 0;
    for (int now; (now = points_of(w, id, "train_loss")) < 20001; turns++) {
        tick(w, 1);
        assert_in_range(now - before, 0, 6000); /* of each of two ranks */
        before = now;
    }
    assert_in_range(turns, 4, 8);
    pass(w, 6);
    assert_false(sched_behind(w->sched));
    assert_int_equal(rows_in_store(w, id, 1), 0);
}

static void small_entries_are_read_by_the_hundred(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 2500, id);
    tick(w, 0.5);
    assert_int_equal(number_of(w, id, "/progress/step"), 2500);
    pass(w, 6);
    assert_int_equal(points_of(w, id, "train_loss"), 2500);
    assert_int_equal(rows_in_store(w, id, 1), 0);
}

/* If many facts wait, only the last evaluation of a reading becomes an event. */
static void of_many_evaluations_the_last_of_each_read_is_told(void **state)
{
    enum { MANY = 1200 };
    char id[STORE_ID], text[200], last[STORE_PLACE] = "0-0";
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    for (int i = 1; i <= MANY; i++) {
        snprintf(text, sizeof text,
                 "{'type': 'evaluation', 'step': %d, 'epoch': %d.0, 'time': %d.0, 'loss': 0.5, "
                 "'accuracy': 0.75, 'samples': 100}",
                 i, i, i);
        say_fact(w, id, text);
    }
    pass(w, 4);
    int told = 0, newest = 0;
    size_t i;
    bool gap;
    json_t *events = store_events_read(w->store, last, 20000, 0, &gap, &err_), *one;
    json_array_foreach(events, i, one) {
        struct event_entry entry;
        assert_true(event_entry_read(one, &entry));
        if (strcmp(entry.type, "evaluation") == 0) {
            json_t *data = event_entry_data(&entry);
            newest = (int)number_at(data, "/step");
            told++;
            json_decref(data);
        }
    }
    json_decref(events);
    assert_int_equal(newest, MANY);
    assert_in_range(told, 1, MANY / 10);
}

static void a_job_ends_when_all_its_rows_are_read(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    ranks_rush(w, id, 2, 20001);
    ended(w, id, "finished");
    assert_state(w, id, "running");
    assert_true(sched_behind(w->sched));
    for (int i = 0; i < 8 && sched_running(w->sched); i++) {
        tick(w, 0.2);
    }
    assert_state(w, id, "succeeded");
    assert_int_equal(points_of(w, id, "train_loss"), 20001);
}

/* Neither a user who cancels the job nor another job that waits for its nodes must wait for its
 * rows. All the same, they are in its history. */
static void a_cancelled_job_gives_its_nodes_back_before_its_rows_are_read(void **state)
{
    char id[STORE_ID], next[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    submit(w, "{'workers': 2}", next);
    ranks_rush(w, id, 2, 40001);
    asked(w, id, "cancel");
    assert_true(control_says(w, id, "stop"));
    ended(w, id, "stopped");
    assert_state(w, id, "cancelled");
    assert_true(sched_behind(w->sched));
    tick(w, 0.5);
    assert_state(w, next, "launching");
    for (int i = 0; i < 16 && sched_behind(w->sched); i++) {
        tick(w, 0.2);
    }
    tick(w, 0.2);
    assert_int_equal(points_of(w, id, "train_loss"), 40001);
    assert_int_equal(rows_in_store(w, id, 0), 0);
    assert_int_equal(sched_running(w->sched), 1);
    assert_state(w, id, "cancelled");
}

/* It is then forgotten. */
static void a_cancelled_job_may_be_deleted_before_its_rows_are_read(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    ranks_rush(w, id, 2, 40001);
    asked(w, id, "cancel");
    ended(w, id, "stopped");
    assert_state(w, id, "cancelled");
    assert_true(sched_behind(w->sched));
    OK(store_job_delete(w->store, id, NULL, &err_));
    tick(w, 0.2);
    assert_int_equal(sched_running(w->sched), 0);
}

/* ---- what an attempt left that nobody watched ------------------------------------------------ */

static void lose_plan(struct world *w, const char *id)
{
    json_t *plan = json_of("{\"attempt\": 1, \"workers\": []}"); /* of another version */
    OK(store_doc_set(w->store, id, "plan", plan, &err_));
    json_decref(plan);
}

/* A new coordinator has started to adopt the rows of an attempt whose plan it cannot read. */
static struct world *world_taking_over(void **state, int last, char id[STORE_ID])
{
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    ranks_rush(w, id, 2, last);
    lose_plan(w, id);
    world_new_coordinator(w);
    tick(w, 1);
    return w;
}

static void an_attempt_starts_when_it_has_read_in_turns_what_earlier_ones_left(void **state)
{
    char id[STORE_ID];
    struct world *w = world_taking_over(state, 40001, id);
    int before = 1, turns = 1;
    for (int now; w->fake.n == 1 && turns < 100; turns++, before = now) {
        assert_state(w, id, "launching");
        assert_true(sched_behind(w->sched));
        now = points_of(w, id, "train_loss");
        assert_in_range(now - before, 1, 6000); /* of each of two ranks */
        tick(w, 1);
    }
    assert_in_range(turns, 8, 12);
    assert_false(sched_behind(w->sched));
    assert_int_equal(last_attempt(w, id)->number, 2);
    ranks_step(w, id, 40002, 40002, 0.01);
    say_fact(w, id, "{'type': 'restored', 'version': 40001}");
    pass(w, 6);
    assert_int_equal(points_of(w, id, "train_loss"), 40002);
    assert_int_equal(rows_in_store(w, id, 0), 0);
}

static void a_job_is_cancelled_at_once_while_its_next_attempt_reads(void **state)
{
    char id[STORE_ID], next[STORE_ID];
    struct world *w = world_taking_over(state, 40001, id);
    submit(w, "{'workers': 2}", next);
    asked(w, id, "cancel");
    assert_state(w, id, "cancelled");
    assert_state(w, next, "launching");
    for (int i = 0; i < 16 && sched_behind(w->sched); i++) {
        tick(w, 1);
    }
    tick(w, 1);
    assert_int_equal(sched_running(w->sched), 1); /* the other job */
    assert_int_equal(w->fake.n, 2);
    assert_int_equal(points_of(w, id, "train_loss"), 40001);
}

static void a_job_is_queued_again_at_once_where_the_service_stops_while_it_reads(void **state)
{
    char id[STORE_ID];
    struct world *w = world_taking_over(state, 40001, id);
    sched_drain(w->sched);
    tick(w, 1);
    assert_state(w, id, "queued");
    assert_string_equal(node_state(w, "n1"), "ready");
    assert_int_equal(sched_running(w->sched), 0);
    world_new_coordinator(w);
    for (int i = 0; i < 16 && w->fake.n == 1; i++) {
        tick(w, 1);
    }
    assert_int_equal(last_attempt(w, id)->number, 3);
    assert_int_equal(number_field(w, id, "restarts"), 1); /* because its plan was lost */
}

/* Its facts have their own numbers, which are no longer known. */
static void what_an_attempt_before_the_last_told_is_read_too(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    process_ends(w, id, 137, "");
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 2);
    say_fact_of(w, id, 1,
                "{'type': 'evaluation', 'step': 1, 'epoch': 0.5, 'time': 1, 'loss': 0.5, "
                "'accuracy': 0.9, 'samples': 100}");
    lose_plan(w, id);
    world_new_coordinator(w);
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 3);
    ranks_step(w, id, 2, 2, 0.01);
    say_fact(w, id, "{'type': 'restored', 'version': 1}");
    pass(w, 6);
    assert_int_equal(points_of(w, id, "test_accuracy"), 1);
}

/* It is read when the store is back. */
static void a_store_that_goes_away_while_it_reads_costs_no_attempt(void **state)
{
    char id[STORE_ID];
    struct world *w = world_taking_over(state, 40001, id);
    redis_private_stop(w->place->dir);
    tick(w, 1);
    assert_false(sched_behind(w->sched));
    OK(redis_private_start(w->place->dir, w->place->url, &w->place->pid, &err_));
    for (int i = 0; i < 32 && w->fake.n == 1; i++) {
        tick(w, 1);
    }
    assert_int_equal(last_attempt(w, id)->number, 2);
}

/* Facts of these kinds are frequent; the history drops those that come again. */
static void norms_and_logged_metrics_alone_write_no_bookmark(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    pass(w, 2);
    json_t *before = store_doc_get(w->store, id, "detail:monitor", &err_);
    for (int step = 10; step < 30; step += 10) {
        char text[200];
        snprintf(text, sizeof text,
                 "{'type': 'norms', 'step': %d, 'epoch': 1.0, 'time': 2.5, 'names': ['w'], "
                 "'elements': [4], 'weights': [2.0], 'gradients': [1.0], 'left_out': 0}",
                 step);
        say_fact(w, id, text);
        snprintf(text, sizeof text,
                 "{'type': 'logged', 'names': ['bleu'], 'steps': [%d], 'epochs': [1.0], 'times': "
                 "[2.5], 'values': [30]}",
                 step);
        say_fact(w, id, text);
    }
    tick(w, 0.2);
    json_t *after = store_doc_get(w->store, id, "detail:monitor", &err_);
    assert_non_null(before);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    world_new_coordinator(w);
    pass(w, 7);
    char dir[200];
    snprintf(dir, sizeof dir, "%s/jobs/%s", w->place->dir, id);
    json_t *norms = history_norms_read(dir, 0, &err_);
    assert_int_equal((int)number_at(norms, "/total_points"), 2);
    json_decref(norms);
    json_t *logged =
        history_logged_read(dir, &(struct logged_ask){LOGGED_STEP, NAN, NAN, 0}, &err_);
    assert_int_equal((int)number_at(logged, "/metrics/0/total_points"), 2);
    json_decref(logged);
    assert_int_equal(number_of(w, id, "/logged/bleu"), 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(rows_leave_the_store_once_they_are_on_disk),
        IN_A_WORLD(a_turn_reads_so_many_rows_whatever_the_size_of_their_entries),
        IN_A_WORLD(small_entries_are_read_by_the_hundred),
        IN_A_WORLD(of_many_evaluations_the_last_of_each_read_is_told),
        IN_A_WORLD(a_job_ends_when_all_its_rows_are_read),
        IN_A_WORLD(a_cancelled_job_gives_its_nodes_back_before_its_rows_are_read),
        IN_A_WORLD(a_cancelled_job_may_be_deleted_before_its_rows_are_read),
        IN_A_WORLD(an_attempt_starts_when_it_has_read_in_turns_what_earlier_ones_left),
        IN_A_WORLD(a_job_is_cancelled_at_once_while_its_next_attempt_reads),
        IN_A_WORLD(a_job_is_queued_again_at_once_where_the_service_stops_while_it_reads),
        IN_A_WORLD(what_an_attempt_before_the_last_told_is_read_too),
        IN_A_WORLD(norms_and_logged_metrics_alone_write_no_bookmark),
        IN_A_WORLD(a_store_that_goes_away_while_it_reads_costs_no_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
