/* `evenstep download`: where it puts a job's files. Their names come from a service, which may be
 * hostile: no name leads out of the folder.
 */
#include "tests/unit/cli/fixture.h"

#define ID "0123456789abcdef"
#define ARTIFACTS "/api/v1/jobs/" ID "/artifacts"

static char folder[] = "/tmp/evenstep-test-XXXXXX", output[64], path[400];

static int begin(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(folder)) {
        return -1;
    }
    snprintf(output, sizeof output, "%s/to", folder);
    return service_open(state);
}

static int end(void **state)
{
    proc_remove_tree(folder, NULL);
    return service_close(state);
}

static void download(const char *names)
{
    char arguments[1000];
    snprintf(arguments, sizeof arguments, "--output %s " ID "%s", output, names);
    run("download", arguments);
}

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", output, name);
    return path;
}

static void assert_file(const char *name, const char *content)
{
    char *text = proc_read_file(in_folder(name), 1000, NULL, NULL);
    assert_non_null(text);
    assert_string_equal(text, content);
    free(text);
}

static void all_files_are_fetched_with_their_folders(void **state)
{
    (void)state;
    answers(200, "{\"artifacts\": [{\"name\": \"model.safetensors\"}, {\"name\": \"a/b c.txt\"}]}");
    answers(200, "a model");
    answers(200, "b");
    download("");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET " ARTIFACTS);
    assert_asked(1, "GET " ARTIFACTS "/model.safetensors");
    assert_asked(2, "GET " ARTIFACTS "/a/b%20c.txt");
    assert_file("model.safetensors", "a model");
    assert_file("a/b c.txt", "b");
    assert_said(ran.out, in_folder("model.safetensors"));
}

static void a_name_that_leaves_the_folder_is_not_asked_for(void **state)
{
    static const char *const names[] = {
        "../above", "/etc/above", "a/../../above", "a/..", ".bashrc", "a//b", "a/", "a/.b"};
    char listed[100];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        service_close(state);
        assert_int_equal(service_open(state), 0);
        snprintf(listed, sizeof listed, "{\"artifacts\": [{\"name\": \"%s\"}]}", names[i]);
        answers(200, listed);
        answers(200, "text");
        download("");
        assert_int_equal(service.n_asked, 1);
        assert_int_equal(ran.status, 5);
        assert_said(ran.err, "an artifact cannot be named '");
    }
    assert_int_not_equal(access(in_folder("../above"), F_OK), 0);
}

static void a_name_is_at_most_255_bytes_long(void **state)
{
    char names[300];
    (void)state;
    snprintf(names, sizeof names, " %0253d/b", 0);
    answers(200, "text");
    download(names);
    assert_int_equal(ran.status, 0);
    assert_file(names + 1, "text");
    service_close(state);
    assert_int_equal(service_open(state), 0);
    snprintf(names, sizeof names, " %0253d/bc", 0);
    answers(200, "text");
    download(names);
    assert_int_equal(service.n_asked, 0);
    assert_int_equal(ran.status, 5);
    assert_said(ran.err, "an artifact cannot be named '");
}

static void what_fails_on_the_way_leaves_no_file(void **state)
{
    (void)state;
    answers(404, "{\"detail\": \"there is no such artifact\"}");
    download(" model.safetensors");
    assert_true(ran.status != 0);
    assert_said(ran.err, "there is no such artifact");
    assert_int_not_equal(access(in_folder("model.safetensors"), F_OK), 0);
    assert_int_not_equal(access(in_folder("model.safetensors.part"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_files_are_fetched_with_their_folders, begin, end),
        cmocka_unit_test_setup_teardown(a_name_that_leaves_the_folder_is_not_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(a_name_is_at_most_255_bytes_long, begin, end),
        cmocka_unit_test_setup_teardown(what_fails_on_the_way_leaves_no_file, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
