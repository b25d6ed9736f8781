/* Which reports are believed. Anybody who may write to the store can put a fact, a heartbeat or
 * rows into the streams of any job. A report counts only if it is sealed with the key of the rank
 * that it names, if this rank may make such a report, and if it is new (docs/decisions/0015). The
 * forger here knows everything except the keys. */
#include "tests/unit/coordinator/world.h"

#include "coordinator/monitor/seals.h"
#include "store/history.h"

static const char evaluation[] =
    "{'type': 'evaluation', 'step': %d, 'epoch': %g, 'time': 2.5, 'loss': 0.5, 'accuracy': 0.75,"
    " 'samples': 100}";

static void seal_as_a_forger(struct world *w)
{
    struct sign_key key;
    OK(sign_random(&key, &err_));
    store_seal_with(w->store, &key);
}

/* What a worker's user of Redis can do without a key of this attempt. */
static void forge_fact(struct world *w, const char *id, int attempt, int rank, const char *changes)
{
    json_t *given = quoted(changes),
           *fact = json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:s}", "format", FACT_FORMAT,
                             "job", id, "attempt", attempt, "rank", rank, "number", 1000000, "type",
                             "ended", "node", "n1", "code", "none", "message", "");
    json_object_update(fact, given);
    seal_as_a_forger(w);
    OK(store_fact_add(w->store, id, fact, &err_));
    json_decref(fact);
    json_decref(given);
}

static size_t evaluations_of(struct world *w, const char *id)
{
    json_t *kept = store_doc_get(w->store, id, "detail:evaluations", &err_);
    size_t n = json_array_size(json_object_get(kept, "evaluations"));
    json_decref(kept);
    return n;
}

static void say_evaluation(struct world *w, const char *id, int step)
{
    char text[300];
    snprintf(text, sizeof text, evaluation, step, step / 16.0);
    say_fact(w, id, text);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void a_forged_finished_ends_no_job(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 20, id);
    say_samples(w, id, 200);
    forge_fact(w, id, 1, 2, "{'outcome': 'finished'}");
    pass(w, 20); /* longer than an ended attempt may take to disappear */
    assert_state(w, id, "running");
    assert_int_equal(last_attempt(w, id)->stops, 0);
    assert_true(number_of(w, id, "/progress/samples") == 200);
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
}

static void a_forged_failed_ends_no_attempt(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{}", 5, id);
    process_ends(w, id, 137, "");
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 2);
    say_fact(w, id, "{'type': 'restored', 'version': 1}");
    ranks_step(w, id, 2, 4, 0.01);
    pass(w, 1);
    assert_state(w, id, "running");
    forge_fact(w, id, 2, 0, "{'outcome': 'failed', 'code': 'data', 'message': 'forged'}");
    forge_fact(w, id, 1, 0, "{'outcome': 'failed', 'code': 'data', 'message': 'forged'}");
    say_fact_of(w, id, 1, "{'type': 'ended', 'outcome': 'failed', 'code': 'data', 'rank': 0}");
    pass(w, 20);
    assert_state(w, id, "running");
    assert_int_equal(last_attempt(w, id)->stops, 0);
}

static void a_fact_counts_from_the_ranks_that_tell_it(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 20, id);
    say_all_samples(w, id);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished', 'rank': 0}");
    say_fact(w, id, "{'type': 'ended', 'outcome': 'paused', 'rank': 1}");
    say_fact(w, id, "{'type': 'loaded', 'samples': 1, 'rank': 1}");
    say_fact(w, id, "{'type': 'restored', 'version': 1, 'rank': 0}");
    pass(w, 20);
    assert_state(w, id, "running");
    assert_int_equal(number_of(w, id, "/progress/step"), 20); /* no row was superseded */
}

static void a_fact_that_is_put_in_again_counts_once(void **state)
{
    char id[STORE_ID], key[64], *text;
    struct world *w = world_running(state, 1, "{}", id);
    say_evaluation(w, id, 16);
    say_evaluation(w, id, 32);
    pass(w, 1);
    redisContext *c = redisConnectUnix(w->place->url + 5);
    snprintf(key, sizeof key, "es:job:%s:facts", id);
    redisReply *all = redisCommand(c, "XRANGE %s - + COUNT 1", key);
    text = all->element[0]->element[1]->element[1]->str;
    for (int i = 0; i < 2; i++) {
        freeReplyObject(redisCommand(c, "XADD %s * j %s", key, text));
        pass(w, 1);
        assert_int_equal(evaluations_of(w, id), 2); /* an older one would replace the newer one */
        world_new_coordinator(w);
        pass(w, 1);
    }
    freeReplyObject(all);
    redisFree(c);
    say_evaluation(w, id, 48);
    pass(w, 1);
    assert_int_equal(evaluations_of(w, id), 3);
}

