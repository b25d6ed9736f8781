/* Files: the page's, artifacts, logs. No file outside of their folders can be read; ETag and Range
 * work. */
#include "http/content/files.h"
#include "tests/unit/http/fixture.h"

#define ARTIFACTS(path, id, name) \
    snprintf(path, sizeof path, "/api/v1/jobs/%s/artifacts%s", id, name)

/* A job with a folder `sub`, whose path goes into folder[200]. */
static void job_with(struct site *s, const char *sub, char id[STORE_ID], char folder[200])
{
    submit(s, SPEC("files"), id);
    snprintf(folder, 200, "%s/jobs/%s/%s", s->dir, id, sub);
    OK(proc_mkdirs(folder, 0755, &err_));
}

static void expect_body(struct site *s, const char *path, const char *body)
{
    struct answer a = get(s, path);
    expect_status(&a, 200);
    assert_string_equal(a.body, body);
    answer_release(&a);
}

static void a_range_header_means_what_rfc_9110_says(void **state)
{
    struct {
        const char *header;
        uint64_t size;
        enum range range;
        uint64_t first, count;
    } const cases[] = {
        {NULL, 10, RANGE_ALL, 0, 0},
        {"bytes=0-3", 10, RANGE_PART, 0, 4},
        {"bytes=4-", 10, RANGE_PART, 4, 6},
        {"bytes=-3", 10, RANGE_PART, 7, 3},
        {"bytes=-30", 10, RANGE_PART, 0, 10},
        {"bytes=8-30", 10, RANGE_PART, 8, 2},
        {"bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=5-4", 10, RANGE_ALL, 0, 0},
        {"bytes=0-1,3-4", 10, RANGE_ALL, 0, 0},
        {"lines=0-1", 10, RANGE_ALL, 0, 0},
        {"bytes=x-", 10, RANGE_ALL, 0, 0},
        {"bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=99999999999999999999999-", 10, RANGE_ALL, 0, 0},
        {"bytes=0-0", 10, RANGE_PART, 0, 1},
        {"bytes=9-9", 10, RANGE_PART, 9, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct byte_range r = {0, 0};
        enum range range = files_range(cases[i].header, cases[i].size, &r);
        assert_int_equal(range, cases[i].range);
        if (range == RANGE_PART) {
            assert_int_equal(r.first, cases[i].first);
            assert_int_equal(r.count, cases[i].count);
        }
    }
}

static void the_page_and_its_files_need_no_token(void **state)
{
    struct site *s = *state;
    char type[256];
    struct answer a = ask(s, (struct ask){.method = "GET", .path = "/"});
    expect_status(&a, 200);
    assert_true(header_of(&a, "Content-Type", type));
    assert_string_equal(type, "text/html; charset=utf-8");
    assert_non_null(strstr(a.body, "<title>Evenstep"));
    answer_release(&a);
    a = ask(s, (struct ask){.method = "GET", .path = "/app.js?v=2"});
    expect_status(&a, 200);
    assert_true(header_of(&a, "Content-Type", type));
    assert_string_equal(type, "text/javascript; charset=utf-8");
    answer_release(&a);
}

static void a_path_never_leaves_its_folder(void **state)
{
    struct site *s = *state;
    char link[256], target[256];
    snprintf(link, sizeof link, "%s/link.js", s->static_dir);
    snprintf(target, sizeof target, "%s/token", s->dir);
    assert_int_equal(symlink(target, link), 0);
    snprintf(link, sizeof link, "%s/all", s->static_dir);
    assert_int_equal(symlink("/etc", link), 0);
    snprintf(link, sizeof link, "%s/inside.js", s->static_dir);
    assert_int_equal(symlink("app.js", link), 0);
    site_write(s->static_dir, ".hidden", "no");
    static const char *const bad[] = {"/../token",
                                      "/..%2ftoken",
                                      "/%2e%2e/token",
                                      "/%2e%2e%2ftoken",
                                      "/..%5ctoken",
                                      "/link.js",
                                      "/all/passwd",
                                      "/.hidden",
                                      "//etc/passwd",
                                      "/./app.js",
                                      "/app.js%00.png",
                                      "/static/../../token",
                                      "/vendor/../../../etc/passwd",
                                      "/vendor/%2e%2e/%2e%2e/x",
                                      "/app.js/",
                                      "/vendor/",
                                      "/vendor"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct answer a = get(s, bad[i]);
        if (a.status != 404 && a.status != 400) {
            fail_msg("%s answers %ld: %s", bad[i], a.status, a.body);
        }
        assert_null(strstr(a.body, "admin-0123"));
        answer_release(&a);
    }
    expect_body(s, "/inside.js", "0123456789");
}

static void a_file_that_is_unchanged_is_not_sent_again(void **state)
{
    struct site *s = *state;
    char etag[256], header[300];
    struct answer a = get(s, "/app.js");
    assert_true(header_of(&a, "ETag", etag));
    answer_release(&a);
    snprintf(header, sizeof header, "If-None-Match: \"other\", W/%s", etag);
    struct ask again = {.method = "GET", .path = "/app.js", .headers = {header}};
    a = ask(s, again);
    expect_status(&a, 304);
    assert_int_equal(a.len, 0);
    answer_release(&a);
    site_write(s->static_dir, "app.js", "9876543210+");
    a = ask(s, again);
    expect_status(&a, 200);
    assert_string_equal(a.body, "9876543210+");
    answer_release(&a);
    site_write(s->static_dir, "app.js", "0123456789");
}

static void expect_if_match(struct site *s, const char *path, const char *etag)
{
    char header[300];
    snprintf(header, sizeof header, "If-Match: \"x\", %s", etag);
    struct ask wanted = {.method = "GET", .path = path, .token = s->token, .headers = {header}};
    struct answer a = ask(s, wanted);
    expect_status(&a, 200);
    answer_release(&a);
    wanted.headers[0] = "If-Match: \"old\"";
    wanted.headers[1] = "Range: bytes=0-";
    a = ask(s, wanted);
    expect_problem(&a, 412, NULL);
    answer_release(&a);
}

static void an_artifact_is_listed_with_its_digest_and_sent_in_parts(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[200], value[256], etag[256], header[300];
    job_with(s, "artifacts", id, folder);
    site_write(folder, "model.safetensors", "0123456789");
    site_write(folder, "a b.txt", "x");
    ARTIFACTS(path, id, "");
    struct answer a = get(s, path);
    expect_status(&a, 200);
    assert_int_equal(json_array_size(at(a.json, "/artifacts")), 2);
    assert_string_equal(text_at(a.json, "/artifacts/1/name"), "model.safetensors");
    assert_int_equal((int)number_at(a.json, "/artifacts/1/bytes"), 10);
    assert_string_equal(text_at(a.json, "/artifacts/1/sha256"),
                        "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
    answer_release(&a);
    ARTIFACTS(path, id, "/a%20b.txt");
    expect_body(s, path, "x");
    ARTIFACTS(path, id, "/model.safetensors");
    a = ask(s,
            (struct ask){
                .method = "GET", .path = path, .token = s->token, .headers = {"Range: bytes=2-5"}});
    expect_status(&a, 206);
    assert_string_equal(a.body, "2345");
    assert_true(header_of(&a, "Content-Range", value));
    assert_string_equal(value, "bytes 2-5/10");
    assert_true(header_of(&a, "Content-Disposition", value));
    assert_true(header_of(&a, "ETag", etag));
    answer_release(&a);
    expect_if_match(s, path, etag);
    snprintf(header, sizeof header, "If-Range: %s", etag);
    a = ask(s, (struct ask){.method = "GET",
                            .path = path,
                            .token = s->token,
                            .headers = {"Range: bytes=-2", header}});
    expect_status(&a, 206);
    assert_string_equal(a.body, "89");
    answer_release(&a);
    a = ask(s, (struct ask){.method = "GET",
                            .path = path,
                            .token = s->token,
                            .headers = {"Range: bytes=-2", "If-Range: \"old\""}});
    expect_status(&a, 200);
    answer_release(&a);
    a = ask(s,
            (struct ask){
                .method = "GET", .path = path, .token = s->token, .headers = {"Range: bytes=10-"}});
    expect_problem(&a, 416, NULL);
    assert_true(header_of(&a, "Content-Range", value));
    assert_string_equal(value, "bytes */10");
    answer_release(&a);
    a = ask(s, (struct ask){.method = "GET", .path = path});
    expect_problem(&a, 401, NULL);
    answer_release(&a);
}

static void an_artifact_is_a_plain_file_of_the_folder(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[300], link[256], target[256];
    static const char *const bad[] = {
        "/..",      "/%2e%2e%2ftoken", "/..%2f..%2f..%2ftoken", "/link", "/sub", "/.hidden",
        "/missing", "/a%00b"};
    job_with(s, "artifacts", id, folder);
    snprintf(target, sizeof target, "%s/token", s->dir);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(target, link), 0);
    snprintf(link, sizeof link, "%s/sub", folder);
    mkdir(link, 0755);
    site_write(folder, ".hidden", "no");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ARTIFACTS(path, id, bad[i]);
        struct answer a = get(s, path);
        if (a.status != 404 && a.status != 400) {
            fail_msg("%s answers %ld: %s", path, a.status, a.body);
        }
        answer_release(&a);
    }
    ARTIFACTS(path, id, "");
    struct answer a = get(s, path);
    assert_int_equal(json_array_size(at(a.json, "/artifacts")), 0);
    answer_release(&a);
}

