/* What people and their programs are told: webhooks, and the events that our programs read. */
#include <math.h>

#include "job/documents/people/events.h"
#include "job/documents/people/webhook.h"
#include "tests/unit/job/documents.h"

static const struct webhook ours = {.id = "0123456789abcdef",
                                    .address = "https://chat.example/hook",
                                    .states = {JOB_FAILED, JOB_SUCCEEDED},
                                    .n_states = 2,
                                    .own = true,
                                    .owner = "olga",
                                    .created = "2026-11-25T00:00:00Z",
                                    .since = "1700000000000-3",
                                    .secret = "whsec_AAAA"};

/* ---- webhooks -------------------------------------------------------------------------------- */

static void a_webhook_comes_back_as_it_was_kept(void **state)
{
    struct webhook back;
    struct err e = {0};
    json_t *j = sent(webhook_json(&ours));
    (void)state;
    assert_read(webhook_read(&back, j, &e), &e);
    json_decref(j);
    assert_memory_equal(&back, &ours, sizeof ours);
    assert_true(webhook_wants(&back, JOB_FAILED));
    assert_false(webhook_wants(&back, JOB_CANCELLED));
    webhook_add_state(&back, JOB_SUCCEEDED);
    assert_int_equal(back.n_states, 2);
}

static void people_see_a_secret_once_and_no_place(void **state)
{
    (void)state;
    json_t *made = webhook_shown(&ours, true), *later = webhook_shown(&ours, false);
    assert_string_equal(jsonx_string_at(made, "secret"), ours.secret);
    assert_null(json_object_get(made, "since"));
    assert_null(json_object_get(later, "since"));
    assert_int_equal(json_object_del(made, "secret"), 0);
    assert_same(made, later);
}

static int read_webhook(const json_t *j, struct err *e)
{
    struct webhook w;
    return webhook_read(&w, j, e);
}

static void a_webhook_that_is_wrong_says_where(void **state)
{
    static const struct wrong wrongs[] = {
        {"id", NULL, "the webhook is not valid: /id: is missing"},
        {"states", "['failed', 'tired']", "the webhook is not valid: /states: has no state at 1"},
        {"scope", "'ours'", "the webhook is not valid: /scope: 'ours' is unknown"},
        {"secret", "''", "the webhook is not valid: /secret: must be a text of 1 to 63 bytes"},
    };
    (void)state;
    EACH_SAYS(webhook_json(&ours), wrongs, read_webhook);
}

/* ---- events ---------------------------------------------------------------------------------- */

static json_t *data_of(const char *text)
{
    struct event_entry entry = {.id = "1-0", .job = "", .type = "job", .data = text}, back;
    json_t *j = sent(event_entry_json(&entry));
    assert_true(event_entry_read(j, &back));
    assert_string_equal(back.id, "1-0");
    assert_int_equal(back.kind, EVENT_JOB);
    json_t *data = event_entry_data(&back);
    json_decref(j);
    return data;
}

static void an_entry_without_one_of_its_texts_is_none(void **state)
{
    static const char *const keys[] = {"id", "job", "type", "data"};
    struct event_entry entry = {.id = "1-0", .job = "", .type = "live", .data = "{}"}, back;
    (void)state;
    for (int i = 0; i < 4; i++) {
        json_t *j = event_entry_json(&entry);
        assert_true(event_entry_read(j, &back));
        assert_int_equal(back.kind, EVENT_OTHER);
        json_object_set_new(j, keys[i], json_integer(1));
        assert_false(event_entry_read(j, &back));
        json_decref(j);
    }
}

static void a_change_of_a_job_says_from_what_to_what(void **state)
{
    static const struct {
        const char *text;
        bool told, changes;
        int from;
        enum job_state state;
        const char *code;
    } cases[] = {
        {"{\"from\":null,\"state\":\"queued\"}", true, true, -1, JOB_QUEUED, ""},
        {"{\"from\":\"queued\",\"state\":\"queued\"}", true, false, JOB_QUEUED, JOB_QUEUED, ""},
        {"{\"from\":\"running\",\"state\":\"failed\",\"error\":{\"code\":\"peer\"}}", true, true,
         JOB_RUNNING, JOB_FAILED, "peer"},
        {"{\"from\":\"running\",\"state\":\"tired\"}", false, false, 0, JOB_QUEUED, ""},
        {"[]", false, false, 0, JOB_QUEUED, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job_event event;
        json_t *data = data_of(cases[i].text);
        assert_int_equal(job_event_read(data, &event), cases[i].told);
        if (cases[i].told) {
            assert_int_equal(event.from, cases[i].from);
            assert_int_equal(event.state, cases[i].state);
            assert_int_equal(job_event_changes(&event), cases[i].changes);
            assert_string_equal(event.code, cases[i].code);
        }
        json_decref(data);
    }
}

static void rows_come_back_with_the_columns_of_events(void **state)
{
    struct row row = row_blank(), back;
    (void)state;
    row.rank = 2;
    row.step = 41;
    row.compute_seconds = 0.5f;
    row.staleness = 3;
    row.bytes = 99; /* in no event */
    json_t *rows = json_array();
    json_array_append_new(rows, rows_event_row(&row, "slow"));
    json_t *data = sent(rows_event_json(rows, 640));
    assert_string_equal(jsonx_string_at(json_array_get(json_object_get(data, "rows"), 0), "node"),
                        "slow");
    assert_true(rows_event_read(data, 0, &back));
    assert_int_equal(back.rank, 2);
    assert_int_equal(back.step, 41);
    assert_float_equal(back.compute_seconds, 0.5f, 0);
    assert_int_equal(back.staleness, 3);
    assert_int_equal(back.bytes, 0);
    assert_true(isnan(back.loss));
    assert_false(rows_event_read(data, 1, &back));
    json_decref(data);
}

static void a_change_of_a_node_has_a_name_and_a_word(void **state)
{
    struct node_event node;
    (void)state;
    json_t *data = json_pack("{s:s, s:s}", "name", "slow", "change", "lost");
    assert_true(node_event_read(data, &node));
    assert_string_equal(node.name, "slow");
    assert_string_equal(node.change, "lost");
    json_object_del(data, "change");
    assert_false(node_event_read(data, &node));
    json_decref(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_webhook_comes_back_as_it_was_kept),
        cmocka_unit_test(people_see_a_secret_once_and_no_place),
        cmocka_unit_test(a_webhook_that_is_wrong_says_where),
        cmocka_unit_test(an_entry_without_one_of_its_texts_is_none),
        cmocka_unit_test(a_change_of_a_job_says_from_what_to_what),
        cmocka_unit_test(rows_come_back_with_the_columns_of_events),
        cmocka_unit_test(a_change_of_a_node_has_a_name_and_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