static void what_is_no_message_at_all_is_passed_over(void **state)
{
    static const char *const odd[] = {"x", "{}", "{\"type\":\"ended\",\"outcome\":\"finished\"}"};
    char id[STORE_ID], command[300];
    struct world *w = world_running(state, 1, "{}", id);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        redisContext *c = redisConnectUnix(w->place->url + 5);
        snprintf(command, sizeof command, "es:job:%s:facts", id);
        freeReplyObject(redisCommand(c, "XADD %s * j %s", command, odd[i]));
        freeReplyObject(redisCommand(c, "XADD %s * other %s", command, odd[i]));
        redisFree(c);
    }
    pass(w, 2);
    assert_state(w, id, "running");
    say_evaluation(w, id, 16);
    pass(w, 2);
    assert_int_equal(evaluations_of(w, id), 1);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void a_job_has_succeeded_only_when_its_counted_samples_reach_the_plan(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2, 'max_restarts': 0}", 20, id);
    say_samples(w, id, 9999);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished'}");
    process_ends(w, id, 0, "");
    tick(w, 0.5);
    assert_state(w, id, "failed");
    assert_error(w, id, "peer", "its workers counted 9999 of 10000 samples");
    json_t *job = job_of(w, id);
    assert_true(number_at(job, "/progress/fraction") < 1);
    json_decref(job);
}

static void what_the_keeper_loaded_is_the_plan(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{'epochs': 3}", 20, id);
    say_fact(w, id, "{'type': 'loaded', 'samples': 700}"); /* a share is for validation */
    pass(w, 1);
    world_new_coordinator(w);
    say_samples(w, id, 2100);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished'}");
    process_ends(w, id, 0, "");
    tick(w, 0.5);
    assert_state(w, id, "succeeded");
    assert_int_equal(number_of(w, id, "/progress/fraction"), 1);
}

static void a_target_that_was_reached_is_the_plan(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{'target': {'test_accuracy': 0.75}}", 20, id);
    say_evaluation(w, id, 16); /* epoch 1 */
    say_samples(w, id, 1000);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished'}");
    process_ends(w, id, 0, "");
    tick(w, 0.5);
    assert_state(w, id, "succeeded");
}

/* ---- heartbeats and rows --------------------------------------------------------------------- */

static void forged_and_old_heartbeats_count_for_nothing(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    struct beat old = beat_of(w, id, 0, PHASE_COMPUTE), beat = beat_of(w, id, 0, PHASE_COMPUTE);
    old.samples = 32;
    beat.samples = 64;
    say_beat_of(w, id, &old);
    pass(w, 1);
    say_beat_of(w, id, &beat);
    pass(w, 1);
    assert_int_equal(number_of(w, id, "/progress/samples"), 64);
    say_beat_of(w, id, &old); /* well sealed, but a newer one came before */
    pass(w, 1);
    assert_int_equal(number_of(w, id, "/progress/samples"), 64);
    beat.number = 1000000;
    beat.samples = 10000;
    json_t *j = beat_json(&beat);
    seal_as_a_forger(w);
    OK(report_beat(w->store, id, 0, j, &err_));
    json_decref(j);
    pass(w, 1);
    assert_int_equal(number_of(w, id, "/progress/samples"), 64);
}

/* Sealed with a key of this attempt, but it claims to be of another attempt or rank. */
static void a_heartbeat_counts_for_the_attempt_and_the_rank_that_it_names(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    for (int wrong = 0; wrong < 3; wrong++) {
        struct beat beat = beat_of(w, id, 0, PHASE_COMPUTE);
        beat.samples = 64;
        beat.from.attempt += wrong == 0;
        beat.from.rank += wrong == 1;
        json_t *j = beat_json(&beat);
        seal_as(w, id, 1);
        OK(report_beat(w->store, id, 0, j, &err_));
        put_beat_ahead(w, id, 0);
        json_decref(j);
        pass(w, 1);
        assert_int_equal(number_of(w, id, "/progress/samples"), wrong < 2 ? 0 : 64);
    }
}

