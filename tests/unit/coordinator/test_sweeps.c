/* Sweeps that advance (coordinator/sweeps/), against a real store. The test moves the jobs by hand,
 * and lets the coordinator die where it wants. */
#include <math.h>

#include "tests/unit/store/fixture.h"

#include "coordinator/sweeps/advance.h"
#include "coordinator/sweeps/sweeps.h"
#include "store/sweeps.h"

#define SPEC                                                                              \
    "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\"}, \"optimizer\": {\"type\": " \
    "\"sgd\"}, \"strategy\": {\"type\": \"sync\"}, \"batching\": {\"global_batch\": 32, " \
    "\"policy\": \"equal\"}, \"workers\": 2}"
#define RATES(values) "[{\"pointer\": \"/optimizer/learning_rate\", \"values\": " values "}]"

static void start(struct store *s, const char *parameters, const char *method, const char *budget,
                  const char *owner, char id[STORE_ID])
{
    char text[1000];
    struct sweep sweep;
    snprintf(text, sizeof text, "{\"spec\": " SPEC ", \"parameters\": %s, \"method\": %s%s}",
             parameters, method, budget);
    json_t *j = json_of(text);
    if (sweep_read(&sweep, j, &err_) < 0) {
        fail_msg("%s", err_.message);
    }
    OK(store_sweep_create(s, sweep.json, NULL, owner, id, &err_));
    sweep_release(&sweep);
    json_decref(j);
}

static void tick(struct sweeps *s)
{
    s->due = 0;
    sweeps_tick(s, 1);
    assert_false(s->away);
}

static json_t *jobs_of(struct store *s, const char *id)
{
    json_t *kept = store_sweep_get(s, id, &err_);
    assert_non_null(kept);
    json_t *jobs = json_incref(json_object_get(kept, "jobs"));
    json_decref(kept);
    return jobs;
}

static int count(struct store *s, const char *id)
{
    json_t *jobs = jobs_of(s, id);
    int n = (int)json_array_size(jobs);
    json_decref(jobs);
    return n;
}

static void job_at(struct store *s, const char *id, int at, char out[STORE_ID])
{
    json_t *jobs = jobs_of(s, id);
    snprintf(out, STORE_ID, "%s", jsonx_string_at(json_array_get(jobs, (size_t)at), "job"));
    json_decref(jobs);
}

