/* Rows, facts and heartbeats up; events out; nodes, claims, profiles, secrets, counters. */
#include "tests/unit/store/fixture.h"

#include <hiredis/hiredis.h>
#include <pthread.h>

#include "job/row.h"

static const char *const spec_text = "{\"name\":\"feed\"}";

struct seen {
    int rows;
    int64_t last_step;
    int ranks; /* a bit for each that was heard of */
    bool refuses;
};

static int see(void *ctx, const struct store_rows *entry, struct err *e)
{
    struct seen *seen = ctx;
    seen->ranks |= 1 << entry->rank;
    if (seen->refuses) {
        return err_set(e, ERR_IO, "the disk is full");
    }
    seen->rows += entry->n;
    seen->last_step = entry->rows[entry->n - 1].step;
    return 0;
}

static void rows_come_out_as_they_went_in_and_leave_once_trimmed(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], last[32] = "0-0", again[32] = "0-0";
    struct row rows[3] = {{.step = 1}, {.step = 2}, {.step = 3}};
    struct seen seen = {0};
    new_job(s, spec_text, 0, id);
    for (int i = 0; i < 10; i++) {
        rows[2].step = 10 * i;
        OK(report_rows(s, id, 7, rows, 3, &err_));
    }
    assert_int_equal(rows_of(s, id, 7, last, 4, see, &seen, &err_), 4);
    assert_int_equal(seen.rows, 12);
    assert_int_equal(seen.last_step, 30);
    OK(store_rows_trim(s, id, &(struct store_tail){7, last}, 1, &err_));
    assert_int_equal(rows_of(s, id, 7, again, 100, see, &seen, &err_), 6);
    assert_int_equal(seen.rows, 30);
    assert_int_equal(seen.last_step, 90);
    assert_int_equal(rows_of(s, id, 7, again, 100, see, &seen, &err_), 0);
    assert_int_equal(rows_of(s, id, 8, last, 100, see, &seen, &err_), 0);
    assert_int_equal(report_rows(s, id, 7, rows, 1 << 20, &err_), -ERR_INVALID);
    assert_int_equal(report_rows(s, id, -1, rows, 1, &err_), -ERR_INVALID);
    snprintf(last, sizeof last, "nonsense");
    assert_int_equal(rows_of(s, id, 7, last, 4, see, &seen, &err_), -ERR_INVALID);
}

/* A coordinator that was updated reads the reports of a worker with another version. */
static void rows_of_other_versions_are_taken_and_strange_entries_passed_over(void **state)
{
    struct place *p = *state;
    char id[STORE_ID], last[STORE_PLACE] = "0-0", packed[3 * 80];
    struct seen seen = {0};
    struct row row = row_blank();
    new_job(p->store, spec_text, 0, id);
    static const struct {
        const char *bytes; /* of each row, as the entry says; NULL: it does not */
        size_t all;
        int rows;
    } entries[] = {{NULL, 80, 1}, {"80", 240, 3}, {"120", 120, 1}, {"81", 80, 0},  {"80", 81, 0},
                   {"79", 79, 0}, {"x", 80, 0},   {"0", 80, 0},    {"5000", 0, 0}, {"-80", 80, 0}};
    redisContext *c = redisConnectUnix(p->url + 5);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        memset(packed, 0, sizeof packed);
        row.step = (int64_t)i + 1;
        row_pack(&row, 80, packed);
        size_t last_row = (size_t)(entries[i].rows > 0 ? entries[i].rows - 1 : 0) * 80;
        row_pack(&row, 80, packed + last_row);
        redisReply *r =
            entries[i].bytes
                ? redisCommand(c, "XADD es:job:%s:rows:0 * r %b bytes %s", id, packed,
                               entries[i].all, entries[i].bytes)
                : redisCommand(c, "XADD es:job:%s:rows:0 * r %b", id, packed, entries[i].all);
        assert_true(r && r->type == REDIS_REPLY_STRING);
        freeReplyObject(r);
    }
    redisFree(c);
    assert_int_equal(rows_of(p->store, id, 0, last, 100, see, &seen, &err_), 10);
    assert_int_equal(seen.rows, 5);
    assert_int_equal(seen.last_step, 3);
}

