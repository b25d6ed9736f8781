/* The commands (cli/commands.c, cli/jobs, cli/nodes, cli/service): their requests, what they print
 * of an answer, and their exit status.
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
    run("submit", arguments);
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

static const char dry_run[] =
    "{\"valid\": true, \"parameters\": 101, \"samples\": 2560, \"starts\": \"now\", \"nodes\": "
    "[{\"rank\": 0, \"node\": \"fast\", \"device\": \"cpu:1\", \"batch\": 48, "
    "\"memory_bytes\": 1572864}], \"warnings\": [{\"code\": "
    "\"batch_too_large\", \"pointer\": \"/batching/global_batch\", \"message\": \"it is slow\"}], "
    "\"prediction\": "
    "{\"approximate\": true, \"reason\": null, \"strategies\": [{\"strategy\": \"sync\", "
    "\"chosen\": true, \"step_seconds\": 0.0125, \"samples_per_second\": 5120, "
    "\"epoch_seconds\": 0.5, \"staleness\": {\"update_mean\": 0}, \"memory_bytes\": 2097152}]}}";

static void a_dry_run_is_a_table_and_submits_nothing(void **state)
{
    (void)state;
    write_spec("{}");
    answers(200, dry_run);
    run_submit("--dry-run --watch ");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "POST /api/v1/jobs?dryRun=true");
    assert_int_equal(service.n_asked, 1);
    assert_string_equal(ran.out,
                        "the job is valid: 101 parameters, 2560 training samples\n"
                        "it starts: now\n"
                        "  rank  node  device  minibatch   memory\n"
                        "     0  fast  cpu:1          48  1.5 MiB\n"
                        "\npredicted, approximately:\n"
                        "  strategy  step ms  samples/s  epoch  staleness   memory  chosen\n"
                        "  sync         12.5       5120  0.5 s          0  2.0 MiB  yes\n"
                        "warning: /batching/global_batch: it is slow\n");
}

static void a_dry_run_is_json_for_programs(void **state)
{
    (void)state;
    write_spec("{}");
    answers(200, "{\"starts\": \"now\"}");
    run_submit("--dry-run --json ");
    json_t *j = json_loads(ran.out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(j, "starts")), "now");
    json_decref(j);
}

static void a_file_that_is_no_job_is_not_sent(void **state)
{
    (void)state;
    write_spec("{\"name\":");
    run_submit("");
    assert_int_equal(ran.status, 2);
    assert_said(ran.err, "cannot read the job");
    run("submit", "/nowhere/job.json");
    assert_int_equal(ran.status, 2);
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
    assert_int_equal(ran.status, 4);
}

static void a_refused_job_is_not_watched(void **state)
{
    (void)state;
    write_spec("{}");
    answers(422, "{\"detail\": \"no\"}");
    run_submit("--watch ");
    assert_int_equal(ran.status, 7);
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
    run("jobs", "--state running --limit 150");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET /api/v1/jobs?limit=100&state=running");
    assert_asked(1, "GET /api/v1/jobs?limit=100&state=running&cursor=c1");
    assert_said(ran.out,
                "id  name    state       done  accuracy  tags  created\n"
                "a1  first   running  25.00 %   50.00 %        -\n"
                "a2  second  queued         -         -        -\n");
}

static void no_more_jobs_are_listed_than_were_asked_for(void **state)
{
    (void)state;
    answers(200, "{\"jobs\": [{\"id\": \"a1\"}], \"next\": \"c1\"}");
    run("jobs", "--limit 1");
    assert_asked(0, "GET /api/v1/jobs?limit=1");
    assert_int_equal(service.n_asked, 1);
}

static void a_text_is_sent_as_a_value_and_never_as_more(void **state)
{
    (void)state;
    answers(422, "{\"detail\": \"no\"}");
    run("jobs", "--search a&b");
    assert_asked(0, "GET /api/v1/jobs?limit=100&q=a%26b");
    assert_int_equal(ran.status, 7);
}

static void all_pages_are_one_document(void **state)
{
    (void)state;
    answers(200, "{\"jobs\": [{\"id\": \"a1\"}], \"next\": \"c1\"}");
    answers(200, "{\"jobs\": [{\"id\": \"a2\"}], \"next\": null}");
    run("jobs", "--json");
    json_t *j = json_loads(ran.out, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(j, "jobs")), 2);
    assert_true(json_is_null(json_object_get(j, "next")));
    json_decref(j);
}

static void ids_alone_are_for_shells(void **state)
{
    (void)state;
    answers(200, "{\"jobs\": [{\"id\": \"a1\"}, {\"id\": \"a2\"}], \"next\": null}");
    run("jobs", "-q");
    assert_string_equal(ran.out, "a1\na2\n");
}

static void nodes_are_listed_with_their_speed(void **state)
{
    (void)state;
    answers(200,
            "{\"nodes\": [{\"name\": \"n1\", \"host\": \"h\", \"device\": \"cpu:1\", "
            "\"slowdown\": 4, \"state\": \"busy\", \"job\": \"" ID "\"}, {\"name\": \"n2\"}]}");
    run("nodes", "");
    assert_said(ran.out,
                "node  host  device  memory  slowdown  state  job\n"
                "n1    h     cpu:1        -         4  busy   " ID
                "\n"
                "n2    -     -            -         -  -      -\n");
}

static void json_is_printed_as_it_came(void **state)
{
    (void)state;
    answers(200, "{\"nodes\":[],\"more\":1}");
    run("nodes", "--json");
    assert_int_equal(ran.status, 0);
    json_t *j = json_loads(ran.out, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(j, "more")), 1);
    json_decref(j);
}

/* ---- one job --------------------------------------------------------------------------------- */

