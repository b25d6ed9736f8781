/* The monitor as people see it: reports of ranks become figures, history on disk, blame and logs
 * (coordinator/monitor, driven by sched_tick). test_minibatches.c has minibatches. */
#include "tests/unit/coordinator/world.h"

#include "job/staleness.h"

/* ---- figures --------------------------------------------------------------------------------- */

static void accounting_comes_from_the_counters_in_heartbeats(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2, 'strategy': {'type': 'asgd'}}", id);
    for (int r = 0; r < 2; r++) {
        struct staleness s;
        staleness_init(&s);
        for (int i = 0; i < 4; i++) {
            staleness_add(&s, r ? 5 : 1, 32);
        }
        struct beat beat = beat_of(w, id, r, PHASE_COMPUTE);
        beat.step = 8;
        beat.epoch = 0.5;
        beat.samples = 128;
        beat.updates = 4;
        beat.staleness = s;
        beat.rows_dropped = 3;
        say_beat_of(w, id, &beat);
        staleness_release(&s);
    }
    struct beat server = beat_of(w, id, 2, PHASE_SERVE);
    server.step = 8;
    server.busy_fraction = 0.25;
    say_beat_of(w, id, &server);
    pass(w, 2);
    json_t *job = job_of(w, id);
    assert_int_equal((int)number_at(job, "/progress/samples"), 256);
    assert_int_equal((int)number_at(job, "/progress/step"), 8);
    assert_true(fabs(number_at(job, "/progress/epoch") - 0.5) < 1e-12);
    assert_true(fabs(number_at(job, "/progress/fraction") - 0.05) < 1e-12);
    assert_true(fabs(number_at(job, "/staleness/update_mean") - 3) < 1e-12);
    assert_int_equal((int)number_at(job, "/staleness/max"), 5);
    assert_true(fabs(number_at(job, "/workers/1/staleness/mean") - 5) < 1e-12);
    assert_string_equal(text_at(job, "/workers/0/state"), "computing");
    assert_int_equal((int)number_at(job, "/servers/0/rank"), 2);
    assert_int_equal((int)number_at(job, "/servers/0/version"), 8);
    assert_true(number_at(job, "/servers/0/busy_fraction") == 0.25);
    json_decref(job);
    json_t *detail = store_doc_get(w->store, id, "detail:staleness", &err_);
    assert_string_equal(text_at(detail, "/nodes/1/node"), "n2");
    assert_int_equal((int)number_at(detail, "/nodes/1/histogram/5"), 4);
    json_decref(detail);
}

/* Steps until all ranks of the job have stepped: the first one to do so counts alone. */
static void a_new_attempt_shows_how_far_the_one_before_it_came(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 20, id);
    say_samples(w, id, 640);
    pass(w, 2);
    json_t *before = job_of(w, id);
    assert_int_equal((int)number_at(before, "/progress/samples"), 640);
    process_ends(w, id, 137, "");
    pass(w, 2);
    assert_int_equal(attempts_of(w, id), 2);
    for (int rank = 0; rank < 2; rank++) {
        json_t *now = job_of(w, id);
        assert_true(
            json_equal(json_object_get(now, "progress"), json_object_get(before, "progress")));
        assert_true(number_at(now, "/seconds") == number_at(before, "/seconds"));
        assert_true(number_at(now, "/metrics/train_loss") == 1);
        json_decref(now);
        struct beat beat = beat_of(w, id, rank, PHASE_COMPUTE);
        beat.step = 11;
        beat.samples = 176;
        say_beat_of(w, id, &beat);
        struct row row = row_of(last_attempt(w, id), rank, 11, 0.01);
        say_row(w, id, &row);
        say_fact(w, id, "{'type': 'restored', 'version': 10}");
        pass(w, 2);
    }
    assert_int_equal(number_of(w, id, "/progress/step"), 11);
    assert_int_equal(number_of(w, id, "/progress/samples"), 352);
    json_decref(before);
}

static void heartbeats_of_an_earlier_attempt_count_for_nothing(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    struct beat beat = beat_of(w, id, 0, PHASE_COMPUTE);
    beat.from.attempt = 0;
    beat.progress_age = 99;
    beat.samples = 999;
    say_beat_of(w, id, &beat);
    pass(w, 3);
    assert_int_equal(last_attempt(w, id)->stops, 0);
    assert_int_equal(number_of(w, id, "/progress/samples"), 0);
}

