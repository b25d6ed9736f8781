/* What the charts read: series, latest steps, workers, staleness, assignments, evaluations. */
#include "http/content/csv.h"
#include "store/history.h"
#include "tests/unit/http/fixture.h"

enum { STEPS = 5000 };

static struct answer view(struct site *s, const char *id, const char *sub)
{
    char path[300];
    snprintf(path, sizeof path, "/api/v1/jobs/%s/%s", id, sub);
    return get(s, path);
}

/* A job whose history has STEPS steps of two nodes, and one wild loss. */
static void job_with_history(struct site *s, char id[STORE_ID])
{
    static const char *const nodes[] = {"fast", "slow"};
    char folder[200];
    submit(s, SPEC("charted"), id);
    snprintf(folder, sizeof folder, "%s/jobs/%s", s->dir, id);
    OK(proc_mkdirs(folder, 0755, &err_));
    struct history *h = history_open(folder, 2, nodes, &err_);
    assert_non_null(h);
    for (int i = 1; i <= STEPS; i++) {
        for (int r = 0; r < 2; r++) {
            struct row row = {.step = i,
                              .local_step = i,
                              .time = 0.01 * i,
                              .epoch = i / 100.0,
                              .loss = i == 3217 ? 50.0f : 1.0f,
                              .accuracy = 0.5f,
                              .compute_seconds = 0.01f,
                              .exchange_seconds = 0.002f,
                              .wait_seconds = 0.001f,
                              .batch = r ? 8 : 24,
                              .staleness = r,
                              .rank = (int16_t)r,
                              .attempt = 1};
            OK(history_append(h, &row, 1, &err_));
        }
    }
    OK(history_evaluation(h, 100, 1, 1.0, 3200, 0.25, 0.9, &err_));
    history_close(h);
}

static void series_are_as_the_contract_says(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    job_with_history(s, id);
    struct answer a =
        view(s, id, "series?names=train_loss,staleness,test_accuracy&x=step&points=300");
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/x"), "step");
    assert_int_equal(json_array_size(at(a.json, "/series")), 4);
    assert_string_equal(text_at(a.json, "/series/0/name"), "train_loss");
    assert_true(json_is_null(at(a.json, "/series/0/node")));
    assert_int_equal((int)number_at(a.json, "/series/0/total_points"), STEPS);
    assert_string_equal(text_at(a.json, "/series/1/node"), "fast");
    assert_string_equal(text_at(a.json, "/series/2/node"), "slow");
    static const char *const keys[] = {"x", "min", "max", "mean"};
    double most = 0;
    for (size_t k = 0; k < 4; k++) {
        json_t *list = json_object_get(at(a.json, "/series/0"), keys[k]), *value;
        size_t i;
        assert_int_equal(json_array_size(list), 300);
        json_array_foreach(list, i, value) {
            assert_true(json_is_number(value));
            most = k == 2 ? fmax(most, json_number_value(value)) : most;
        }
    }
    assert_true(most == 50);
    assert_true(number_at(a.json, "/series/3/mean/0") == 0.9);
    answer_release(&a);
    a = view(s, id, "series?names=batch&x=time&from=10&to=20&points=10");
    assert_string_equal(text_at(a.json, "/x"), "time");
    assert_int_equal((int)number_at(a.json, "/series/0/mean/3"), 24);
    assert_true(number_at(a.json, "/series/0/x/0") >= 10 &&
                number_at(a.json, "/series/0/x/9") <= 20);
    answer_release(&a);
    a = view(s, id, "series?x=samples");
    assert_string_equal(text_at(a.json, "/series/0/name"), "train_loss");
    assert_int_equal((int)number_at(a.json, "/series/0/x/0"), 32);
    answer_release(&a);
}

