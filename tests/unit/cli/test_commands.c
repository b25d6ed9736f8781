/* The commands (cli/commands.c, cli/watch.c): what each asks for, what it prints of an answer, and
 * its exit status.
 */
#include "tests/unit/cli/fixture.h"

#define ID "0123456789abcdef"

static char spec_path[64];

static void write_spec(const char *text)
{
    snprintf(spec_path, sizeof spec_path, "/tmp/evenstep-test-XXXXXX");
    int fd = mkstemp(spec_path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void run_submit(const char *options)
{
    char arguments[200];
    snprintf(arguments, sizeof arguments, "%s%s", options, spec_path);
    run(command_submit, arguments);
    unlink(spec_path);
}

/* ---- submit ---------------------------------------------------------------------------------- */

static void submit_sends_the_file_and_prints_the_id(void **state)
{
    (void)state;
    write_spec("{\"name\": \"x\"}");
    answers(201, "{\"id\": \"" ID "\"}");
    run_submit("");
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out, ID "\n");
    assert_asked(0, "POST /api/v1/jobs");
    assert_said(service.asked[0], "\r\n\r\n{\"name\":\"x\"}");
}

static void a_dry_run_prints_the_answer_and_submits_nothing(void **state)
{
    (void)state;
    write_spec("{}");
    answers(200, "{\"starts\": \"now\"}");
    run_submit("--dry-run --watch ");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "POST /api/v1/jobs?dryRun=true");
    assert_int_equal(service.n_asked, 1);
    assert_said(ran.out, "\"starts\": \"now\"");
}

static void a_file_that_is_no_job_is_not_sent(void **state)
{
    (void)state;
    write_spec("{\"name\":");
    run_submit("");
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "cannot read the job");
    run(command_submit, "/nowhere/job.json");
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "/nowhere/job.json");
    assert_int_equal(service.n_asked, 0);
}

static void submit_and_watch_ends_as_the_job_does(void **state)
{
    (void)state;
    write_spec("{}");
    answers(201, "{\"id\": \"" ID "\"}");
    answers(200, "{\"id\": \"" ID "\", \"state\": \"cancelled\"}");
    run_submit("--watch ");
    assert_asked(1, "GET /api/v1/jobs/" ID);
    assert_int_equal(ran.status, 1);
}

static void a_refused_job_is_not_watched(void **state)
{
    (void)state;
    write_spec("{}");
    answers(422, "{\"detail\": \"no\"}");
    run_submit("--watch ");
    assert_int_equal(ran.status, 1);
    assert_int_equal(service.n_asked, 1);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void jobs_are_listed_page_by_page(void **state)
{
    (void)state;
    answers(200,
            "{\"jobs\": [{\"id\": \"a1\", \"name\": \"first\", \"state\": \"running\", "
            "\"progress\": {\"fraction\": 0.25}, \"metrics\": {\"test_accuracy\": 0.5}}], "
            "\"next\": \"c1\"}");
    answers(200,
            "{\"jobs\": [{\"id\": \"a2\", \"name\": \"second\", \"state\": \"queued\"}], "
            "\"next\": null}");
    run(command_jobs, "--state running --limit 150");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET /api/v1/jobs?limit=100&state=running");
    assert_asked(1, "GET /api/v1/jobs?limit=100&state=running&cursor=c1");
    assert_said(ran.out,
                "a1                 first                    running          25 %   "
                "50.00 %");
    assert_said(ran.out,
                "a2                 second                   queued            0 %         "
                "-");
}

static void no_more_jobs_are_listed_than_were_asked_for(void **state)
{
    (void)state;
    answers(200, "{\"jobs\": [{\"id\": \"a1\"}], \"next\": \"c1\"}");
    run(command_jobs, "--limit 1");
    assert_asked(0, "GET /api/v1/jobs?limit=1");
    assert_int_equal(service.n_asked, 1);
}

static void what_is_no_state_is_not_asked_for(void **state)
{
    (void)state;
    run(command_jobs, "--state a&b");
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "there is no state 'a&b'");
    assert_int_equal(service.n_asked, 0);
}

static void nodes_are_listed_with_their_speed(void **state)
{
    (void)state;
    answers(200,
            "{\"nodes\": [{\"name\": \"n1\", \"host\": \"h\", \"device\": \"cpu:1\", "
            "\"slowdown\": 4, \"state\": \"busy\", \"job\": \"" ID "\"}, {\"name\": \"n2\"}]}");
    run(command_nodes, "");
    assert_said(ran.out,
                "n1                   h                    cpu:1           4.00 busy       " ID
                "\n");
    assert_said(ran.out,
                "n2                   -                    -               1.00 -          "
                "-\n");
}

static void json_is_printed_as_it_came(void **state)
{
    (void)state;
    answers(200, "{\"nodes\":[],\"more\":1}");
    run(command_nodes, "--json");
    assert_int_equal(ran.status, 0);
    json_t *j = json_loads(ran.out, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(j, "more")), 1);
    json_decref(j);
}

