/* Documents that ranks, the simulator and the checking programs write: heartbeats, facts, summaries,
 * answers of --check; and what the coordinator makes of them for people (job/documents). */
#include "tests/unit/job/documents.h"

#include <math.h>

#include "job/documents/beat.h"
#include "job/documents/checked.h"
#include "job/documents/fact.h"
#include "job/documents/failure.h"
#include "job/documents/host_beat.h"
#include "job/documents/joining.h"
#include "job/documents/scored.h"
#include "job/documents/offer.h"
#include "job/documents/summary.h"

/* ---- heartbeats ------------------------------------------------------------------------------ */

static struct beat some_beat(void)
{
    struct beat b = {.from = from_rank,
                     .number = 12,
                     .node = "n2",
                     .phase = PHASE_EXCHANGE,
                     .progress_age = 0.25,
                     .work_age = 0.5,
                     .comm_age = 0.125,
                     .step = 20,
                     .epoch = 0.75,
                     .samples = 640,
                     .updates = 20,
                     .batch = 32,
                     .rows_dropped = 3,
                     .busy_fraction = 0.5,
                     .received = 100,
                     .receives = 1000};
    staleness_add(&b.staleness, 2, 32);
    return b;
}

static int read_beat(const json_t *j, struct err *e)
{
    struct beat b;
    int rc = beat_read(&b, j, e);
    beat_release(&b);
    return rc;
}

static void a_heartbeat_is_read_as_it_was_written(void **state)
{
    struct beat b = some_beat(), got;
    struct err e = {0};
    json_t *j = sent(beat_json(&b));
    (void)state;
    json_object_set_new(j, "at", json_integer(1700000000000)); /* as the store adds it */
    json_object_set_new(j, "age", json_real(1.5));
    assert_read(beat_read(&got, j, &e), &e);
    assert_sender(&got.from, &from_rank);
    assert_true(got.phase == PHASE_EXCHANGE && got.progress_age == 0.25 && got.work_age == 0.5 &&
                got.comm_age == 0.125);
    assert_true(got.staleness.count == 1 && got.staleness.max == 2);
    assert_true(got.at == 1700000000000 && got.age == 1.5);
    json_object_del(j, "at");
    json_object_del(j, "age");
    assert_same(beat_json(&got), j);
    beat_release(&got);
    beat_release(&b);
}