static void an_artifact_may_lie_in_a_folder(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[300], below[256], link[256], value[256];
    static const char *const bad[] = {
        "/plots",           "/plots/",          "/plots//loss.png",    "/plots/../a.txt",
        "/elsewhere/token", "/.git/config",     "/plots%2f..%2fa.txt", "/plots%2F%2Floss.png",
        "%2Fa.txt",         "/%2Fa.txt",        "/plots%2f",           "/elsewhere%2ftoken",
        "/.git%2fconfig",   "/plots%5closs.png"};
    job_with(s, "artifacts", id, folder);
    site_write(folder, "a.txt", "0");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"plots/late", ".git", "empty"};
        snprintf(below, sizeof below, "%s/%s", folder, names[i]);
        OK(proc_mkdirs(below, 0755, &err_));
    }
    site_write(folder, "plots/loss.png", "01");
    site_write(folder, "plots/late/a b.png", "012");
    site_write(folder, ".git/config", "no");
    snprintf(link, sizeof link, "%s/elsewhere", folder);
    assert_int_equal(symlink(s->dir, link), 0); /* where the token is */
    ARTIFACTS(path, id, "");
    struct answer a = get(s, path);
    assert_int_equal(json_array_size(at(a.json, "/artifacts")), 3);
    assert_string_equal(text_at(a.json, "/artifacts/0/name"), "a.txt");
    assert_string_equal(text_at(a.json, "/artifacts/1/name"), "plots/late/a b.png");
    assert_string_equal(text_at(a.json, "/artifacts/2/name"), "plots/loss.png");
    answer_release(&a);
    ARTIFACTS(path, id, "/plots/late/a%20b.png");
    a = get(s, path);
    expect_status(&a, 200);
    assert_string_equal(a.body, "012");
    assert_true(header_of(&a, "Content-Disposition", value));
    assert_string_equal(value, "attachment; filename=\"a b.png\"");
    answer_release(&a);
    ARTIFACTS(path, id, "/plots%2Flate%2fa%20b.png"); /* as generated clients write it */
    expect_body(s, path, "012");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ARTIFACTS(path, id, bad[i]);
        a = get(s, path);
        if (a.status != 404 && a.status != 400) {
            fail_msg("%s answers %ld: %s", path, a.status, a.body);
        }
        answer_release(&a);
    }
}

