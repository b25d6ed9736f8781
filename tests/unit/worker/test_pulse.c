/* The pulse against a real redis-server: everything arrives, counters add up, control comes down,
 * and training continues while Redis is away. */
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "job/row.h"
#include "job/seal.h"
#include "store/store.h"
#include "worker/pulse/pulse.h"

enum { WORKERS = 2 };

struct place {
    char *dir;
    char url[512];
    int pid;
    struct store *store;
    struct pulse *pulse;
    struct telemetry t;
};

static volatile sig_atomic_t stop_signal;
static const struct sign_key seal = {{5}};
static char job[STORE_ID]; /* of the current test: a pulse only reports for an existing job */

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    int sizes[WORKERS] = {100, 28};
    p->dir = make_folder();
    OK(redis_private_start(p->dir, p->url, &p->pid, &err_));
    p->store = store_open(p->url, NULL, &err_);
    assert_non_null(p->store);
    json_t *spec = json_pack("{s:s}", "name", "pulse");
    OK(store_job_create(p->store, spec, 0, NULL, NULL, job, &err_));
    json_decref(spec);
    stop_signal = 0;
    struct pulse_config c = {.url = p->url,
                             .job = job,
                             .node = "slow",
                             .seal = &seal,
                             .rank = 0,
                             .attempt = 3,
                             .workers = WORKERS,
                             .reads_control = true,
                             .first_version = 1,
                             .first_sizes = sizes,
                             .stop = &stop_signal};
    p->pulse = pulse_start(&c, &err_);
    assert_non_null(p->pulse);
    pulse_telemetry(p->pulse, &p->t);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    pulse_stop(p->pulse, 1);
    store_close(p->store);
    redis_private_stop(p->dir);
    remove_folder(p->dir);
    free(p);
    return 0;
}

static struct row row_at(int64_t step)
{
    struct row r = {.rank = 0,
                    .step = step,
                    .local_step = step,
                    .epoch = 0.5,
                    .batch = 10,
                    .loss = 0.25f,
                    .staleness = (int32_t)(step % 4)};
    return r;
}

struct seen {
    int64_t rows, last;
    bool ordered, sealed;
};

static int on_rows(void *ctx, const struct store_rows *entry, struct err *e)
{
    struct seen *s = ctx;
    for (int i = 0; i < entry->n; i++) {
        const struct row *row = &entry->rows[i];
        s->ordered = s->ordered && row->step > s->last && row->attempt == 3;
        s->last = row->step;
        s->rows++;
    }
    struct sign_key rows, sum, told;
    seal_of_rows(&seal, &rows);
    sign_bytes(&rows, entry->packed, entry->bytes, &sum);
    s->sealed = s->sealed && sign_unhex(entry->seal, &told, NULL) == 0 && sign_same(&told, &sum);
    (void)e;
    return 0;
}

static struct seen read_rows(struct place *p, int64_t until)
{
    struct seen s = {.ordered = true, .sealed = true};
    char last[STORE_PLACE] = "0-0";
    struct store_tail tail = {0, last};
    const struct store_rows_ask ask = {
        .tails = &tail, .n = 1, .count = 1000, .fn = on_rows, .ctx = &s};
    for (double by = clock_now() + 60; s.last < until && clock_now() < by;) {
        store_rows_read(p->store, job, &ask, &err_);
    }
    return s;
}

static void every_row_arrives_once_and_in_order(void **state)
{
    struct place *p = *state;
    for (int64_t i = 1; i <= 5000; i++) {
        struct row r = row_at(i);
        p->t.row(p->t.ctx, &r);
    }
    struct seen s = read_rows(p, 5000);
    assert_int_equal(s.rows, 5000);
    assert_true(s.ordered && s.sealed);
}

static json_t *beat_with(struct place *p, const char *key, int64_t value)
{
    for (double by = clock_now() + 60; clock_now() < by;) {
        json_t *beats = store_beats(p->store, job, 1, &err_),
               *beat = json_incref(json_object_get(beats, "0"));
        json_decref(beats);
        if (beat && json_integer_value(json_object_get(beat, key)) == value) {
            return beat;
        }
        json_decref(beat);
    }
    fail_msg("no heartbeat came with %s = %lld", key, (long long)value);
    return NULL;
}

/* The number of a document that this rank has sealed with its key. */
static int64_t number_of(const json_t *claimed, const char *kind)
{
    json_t *j = sign_open(&seal, kind, jsonx_string_at(claimed, "sealed"), &err_);
    if (!j) {
        fail_msg("%s", err_.message);
    }
    int64_t n = (int64_t)json_integer_value(json_object_get(j, "number"));
    json_decref(j);
    return n;
}