static void all_ranks_are_read_at_once_each_from_its_place(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], last[3][STORE_PLACE] = {"0-0", "0-0", "0-0"};
    struct store_tail tails[3] = {{0, last[0]}, {1, last[1]}, {2, last[2]}};
    struct row row = {.step = 1};
    struct seen seen = {0};
    const struct store_rows_ask ask = {.tails = tails, .n = 3, .count = 4, .fn = see, .ctx = &seen};
    new_job(s, spec_text, 0, id);
    for (int i = 0; i < 5; i++) {
        OK(report_rows(s, id, 0, &row, 1, &err_));
        OK(report_rows(s, id, i % 2 ? 0 : 2, &row, 1, &err_));
    }
    assert_int_equal(store_rows_read(s, id, &ask, &err_), 4); /* the busiest */
    assert_int_equal(seen.rows, 7);
    assert_int_equal(seen.ranks, 5); /* rank 1 said nothing */
    assert_string_equal(last[1], "0-0");
    seen.refuses = true;
    assert_int_equal(store_rows_read(s, id, &ask, &err_), -ERR_IO);
    seen.refuses = false;
    assert_int_equal(store_rows_read(s, id, &ask, &err_), 3); /* what was refused comes again */
    assert_int_equal(seen.rows, 10);
    OK(store_rows_trim(s, id, tails, 3, &err_));
    snprintf(last[0], STORE_PLACE, "0-0");
    assert_int_equal(store_rows_read(s, id, &ask, &err_), 0);
}

static void rows_wait_while_a_fact_does(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], last[STORE_PLACE] = "0-0", facts_at[STORE_PLACE] = "0-0";
    struct store_tail tail = {0, last};
    struct row row = {.step = 1};
    struct seen seen = {0};
    bool facts = false;
    const struct store_rows_ask ask = {&tail, 1, 10, facts_at, &facts, see, &seen};
    json_t *fact = json_of("{\"type\":\"restored\"}");
    new_job(s, spec_text, 0, id);
    OK(report_rows(s, id, 0, &row, 1, &err_));
    OK(store_fact_add(s, id, fact, &err_));
    assert_int_equal(store_rows_read(s, id, &ask, &err_), 0);
    assert_true(facts);
    assert_int_equal(seen.rows, 0);
    json_decref(store_facts_read(s, id, facts_at, 10, &err_));
    facts = false;
    assert_int_equal(store_rows_read(s, id, &ask, &err_), 1);
    assert_false(facts);
    assert_int_equal(seen.rows, 1);
    json_decref(fact);
}

static void documents_and_events_are_published_together(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], last[STORE_PLACE] = "$";
    bool gap;
    json_t *one = json_of("{\"a\":1}"), *two = json_of("{\"b\":2}");
    struct store_news news[] = {
        {"live", "live", one}, {NULL, "rows", two}, {"detail:x", NULL, two}};
    new_job(s, spec_text, 0, id);
    json_decref(store_events_read(s, last, 10, 0, &gap, &err_));
    OK(store_publish(s, id, news, 3, &err_));
    json_t *live = store_doc_get(s, id, "live", &err_),
           *detail = store_doc_get(s, id, "detail:x", &err_);
    assert_true(json_equal(live, one));
    assert_true(json_equal(detail, two));
    json_t *got = store_events_read(s, last, 10, 0, &gap, &err_);
    assert_int_equal(json_array_size(got), 2);
    assert_string_equal(text_at(got, "/1/type"), "rows");
    json_t *said = said_by(got, 1);
    assert_true(json_equal(said, two));
    json_decref(said);
    assert_int_equal(store_publish(s, "feedfeedfeedfeed", news, 3, &err_), -ERR_NOT_FOUND);
    json_decref(got);
    json_decref(live);
    json_decref(detail);
    json_decref(one);
    json_decref(two);
}

