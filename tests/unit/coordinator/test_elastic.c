/* Elastic jobs, whose number of nodes follows the free nodes (docs/decisions/0030): how they start,
 * when they grow and shrink and when not, and what they report. First the rules of growth alone,
 * then sched_tick on a clock that the test moves. */
#include "tests/unit/coordinator/world.h"

/* ---- is it worth it? ------------------------------------------------------------------------- */

static const struct growth_rules usual = {.settle = 10, .every = 60, .worth = 3};

static void a_job_grows_where_that_saves_more_than_it_costs(void **state)
{
    (void)state;
    static const struct {
        struct growth of; /* workers, then, speed, speed_then, age, left, cost */
        bool grows;
        const char *why;
    } cases[] = {
        {{2, 4, 2, 4, 60, 100, 10}, true, "50 s are saved for 10"},
        {{2, 4, 2, 4, 60, 59, 10}, false, "29.5 s are saved for 10"},
        {{2, 4, 2, 2.4, 60, 100, 10}, false, "the further nodes are slow"},
        {{2, 4, 2, 4, 60, -1, 10}, true, "nobody knows how long a program with its own loop takes"},
        {{2, 4, 2, 4, 59, 1e6, 1}, false, "it has had this size for less than a minute"},
        {{2, 2, 2, 4, 60, 1e6, 1}, false, "no node more"},
        {{1, 2, 1, 2, 60, 20, 0}, false, "10 s are saved for the 5 that a first change may cost"},
        {{1, 2, 1, 2, 60, 40, 0}, true, "20 s are saved for those 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (growth_is_worth(&usual, &cases[i].of) != cases[i].grows) {
            fail_msg("decided otherwise where %s", cases[i].why);
        }
    }
    assert_false(growth_is_settled(&usual, 5, 14));
    assert_true(growth_is_settled(&usual, 5, 15));
}

/* ---- in the scheduler ------------------------------------------------------------------------ */

#define ELASTIC "'elastic': {'min': 1, 'max': 3}, 'workers': 3, 'min_workers': 1, 'epochs': 100000"

/* The ranks step for this time; they are at `step`. */
static void steps_for(struct world *w, const char *id, int *step, double seconds)
{
    for (double until = w->now + seconds; w->now < until;) {
        ranks_step(w, id, *step, *step, 0.01);
        ++*step;
        pass(w, 1);
    }
}

/* The attempt writes its checkpoint, and the next attempt starts. */
static void changes_size(struct world *w, const char *id, int step)
{
    int before = attempts_of(w, id);
    char fact[100];
    assert_true(control_says(w, id, "pause"));
    ended(w, id, "paused");
    assert_int_equal(attempts_of(w, id), before + 1);
    assert_state(w, id, "launching");
    snprintf(fact, sizeof fact, "{'type': 'restored', 'version': %d}", step - 1);
    say_fact(w, id, fact);
    ranks_step(w, id, step, step, 0.01);
    tick(w, 0.5);
    assert_state(w, id, "running");
}

static void assert_resized(struct world *w, const char *id, const char *reason)
{
    json_t *job = job_of(w, id), *all = json_object_get(job, "resizes"),
           *last = json_array_get(all, json_array_size(all) - 1);
    assert_string_equal(text_at(last, "/reason"), reason);
    assert_int_equal(number_at(last, "/attempt"), number_at(job, "/attempt"));
    json_decref(job);
}

static void it_begins_with_what_is_there(void **state)
{
    char id[STORE_ID], few[STORE_ID];
    struct world *w = world_running(state, 2, "{" ELASTIC "}", id);
    assert_int_equal(workers_of(last_attempt(w, id)), 2);
    submit(w, "{'elastic': {'min': 1, 'max': 2}, 'workers': 2, 'min_workers': 1}", few);
    tick(w, 0.5);
    assert_text_of(w, few, "/waiting", "it asks for 1 worker, and 0 nodes are free");
}

