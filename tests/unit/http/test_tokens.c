/* Tokens that admins issue over the API, and the owners of jobs. */
#include "tests/unit/http/fixture.h"

static struct answer as(struct site *s, const char *token, const char *method, const char *path,
                        const char *body)
{
    return ask(s, (struct ask){.method = method, .path = path, .token = token, .body = body});
}

struct issued_token {
    char id[32], text[64];
};

/* `end`: of the body, such as ", \"seconds\": 5". */
static struct issued_token issue(struct site *s, const char *name, const char *role,
                                 const char *end)
{
    struct issued_token t;
    char body[256];
    snprintf(body, sizeof body, "{\"name\": \"%s\", \"role\": \"%s\"%s}", name, role, end);
    struct answer a = post(s, "/api/v1/tokens", body);
    expect_status(&a, 201);
    snprintf(t.id, sizeof t.id, "%s", text_at(a.json, "/id"));
    snprintf(t.text, sizeof t.text, "%s", text_at(a.json, "/token"));
    answer_release(&a);
    return t;
}

static long status_as(struct site *s, const char *token)
{
    struct answer a = as(s, token, "GET", "/api/v1/jobs", NULL);
    long status = a.status;
    answer_release(&a);
    return status;
}

static void withdraw(struct site *s, const char *id, long expected)
{
    char path[100];
    snprintf(path, sizeof path, "/api/v1/tokens/%s", id);
    struct answer a = as(s, s->token, "DELETE", path, NULL);
    expect_status(&a, expected);
    answer_release(&a);
}

/* The document of this id in the list, a new reference; NULL: it is not listed. */
static json_t *listed(struct site *s, const char *id)
{
    struct answer a = get(s, "/api/v1/tokens");
    json_t *found = NULL, *one;
    size_t i;
    expect_status(&a, 200);
    json_array_foreach(json_object_get(a.json, "tokens"), i, one) {
        if (strcmp(text_at(one, "/id"), id) == 0) {
            found = json_incref(one);
        }
    }
    answer_release(&a);
    return found;
}

static void restart(struct site *s)
{
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.1:%d", s->port);
    http_stop(s->http);
    assert_int_equal(site_start(s, listen, NULL), 0);
}

static void a_token_is_shown_once_and_kept_as_a_hash_alone(void **state)
{
    struct site *s = *state;
    char path[128];
    size_t n;
    struct issued_token t = issue(s, "hanna", "operator", "");
    assert_int_equal(strlen(t.text), 48);
    assert_int_equal(status_as(s, t.text), 200);
    struct answer a = get(s, "/api/v1/tokens");
    assert_null(strstr(a.body, t.text));
    assert_null(strstr(a.body, s->token));
    answer_release(&a);
    snprintf(path, sizeof path, "%s/issued-tokens", s->dir);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char *file = proc_read_file(path, 1 << 20, &n, &err_);
    assert_non_null(strstr(file, "hanna"));
    assert_null(strstr(file, t.text));
    free(file);
    restart(s); /* another service reads the same file */
    assert_int_equal(status_as(s, t.text), 200);
    json_t *one = listed(s, t.id);
    assert_string_equal(text_at(one, "/name"), "hanna");
    assert_string_equal(text_at(one, "/role"), "operator");
    assert_string_equal(text_at(one, "/by"), "admin");
    assert_string_equal(text_at(one, "/source"), "issued");
    json_decref(one);
    withdraw(s, t.id, 204);
}

static void a_role_that_was_issued_allows_what_it_says(void **state)
{
    struct site *s = *state;
    static const struct {
        const char *role;
        long submits, issues;
    } cases[] = {
        {"viewer", 403, 403}, {"operator", 201, 403}, {"programs", 201, 403}, {"admin", 201, 201}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct issued_token t = issue(s, "role", cases[i].role, "");
        struct answer a = as(s, t.text, "POST", "/api/v1/jobs", SPEC("role")),
                      b = as(s, t.text, "POST", "/api/v1/tokens",
                             "{\"name\": \"x\", \"role\": \"viewer\"}");
        expect_status(&a, cases[i].submits);
        expect_status(&b, cases[i].issues);
        answer_release(&a);
        answer_release(&b);
        a = as(s, t.text, "GET", "/api/v1/audit", NULL);
        expect_status(&a, strcmp(cases[i].role, "admin") == 0 ? 200 : 403);
        answer_release(&a);
    }
}

