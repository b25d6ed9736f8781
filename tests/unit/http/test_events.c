/* The event stream: its events, resuming after an id, gaps, filters, the heartbeat's comment, and a
 * clean end. */
#include "tests/unit/http/fixture.h"

enum { TEXT = 1 << 20 };
static const double patience = 120;

/* Opens a stream; `extra` are further header lines. */
static int open_events(struct site *s, const char *query, const char *extra)
{
    char text[1024];
    int fd = dial(s);
    snprintf(
        text, sizeof text,
        "GET /api/v1/events%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n%s\r\n",
        query, s->port, s->token, extra);
    assert_true(say(fd, text));
    return fd;
}

static void tell(struct site *s, const char *job, int number)
{
    json_t *body = json_pack("{s:i}", "number", number);
    OK(store_event(s->store, job, "live", body, &err_));
    json_decref(body);
}

static void expect_heard(int fd, const char *text, char *out)
{
    if (hear(fd, text, out, TEXT, patience) != 1) {
        size_t n = strlen(out);
        fail_msg("did not hear '%s' in %zu bytes that end %s", text, n,
                 out + (n > 300 ? n - 300 : 0));
    }
}

/* The last "id: " before the text's end, into id[64]. */
static void last_id(const char *text, char id[64])
{
    const char *found = NULL;
    for (const char *line = strstr(text, "id: "); line; line = strstr(line + 1, "id: ")) {
        found = line;
    }
    assert_non_null(found);
    snprintf(id, 64, "%.*s", (int)strcspn(found + 4, "\r\n"), found + 4);
}

static void events_reach_an_open_stream_in_order(void **state)
{
    struct site *s = *state;
    char *text = calloc(1, TEXT);
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    assert_non_null(strstr(text, "Content-Type: text/event-stream"));
    for (int i = 1; i <= 3; i++) {
        tell(s, "", i);
    }
    expect_heard(fd, "{\"number\":3}", text);
    const char *one = strstr(text, "{\"number\":1}"), *two = strstr(text, "{\"number\":2}"),
               *three = strstr(text, "{\"number\":3}");
    assert_true(one && two && one < two && two < three);
    assert_non_null(strstr(
        text, "event: live\ndata: {\"job\":\"\",\"type\":\"live\",\"data\":{\"number\":1}}"));
    close(fd);
    free(text);
}

static void what_was_missed_is_told_after_a_reconnection_once(void **state)
{
    struct site *s = *state;
    char *text = calloc(1, TEXT), *again = calloc(1, TEXT), id[64], header[128];
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    tell(s, "", 101);
    expect_heard(fd, "{\"number\":101}", text);
    close(fd);
    last_id(text, id);
    tell(s, "", 102);
    tell(s, "", 103);
    snprintf(header, sizeof header, "Last-Event-ID: %s\r\n", id);
    fd = open_events(s, "", header);
    expect_heard(fd, "{\"number\":103}", again);
    tell(s, "", 104);
    expect_heard(fd, "{\"number\":104}", again);
    assert_null(strstr(again, "{\"number\":101}"));
    assert_null(strstr(again, "event: gap"));
    const char *first = strstr(again, "{\"number\":102}");
    assert_non_null(first);
    assert_null(strstr(first + 1, "{\"number\":102}"));
    assert_null(strstr(strstr(again, "{\"number\":103}") + 1, "{\"number\":103}"));
    close(fd);
    free(text);
    free(again);
}

static void an_id_that_was_trimmed_or_is_none_gives_a_gap(void **state)
{
    struct site *s = *state;
    static const char *const ids[] = {"1-0", "nonsense", "99999999999999999999-1", ""};
    for (int i = 0; i < 25000; i++) { /* more than are kept */
        tell(s, "", i);
    }
    for (size_t i = 0; i < sizeof ids / sizeof *ids - 1; i++) {
        char *text = calloc(1, TEXT), header[128];
        snprintf(header, sizeof header, "Last-Event-ID: %s\r\n", ids[i]);
        int fd = open_events(s, "", header);
        if (i != 2) { /* an id of the future is no gap, but no reason to fail either */
            expect_heard(fd, "event: gap\ndata: {}", text);
        } else {
            expect_heard(fd, "retry: ", text);
        }
        close(fd);
        free(text);
    }
}

