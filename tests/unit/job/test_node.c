/* The worker's probe of devices becomes part of nodes' documents (job/node/node.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/node/node.h"

static const struct node_host here = {"host", 4, 1 << 30};

static json_t *a_node(const char *text)
{
    struct err e = {0};
    json_t *node = node_parse("--node", text, &here, &e);
    assert_non_null(node);
    return node;
}

static void what_was_probed_is_in_the_nodes_document(void **state)
{
    json_t *node = a_node("n=auto");
    struct probe p = {.device = "cpu:3",
                      .description = "a CPU",
                      .memory_bytes = 5000,
                      .threads = 3,
                      .precisions = json_pack("[s,s]", "fp32", "bf16")};
    (void)state;
    node_take_probe(node, &p);
    assert_string_equal(node_device(node), "cpu:3");
    assert_int_equal(node_threads(node), 3);
    assert_int_equal(json_integer_value(json_object_get(node, "memory_bytes")), 5000);
    assert_string_equal(json_string_value(json_object_get(node, "description")), "a CPU");
    assert_int_equal(json_integer_value(json_object_get(node, "quantum")), 4);
    assert_true(node_offers(node, "bf16"));
    assert_false(node_offers(node, "tf32"));
    probe_release(&p);
    json_decref(node);
}

static void precisions_of_the_host_are_those_of_its_cpus_alone(void **state)
{
    json_t *precisions = json_pack("[s]", "bf16");
    json_t *nodes = json_pack("[o,o]", a_node("g=cuda:0"), a_node("c=cpu:2")),
           *gpus = json_pack("[o]", a_node("g=cuda:0"));
    (void)state;
    assert_true(node_any_cpu(nodes));
    assert_false(node_any_cpu(gpus));
    node_take_precisions(nodes, precisions);
    assert_null(json_object_get(json_array_get(nodes, 0), "precisions"));
    assert_true(json_equal(json_object_get(json_array_get(nodes, 1), "precisions"), precisions));
    node_take_precisions(nodes, NULL);
    assert_true(json_equal(json_object_get(json_array_get(nodes, 1), "precisions"), precisions));
    json_decref(nodes);
    json_decref(gpus);
    json_decref(precisions);
}

static void a_named_interpreter_is_told_and_the_usual_one_is_not(void **state)
{
    json_t *node = a_node("n=cpu:1"), *usual, *named;
    (void)state;
    usual = json_pack("[{s:s, s:{s:s}}]", "path", "python3", "packages", "python3", "3.11");
    named = json_pack("[{s:s, s:{s:s}}]", "path", "/srv/python", "packages", "torch", "2.1");
    node_set_interpreters(node, NULL);
    assert_true(node_python(node, "python3").asked);
    node_set_interpreters(node, usual);
    assert_false(node_python(node, "python3").asked);
    assert_null(node_interpreter(node, 0));
    node_set_interpreters(node, named);
    assert_string_equal(node_interpreter(node, 0), "/srv/python");
    assert_null(node_interpreter(node, 1));
    assert_non_null(json_object_get(node_python(node, "/srv/python").packages, "torch"));
    assert_true(node_python(node, "/usr/bin/python3").missing);
    json_decref(usual);
    json_decref(named);
    json_decref(node);
}

static void failures_are_those_that_the_store_counted(void **state)
{
    json_t *node = a_node("n=cpu:1");
    (void)state;
    assert_int_equal(node_failures(node), 0);
    json_object_set_new(node, "failures", json_integer(2));
    assert_int_equal(node_failures(node), 2);
    json_decref(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_probed_is_in_the_nodes_document),
        cmocka_unit_test(precisions_of_the_host_are_those_of_its_cpus_alone),
        cmocka_unit_test(a_named_interpreter_is_told_and_the_usual_one_is_not),
        cmocka_unit_test(failures_are_those_that_the_store_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