static void a_log_is_text_whole_or_its_last_lines(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[200], type[256];
    job_with(s, "logs", id, folder);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs", id);
    expect_body(s, path, "");
    site_write(folder, "attempt.log", "begun\n");
    site_write(folder, "rank-1.log", "one\ntwo\n<b>three</b>\n");
    expect_body(s, path, "begun\n");
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=1", id);
    struct answer a = get(s, path);
    assert_string_equal(a.body, "one\ntwo\n<b>three</b>\n");
    assert_true(header_of(&a, "Content-Type", type));
    assert_string_equal(type, "text/plain; charset=utf-8");
    answer_release(&a);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=1&tail=2", id);
    expect_body(s, path, "two\n<b>three</b>\n");
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=1&tail=100", id);
    expect_body(s, path, "one\ntwo\n<b>three</b>\n");
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=-1", id);
    a = get(s, path);
    expect_problem(&a, 422, "rank");
    answer_release(&a);
}

/* A program may run as the service's user: viewers could read its link to another file. */
static void a_log_is_a_plain_file(void **state)
{
    static const char *const asked[] = {"?rank=1", "?rank=1&tail=5", "?rank=2", "?rank=2&tail=5"};
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[300], target[256];
    job_with(s, "logs", id, folder);
    snprintf(target, sizeof target, "%s/token", s->dir);
    snprintf(path, sizeof path, "%s/rank-1.log", folder);
    assert_int_equal(symlink(target, path), 0);
    snprintf(path, sizeof path, "%s/rank-2.log", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        snprintf(path, sizeof path, "/api/v1/jobs/%s/logs%s", id, asked[i]);
        struct answer a = get(s, path);
        expect_status(&a, 404);
        answer_release(&a);
    }
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?all=true", id);
    struct answer a = get(s, path);
    assert_string_equal(a.body, "");
    answer_release(&a);
}