static void a_filter_lets_events_of_one_job_pass(void **state)
{
    struct site *s = *state;
    char *text = calloc(1, TEXT), id[STORE_ID], other[STORE_ID], query[64];
    submit(s, SPEC("watched"), id);
    submit(s, SPEC("other"), other);
    snprintf(query, sizeof query, "?job=%s", id);
    int fd = open_events(s, query, "");
    expect_heard(fd, "event: hello", text);
    tell(s, other, 201);
    tell(s, "", 202);
    tell(s, id, 203);
    expect_heard(fd, "{\"number\":203}", text);
    assert_null(strstr(text, "{\"number\":201}"));
    assert_null(strstr(text, "{\"number\":202}"));
    close(fd);
    free(text);
}

static void a_change_of_a_job_is_told_to_everybody(void **state)
{
    struct site *s = *state;
    enum { CLIENTS = 40 };
    int fds[CLIENTS];
    char *text[CLIENTS], id[STORE_ID];
    for (int i = 0; i < CLIENTS; i++) {
        text[i] = calloc(1, TEXT);
        fds[i] = open_events(s, "", "");
        expect_heard(fds[i], "event: hello", text[i]);
    }
    submit(s, SPEC("told"), id);
    for (int i = 0; i < CLIENTS; i++) {
        expect_heard(fds[i], id, text[i]);
        assert_non_null(strstr(text[i], "event: job"));
        close(fds[i]);
        free(text[i]);
    }
}

/* Many requests for a job share an answer for some milliseconds, but not after an event about a
 * change of its state. */
static void who_was_told_of_a_change_of_state_is_not_answered_with_the_state_before(void **state)
{
    struct site *s = *state;
    static const enum job_state turns[] = {JOB_QUEUED, JOB_LAUNCHING, JOB_RUNNING, JOB_QUEUED};
    char *text = calloc(1, TEXT), id[STORE_ID], path[64], told[40];
    submit(s, SPEC("told"), id);
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    for (int round = 0; round < 30; round++) {
        struct answer before = get(s, path);
        expect_status(&before, 200);
        answer_release(&before);
        text[0] = '\0';
        move(s, id, turns[round % 3], turns[round % 3 + 1]);
        snprintf(told, sizeof told, "\"state\":\"%s\"", jobstate_name(turns[round % 3 + 1]));
        expect_heard(fd, told, text);
        struct answer after = get(s, path);
        assert_string_equal(json_string_value(json_object_get(after.json, "state")),
                            jobstate_name(turns[round % 3 + 1]));
        answer_release(&after);
    }
    close(fd);
    free(text);
}

static void an_event_that_is_long_arrives_whole(void **state)
{
    struct site *s = *state;
    enum { LONG = 200000 };
    char *text = calloc(1, TEXT), *word = malloc(LONG + 1);
    memset(word, 'x', LONG);
    word[LONG] = '\0';
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    json_t *body = json_pack("{s:s, s:s}", "word", word, "end", "here\nbelow");
    OK(store_event(s->store, "", "live", body, &err_));
    json_decref(body);
    expect_heard(fd, "below\"}}\n\n", text);
    close(fd);
    free(text);
    free(word);
}

/* A submission whose check takes long (its hook starts a process) delays no other request. */
static void a_slow_submission_does_not_hold_up_streams(void **state)
{
    struct site *s = *state;
    enum { SLOW = 5 };
    sem_t gate;
    int posts[SLOW];
    char *text = calloc(1, TEXT), request[2048];
    static const char spec[] = SPEC("slow");
    sem_init(&gate, 0, 0);
    s->plan_gate = &gate;
    snprintf(request, sizeof request,
             "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer "
             "%s\r\nContent-Length: %zu\r\n\r\n%s",
             s->port, s->token, sizeof spec - 1, spec);
    for (int i = 0; i < SLOW; i++) {
        posts[i] = dial(s);
        assert_true(say(posts[i], request));
    }
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    tell(s, "", 401);
    expect_heard(fd, "{\"number\":401}", text);
    struct answer a = get(s, "/api/v1/nodes");
    expect_status(&a, 200);
    answer_release(&a);
    s->plan_gate = NULL;
    for (int i = 0; i < SLOW; i++) {
        sem_post(&gate);
    }
    for (int i = 0; i < SLOW; i++) {
        char out[4096] = "";
        assert_int_equal(hear(posts[i], "HTTP/1.1 201", out, sizeof out, patience), 1);
        close(posts[i]);
    }
    close(fd);
    sem_destroy(&gate);
    free(text);
}

