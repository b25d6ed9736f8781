/* Webhooks over the API: who may make, see and delete them, which are refused, and what is shown.
 * tests/integration/test_webhooks.py tests sending. */
#include "store/webhooks.h"
#include "tests/unit/http/fixture.h"

static struct answer as(struct site *s, const char *token, const char *method, const char *path,
                        const char *body)
{
    return ask(s, (struct ask){.method = method, .path = path, .token = token, .body = body});
}

/* Makes a webhook and returns its id. */
static void make(struct site *s, const char *token, const char *body, char id[STORE_ID])
{
    char value[256];
    struct answer a = as(s, token, "POST", "/api/v1/webhooks", body);
    expect_status(&a, 201);
    snprintf(id, STORE_ID, "%s", text_at(a.json, "/id"));
    assert_int_equal(strncmp(text_at(a.json, "/secret"), "whsec_", 6), 0);
    assert_int_equal(strlen(text_at(a.json, "/secret")), 6 + 44);
    assert_null(at(a.json, "/since"));
    assert_true(header_of(&a, "Location", value));
    assert_non_null(strstr(value, id));
    answer_release(&a);
}

static long status_of(struct site *s, const char *token, const char *method, const char *id)
{
    char path[100];
    snprintf(path, sizeof path, "/api/v1/webhooks/%s", id);
    struct answer a = as(s, token, method, path, NULL);
    long status = a.status;
    answer_release(&a);
    return status;
}

static size_t listed(struct site *s, const char *token)
{
    struct answer a = as(s, token, "GET", "/api/v1/webhooks", NULL);
    expect_status(&a, 200);
    size_t n = json_array_size(at(a.json, "/webhooks"));
    answer_release(&a);
    return n;
}

static void everybody_sees_their_own_and_an_admin_all(void **state)
{
    struct site *s = *state;
    char own[STORE_ID], all[STORE_ID];
    make(s, s->operator_token, "{\"address\": \"https://olga.example/a?b=c\"}", own);
    make(s, s->token, "{\"address\": \"http://10.0.0.7:8000\", \"states\": [\"failed\"]}", all);
    assert_int_equal(listed(s, s->operator_token), 1);
    assert_int_equal(listed(s, s->token), 2);
    assert_int_equal(status_of(s, s->operator_token, "GET", own), 200);
    assert_int_equal(status_of(s, s->operator_token, "GET", all), 404);
    assert_int_equal(status_of(s, s->operator_token, "DELETE", all), 404);
    assert_int_equal(status_of(s, s->viewer_token, "GET", own), 403);
    assert_int_equal(status_of(s, s->token, "DELETE", own), 204);
    assert_int_equal(status_of(s, s->token, "DELETE", own), 404);
    assert_int_equal(status_of(s, s->token, "DELETE", all), 204);
    assert_int_equal(status_of(s, s->token, "GET", "nonsense"), 404);
}

static void what_is_left_out_depends_on_the_role(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[100];
    make(s, s->operator_token, "{\"address\": \"https://olga.example\"}", id);
    snprintf(path, sizeof path, "/api/v1/webhooks/%s", id);
    struct answer a = as(s, s->operator_token, "GET", path, NULL);
    assert_string_equal(text_at(a.json, "/scope"), "own");
    assert_string_equal(text_at(a.json, "/owner"), "Olga");
    assert_int_equal(json_array_size(at(a.json, "/states")), 3);
    assert_null(at(a.json, "/secret"));
    answer_release(&a);
    assert_int_equal(status_of(s, s->token, "DELETE", id), 204);
    a = as(s, s->operator_token, "POST", "/api/v1/webhooks",
           "{\"address\": \"https://olga.example\", \"scope\": \"all\"}");
    expect_problem(&a, 403, NULL);
    answer_release(&a);
    make(s, s->token, "{\"address\": \"https://all.example\"}", id);
    snprintf(path, sizeof path, "/api/v1/webhooks/%s", id);
    a = get(s, path);
    assert_string_equal(text_at(a.json, "/scope"), "all");
    answer_release(&a);
    assert_int_equal(status_of(s, s->token, "DELETE", id), 204);
}