static void what_is_wrong_with_a_heartbeat_is_said(void **state)
{
    static const struct wrong wrongs[] = {
        {"node", NULL, "the heartbeat is not valid: /node: is missing"},
        {"phase", "'asleep'", "the heartbeat is not valid: /phase: 'asleep' is unknown"},
        {"phase", "4", "the heartbeat is not valid: /phase: must be a text"},
        {"progress_age", "'x'",
         "the heartbeat is not valid: /progress_age: must be a number, -1e+09 to 1e+09"},
        {"work_age", NULL, "the heartbeat is not valid: /work_age: is missing"},
        {"comm_age", "null",
         "the heartbeat is not valid: /comm_age: must be a number, -1e+09 to 1e+09"},
        {"step", "-1",
         "the heartbeat is not valid: /step: must be a whole number, 0 to 9223372036854775807"},
        {"batch", NULL, "the heartbeat is not valid: /batch: is missing"},
        {"staleness", "[]", "the heartbeat is not valid: /staleness: is no object"},
        {"staleness/count", "99", "the heartbeat is not valid: /staleness: is malformed"},
        {"receiving/bytes", "-1",
         "the heartbeat is not valid: /receiving/bytes: must be a whole number, 0 to 9223372036854775807"},
        {"busy_fraction", "-1",
         "the heartbeat is not valid: /busy_fraction: must be a number, 0 to 1e+09"},
    };
    struct beat b = some_beat();
    (void)state;
    EACH_SAYS(beat_json(&b), wrongs, read_beat);
    beat_release(&b);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static struct fact some_fact(enum fact_type type)
{
    struct fact f = {.type = type, .from = from_rank, .number = 7, .node = "n2"};
    switch (type) {
    case FACT_LOADED:
        f.loaded = 60000;
        break;
    case FACT_EVALUATION:
        f.evaluation = (struct evaluation){16, 1.5, 2.5, 0.25, 0.75, 100, true};
        break;
    case FACT_JOINED:
        f.joined = (struct joined){"torch 2.15.0", "AdamW", 1199882, 8, 60000, 64, 14};
        break;
    case FACT_CRASHED:
        snprintf(f.crashed, sizeof f.crashed, "the program of rank 1 on 'n2' ended");
        break;
    case FACT_PROFILE:
        f.profile.a = 0.002;
        f.profile.k = 0.0005;
        f.profile.max_batch = 64;
        break;
    case FACT_TUNING:
        f.tuning = json_pack("{s:i}", "choice", 3);
        break;
    case FACT_CHECKPOINT:
        snprintf(f.saved.file, sizeof f.saved.file, "/data/jobs/x/checkpoints/step-16.safetensors");
        f.saved.step = 16;
        f.saved.time = 2.5;
        break;
    case FACT_ARTIFACT:
        snprintf(f.saved.file, sizeof f.saved.file, "best");
        f.saved.step = 20;
        break;
    case FACT_RESTORED:
        f.version = 16;
        break;
    case FACT_LOST:
        snprintf(f.lost, sizeof f.lost, "exited on signal 9 (Killed)");
        break;
    case FACT_LEFT:
        f.left = (struct departure){.who = 1, .step = 412, .others = 3, .pushes = 2};
        staleness_add(&f.left.staleness, 2, 32);
        break;
    case FACT_ENDED:
        f.ended = (struct ended){OUTCOME_FAILED, ERR_DATA, "cannot read it", 1, "n2"};
        break;
    }
    return f;
}

static json_t *some_fact_json(enum fact_type type)
{
    struct fact f = some_fact(type);
    json_t *j = fact_json(&f);
    fact_release(&f);
    return j;
}

static int read_fact(const json_t *j, struct err *e)
{
    struct fact f;
    int rc = fact_read(&f, j, e);
    fact_release(&f);
    return rc;
}

static void every_kind_of_fact_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (int type = 0; type < FACT_TYPES; type++) {
        struct fact got;
        struct err e = {0};
        json_t *j = sent(some_fact_json((enum fact_type)type));
        assert_read(fact_read(&got, j, &e), &e);
        assert_int_equal(got.type, type);
        assert_sender(&got.from, &from_rank);
        assert_string_equal(got.node, "n2");
        assert_same(fact_json(&got), j);
        fact_release(&got);
    }
}

static void an_end_says_which_rank_told_it(void **state)
{
    struct fact got;
    struct err e = {0};
    json_t *j = sent(some_fact_json(FACT_ENDED));
    (void)state;
    assert_read(fact_read(&got, j, &e), &e);
    assert_true(got.ended.outcome == OUTCOME_FAILED && got.ended.code == ERR_DATA);
    assert_int_equal(got.ended.rank, 1);
    assert_string_equal(got.ended.node, "n2");
    assert_string_equal(got.ended.message, "cannot read it");
    fact_release(&got);
    json_decref(j);
}

static void a_figure_that_became_infinite_is_told_as_unknown(void **state)
{
    struct fact f = some_fact(FACT_EVALUATION), got;
    struct err e = {0};
    (void)state;
    f.evaluation.loss = INFINITY;
    json_t *j = sent(fact_json(&f));
    assert_read(fact_read(&got, j, &e), &e);
    assert_true(isnan(got.evaluation.loss) && got.evaluation.accuracy == 0.75);
    json_decref(j);
}