static void a_late_fact_of_an_earlier_attempt_counts_for_nothing(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    static const char text[] =
        "{'type': 'evaluation', 'step': 16, 'epoch': 1.0, 'time': 2.5, 'loss': 0.5, 'accuracy': "
        "0.75, 'samples': 100}";
    say_fact_of(w, id, 0, text);
    pass(w, 2);
    assert_int_equal(points_of(w, id, "test_accuracy"), 0);
    say_fact(w, id, text);
    pass(w, 2);
    assert_int_equal(points_of(w, id, "test_accuracy"), 1);
}

static void what_an_attempt_left_behind_is_taken_by_the_next_one(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 1, "{}", 20, id);
    process_ends(w, id, 137, "");
    world_node_gone(w, "n1");
    tick(w, 0.5);
    assert_state(w, id, "queued");
    say_fact_of(
        w, id, 1,
        "{'type': 'evaluation', 'step': 16, 'epoch': 1.0, 'time': 2.5, 'loss': 0.5, 'accuracy': "
        "0.5, 'samples': 100}");
    world_node(w, "n2", 1);
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 2);
    say_fact(w, id, "{'type': 'restored', 'version': 18, 'rank': 1}");
    pass(w, 2);
    assert_int_equal(points_of(w, id, "test_accuracy"), 1);
}

static void a_document_that_cannot_be_read_disturbs_nothing(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 1, "{}", id);
    json_t *odd = json_of("{\"format\": 99, \"outcome\": \"finished\", \"phase\": \"done\"}");
    OK(store_fact_add(w->store, id, odd, &err_));
    OK(report_beat(w->store, id, 0, odd, &err_));
    json_decref(odd);
    ranks_step(w, id, 2, 5, 0.01);
    pass(w, 2);
    assert_state(w, id, "running");
    assert_int_equal(number_of(w, id, "/progress/step"), 5);
    ended(w, id, "finished");
    assert_state(w, id, "succeeded");
}

static void an_evaluation_is_told_and_kept(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    say_fact(
        w, id,
        "{'type': 'evaluation', 'step': 16, 'epoch': 1.0, 'time': 2.5, 'loss': 0.5, 'accuracy': "
        "0.75, 'samples': 100, 'final': false}");
    pass(w, 2);
    json_t *job = job_of(w, id), *kept = store_doc_get(w->store, id, "detail:evaluations", &err_);
    assert_true(number_at(job, "/metrics/test_accuracy") == 0.75 &&
                number_at(job, "/metrics/test_loss") == 0.5);
    assert_int_equal((int)number_at(kept, "/evaluations/0/samples"),
                     1000); /* training samples seen at epoch 1 */
    assert_int_equal((int)number_at(kept, "/evaluations/0/test_samples"), 100);
    json_decref(kept);
    json_decref(job);
    assert_int_equal(points_of(w, id, "test_accuracy"), 1);
}

/* Epochs of milliseconds: evaluations arrive faster than a turn could read them all, and a user
 * cancels. */
static void many_evaluations_are_read_over_several_turns(void **state)
{
    enum { MANY = 1200 };
    char id[STORE_ID], text[200];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text,
                 "{'type': 'evaluation', 'step': %d, 'epoch': %d.0, 'time': %d.0, 'loss': 0.5, "
                 "'accuracy': 0.75, 'samples': 100}",
                 16 * i, i, i);
        say_fact(w, id, text);
    }
    ask(w, id, "cancel");
    tick(w, 0.5);
    json_t *kept = store_doc_get(w->store, id, "detail:evaluations", &err_);
    int read = (int)json_array_size(at(kept, "/evaluations"));
    assert_true(read > 0 && read < MANY);
    json_decref(kept);
    tick(w, 0.5);
    assert_true(control_says(w, id, "stop"));
    pass(w, 4);
    kept = store_doc_get(w->store, id, "detail:evaluations", &err_);
    assert_int_equal(json_array_size(at(kept, "/evaluations")), MANY);
    json_decref(kept);
}

