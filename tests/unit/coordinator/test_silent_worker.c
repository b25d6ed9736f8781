/* A worker whose heartbeats stand still (docs/decisions/0117). The control document names it, so
 * that its guard ends it; the other workers hear of it once it is dead.
 * tests/survival/test_silent_worker.py has the end of a real process.
 */
#include "tests/unit/coordinator/world.h"

static const char three[] = "{'workers': 3, 'strategy': {'type': 'asgd'}}";
static const int64_t long_ms = 30000; /* longer than any rank may be silent */

enum { KEEPER = 3, CONFIRMED = 2, GUARD_PATIENCE = 5 }; /* seconds */

/* All ranks are past the start, and one rank's last heartbeat is old. */
static struct world *world_with_silent(void **state, const char *job, int rank, char id[STORE_ID])
{
    struct world *w = world_running(state, 3, job, id);
    for (int r = 0; r <= KEEPER; r++) {
        say_beat(w, id, r, r == KEEPER ? PHASE_SERVE : PHASE_COMPUTE, 0, 0);
    }
    tick(w, 0.5);
    assert_int_equal(control_of(w, id).n_silent, 0);
    say_beat(w, id, rank, rank == KEEPER ? PHASE_SERVE : PHASE_COMPUTE, 0, 0);
    beat_age_set(w, id, rank, long_ms);
    return w;
}

static void guard_tells(struct world *w, const char *id)
{
    say_fact(w, id,
             "{'type': 'lost', 'rank': 1, 'message': 'exited on signal 9 (Killed)', 'number': "
             "4611686018427387904}");
    tick(w, 0.5);
}

static void assert_named(struct world *w, const char *id, bool named)
{
    struct control c = control_of(w, id);
    assert_int_equal(c.n_silent, named);
    assert_int_equal(c.n_lost, 0);
    assert_true(!named || c.silent[0] == 1);
    assert_int_equal(attempts_of(w, id), 1);
    assert_state(w, id, "running");
}

static void it_is_named_for_its_guard_and_the_others_hear_nothing(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_silent(state, three, 1, id);
    tick(w, 0.5);
    assert_named(w, id, false); /* one reading accuses no rank */
    pass(w, CONFIRMED);
    assert_named(w, id, true);
    int version = control_of(w, id).version;
    pass(w, GUARD_PATIENCE - CONFIRMED); /* and no rank is accused meanwhile */
    assert_named(w, id, true);
    assert_int_equal(control_of(w, id).version, version);
}

static void once_it_is_dead_the_others_go_on(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_silent(state, three, 1, id);
    pass(w, CONFIRMED);
    assert_named(w, id, true);
    guard_tells(w, id);
    struct control c = control_of(w, id);
    assert_true(c.n_silent == 0 && c.n_lost == 1 && c.lost[0] == 1 && c.sizes[1] == 0);
    pass(w, 2 * GUARD_PATIENCE);
    assert_int_equal(attempts_of(w, id), 1);
    assert_state(w, id, "running");
}

/* The rank's guard has already read its name, or is about to. */
static void one_that_wakes_up_stays_named(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_silent(state, three, 1, id);
    pass(w, CONFIRMED);
    assert_named(w, id, true);
    say_beat(w, id, 1, PHASE_COMPUTE, 0, 0);
    pass(w, 2 * GUARD_PATIENCE);
    assert_named(w, id, true);
    guard_tells(w, id);
    assert_int_equal(control_of(w, id).n_silent, 0);
}

static void another_coordinator_names_it_too(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_silent(state, three, 1, id);
    pass(w, CONFIRMED);
    assert_named(w, id, true);
    world_new_coordinator(w);
    pass(w, 15); /* at first the watchdog does not take silence for death */
    assert_named(w, id, true);
}

/* `node`: of the rank that is blamed for the end. */
static void assert_ended(struct world *w, const char *id, int rank, const char *node)
{
    char says[100];
    snprintf(says, sizeof says, "rank %d on node '%s' is lost: no heartbeat for", rank, node);
    assert_int_equal(attempts_of(w, id), 2);
    assert_int_equal(number_field(w, id, "restarts"), 1);
    assert_error(w, id, "peer", says);
}

/* The worker's host is away, or its guard stands still too. */
static void where_no_guard_tells_of_its_death_the_attempt_ends(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_silent(state, three, 1, id);
    pass(w, CONFIRMED);
    assert_named(w, id, true);
    pass(w, GUARD_PATIENCE + CONFIRMED);
    assert_ended(w, id, 1, "n2");
}

static void ends_at_once(void **state, const char *job, int rank, const char *node)
{
    char id[STORE_ID];
    struct world *w = world_with_silent(state, job, rank, id);
    pass(w, CONFIRMED);
    assert_ended(w, id, rank, node);
}

static void nothing_goes_on_without_the_keeper(void **state)
{
    ends_at_once(state, three, KEEPER, "keeper");
}

static void where_too_few_would_be_left_the_attempt_ends(void **state)
{
    ends_at_once(state, "{'workers': 3, 'min_workers': 3, 'strategy': {'type': 'asgd'}}", 1, "n2");
}

/* Heartbeats come again: the process lives. */
static void one_that_is_stuck_is_not_named(void **state)
{
    char id[STORE_ID];
    struct world *w = world_with_silent(state, three, 1, id);
    say_beat(w, id, 1, PHASE_COMPUTE, 1000, 0);
    pass(w, CONFIRMED);
    assert_int_equal(attempts_of(w, id), 2);
    assert_error(w, id, "peer", "rank 1 on node 'n2' is lost: no progress for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(it_is_named_for_its_guard_and_the_others_hear_nothing),
        IN_A_WORLD(once_it_is_dead_the_others_go_on),
        IN_A_WORLD(one_that_wakes_up_stays_named),
        IN_A_WORLD(another_coordinator_names_it_too),
        IN_A_WORLD(where_no_guard_tells_of_its_death_the_attempt_ends),
        IN_A_WORLD(nothing_goes_on_without_the_keeper),
        IN_A_WORLD(where_too_few_would_be_left_the_attempt_ends),
        IN_A_WORLD(one_that_is_stuck_is_not_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
