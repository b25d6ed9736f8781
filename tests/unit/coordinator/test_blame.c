/* Whose failure it was when an attempt is lost: a node's, which then rests (store/node_rest.c); a
 * host's, which is waited for (coordinator/turn/run/end.c); and how soon the next attempt follows
 * (attempts_back_off). */
#include "job/hostkey.h"
#include "tests/unit/coordinator/world.h"

static const char killed[] =
    "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 9 (Killed).";

/* A number of the node's document. */
static double of_node(struct world *w, const char *name, const char *path)
{
    json_t *node = store_node_get(w->store, name, &err_);
    double n = number_at(node, path);
    json_decref(node);
    return n;
}

static void a_node_that_fails_every_attempt_rests_and_the_job_goes_on_without_it(void **state)
{
    char id[STORE_ID];
    struct world *w = *state;
    world_node(w, "bad", 1); /* the fastest, so each attempt would take it */
    world_node(w, "good", 2);
    start_job(w, "{'max_restarts': 2}", id);
    for (int attempt = 1; attempt <= 2; attempt++) {
        assert_int_equal(attempts_of(w, id), attempt);
        assert_string_equal(node_state(w, "bad"), "busy");
        process_ends(w, id, 137, killed);
        pass(w, 1);
    }
    assert_string_equal(node_state(w, "bad"), "resting");
    assert_true(of_node(w, "bad", "/rest/seconds") > 5 && of_node(w, "bad", "/failures") == 2);
    json_t *node = store_node_get(w->store, "bad", &err_);
    assert_non_null(strstr(text_at(node, "/rest/reason"), "rank 0 on node 'bad' is lost"));
    json_decref(node);
    assert_string_equal(node_state(w, "good"), "busy");
    ranks_step(w, id, 1, 1, 0.01);
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
}

/* One whose clock is off, say: the job has done nothing wrong, and goes on elsewhere. */
static void a_host_that_starts_no_daemon_rests_and_no_restart_is_counted(void **state)
{
    char id[STORE_ID];
    struct world *w = *state;
    world_node(w, "bad", 1);
    world_node(w, "good", 2);
    json_object_update_new(w->nodes[1], json_pack("{s:s, s:b, s:s}", "host", "other", "agent", 1,
                                                  "address", "127.0.0.1"));
    OK(node_beats(w, w->nodes[1]));
    start_job(w, "{'max_restarts': 0}", id);
    for (int attempt = 1; attempt <= 2; attempt++) {
        assert_int_equal(attempts_of(w, id), attempt);
        assert_string_equal(node_state(w, "bad"), "busy");
        process_ends(w, id, 1,
                     "ts=2026 level=error mod=launch msg=\"" HOSTKEY_NO_DAEMON
                     "\" host=here why=\"made \\\"3600 s\\\" ago\"");
        pass(w, 1);
    }
    json_t *node = store_node_get(w->store, "bad", &err_);
    assert_string_equal(text_at(node, "/rest/reason"),
                        "attempt 2 did not start: made \"3600 s\" ago");
    json_decref(node);
    assert_string_equal(node_state(w, "good"), "busy");
    assert_int_equal(attempts_of(w, id), 3);
}

/* As if its rest were over. */
static void rested(struct world *w)
{
    raw(w->place, "HSET es:node:n1 rest_until 1");
}

static void
after_its_rest_one_attempt_brings_a_node_back_or_makes_it_rest_twice_as_long(void **state)
{
    char id[STORE_ID];
    double before = 0;
    struct world *w = world_running(state, 1, "{'max_restarts': 10}", id);
    for (int attempt = 1; attempt <= 4; attempt++) {
        process_ends(w, id, 137, killed);
        pass(w, 1);
        if (attempt > 1) {
            double rest = of_node(w, "n1", "/rest/seconds");
            assert_string_equal(node_state(w, "n1"), "resting");
            assert_int_equal(attempts_of(w, id), attempt);
            assert_true(before == 0 || (rest > 1.5 * before && rest < 2.5 * before));
            before = rest;
            rested(w);
            pass(w, 10);
        }
        assert_int_equal(attempts_of(w, id), attempt + 1);
    }
    assert_int_equal((int)of_node(w, "n1", "/failures"), 4);
    ranks_step(w, id, 1, 1, 0.01);
    ended(w, id, "finished");
    assert_int_equal((int)of_node(w, "n1", "/failures"), 0);
    assert_string_equal(node_state(w, "n1"), "ready");
}