static void a_message_that_is_cut_within_a_letter_is_told_all_the_same(void **state)
{
    struct fact f = some_fact(FACT_ENDED), got;
    struct err e = {0};
    (void)state;
    snprintf(f.ended.message, sizeof f.ended.message, "cannot read \xc3");
    json_t *j = sent(fact_json(&f));
    assert_read(fact_read(&got, j, &e), &e);
    assert_string_equal(got.ended.message, "cannot read ");
    json_decref(j);
}

static void what_is_wrong_with_a_fact_is_said(void **state)
{
    static const struct wrong any[] = {
        {"node", NULL, "the fact is not valid: /node: is missing"},
        {"number", "0",
         "the fact is not valid: /number: must be a whole number, 1 to 9223372036854775807"},
        {"type", "'rumour'", "the fact is not valid: /type: 'rumour' is unknown"},
        {"version", "-1",
         "the fact is not valid: /version: must be a whole number, 0 to 9223372036854775807"},
    };
    static const struct wrong loaded[] = {
        {"samples", NULL, "the fact is not valid: /samples: is missing"},
    };
    static const struct wrong evaluation[] = {
        {"loss", "'low'", "the fact is not valid: /loss: must be a number or null"},
        {"epoch", "-1", "the fact is not valid: /epoch: must be a number, 0 to 1e+12"},
        {"final", NULL, "the fact is not valid: /final: is missing"},
    };
    static const struct wrong joined[] = {
        {"program", NULL, "the fact is not valid: /program: is missing"},
        {"program/global_batch", "0",
         "the fact is not valid: /program/global_batch: must be a whole number, 1 to 16777216"},
        {"program/samples", "'many'",
         "the fact is not valid: /program/samples: must be a whole number, 1 to 9223372036854775807"},
    };
    static const struct wrong profile[] = {
        {"k", "'x'", "the fact is not valid: /k: must be a number, -1e+12 to 1e+12"},
        {"max_batch", "-1",
         "the fact is not valid: /max_batch: must be a whole number, 0 to 2147483647"},
    };
    static const struct wrong tuning[] = {
        {"tuning", "[]", "the fact is not valid: /tuning: is no object"}};
    static const struct wrong checkpoint[] = {
        {"path", NULL, "the fact is not valid: /path: is missing"}};
    static const struct wrong artifact[] = {
        {"name", "''", "the fact is not valid: /name: must be a text of 1 to 4095 bytes"}};
    static const struct wrong crashed[] = {
        {"message", "5", "the fact is not valid: /message: must be a text"},
    };
    static const struct wrong lost[] = {
        {"message", NULL, "the fact is not valid: /message: is missing"},
    };
    static const struct wrong left[] = {
        {"left", NULL, "the fact is not valid: /left: is missing"},
        {"left/who", "-1", "the fact is not valid: /left/who: must be a whole number, 0 to 32767"},
        {"left/staleness", "[]", "the fact is not valid: /left/staleness: is no object"},
        {"left/staleness/count", "99", "the fact is not valid: /left/staleness: is malformed"},
    };
    static const struct wrong ended[] = {
        {"outcome", "'lost'", "the fact is not valid: /outcome: 'lost' is unknown"},
        {"code", NULL, "the fact is not valid: /code: is missing"},
        {"code", "'a'", "the fact is not valid: /code: 'a' is no code of an error"},
        {"message", "5", "the fact is not valid: /message: must be a text"},
    };
    (void)state;
    EACH_SAYS(some_fact_json(FACT_RESTORED), any, read_fact);
    EACH_SAYS(some_fact_json(FACT_LOADED), loaded, read_fact);
    EACH_SAYS(some_fact_json(FACT_EVALUATION), evaluation, read_fact);
    EACH_SAYS(some_fact_json(FACT_JOINED), joined, read_fact);
    EACH_SAYS(some_fact_json(FACT_CRASHED), crashed, read_fact);
    EACH_SAYS(some_fact_json(FACT_PROFILE), profile, read_fact);
    EACH_SAYS(some_fact_json(FACT_TUNING), tuning, read_fact);
    EACH_SAYS(some_fact_json(FACT_CHECKPOINT), checkpoint, read_fact);
    EACH_SAYS(some_fact_json(FACT_ARTIFACT), artifact, read_fact);
    EACH_SAYS(some_fact_json(FACT_LOST), lost, read_fact);
    EACH_SAYS(some_fact_json(FACT_LEFT), left, read_fact);
    EACH_SAYS(some_fact_json(FACT_ENDED), ended, read_fact);
}

