/* Nodes, catalogue, data sets, metrics; and the host rules and cookie reader by themselves. */
#include "http/access/auth.h"
#include "http/access/hosts.h"
#include "tests/unit/http/fixture.h"

static void put_node(struct site *s, const char *name)
{
    json_t *node =
        json_pack("{s:s, s:s, s:s, s:I, s:i, s:f}", "name", name, "host", "here", "device", "cpu:1",
                  "memory_bytes", (json_int_t)1000000000, "threads", 1, "slowdown", 1.0);
    OK(store_node_put(s->store, node, &err_));
    json_decref(node);
}

static void nodes_are_listed_by_name_with_their_state(void **state)
{
    struct site *s = *state;
    put_node(s, "slow");
    put_node(s, "fast");
    struct answer a = get(s, "/api/v1/nodes");
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/nodes/0/name"), "fast");
    assert_string_equal(text_at(a.json, "/nodes/1/state"), "ready");
    answer_release(&a);
    a = get(s, "/api/v1/nodes/slow");
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/device"), "cpu:1");
    answer_release(&a);
    a = get(s, "/api/v1/nodes/none");
    expect_problem(&a, 404, NULL);
    answer_release(&a);
}

static void a_node_can_be_drained_disabled_and_enabled(void **state)
{
    struct site *s = *state;
    struct {
        const char *path, *state;
    } const cases[] = {{"/api/v1/nodes/fast/drain", "draining"},
                       {"/api/v1/nodes/fast/disable", "disabled"},
                       {"/api/v1/nodes/fast/drain", "draining"},
                       {"/api/v1/nodes/fast/enable", "ready"}};
    put_node(s, "fast");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int woken = s->woken;
        struct answer a = post(s, cases[i].path, "");
        expect_status(&a, 200);
        assert_string_equal(text_at(a.json, "/state"), cases[i].state);
        assert_int_equal(s->woken, woken + 1);
        answer_release(&a);
    }
    struct answer a = post(s, "/api/v1/nodes/none/drain", "");
    expect_problem(&a, 404, NULL);
    answer_release(&a);
}

static void a_node_that_reports_is_not_forgotten(void **state)
{
    struct site *s = *state;
    put_node(s, "here");
    struct answer a =
        ask(s, (struct ask){.method = "DELETE", .path = "/api/v1/nodes/here", .token = s->token});
    expect_problem(&a, 409, NULL);
    answer_release(&a);
}

static void the_catalogue_has_everything_the_form_needs(void **state)
{
    struct site *s = *state;
    static const char *const kinds[] = {"/strategy/0/name",
                                        "/batching/0/name",
                                        "/optimizer/0/parameters/0/name",
                                        "/schedule/0/name",
                                        "/layer/0/name",
                                        "/format/0/name",
                                        "/device/0/name",
                                        "/preset/0/model/layers/0/type"};
    struct answer a = get(s, "/api/v1/catalog");
    expect_status(&a, 200);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!json_is_string(at(a.json, kinds[i]))) {
            fail_msg("there is no %s", kinds[i]);
        }
    }
    size_t i;
    json_t *preset;
    json_array_foreach(at(a.json, "/preset"), i, preset) {
        if (strcmp(text_at(preset, "/name"), "lenet5") == 0) {
            assert_int_equal((int)number_at(preset, "/parameters"), 1663370);
        }
    }
    answer_release(&a);
    a = get(s, "/api/v1/datasets");
    assert_string_equal(text_at(a.json, "/datasets/0/path"), "mnist");
    answer_release(&a);
}

static void what_keeps_data_sets_from_being_listed_is_said(void **state)
{
    struct site *s = *state;
    s->datasets_problem = "the worker's program did not answer";
    struct answer a = get(s, "/api/v1/datasets");
    s->datasets_problem = NULL;
    expect_problem(&a, 500, NULL);
    assert_non_null(strstr(a.body, "the worker's program did not answer"));
    answer_release(&a);
}

static void metrics_are_prometheus_text_with_names_escaped(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], type[256];
    submit(s, "{\"name\": \"a\\\"b\\\\c\", " GLYPHS "}", id);
    move(s, id, JOB_QUEUED, JOB_LAUNCHING);
    move(s, id, JOB_LAUNCHING, JOB_RUNNING);
    json_t *live = json_of(
        "{\"progress\": {\"step\": 12}, \"workers\": [{\"rank\": 0, \"node\": \"fast\", "
        "\"batch\": 93}]}");
    OK(store_doc_set(s->store, id, "live", live, &err_));
    json_decref(live);
    struct answer a = get(s, "/metrics");
    expect_status(&a, 200);
    assert_true(header_of(&a, "Content-Type", type));
    assert_int_equal(strncmp(type, "text/plain; version=0.0.4", 25), 0);
    assert_non_null(strstr(a.body, "\nevenstep_jobs{state=\"running\"} 1\n"));
    assert_non_null(strstr(a.body, "name=\"a\\\"b\\\\c\"} 12\n"));
    assert_non_null(strstr(a.body, ",node=\"fast\"} 93\n"));
    assert_non_null(strstr(a.body, "\nevenstep_store_up 1\n"));
    assert_null(strstr(a.body, "nan"));
    assert_non_null(strstr(a.body,
                           "\nevenstep_http_request_seconds_bucket{method=\"POST\","
                           "route=\"/api/v1/jobs\",le=\"+Inf\"} "));
    assert_non_null(strstr(a.body, "\nprocess_open_fds "));
    assert_non_null(strstr(a.body, "\nevenstep_build_info{version=\""));
    answer_release(&a);
}

