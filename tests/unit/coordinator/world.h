/* A small world for the tests of coordinator/: a private Redis in a temporary folder, a scheduler
 * whose clock is a number that the test moves, and a launcher that starts nothing. The test plays
 * the ranks: it writes their rows, heartbeats and facts into the store, and says when "mpirun" ends
 * and with which last words.
 *
 * Only the scheduler's clock is fake. Ages of heartbeats are Redis's, so a test of a rank that is
 * stuck says so in the heartbeat itself (progress_age, comm_age) and waits for nothing.
 */
#ifndef TESTS_COORDINATOR_WORLD_H
#define TESTS_COORDINATOR_WORLD_H

#include "tests/unit/store/fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "coordinator/turn/scheduler.h"
#include "job/documents/beat.h"
#include "job/documents/control.h"
#include "job/documents/fact.h"
#include "job/row.h"
#include "job/seal.h"

enum { FAKE_ATTEMPTS = 32, WORLD_NODES = 16 };

struct fake_attempt {
    char job[STORE_ID];
    int number;
    json_t *plan;
    bool over;
    int code, stops;
    char why[200];
};

struct fake {
    struct fake_attempt attempts[FAKE_ATTEMPTS];
    int n;
    int strangers; /* told to stop what it never started: leftovers of a dead coordinator */
    bool refuses;  /* nothing can be started */
    void (*on_start)(void *); /* or NULL: called in the middle of a start, once, with the world */
    void *world;
};

struct world {
    struct place *place;
    struct store *store; /* the place's */
    struct fake fake, simulated;
    struct launcher mpirun, simulator;
    struct sched *sched;
    struct quotas *quotas; /* NULL: none */
    json_t *nodes[WORLD_NODES];
    int n_nodes;
    int64_t told; /* facts and heartbeats so far: their numbers */
    double now;
};

/* ---- the launcher that starts nothing -------------------------------------------------------- */

static inline struct fake_attempt *fake_find(struct fake *f, const char *job, int number)
{
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->attempts[i].job, job) == 0 && f->attempts[i].number == number) {
            return &f->attempts[i];
        }
    }
    return NULL;
}

static inline int fake_start(void *ctx, struct attempt *a, const struct plan *plan, struct err *e)
{
    struct fake *f = ctx;
    if (f->refuses) {
        return err_set(e, ERR_IO, "cannot start 'mpirun': it is not there");
    }
    assert_true(f->n < FAKE_ATTEMPTS);
    assert_null(fake_find(f, a->job, a->number));
    struct fake_attempt *t = &f->attempts[f->n++];
    memset(t, 0, sizeof *t);
    snprintf(t->job, sizeof t->job, "%s", a->job);
    t->number = a->number;
    t->plan = plan_json(plan);
    a->pid = 0x7f000000 + f->n; /* above every real one */
    a->start_ticks = 1;
    if (f->on_start) {
        f->on_start(f->world);
        f->on_start = NULL;
    }
    return 0;
}

static inline bool fake_looked_for(void *ctx, struct attempt *a)
{
    struct fake *f = ctx;
    struct fake_attempt *t = fake_find(f, a->job, a->number);
    if (!t || t->over) {
        return false;
    }
    a->pid = 0x7f000000 + (int)(t - f->attempts) + 1;
    a->start_ticks = 1;
    return true;
}

static inline bool fake_poll(void *ctx, const struct attempt *a, int *exit_code, char *why,
                             size_t why_bytes)
{
    struct fake_attempt *t = fake_find(ctx, a->job, a->number);
    if (t && !t->over) {
        return false;
    }
    *exit_code = t ? t->code : -1;
    snprintf(why, why_bytes, "%s", t ? t->why : "");
    return true;
}

static inline void fake_stop(void *ctx, const struct attempt *a, double grace)
{
    struct fake *f = ctx;
    struct fake_attempt *t = fake_find(f, a->job, a->number);
    (void)grace;
    if (!t) {
        f->strangers++;
        return;
    }
    if (!t->over) {
        t->over = true;
        t->code = 143;
        t->stops++;
    }
}