static void people_are_told_a_file_without_its_folder(void **state)
{
    struct fact f = some_fact(FACT_CHECKPOINT);
    (void)state;
    assert_same(fact_saved_json(&f), json_pack("{s:s, s:s, s:i, s:f}", "type", "checkpoint", "path",
                                               "step-16.safetensors", "step", 16, "time", 2.5));
}

/* ---- evaluations that are kept, failures ----------------------------------------------------- */

static int read_evaluations(const json_t *j, struct err *e)
{
    struct evaluations all;
    int rc = evaluations_read(&all, j, e);
    evaluations_release(&all);
    return rc;
}

static void evaluations_are_kept_and_those_past_a_step_dropped(void **state)
{
    static const struct wrong wrongs[] = {
        {"evaluations", "{}",
         "the document of evaluations is not valid: /evaluations: must be an array of 0 to 1048576 elements"},
        {"evaluations/0", "3",
         "the document of evaluations is not valid: /evaluations/0: is no object"},
        {"evaluations/0/test_samples", NULL,
         "the document of evaluations is not valid: /evaluations/0/test_samples: is missing"},
    };
    struct evaluations all = {0}, got;
    struct err e = {0};
    (void)state;
    for (int i = 1; i <= 40; i++) {
        evaluations_add(&all, &(struct evaluation){.step = i, .samples = 100, .accuracy = 0.5},
                        1000 * i);
    }
    evaluations_drop(&all, 30);
    json_t *j = sent(evaluations_json(&all));
    assert_read(evaluations_read(&got, j, &e), &e);
    assert_int_equal(got.count, 30);
    assert_int_equal(evaluations_last(&got)->step, 30);
    assert_true(got.items[29].trained == 30000 && got.items[29].ev.samples == 100);
    assert_same(evaluations_json(&got), json_incref(j));
    evaluations_release(&got);
    evaluations_release(&all);
    assert_null(evaluations_last(&all));
    EACH_SAYS(j, wrongs, read_evaluations);
}

static void a_failure_is_told_as_the_api_prints_it(void **state)
{
    struct failure f = failure_of(ERR_PEER, "rank 1 is lost", 1, "n2", 3);
    (void)state;
    assert_same(failure_json(&f),
                json_pack("{s:s, s:s, s:i, s:s, s:i}", "code", "peer", "message", "rank 1 is lost",
                          "rank", 1, "node", "n2", "attempt", 3));
    f = failure_of(ERR_IO, "cannot start", COORDINATOR, NULL, 3);
    assert_same(failure_json(&f), json_pack("{s:s, s:s, s:n, s:n, s:i}", "code", "io", "message",
                                            "cannot start", "rank", "node", "attempt", 3));
}

/* ---- the simulator's summary ----------------------------------------------------------------- */