/* After the largest possible id, Redis appends nothing. */
static void a_stream_that_a_stranger_has_blocked_is_made_whole(void **state)
{
    static const char *const largest = "18446744073709551615-18446744073709551615";
    struct place *p = *state;
    struct store *s = p->store;
    char id[STORE_ID], command[200], last[STORE_PLACE] = "0-0", facts[STORE_PLACE] = "0-0";
    struct row row = {.step = 1};
    struct seen seen = {0};
    json_t *fact = json_of("{\"type\":\"restored\"}");
    new_job(s, spec_text, 0, id);
    OK(report_rows(s, id, 0, &row, 1, &err_));
    OK(store_fact_add(s, id, fact, &err_));
    snprintf(command, sizeof command, "XADD es:job:%s:rows:0 %s r x", id, largest);
    raw(p, command);
    snprintf(command, sizeof command, "XADD es:job:%s:facts %s j x", id, largest);
    raw(p, command);
    row.step = 2;
    assert_true(report_rows(s, id, 0, &row, 1, &err_) < 0);
    assert_int_equal(rows_of(s, id, 0, last, 10, see, &seen, &err_), -ERR_UNAVAILABLE);
    assert_non_null(strstr(err_.message, "had 1 entries with ids that Redis does not make"));
    OK(report_rows(s, id, 0, &row, 1, &err_));
    assert_int_equal(rows_of(s, id, 0, last, 10, see, &seen, &err_), 1);
    assert_int_equal(seen.rows, 2); /* the one in front of it was read before */
    assert_null(store_facts_read(s, id, facts, 10, &err_));
    assert_int_equal(err_.code, ERR_UNAVAILABLE);
    OK(store_fact_add(s, id, fact, &err_));
    snprintf(facts, sizeof facts, "0-0");
    json_t *got = store_facts_read(s, id, facts, 10, &err_);
    assert_int_equal(json_array_size(got), 2);
    json_decref(got);
    json_decref(fact);
}

static void a_key_of_another_type_is_an_error_and_no_crash(void **state)
{
    struct place *p = *state;
    char id[STORE_ID], command[128], last[32] = "0-0";
    struct seen seen = {0};
    new_job(p->store, spec_text, 0, id);
    snprintf(command, sizeof command, "SET es:job:%s:rows:0 text", id);
    raw(p, command);
    assert_int_equal(rows_of(p->store, id, 0, last, 10, see, &seen, &err_), -ERR_DATA);
    snprintf(command, sizeof command, "LPUSH es:job:%s:beats x", id);
    raw(p, command);
    assert_null(store_beats(p->store, id, 2, &err_));
    snprintf(command, sizeof command, "SET es:job:%s:plan {broken", id);
    raw(p, command);
    assert_null(store_doc_get(p->store, id, "plan", &err_));
    assert_int_not_equal(err_.code, ERR_NONE);
    snprintf(command, sizeof command, "SET es:job:%s:live [1]", id);
    raw(p, command);
    json_t *job = store_job_get(p->store, id, &err_);
    assert_int_equal(number_at(job, "/progress/step"), 0);
    json_decref(job);
}

static void facts_are_read_once_in_order(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], last[32] = "0-0";
    new_job(s, spec_text, 0, id);
    for (int i = 0; i < 5; i++) {
        json_t *fact = json_pack("{s:i}", "n", i);
        OK(store_fact_add(s, id, fact, &err_));
        json_decref(fact);
    }
    json_t *got = store_facts_read(s, id, last, 3, &err_);
    assert_int_equal(json_array_size(got), 3);
    json_decref(got);
    got = store_facts_read(s, id, last, 3, &err_);
    assert_int_equal(json_array_size(got), 2);
    assert_int_equal(number_at(got, "/1/n"), 4);
    json_decref(got);
}