/* Moves a job to its end, with this accuracy. */
static void end(struct store *s, const char *id, int at, enum job_state to, double accuracy)
{
    char job[STORE_ID];
    job_at(s, id, at, job);
    json_t *live = json_pack("{s:{s:o}}", "metrics", "test_accuracy",
                             isfinite(accuracy) ? json_real(accuracy) : json_null());
    OK(store_job_transition(s, job, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    OK(store_job_transition(s, job, JOB_LAUNCHING, JOB_RUNNING, NULL, &err_));
    OK(store_doc_set(s, job, "live", live, &err_));
    OK(store_job_transition(s, job, JOB_RUNNING, to, NULL, &err_));
    json_decref(live);
}

static void expect_state(struct store *s, const char *id, const char *state)
{
    json_t *kept = store_sweep_get(s, id, &err_);
    assert_string_equal(jsonx_string_at(kept, "state"), state);
    assert_int_equal(json_is_null(json_object_get(kept, "finished")),
                     strcmp(state, "running") == 0 || strcmp(state, "cancelling") == 0);
    json_decref(kept);
}

static void it_submits_as_many_as_its_budget_allows_and_ends(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    struct sweeps sweeps = {.store = s};
    char id[STORE_ID], job[STORE_ID];
    start(s, RATES("[0.1, 0.2, 0.3]"), "{\"type\": \"grid\"}", ", \"parallel\": 2", "ada", id);
    tick(&sweeps);
    assert_int_equal(count(s, id), 2);
    tick(&sweeps);
    assert_int_equal(count(s, id), 2);
    job_at(s, id, 1, job);
    json_t *made = store_job_get(s, job, &err_), *spec = json_object_get(made, "spec");
    assert_string_equal(jsonx_string_at(made, "owner"), "ada");
    assert_string_equal(jsonx_string_at(made, "name"), "sweep-2");
    assert_true(fabs(json_number_value(
                         json_object_get(json_object_get(spec, "optimizer"), "learning_rate")) -
                     0.2) < 1e-12);
    json_decref(made);
    end(s, id, 0, JOB_FAILED, NAN);
    tick(&sweeps);
    assert_int_equal(count(s, id), 3);
    expect_state(s, id, "running");
    end(s, id, 1, JOB_SUCCEEDED, 0.5);
    end(s, id, 2, JOB_SUCCEEDED, 0.75);
    tick(&sweeps);
    expect_state(s, id, "succeeded");
    json_t *jobs = jobs_of(s, id), *open = store_sweeps_open(s, &err_);
    assert_true(fabs(json_number_value(json_object_get(json_array_get(jobs, 2), "metric")) - 0.75) <
                1e-12);
    assert_int_equal(json_array_size(open), 0);
    json_decref(jobs);
    json_decref(open);
}

static void nodes_are_a_budget_too(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    struct sweeps sweeps = {.store = s};
    char id[STORE_ID];
    start(s, "[{\"pointer\": \"/workers\", \"values\": [2, 3, 1, 9]}]", "{\"type\": \"grid\"}",
          ", \"parallel\": 9, \"nodes\": 5", "ada", id);
    struct sweep sweep;
    json_t *kept = store_sweep_get(s, id, &err_);
    OK(sweep_read(&sweep, json_object_get(kept, "document"), &err_));
    json_decref(kept);
    struct sweep_runs runs = {.n = 0};
    assert_int_equal(advance_next(&sweep, &runs, false).what, ADVANCE_SUBMIT);
    runs.all[runs.n++] = (struct sweep_run){.state = JOB_RUNNING};
    assert_int_equal(advance_next(&sweep, &runs, false).what, ADVANCE_SUBMIT);
    runs.all[runs.n++] = (struct sweep_run){.state = JOB_RUNNING};
    assert_int_equal(advance_next(&sweep, &runs, false).what, ADVANCE_WAIT); /* 2 + 3 */
    runs.all[0].state = JOB_SUCCEEDED;
    assert_int_equal(advance_next(&sweep, &runs, false).what, ADVANCE_SUBMIT); /* 3 + 1 */
    runs.all[runs.n++] = (struct sweep_run){.state = JOB_RUNNING};
    assert_int_equal(advance_next(&sweep, &runs, false).what, ADVANCE_WAIT);
    runs.all[1].state = runs.all[2].state = JOB_FAILED;
    assert_int_equal(advance_next(&sweep, &runs, false).what, ADVANCE_SUBMIT); /* 9 alone */
    sweep_release(&sweep);
    OK(store_sweep_change(s, id, NULL, SWEEP_RUNNING, SWEEP_CANCELLING, &err_));
    tick(&sweeps);
    expect_state(s, id, "cancelled"); /* before its first job */
}

/* The coordinator dies after it has put the jobs into the store, but before it writes the list. */
static void no_trial_is_submitted_twice_when_a_coordinator_dies_before_it_writes(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    struct sweeps sweeps = {.store = s};
    char id[STORE_ID], first[STORE_ID], second[STORE_ID], again[STORE_ID];
    start(s, RATES("[0.1, 0.2]"), "{\"type\": \"grid\"}", ", \"parallel\": 2", "ada", id);
    tick(&sweeps);
    job_at(s, id, 0, first);
    job_at(s, id, 1, second);
    json_t *empty = json_array();
    OK(store_sweep_change(s, id, empty, SWEEP_RUNNING, SWEEP_RUNNING, &err_));
    json_decref(empty);
    assert_int_equal(count(s, id), 0);
    tick(&sweeps);
    job_at(s, id, 0, again);
    assert_string_equal(again, first);
    job_at(s, id, 1, again);
    assert_string_equal(again, second);
    OK(store_sweep_change(s, id, NULL, SWEEP_RUNNING, SWEEP_CANCELLING, &err_));
    tick(&sweeps);
    expect_state(s, id, "cancelling");
    OK(store_job_transition(s, first, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    OK(store_job_transition(s, second, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    tick(&sweeps);
    expect_state(s, id, "cancelled");
}

static void a_rung_goes_on_from_the_checkpoints_of_the_one_below(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    struct sweeps sweeps = {.store = s};
    char id[STORE_ID], job[STORE_ID], from[STORE_ID], path[64];
    start(s, RATES("[0.1, 0.2, 0.3]"),
          "{\"type\": \"halving\", \"trials\": 4, \"eta\": 2, \"rungs\": [1, 4]}",
          ", \"parallel\": 9", "ada", id);
    tick(&sweeps);
    assert_int_equal(count(s, id), 4);
    job_at(s, id, 3, job);
    OK(store_job_request(s, job, "cancel", &err_)); /* by a person */
    OK(store_job_transition(s, job, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    end(s, id, 0, JOB_SUCCEEDED, 0.2);
    end(s, id, 1, JOB_SUCCEEDED, NAN);
    end(s, id, 2, JOB_SUCCEEDED, 0.3);
    job_at(s, id, 0, job);
    job_at(s, id, 2, from);
    tick(&sweeps); /* both jobs that have a figure */
    assert_int_equal(count(s, id), 6);
    job_at(s, id, 5, job);
    json_t *made = store_job_get(s, job, &err_), *spec = json_object_get(made, "spec");
    snprintf(path, sizeof path, "%s/checkpoints", from);
    assert_string_equal(jsonx_string_at(json_object_get(spec, "init"), "path"), path);
    assert_int_equal(json_integer_value(json_object_get(spec, "epochs")), 4);
    json_decref(made);
    OK(store_job_request(s, job, "cancel", &err_));
    OK(store_job_transition(s, job, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    OK(store_job_delete(s, job, NULL, &err_)); /* a deleted job counts as cancelled */
    end(s, id, 4, JOB_SUCCEEDED, 0.6);
    tick(&sweeps);
    expect_state(s, id, "succeeded");
}

static void a_trial_waits_for_room_in_its_owners_queue(void **state)
{
    struct place *p = *state;
    char id[STORE_ID], file[300];
    snprintf(file, sizeof file, "%s/quotas.json", p->dir);
    static const char text[] = "{\"owners\": {\"bob\": {\"queued\": 1}}}";
    OK(proc_write_file(file, text, strlen(text), 0600, &err_));
    struct sweeps sweeps = {.store = p->store, .quotas = quotas_open(file, &err_)};
    assert_non_null(sweeps.quotas);
    start(p->store, RATES("[0.1, 0.2]"), "{\"type\": \"grid\"}", ", \"parallel\": 2", "bob", id);
    tick(&sweeps);
    assert_int_equal(count(p->store, id), 1);
    end(p->store, id, 0, JOB_SUCCEEDED, 0.5);
    tick(&sweeps);
    assert_int_equal(count(p->store, id), 2);
    end(p->store, id, 1, JOB_FAILED, NAN);
    tick(&sweeps);
    expect_state(p->store, id, "succeeded");
    quotas_close(sweeps.quotas);
}

static void a_sweep_is_kept_by_its_key_and_deleted_once_it_has_ended(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], again[STORE_ID];
    json_t *a = json_of("{\"name\": \"a\"}"), *b = json_of("{\"name\": \"b\"}");
    assert_int_equal(store_sweep_create(s, a, "once", "ada", id, &err_), JOB_CREATED);
    assert_int_equal(store_sweep_create(s, a, "once", "ada", again, &err_), JOB_CREATED_BEFORE);
    assert_string_equal(id, again);
    assert_int_equal(store_sweep_create(s, b, "once", "ada", again, &err_), -ERR_CONFLICT);
    assert_int_equal(store_sweep_remove(s, id, &err_), -ERR_CONFLICT);
    json_t *list = store_sweeps(s, 1, &err_);
    assert_string_equal(jsonx_string_at(json_array_get(list, 0), "id"), id);
    json_decref(list);
    assert_int_equal(store_sweep_change(s, id, NULL, SWEEP_CANCELLING, SWEEP_CANCELLED, &err_),
                     SWEEP_RUNNING); /* another state than `from`: nothing changes */
    OK(store_sweep_change(s, id, NULL, SWEEP_RUNNING, SWEEP_FAILED, &err_));
    OK(store_sweep_remove(s, id, &err_));
    assert_int_equal(store_sweep_remove(s, id, &err_), -ERR_NOT_FOUND);
    assert_null(store_sweep_get(s, id, &err_));
    assert_int_equal(store_sweep_create(s, b, "once", "ada", again, &err_), JOB_CREATED);
    OK(store_sweep_change(s, again, NULL, SWEEP_RUNNING, SWEEP_FAILED, &err_));
    OK(store_sweep_remove(s, again, &err_));
    json_decref(a);
    json_decref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_submits_as_many_as_its_budget_allows_and_ends),
        cmocka_unit_test(nodes_are_a_budget_too),
        cmocka_unit_test(no_trial_is_submitted_twice_when_a_coordinator_dies_before_it_writes),
        cmocka_unit_test(a_rung_goes_on_from_the_checkpoints_of_the_one_below),
        cmocka_unit_test(a_trial_waits_for_room_in_its_owners_queue),
        cmocka_unit_test(a_sweep_is_kept_by_its_key_and_deleted_once_it_has_ended),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