static void a_job_is_cancelled_paused_and_resumed_by_its_id(void **state)
{
    static const struct {
        const char *command, *line;
    } cases[] = {{"cancel", "POST /api/v1/jobs/" ID "/cancel"},
                 {"pause", "POST /api/v1/jobs/" ID "/pause"},
                 {"resume", "POST /api/v1/jobs/" ID "/resume"}};
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

static void a_word_is_asked_for_and_never_becomes_a_path(void **state)
{
    char id[129];
    (void)state;
    answers(200, "{\"jobs\": [], \"next\": null}");
    answers(200, "{\"jobs\": [], \"next\": null}");
    run("show", "../a?b&c#%2f");
    assert_asked(0, "GET /api/v1/jobs?limit=500&fields=name,state&q=..%2Fa%3Fb%26c%23%252f");
    assert_int_equal(ran.status, 6);
    assert_said(ran.err, "there is no job '../a?b&c#%2f'\n  `evenstep jobs` lists them\n");
    memset(id, 'a', 128);
    id[128] = 0;
    run("show", id);
    assert_int_equal(ran.status, 2);
    assert_said(ran.err, "is neither the id nor the name of a job");
}

#define TWO_JOBS                                                                               \
    "{\"jobs\": [{\"id\": \"3f00000000000000\", \"name\": \"night\", \"state\": \"failed\"}, " \
    "{\"id\": \"3fa0000000000000\", \"name\": \"night\", \"state\": \"running\"}, "            \
    "{\"id\": \"4000000000000000\", \"name\": \"a-night-3f\"}], \"next\": null}"

static void the_beginning_of_an_id_or_a_name_is_enough(void **state)
{
    static const char *const words[] = {"3fa", "a-night-3f"};
    static const char *const ids[] = {"3fa0000000000000", "4000000000000000"};
    char line[100];
    for (int i = 0; i < 2; i++) {
        service_close(state);
        assert_int_equal(service_open(state), 0);
        answers(200, TWO_JOBS);
        answers(200, "{\"id\": \"x\", \"state\": \"so\"}");
        run("cancel", words[i]);
        assert_int_equal(ran.status, 0);
        snprintf(line, sizeof line, "POST /api/v1/jobs/%s/cancel", ids[i]);
        assert_asked(1, line);
    }
}

static void an_ambiguous_word_lists_the_jobs_and_asks_for_none(void **state)
{
    (void)state;
    answers(200, TWO_JOBS);
    run("cancel", "night");
    assert_int_equal(ran.status, 2);
    assert_int_equal(service.n_asked, 1);
    assert_string_equal(ran.err,
                        "evenstep: 'night' may be one of 2 jobs\n"
                        "  3f00000000000000  night  failed\n"
                        "  3fa0000000000000  night  running\n");
}

/* Fails as wrong usage, before it asks the service. */
static void a_value_that_an_option_cannot_have_is_told_with_those_it_can(void **state)
{
    static const struct {
        const char *command, *arguments, *said;
    } wrong[] = {
        {"jobs", "--state nope",
         "evenstep: --state: there is no 'nope'; expected queued, launching, running, pausing, "
         "paused, cancelling, cancelled, succeeded or failed\n"},
        {"jobs", "--state failed,runing",
         "evenstep: --state: there is no 'runing'; expected queued, launching, running, pausing, "
         "paused, cancelling, cancelled, succeeded or failed\n  did you mean 'running'?\n"},
        {"accounting", "--by nope",
         "evenstep: --by: there is no 'nope'; expected owner, job or day\n"},
        {"series", "--x nope " ID, "--x: there is no 'nope'; expected step, samples or time\n"},
        {"link", "--role nope", "expected viewer, operator, programs or admin\n"},
        {"webhooks", "--scope nope", "expected own or all\n"},
        {"jobs", "--strategy synk", "did you mean 'sync'?\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run(wrong[i].command, wrong[i].arguments);
        assert_int_equal(ran.status, 2);
        assert_said(ran.err, wrong[i].said);
    }
    assert_int_equal(service.n_asked, 0);
    service_close(state);
    assert_int_equal(service_open(state), 0);
    answers(200, "{\"jobs\": [], \"next\": null}");
    run("jobs", "--state failed,running");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET /api/v1/jobs?limit=100&state=failed%2Crunning");
}

static void a_slip_in_a_name_is_told_with_the_nearest(void **state)
{
    (void)state;
    answers(200, "{\"jobs\": [], \"next\": null}");
    answers(200, TWO_JOBS);
    run("show", "nihgt");
    assert_int_equal(ran.status, 6);
    assert_string_equal(ran.err, "evenstep: there is no job 'nihgt'\n  did you mean 'night'?\n");
}

static void epochs_that_nobody_knows_are_not_shown(void **state)
{
    (void)state;
    answers(200, "{\"id\": \"" ID
                 "\", \"name\": \"x\", \"state\": \"running\", \"attempt\": 1, "
                 "\"progress\": {\"epoch\": 1.5, \"epochs\": 0, \"step\": 60, \"samples\": 3840}}");
    run("show", ID);
    assert_said(ran.out, "  epoch 1.5, step 60, 3840 samples\n");
}

static void a_job_is_shown_with_its_figures_workers_and_error(void **state)
{
    (void)state;
    answers(200, "{\"id\": \"" ID
                 "\", \"name\": \"x\", \"state\": \"failed\", \"attempt\": 2, "
                 "\"started\": \"2026-01-02T03:04:05.000Z\", "
                 "\"finished\": \"2026-01-02T03:06:10.000Z\", \"seconds\": 42.5, "
                 "\"progress\": {\"epoch\": 1.5, \"epochs\": 3, \"step\": 60, \"samples\": 3840}, "
                 "\"metrics\": {\"train_loss\": 0.25, \"step_seconds\": 0.0125}, "
                 "\"staleness\": {\"p95\": 3}, \"error\": {\"message\": \"it burnt\"}, "
                 "\"workers\": [{\"rank\": 1, \"node\": \"n1\", \"device\": \"cpu:1\", "
                 "\"batch\": 32, \"samples_per_second\": 100, \"compute_seconds\": 0.002, "
                 "\"wait_seconds\": 0.001, \"staleness\": {\"mean\": 1.5}, \"state\": \"lost\"}]}");
    run("show", ID);
    assert_int_equal(ran.status, 0);
    assert_said(ran.out, ID "  x  failed, attempt 2\n");
    assert_said(ran.out, "  epoch 1.5 of 3, step 60, 3840 samples\n");
    assert_said(ran.out, "  train loss 0.25, test loss -, test accuracy -\n");
    assert_said(ran.out, "  - samples/s, 12.5 ms per step\n");
    assert_said(ran.out, "staleness: - over updates, - over nodes, p95 3, at most -\n");
    assert_said(ran.out, "  took 2:05, trained for 42.5 s\n");
    assert_said(ran.out, "  error: it burnt\n");
    assert_said(ran.out,
                "  rank  node  device  minibatch  samples/s  load ms  compute ms  exchange ms  "
                "wait ms  staleness  state\n"
                "     1  n1    cpu:1          32        100        -         2.0            -  "
                "    1.0        1.5  lost\n");
}

static void a_queued_job_says_what_it_waits_for(void **state)
{
    (void)state;
    answers(200, "{\"id\": \"" ID "\", \"state\": \"queued\", \"waiting\": \"it asks for 3\"}");
    run("show", ID);
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
    run("show", ID);
    assert_said(ran.out, "a\\u009b31mb");
    assert_said(ran.out, "error: \\u202eno\n");
    assert_null(strstr(ran.out, "\xc2\x9b"));
}

static void it_means_the_same_in_json(void **state)
{
    (void)state;
    answers(200, UNSAFE);
    run("show", ID " --json");
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
    run("show", ID);
    assert_said(ran.err, "no '\\u009b2J'");
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
    run("catalog", "");
    assert_int_equal(ran.status, 0);
    assert_said(ran.out, "strategies\n  sync             all together\n");
    assert_said(ran.out, "      k  int  steps (default: 4)\n");
    assert_said(ran.out, "      n  int  pushes (required)\n");
    assert_said(ran.out, "models\n  mlp              101 parameters\n  other\n");
}

static void a_link_is_asked_for_and_printed(void **state)
{
    (void)state;
    answers(201, "{\"url\": \"http://h/#token=1\"}");
    run("link", "");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "POST /api/v1/link");
    assert_string_equal(ran.out, "http://h/#token=1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVICE(submit_sends_the_file_and_prints_the_id),
        WITH_A_SERVICE(a_dry_run_is_a_table_and_submits_nothing),
        WITH_A_SERVICE(a_dry_run_is_json_for_programs),
        WITH_A_SERVICE(a_file_that_is_no_job_is_not_sent),
        WITH_A_SERVICE(submit_and_watch_ends_as_the_job_does),
        WITH_A_SERVICE(a_refused_job_is_not_watched),
        WITH_A_SERVICE(jobs_are_listed_page_by_page),
        WITH_A_SERVICE(no_more_jobs_are_listed_than_were_asked_for),
        WITH_A_SERVICE(a_text_is_sent_as_a_value_and_never_as_more),
        WITH_A_SERVICE(all_pages_are_one_document),
        WITH_A_SERVICE(ids_alone_are_for_shells),
        WITH_A_SERVICE(nodes_are_listed_with_their_speed),
        WITH_A_SERVICE(json_is_printed_as_it_came),
        WITH_A_SERVICE(a_job_is_cancelled_paused_and_resumed_by_its_id),
        WITH_A_SERVICE(a_word_is_asked_for_and_never_becomes_a_path),
        WITH_A_SERVICE(the_beginning_of_an_id_or_a_name_is_enough),
        WITH_A_SERVICE(an_ambiguous_word_lists_the_jobs_and_asks_for_none),
        WITH_A_SERVICE(a_value_that_an_option_cannot_have_is_told_with_those_it_can),
        WITH_A_SERVICE(a_slip_in_a_name_is_told_with_the_nearest),
        WITH_A_SERVICE(epochs_that_nobody_knows_are_not_shown),
        WITH_A_SERVICE(a_job_is_shown_with_its_figures_workers_and_error),
        WITH_A_SERVICE(a_queued_job_says_what_it_waits_for),
        WITH_A_SERVICE(what_a_terminal_obeys_is_printed_as_its_number),
        WITH_A_SERVICE(it_means_the_same_in_json),
        WITH_A_SERVICE(so_is_what_a_refusal_says),
        WITH_A_SERVICE(the_catalogue_is_listed_with_its_parameters),
        WITH_A_SERVICE(a_link_is_asked_for_and_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