static void it_grows_when_a_node_joins_and_stays(void **state)
{
    char id[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 2, "{" ELASTIC "}", id);
    steps_for(w, id, &step, 11);
    world_node(w, "n3", 1);
    steps_for(w, id, &step, 2); /* the node might disappear again */
    assert_false(control_says(w, id, "pause"));
    steps_for(w, id, &step, 4);
    changes_size(w, id, step);
    assert_int_equal(workers_of(last_attempt(w, id)), 3);
    assert_resized(w, id, "grew from 2 to 3 nodes: n3 joined");
    assert_int_equal(number_field(w, id, "restarts"), 0);
    json_t *job = job_of(w, id);
    double seconds = number_at(job, "/resizes/0/seconds");
    assert_true(seconds > 0 && seconds < 5);
    json_t *all = store_assignments(w->store, id, &err_);
    assert_string_equal(text_at(json_array_get(all, json_array_size(all) - 1), "/reason"),
                        "grew from 2 to 3 nodes: n3 joined");
    json_decref(all);
    json_decref(job);
}

static void a_node_that_joins_as_the_first_is_named_too(void **state)
{
    char id[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 2, "{" ELASTIC "}", id);
    steps_for(w, id, &step, 11);
    world_node(w, "a", 1);
    steps_for(w, id, &step, 6);
    changes_size(w, id, step);
    assert_resized(w, id, "grew from 2 to 3 nodes: a joined");
}

static void it_does_not_follow_a_node_that_comes_and_goes(void **state)
{
    char id[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 2, "{" ELASTIC "}", id);
    steps_for(w, id, &step, 12);
    for (int i = 0; i < 3; i++) {
        world_node(w, "n3", 1);
        steps_for(w, id, &step, 2);
        assert_false(control_says(w, id, "pause"));
        world_node_gone(w, "n3");
        steps_for(w, id, &step, 2);
    }
    assert_int_equal(attempts_of(w, id), 1);
}

static void it_does_not_grow_where_little_is_left_to_do(void **state)
{
    char id[STORE_ID];
    int step = 2;
    struct world *w = world_running(
        state, 1, "{'elastic': {'min': 1, 'max': 2}, 'workers': 2, 'epochs': 10}", id);
    say_samples(w, id, 10);
    steps_for(w, id, &step, 12); /* 9990 of 10000 samples in 12 s: too little time is left */
    say_samples(w, id, 9990);
    world_node(w, "n2", 1);
    steps_for(w, id, &step, 8);
    assert_int_equal(attempts_of(w, id), 1);
    assert_false(control_says(w, id, "pause"));
}

/* Half of some 50 s is worth a change, a fiftieth is not. */
static void it_grows_onto_nodes_that_are_fast_enough(void **state)
{
    static const double slowdowns[] = {50, 1};
    struct world *w = world_with(state, 1);
    for (int i = 0; i < 2; i++) {
        char id[STORE_ID], name[8];
        int step = 2;
        start_job(w, "{'elastic': {'min': 1, 'max': 2}, 'workers': 2, 'epochs': 10}", id);
        say_samples(w, id, 10);
        steps_for(w, id, &step, 12);
        say_samples(w, id, 2000);
        snprintf(name, sizeof name, "m%d", i);
        world_node(w, name, slowdowns[i]);
        steps_for(w, id, &step, 8);
        assert_int_equal(control_says(w, id, "pause"), slowdowns[i] == 1);
        asked(w, id, "cancel");
        ended(w, id, "stopped");
        world_node_gone(w, name);
    }
}

static void it_shrinks_at_once_for_a_higher_priority_and_keeps_its_own_nodes(void **state)
{
    char id[STORE_ID], high[STORE_ID], same[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 3, "{" ELASTIC "}", id);
    submit(w, "{'workers': 2}", same); /* waits, as old as the next attempt, and takes no node */
    tick(w, 0.5);
    submit(w, "{'priority': 1}", high);
    tick(w, 0.5); /* the turn finds the node */
    tick(w, 0.5); /* the turn tells the ranks */
    changes_size(w, id, step);
    assert_int_equal(workers_of(last_attempt(w, id)), 2);
    tick(w, 0.5);
    assert_state(w, high, "launching");
    assert_state(w, same, "queued");
    char why[100];
    snprintf(why, sizeof why, "shrank from 3 to 2 nodes: n3 for job %s of higher priority", high);
    assert_resized(w, id, why);
    assert_int_equal(number_field(w, id, "restarts"), 0);
}

