/* The command line's connection to the service (cli/client.c, cli/session.c): addresses and tokens,
 * requests, and how every kind of refusal reaches the user.
 */
#include "tests/unit/cli/fixture.h"

static char dir[64];

static int make_dir(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/evenstep-test-XXXXXX");
    return mkdtemp(dir) ? service_open(state) : -1;
}

static int remove_dir(void **state)
{
    service_close(state);
    return proc_remove_tree(dir, NULL);
}

/* ---- address and token ----------------------------------------------------------------------- */

static void a_call_carries_the_token_and_the_body(void **state)
{
    (void)state;
    answers(200, "{\"nodes\": []}");
    run("nodes", "");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET /api/v1/nodes");
    assert_said(service.asked[0], "Authorization: Bearer a-token\r\n");
}

static void slashes_after_the_address_are_no_part_of_it(void **state)
{
    char arguments[100];
    (void)state;
    answers(200, "{\"nodes\": []}");
    snprintf(arguments, sizeof arguments, "--url %s///", service.url);
    run("nodes", arguments);
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET /api/v1/nodes");
}

static void what_is_no_address_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {"ftp://h",     "127.0.0.1:8080", "http://",
                                       "https:///",   "http://h:x",     "http://h:99999",
                                       "http://[::1", "http://user@/"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char arguments[100], said[100];
        snprintf(arguments, sizeof arguments, "--url %s", none[i]);
        snprintf(said, sizeof said, "'%s' is not an address: expected http://HOST:PORT", none[i]);
        run("nodes", arguments);
        assert_int_equal(ran.status, 2);
        assert_said(ran.err, said);
    }
    assert_int_equal(service.n_asked, 0);
}

static void the_token_comes_from_its_file_before_the_environment(void **state)
{
    char arguments[100], path[100];
    (void)state;
    snprintf(path, sizeof path, "%s/token", dir);
    assert_int_equal(proc_write_file(path, "of-the-file\n", 12, 0600, NULL), 0);
    snprintf(arguments, sizeof arguments, "--token-file %s", path);
    answers(200, "{\"nodes\": []}");
    run("nodes", arguments);
    assert_said(service.asked[0], "Authorization: Bearer of-the-file\r\n");
}

static void no_token_and_no_file_of_it_are_told_with_a_hint(void **state)
{
    char arguments[100];
    (void)state;
    snprintf(arguments, sizeof arguments, "--token-file %s/none", dir);
    run("nodes", arguments);
    assert_int_equal(ran.status, 2);
    assert_said(ran.err, "none'");
    unsetenv("EVENSTEP_TOKEN");
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(dir), 0); /* where there is no evenstep-data/token */
    run("nodes", "");
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_int_equal(ran.status, 2);
    assert_said(ran.err, "there is no token");
    assert_said(ran.err, "set EVENSTEP_TOKEN, or --token-file");
}

