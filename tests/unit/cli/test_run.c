/* `evenstep run` against a service that the test plays: its requests, its output, and its exit
 * status.
 */
#include "tests/unit/cli/fixture.h"

#include <sys/stat.h>

#define ID "0123456789abcdef"
#define UPLOADED answers(201, "{\"digest\": \"abcd\", \"files\": 1, \"bytes\": 9}")
#define SUBMITTED answers(201, "{\"id\": \"" ID "\"}")
#define NO_LINK answers(403, "{\"detail\": \"admins only\"}")

static char dir[] = "/tmp/evenstep-test-XXXXXX";

static void write_at(const char *name, const char *text, mode_t mode)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(proc_write_file(path, text, strlen(text), mode, NULL), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int open_all(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    write_at("train.py", "import evenstep\n", 0644);
    return service_open(state);
}

static int close_all(void **state)
{
    proc_remove_tree(dir, NULL);
    return service_close(state);
}

/* $ in the arguments is the folder. */
static void run_command(const char *arguments)
{
    char words[1000] = "";
    size_t n = 0;
    for (const char *p = arguments; *p; p++) {
        n += (size_t)snprintf(words + n, sizeof words - n, *p == '$' ? "%s" : "%.1s",
                              *p == '$' ? dir : p);
    }
    run("run", words);
}

/* The spec that was submitted: the body of the i-th request. */
static json_t *sent(int i)
{
    const char *body = strstr(service.asked[i], "\r\n\r\n");
    json_t *j = body ? json_loads(body + 4, 0, NULL) : NULL;
    assert_non_null(j);
    return j;
}

static void assert_sent(int i, const char *expected)
{
    json_t *j = sent(i), *wanted = json_loads(expected, 0, NULL);
    if (!json_equal(j, wanted)) {
        fail_msg("sent %s, expected %s", strstr(service.asked[i], "\r\n\r\n") + 4, expected);
    }
    json_decref(j);
    json_decref(wanted);
}

/* ---- the way of a job ------------------------------------------------------------------------ */

static void a_program_is_uploaded_submitted_and_followed_to_its_end(void **state)
{
    (void)state;
    UPLOADED;
    SUBMITTED;
    NO_LINK;
    answers(200, "{\"state\": \"succeeded\", \"progress\": {\"fraction\": 1}}");
    answers(200,
            "ts=1 level=info mod=program rank=0 msg=\"says\" line=\"loss \\\"1\\\"\"\n"
            "ts=2 level=info mod=trainer msg=\"other\" line=\"not the program\"\n");
    run_command(
        "--workers 2 --strategy dbs-sgd --set /epochs=3 --set /batching/policy=equal "
        "$/train.py --lr 0.1 --workers 9");
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out, ID "\n");
    assert_asked(0, "POST /api/v1/programs");
    assert_said(service.asked[0], "Content-Type: application/x-tar\r\n");
    assert_asked(1, "POST /api/v1/jobs");
    assert_sent(1,
                "{\"name\": \"train\", \"workers\": 2, \"strategy\": {\"type\": \"dbs-sgd\"}, "
                "\"epochs\": 3, \"batching\": {\"policy\": \"equal\"}, \"program\": "
                "{\"digest\": \"abcd\", \"command\": [\"python3\", \"train.py\"], "
                "\"args\": [\"--lr\", \"0.1\", \"--workers\", \"9\"]}}");
    assert_asked(3, "GET /api/v1/jobs/" ID);
    assert_asked(4, "GET /api/v1/jobs/" ID "/logs?rank=0");
    assert_said(ran.err, "packed 1 file of ");
    assert_said(ran.err, "/#/jobs/" ID "\n");
    assert_said(ran.err, "\nloss \"1\"\n");
    assert_null(strstr(ran.err, "not the program"));
    assert_said(ran.err, "succeeded");
}

static void a_job_that_is_left_alone_is_not_followed(void **state)
{
    (void)state;
    UPLOADED;
    SUBMITTED;
    answers(201, "{\"url\": \"http://h/#token=1\"}");
    run_command("--detach --name mine --python /opt/py/bin/python $/train.py");
    assert_int_equal(ran.status, 0);
    assert_int_equal(service.n_asked, 3);
    assert_sent(1,
                "{\"name\": \"mine\", \"workers\": 1, \"program\": {\"digest\": \"abcd\", "
                "\"command\": [\"/opt/py/bin/python\", \"train.py\"], \"args\": []}}");
    assert_said(ran.err, "to sign in: http://h/#token=1\n");
}

