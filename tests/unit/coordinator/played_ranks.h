/* The ranks of an attempt, played by the test: it writes their rows, heartbeats and facts into the
 * store with their seals, and decides when "mpirun" ends and with which last words.
 */
#ifndef TESTS_COORDINATOR_PLAYED_RANKS_H
#define TESTS_COORDINATOR_PLAYED_RANKS_H

#include "tests/unit/coordinator/fixture.h"

#include "job/documents/ranks/beat.h"
#include "job/documents/coordinator/control.h"
#include "job/documents/ranks/fact.h"
#include "job/row.h"
#include "job/seal.h"

static inline int workers_of(const struct fake_attempt *t)
{
    return (int)json_array_size(json_object_get(t->plan, "workers"));
}

/* Seals reports from now on with the key of this attempt's ranks on the coordinator's host; for an
 * attempt that never existed, with zeros. */
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

/* The rank that reports such a fact: rank 0 or the keeper. */
static inline int teller_of(struct world *w, const char *id, const json_t *fact)
{
    const char *type = jsonx_string_at(fact, "type");
    bool keepers =
        strcmp(type, "restored") == 0 || strcmp(type, "loaded") == 0 ||
        (strcmp(type, "ended") == 0 && strcmp(jsonx_string_at(fact, "outcome"), "failed") != 0);
    return keepers ? workers_of(last_attempt(w, id)) : 0;
}

/* Fills in what a test leaves out, as a rank of this attempt would. */
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

/* Sets the time of the rank's heartbeat to `ms` before now, by the clock of Redis. */
static inline void beat_age_set(struct world *w, const char *id, int rank, int64_t ms)
{
    static const char script[] =
        "local t = redis.call('TIME') "
        "local at = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[2]) "
        "local beat = redis.call('HGET', KEYS[1], ARGV[1]) "
        "return redis.call('HSET', KEYS[1], ARGV[1], (beat:gsub('^%d+', at)))";
    redisContext *c = redisConnectUnix(w->place->url + strlen("unix:"));
    redisReply *r = redisCommand(c, "EVAL %s 1 es:job:%s:beats %d %" PRId64, script, id, rank, ms);
    assert_true(r && r->type == REDIS_REPLY_INTEGER);
    freeReplyObject(r);
    redisFree(c);
}

/* Heartbeats are told apart by their times in ms, so each gets a new one, which Redis has not
 * reached. */
static inline void put_beat_ahead(struct world *w, const char *id, int rank)
{
    beat_age_set(w, id, rank, -world_ahead_ms - ++w->beats);
}

static inline void say_beat_of(struct world *w, const char *id, const struct beat *b)
{
    json_t *j = beat_json(b);
    seal_as(w, id, b->from.attempt);
    OK(report_beat(w->store, id, b->from.rank, j, &err_));
    put_beat_ahead(w, id, b->from.rank);
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

/* A heartbeat of a rank that has not worked since its last progress. */
static inline void say_beat(struct world *w, const char *id, int rank, enum phase phase,
                            double progress_age, double comm_age)
{
    say_ages(w, id, rank, phase, progress_age, progress_age, comm_age);
}

/* Heartbeats of all workers, with this many samples in all. */
static inline void say_samples(struct world *w, const char *id, int64_t samples)
{
    int workers = workers_of(last_attempt(w, id));
    for (int r = 0; r < workers; r++) {
        struct beat b = beat_of(w, id, r, PHASE_DONE);
        b.samples = samples / workers + (r < samples % workers);
        say_beat_of(w, id, &b);
    }
}

/* Heartbeats with all samples of the job's epochs. */
static inline void say_all_samples(struct world *w, const char *id)
{
    json_t *plan = last_attempt(w, id)->plan;
    say_samples(w, id,
                (int64_t)(number_at(plan, "/spec/epochs") * number_at(plan, "/spec/data/samples")));
}

static inline struct row row_of(const struct fake_attempt *t, int rank, int step, double seconds)
{
    int batch = (int)json_integer_value(
        json_array_get(json_object_get(json_object_get(t->plan, "first"), "sizes"), (size_t)rank));
    return (struct row){.step = step,
                        .local_step = step,
                        .time = step * seconds,
                        .epoch = step * 0.01,
                        .loss = 1.0f,
                        .compute_seconds = (float)seconds,
                        .batch = batch,
                        .rank = (int16_t)rank,
                        .attempt = (int16_t)t->number};
}

/* Every worker of the newest attempt reports its rows from step `from` to step `to`, each of
 * `seconds`. */
static inline void ranks_step(struct world *w, const char *id, int from, int to, double seconds)
{
    struct fake_attempt *t = last_attempt(w, id);
    for (int step = from; step <= to; step++) {
        for (int r = 0; r < workers_of(t); r++) {
            struct row row = row_of(t, r, step, seconds);
            say_row(w, id, &row);
        }
    }
}

/* The same with steps of 10 us, in entries of a worker's largest size. */
static inline void ranks_rush(struct world *w, const char *id, int from, int to)
{
    enum { ENTRY = 512 };
    static struct row rows[ENTRY];
    struct fake_attempt *t = last_attempt(w, id);
    seal_as(w, id, t->number);
    for (int r = 0; r < workers_of(t); r++) {
        for (int step = from, n = 0; step <= to; step++) {
            rows[n++] = row_of(t, r, step, 1e-5);
            if (n == ENTRY || step == to) {
                OK(report_rows(w->store, id, r, rows, n, &err_));
                n = 0;
            }
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

#endif