static void what_is_no_address_of_a_receiver_is_refused(void **state)
{
    static const char *const addresses[] = {
        "",
        "example.org",
        "ftp://example.org",
        "https://",
        "https:///path",
        "https://user@example.org/",
        "https://user:word@example.org/",
        "https://example.org:80x/",
        "https://exa mple.org/",
        "https://example.org/\\u0001",
        "https://[::1]x/",
        "http://127.0.0.1/",
        "http://127.1:80",
        "http://[::1]",
        "http://localhost?x",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "https://2130706433",
    };
    char body[200];
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        snprintf(body, sizeof body, "{\"address\": \"%s\"}", addresses[i]);
        struct answer a = post(*state, "/api/v1/webhooks", body);
        if (a.status != 422) {
            fail_msg("'%s' is not refused: %ld", addresses[i], a.status);
        }
        expect_problem(&a, 422, "/address");
        answer_release(&a);
    }
}

static void every_mistake_is_told_at_once(void **state)
{
    struct answer a =
        post(*state, "/api/v1/webhooks",
             "{\"address\": 7, \"states\": [\"failed\", \"exploded\"], \"scope\": 1}");
    expect_problem(&a, 422, "/address");
    expect_problem(&a, 422, "/states/1");
    expect_problem(&a, 422, "/scope");
    answer_release(&a);
    a = post(*state, "/api/v1/webhooks", "{\"address\": \"https://a.example\", \"states\": []}");
    expect_problem(&a, 422, "/states");
    answer_release(&a);
    a = post(*state, "/api/v1/webhooks", "{\"adress\": \"https://a.example\"}");
    expect_problem(&a, 422, "/adress");
    answer_release(&a);
}

static void there_is_an_end_to_their_number(void **state)
{
    struct site *s = *state;
    char ids[STORE_WEBHOOKS][STORE_ID];
    for (int i = 0; i < STORE_WEBHOOKS; i++) {
        make(s, s->token, "{\"address\": \"https://many.example\"}", ids[i]);
    }
    struct answer a = post(s, "/api/v1/webhooks", "{\"address\": \"https://many.example\"}");
    expect_problem(&a, 409, NULL);
    answer_release(&a);
    for (int i = 0; i < STORE_WEBHOOKS; i++) {
        assert_int_equal(status_of(s, s->token, "DELETE", ids[i]), 204);
    }
}

/* The coordinator's entries, as the API shows them. */
static void waiting_and_tries_are_shown_and_go_with_the_webhook(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[100];
    make(s, s->token, "{\"address\": \"https://tried.example\"}", id);
    json_t *delivery = json_pack("{s:s}", "id", "msg_1");
    assert_int_equal(store_webhook_queue(s->store, id, "msg_1", delivery, &err_), WEBHOOK_QUEUED);
    assert_int_equal(store_webhook_queue(s->store, id, "msg_1", delivery, &err_), WEBHOOK_QUEUED);
    for (int i = 1; i <= STORE_WEBHOOK_TRIES + 5; i++) {
        json_t *tried =
            json_pack("{s:s, s:s, s:s, s:s, s:i, s:n, s:s, s:s, s:n}", "id", "msg_1", "type",
                      "job.failed", "job", "0123456789abcdef", "time", "2026-01-02T03:04:05.678Z",
                      "try", i, "status", "message", "why", "outcome", "waits", "next");
        OK(store_webhook_tried(s->store, id, "msg_1", delivery, tried, &err_));
        json_decref(tried);
    }
    snprintf(path, sizeof path, "/api/v1/webhooks/%s", id);
    struct answer a = get(s, path);
    assert_int_equal((int)number_at(a.json, "/waiting"), 1);
    assert_int_equal(json_array_size(at(a.json, "/tries")), STORE_WEBHOOK_TRIES);
    assert_int_equal((int)number_at(a.json, "/tries/0/try"), STORE_WEBHOOK_TRIES + 5);
    answer_release(&a);
    assert_int_equal(status_of(s, s->token, "DELETE", id), 204);
    assert_int_equal(store_webhook_queue(s->store, id, "msg_1", delivery, &err_), WEBHOOK_GONE);
    assert_int_equal(store_webhook_count(s->store, id, &err_), 0);
    json_decref(delivery);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_sees_their_own_and_an_admin_all),
        cmocka_unit_test(what_is_left_out_depends_on_the_role),
        cmocka_unit_test(what_is_no_address_of_a_receiver_is_refused),
        cmocka_unit_test(every_mistake_is_told_at_once),
        cmocka_unit_test(there_is_an_end_to_their_number),
        cmocka_unit_test(waiting_and_tries_are_shown_and_go_with_the_webhook),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