static void it_is_not_shrunk_below_its_min(void **state)
{
    char id[STORE_ID], high[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 3, "{" ELASTIC "}", id);
    submit(w, "{'priority': 1, 'workers': 3}", high);
    steps_for(w, id, &step, 5);
    assert_false(control_says(w, id, "pause")); /* two of the job's nodes would not be enough */
    submit(w, "{'priority': 2, 'workers': 2}", high);
    steps_for(w, id, &step, 1);
    changes_size(w, id, step);
    assert_int_equal(workers_of(last_attempt(w, id)), 1);
}

static void it_grows_again_once_the_other_has_ended_but_not_for_who_waits(void **state)
{
    char id[STORE_ID], high[STORE_ID], wide[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 3, "{" ELASTIC "}", id);
    submit(w, "{'priority': 1}", high);
    steps_for(w, id, &step, 1);
    changes_size(w, id, step++);
    tick(w, 0.5);
    submit(w, "{'workers': 2}", wide);
    ended(w, high, "finished");
    steps_for(w, id, &step, 18);
    assert_false(control_says(w, id, "pause")); /* another job waits for that node */
    asked(w, wide, "cancel");
    steps_for(w, id, &step, 3);
    changes_size(w, id, step);
    assert_int_equal(workers_of(last_attempt(w, id)), 3);
    assert_resized(w, id, "grew from 2 to 3 nodes: n3 joined");
}

static void who_uses_fewer_nodes_gets_some_of_the_same_priority(void **state)
{
    char id[STORE_ID], own[STORE_ID], other[2][STORE_ID];
    int step = 1;
    struct world *w = world_with(state, 3);
    submit_as(w, "ada", "{" ELASTIC "}", id);
    tick(w, 0.5);
    steps_for(w, id, &step, 2);
    submit_as(w, "ada", "{}", own);
    steps_for(w, id, &step, 5);
    assert_false(control_says(w, id, "pause")); /* no job shrinks for a job of the same owner */
    submit_as(w, "bob", "{}", other[0]);
    steps_for(w, id, &step, 2);
    changes_size(w, id, step++);
    tick(w, 0.5);
    assert_state(w, other[0], "launching");
    assert_state(w, own, "queued");
    char why[120];
    snprintf(why, sizeof why, "shrank from 3 to 2 nodes: n3 for job %s of an owner who uses fewer",
             other[0]);
    assert_resized(w, id, why);
    submit_as(w, "bob", "{}", other[1]);
    steps_for(w, id, &step, 6);
    assert_false(control_says(w, id, "pause")); /* he would then have more nodes than she */
}

static void a_quota_of_nodes_bounds_it(void **state)
{
    char id[STORE_ID];
    int step = 1;
    struct world *w = world_with(state, 3);
    char path[128];
    static const char text[] = "{\"default\": {\"nodes\": 2}}";
    snprintf(path, sizeof path, "%s/quotas.json", w->place->dir);
    OK(proc_write_file(path, text, strlen(text), 0600, &err_));
    assert_non_null(w->quotas = quotas_open(path, &err_));
    world_new_coordinator(w);
    submit_as(w, "ada", "{" ELASTIC "}", id);
    tick(w, 0.5);
    assert_int_equal(workers_of(last_attempt(w, id)), 2);
    steps_for(w, id, &step, 18);
    assert_false(control_says(w, id, "pause"));
}

/* An elastic job on two of three nodes must pause for a job of higher priority. */
static struct world *world_making_room(void **state, char id[STORE_ID], char high[STORE_ID])
{
    int step = 2;
    struct world *w = world_running(state, 3, "{" ELASTIC "}", id);
    submit(w, "{'priority': 1}", high);
    steps_for(w, id, &step, 1);
    assert_true(control_says(w, id, "pause"));
    return w;
}

static void who_pauses_it_while_it_changes_its_size_has_it_paused(void **state)
{
    char id[STORE_ID], high[STORE_ID];
    struct world *w = world_making_room(state, id, high);
    asked(w, id, "pause");
    ended(w, id, "paused");
    assert_state(w, id, "paused");
    tick(w, 0.5);
    assert_state(w, high, "launching");
    assert_string_equal(node_state(w, "n2"), "ready");
}