/* A program whose own loop says when it ends. */
static void epochs_that_nobody_knows_are_none_until_the_end(void **state)
{
    char id[STORE_ID];
    struct world *w =
        world_running(state, 2,
                      "{'workers': 2, 'model': null, 'data': null, 'optimizer': null,"
                      " 'batching': null, 'epochs': null, 'program': {'command': ['./train']}}",
                      id);
    say_fact(
        w, id,
        "{'type': 'joined', 'program': {'framework': 'torch 2', 'optimizer': 'SGD', 'parameters':"
        " 10, 'tensors': 2, 'samples': 500, 'global_batch': 64, 'epochs': 0.0}}");
    ranks_step(w, id, 299, 300, 0.01); /* of epoch 3, according to the rows */
    pass(w, 2);
    assert_int_equal(number_of(w, id, "/progress/epochs"), 0);
    assert_int_equal(number_of(w, id, "/progress/epoch"), 3);
    assert_int_equal(number_of(w, id, "/progress/fraction"), 0);
    say_samples(w, id, 3 * 500);
    say_fact(w, id, "{'type': 'ended', 'outcome': 'finished'}");
    process_ends(w, id, 0, "");
    pass(w, 2);
    assert_state(w, id, "succeeded");
    assert_int_equal(number_of(w, id, "/progress/fraction"), 1);
    assert_int_equal(number_of(w, id, "/progress/epochs"), 3);
}

/* Before a user's program has joined, its data, samples and batches are unknown. From then on
 * minibatches and displayed values are right, and stay so after a restart of the coordinator. */
static void what_a_program_brings_is_known_from_its_joining_on(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2,
                                    "{'workers': 2, 'model': null, 'data': null, 'optimizer': null,"
                                    " 'batching': null, 'program': {'command': ['./train']}}",
                                    id);
    assert_int_equal(number_of(w, id, "/assignment/global_batch"), 0);
    say_fact(
        w, id,
        "{'type': 'joined', 'program': {'framework': 'torch 2', 'optimizer': 'SGD', 'parameters':"
        " 10, 'tensors': 2, 'samples': 500, 'global_batch': 64, 'epochs': 3.0}}");
    say_fact(
        w, id,
        "{'type': 'evaluation', 'step': 16, 'epoch': 2.0, 'time': 2.5, 'loss': 0.5, 'accuracy': "
        "0.75, 'samples': 100}");
    for (int i = 0; i < 2; i++) {
        pass(w, 2);
        assert_int_equal(number_of(w, id, "/assignment/global_batch"), 64);
        assert_int_equal(number_of(w, id, "/assignment/version"), 2);
        assert_int_equal(number_of(w, id, "/progress/epochs"), 3);
        assert_int_equal(number_of(w, id, "/program/samples"), 500);
        assert_text_of(w, id, "/program/optimizer", "SGD");
        world_new_coordinator(w);
    }
    json_t *control = store_doc_get(w->store, id, "control", &err_),
           *kept = store_doc_get(w->store, id, "detail:evaluations", &err_);
    assert_int_equal((int)number_at(control, "/sizes/0"), 32);
    assert_int_equal((int)number_at(kept, "/evaluations/0/samples"), 1000);
    json_decref(control);
    json_decref(kept);
}

/* ---- restarts -------------------------------------------------------------------------------- */

static void rows_and_evaluations_past_the_checkpoint_of_a_restart_are_left_out(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 30, id);
    say_fact(
        w, id,
        "{'type': 'evaluation', 'step': 16, 'epoch': 1.0, 'time': 2.5, 'loss': 0.5, 'accuracy': "
        "0.5, 'samples': 100}");
    say_fact(
        w, id,
        "{'type': 'evaluation', 'step': 25, 'epoch': 1.6, 'time': 3.5, 'loss': 0.4, 'accuracy': "
        "0.6, 'samples': 100}");
    pass(w, 2);
    assert_int_equal(points_of(w, id, "train_loss"), 30);
    process_ends(w, id, 137, "");
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 2);
    say_fact(w, id, "{'type': 'restored', 'version': 20}");
    ranks_step(w, id, 21, 24, 0.01);
    pass(w, 2);
    assert_state(w, id, "running");
    assert_int_equal(points_of(w, id, "train_loss"), 24);
    assert_int_equal(points_of(w, id, "test_accuracy"), 1);
    json_t *kept = store_doc_get(w->store, id, "detail:evaluations", &err_);
    assert_int_equal(json_array_size(at(kept, "/evaluations")), 1);
    json_decref(kept);
}