static void facts_and_heartbeats_are_sealed_and_numbered(void **state)
{
    struct place *p = *state;
    char last[STORE_PLACE] = "0-0";
    struct evaluation v = {.step = 16, .epoch = 1, .samples = 100};
    json_t *told = json_array();
    for (int i = 0; i < 2; i++) {
        p->t.evaluated(p->t.ctx, &v);
    }
    for (double by = clock_now() + 60; json_array_size(told) < 2 && clock_now() < by;) {
        json_t *more = store_facts_read(p->store, job, last, 10, &err_);
        json_array_extend(told, more);
        json_decref(more);
    }
    assert_int_equal(json_array_size(told), 2);
    int64_t first = number_of(json_array_get(told, 0), SEAL_FACT);
    assert_true(first > 0 && number_of(json_array_get(told, 1), SEAL_FACT) > first);
    json_t *beat = beat_with(p, "updates", 0);
    assert_true(number_of(beat, SEAL_BEAT) > 0);
    json_decref(beat);
    json_decref(told);
}

static void counters_in_the_heartbeat_are_cumulative(void **state)
{
    struct place *p = *state;
    for (int64_t i = 1; i <= 400; i++) {
        struct row r = row_at(i);
        p->t.row(p->t.ctx, &r);
    }
    p->t.phase(p->t.ctx, PHASE_COMPUTE);
    json_t *beat = beat_with(p, "updates", 400);
    assert_int_equal(json_integer_value(json_object_get(beat, "samples")), 4000);
    assert_int_equal(json_integer_value(json_object_get(beat, "step")), 400);
    assert_string_equal(json_string_value(json_object_get(beat, "phase")), "computing");
    assert_string_equal(json_string_value(json_object_get(beat, "node")), "slow");
    struct staleness st;
    staleness_init(&st);
    assert_int_equal(staleness_read(&st, json_object_get(beat, "staleness")), 0);
    assert_int_equal(st.count, 400);
    assert_int_equal(st.histogram[3], 100);
    staleness_release(&st);
    json_decref(beat);
}

static void steps_that_are_undone_count_no_more_and_are_sent_once(void **state)
{
    struct place *p = *state;
    for (int64_t i = 1; i <= 10; i++) {
        struct row r = row_at(i);
        r.staleness = 0;
        p->t.row(p->t.ctx, &r);
    }
    p->t.undone(p->t.ctx, 0, 4, 40);
    json_decref(beat_with(p, "updates", 6));
    for (int64_t i = 7; i <= 12; i++) {
        struct row r = row_at(i);
        r.staleness = 0;
        p->t.row(p->t.ctx, &r);
    }
    json_t *beat = beat_with(p, "updates", 12);
    assert_int_equal(json_integer_value(json_object_get(beat, "samples")), 120);
    assert_int_equal(json_integer_value(json_object_get(beat, "rows_dropped")), 0);
    json_decref(beat);
    struct seen s = read_rows(p, 12);
    assert_true(s.ordered);
    assert_int_equal(s.rows, 12);
}

static int64_t beat_time(struct place *p)
{
    json_t *beats = store_beats(p->store, job, 1, &err_);
    int64_t at = json_integer_value(json_object_get(json_object_get(beats, "0"), "at"));
    json_decref(beats);
    return at;
}

/* Waits until this many heartbeats have come. */
static void wait_for_turns(struct place *p, int n)
{
    int64_t at = beat_time(p);
    for (double by = clock_now() + 60; n > 0 && clock_now() < by;) {
        int64_t next = beat_time(p);
        n -= next != at;
        at = next;
    }
    assert_int_equal(n, 0);
}

/* A document of this job, in which `asks` (a key) is true. */
static json_t *control_of(int attempt, int version, int workers, const int *sizes, const char *asks)
{
    struct control c = {
        .from = {.attempt = attempt, .rank = COORDINATOR}, .version = version, .workers = workers};
    snprintf(c.from.job, sizeof c.from.job, "%s", job);
    memcpy(c.sizes, sizes, (size_t)workers * sizeof *sizes);
    json_t *j = control_json(&c);
    json_object_set_new(j, asks, json_true());
    return j;
}

static void control_comes_down_and_a_checkpoint_is_asked_for_once(void **state)
{
    struct place *p = *state;
    struct control *c = calloc(1, sizeof *c);
    json_t *doc = control_of(3, 2, 2, (int[]){96, 32}, "checkpoint");
    p->t.control(p->t.ctx, c);
    assert_int_equal(c->version, 1);
    assert_int_equal(c->sizes[0], 100);
    OK(store_doc_set(p->store, job, "control", doc, &err_));
    bool asked = false;
    for (double by = clock_now() + 60; c->version < 2 && clock_now() < by;) {
        p->t.control(p->t.ctx, c);
        asked = asked || c->checkpoint;
    }
    assert_int_equal(c->version, 2);
    assert_int_equal(c->sizes[1], 32);
    assert_true(asked);
    json_object_set_new(doc, "version", json_integer(3));
    OK(store_doc_set(p->store, job, "control", doc, &err_));
    for (double by = clock_now() + 60; c->version < 3 && clock_now() < by;) {
        p->t.control(p->t.ctx, c);
        assert_false(c->checkpoint); /* it is still the same request */
    }
    assert_false(c->stop);
    stop_signal = 1;
    p->t.control(p->t.ctx, c);
    assert_true(c->stop);
    json_decref(doc);
    free(c);
}