static void a_worker_that_died_is_replaced_when_its_node_is_well(void **state)
{
    char id[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 3, "{" ELASTIC ", 'strategy': {'type': 'asgd'}}", id);
    say_beat(w, id, 3, PHASE_SERVE, 0, 0);
    say_fact(w, id,
             "{'type': 'lost', 'rank': 1, 'message': 'exited on signal 9 (Killed)', "
             "'number': 4611686018427387904}");
    steps_for(w, id, &step, 1);
    assert_state(w, id, "running"); /* the other ranks continue */
    steps_for(w, id, &step, 14);
    changes_size(w, id, step);
    assert_int_equal(workers_of(last_attempt(w, id)), 3);
    assert_resized(w, id, "grew from 2 to 3 nodes: n2 joined");
}

static void its_nodes_are_free_where_the_coordinator_ends_between_two_attempts(void **state)
{
    char id[STORE_ID], high[STORE_ID];
    struct world *w = world_making_room(state, id, high);
    world_new_coordinator(w); /* which has no memory of it */
    tick(w, 0.5);
    ended(w, id, "paused");
    pass(w, 6);
    assert_state(w, high, "launching");
    assert_state(w, id, "launching");
    assert_int_equal(workers_of(last_attempt(w, id)), 2);
    assert_int_equal(number_field(w, id, "restarts"), 0);
}

static bool is_claimed(struct world *w, const char *name)
{
    json_t *node = store_node_get(w->store, name, &err_);
    assert_non_null(node);
    bool claimed = json_is_string(json_object_get(node, "job"));
    json_decref(node);
    return claimed;
}

static void its_nodes_are_free_where_it_cannot_go_on_at_once(void **state)
{
    char id[STORE_ID], high[STORE_ID];
    struct world *w = world_making_room(state, id, high);
    OK(store_node_set(w->store, "n1", "drained", "1", &err_));
    OK(store_node_set(w->store, "n2", "drained", "1", &err_));
    assert_true(is_claimed(w, "n1"));
    ended(w, id, "paused");
    tick(w, 0.5);
    assert_state(w, id, "queued");
    assert_false(is_claimed(w, "n1"));
    assert_false(is_claimed(w, "n2"));
    OK(store_node_set(w->store, "n1", "drained", NULL, &err_));
    pass(w, 6);
    assert_state(w, id, "launching"); /* like any other job, on the free nodes */
    assert_int_equal(workers_of(last_attempt(w, id)), 1);
}

/* Of a long queue, a turn tries the head and part of the rest (queue.c). */
static void it_goes_on_at_once_however_many_wait_before_it(void **state)
{
    enum { OTHERS = 400 };
    char id[STORE_ID], other[STORE_ID];
    int step = 2;
    struct world *w = world_running(state, 3, "{" ELASTIC "}", id);
    submit(w, "{'priority': 2}", other);
    for (int i = 0; i < OTHERS; i++) {
        submit(w, "{'priority': 1, 'workers': 9}", other);
    }
    steps_for(w, id, &step, 1);
    changes_size(w, id, step);
    assert_int_equal(workers_of(last_attempt(w, id)), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_grows_where_that_saves_more_than_it_costs),
        IN_A_WORLD(it_begins_with_what_is_there),
        IN_A_WORLD(it_grows_when_a_node_joins_and_stays),
        IN_A_WORLD(a_node_that_joins_as_the_first_is_named_too),
        IN_A_WORLD(it_does_not_follow_a_node_that_comes_and_goes),
        IN_A_WORLD(it_does_not_grow_where_little_is_left_to_do),
        IN_A_WORLD(it_grows_onto_nodes_that_are_fast_enough),
        IN_A_WORLD(it_shrinks_at_once_for_a_higher_priority_and_keeps_its_own_nodes),
        IN_A_WORLD(it_is_not_shrunk_below_its_min),
        IN_A_WORLD(it_grows_again_once_the_other_has_ended_but_not_for_who_waits),
        IN_A_WORLD(who_uses_fewer_nodes_gets_some_of_the_same_priority),
        IN_A_WORLD(a_quota_of_nodes_bounds_it),
        IN_A_WORLD(who_pauses_it_while_it_changes_its_size_has_it_paused),
        IN_A_WORLD(a_worker_that_died_is_replaced_when_its_node_is_well),
        IN_A_WORLD(its_nodes_are_free_where_the_coordinator_ends_between_two_attempts),
        IN_A_WORLD(its_nodes_are_free_where_it_cannot_go_on_at_once),
        IN_A_WORLD(it_goes_on_at_once_however_many_wait_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