/* Clients that leave while their answers are being made, or in the middle of a stream. */
static void clients_that_leave_early_harm_nobody(void **state)
{
    struct site *s = *state;
    char *text = calloc(1, TEXT), request[512];
    snprintf(request, sizeof request,
             "GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n\r\n",
             s->port, s->token);
    for (int i = 0; i < 300; i++) {
        int fd = i % 2 ? open_events(s, "", "") : dial(s);
        if (i % 2 == 0) {
            say(fd, request);
        }
        if (i % 3 == 0) {
            struct linger now = {.l_onoff = 1, .l_linger = 0};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        if (i % 5 == 0) {
            tell(s, "", 500 + i);
        }
        close(fd);
    }
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    tell(s, "", 999);
    expect_heard(fd, "{\"number\":999}", text);
    close(fd);
    free(text);
}

static void a_quiet_stream_carries_a_comment_now_and_then(void **state)
{
    struct site *s = *state;
    char *text = calloc(1, TEXT), id[STORE_ID], query[32];
    submit(s, SPEC("quiet"), id);
    snprintf(query, sizeof query, "?job=%s", id);
    int fd = open_events(s, query, "");
    expect_heard(fd, "event: hello", text);
    expect_heard(fd, "\n: \n\n", text);
    close(fd);
    free(text);
}

static void stopping_the_server_ends_open_streams(void **state)
{
    struct site *s = *state;
    char *text = calloc(1, TEXT);
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    http_stop(s->http);
    s->http = NULL;
    assert_int_equal(hear(fd, NULL, text, TEXT, patience), 0);
    close(fd);
    free(text);
    assert_int_equal(site_start(s, "127.0.0.1:0", NULL), 0);
}

static void a_stream_comes_back_with_the_store(void **state)
{
    struct site *s = *state;
    char *text = calloc(1, TEXT), id[64];
    int fd = open_events(s, "", "");
    expect_heard(fd, "event: hello", text);
    tell(s, "", 301);
    expect_heard(fd, "{\"number\":301}", text);
    last_id(text, id);
    redis_private_stop(s->dir);
    struct answer a = get(s, "/api/v1/jobs");
    expect_problem(&a, 503, NULL);
    answer_release(&a);
    a = ask(s, (struct ask){.method = "GET", .path = "/readyz"});
    expect_problem(&a, 503, NULL);
    answer_release(&a);
    a = ask(s, (struct ask){.method = "GET", .path = "/healthz"});
    expect_status(&a, 200);
    answer_release(&a);
    a = get(s, "/metrics");
    assert_non_null(strstr(a.body, "evenstep_store_up 0"));
    answer_release(&a);
    OK(redis_private_start(s->dir, s->store_url, &s->pid, &err_));
    double until = clock_now() + patience;
    for (bool ready = false; !ready;) {
        a = ask(s, (struct ask){.method = "GET", .path = "/readyz"});
        ready = a.status == 200;
        answer_release(&a);
        assert_true(clock_now() < until);
    }
    tell(s, "", 302);
    expect_heard(fd, "{\"number\":302}", text);
    close(fd);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_reach_an_open_stream_in_order),
        cmocka_unit_test(what_was_missed_is_told_after_a_reconnection_once),
        cmocka_unit_test(an_id_that_was_trimmed_or_is_none_gives_a_gap),
        cmocka_unit_test(a_filter_lets_events_of_one_job_pass),
        cmocka_unit_test(a_change_of_a_job_is_told_to_everybody),
        cmocka_unit_test(who_was_told_of_a_change_of_state_is_not_answered_with_the_state_before),
        cmocka_unit_test(an_event_that_is_long_arrives_whole),
        cmocka_unit_test(a_slow_submission_does_not_hold_up_streams),
        cmocka_unit_test(clients_that_leave_early_harm_nobody),
        cmocka_unit_test(a_quiet_stream_carries_a_comment_now_and_then),
        cmocka_unit_test(stopping_the_server_ends_open_streams),
        cmocka_unit_test(a_stream_comes_back_with_the_store),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