/* ---- the world ------------------------------------------------------------------------------- */

static inline void world_coordinator(struct world *w)
{
    static const char roots[] = "/nowhere";
    struct sched_config c = {.store = w->store,
                             .data_dir = w->place->dir,
                             .roots = roots,
                             .local_host = "here",
                             .virtual_jobs = 1,
                             .mpirun = &w->mpirun,
                             .simulator = &w->simulator,
                             .quotas = w->quotas};
    assert_non_null(w->sched = sched_new(&c, &err_));
}

/* As after a kill -9: what was in memory is gone, what was started goes on. */
static inline void world_new_coordinator(struct world *w)
{
    sched_free(w->sched);
    world_coordinator(w);
}

static inline int world_open(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    if (place_open((void **)&w->place) < 0) {
        return -1;
    }
    err_clear(&err_);
    w->store = w->place->store;
    w->mpirun =
        (struct launcher){&w->fake, "fake", fake_start, fake_looked_for, fake_poll, fake_stop};
    w->simulator = (struct launcher){&w->simulated,   "simulator", fake_start,
                                     fake_looked_for, fake_poll,   fake_stop};
    w->now = 1000;
    world_coordinator(w);
    *state = w;
    return 0;
}

static inline int world_close(void **state)
{
    struct world *w = *state;
    sched_free(w->sched);
    quotas_close(w->quotas);
    for (int i = 0; i < FAKE_ATTEMPTS; i++) {
        json_decref(w->fake.attempts[i].plan);
        json_decref(w->simulated.attempts[i].plan);
    }
    for (int i = 0; i < w->n_nodes; i++) {
        json_decref(w->nodes[i]);
    }
    place_close((void **)&w->place);
    free(w);
    return 0;
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, world_open, world_close)

static inline void world_node(struct world *w, const char *name, double slowdown)
{
    json_t *node = json_pack("{s:s, s:s, s:s, s:i, s:f, s:{}, s:I}", "name", name, "host", "here",
                             "device", "cpu:1", "threads", 1, "slowdown", slowdown, "labels",
                             "memory_bytes", (json_int_t)1 << 30);
    assert_true(w->n_nodes < WORLD_NODES);
    w->nodes[w->n_nodes++] = node;
    OK(store_node_put(w->store, node, &err_));
}

static inline void world_node_gone(struct world *w, const char *name)
{
    for (int i = 0; i < w->n_nodes; i++) {
        if (strcmp(json_string_value(json_object_get(w->nodes[i], "name")), name) == 0) {
            json_decref(w->nodes[i]);
            w->nodes[i] = w->nodes[--w->n_nodes];
            break;
        }
    }
    OK(store_node_remove(w->store, name, &err_));
}

/* One turn, `seconds` after the last. */
static inline void tick(struct world *w, double seconds)
{
    w->now += seconds;
    sched_tick(w->sched, w->now);
}