static void an_executable_file_runs_itself_in_the_folder_that_is_named(void **state)
{
    char path[200];
    (void)state;
    snprintf(path, sizeof path, "%s/bin", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    write_at("bin/train", "#!/bin/sh\n", 0755);
    UPLOADED;
    SUBMITTED;
    NO_LINK;
    run_command("--detach --folder $ $/bin/train");
    assert_int_equal(ran.status, 0);
    assert_sent(1,
                "{\"name\": \"train\", \"workers\": 1, \"program\": {\"digest\": \"abcd\", "
                "\"command\": [\"./bin/train\"], \"args\": []}}");
}

static void a_program_for_ddp_is_started_with_its_process_group(void **state)
{
    (void)state;
    UPLOADED;
    SUBMITTED;
    NO_LINK;
    run_command("--detach --ddp --workers 2 $/train.py --lr 0.1");
    assert_int_equal(ran.status, 0);
    assert_sent(1,
                "{\"name\": \"train\", \"workers\": 2, \"batching\": {\"policy\": \"equal\"}, "
                "\"program\": {\"digest\": \"abcd\", \"command\": [\"python3\", \"-m\", "
                "\"evenstep.ddp\", \"train.py\"], \"args\": [\"--lr\", \"0.1\"]}}");
}

static void the_jobs_end_is_the_exit_status(void **state)
{
    static const struct {
        const char *job, *said;
        int status;
    } cases[] = {
        {"{\"state\": \"failed\", \"error\": {\"message\": \"rank 1 ended with exit code 3; its "
         "last lines: oh\"}}",
         "evenstep: the job failed: rank 1 ended with exit code 3; its last lines: oh\n", 1},
        {"{\"state\": \"cancelled\"}", "cancelled", 4},
        {"{\"state\": \"failed\", \"error\": {\"message\": \"oh\", \"program\": {\"exception\": "
         "\"FileNotFoundError: [Errno 2] No such file or directory: 'train.py'\"}}}",
         "evenstep: the job failed: oh\n  'train.py' is here, and was not sent: ", 1},
        {"{\"state\": \"failed\", \"error\": {\"message\": \"oh\", \"program\": {\"exception\": "
         "\"FileNotFoundError: [Errno 2] No such file or directory: 'no.pt'\"}}}",
         "evenstep: the job failed: oh\n", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i > 0) { /* a service of its own for each */
            service_close(state);
            service_open(state);
        }
        UPLOADED;
        SUBMITTED;
        NO_LINK;
        answers(200, cases[i].job);
        answers(200, "");
        run_command("$/train.py");
        assert_int_equal(ran.status, cases[i].status);
        assert_said(ran.err, cases[i].said);
        assert_int_equal(i == 2, strstr(ran.err, "was not sent") != NULL);
        assert_string_equal(ran.out, ID "\n");
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void a_service_that_runs_no_programs_says_so(void **state)
{
    (void)state;
    answers(403,
            "{\"detail\": \"this service runs no programs of users\", "
            "\"hint\": \"serve --allow-programs would allow it\"}");
    run_command("$/train.py");
    assert_int_equal(ran.status, 7);
    assert_string_equal(ran.out, "");
    assert_said(ran.err,
                "evenstep: this service runs no programs of users\n  serve "
                "--allow-programs would allow it\n");
    assert_int_equal(service.n_asked, 1);
}

static void a_job_that_is_refused_lists_its_problems(void **state)
{
    (void)state;
    UPLOADED;
    answers(422,
            "{\"detail\": \"1 mistake\", \"errors\": [{\"pointer\": \"/strategy/type\", "
            "\"message\": \"there is no 'snyc'\"}]}");
    run_command("--set /strategy/type=snyc $/train.py");
    assert_int_equal(ran.status, 7);
    assert_string_equal(ran.out, "");
    assert_said(ran.err, "  /strategy/type: there is no 'snyc'\n");
}

static void what_cannot_be_run_is_not_sent(void **state)
{
    static const struct {
        const char *arguments, *said;
    } cases[] = {
        {"", "usage: evenstep run [OPTIONS] FILE"},
        {"$/none.py", "cannot find the program"},
        {"$", "is a folder: name the file to run in it"},
        {"$/notes.txt", "does not end in .py and is not executable"},
        {"$/book.ipynb", "jupyter nbconvert --to script makes a program of it"},
        {"--folder /usr $/train.py", "is not in the folder '/usr'"},
        {"--set seed=1 $/train.py", "--set: 'seed' is not a JSON pointer"},
        {"--set /seed $/train.py", "--set '/seed': expected POINTER=VALUE"},
        {"--set /name/x=1 $/train.py", "'/name/x' leads into something that is not an object"},
        {"--detach --output /tmp $/train.py", "--output waits for the job's end"},
        {"--workers 0 $/train.py", "--workers '0': expected a number from 1 to 1024"},
        {"--wrokers 2 $/train.py", "did you mean '--workers'?"},
        {"--url http://h:x $/train.py", "'http://h:x' is not an address"},
        {"--token-file $/none $/train.py", "/none': No such file"},
        {"$/plain/train.py", "no file that would go to the nodes calls evenstep"},
    };
    char path[200];
    (void)state;
    write_at("notes.txt", "x", 0644);
    write_at("book.ipynb", "{}", 0644);
    snprintf(path, sizeof path, "%s/plain", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    write_at("plain/train.py", "print(1)\n", 0644);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        service_close(state);
        service_open(state);
        run_command(cases[i].arguments);
        assert_said(ran.err, cases[i].said);
        assert_int_equal(ran.status, 2);
        assert_int_equal(service.n_asked, 0);
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static void artifacts_come_into_the_folder(void **state)
{
    char path[200];
    (void)state;
    UPLOADED;
    SUBMITTED;
    NO_LINK;
    answers(200, "{\"state\": \"succeeded\"}");
    answers(200, "");
    answers(200, "{\"artifacts\": [{\"name\": \"a b.pt\"}, {\"name\": \"plots/1/b c.png\"}]}");
    answers(200, "the model");
    answers(200, "a plot");
    run_command("--output $/out/new $/train.py");
    assert_int_equal(ran.status, 0);
    assert_asked(6, "GET /api/v1/jobs/" ID "/artifacts/a%20b.pt");
    assert_asked(7, "GET /api/v1/jobs/" ID "/artifacts/plots/1/b%20c.png");
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/out/new/%s", dir, i ? "plots/1/b c.png" : "a b.pt");
        char *text = proc_read_file(path, 1000, NULL, NULL);
        assert_string_equal(text, i ? "a plot" : "the model");
        free(text);
    }
}

static void artifacts_that_cannot_be_had_are_told_by_the_status(void **state)
{
    static const char *const names[] = {
        "../../etc/passwd", "plots/../../passwd", "/etc/passwd", "plots//a", "plots/", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char listed[200], said[200];
        service_open(state);
        UPLOADED;
        SUBMITTED;
        NO_LINK;
        answers(200, "{\"state\": \"succeeded\"}");
        answers(200, "");
        snprintf(listed, sizeof listed, "{\"artifacts\": [{\"name\": \"%s\"}]}", names[i]);
        answers(200, listed);
        run_command("--output $/out $/train.py");
        assert_int_equal(ran.status, 5);
        snprintf(said, sizeof said, "an artifact cannot be named '%s'", names[i]);
        assert_said(ran.err, said);
    }
}

#define WITH_ALL(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ALL(a_program_is_uploaded_submitted_and_followed_to_its_end),
        WITH_ALL(a_job_that_is_left_alone_is_not_followed),
        WITH_ALL(an_executable_file_runs_itself_in_the_folder_that_is_named),
        WITH_ALL(a_program_for_ddp_is_started_with_its_process_group),
        WITH_ALL(the_jobs_end_is_the_exit_status),
        WITH_ALL(a_service_that_runs_no_programs_says_so),
        WITH_ALL(a_job_that_is_refused_lists_its_problems),
        WITH_ALL(what_cannot_be_run_is_not_sent),
        WITH_ALL(artifacts_come_into_the_folder),
        WITH_ALL(artifacts_that_cannot_be_had_are_told_by_the_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
