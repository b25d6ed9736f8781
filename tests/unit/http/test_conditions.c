/* Conditions of requests: If-Match and If-None-Match, of jobs and of files. */
#include "http/content/accept.h"
#include "tests/unit/http/fixture.h"

static void lists_of_etags_mean_what_rfc_9110_says(void **state)
{
    static const struct {
        const char *header;
        bool weak, strong;
    } etags[] = {{NULL, false, false},
                 {"*", true, true},
                 {"\"a\"", true, true},
                 {"W/\"a\"", true, false},
                 {"\"b\"", false, false},
                 {"\"b\" , \"a\"", true, true},
                 {"a", false, false},
                 {"\"b,\"a\"", false, false},
                 {"\"a,b\"", false, false},
                 {"\"b\", \"a-gzip\"", false, true},
                 {"\"a.0123456789abcdef\"", false, true},
                 {"\"a.0123456789abcdef-gzip\"", false, true},
                 {"\"a.0123456789abcde\"", false, false},
                 {"\"b.0123456789abcdef\"", false, false},
                 {"\"a-gzipped\"", false, false}};
    static const struct {
        const char *header;
        bool valid;
    } lists[] = {{"*", true},         {" * ", true},
                 {"\"a\"", true},     {"W/\"a\" ,\"b\"", true},
                 {"\"\"", true},      {"", false},
                 {"a", false},        {"*, \"a\"", false},
                 {"\"a", false},      {"\"a\" \"b\"", false},
                 {"\"a\", b", false}, {",", false}};
    (void)state;
    for (size_t i = 0; i < sizeof etags / sizeof *etags; i++) {
        assert_int_equal(accept_etag(etags[i].header, "\"a\"", true), etags[i].weak);
        assert_int_equal(accept_etag(etags[i].header, "\"a\"", false), etags[i].strong);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_int_equal(accept_etags(lists[i].header), lists[i].valid);
    }
}

static void if_match_guards_a_change(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[64], etag[256], header[300];
    submit(s, SPEC("guarded"), id);
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    struct answer a = get(s, path);
    assert_true(header_of(&a, "ETag", etag));
    answer_release(&a);
    snprintf(header, sizeof header, "If-Match: %s", etag);
    assert_int_equal(status_with(s, "PATCH", path, "If-Match: \"old\"", "{\"priority\": 3}"), 412);
    assert_int_equal(status_with(s, "PATCH", path, "If-Match: old", "{\"priority\": 3}"), 400);
    assert_int_equal(status_with(s, "PATCH", path, header, "{\"priority\": 3}"), 200);
    assert_int_equal(status_with(s, "PATCH", path, header, "{\"priority\": 4}"), 412);
    assert_int_equal(status_with(s, "PATCH", path, "If-Match: *", "{\"priority\": 5}"), 200);
    assert_int_equal(store_job_change(s->store, id, &(struct job_change){.priority = &(int){6}},
                                      "queued-0-3-1", &err_),
                     JOB_WAS_ANOTHER);
    assert_int_equal(store_job_change(s->store, id, &(struct job_change){.priority = &(int){6}},
                                      "queued-0-5-2", &err_),
                     0);
    move(s, id, JOB_QUEUED, JOB_CANCELLING);
    move(s, id, JOB_CANCELLING, JOB_CANCELLED);
    assert_int_equal(status_with(s, "PATCH", path, NULL, "{\"priority\": 7, \"tags\": []}"), 409);
    assert_int_equal(status_with(s, "DELETE", path, header, NULL), 412);
    assert_int_equal(store_job_delete(s->store, id, "queued-0-6-3", &err_), JOB_WAS_ANOTHER);
    snprintf(header, sizeof header, "If-Match: \"x\", \"cancelled-0-6-3\"");
    assert_int_equal(status_with(s, "DELETE", path, header, NULL), 204);
}

/* A job is sent again only where something about it has changed. */
static void an_unchanged_job_is_304(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[64], etag[256], same[300], seen[300], value[256];
    submit(s, SPEC("unchanged"), id);
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    for (int packed = 0; packed < 2; packed++) {
        const char *coding = packed ? "Accept-Encoding: gzip" : "Accept-Encoding: identity";
        struct ask again = {.method = "GET", .path = path, .token = s->token, .headers = {coding}};
        struct answer a = ask(s, again);
        assert_true(header_of(&a, "ETag", etag));
        assert_int_equal(strstr(etag, "-gzip") != NULL, packed);
        answer_release(&a);
        snprintf(same, sizeof same, "If-None-Match: \"x\", %s", etag);
        snprintf(seen, sizeof seen, "If-Match: %s", etag);
        again.headers[1] = same;
        a = ask(s, again);
        expect_status(&a, 304);
        assert_int_equal(a.len, 0);
        assert_true(header_of(&a, "ETag", value));
        assert_string_equal(value, etag);
        assert_false(header_of(&a, "Content-Encoding", value));
        assert_false(header_of(&a, "Content-Type", value));
        answer_release(&a);
        assert_int_equal(status_with(s, "PATCH", path, seen,
                                     packed ? "{\"note\": \"two\"}" : "{\"note\": \"one\"}"),
                         200);
        assert_int_equal(status_with(s, "PATCH", path, seen, "{\"tags\": []}"), 412);
        a = ask(s, again);
        expect_status(&a, 200);
        answer_release(&a);
    }
    assert_int_equal(status_with(s, "GET", path, "If-Match: \"old\"", NULL), 412);
}

static void an_unchanged_file_is_304_with_its_own_length_and_head_has_no_range(void **state)
{
    struct site *s = *state;
    char etag[256], header[300], value[256];
    struct answer a = get(s, "/app.js");
    assert_true(header_of(&a, "ETag", etag));
    answer_release(&a);
    snprintf(header, sizeof header, "If-None-Match: %s", etag);
    a = ask(s, (struct ask){.method = "GET", .path = "/app.js", .headers = {header}});
    expect_status(&a, 304);
    assert_true(header_of(&a, "Content-Length", value)); /* that of 200, which RFC 9110 allows */
    assert_string_equal(value, "10");
    assert_false(header_of(&a, "Transfer-Encoding", value));
    assert_true(header_of(&a, "Cache-Control", value));
    assert_string_equal(value, "no-cache");
    assert_true(header_of(&a, "ETag", value));
    answer_release(&a);
    a = ask(s, (struct ask){.method = "HEAD", .path = "/app.js", .headers = {"Range: bytes=2-4"}});
    expect_status(&a, 200);
    assert_true(header_of(&a, "Content-Length", value));
    assert_string_equal(value, "10");
    answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_etags_mean_what_rfc_9110_says),
        cmocka_unit_test(if_match_guards_a_change),
        cmocka_unit_test(an_unchanged_job_is_304),
        cmocka_unit_test(an_unchanged_file_is_304_with_its_own_length_and_head_has_no_range),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