static json_t *some_summary(const struct sender *from)
{
    struct staleness staleness = {0};
    staleness_add(&staleness, 1, 8);
    struct live_worker w = {.node = "v",
                            .device = "virtual",
                            .state = "done",
                            .batch = 8,
                            .updates = 1,
                            .samples = 8,
                            .staleness = &staleness,
                            .histogram = true};
    json_t *assignments = json_pack("[{s:i}]", "version", 1);
    struct evaluations evaluations = {0};
    evaluations_add(&evaluations,
                    &(struct evaluation){.step = 4, .accuracy = 0.75, .samples = 20, .final = true},
                    64);
    struct summary s = {.from = *from,
                        .name = "t",
                        .strategy = "sync",
                        .batching = "equal",
                        .metrics = {NAN, NAN, NAN, 12.5, 0.5},
                        .workers = &w,
                        .n_workers = 1,
                        .version = 1,
                        .global_batch = 8,
                        .assignments = assignments,
                        .evaluations = &evaluations,
                        .rank_memory_bytes = 1000};
    json_t *j = summary_json(&s);
    json_decref(assignments);
    evaluations_release(&evaluations);
    staleness_release(&staleness);
    return j;
}

static int read_summary(const json_t *j, struct err *e)
{
    struct summary_read s;
    int rc = summary_read(&s, j, e);
    summary_release(&s);
    return rc;
}

static void a_summary_says_of_which_attempt_it_is_if_it_is_of_one(void **state)
{
    struct sender none = {.rank = COORDINATOR};
    struct summary_read got;
    struct err e = {0};
    json_t *alone = sent(some_summary(&none)), *j = sent(some_summary(&from_coordinator));
    (void)state;
    assert_read(summary_read(&got, alone, &e), &e);
    assert_int_equal(got.from.attempt, 0);
    assert_null(json_object_get(alone, "attempt_of"));
    summary_release(&got);
    assert_read(summary_read(&got, j, &e), &e);
    assert_sender(&got.from, &from_coordinator);
    assert_true(got.samples_per_second == 12.5 && got.rank_memory_bytes == 1000);
    assert_int_equal(json_array_size(got.assignments), 1);
    assert_null(json_object_get(got.live, "assignments"));
    const json_t *tested = json_array_get(got.evaluations, 0);
    assert_int_equal(json_array_size(got.evaluations), 1);
    assert_true(json_number_value(json_object_get(tested, "accuracy")) == 0.75);
    assert_int_equal(json_integer_value(json_object_get(tested, "samples")), 64);
    assert_int_equal(json_integer_value(json_object_get(tested, "test_samples")), 20);
    assert_null(json_object_get(got.live, "evaluations"));
    assert_null(json_object_get(got.live, "attempt_of"));
    json_t *nodes = json_object_get(got.nodes, "nodes"), *node = json_array_get(nodes, 0);
    assert_string_equal(json_string_value(json_object_get(node, "node")), "v");
    assert_int_equal(json_integer_value(json_object_get(node, "max")), 1);
    summary_release(&got);
    json_decref(alone);
    json_decref(j);
}

static void what_is_wrong_with_a_summary_is_said(void **state)
{
    static const struct wrong wrongs[] = {
        {"metrics", NULL, "the simulator's summary is not valid: /metrics: is missing"},
        {"metrics/samples_per_second", "-1",
         "the simulator's summary is not valid: /metrics/samples_per_second: must be a number, 0 to 1e+15"},
        {"assignments", "1",
         "the simulator's summary is not valid: /assignments: must be an array of 0 to 1048576 elements"},
        {"workers/0/staleness", NULL,
         "the simulator's summary is not valid: /workers/0/staleness: is missing"},
        {"rank_memory_bytes", NULL,
         "the simulator's summary is not valid: /rank_memory_bytes: is missing"},
        {"attempt_of/format", "2",
         "the simulator's summary is not valid: /format: is 2, and this version of the program reads 1"},
    };
    (void)state;
    EACH_SAYS(some_summary(&from_coordinator), wrongs, read_summary);
}

/* ---- answers of --check ---------------------------------------------------------------------- */

static int read_checked(const json_t *j, struct err *e)
{
    struct checked c;
    int rc = checked_read(&c, j, e);
    checked_release(&c);
    return rc;
}