/* Many turns, so close together that the scheduler does not think that it was asleep itself. */
static inline void pass(struct world *w, double seconds)
{
    double until = w->now + seconds;
    while (w->now < until) {
        tick(w, 0.5);
    }
    for (int i = 0; i < w->n_nodes; i++) {
        store_node_put(w->store, w->nodes[i], NULL);
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* JSON written with single quotes, so that C can be read. */
static inline json_t *quoted(const char *single)
{
    char text[1500];
    snprintf(text, sizeof text, "%s", single);
    for (char *c = text; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    return json_of(text);
}

/* A spec that runs on one worker, with what `changes` says. */
static inline json_t *world_spec(const char *changes)
{
    json_t *spec = json_of(
        "{\"name\": \"test\", \"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", \"samples\": 1000, \"test_samples\": 100},"
        " \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.05}, \"strategy\": {\"type\": \"sync\"},"
        " \"batching\": {\"global_batch\": 64, \"policy\": \"equal\"}, \"workers\": 1, \"epochs\": 10, \"seed\": 1}");
    json_t *j = quoted(changes);
    json_object_update(spec, j);
    json_decref(j);
    return spec;
}

/* owner: NULL for nobody's. */
static inline void submit_as(struct world *w, const char *owner, const char *changes,
                             char id[STORE_ID])
{
    json_t *spec = world_spec(changes);
    OK(store_job_create(w->store, spec, (int)json_integer_value(json_object_get(spec, "priority")),
                        NULL, owner, id, &err_));
    json_decref(spec);
}

static inline void submit(struct world *w, const char *changes, char id[STORE_ID])
{
    submit_as(w, NULL, changes, id);
}

static inline const char *state_of(struct world *w, const char *id)
{
    enum job_state state = JOB_FAILED;
    OK(store_job_state(w->store, id, &state, &err_));
    return jobstate_name(state);
}

#define assert_state(w, id, expected) assert_string_equal(state_of(w, id), expected)

/* What the job's JSON says at a path; new reference of the whole in *whole. */
static inline json_t *job_of(struct world *w, const char *id)
{
    json_t *job = store_job_get(w->store, id, &err_);
    assert_non_null(job);
    return job;
}

static inline int number_of(struct world *w, const char *id, const char *path)
{
    json_t *job = job_of(w, id);
    int n = (int)number_at(job, path);
    json_decref(job);
    return n;
}

static inline void assert_text_of(struct world *w, const char *id, const char *path,
                                  const char *expected)
{
    json_t *job = job_of(w, id);
    assert_string_equal(text_at(job, path), expected);
    json_decref(job);
}

/* A number among the job's fields in the store. */
static inline int number_field(struct world *w, const char *id, const char *field)
{
    char *text = store_job_field(w->store, id, field, &err_);
    int n = text ? (int)strtol(text, NULL, 10) : 0;
    free(text);
    return n;
}

static inline void assert_error(struct world *w, const char *id, const char *code,
                                const char *part_of_message)
{
    json_t *job = job_of(w, id);
    assert_string_equal(text_at(job, "/error/code"), code);
    if (!strstr(text_at(job, "/error/message"), part_of_message)) {
        fail_msg("'%s' is not in '%s'", part_of_message, text_at(job, "/error/message"));
    }
    json_decref(job);
}

static inline void ask(struct world *w, const char *id, const char *what)
{
    OK(store_job_request(w->store, id, what, &err_));
}

/* The attempt of this job that was started last. */
static inline struct fake_attempt *last_attempt(struct world *w, const char *id)
{
    for (int i = w->fake.n - 1; i >= 0; i--) {
        if (strcmp(w->fake.attempts[i].job, id) == 0) {
            return &w->fake.attempts[i];
        }
    }
    fail_msg("job %s was never started", id);
    return NULL;
}

static inline int attempts_of(struct world *w, const char *id)
{
    int n = 0;
    for (int i = 0; i < w->fake.n; i++) {
        n += strcmp(w->fake.attempts[i].job, id) == 0;
    }
    return n;
}

/* ---- the ranks, played by the test ----------------------------------------------------------- */

static inline int workers_of(const struct fake_attempt *t)
{
    return (int)json_array_size(json_object_get(t->plan, "workers"));
}

/* What is said from now on is sealed with the key of this attempt's ranks on the coordinator's host;
 * of an attempt that never was, with zeros. */
static inline void seal_as(struct world *w, const char *id, int attempt)
{
    char path[200];
    struct sign_key key = {{0}};
    snprintf(path, sizeof path, "%s/jobs/%s/seals/%d", w->place->dir, id, attempt);
    char *text = proc_read_file(path, 1 << 20, NULL, NULL);
    if (text) {
        text[SIGN_HEX - 1] = 0;
        assert_int_equal(sign_unhex(text, &key, NULL), 0);
    }
    free(text);
    store_seal_with(w->store, &key);
}

static inline void say_row(struct world *w, const char *id, const struct row *row)
{
    seal_as(w, id, row->attempt);
    OK(report_rows(w->store, id, row->rank, row, 1, &err_));
}

/* Rank 0 or the keeper, whoever tells such a fact. */
static inline int teller_of(struct world *w, const char *id, const json_t *fact)
{
    const char *type = jsonx_string_at(fact, "type");
    bool keepers =
        strcmp(type, "restored") == 0 || strcmp(type, "loaded") == 0 ||
        (strcmp(type, "ended") == 0 && strcmp(jsonx_string_at(fact, "outcome"), "failed") != 0);
    return keepers ? workers_of(last_attempt(w, id)) : 0;
}

/* What a test leaves out is filled in as a rank of this attempt would write it. */
static inline void say_fact_of(struct world *w, const char *id, int attempt, const char *text)
{
    json_t *given = quoted(text),
           *fact = json_pack("{s:i, s:s, s:i, s:i, s:I, s:s, s:s, s:s, s:b}", "format", FACT_FORMAT,
                             "job", id, "attempt", attempt, "rank", teller_of(w, id, given),
                             "number", (json_int_t)++w->told, "node", "n1", "code", "none",
                             "message", "", "final", 0);
    json_object_update(fact, given);
    seal_as(w, id, attempt);
    OK(store_fact_add(w->store, id, fact, &err_));
    json_decref(fact);
    json_decref(given);
}

static inline void say_fact(struct world *w, const char *id, const char *text)
{
    say_fact_of(w, id, last_attempt(w, id)->number, text);
}

static inline struct beat beat_of(struct world *w, const char *id, int rank, enum phase phase)
{
    struct beat b = {.from = {.attempt = last_attempt(w, id)->number, .rank = rank},
                     .number = ++w->told,
                     .phase = phase};
    snprintf(b.from.job, sizeof b.from.job, "%s", id);
    snprintf(b.node, sizeof b.node, "n%d", rank + 1);
    return b;
}

static inline void say_beat_of(struct world *w, const char *id, const struct beat *b)
{
    json_t *j = beat_json(b);
    seal_as(w, id, b->from.attempt);
    OK(report_beat(w->store, id, b->from.rank, j, &err_));
    json_decref(j);
}

static inline void say_ages(struct world *w, const char *id, int rank, enum phase phase,
                            double progress_age, double work_age, double comm_age)
{
    struct beat b = beat_of(w, id, rank, phase);
    b.progress_age = progress_age;
    b.work_age = work_age;
    b.comm_age = comm_age;
    say_beat_of(w, id, &b);
}

/* Of a rank that has not worked since its last progress. */
static inline void say_beat(struct world *w, const char *id, int rank, enum phase phase,
                            double progress_age, double comm_age)
{
    say_ages(w, id, rank, phase, progress_age, progress_age, comm_age);
}

/* Heartbeats of all workers that count so many samples in all. */
static inline void say_samples(struct world *w, const char *id, int64_t samples)
{
    int workers = workers_of(last_attempt(w, id));
    for (int r = 0; r < workers; r++) {
        struct beat b = beat_of(w, id, r, PHASE_DONE);
        b.samples = samples / workers + (r < samples % workers);
        say_beat_of(w, id, &b);
    }
}

/* … that count all samples of the job's epochs. */
static inline void say_all_samples(struct world *w, const char *id)
{
    json_t *plan = last_attempt(w, id)->plan;
    say_samples(w, id,
                (int64_t)(number_at(plan, "/spec/epochs") * number_at(plan, "/spec/data/samples")));
}

/* Every worker of the newest attempt reports its rows from step `from` to step `to`; each took
 * `seconds`. */
static inline void ranks_step(struct world *w, const char *id, int from, int to, double seconds)
{
    struct fake_attempt *t = last_attempt(w, id);
    for (int step = from; step <= to; step++) {
        for (int r = 0; r < workers_of(t); r++) {
            int batch = (int)json_integer_value(json_array_get(
                json_object_get(json_object_get(t->plan, "first"), "sizes"), (size_t)r));
            struct row row = {.step = step,
                              .local_step = step,
                              .time = step * seconds,
                              .epoch = step * 0.01,
                              .loss = 1.0f,
                              .compute_seconds = (float)seconds,
                              .batch = batch,
                              .rank = (int16_t)r,
                              .attempt = (int16_t)t->number};
            say_row(w, id, &row);
        }
    }
}

/* "mpirun" ends. */
static inline void process_ends(struct world *w, const char *id, int code, const char *why)
{
    struct fake_attempt *t = last_attempt(w, id);
    t->over = true;
    t->code = code;
    snprintf(t->why, sizeof t->why, "%s", why);
}

/* Queued, started, stepping. */
static inline void start_job(struct world *w, const char *changes, char id[STORE_ID])
{
    submit(w, changes, id);
    tick(w, 0.5);
    assert_state(w, id, "launching");
    ranks_step(w, id, 1, 1, 0.01);
    tick(w, 0.5);
    assert_state(w, id, "running");
}

/* ---- where tests begin: a world with n equal nodes, n1, n2 …; and a job of which some of its way
 * is done */

static inline struct world *world_with(void **state, int nodes)
{
    struct world *w = *state;
    for (int i = 1; i <= nodes; i++) {
        char name[12];
        snprintf(name, sizeof name, "n%d", i);
        world_node(w, name, 1);
    }
    return w;
}

/* The scheduler has had one turn since. */
static inline struct world *world_submitted(void **state, int nodes, const char *changes,
                                            char id[STORE_ID])
{
    struct world *w = world_with(state, nodes);
    submit(w, changes, id);
    tick(w, 0.5);
    return w;
}

static inline struct world *world_running(void **state, int nodes, const char *changes,
                                          char id[STORE_ID])
{
    struct world *w = world_with(state, nodes);
    start_job(w, changes, id);
    return w;
}

/* Its ranks have told of so many steps, of 10 ms; the scheduler has read the first. */
static inline struct world *world_stepping(void **state, int nodes, const char *changes, int steps,
                                           char id[STORE_ID])
{
    struct world *w = world_running(state, nodes, changes, id);
    ranks_step(w, id, 2, steps, 0.01);
    return w;
}

/* ---- and how they go on ---------------------------------------------------------------------- */

static inline void end_well(struct world *w, const char *id, const char *outcome)
{
    char fact[100];
    snprintf(fact, sizeof fact, "{'type': 'ended', 'outcome': '%s'}", outcome);
    if (strcmp(outcome, "finished") == 0) {
        say_all_samples(w, id);
    }
    say_fact(w, id, fact);
    process_ends(w, id, 0, "");
}

/* Asked, or ended, and the scheduler's next turn has come. */
static inline void asked(struct world *w, const char *id, const char *what)
{
    ask(w, id, what);
    tick(w, 0.5);
}

static inline void ended(struct world *w, const char *id, const char *outcome)
{
    end_well(w, id, outcome);
    tick(w, 0.5);
}

static inline const char *node_state(struct world *w, const char *name)
{
    static char state[32];
    json_t *node = store_node_get(w->store, name, &err_);
    assert_non_null(node);
    snprintf(state, sizeof state, "%s", text_at(node, "/state"));
    json_decref(node);
    return state;
}

/* What the workers are told now. */
static inline bool control_says(struct world *w, const char *id, const char *key)
{
    json_t *control = store_doc_get(w->store, id, "control", &err_);
    bool yes = json_is_true(json_object_get(control, key));
    json_decref(control);
    return yes;
}

#endif
