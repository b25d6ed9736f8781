/* Limits of the store's calls: one event, one row, a Redis that refuses to write, a connection that
 * is lost between two calls.
 */
#include "tests/unit/store/fixture.h"

#include "store/history.h"

static void tell(struct place *p, int n)
{
    json_t *body = json_object();
    for (int i = 0; i < n; i++) {
        OK(store_event(p->store, "", "log", body, &err_));
    }
    json_decref(body);
}

static void a_gap_is_told_also_where_a_single_event_is_left(void **state)
{
    struct place *p = *state;
    char last[STORE_PLACE] = "$";
    bool gap = true;
    tell(p, 1);
    json_decref(store_events_read(p->store, last, 10, 0, &gap, &err_));
    tell(p, 3);
    raw(p, "XTRIM es:events MAXLEN = 1");
    json_t *got = store_events_read(p->store, last, 10, 0, &gap, &err_);
    assert_int_equal(json_array_size(got), 1);
    assert_true(gap);
    json_decref(got);
    tell(p, 1);
    got = store_events_read(p->store, last, 10, 0, &gap, &err_);
    assert_int_equal(json_array_size(got), 1);
    assert_false(gap);
    json_decref(got);
}

/* A history that was closed after its first row recognises that row: it is not taken twice. */
static void the_first_row_is_known_to_the_next_process(void **state)
{
    struct place *p = *state;
    static const char *const nodes[] = {"only"};
    char dir[100];
    struct row row = {
        .step = 1, .local_step = 1, .time = 0.01, .loss = 1, .batch = 8, .attempt = 1};
    snprintf(dir, sizeof dir, "%s/job", p->dir);
    OK(proc_mkdirs(dir, 0755, &err_));
    for (int i = 0; i < 3; i++) {
        struct history *h = history_open(dir, 1, nodes, &err_);
        assert_non_null(h);
        OK(history_append(h, &row, 1, &err_));
        OK(history_flush(h, &err_));
        history_close(h);
        json_t *got = history_series(
            dir, &(struct series_ask){"train_loss", "step", NAN, NAN, 100, 0}, &err_);
        assert_int_equal((int)number_at(got, "/series/0/total_points"), 1);
        json_decref(got);
    }
}

/* Steps of a long job are converted to samples by a table of some steps. Between its entries the
 * line is straight, and with one minibatch it is straight everywhere. */
static void a_chart_by_samples_of_a_long_job_is_the_chart_by_steps(void **state)
{
    enum { STEPS = 40000, BATCH = 16 };
    struct place *p = *state;
    static const char *const nodes[] = {"only"};
    char dir[100];
    snprintf(dir, sizeof dir, "%s/long", p->dir);
    OK(proc_mkdirs(dir, 0755, &err_));
    struct history *h = history_open(dir, 1, nodes, &err_);
    for (int i = 1; i <= STEPS; i++) {
        struct row row = {.step = i,
                          .local_step = i,
                          .time = 0.01 * i,
                          .loss = (float)i,
                          .batch = BATCH,
                          .attempt = 1};
        OK(history_append(h, &row, 1, &err_));
    }
    OK(history_flush(h, &err_));
    history_close(h);
    json_t *steps = history_series(
               dir, &(struct series_ask){"train_loss", "step", NAN, NAN, 200, 0}, &err_),
           *samples = history_series(
               dir, &(struct series_ask){"train_loss", "samples", NAN, NAN, 200, 0}, &err_);
    size_t n = json_array_size(at(steps, "/series/0/x"));
    assert_int_equal(n, 200);
    assert_int_equal(json_array_size(at(samples, "/series/0/x")), n);
    for (size_t i = 0; i < n; i++) {
        char x[32], mean[32];
        snprintf(x, sizeof x, "/series/0/x/%zu", i);
        snprintf(mean, sizeof mean, "/series/0/mean/%zu", i);
        assert_float_equal(number_at(samples, x), BATCH * number_at(steps, x), 1e-6);
        assert_float_equal(number_at(samples, mean), number_at(steps, mean), 1e-6);
    }
    json_decref(steps);
    json_decref(samples);
}

/* Every kind of call: one command, a script, commands that are checked together. */
static void a_redis_without_memory_refuses_what_writes_and_says_so(void **state)
{
    struct place *p = *state;
    struct err e = {0};
    char id[STORE_ID];
    new_job(p->store, "{\"name\": \"x\"}", 0, id);
    raw(p, "CONFIG SET maxmemory 1");
    json_t *spec = json_of("{\"name\": \"y\"}");
    char other[STORE_ID];
    assert_true(store_job_create(p->store, spec, 0, NULL, NULL, other, &e) < 0);
    assert_non_null(strstr(e.message, "OOM"));
    json_decref(spec);
    err_clear(&e);
    assert_true(store_lease_set(p->store, "x", 60, &e) < 0);
    assert_non_null(strstr(e.message, "OOM"));
    enum job_state state_now;
    err_clear(&e);
    assert_int_equal(store_job_state(p->store, id, &state_now, &e), 0); /* reading goes on */
    raw(p, "CONFIG SET maxmemory 0");
    OK(store_lease_set(p->store, "x", 60, &err_));
}

/* As after a restart of Redis, which fails no call. */
static void a_connection_that_was_closed_meanwhile_is_opened_again(void **state)
{
    struct place *p = *state;
    for (int i = 0; i < 3; i++) {
        raw(p, "CLIENT KILL TYPE normal SKIPME yes");
        OK(store_lease_set(p->store, "y", 60, &err_));
        raw(p, "CLIENT KILL TYPE normal SKIPME yes");
        assert_int_equal(store_lease_there(p->store, "y", &err_), LEASE_HELD);
    }
}

/* A writer of heartbeats fills the hash; what the coordinator reads of it stays small. */
static void heartbeats_of_no_rank_and_huge_ones_are_not_read(void **state)
{
    struct place *p = *state;
    char id[STORE_ID], command[160];
    json_t *beat = json_of("{\"phase\":\"computing\"}");
    new_job(p->store, "{\"name\": \"a\"}", 0, id);
    OK(report_beat(p->store, id, 0, beat, &err_));
    snprintf(command, sizeof command,
             "EVAL for\ni=0,999\ndo\nredis.call('HSET','es:job:%s:beats','x'..i,'y')\nend 0", id);
    raw(p, command);
    snprintf(command, sizeof command, "SETRANGE huge %d x", 300 << 10);
    raw(p, command);
    snprintf(command, sizeof command,
             "EVAL redis.call('HSET','es:job:%s:beats','1',redis.call('GET','huge')) 0", id);
    raw(p, command);
    raw(p, "DEL huge");
    json_t *got = store_beats(p->store, id, 2, &err_);
    assert_int_equal(json_object_size(got), 2);
    assert_string_equal(text_at(got, "/0/phase"), "computing");
    assert_null(json_object_get(json_object_get(got, "1"), "sealed"));
    json_decref(got);
    json_decref(beat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_told_also_where_a_single_event_is_left),
        cmocka_unit_test(the_first_row_is_known_to_the_next_process),
        cmocka_unit_test(a_chart_by_samples_of_a_long_job_is_the_chart_by_steps),
        cmocka_unit_test(a_redis_without_memory_refuses_what_writes_and_says_so),
        cmocka_unit_test(heartbeats_of_no_rank_and_huge_ones_are_not_read),
        cmocka_unit_test(a_connection_that_was_closed_meanwhile_is_opened_again),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