static void an_answer_of_a_check_is_read_as_it_was_printed(void **state)
{
    static const struct wrong wrongs[] = {
        {"errors", NULL, "the answer of --check is not valid: /errors: is missing"},
        {"errors/0/pointer", NULL,
         "the answer of --check is not valid: /errors/0: must have a pointer and a message"},
        {"samples", "'many'",
         "the answer of --check is not valid: /samples: must be a whole number, 0 to 9223372036854775807"},
        {"memory_bytes", "5",
         "the answer of --check is not valid: /memory_bytes: must be an array of 0 to 1024 elements"},
    };
    struct checked c = {.samples = 60000, .test_samples = 10000, .workers = 2}, got;
    struct err e = {0};
    (void)state;
    c.memory_bytes[1] = 123456789;
    jsonx_problem(&c.errors, "/data/path", "is not there");
    json_t *j = sent(checked_json(&c));
    assert_read(checked_read(&got, j, &e), &e);
    assert_true(got.samples == 60000 && got.workers == 2 && got.memory_bytes[1] == 123456789);
    assert_string_equal(got.errors.items[0].pointer, "/data/path");
    assert_same(checked_json(&got), json_incref(j));
    checked_release(&got);
    checked_release(&c);
    EACH_SAYS(j, wrongs, read_checked);
}

static void the_simulator_answers_with_what_the_whole_process_needs(void **state)
{
    struct checked c = {.is_virtual = true, .process_bytes = 500, .node_bytes = 7}, got;
    struct err e = {0};
    (void)state;
    c.blocks = json_pack("{s:i}", "parameters", 400);
    json_t *j = sent(checked_json(&c));
    assert_read(checked_read(&got, j, &e), &e);
    assert_true(got.is_virtual && got.process_bytes == 500 && got.node_bytes == 7);
    assert_same(checked_json(&got), j);
    checked_release(&got);
    checked_release(&c);
}

/* ---- the keeper's offer ---------------------------------------------------------------------- */

static int read_offer(const json_t *j, struct err *e)
{
    struct offer o;
    int rc = offer_read(&o, j, e);
    offer_release(&o);
    return rc;
}

static void an_offer_is_read_as_it_was_written(void **state)
{
    static const struct wrong wrongs[] = {
        {"key", NULL, "the keeper's offer of its data set is not valid: /key: is missing"},
        {"files/1/name", "''",
         "the keeper's offer of its data set is not valid: /files/1/name: must be a text of 1 to 599 bytes"},
        {"files/0/bytes", "-1",
         "the keeper's offer of its data set is not valid: /files/0/bytes: must be a whole number, 0 to 9223372036854775807"},
    };
    struct offer o = {.digest = "abcd", .key = "ef01"}, got;
    struct err e = {0};
    (void)state;
    assert_read(offer_add(&o, "a", 2, &e), &e);
    assert_read(offer_add(&o, "sub/c", 3, &e), &e);
    json_t *j = sent(offer_json(&o));
    assert_read(offer_read(&got, j, &e), &e);
    assert_true(got.bytes == 5 && got.n_files == 2 && got.files[1].bytes == 3);
    assert_string_equal(got.files[1].name, "sub/c");
    assert_same(offer_json(&got), json_incref(j));
    offer_release(&got);
    offer_release(&o);
    EACH_SAYS(j, wrongs, read_offer);
}

static void an_offer_may_say_why_there_is_none(void **state)
{
    struct offer o = {.error = "cannot read it"}, got;
    struct err e = {0};
    json_t *j = sent(offer_json(&o));
    (void)state;
    assert_read(offer_read(&got, j, &e), &e);
    assert_string_equal(got.error, "cannot read it");
    assert_true(!got.digest[0] && got.n_files == 0);
    offer_release(&got);
    json_decref(j);
}

/* ---- joining --------------------------------------------------------------------------------- */