static void wrong_use_says_how_and_asks_nobody(void **state)
{
    (void)state;
    run("jobs", "now");
    assert_int_equal(ran.status, 2);
    assert_said(ran.err, "usage: evenstep jobs\n");
    run("show", "");
    assert_int_equal(ran.status, 2);
    assert_said(ran.err, "usage: evenstep show ID");
    run("nodes", "--colour");
    assert_int_equal(ran.status, 2);
    run("nodes", "--help");
    assert_int_equal(ran.status, 0);
    assert_said(ran.out, "--token-file");
    assert_int_equal(service.n_asked, 0);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void a_refusal_is_told_with_its_problems_and_its_hint(void **state)
{
    (void)state;
    answers(422,
            "{\"title\": \"invalid\", \"detail\": \"2 mistakes\", \"hint\": \"look there\", "
            "\"errors\": [{\"pointer\": \"/epochs\", \"message\": \"1 at least\"}, "
            "{\"pointer\": \"\", \"message\": \"too much\"}]}");
    run("nodes", "");
    assert_int_equal(ran.status, 7);
    assert_string_equal(ran.err,
                        "evenstep: 2 mistakes\n  /epochs: 1 at least\n  too much\n"
                        "  look there\n");
    assert_string_equal(ran.out, "");
}

static void a_single_problem_is_told_once(void **state)
{
    (void)state;
    answers(422,
            "{\"title\": \"invalid\", \"detail\": \"not valid: /epochs: 1 at least\", "
            "\"errors\": [{\"pointer\": \"/epochs\", \"message\": \"1 at least\"}]}");
    run("nodes", "");
    assert_string_equal(ran.err, "evenstep: not valid: /epochs: 1 at least\n");
}

static void a_refusal_without_a_detail_is_told_by_its_title(void **state)
{
    (void)state;
    answers(404, "{\"title\": \"there is no such job\", \"detail\": \"\"}");
    run("nodes", "");
    assert_string_equal(ran.err, "evenstep: there is no such job\n");
}

static void a_refusal_that_says_nothing_is_still_one(void **state)
{
    (void)state;
    answers(409, "{}");
    run("nodes", "");
    assert_int_equal(ran.status, 7);
    assert_string_equal(ran.err, "evenstep: the service refused\n");
}

static void an_answer_that_is_no_problem_document_is_told_by_its_status(void **state)
{
    char expected[100];
    (void)state;
    answers(502, "[]");
    run("nodes", "");
    snprintf(expected, sizeof expected, "evenstep: %s answered 502\n", service.url);
    assert_int_equal(ran.status, 3);
    assert_string_equal(ran.err, expected);
}

static void an_answer_that_is_no_json_is_an_error(void **state)
{
    (void)state;
    answers(200, "<html>");
    run("nodes", "");
    assert_int_equal(ran.status, 3);
    assert_true(ran.err[0]);
}

static void a_service_that_is_not_there_is_told_with_its_address(void **state)
{
    (void)state;
    run("nodes", "--url http://127.0.0.1:1");
    assert_int_equal(ran.status, 3);
    assert_said(ran.err, "cannot reach http://127.0.0.1:1: ");
    assert_said(ran.err, "is `evenstep serve` running there?");
}

/* The code decides what a command does next: watch waits for a service that is away, and only
 * then. */
static void a_status_has_its_code(void **state)
{
    static const struct {
        int status;
        enum err_code code;
    } cases[] = {{400, ERR_INVALID},     {401, ERR_UNAUTHORIZED}, {403, ERR_FORBIDDEN},
                 {404, ERR_NOT_FOUND},   {409, ERR_CONFLICT},     {422, ERR_INVALID},
                 {500, ERR_UNAVAILABLE}, {503, ERR_UNAVAILABLE}};
    struct client c = {.token = strdup("a-token")};
    (void)state;
    snprintf(c.url, sizeof c.url, "%s", service.url);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answers(cases[i].status, "{\"detail\": \"no\"}");
    }
    assert_int_equal(pthread_create(&service.thread, NULL, serve, &service), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        assert_null(client_call(&c, "GET", "/x", NULL, &e));
        assert_int_equal(e.code, cases[i].code);
    }
    pthread_join(service.thread, NULL);
    client_close(&c);
}

static void an_answer_without_a_body_is_null(void **state)
{
    struct client c = {.token = strdup("a-token")};
    struct err e = {0};
    (void)state;
    snprintf(c.url, sizeof c.url, "%s", service.url);
    answers(204, "");
    assert_int_equal(pthread_create(&service.thread, NULL, serve, &service), 0);
    json_t *answer = client_call(&c, "DELETE", "/x", NULL, &e);
    assert_true(json_is_null(answer));
    assert_asked(0, "DELETE /x");
    json_decref(answer);
    pthread_join(service.thread, NULL);
    client_close(&c);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVICE(a_call_carries_the_token_and_the_body),
        WITH_A_SERVICE(slashes_after_the_address_are_no_part_of_it),
        WITH_A_SERVICE(what_is_no_address_is_refused),
        IN_A_FOLDER(the_token_comes_from_its_file_before_the_environment),
        IN_A_FOLDER(no_token_and_no_file_of_it_are_told_with_a_hint),
        WITH_A_SERVICE(wrong_use_says_how_and_asks_nobody),
        WITH_A_SERVICE(a_refusal_is_told_with_its_problems_and_its_hint),
        WITH_A_SERVICE(a_single_problem_is_told_once),
        WITH_A_SERVICE(a_refusal_without_a_detail_is_told_by_its_title),
        WITH_A_SERVICE(a_refusal_that_says_nothing_is_still_one),
        WITH_A_SERVICE(an_answer_that_is_no_problem_document_is_told_by_its_status),
        WITH_A_SERVICE(an_answer_that_is_no_json_is_an_error),
        WITH_A_SERVICE(a_service_that_is_not_there_is_told_with_its_address),
        WITH_A_SERVICE(a_status_has_its_code),
        WITH_A_SERVICE(an_answer_without_a_body_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