static void an_evaluation_waits_for_its_keepers_word_of_where_the_attempt_began(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 30, id);
    pass(w, 2);
    process_ends(w, id, 137, "");
    pass(w, 1);
    assert_int_equal(last_attempt(w, id)->number, 2);
    say_fact(
        w, id,
        "{'type': 'evaluation', 'step': 25, 'epoch': 1.6, 'time': 3.5, 'loss': 0.4, 'accuracy': "
        "0.6, 'samples': 100}");
    tick(w, 0.5);
    assert_int_equal(points_of(w, id, "test_accuracy"), 0);
    say_fact(w, id, "{'type': 'restored', 'version': 20}");
    ranks_step(w, id, 21, 24, 0.01);
    pass(w, 2);
    assert_int_equal(points_of(w, id, "train_loss"), 24);
    assert_int_equal(points_of(w, id, "test_accuracy"), 1);
}

/* The job starts from another job's checkpoint, and is so short that its keeper's report comes
 * last. */
static void a_first_attempts_own_evaluation_stays_when_it_is_told_where_it_began(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 30, id);
    say_fact(
        w, id,
        "{'type': 'evaluation', 'step': 25, 'epoch': 1.6, 'time': 3.0, 'loss': 0.5, 'accuracy': "
        "0.75, 'samples': 100}");
    say_fact(
        w, id,
        "{'type': 'evaluation', 'step': 28, 'epoch': 1.8, 'time': 3.5, 'loss': 0.4, 'accuracy': "
        "0.5, 'samples': 100}");
    say_fact(w, id, "{'type': 'restored', 'version': 10}");
    pass(w, 2);
    assert_int_equal(points_of(w, id, "train_loss"), 30);
    assert_int_equal(points_of(w, id, "test_accuracy"), 2);
    json_t *job = job_of(w, id);
    assert_float_equal(number_at(job, "/metrics/test_accuracy"), 0.5, 0);
    assert_float_equal(number_at(job, "/metrics/best_test_accuracy"), 0.75, 0);
    json_decref(job);
}

static void a_restart_without_a_checkpoint_begins_the_series_anew(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 30, id);
    pass(w, 2);
    process_ends(w, id, 137, "");
    pass(w, 1);
    ranks_step(w, id, 1, 5, 0.01);
    say_beat(w, id, 2, PHASE_SERVE, 0, 0);
    tick(w, 0.5);
    assert_state(w, id, "launching"); /* a fact that says from where could still be under way */
    say_beat(w, id, 2, PHASE_SERVE, 0, 0); /* another one */
    pass(w, 2);
    assert_state(w, id, "running");
    assert_int_equal(points_of(w, id, "train_loss"), 5);
}

static void
rows_that_were_read_but_not_yet_on_disk_are_read_again_by_the_next_coordinator(void **state)
{
    char id[STORE_ID];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    pass(w, 2);
    ranks_step(w, id, 2, 30, 0.01);
    tick(w, 0.1); /* read; the disk comes later */
    world_new_coordinator(w);
    pass(w, 3);
    assert_int_equal(points_of(w, id, "train_loss"), 30);
    assert_int_equal(rows_in_store(w, id, 0), 0);
}

/* ---- who is to blame ------------------------------------------------------------------------- */

static void who_waits_for_a_rank_that_computes_is_not_blamed(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 40, id);
    tick(w, 0.5);
    say_beat(w, id, 0, PHASE_EXCHANGE, 100, 0);
    say_beat(w, id, 1, PHASE_COMPUTE, 0.5, 0);
    say_beat(w, id, 2, PHASE_SERVE, 100, 0);
    pass(w, 1.5);
    assert_int_equal(last_attempt(w, id)->stops, 0);
}

static void slow_phases_have_longer_deadlines(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2}", 40, id);
    tick(w, 0.5);
    say_beat(w, id, 0, PHASE_EVALUATE, 100, 0);
    say_beat(w, id, 1, PHASE_CHECKPOINT, 100, 0);
    say_beat(w, id, 2, PHASE_SERVE, 100, 0);
    pass(w, 1.5);
    assert_int_equal(last_attempt(w, id)->stops, 0);
    say_beat(w, id, 1, PHASE_CHECKPOINT, 301, 0);
    tick(w, 0.5);
    tick(w, 1.0);
    assert_int_equal(w->fake.attempts[0].stops, 1);
}