static void a_revoked_token_ends_at_once_with_what_it_opened(void **state)
{
    struct site *s = *state;
    char body[128], header[256], cookie[256];
    struct issued_token t = issue(s, "leaving", "viewer", "");
    snprintf(body, sizeof body, "{\"token\": \"%s\"}", t.text);
    struct answer a = as(s, NULL, "POST", "/api/v1/session", body);
    expect_status(&a, 201);
    assert_string_equal(text_at(a.json, "/owner"), "leaving");
    assert_true(header_of(&a, "Set-Cookie", header));
    answer_release(&a);
    snprintf(cookie, sizeof cookie, "Cookie: %.*s", (int)strcspn(header, ";"), header);
    struct ask look = {.method = "GET", .path = "/api/v1/jobs", .headers = {cookie}};
    a = ask(s, look);
    expect_status(&a, 200);
    answer_release(&a);
    withdraw(s, t.id, 204);
    assert_int_equal(status_as(s, t.text), 401);
    a = ask(s, look);
    expect_problem(&a, 401, NULL);
    answer_release(&a);
    withdraw(s, t.id, 404);
    assert_null(listed(s, t.id));
}

/* The body of an upload may come for minutes. */
static void a_token_that_is_revoked_while_a_body_comes_changes_nothing(void **state)
{
    struct site *s = *state;
    char ask[400], out[4096] = "";
    struct issued_token t = issue(s, "sending", "operator", "");
    int fd = dial(s);
    snprintf(ask, sizeof ask,
             "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nExpect: 100-continue\r\n"
             "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n",
             s->port, t.text, strlen(SPEC("late")));
    assert_true(say(fd, ask));
    assert_int_equal(hear(fd, "100 Continue", out, sizeof out, 60), 1);
    withdraw(s, t.id, 204);
    out[0] = '\0';
    assert_true(say(fd, SPEC("late")));
    assert_int_equal(hear(fd, "revoked", out, sizeof out, 60), 1);
    assert_non_null(strstr(out, "HTTP/1.1 401"));
    close(fd);
}

static void a_token_ends_when_its_time_is_over(void **state)
{
    struct site *s = *state;
    struct issued_token t = issue(s, "short", "viewer", ", \"seconds\": 1");
    double until = clock_now() + 60;
    while (status_as(s, t.text) == 200 && clock_now() < until) {
        usleep(20000);
    }
    struct answer a = as(s, t.text, "GET", "/api/v1/jobs", NULL);
    expect_problem(&a, 401, NULL);
    assert_non_null(strstr(text_at(a.json, "/detail"), "expired"));
    answer_release(&a);
    json_t *one = listed(s, t.id);
    assert_true(json_is_true(json_object_get(one, "expired")));
    json_decref(one);
    t = issue(s, "long", "viewer", ", \"seconds\": null");
    one = listed(s, t.id);
    assert_true(json_is_null(json_object_get(one, "expires")));
    json_decref(one);
}

static void a_line_of_the_token_file_is_listed_and_not_revoked(void **state)
{
    struct site *s = *state;
    struct answer a = get(s, "/api/v1/tokens");
    json_t *one;
    size_t i, lines = 0;
    json_array_foreach(json_object_get(a.json, "tokens"), i, one) {
        if (strcmp(text_at(one, "/source"), "file") == 0) {
            lines++;
            assert_true(json_is_false(json_object_get(one, "expired")));
            withdraw(s, text_at(one, "/id"), 409);
        }
    }
    assert_int_equal(lines, 3);
    answer_release(&a);
    assert_int_equal(status_as(s, s->token), 200);
}

static void a_token_that_is_asked_for_wrongly_is_not_made(void **state)
{
    struct site *s = *state;
    static const struct {
        const char *body, *pointer;
    } cases[] = {{"{\"role\": \"viewer\"}", "/name"},
                 {"{\"name\": \"\", \"role\": \"viewer\"}", "/name"},
                 {"{\"name\": \"a\\u202eb\", \"role\": \"viewer\"}", "/name"},
                 {"{\"name\": \"a\\u200bb\", \"role\": \"viewer\"}", "/name"},
                 {"{\"name\": \"\\u00a0\", \"role\": \"viewer\"}", "/name"},
                 {"{\"name\": \"a\\nb\", \"role\": \"viewer\"}", "/name"},
                 {"{\"name\": \"a\", \"role\": \"root\"}", "/role"},
                 {"{\"name\": \"a\"}", "/role"},
                 {"{\"name\": \"a\", \"role\": \"viewer\", \"seconds\": 0}", "/seconds"},
                 {"{\"name\": \"a\", \"role\": \"viewer\", \"seconds\": \"1d\"}", "/seconds"},
                 {"{\"name\": \"a\", \"role\": \"viewer\", \"days\": 3}", NULL}};
    struct answer before = get(s, "/api/v1/tokens");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a = post(s, "/api/v1/tokens", cases[i].body);
        expect_problem(&a, 422, cases[i].pointer);
        answer_release(&a);
    }
    struct answer after = get(s, "/api/v1/tokens");
    assert_int_equal(json_array_size(json_object_get(before.json, "tokens")),
                     json_array_size(json_object_get(after.json, "tokens")));
    answer_release(&before);
    answer_release(&after);
}