/* The value of a metric's line; -1: there is none. */
static double metric(struct site *s, const char *name)
{
    struct answer a = get(s, "/metrics");
    char line[200];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(a.body, line);
    double value = at ? strtod(at + strlen(line), NULL) : -1;
    answer_release(&a);
    return value;
}

static void events_are_counted_as_they_pass(void **state)
{
    struct site *s = *state;
    static const char finished[] = "evenstep_jobs_finished_total{state=\"failed\"}";
    char id[STORE_ID];
    json_t *rows = json_of(
               "{\"rows\": [{\"compute_seconds\": 0.02, \"exchange_seconds\": 0.01, "
               "\"wait_seconds\": 0.0, \"staleness\": 3}], \"samples\": 8}"),
           *error = json_of("{\"code\": \"diverged\", \"message\": \"the loss became NaN\"}");
    double failed = metric(s, finished), lost = metric(s, "evenstep_job_restarts_total"),
           waits = metric(s, "evenstep_queue_wait_seconds_count"),
           steps = metric(s, "evenstep_step_seconds_bucket{le=\"0.05\"}"),
           fresh = metric(s, "evenstep_staleness_versions_bucket{le=\"2\"}");
    submit(s, SPEC("counted"), id);
    move(s, id, JOB_QUEUED, JOB_LAUNCHING);
    move(s, id, JOB_LAUNCHING, JOB_RUNNING);
    OK(store_event(s->store, id, "rows", rows, &err_));
    move(s, id, JOB_RUNNING, JOB_QUEUED);
    move(s, id, JOB_QUEUED, JOB_LAUNCHING);
    OK(store_job_transition(s->store, id, JOB_LAUNCHING, JOB_FAILED, error, &err_));
    double until = clock_now() + 60;
    while (metric(s, finished) < failed + 1 && clock_now() < until) {
    }
    assert_true(metric(s, finished) == failed + 1);
    assert_true(metric(s, "evenstep_job_restarts_total") == lost + 1);
    assert_true(metric(s, "evenstep_job_failures_total{code=\"diverged\"}") >= 1);
    assert_true(metric(s, "evenstep_queue_wait_seconds_count") == waits + 2);
    assert_true(metric(s, "evenstep_step_seconds_bucket{le=\"0.05\"}") == steps + 1);
    assert_true(metric(s, "evenstep_staleness_versions_bucket{le=\"2\"}") == fresh);
    assert_true(metric(s, "evenstep_staleness_versions_bucket{le=\"3\"}") >= 1);
    json_decref(rows);
    json_decref(error);
}

static void every_metric_is_in_the_docs_and_the_other_way_round(void **state)
{
    struct site *s = *state;
    char *docs = proc_read_file("docs/metrics.md", 1 << 20, NULL, &err_);
    if (!docs) {
        fail_msg("%s (tests run in the project's folder)", err_.message);
    }
    struct answer a = get(s, "/metrics");
    for (const char *line = strstr(a.body, "# TYPE "); line; line = strstr(line + 1, "# TYPE ")) {
        char name[128];
        snprintf(name, sizeof name, "`%.*s`", (int)strcspn(line + 7, " "), line + 7);
        if (!strstr(docs, name)) {
            fail_msg("%s is not in docs/metrics.md", name);
        }
    }
    for (const char *in = strstr(docs, "| `evenstep_"); in; in = strstr(in + 1, "| `evenstep_")) {
        char type[128];
        snprintf(type, sizeof type, "# TYPE %.*s ", (int)strcspn(in + 3, "`"), in + 3);
        if (!strstr(a.body, type)) {
            fail_msg("docs/metrics.md has what is not there: %s", type);
        }
    }
    answer_release(&a);
    free(docs);
}

