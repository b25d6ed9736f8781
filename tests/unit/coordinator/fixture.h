/* A small world for the tests of coordinator/: a private Redis in a temporary folder, a scheduler
 * whose clock is a number that the test moves, launchers that start nothing, and functions that
 * read jobs from the store.
 *
 * The scheduler's clock is fake; that of Redis is not. So that no test depends on the speed of the
 * machine, heartbeats of nodes and ranks have a time that Redis has not reached: their age is 0. A
 * test of a stuck rank says so in the heartbeat itself (progress_age, comm_age), and a test of a
 * silent node sets the age of the node's heartbeat.
 */
#ifndef TESTS_COORDINATOR_FIXTURE_H
#define TESTS_COORDINATOR_FIXTURE_H

#include "tests/unit/coordinator/fake_launcher.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "coordinator/turn/scheduler.h"

enum { WORLD_NODES = 16 };
static const int64_t world_ahead_ms = 1000000000; /* how far heartbeats are ahead of Redis */

struct world {
    struct place *place;
    struct store *store; /* of the place */
    struct fake fake, simulated;
    struct launcher mpirun, simulator;
    struct sched *sched;
    struct quotas *quotas; /* NULL: none */
    json_t *nodes[WORLD_NODES];
    int n_nodes;
    int64_t told;  /* facts and heartbeats so far, which numbers them */
    int64_t beats; /* heartbeats of ranks so far, which gives their times */
    double now;
};

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
                             .quotas = w->quotas,
                             .growth = {.settle = 4, .every = 12, .worth = 3}};
    assert_non_null(w->sched = sched_new(&c, &err_));
}

/* A new coordinator after a kill -9: memory is lost, started processes continue. */
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

/* Sets the age of the node's last heartbeat, in ms by the clock of Redis. Negative while the store
 * is away. */
static inline int node_beat_age_set(struct world *w, const char *name, int64_t ms)
{
    static const char script[] =
        "local t = redis.call('TIME') "
        "local at = t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[1] "
        "return redis.call('HSET', KEYS[1], 'at', string.format('%d', at))";
    redisContext *c = redisConnectUnix(w->place->url + strlen("unix:"));
    redisReply *r =
        c && !c->err ? redisCommand(c, "EVAL %s 1 es:node:%s %" PRId64, script, name, ms) : NULL;
    int rc = r && r->type != REDIS_REPLY_ERROR ? 0 : -1;
    freeReplyObject(r);
    redisFree(c);
    return rc;
}

/* Sends a heartbeat of the node. Negative while the store is away. */
static inline int node_beats(struct world *w, const json_t *node)
{
    const char *name = json_string_value(json_object_get(node, "name"));
    int rc = store_node_put(w->store, node, &err_);
    return rc < 0 ? rc : node_beat_age_set(w, name, -world_ahead_ms);
}

static inline void world_node(struct world *w, const char *name, double slowdown)
{
    json_t *node = json_pack("{s:s, s:s, s:s, s:i, s:f, s:{}, s:I}", "name", name, "host", "here",
                             "device", "cpu:1", "threads", 1, "slowdown", slowdown, "labels",
                             "memory_bytes", (json_int_t)1 << 30);
    assert_true(w->n_nodes < WORLD_NODES);
    w->nodes[w->n_nodes++] = node;
    OK(node_beats(w, node));
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

/* Makes one turn, `seconds` after the last one. */
static inline void tick(struct world *w, double seconds)
{
    w->now += seconds;
    sched_tick(w->sched, w->now);
}

/* Makes many turns, so close together that the scheduler does not think that it was asleep
 * itself. */
static inline void pass(struct world *w, double seconds)
{
    double until = w->now + seconds;
    while (w->now < until) {
        tick(w, 0.5);
    }
    for (int i = 0; i < w->n_nodes; i++) {
        node_beats(w, w->nodes[i]);
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Parses JSON with single quotes, which read well in C. */
static inline json_t *quoted(const char *single)
{
    char text[1500];
    snprintf(text, sizeof text, "%s", single);
    for (char *c = text; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    return json_of(text);
}

/* A spec that runs on one worker, with these changes. */
static inline json_t *world_spec(const char *changes)
{
    json_t *spec = json_of(
        "{\"name\": \"test\", \"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", "
        "\"samples\": 1000, \"test_samples\": 100},"
        " \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.05}, "
        "\"strategy\": {\"type\": \"sync\"},"
        " \"batching\": {\"global_batch\": 64, \"policy\": \"equal\"}, \"workers\": 1, "
        "\"epochs\": 10, \"seed\": 1}");
    json_t *j = quoted(changes);
    json_object_update(spec, j);
    json_decref(j);
    return spec;
}

/* owner: NULL for none. */
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

/* The value at a path of the job's JSON; a new reference to the whole document in *whole. */
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

/* The newest attempt of this job. */
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

#endif
