/* Commands that print measurements (cli/jobs/figures.c, cli/nodes/load.c, cli/evaluate.c), and how
 * they treat long words. */
#include "tests/unit/cli/fixture.h"

#define ID "0123456789abcdef"

/* ---- figures --------------------------------------------------------------------------------- */

static const char norms[] =
    "{\"tensors\": [{\"name\": \"fc.weight\", \"elements\": 100}, {\"name\": \"fc.bias\", "
    "\"elements\": 10}], \"x\": [0, 50], \"weights\": [[1.5, 2], [0, 0.25]], "
    "\"gradients\": [[3, null], [0.5, 0.125]]}";

static void norms_are_a_line_for_each_tensor(void **state)
{
    (void)state;
    answers(200, norms);
    run("norms", ID);
    assert_asked(0, "GET /api/v1/jobs/" ID "/norms?points=200");
    assert_string_equal(ran.out,
                        "tensor     elements  first  last  gradient first   last\n"
                        "fc.weight       100    1.5     2               3      -\n"
                        "fc.bias          10      0  0.25             0.5  0.125\n");
}

static void a_table_is_asked_of_the_service_and_printed_with_the_terminals_lines(void **state)
{
    static const struct {
        const char *command, *words, *line;
    } cases[] = {
        {"norms", ID " --csv", "GET /api/v1/jobs/" ID "/norms?points=200&format=csv"},
        {"evaluations", ID " --csv", "GET /api/v1/jobs/" ID "/evaluations?format=csv"},
        {"series", ID " --csv --names a,b",
         "GET /api/v1/jobs/" ID "/series?points=20&format=csv&names=a%2Cb&x=step"},
        {"load", "n1 --csv", "GET /api/v1/nodes/n1/load?seconds=60&format=csv"},
        {"accounting", "--csv", "GET /api/v1/accounting?format=csv&by=owner"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[100];
        service_close(state);
        assert_int_equal(service_open(state), 0);
        answers(200, "a,b\r\n1,2\r\n");
        run(cases[i].command, cases[i].words);
        assert_int_equal(ran.status, 0);
        assert_asked(0, cases[i].line);
        assert_string_equal(ran.out, "a,b\n1,2\n");
        snprintf(words, sizeof words, "%s --json", cases[i].words);
        run(cases[i].command, words);
        assert_int_equal(ran.status, 2);
        assert_said(ran.err, "--csv and --json exclude each other");
    }
}

static void load_has_a_line_for_each_time_and_a_gpu_where_there_is_one(void **state)
{
    (void)state;
    answers(200,
            "{\"now\": 1767323050, \"at\": [1767323045.5, 1767323047.5], \"seconds\": [2, 2], "
            "\"cpu\": [0.5, null], \"memory_used_bytes\": [1048576, 2097152], "
            "\"received_bytes_per_second\": [0, 1], \"sent_bytes_per_second\": [2048, 0], "
            "\"gpu_busy\": [null, null]}");
    run("load", "n1");
    assert_string_equal(ran.out,
                        "until                over      CPU   memory  received/s   sent/s\n"
                        "2026-01-02 03:04:05   2 s  50.00 %  1.0 MiB         0 B  2.0 KiB\n"
                        "2026-01-02 03:04:07   2 s        -  2.0 MiB         1 B      0 B\n");
}

#define SCORED                                                                               \
    "{\"model\": \"mlp\", \"parameters\": 10, \"device\": \"cpu\", \"samples\": 4, "         \
    "\"loss\": 0.5, \"data\": {\"format\": \"idx\", \"path\": \"d\", \"part\": \"test\", "   \
    "\"digest\": \"\"}, \"accuracy\": 0.75, \"right\": 3, \"confusion\": [[2, 0], [1, 1]], " \
    "\"classes\": [{\"class\": 0, \"name\": \"cat\\u202e\", \"samples\": 2, \"right\": 2, "  \
    "\"answers\": 3}, {\"class\": 1, \"name\": \"a long name of a class\", \"samples\": 2, " \
    "\"right\": 1, \"answers\": 1}]}"

static void a_confusion_matrix_is_printed_where_it_fits(void **state)
{
    (void)state;
    answers(200, SCORED);
    run("confusion", ID);
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET /api/v1/jobs/" ID "/confusion");
    assert_said(ran.out, "accuracy 75.00 % (3 right), loss 0.5000\n");
    assert_said(ran.out, "cat\\u202e                     2      2  100.00 %    66.67 %\n");
    assert_said(ran.out, "rows: what it is; columns: what was answered\n");
    service_close(state);
    assert_int_equal(service_open(state), 0);
    setenv("COLUMNS", "20", 1);
    answers(200, SCORED);
    run("confusion", ID);
    unsetenv("COLUMNS");
    assert_said(ran.out,
                "most often confused\n       1 x a long\n  name of a class,\n  taken for\n  cat");
}

static void the_disk_and_what_could_go(void **state)
{
    (void)state;
    answers(200,
            "{\"low\": true, \"free_bytes\": 1048576, \"used_bytes\": null, \"can_go_bytes\": 2048,"
            " \"jobs\": [{\"id\": \"" ID
            "\", \"finished\": \"2026-01-02T03:04:05.678Z\", "
            "\"disk_bytes\": 4096, \"can_go_bytes\": 2048}]}");
    run("disk", "");
    assert_string_equal(ran.out,
                        "     1.0 MiB  free\n"
                        "     2.0 KiB  of jobs that have ended, could go\n"
                        "the disk is nearly full\n"
                        "job               finished               takes  could go\n" ID
                        "  2026-01-02 03:04:05  4.0 KiB   2.0 KiB\n");
}

/* ---- logs ------------------------------------------------------------------------------------ */

static void all_logs_come_in_one_answer_and_in_json_with_their_rank(void **state)
{
    (void)state;
    answers(200, "launcher: up\nrank-12: a: b\n");
    run("logs", ID " --all --tail 5 --json");
    assert_asked(0, "GET /api/v1/jobs/" ID "/logs?all=true&tail=5");
    assert_string_equal(ran.out,
                        "{\"rank\":null,\"line\":\"up\"}\n{\"rank\":12,\"line\":\"a: b\"}\n");
    run("logs", ID " --all -f");
    assert_int_equal(ran.status, 2);
    assert_said(ran.err, "--all excludes --rank and --follow");
}

/* ---- events ---------------------------------------------------------------------------------- */

static const char stream[] =
    "retry: 1000\nid: 1-0\nevent: hello\ndata: {}\n\n: still here\n\n"
    "id: 1-1\nevent: job\ndata: {\"job\":\"" ID "\",\"type\":\"job\",\"data\":{\"id\":\"" ID
    "\",\"name\":\"a\\u202eb\",\"from\":\"queued\",\"state\":\"running\"}}\n\n"
    "event: gap\ndata: {}\n\n"
    "event: node\ndata: {\"job\":\"\",\"type\":\"node\",\"data\":{\"name\":\"n1\","
    "\"change\":\"put\"}}\n\n";

static void events_are_a_line_each_until_the_service_ends_them(void **state)
{
    answers(200, stream);
    answers(200, "{\"role\": \"viewer\"}");
    run("events", ID);
    assert_asked(0, "GET /api/v1/events?job=" ID);
    assert_asked(1, "GET /api/v1/session");
    assert_int_equal(ran.status, 3);
    assert_said(ran.err, "ended the stream of events");
    assert_string_equal(ran.out, "job         " ID
                                 "  a\\u202eb: queued → running\n"
                                 "gap                           {}\n"
                                 "node                          n1 put\n");
    service_close(state);
    assert_int_equal(service_open(state), 0);
    answers(200, stream);
    answers(200, "{\"role\": \"viewer\"}");
    run("events", "--json");
    assert_asked(0, "GET /api/v1/events");
    char *second = strchr(ran.out, '\n');
    assert_non_null(second);
    assert_said(ran.out, "\"from\":\"queued\",\"state\":\"running\"}}\n");
    assert_said(second,
                "{\"job\":\"\",\"type\":\"gap\",\"data\":{}}\n{\"job\":\"\",\"type\":\"node\"");
}

/* ---- long words ------------------------------------------------------------------------------ */

static void what_is_searched_for_is_sent_whole_however_long(void **state)
{
    enum { LONG = 700 };
    char x[LONG + 1], words[8192], expected[8192];
    (void)state;
    memset(x, '/', LONG);
    x[LONG] = '\0';
    answers(200, "{\"jobs\": [], \"next\": null}");
    snprintf(words, sizeof words, "--search %s --where name=%s", x, x);
    run("jobs", words);
    assert_int_equal(ran.status, 0);
    char *at = expected + snprintf(expected, sizeof expected, "GET /api/v1/jobs?limit=100&q=");
    for (int i = 0; i < LONG; i++) {
        at += snprintf(at, 4, "%%2F");
    }
    at += snprintf(at, 20, "&where=name%%3D");
    for (int i = 0; i < LONG; i++) {
        at += snprintf(at, 4, "%%2F");
    }
    snprintf(at, 20, " HTTP/1.1\r\n");
    assert_int_equal(strncmp(service.asked[0], expected, strlen(expected)), 0);
}

static void metrics_of_the_service_are_text_or_json(void **state)
{
    (void)state;
    answers(200, "evenstep_jobs 3\n");
    run("metrics", "");
    assert_string_equal(ran.out, "evenstep_jobs 3\n");
    assert_asked(0, "GET /metrics");
    service_close(state);
    assert_int_equal(service_open(state), 0);
    answers(200, "evenstep_jobs 3\n");
    run("metrics", "--json");
    assert_said(ran.out, "\"text\": \"evenstep_jobs 3\\u000a\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVICE(norms_are_a_line_for_each_tensor),
        WITH_A_SERVICE(a_table_is_asked_of_the_service_and_printed_with_the_terminals_lines),
        WITH_A_SERVICE(load_has_a_line_for_each_time_and_a_gpu_where_there_is_one),
        WITH_A_SERVICE(a_confusion_matrix_is_printed_where_it_fits),
        WITH_A_SERVICE(the_disk_and_what_could_go),
        WITH_A_SERVICE(all_logs_come_in_one_answer_and_in_json_with_their_rank),
        WITH_A_SERVICE(events_are_a_line_each_until_the_service_ends_them),
        WITH_A_SERVICE(what_is_searched_for_is_sent_whole_however_long),
        WITH_A_SERVICE(metrics_of_the_service_are_text_or_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