static void a_name_is_ours_or_not(void **state)
{
    static const char *const allow[] = {"train.example", "other.example:9000", NULL};
    struct {
        const char *listen;
        int port;
        const char *host;
        bool ours;
    } const cases[] = {
        {"127.0.0.1:8080", 8080, "127.0.0.1:8080", true},
        {"127.0.0.1:8080", 8080, "localhost:8080", true},
        {"127.0.0.1:8080", 8080, "LOCALHOST:8080", true},
        {"127.0.0.1:8080", 8080, "[::1]:8080", true},
        {"127.0.0.1:8080", 8080, "127.0.0.1", false},
        {"127.0.0.1:80", 80, "127.0.0.1", true},
        {"127.0.0.1:8080", 8080, "127.0.0.1:8081", false},
        {"127.0.0.1:8080", 8080, "evil.example:8080", false},
        {"127.0.0.1:8080", 8080, "", false},
        {"127.0.0.1:8080", 8080, "127.0.0.1:8080@evil.example", false},
        {"127.0.0.1:8080", 8080, "127.0.0.1:99999", false},
        {"127.0.0.1:8080", 8080, "127.0.0.1.evil.example:8080", false},
        {"0.0.0.0:8080", 8080, "192.168.1.7:8080", true},
        {"0.0.0.0:8080", 8080, "evil.example:8080", false},
        {"[::]:8080", 8080, "[fe80::1]:8080", true},
        {"10.0.0.5:8080", 8080, "localhost:8080", false},
        {"10.0.0.5:8080", 8080, "10.0.0.5:8080", true},
        {"10.0.0.5:8080", 8080, "train.example", true},
        {"10.0.0.5:8080", 8080, "train.example:443", true},
        {"10.0.0.5:8080", 8080, "other.example:9000", true},
        {"10.0.0.5:8080", 8080, "other.example:9001", false},
        {"10.0.0.5:8080", 8080, "[::1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hosts h;
        OK(hosts_init(&h, cases[i].listen, cases[i].port, allow, &err_));
        if (hosts_allowed(&h, cases[i].host) != cases[i].ours) {
            fail_msg("'%s' on %s", cases[i].host, cases[i].listen);
        }
    }
}

static void a_cookie_is_read_whole_or_not_at_all(void **state)
{
    char good[AUTH_TOKEN + 64], session[AUTH_TOKEN], hex[AUTH_TOKEN];
    (void)state;
    memset(hex, 'a', sizeof hex - 1);
    hex[sizeof hex - 1] = '\0';
    snprintf(good, sizeof good, "a=b; evenstep_80=%s; c=d", hex);
    assert_true(auth_cookie(good, 80, session));
    assert_string_equal(session, hex);
    assert_false(auth_cookie(good, 8080, session));
    assert_false(auth_cookie("evenstep_80=abc", 80, session));
    assert_false(auth_cookie("", 80, session));
    assert_false(auth_cookie(NULL, 80, session));
    snprintf(good, sizeof good, "evenstep_80=%sa", hex);
    assert_false(auth_cookie(good, 80, session));
    snprintf(good, sizeof good, "xevenstep_80=%s", hex);
    assert_false(auth_cookie(good, 80, session));
}

/* The code with which a service on this address fails to start; *e has its sentence. */
static enum err_code refuses_to_listen(const struct site *s, const char *address, struct err *e)
{
    char token[160];
    snprintf(token, sizeof token, "%s/token", s->dir);
    struct http_config c = {.listen = address,
                            .data_dir = s->dir,
                            .static_dir = s->static_dir,
                            .store_url = s->store_url,
                            .token_file = token};
    *e = (struct err){0};
    assert_null(http_start(&c, e));
    return e->code;
}

static void an_address_that_is_none_is_refused_at_start(void **state)
{
    struct site *s = *state;
    static const char *const bad[] = {"127.0.0.1",       "127.0.0.1:", "127.0.0.1:x",
                                      "127.0.0.1:70000", ":8080",      "no.such.host.invalid:80",
                                      "[::1:80"};
    struct err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(refuses_to_listen(s, bad[i], &e), ERR_INVALID);
        assert_non_null(strstr(e.message, bad[i]));
    }
    char taken[32];
    snprintf(taken, sizeof taken, "127.0.0.1:%d", s->port);
    assert_int_equal(refuses_to_listen(s, taken, &e), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_listed_by_name_with_their_state),
        cmocka_unit_test(a_node_can_be_drained_disabled_and_enabled),
        cmocka_unit_test(a_node_that_reports_is_not_forgotten),
        cmocka_unit_test(the_catalogue_has_everything_the_form_needs),
        cmocka_unit_test(what_keeps_data_sets_from_being_listed_is_said),
        cmocka_unit_test(metrics_are_prometheus_text_with_names_escaped),
        cmocka_unit_test(events_are_counted_as_they_pass),
        cmocka_unit_test(every_metric_is_in_the_docs_and_the_other_way_round),
        cmocka_unit_test(a_name_is_ours_or_not),
        cmocka_unit_test(a_cookie_is_read_whole_or_not_at_all),
        cmocka_unit_test(an_address_that_is_none_is_refused_at_start),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