static void heartbeats_carry_the_age_by_the_clock_of_redis(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    json_t *beat = json_of("{\"phase\":\"computing\",\"at\":5}"), *empty = json_object();
    new_job(s, spec_text, 0, id);
    OK(report_beat(s, id, 0, beat, &err_));
    OK(report_beat(s, id, 12, empty, &err_));
    json_t *got = store_beats(s, id, 13, &err_);
    assert_int_equal(json_object_size(got), 2);
    assert_string_equal(text_at(got, "/0/phase"), "computing");
    assert_true(number_at(got, "/0/at") > 1e12);
    assert_true(number_at(got, "/12/age") >= 0);
    json_decref(got);
    OK(store_beats_clear(s, id, &err_));
    got = store_beats(s, id, 13, &err_);
    assert_int_equal(json_object_size(got), 0);
    json_decref(got);
    json_decref(beat);
    json_decref(empty);
}

static void a_change_of_state_is_told_as_an_event(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], last[32] = "$";
    bool gap = true;
    json_t *none = store_events_read(s, last, 10, 0, &gap, &err_);
    assert_int_equal(json_array_size(none), 0);
    assert_false(gap);
    json_decref(none);
    new_job(s, "{\"name\":\"a \\\"quoted\\\" name\"}", 0, id);
    OK(store_job_transition(s, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    json_t *body = json_of("{\"step\":3}");
    OK(store_event(s, id, "live", body, &err_));
    json_t *got = store_events_read(s, last, 10, 0, &gap, &err_);
    assert_int_equal(json_array_size(got), 3);
    assert_false(gap);
    assert_string_equal(text_at(got, "/0/type"), "job");
    json_t *first = said_by(got, 0), *second = said_by(got, 1), *third = said_by(got, 2);
    assert_string_equal(text_at(first, "/state"), "queued");
    assert_string_equal(text_at(first, "/name"), "a \"quoted\" name");
    assert_string_equal(text_at(second, "/from"), "queued");
    assert_string_equal(text_at(second, "/state"), "launching");
    assert_string_equal(text_at(got, "/2/job"), id);
    assert_int_equal(number_at(third, "/step"), 3);
    assert_string_equal(text_at(got, "/2/id"), last);
    json_decref(first);
    json_decref(second);
    json_decref(third);
    json_decref(got);
    json_decref(body);
}

static void *tell_later(void *arg)
{
    struct err e;
    struct store *s = store_open(arg, NULL, &e);
    store_event(s, "", "node", NULL, &e);
    store_close(s);
    return NULL;
}

static void a_reader_that_waits_is_woken_by_an_event(void **state)
{
    struct place *p = *state;
    char last[32] = "$";
    bool gap;
    pthread_t thread;
    json_decref(store_events_read(p->store, last, 10, 0, &gap, &err_));
    assert_int_equal(pthread_create(&thread, NULL, tell_later, p->url), 0);
    json_t *got = store_events_read(p->store, last, 10, 60000, &gap, &err_);
    assert_int_equal(json_array_size(got), 1);
    assert_string_equal(text_at(got, "/0/type"), "node");
    json_decref(got);
    pthread_join(thread, NULL);
    got = store_events_read(p->store, last, 10, 1, &gap, &err_);
    assert_non_null(got); /* nothing came: an empty list, no error */
    assert_int_equal(json_array_size(got), 0);
    json_decref(got);
}

static void a_reader_whose_place_was_trimmed_is_told_of_the_gap(void **state)
{
    struct place *p = *state;
    char last[32] = "$", future[32] = "99999999999999-0";
    bool gap = true;
    json_t *body = json_of("{}");
    OK(store_event(p->store, "", "log", body, &err_));
    json_decref(store_events_read(p->store, last, 10, 0, &gap, &err_));
    assert_false(gap);
    for (int i = 0; i < 5; i++) {
        OK(store_event(p->store, "", "log", body, &err_));
    }
    raw(p, "XTRIM es:events MAXLEN = 2");
    json_t *got = store_events_read(p->store, last, 10, 0, &gap, &err_);
    assert_true(gap);
    assert_int_equal(json_array_size(got), 2);
    json_decref(got);
    json_decref(store_events_read(p->store, last, 10, 0, &gap, &err_));
    assert_false(gap);
    /* an id of another store */
    json_decref(store_events_read(p->store, future, 10, 0, &gap, &err_));
    assert_true(gap);
    json_decref(body);
}

static void a_node_is_ready_busy_draining_or_disabled_as_it_is_set(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *node =
        json_of("{\"name\":\"fast-1\",\"host\":\"h\",\"device\":\"cpu:1\",\"labels\":{}}");
    OK(store_node_put(s, node, &err_));
    json_t *got = store_node_get(s, "fast-1", &err_);
    assert_string_equal(text_at(got, "/state"), "ready");
    assert_true(json_is_null(at(got, "/job")));
    assert_true(number_at(got, "/heartbeat_age_seconds") >= 0);
    json_decref(got);
    assert_int_equal(store_node_claim(s, "fast-1", "job-a", &err_), CLAIM_OURS);
    assert_int_equal(store_node_claim(s, "fast-1", "job-a", &err_), CLAIM_OURS);
    assert_int_equal(store_node_claim(s, "fast-1", "job-b", &err_), CLAIM_LOST);
    got = store_node_get(s, "fast-1", &err_);
    assert_string_equal(text_at(got, "/state"), "busy");
    assert_string_equal(text_at(got, "/job"), "job-a");
    json_decref(got);
    assert_int_equal(store_node_release(s, "fast-1", "job-b", &err_), 0);
    assert_int_equal(store_node_release(s, "fast-1", "job-a", &err_), 1);
    OK(store_node_set(s, "fast-1", "drained", "1", &err_));
    OK(store_node_put(s, node, &err_)); /* a heartbeat does not undo it */
    got = store_node_get(s, "fast-1", &err_);
    assert_string_equal(text_at(got, "/state"), "draining");
    json_decref(got);
    OK(store_node_set(s, "fast-1", "disabled", "1", &err_));
    OK(store_node_set(s, "fast-1", "drained", NULL, &err_));
    json_t *all = store_nodes(s, &err_);
    assert_int_equal(json_array_size(all), 1);
    assert_string_equal(text_at(all, "/0/state"), "disabled");
    assert_true(json_is_false(at(all, "/0/silent")));
    json_decref(all);
    OK(store_node_remove(s, "fast-1", &err_));
    assert_null(store_node_get(s, "fast-1", &err_));
    assert_int_equal(err_.code, ERR_NOT_FOUND);
    assert_int_equal(store_node_set(s, "fast-1", "drained", "1", &err_), -ERR_NOT_FOUND);
    json_decref(node);
}

static void a_node_without_heartbeat_is_lost(void **state)
{
    struct place *p = *state;
    json_t *node = json_of("{\"name\":\"gone\"}");
    OK(store_node_put(p->store, node, &err_));
    raw(p, "HSET es:node:gone at 1000");
    json_t *got = store_node_get(p->store, "gone", &err_);
    assert_string_equal(text_at(got, "/state"), "lost");
    assert_true(json_is_true(at(got, "/silent")));
    json_decref(got);
    OK(store_node_set(p->store, "gone", "disabled", "1", &err_));
    got = store_node_get(p->store, "gone", &err_);
    assert_string_equal(text_at(got, "/state"), "disabled");
    assert_true(json_is_true(at(got, "/silent")));
    json_decref(got);
    OK(store_node_set(p->store, "gone", "disabled", NULL, &err_));
    OK(store_node_put(p->store, node, &err_));
    got = store_node_get(p->store, "gone", &err_);
    assert_string_equal(text_at(got, "/state"), "ready");
    json_decref(got);
    OK(store_node_remove(p->store, "gone", &err_));
    json_decref(node);
}

static void a_node_rests_twice_as_long_each_time_up_to_half_an_hour(void **state)
{
    static const int expected[] = {0, 15, 30, 60, 120, 240, 480, 960, 1800, 1800};
    struct store *s = ((struct place *)*state)->store;
    json_t *node = json_of("{\"name\":\"bad\"}");
    double rest = -1;
    OK(store_node_put(s, node, &err_));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        OK(store_node_failed(s, "bad", "its library is broken", &rest, &err_));
        assert_int_equal((int)rest, expected[i]);
    }
    OK(store_node_well(s, "bad", &err_)); /* which forgets them */
    OK(store_node_failed(s, "bad", "its library is broken", &rest, &err_));
    assert_int_equal((int)rest, 0);
    OK(store_node_remove(s, "bad", &err_));
    json_decref(node);
}