static void sizes_for_another_number_of_workers_are_not_taken(void **state)
{
    struct place *p = *state;
    struct control *c = calloc(1, sizeof *c);
    json_t *doc = control_of(3, 9, 3, (int[]){1, 2, 3}, "pause");
    OK(store_doc_set(p->store, job, "control", doc, &err_));
    for (double by = clock_now() + 60; !c->pause && clock_now() < by;) {
        p->t.control(p->t.ctx, c);
    }
    assert_true(c->pause);
    assert_int_equal(c->version, 1);
    json_decref(doc);
    free(c);
}

static void control_of_another_attempt_is_not_followed(void **state)
{
    struct place *p = *state;
    struct control *c = calloc(1, sizeof *c);
    json_t *old = control_of(2, 9, WORKERS, (int[]){64, 64}, "stop"),
           *own = control_of(3, 2, WORKERS, (int[]){96, 32}, "pause");
    OK(store_doc_set(p->store, job, "control", old, &err_));
    wait_for_turns(p, 2); /* the first of them was complete: it has read the document */
    p->t.control(p->t.ctx, c);
    assert_false(c->stop);
    assert_int_equal(c->version, 1);
    OK(store_doc_set(p->store, job, "control", own, &err_));
    for (double by = clock_now() + 60; !c->pause && clock_now() < by;) {
        p->t.control(p->t.ctx, c);
        assert_false(c->stop);
    }
    assert_true(c->pause);
    assert_int_equal(c->version, 2);
    json_decref(old);
    json_decref(own);
    free(c);
}

static void the_last_fact_arrives_before_the_pulse_ends(void **state)
{
    struct place *p = *state;
    struct err why = {0};
    struct program_end end = {.there = true, .exit_code = 3};
    char last[32] = "0-0";
    err_set(&why, ERR_DATA, "the loss became NaN or infinite");
    pulse_ended(p->pulse, OUTCOME_FAILED, &why, &end);
    pulse_stop(p->pulse, 60);
    p->pulse = NULL;
    json_t *facts = store_facts_read(p->store, job, last, 10, &err_);
    const json_t *fact = json_array_get(facts, 0);
    assert_string_equal(json_string_value(json_object_get(fact, "outcome")), "failed");
    assert_string_equal(json_string_value(json_object_get(fact, "code")), "data");
    assert_string_equal(json_string_value(json_object_get(fact, "message")),
                        "the loss became NaN or infinite");
    const json_t *program = json_object_get(fact, "program");
    assert_int_equal(json_integer_value(json_object_get(program, "exit_code")), 3);
    json_decref(facts);
}

/* redis-server is stopped: the trainer's side continues, the oldest rows are dropped and counted,
 * and the rest arrives later. */
static void with_redis_away_training_goes_on_and_drops_are_counted(void **state)
{
    struct place *p = *state;
    enum { STEPS = 40000 };
    assert_true(p->pid > 1);
    assert_int_equal(kill(p->pid, SIGSTOP), 0);
    for (int64_t i = 1; i <= STEPS; i++) {
        struct row r = row_at(i);
        p->t.row(p->t.ctx, &r);
    }
    struct control *c = calloc(1, sizeof *c);
    p->t.control(p->t.ctx, c);
    assert_int_equal(c->version, 1);
    free(c);
    assert_int_equal(kill(p->pid, SIGCONT), 0);
    json_t *beat = beat_with(p, "updates", STEPS);
    int64_t dropped = json_integer_value(json_object_get(beat, "rows_dropped"));
    assert_true(dropped > 0);
    json_decref(beat);
    struct seen s = read_rows(p, STEPS);
    assert_int_equal(s.last, STEPS);
    assert_true(s.rows >=
                STEPS - dropped); /* a row that was taken while it was dropped counts as both */
}

int main(void)
{
#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST_(every_row_arrives_once_and_in_order),
        TEST_(facts_and_heartbeats_are_sealed_and_numbered),
        TEST_(counters_in_the_heartbeat_are_cumulative),
        TEST_(steps_that_are_undone_count_no_more_and_are_sent_once),
        TEST_(control_comes_down_and_a_checkpoint_is_asked_for_once),
        TEST_(sizes_for_another_number_of_workers_are_not_taken),
        TEST_(control_of_another_attempt_is_not_followed),
        TEST_(the_last_fact_arrives_before_the_pulse_ends),
        TEST_(with_redis_away_training_goes_on_and_drops_are_counted),
    };
    return cmocka_run_group_tests_name("pulse", tests, NULL, NULL);
}