static void a_live_pulse_beside_a_stuck_communication_thread_is_seen(void **state)
{
    char id[STORE_ID];
    struct world *w = world_stepping(state, 2, "{'workers': 2, 'max_restarts': 0}", 40, id);
    tick(w, 0.5);
    say_beat(w, id, 0, PHASE_EXCHANGE, 8, 0);
    say_beat(w, id, 1, PHASE_EXCHANGE, 8, 8);
    say_beat(w, id, 2, PHASE_SERVE, 8, 0);
    tick(w, 0.5);
    tick(w, 1.0);
    pass(w, 1);
    assert_state(w, id, "failed");
    assert_error(w, id, "peer",
                 "rank 1 on node 'n2' is lost: no turn of its communication thread for 8");
}

/* ---- logs ------------------------------------------------------------------------------------ */

static void the_output_is_told_apart_by_rank(void **state)
{
    char id[STORE_ID], path[300];
    struct world *w = world_running(state, 2, "{'workers': 2}", id);
    static const char text[] =
        "[1,1]<stderr>:first\nmpirun says\n[1,0]<stdout>:other\n[1,1]<stderr>:second\n"
        "[1,7]<stderr>:nobody\n[1,0]<stderr>:unfin";
    snprintf(path, sizeof path, "%s/jobs/%s/logs", w->place->dir, id);
    OK(proc_mkdirs(path, 0755, &err_));
    snprintf(path, sizeof path, "%s/jobs/%s/logs/attempt-1.out", w->place->dir, id);
    OK(proc_write_file(path, text, strlen(text), 0644, &err_));
    pass(w, 3);
    snprintf(path, sizeof path, "%s/jobs/%s/logs/rank-1.log", w->place->dir, id);
    char *one = proc_read_file(path, 1000, NULL, &err_);
    assert_string_equal(one, "first\nsecond\n");
    snprintf(path, sizeof path, "%s/jobs/%s/logs/rank-0.log", w->place->dir, id);
    char *zero = proc_read_file(path, 1000, NULL, &err_);
    assert_string_equal(zero, "other\n");
    snprintf(path, sizeof path, "%s/jobs/%s/logs/attempt.log", w->place->dir, id);
    char *rest = proc_read_file(path, 1000, NULL, &err_);
    assert_non_null(strstr(rest, "mpirun says\n"));
    free(one);
    free(zero);
    free(rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(accounting_comes_from_the_counters_in_heartbeats),
        IN_A_WORLD(a_new_attempt_shows_how_far_the_one_before_it_came),
        IN_A_WORLD(heartbeats_of_an_earlier_attempt_count_for_nothing),
        IN_A_WORLD(a_late_fact_of_an_earlier_attempt_counts_for_nothing),
        IN_A_WORLD(what_an_attempt_left_behind_is_taken_by_the_next_one),
        IN_A_WORLD(a_document_that_cannot_be_read_disturbs_nothing),
        IN_A_WORLD(an_evaluation_is_told_and_kept),
        IN_A_WORLD(many_evaluations_are_read_over_several_turns),
        IN_A_WORLD(epochs_that_nobody_knows_are_none_until_the_end),
        IN_A_WORLD(what_a_program_brings_is_known_from_its_joining_on),
        IN_A_WORLD(rows_and_evaluations_past_the_checkpoint_of_a_restart_are_left_out),
        IN_A_WORLD(an_evaluation_waits_for_its_keepers_word_of_where_the_attempt_began),
        IN_A_WORLD(a_first_attempts_own_evaluation_stays_when_it_is_told_where_it_began),
        IN_A_WORLD(a_restart_without_a_checkpoint_begins_the_series_anew),
        IN_A_WORLD(rows_that_were_read_but_not_yet_on_disk_are_read_again_by_the_next_coordinator),
        IN_A_WORLD(who_waits_for_a_rank_that_computes_is_not_blamed),
        IN_A_WORLD(slow_phases_have_longer_deadlines),
        IN_A_WORLD(a_live_pulse_beside_a_stuck_communication_thread_is_seen),
        IN_A_WORLD(the_output_is_told_apart_by_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