/* ---- one job --------------------------------------------------------------------------------- */

static void a_job_is_cancelled_paused_and_resumed_by_its_id(void **state)
{
    static const struct {
        int (*command)(int argc, char **argv);
        const char *line;
    } cases[] = {{command_cancel, "POST /api/v1/jobs/" ID "/cancel"},
                 {command_pause, "POST /api/v1/jobs/" ID "/pause"},
                 {command_resume, "POST /api/v1/jobs/" ID "/resume"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        service_close(state);
        assert_int_equal(service_open(state), 0);
        answers(200, "{\"id\": \"" ID "\", \"state\": \"so\"}");
        run(cases[i].command, ID);
        assert_int_equal(ran.status, 0);
        assert_asked(0, cases[i].line);
        assert_string_equal(ran.out, ID " so\n");
    }
}

static void what_can_be_no_id_never_becomes_a_path(void **state)
{
    static const char *const ids[] = {"../nodes", "a/b", "a?b", "a%2f", "a#b", "ä"};
    char id[102];
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        run(command_show, ids[i]);
        assert_int_equal(ran.status, 1);
        assert_said(ran.err, "is no id of a job; `evenstep jobs` lists them");
    }
    memset(id, 'a', 101);
    id[101] = 0;
    run(command_show, id);
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "is no id of a job");
    run(command_watch, "a/b");
    assert_int_equal(ran.status, 1);
    assert_int_equal(service.n_asked, 0);
}

static void a_job_is_shown_with_its_figures_workers_and_error(void **state)
{
    (void)state;
    answers(200, "{\"id\": \"" ID
                 "\", \"name\": \"x\", \"state\": \"failed\", \"attempt\": 2, "
                 "\"progress\": {\"epoch\": 1.5, \"epochs\": 3, \"step\": 60, \"samples\": 3840}, "
                 "\"metrics\": {\"train_loss\": 0.25, \"step_seconds\": 0.0125}, "
                 "\"staleness\": {\"p95\": 3}, \"error\": {\"message\": \"it burnt\"}, "
                 "\"workers\": [{\"rank\": 1, \"node\": \"n1\", \"device\": \"cpu:1\", "
                 "\"batch\": 32, \"samples_per_second\": 100, \"compute_seconds\": 0.002, "
                 "\"wait_seconds\": 0.001, \"staleness\": {\"mean\": 1.5}, \"state\": \"lost\"}]}");
    run(command_show, ID);
    assert_int_equal(ran.status, 0);
    assert_said(ran.out, ID "  x  failed, attempt 2\n");
    assert_said(ran.out, "  epoch 1.50 of 3, step 60, 3840 samples\n");
    assert_said(ran.out, "train loss 0.2500, test loss -, test accuracy -, - samples/s, 12.5 ms");
    assert_said(ran.out, "staleness: - over updates, - over nodes, p95 3, at most -\n");
    assert_said(ran.out, "  error: it burnt\n");
    assert_said(ran.out,
                "     1 n1               cpu:1           32         100         2.0       "
                "1.0      1.50  lost\n");
}

static void a_queued_job_says_what_it_waits_for(void **state)
{
    (void)state;
    answers(200, "{\"id\": \"" ID "\", \"state\": \"queued\", \"waiting\": \"it asks for 3\"}");
    run(command_show, ID);
    assert_said(ran.out, "  waits: it asks for 3\n");
}

/* U+009B begins a command of the terminal, U+202E turns a line round. */
#define UNSAFE                                                \
    "{\"id\": \"" ID                                          \
    "\", \"name\": \"a\\u009b31mb\", \"state\": \"failed\", " \
    "\"error\": {\"message\": \"\\u202eno\"}}"

static void what_a_terminal_obeys_is_printed_as_its_number(void **state)
{
    (void)state;
    answers(200, UNSAFE);
    run(command_show, ID);
    assert_said(ran.out, "a\\u009b31mb");
    assert_said(ran.out, "error: \\u202eno\n");
    assert_null(strstr(ran.out, "\xc2\x9b"));
}

static void it_means_the_same_in_json(void **state)
{
    (void)state;
    answers(200, UNSAFE);
    run(command_show, ID " --json");
    assert_null(strstr(ran.out, "\xc2\x9b"));
    json_t *same = json_loads(ran.out, 0, NULL);
    assert_non_null(same);
    assert_string_equal(json_string_value(json_object_get(same, "name")),
                        "a\xc2\x9b"
                        "31mb");
    json_decref(same);
}

static void so_is_what_a_refusal_says(void **state)
{
    (void)state;
    answers(404, "{\"detail\": \"no '\\u009b2J'\"}");
    run(command_show, ID);
    assert_said(ran.err, "no '\\u009b2J'");
}