static void curves_and_results_come_as_tables_too(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[200], type[256];
    job_with_history(s, id);
    json_t *results = json_of(
        "{\"evaluations\": [{\"step\": 100, \"epoch\": 1.5, \"time\": 1.0, \"samples\": 3200, "
        "\"loss\": 0.25, \"accuracy\": 0.9}]}");
    OK(store_doc_set(s->store, id, "detail:evaluations", results, &err_));
    json_decref(results);
    struct answer a = view(s, id, "series?names=batch,train_loss&points=2&format=csv");
    expect_status(&a, 200);
    assert_true(header_of(&a, "Content-Type", type));
    assert_int_equal(strncmp(type, "text/csv", 8), 0);
    assert_int_equal(strncmp(a.body, "name,node,x,min,max,mean\r\nbatch,fast,1,24,24,24\r\n", 49),
                     0);
    assert_non_null(strstr(a.body, "\r\ntrain_loss,,1,1,1,1\r\n"));
    answer_release(&a);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/evaluations", id);
    struct ask table = {.method = "GET",
                        .path = path,
                        .token = s->token,
                        .headers = {"Accept: text/csv, application/json;q=0.5"}};
    a = ask(s, table);
    assert_string_equal(a.body,
                        "step,epoch,time,samples,loss,accuracy,test_samples\r\n"
                        "100,1.5,1,3200,0.25,0.9,\r\n");
    answer_release(&a);
    table.headers[0] = "Accept: text/csv;q=0.5, application/json";
    a = ask(s, table);
    assert_int_equal((int)number_at(a.json, "/evaluations/0/step"), 100);
    answer_release(&a);
}

static void a_name_is_no_formula_in_a_table(void **state)
{
    json_t *rows = json_of(
        "[{\"owner\": \"@ann\", \"name\": \"=HYPERLINK(\\\"x\\\")\", \"jobs\": -1},"
        " {\"owner\": \"a=b\", \"name\": \"-1+2\", \"jobs\": 2}]");
    struct buf table = csv_of_accounting(rows);
    assert_string_equal(table.data,
                        "owner,job,name,day,jobs,node_seconds,node_hours\r\n"
                        "'@ann,,\"'=HYPERLINK(\"\"x\"\")\",,-1,,\r\n"
                        "a=b,,'-1+2,,2,,\r\n");
    buf_release(&table);
    json_decref(rows);
}

static void norms_and_load_come_as_tables_with_the_digits_of_json(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    json_t *norms = json_of(
        "{\"tensors\": [{\"name\": \"a,b\", \"elements\": 2}, {\"name\": \"c\", \"elements\": 1}],"
        " \"x\": [1, 1234567890123], \"epoch\": [0.5, 1], \"time\": [0.1, 1234567890.125],"
        " \"weights\": [[1, 2], [3, null]], \"gradients\": [[0.25, 4], [5, 6]]}");
    json_t *load = json_of(
        "{\"now\": 1767323050.5, \"at\": [1767323045.678, 1767323047.5], \"seconds\": [2, 2],"
        " \"cpu\": [0.5, null]}");
    struct buf table = csv_of_norms(norms), of_load = csv_of_load(load);
    assert_string_equal(table.data,
                        "tensor,x,epoch,time,weight,gradient\r\n"
                        "\"a,b\",1,0.5,0.1,1,0.25\r\n"
                        "\"a,b\",1234567890123,1,1234567890.125,2,4\r\n"
                        "c,1,0.5,0.1,3,5\r\n"
                        "c,1234567890123,1,1234567890.125,,6\r\n");
    assert_string_equal(of_load.data,
                        "at,seconds,cpu\r\n1767323045.678,2,0.5\r\n1767323047.5,2,\r\n");
    buf_release(&table);
    buf_release(&of_load);
    json_decref(norms);
    json_decref(load);
    job_with_history(s, id);
    struct answer a = view(s, id, "norms?format=csv");
    expect_status(&a, 200);
    assert_string_equal(a.body, "tensor,x,epoch,time,weight,gradient\r\n");
    answer_release(&a);
}

static void a_wrong_series_is_422_with_the_nearest_name(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    submit(s, SPEC("curves"), id);
    struct answer a = view(s, id, "series?names=train_lss");
    expect_problem(&a, 422, "names");
    assert_non_null(strstr(text_at(a.json, "/hint"), "train_loss"));
    answer_release(&a);
    a = view(s, id, "series?x=epoch&points=many&from=nan&to=1e999");
    expect_problem(&a, 422, "x");
    expect_problem(&a, 422, "points");
    expect_problem(&a, 422, "from");
    expect_problem(&a, 422, "to");
    answer_release(&a);
}