static void all_logs_come_in_one_answer_each_line_with_its_name(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[200];
    job_with(s, "logs", id, folder);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?all=true", id);
    expect_body(s, path, "");
    site_write(folder, "attempt.log", "begun\n");
    site_write(folder, "rank-10.log", "ten\n\nends without a newline");
    site_write(folder, "rank-2.log", "a\nb\nc\n");
    site_write(folder, "rank-2.log.old", "no\n");
    expect_body(s, path,
                "launcher: begun\nrank-2: a\nrank-2: b\nrank-2: c\n"
                "rank-10: ten\nrank-10: \nrank-10: ends without a newline\n");
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?all=true&tail=1", id);
    expect_body(s, path, "launcher: begun\nrank-2: c\nrank-10: ends without a newline\n");
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?all=true&rank=2", id);
    struct answer a = get(s, path);
    expect_problem(&a, 422, "rank");
    answer_release(&a);
}

static void the_log_of_a_rank_that_the_job_does_not_have_is_404(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[200];
    job_with(s, "logs", id, folder);
    json_t *live =
        json_of("{\"workers\": [{\"rank\": 0}, {\"rank\": 1}], \"servers\": [{\"rank\": 2}]}");
    OK(store_doc_set(s->store, id, "live", live, &err_));
    json_decref(live);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=2", id);
    expect_body(s, path, "");
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=3", id);
    struct answer a = get(s, path);
    expect_problem(&a, 404, NULL);
    answer_release(&a);
}

static void the_end_of_a_long_log_begins_with_a_whole_line(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], folder[200], path[200];
    size_t n = 6 << 20;
    char *text = malloc(n + 1);
    for (size_t i = 0; i < n; i += 8) {
        memcpy(text + i, "1234567\n", 8);
    }
    text[n] = '\0';
    text[n - 1] = '!'; /* the last line has not ended yet */
    job_with(s, "logs", id, folder);
    site_write(folder, "rank-0.log", text);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=0&tail=3", id);
    expect_body(s, path, "1234567\n1234567\n1234567!");
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=0", id);
    struct answer a = get(s, path);
    assert_int_equal(a.len, n);
    answer_release(&a);
    free(text);
}