static void forged_rows_enter_neither_charts_nor_history(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    struct row far = {.step = INT64_MAX, .local_step = INT64_MAX, .batch = 64, .attempt = 1},
               later = {.step = 2, .local_step = 2, .batch = 64, .attempt = 30000};
    seal_as_a_forger(w);
    OK(report_rows(w->store, id, 0, &far, 1, &err_));
    OK(report_rows(w->store, id, 0, &later, 1, &err_));
    pass(w, 1);
    ranks_step(w, id, 2, 10, 0.01); /* the rank's own rows continue */
    pass(w, 2);
    assert_int_equal(number_of(w, id, "/progress/step"), 10);
    assert_int_equal(points_of(w, id, "train_loss"), 10); /* without those of a future attempt */
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void an_attempt_without_its_keys_is_started_over(void **state)
{
    char id[STORE_ID], path[200];
    struct world *w = world_stepping(state, 1, "{}", 5, id);
    snprintf(path, sizeof path, "%s/jobs/%s/seals/1", w->place->dir, id);
    assert_int_equal(unlink(path), 0);
    world_new_coordinator(w);
    pass(w, 2);
    assert_true(w->fake.attempts[0].over);
    assert_int_equal(last_attempt(w, id)->number, 2);
}

static void a_host_has_a_key_that_speaks_for_its_own_ranks_alone(void **state)
{
    struct world *w = *state;
    struct plan_worker workers[3] = {
        {.host = "here"}, {.host = "alpha", .agent = true}, {.host = "beta", .agent = true}};
    struct plan plan = {
        .from = {.job = "0f", .attempt = 3}, .workers = workers, .n_workers = 3, .servers = 3};
    struct sign_key given, alpha, again;
    struct stat file;
    char path[PLAN_PATH + 16];
    snprintf(plan.job_dir, sizeof plan.job_dir, "%s/job", w->place->dir);
    OK(seals_draw(&plan, &given, &err_));
    snprintf(path, sizeof path, "%s/seals/3", plan.job_dir);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    struct seals *seals = seals_open(plan.job_dir, &err_);
    seal_of_host(&given, "alpha", &alpha);
    assert_true(sign_same(seals_of(seals, 3, 0), &given)); /* on the coordinator's own host */
    assert_true(sign_same(seals_of(seals, 3, 1), &alpha));
    assert_false(sign_same(seals_of(seals, 3, 2), &alpha));
    assert_true(sign_same(seals_of(seals, 3, 3), &given)); /* the keeper */
    assert_true(sign_same(seals_of(seals, 3, 4), &given)); /* servers run on the nodes in turn */
    assert_true(sign_same(seals_of(seals, 3, 5), &alpha));
    assert_null(seals_of(seals, 3, 6));
    assert_null(seals_of(seals, 3, -1));
    assert_null(seals_of(seals, 2, 0));
    assert_null(seals_of(seals, 4, 0));
    assert_non_null(seals_of(seals, 3, 0));
    seals_close(seals);
    OK(seals_draw(&plan, &again, &err_));
    assert_false(sign_same(&given, &again));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_forged_finished_ends_no_job),
        IN_A_WORLD(a_forged_failed_ends_no_attempt),
        IN_A_WORLD(a_fact_counts_from_the_ranks_that_tell_it),
        IN_A_WORLD(a_fact_that_is_put_in_again_counts_once),
        IN_A_WORLD(what_is_no_message_at_all_is_passed_over),
        IN_A_WORLD(a_job_has_succeeded_only_when_its_counted_samples_reach_the_plan),
        IN_A_WORLD(what_the_keeper_loaded_is_the_plan),
        IN_A_WORLD(a_target_that_was_reached_is_the_plan),
        IN_A_WORLD(forged_and_old_heartbeats_count_for_nothing),
        IN_A_WORLD(a_heartbeat_counts_for_the_attempt_and_the_rank_that_it_names),
        IN_A_WORLD(forged_rows_enter_neither_charts_nor_history),
        IN_A_WORLD(an_attempt_without_its_keys_is_started_over),
        IN_A_WORLD(a_host_has_a_key_that_speaks_for_its_own_ranks_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