static void joining_is_read_as_it_was_written(void **state)
{
    json_t *versions = json_pack("{s:s}", "evenstep", "1"), *nodes = json_pack("[s]", "n1");
    struct joining_ask ask = {.host = "h",
                              .instance = "i",
                              .address = "10.0.0.2",
                              .network = "10.0.0.0/24",
                              .versions = versions,
                              .nodes = nodes,
                              .faulty = true,
                              .message = "no device",
                              .hint = "give it one"},
                       asked, nothing;
    json_t *j = sent(joining_ask_json(&ask)), *none = json_object();
    (void)state;
    joining_ask_read(&asked, j);
    assert_string_equal(asked.network, "10.0.0.0/24");
    assert_string_equal(asked.hint, "give it one");
    assert_same(joining_ask_json(&asked), json_incref(j));
    joining_ask_read(&nothing, none); /* anybody may ask: what is missing is empty */
    assert_true(!nothing.host[0] && !nothing.nonce[0] && !nothing.nodes && !nothing.faulty);
    json_decref(none);
    json_decref(j);
    json_decref(versions);
    json_decref(nodes);
}

static void a_host_is_read_as_it_was_written(void **state)
{
    json_t *versions = json_pack("{s:s}", "evenstep", "1"), *nodes = json_pack("[s]", "n1"),
           *load = json_pack("{s:f}", "one", 0.5), *gpus = json_array(),
           *refused = json_pack("{s:i}", "forged", 2), *none = json_object();
    struct host_beat told = {.name = "h",
                             .instance = "i",
                             .address = "10.0.0.2",
                             .network = "10.0.0.0/24",
                             .versions = versions,
                             .nodes = nodes,
                             .load = load,
                             .gpus = gpus,
                             .refused = refused,
                             .daemons = 3},
                     got;
    json_t *j = sent(host_beat_json(&told));
    (void)state;
    host_beat_read(&got, j);
    assert_same(host_beat_json(&got), json_incref(j));
    assert_true(got.daemons == 3 && !got.lost && strcmp(got.address, "10.0.0.2") == 0);
    host_beat_aged(j, 4.5, true);
    host_beat_read(&got, j);
    assert_true(got.lost);
    host_beat_read(&got, none);
    assert_true(!got.name[0] && !got.instance[0] && !got.nodes && !got.load && !got.lost);
    json_decref(none);
    json_decref(j);
    json_decref(versions);
    json_decref(nodes);
    json_decref(load);
    json_decref(gpus);
    json_decref(refused);
}

static void an_answer_to_joining_is_a_key_or_a_reason(void **state)
{
    struct joining_answer yes = {.accepted = true, .coordinator = "c", .salt = "s", .key = "k"},
                          no = {.message = "another version", .hint = "install it"}, got;
    json_t *accepted = sent(joining_answer_json(&yes)), *refused = sent(joining_answer_json(&no));
    (void)state;
    joining_answer_read(&got, accepted);
    assert_true(got.accepted && strcmp(got.key, "k") == 0 && !got.message[0]);
    joining_answer_read(&got, refused);
    assert_true(!got.accepted && strcmp(got.hint, "install it") == 0 && !got.key[0]);
    json_decref(accepted);
    json_decref(refused);
}

/* ---- scored ---------------------------------------------------------------------------------- */

static void a_score_is_read_as_it_was_written(void **state)
{
    int64_t confusion[] = {3, 1, 0, 2, 4, 0, 0, 0, 0};
    struct scored told = {.model = "m.safetensors",
                          .format = "idx",
                          .path = "mnist",
                          .part = "test",
                          .digest = "d",
                          .device = "cpu",
                          .parameters = 101770,
                          .samples = 10,
                          .loss = 0.25,
                          .classes = 3,
                          .confusion = confusion,
                          .names = json_pack("[s,s,s]", "a", "b", "c")},
                  got;
    struct err e = {0};
    json_t *j = sent(scored_json(&told));
    (void)state;
    assert_read(scored_read(&got, j, &e), &e);
    assert_int_equal(scored_right(&got), 7);
    struct scored_class b = scored_class(&got, 1), c = scored_class(&got, 2);
    assert_true(strcmp(b.name, "b") == 0 && b.samples == 6 && b.right == 4 && b.answers == 5);
    assert_true(b.accuracy == 4.0 / 6 && b.precision == 0.8);
    assert_true(c.samples == 0 && c.accuracy != c.accuracy && c.precision != c.precision);
    assert_same(scored_json(&got), j);
    scored_release(&got);
    json_decref(told.names);
}