/* ---- whose a job is -------------------------------------------------------------------------- */

static void submit_as(struct site *s, const char *token, const char *owner, char id[STORE_ID])
{
    struct answer a = as(s, token, "POST", "/api/v1/jobs", SPEC("owned"));
    expect_status(&a, 201);
    assert_string_equal(text_at(a.json, "/owner"), owner);
    snprintf(id, STORE_ID, "%s", text_at(a.json, "/id"));
    answer_release(&a);
}

/* The answers to this token for every way to change the job, in an order that keeps the job. */
static void expect_changes(struct site *s, const char *token, const char *id, long patch,
                           long cancel)
{
    char path[100];
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    struct answer a = as(s, token, "PATCH", path, "{\"priority\": 7}");
    expect_status(&a, patch);
    answer_release(&a);
    static const char *const ways[] = {"pause", "resume", "cancel"};
    for (size_t i = 0; patch == 403 && i < sizeof ways / sizeof *ways; i++) {
        snprintf(path, sizeof path, "/api/v1/jobs/%s/%s", id, ways[i]);
        a = as(s, token, "POST", path, "");
        expect_problem(&a, 403, NULL);
        answer_release(&a);
    }
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    a = as(s, token, "DELETE", path, NULL);
    expect_status(&a, patch == 403 ? 403 : 409); /* 409: it has not ended */
    answer_release(&a);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/cancel", id);
    a = as(s, token, "POST", path, "");
    expect_status(&a, cancel);
    answer_release(&a);
}

static void operators_change_their_own_jobs_and_admins_all(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[100];
    struct issued_token max = issue(s, "max", "operator", ""),
                        code = issue(s, "code", "programs", "");
    submit_as(s, s->operator_token, "Olga", id);
    expect_changes(s, max.text, id, 403, 403);
    expect_changes(s, code.text, id, 403, 403);
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    struct answer a = as(s, max.text, "DELETE", path, NULL);
    expect_problem(&a, 403, NULL);
    assert_non_null(strstr(text_at(a.json, "/detail"), "belongs to 'Olga'"));
    answer_release(&a);
    a = as(s, max.text, "GET", path, NULL); /* everybody may look */
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/state"), "queued");
    assert_int_equal((int)number_at(a.json, "/priority"), 0);
    answer_release(&a);
    expect_changes(s, s->operator_token, id, 200, 200);
    submit_as(s, max.text, "max", id);
    expect_changes(s, s->token, id, 200, 200);
}

static void another_token_of_the_same_name_has_the_same_jobs(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    struct issued_token old = issue(s, "nina", "operator", "");
    submit_as(s, old.text, "nina", id);
    withdraw(s, old.id, 204);
    struct issued_token fresh = issue(s, "nina", "operator", "");
    expect_changes(s, fresh.text, id, 200, 200);
}

static void a_job_of_nobody_is_changed_by_admins_alone(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    json_t *spec = json_loads(SPEC("old"), 0, NULL);
    OK(store_job_create(s->store, spec, 0, NULL, NULL, id, &err_));
    json_decref(spec);
    expect_changes(s, s->operator_token, id, 403, 403);
    expect_changes(s, s->token, id, 200, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_shown_once_and_kept_as_a_hash_alone),
        cmocka_unit_test(a_role_that_was_issued_allows_what_it_says),
        cmocka_unit_test(a_revoked_token_ends_at_once_with_what_it_opened),
        cmocka_unit_test(a_token_that_is_revoked_while_a_body_comes_changes_nothing),
        cmocka_unit_test(a_token_ends_when_its_time_is_over),
        cmocka_unit_test(a_line_of_the_token_file_is_listed_and_not_revoked),
        cmocka_unit_test(a_token_that_is_asked_for_wrongly_is_not_made),
        cmocka_unit_test(operators_change_their_own_jobs_and_admins_all),
        cmocka_unit_test(another_token_of_the_same_name_has_the_same_jobs),
        cmocka_unit_test(a_job_of_nobody_is_changed_by_admins_alone),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
