/* `evenstep nodes NAME` (cli/nodes/nodes.c): shows everything that a node reports. */
#include "tests/unit/cli/fixture.h"

static void a_node_is_shown_with_every_value_on_a_line(void **state)
{
    (void)state;
    answers(200,
            "{\"name\": \"n 1\", \"job\": null, \"precisions\": [\"fp32\", \"bf16\"], "
            "\"labels\": {}, \"gone\": [], \"slowdown\": 1.5, "
            "\"versions\": {\"evenstep\": \"1\", \"mpi\": \"\"}, "
            "\"interpreters\": [{\"path\": \"/usr/bin/python3\"}]}");
    run("nodes", "n1");
    assert_int_equal(ran.status, 0);
    assert_asked(0, "GET /api/v1/nodes/n1");
    assert_string_equal(ran.out,
                        "name                 n 1\n"
                        "job                  -\n"
                        "precisions           fp32, bf16\n"
                        "labels               -\n"
                        "gone                 -\n"
                        "slowdown             1.5\n"
                        "versions.evenstep    1\n"
                        "versions.mpi         -\n"
                        "interpreters.0.path  /usr/bin/python3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_SERVICE(a_node_is_shown_with_every_value_on_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