static void a_score_without_labels_has_no_classes(void **state)
{
    struct scored told = {.model = "m",
                          .format = "npy",
                          .path = "",
                          .part = "test",
                          .digest = "d",
                          .device = "cpu",
                          .samples = 10,
                          .loss = 0.25},
                  got;
    struct err e = {0};
    json_t *j = sent(scored_json(&told));
    (void)state;
    assert_true(json_is_null(json_object_get(j, "accuracy")));
    assert_read(scored_read(&got, j, &e), &e);
    assert_true(got.classes == 0 && !got.confusion && !got.names && got.loss == 0.25);
    assert_same(scored_json(&got), j);
    scored_release(&got);
}

static void a_model_that_cannot_be_scored_says_why(void **state)
{
    struct err why = {.code = ERR_NOT_FOUND}, e = {0};
    struct scored got;
    (void)state;
    snprintf(why.message, sizeof why.message, "cannot read it");
    snprintf(why.hint, sizeof why.hint, "give it a path");
    json_t *j = sent(scored_refusal(&why));
    assert_true(scored_read(&got, j, &e) < 0);
    assert_string_equal(e.message, "cannot read it");
    assert_string_equal(e.hint, "give it a path");
    scored_release(&got);
    json_decref(j);
    e = (struct err){0};
    j = json_pack("{s:[[i,i],[i]]}", "confusion", 1, 2, 3);
    assert_int_equal(scored_read(&got, j, &e), -ERR_DATA);
    assert_string_equal(e.message, "row 1 of the confusion matrix has not 2 counts");
    scored_release(&got);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heartbeat_is_read_as_it_was_written),
        cmocka_unit_test(what_is_wrong_with_a_heartbeat_is_said),
        cmocka_unit_test(every_kind_of_fact_is_read_as_it_was_written),
        cmocka_unit_test(an_end_says_which_rank_told_it),
        cmocka_unit_test(a_figure_that_became_infinite_is_told_as_unknown),
        cmocka_unit_test(a_message_that_is_cut_within_a_letter_is_told_all_the_same),
        cmocka_unit_test(what_is_wrong_with_a_fact_is_said),
        cmocka_unit_test(people_are_told_a_file_without_its_folder),
        cmocka_unit_test(evaluations_are_kept_and_those_past_a_step_dropped),
        cmocka_unit_test(a_failure_is_told_as_the_api_prints_it),
        cmocka_unit_test(a_summary_says_of_which_attempt_it_is_if_it_is_of_one),
        cmocka_unit_test(what_is_wrong_with_a_summary_is_said),
        cmocka_unit_test(an_answer_of_a_check_is_read_as_it_was_printed),
        cmocka_unit_test(an_offer_is_read_as_it_was_written),
        cmocka_unit_test(an_offer_may_say_why_there_is_none),
        cmocka_unit_test(joining_is_read_as_it_was_written),
        cmocka_unit_test(a_host_is_read_as_it_was_written),
        cmocka_unit_test(a_score_is_read_as_it_was_written),
        cmocka_unit_test(a_score_without_labels_has_no_classes),
        cmocka_unit_test(a_model_that_cannot_be_scored_says_why),
        cmocka_unit_test(an_answer_to_joining_is_a_key_or_a_reason),
        cmocka_unit_test(the_simulator_answers_with_what_the_whole_process_needs),
    };
    return cmocka_run_group_tests_name("reports", tests, NULL, NULL);
}