static void what_the_data_cause_is_no_nodes_failure(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    say_fact(w, id,
             "{'type': 'ended', 'outcome': 'failed', 'code': 'data', 'message': 'the loss became "
             "NaN', 'rank': 0, 'node': 'n1'}");
    process_ends(w, id, 1, "");
    pass(w, 1);
    assert_state(w, id, "failed");
    assert_int_equal((int)of_node(w, "n1", "/failures"), 0);
}

static void attempts_that_end_at_once_follow_each_other_ever_later(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'max_restarts': 30}", id);
    int early = 0;
    for (double at = 0; at < 180; at += 0.5) {
        if (!last_attempt(w, id)->over) {
            process_ends(w, id, 1, "");
        }
        pass(w, 0.5);
        early = at < 4 ? attempts_of(w, id) : early;
    }
    assert_in_range(early, 3, 5);
    assert_in_range(attempts_of(w, id), 8, 11); /* pauses of 1, 2, 4 … 60, 60 s */
    assert_text_of(w, id, "/state", "queued");
}

static void an_attempt_that_lived_for_a_while_is_followed_at_once(void **state)
{
    char id[STORE_ID];
    struct world *w = world_submitted(state, 1, "{'max_restarts': 30}", id);
    for (int i = 1; i <= 6; i++) {
        assert_int_equal(attempts_of(w, id), i);
        ranks_step(w, id, 1, 1, 0.01);
        pass(w, 31);
        process_ends(w, id, 1, "");
        pass(w, 1);
    }
    assert_int_equal(attempts_of(w, id), 7);
}

/* n1 has an agent; an attempt on it has just ended without a word, as when its host died. */
static struct world *world_with_a_dead_host(void **state, char id[STORE_ID])
{
    struct world *w = world_with(state, 1);
    json_object_set_new(w->nodes[0], "agent", json_true());
    json_object_set_new(w->nodes[0], "address", json_string("127.0.0.1"));
    OK(node_beats(w, w->nodes[0]));
    start_job(w, "{}", id);
    process_ends(w, id, 1, "ORTE has lost communication with a remote daemon.");
    OK(node_beat_age_set(w, "n1", 1000)); /* its last heartbeat came before that */
    tick(w, 0.5);
    tick(w, 0.5);
    assert_int_equal(attempts_of(w, id), 1);
    assert_string_equal(node_state(w, "n1"), "busy");
    return w;
}

static void after_its_agents_death_a_host_is_ready_when_its_new_agent_has_joined(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_a_dead_host(state, id);
    OK(node_beats(w, w->nodes[0]));
    tick(w, 0.5);
    tick(w, 0.5);
    assert_int_equal(attempts_of(w, id), 2);
}

static void a_host_that_stays_silent_is_lost_and_gets_no_attempt(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_a_dead_host(state, id);
    OK(node_beat_age_set(w, "n1", 5000));
    for (int i = 0; i < 20; i++) {
        tick(w, 0.5);
    }
    assert_state(w, id, "queued");
    assert_string_equal(node_state(w, "n1"), "lost");
    assert_int_equal(attempts_of(w, id), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_node_that_fails_every_attempt_rests_and_the_job_goes_on_without_it),
        IN_A_WORLD(a_host_that_starts_no_daemon_rests_and_no_restart_is_counted),
        IN_A_WORLD(after_its_rest_one_attempt_brings_a_node_back_or_makes_it_rest_twice_as_long),
        IN_A_WORLD(what_the_data_cause_is_no_nodes_failure),
        IN_A_WORLD(attempts_that_end_at_once_follow_each_other_ever_later),
        IN_A_WORLD(an_attempt_that_lived_for_a_while_is_followed_at_once),
        IN_A_WORLD(after_its_agents_death_a_host_is_ready_when_its_new_agent_has_joined),
        IN_A_WORLD(a_host_that_stays_silent_is_lost_and_gets_no_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