static void a_job_that_has_not_begun_has_empty_views(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    submit(s, SPEC("fresh"), id);
    struct {
        const char *sub, *key;
    } const cases[] = {{"steps", "/nodes"},
                       {"workers", "/workers"},
                       {"workers", "/servers"},
                       {"staleness", "/nodes"},
                       {"assignments", "/assignments"},
                       {"evaluations", "/evaluations"},
                       {"artifacts", "/artifacts"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a = view(s, id, cases[i].sub);
        expect_status(&a, 200);
        assert_true(json_is_array(at(a.json, cases[i].key)));
        assert_int_equal(json_array_size(at(a.json, cases[i].key)), 0);
        answer_release(&a);
    }
    struct answer a = view(s, id, "series?names=train_loss,staleness");
    expect_status(&a, 200);
    assert_int_equal((int)number_at(a.json, "/series/0/total_points"), 0);
    answer_release(&a);
}

static void the_last_steps_are_rows_of_each_rank(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    job_with_history(s, id);
    struct answer a = view(s, id, "steps?last=5");
    expect_status(&a, 200);
    assert_int_equal(json_array_size(at(a.json, "/nodes")), 2);
    assert_string_equal(text_at(a.json, "/nodes/1/node"), "slow");
    assert_int_equal(json_array_size(at(a.json, "/nodes/1/rows")), 5);
    assert_int_equal((int)number_at(a.json, "/nodes/1/rows/4/step"), STEPS);
    assert_true(number_at(a.json, "/nodes/0/rows/0/compute_seconds") == 0.01);
    answer_release(&a);
    a = view(s, id, "steps?last=0");
    expect_problem(&a, 422, "last");
    answer_release(&a);
}

static void what_the_monitor_wrote_is_given_as_it_is(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    json_t *staleness = json_of(
        "{\"nodes\": [{\"node\": \"slow\", \"mean\": 3.1, \"p50\": 3, \"p95\": 4, \"p99\": 4, "
        "\"max\": 5, \"histogram\": [0, 12, 530]}]}");
    json_t *evaluations =
        json_of("{\"evaluations\": [{\"step\": 10, \"loss\": 0.5, \"accuracy\": 0.8}]}");
    json_t *assignment = json_of(
        "{\"version\": 2, \"step\": 40, \"time\": \"2026-01-02T03:04:05.678Z\", \"reason\": \"r\", "
        "\"batches\": {\"fast-1\": 93}, "
        "\"predicted_step_seconds\": 0.05, \"measured_step_seconds\": 0.12}");
    json_t *live = json_of(
        "{\"workers\": [{\"rank\": 0, \"node\": \"fast-1\", \"batch\": 93}], \"servers\": []}");
    submit(s, SPEC("monitored"), id);
    OK(store_doc_set(s->store, id, "detail:staleness", staleness, &err_));
    OK(store_doc_set(s->store, id, "detail:evaluations", evaluations, &err_));
    OK(store_assignment_add(s->store, id, assignment, &err_));
    OK(store_doc_set(s->store, id, "live", live, &err_));
    struct answer a = view(s, id, "staleness"), b = view(s, id, "evaluations"),
                  c = view(s, id, "assignments"), d = view(s, id, "workers");
    assert_true(json_equal(a.json, staleness));
    assert_true(json_equal(b.json, evaluations));
    assert_true(json_equal(at(c.json, "/assignments/0"), assignment));
    assert_string_equal(text_at(d.json, "/workers/0/node"), "fast-1");
    assert_non_null(
        strstr(a.body, "3.1,")); /* as a person would write it, not 3.1000000000000001 */
    answer_release(&a);
    answer_release(&b);
    answer_release(&c);
    answer_release(&d);
    json_decref(staleness);
    json_decref(evaluations);
    json_decref(assignment);
    json_decref(live);
}

static void charts_can_be_read_while_the_store_is_away(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    job_with_history(s, id);
    redis_private_stop(s->dir);
    struct answer a = view(s, id, "series?names=train_loss"), b = view(s, id, "steps"),
                  c = view(s, id, "logs"), d = view(s, id, "staleness");
    expect_status(&a, 200);
    expect_status(&b, 200);
    expect_status(&c, 200);
    expect_problem(&d, 503, NULL);
    answer_release(&a);
    answer_release(&b);
    answer_release(&c);
    answer_release(&d);
    OK(redis_private_start(s->dir, s->store_url, &s->pid, &err_));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_are_as_the_contract_says),
        cmocka_unit_test(curves_and_results_come_as_tables_too),
        cmocka_unit_test(a_name_is_no_formula_in_a_table),
        cmocka_unit_test(norms_and_load_come_as_tables_with_the_digits_of_json),
        cmocka_unit_test(a_wrong_series_is_422_with_the_nearest_name),
        cmocka_unit_test(a_job_that_has_not_begun_has_empty_views),
        cmocka_unit_test(the_last_steps_are_rows_of_each_rank),
        cmocka_unit_test(what_the_monitor_wrote_is_given_as_it_is),
        cmocka_unit_test(charts_can_be_read_while_the_store_is_away),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