/* ---- watch ----------------------------------------------------------------------------------- */

static void watch_prints_each_tenth_until_the_job_has_succeeded(void **state)
{
    (void)state;
    answers(200, "{\"state\": \"running\", \"progress\": {\"fraction\": 0.51, \"epochs\": 2}}");
    answers(200, "{\"state\": \"running\", \"progress\": {\"fraction\": 0.52, \"epochs\": 2}}");
    answers(200,
            "{\"state\": \"succeeded\", \"progress\": {\"fraction\": 1, \"epochs\": 2}, "
            "\"metrics\": {\"test_accuracy\": 0.9}}");
    run(command_watch, ID);
    assert_int_equal(ran.status, 0);
    assert_said(ran.out, "running [");
    assert_said(ran.out, "  51 %  epoch");
    assert_null(strstr(ran.out, "  52 %"));
    assert_said(ran.out, " 100 %  epoch 0.0/2  accuracy 90.00 %");
}

static void watch_says_why_a_job_failed(void **state)
{
    (void)state;
    answers(200, "{\"state\": \"failed\", \"error\": {\"message\": \"it burnt\"}}");
    run(command_watch, ID);
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "the job failed: it burnt");
}

static void watch_waits_for_a_service_that_comes_back_and_for_no_job_that_is_not_there(void **state)
{
    (void)state;
    answers(503, "{\"detail\": \"the store is away\"}");
    answers(200, "{\"state\": \"succeeded\"}");
    run(command_watch, ID);
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.err, "");
    service_close(state);
    assert_int_equal(service_open(state), 0);
    answers(404, "{\"detail\": \"there is no such job\"}");
    run(command_watch, ID);
    assert_int_equal(ran.status, 1);
    assert_said(ran.err, "there is no such job");
    assert_int_equal(service.n_asked, 1);
}

/* ---- catalogue and link ---------------------------------------------------------------------- */

static void the_catalogue_is_listed_with_its_parameters(void **state)
{
    (void)state;
    answers(200,
            "{\"strategies\": [{\"name\": \"sync\", \"help\": \"all together\", "
            "\"parameters\": [{\"name\": \"k\", \"type\": \"int\", \"help\": \"steps\", "
            "\"default\": 4}, {\"name\": \"n\", \"type\": \"int\", \"help\": \"pushes\", "
            "\"required\": true}]}], \"models\": [{\"name\": \"mlp\", \"parameters\": 101}, "
            "\"other\"]}");
    run(command_catalog, "");
    assert_int_equal(ran.status, 0);
    assert_said(ran.out, "strategies\n  sync             all together\n");
    assert_said(ran.out, "      k                int              steps (default 4)\n");
    assert_said(ran.out, "      n                int              pushes (required)\n");
    assert_said(ran.out, "models\n  mlp              101 parameters\n  other\n");
}

static void a_link_is_asked_for_and_printed(void **state)
{
    (void)state;
    answers(201, "{\"url\": \"http://h/#token=1\"}");
    run(command_link, "");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "POST /api/v1/link");
    assert_string_equal(ran.out, "http://h/#token=1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVICE(submit_sends_the_file_and_prints_the_id),
        WITH_A_SERVICE(a_dry_run_prints_the_answer_and_submits_nothing),
        WITH_A_SERVICE(a_file_that_is_no_job_is_not_sent),
        WITH_A_SERVICE(submit_and_watch_ends_as_the_job_does),
        WITH_A_SERVICE(a_refused_job_is_not_watched),
        WITH_A_SERVICE(jobs_are_listed_page_by_page),
        WITH_A_SERVICE(no_more_jobs_are_listed_than_were_asked_for),
        WITH_A_SERVICE(what_is_no_state_is_not_asked_for),
        WITH_A_SERVICE(nodes_are_listed_with_their_speed),
        WITH_A_SERVICE(json_is_printed_as_it_came),
        WITH_A_SERVICE(a_job_is_cancelled_paused_and_resumed_by_its_id),
        WITH_A_SERVICE(what_can_be_no_id_never_becomes_a_path),
        WITH_A_SERVICE(a_job_is_shown_with_its_figures_workers_and_error),
        WITH_A_SERVICE(a_queued_job_says_what_it_waits_for),
        WITH_A_SERVICE(what_a_terminal_obeys_is_printed_as_its_number),
        WITH_A_SERVICE(it_means_the_same_in_json),
        WITH_A_SERVICE(so_is_what_a_refusal_says),
        WITH_A_SERVICE(watch_prints_each_tenth_until_the_job_has_succeeded),
        WITH_A_SERVICE(watch_says_why_a_job_failed),
        WITH_A_SERVICE(watch_waits_for_a_service_that_comes_back_and_for_no_job_that_is_not_there),
        WITH_A_SERVICE(the_catalogue_is_listed_with_its_parameters),
        WITH_A_SERVICE(a_link_is_asked_for_and_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