static void the_chart_library_comes_from_the_distribution(void **state)
{
    struct site *s = *state;
    if (access("/usr/share/javascript/dygraphs/dygraph.min.js", R_OK) < 0) {
        skip();
    }
    struct answer a = get(s, "/vendor/dygraph.min.js"), b = get(s, "/vendor/dygraph.min.css"),
                  c = get(s, "/vendor/extras/synchronizer.js");
    expect_status(&a, 200);
    expect_status(&b, 200);
    expect_status(&c, 200);
    answer_release(&a);
    answer_release(&b);
    answer_release(&c);
}

/* The ETag of the page's file for a browser with this setting for gzip, or none (NULL); its bytes
 * are right either way. */
static void ask_page(struct site *s, const char *coding, const char *text, char etag[256])
{
    char value[256];
    struct answer a = ask(s, (struct ask){.method = "GET", .path = "/big.js", .headers = {coding}});
    expect_status(&a, 200);
    assert_true(header_of(&a, "Vary", value));
    assert_string_equal(value, "Accept-Encoding");
    assert_true(header_of(&a, "ETag", etag));
    if (header_of(&a, "Content-Encoding", value)) {
        assert_string_equal(value, "gzip");
        assert_true(coding && a.len < strlen(text) / 4);
        assert_memory_equal(a.body, "\x1f\x8b", 2);
    } else {
        assert_null(coding);
        assert_string_equal(a.body, text);
    }
    answer_release(&a);
}

static void the_pages_files_are_compressed_for_browsers_that_take_it(void **state)
{
    struct site *s = *state;
    char text[8000], plain[256], packed[256], header[300], value[256];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int round = 0; round < 2; round++) {
        text[0] = (char)('a' + round); /* a file that has changed is sent anew */
        text[sizeof text - 2 - (size_t)round] = '\0';
        site_write(s->static_dir, "big.js", text);
        ask_page(s, NULL, text, plain);
        ask_page(s, "Accept-Encoding: br, gzip", text, packed);
        assert_string_not_equal(plain, packed);
        for (int i = 0; i < 4; i++) { /* 304 for the same bytes alone */
            snprintf(header, sizeof header, "If-None-Match: %s", i % 2 ? packed : plain);
            struct answer a =
                ask(s, (struct ask){.method = "GET",
                                    .path = "/big.js",
                                    .headers = {header, i < 2 ? NULL : "Accept-Encoding: gzip"}});
            expect_status(&a, i == 0 || i == 3 ? 304 : 200);
            assert_true(header_of(&a, "Vary", value));
            answer_release(&a);
        }
    }
    struct answer a =
        ask(s, (struct ask){.method = "GET",
                            .path = "/big.js",
                            .headers = {"Range: bytes=0-3", "Accept-Encoding: gzip"}});
    expect_status(&a, 206);
    assert_string_equal(a.body, "bxxx");
    answer_release(&a);
    a = ask(s, (struct ask){.method = "HEAD", .path = "/big.js"});
    expect_status(&a, 200);
    assert_true(header_of(&a, "Content-Length", value) &&
                strtol(value, NULL, 10) == (long)strlen(text));
    answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_header_means_what_rfc_9110_says),
        cmocka_unit_test(the_page_and_its_files_need_no_token),
        cmocka_unit_test(a_path_never_leaves_its_folder),
        cmocka_unit_test(a_file_that_is_unchanged_is_not_sent_again),
        cmocka_unit_test(an_artifact_is_listed_with_its_digest_and_sent_in_parts),
        cmocka_unit_test(an_artifact_is_a_plain_file_of_the_folder),
        cmocka_unit_test(an_artifact_may_lie_in_a_folder),
        cmocka_unit_test(a_log_is_text_whole_or_its_last_lines),
        cmocka_unit_test(a_log_is_a_plain_file),
        cmocka_unit_test(all_logs_come_in_one_answer_each_line_with_its_name),
        cmocka_unit_test(the_log_of_a_rank_that_the_job_does_not_have_is_404),
        cmocka_unit_test(the_end_of_a_long_log_begins_with_a_whole_line),
        cmocka_unit_test(the_chart_library_comes_from_the_distribution),
        cmocka_unit_test(the_pages_files_are_compressed_for_browsers_that_take_it),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