static void profiles_and_secrets_are_kept_and_a_secret_is_taken_once(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *profile = json_of("{\"a\":0.002,\"k\":0.0005}");
    OK(store_profile_put(s, "fast-1", "abc123", profile, &err_));
    json_t *got = store_profile_get(s, "fast-1", "abc123", &err_);
    assert_true(json_equal(profile, got));
    json_decref(got);
    assert_null(store_profile_get(s, "fast-1", "other", &err_));
    assert_int_equal(err_.code, ERR_NONE);
    OK(store_secret_put(s, "link:any text at all", "value", 60, &err_));
    char *text = store_secret_get(s, "link:any text at all", &err_);
    assert_string_equal(text, "value");
    free(text);
    text = store_secret_take(s, "link:any text at all", &err_);
    assert_string_equal(text, "value");
    free(text);
    assert_null(store_secret_take(s, "link:any text at all", &err_));
    assert_int_equal(err_.code, ERR_NONE);
    json_decref(profile);
}

static void counters_say_how_many_jobs_are_in_each_state(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *before = store_stats(s, &err_);
    char id[STORE_ID];
    new_job(s, spec_text, 0, id);
    json_t *after = store_stats(s, &err_);
    assert_int_equal(number_at(after, "/jobs/queued"), number_at(before, "/jobs/queued") + 1);
    assert_int_equal(json_object_size(at(after, "/jobs")), JOB_STATE_COUNT);
    assert_true(number_at(after, "/memory_bytes") > 0);
    assert_true(number_at(after, "/connected_clients") >= 1);
    json_decref(before);
    json_decref(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_out_as_they_went_in_and_leave_once_trimmed),
        cmocka_unit_test(rows_of_other_versions_are_taken_and_strange_entries_passed_over),
        cmocka_unit_test(all_ranks_are_read_at_once_each_from_its_place),
        cmocka_unit_test(rows_wait_while_a_fact_does),
        cmocka_unit_test(documents_and_events_are_published_together),
        cmocka_unit_test(a_stream_that_a_stranger_has_blocked_is_made_whole),
        cmocka_unit_test(a_key_of_another_type_is_an_error_and_no_crash),
        cmocka_unit_test(facts_are_read_once_in_order),
        cmocka_unit_test(heartbeats_carry_the_age_by_the_clock_of_redis),
        cmocka_unit_test(a_change_of_state_is_told_as_an_event),
        cmocka_unit_test(a_reader_that_waits_is_woken_by_an_event),
        cmocka_unit_test(a_reader_whose_place_was_trimmed_is_told_of_the_gap),
        cmocka_unit_test(a_node_is_ready_busy_draining_or_disabled_as_it_is_set),
        cmocka_unit_test(a_node_without_heartbeat_is_lost),
        cmocka_unit_test(a_node_rests_twice_as_long_each_time_up_to_half_an_hour),
        cmocka_unit_test(profiles_and_secrets_are_kept_and_a_secret_is_taken_once),
        cmocka_unit_test(counters_say_how_many_jobs_are_in_each_state),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
