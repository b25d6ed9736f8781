/* Placement: which nodes an attempt gets. Pure functions, without a store. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/config.h"
#include "coordinator/planning/needs.h"
#include "coordinator/planning/placement.h"
#include "job/node/node.h"

static json_t *nodes_of(const char *text)
{
    json_error_t why;
    json_t *j = json_loads(text, 0, &why);
    if (!j) {
        fail_msg("%s", why.text);
    }
    return j;
}

/* 4 nodes: two of equal speed, one slow, one on another host; one of the first two is busy. */
static json_t *some_nodes(void)
{
    return nodes_of(
        "[{\"name\": \"b\", \"host\": \"here\", \"device\": \"cpu:1\", \"threads\": 1, "
        "\"slowdown\": 1.0, \"state\": \"ready\", \"labels\": {\"gpu\": \"none\"}},"
        " {\"name\": \"a\", \"host\": \"here\", \"device\": \"cpu:1\", \"threads\": 1, "
        "\"slowdown\": 1.0, \"state\": \"ready\", \"labels\": {}},"
        " {\"name\": \"slow\", \"host\": \"here\", \"device\": \"cpu:1\", \"threads\": 1, "
        "\"slowdown\": 4.0, \"state\": \"ready\", \"labels\": {\"old\": \"yes\"}},"
        " {\"name\": \"far\", \"host\": \"there\", \"device\": \"cuda:0\", \"threads\": 1, "
        "\"slowdown\": 1.0, \"state\": \"busy\", \"job\": \"x\", \"labels\": {}}]");
}

static void names(const struct placement *p, char out[200])
{
    out[0] = 0;
    for (int i = 0; i < p->count; i++) {
        size_t n = strlen(out);
        snprintf(out + n, 200 - n, "%s%s", i ? " " : "", p->nodes[i].name);
    }
}

static void expect(const struct placement_ask *ask, const char *wanted)
{
    struct placement p;
    char got[200];
    if (!placement_find(&p, ask)) {
        snprintf(got, sizeof got, "waits: %s", p.waiting);
    } else {
        names(&p, got);
    }
    placement_release(&p);
    assert_string_equal(got, wanted);
}

static void the_fastest_come_first_and_equals_by_name(void **state)
{
    (void)state;
    json_t *nodes = some_nodes();
    struct jobspec spec = {.workers = 3};
    expect(&(struct placement_ask){.nodes = nodes, .spec = &spec}, "a b slow");
    spec.workers = 1;
    expect(&(struct placement_ask){.nodes = nodes, .spec = &spec}, "a");
    json_decref(nodes);
}

static void claims_are_ignored_where_only_the_possibility_is_asked_for(void **state)
{
    (void)state;
    json_t *nodes = some_nodes();
    struct jobspec spec = {.workers = 4};
    expect(&(struct placement_ask){.nodes = nodes, .spec = &spec, .ignore_claims = true},
           "far a b slow");
    expect(&(struct placement_ask){.nodes = nodes, .spec = &spec},
           "waits: it asks for 4 workers, and 3 nodes are free");
    json_decref(nodes);
}

static void a_restart_goes_on_with_as_few_as_the_spec_allows(void **state)
{
    (void)state;
    json_t *nodes = some_nodes(); /* 3 nodes can be reached from here */
    struct jobspec spec = {.workers = 4, .min_workers = 3};
    struct placement_ask ask = {.nodes = nodes, .spec = &spec, .local_host = "here", .attempt = 2};
    expect(&ask, "a b slow");
    ask.attempt = 1;
    expect(&ask, "waits: it asks for 4 workers, and there are 3 nodes");
    spec.min_workers = 4;
    ask.attempt = 2;
    expect(&ask, "waits: it asks for 4 workers, and there are 3 nodes");
    json_decref(nodes);
}

static void names_and_labels_choose(void **state)
{
    (void)state;
    json_t *nodes = some_nodes();
    struct jobspec spec = {.workers = 1, .n_nodes = 1};
    const char *wanted[] = {"slow", "old", "old=yes", "yes", NULL};
    for (int i = 0; wanted[i]; i++) {
        snprintf(spec.nodes[0], sizeof spec.nodes[0], "%s", wanted[i]);
        expect(&(struct placement_ask){.nodes = nodes, .spec = &spec}, "slow");
    }
    snprintf(spec.nodes[0], sizeof spec.nodes[0], "old=no");
    expect(&(struct placement_ask){.nodes = nodes, .spec = &spec},
           "waits: it asks for 1 worker, and there are 0 nodes that the spec names");
    snprintf(spec.nodes[0], sizeof spec.nodes[0], "slow");
    json_object_set_new(json_array_get(nodes, 2), "state", json_string("lost"));
    expect(&(struct placement_ask){.nodes = nodes, .spec = &spec},
           "waits: it asks for 1 worker, and the node that the spec names is lost, draining or "
           "disabled");
    json_decref(nodes);
}

static void a_host_that_cannot_be_reached_has_no_nodes(void **state)
{
    (void)state;
    json_t *nodes = some_nodes();
    struct jobspec spec = {.workers = 4};
    expect(
        &(struct placement_ask){
            .nodes = nodes, .spec = &spec, .local_host = "here", .ignore_claims = true},
        "waits: it asks for 4 workers, and there are 3 nodes");
    json_decref(nodes);
}

static void what_is_kept_for_others_is_not_taken(void **state)
{
    (void)state;
    json_t *nodes = some_nodes();
    struct names reserved = {0};
    names_add(&reserved, "a", 0);
    struct jobspec spec = {.workers = 1};
    expect(&(struct placement_ask){.nodes = nodes, .spec = &spec, .reserved = &reserved}, "b");
    names_release(&reserved);
    json_decref(nodes);
}

static void
a_restart_takes_fewer_only_where_nodes_are_lost_and_not_where_they_are_busy(void **state)
{
    (void)state;
    json_t *nodes = some_nodes();
    struct jobspec spec = {.workers = 4, .min_workers = 2};
    struct placement_ask ask = {.nodes = nodes, .spec = &spec, .attempt = 2};
    expect(&ask, "waits: it asks for 4 workers, and 3 nodes are free");
    json_object_set_new(json_array_get(nodes, 3), "state", json_string("lost"));
    expect(&ask, "a b slow");
    spec.min_workers = 1;
    expect(&ask, "a b slow");
    ask.attempt = 1;
    expect(&ask,
           "waits: it asks for 4 workers, and 1 of the 4 nodes is lost, draining or disabled");
    ask.attempt = 2;
    spec.min_workers = 4;
    expect(&ask,
           "waits: it asks for 4 workers, and 1 of the 4 nodes is lost, draining or disabled");
    json_decref(nodes);
}

static void only_nodes_that_are_worth_waiting_for_are_reserved(void **state)
{
    (void)state;
    json_t *nodes = some_nodes();
    struct names reserved = {0};
    struct jobspec spec = {.workers = 5};
    placement_reserve(&reserved, &(struct placement_ask){.nodes = nodes, .spec = &spec});
    assert_int_equal(reserved.count, 0);
    spec.workers = 4;
    placement_reserve(&reserved, &(struct placement_ask){.nodes = nodes, .spec = &spec});
    assert_int_equal(reserved.count, 4);
    names_release(&reserved);
    json_decref(nodes);
}

static void a_node_is_read_from_its_option(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *node = serve_config_node("fast-1=cpu:2,slowdown=1.5", "here", &e);
    assert_non_null(node);
    assert_string_equal(json_string_value(json_object_get(node, "device")), "cpu:2");
    assert_int_equal(json_integer_value(json_object_get(node, "threads")), 2);
    assert_true(json_number_value(json_object_get(node, "slowdown")) == 1.5);
    json_decref(node);
    const char *bad[] = {"fast",
                         "=cpu:1",
                         "a=",
                         "a=cpu",
                         "a=cpu:0",
                         "a=cpu:1x",
                         "a=tpu:1",
                         "a=cpu:1,slowdown=0.5",
                         "a=cpu:1,slowdown=",
                         "a=cpu:1,speed=2",
                         "a=cpu:1,slowdown=nan",
                         "a/b=cpu:1",
                         "a=cuda:-1",
                         "a=cpu:99999",
                         NULL};
    for (int i = 0; bad[i]; i++) {
        err_clear(&e);
        node = serve_config_node(bad[i], "here", &e);
        if (node || !strstr(e.message, "--local-node")) {
            fail_msg("%s was read", bad[i]);
        }
    }
}

static void a_precision_is_computed_where_it_is_offered(void **state)
{
    (void)state;
    json_t *nodes = nodes_of(
        "[{\"name\": \"c\", \"host\": \"here\", \"device\": \"cpu:1\", \"state\": \"ready\"},"
        " {\"name\": \"g\", \"host\": \"here\", \"device\": \"cuda:0\", \"state\": \"ready\"},"
        " {\"name\": \"old\", \"host\": \"here\", \"device\": \"cuda:1\", \"state\": \"ready\", "
        "\"precisions\": [\"fp32\", \"tf32\"]}]");
    struct jobspec spec = {.workers = 1, .precision = "bf16"};
    struct placement_ask ask = {.nodes = nodes, .local_host = "here", .spec = &spec, .attempt = 1};
    struct placement p;
    assert_int_equal(placement_find(&p, &ask), 1);
    assert_string_equal(p.nodes[0].name, "g");
    placement_release(&p);
    assert_null(placement_lacking(&ask));
    spec.workers = 2;
    assert_int_equal(placement_find(&p, &ask), 0);
    assert_non_null(strstr(p.waiting, "there is 1 node with precision bf16"));
    assert_string_equal(json_string_value(json_object_get(placement_lacking(&ask), "name")), "c");
    placement_release(&p);
    snprintf(spec.precision, sizeof spec.precision, "tf32");
    assert_int_equal(placement_find(&p, &ask), 1);
    placement_release(&p);
    snprintf(spec.precision, sizeof spec.precision, "fp32");
    spec.workers = 3;
    assert_int_equal(placement_find(&p, &ask), 1);
    placement_release(&p);
    assert_null(placement_lacking(&ask));
    json_decref(nodes);
}

static void emulated_nodes_that_ask_for_more_than_the_cores_have_are_noticed(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *nodes = json_array();
    json_array_append_new(nodes, serve_config_node("a=cpu:1", "here", &e));
    json_array_append_new(nodes, serve_config_node("b=cpu:1,slowdown=2.5", "here", &e));
    assert_true(fabs(serve_config_overload(nodes, 2) - 1.0) < 1e-12);
    json_array_append_new(nodes, serve_config_node("c=cpu:4,slowdown=2", "here", &e));
    assert_true(serve_config_overload(nodes, 2) > 2.4);
    json_decref(nodes);
}

static void a_program_gets_nodes_that_have_what_it_needs(void **state)
{
    (void)state;
    struct jobspec spec = {.workers = 1};
    char text[NEEDS_TEXT];
    json_t *nodes = nodes_of(
        "[{\"name\": \"old\", \"device\": \"cpu:4\", \"threads\": 4, \"state\": \"ready\", "
        "\"packages\": {\"python3\": \"3.7.1\", \"torch\": \"1.13\"}},"
        " {\"name\": \"bare\", \"device\": \"cpu:2\", \"threads\": 2, \"state\": \"ready\", "
        "\"packages\": {}},"
        " {\"name\": \"new\", \"device\": \"cpu:1\", \"threads\": 1, \"state\": \"ready\", "
        "\"packages\": {\"python3\": \"3.11\", \"torch\": \"2.1.0\"}}]");
    json_t *manifest = nodes_of("{\"needs\": {\"python3\": \"\", \"torch\": \"2.1\"}}");
    struct placement_ask ask = {.nodes = nodes, .spec = &spec, .attempt = 1, .manifest = manifest};
    expect(&ask, "new");
    assert_null(placement_lacking(&ask));
    spec.workers = 2;
    expect(&ask, "waits: it asks for 2 workers, and there is 1 node with python3 and torch 2.1");
    assert_string_equal(node_name(placement_lacking(&ask)), "old");
    assert_string_equal(needs_sentence(json_array_get(nodes, 0), manifest, text),
                        "the program needs torch 2.1, and node 'old' has torch 1.13");
    assert_string_equal(needs_sentence(json_array_get(nodes, 1), manifest, text),
                        "the program needs python3, and node 'bare' has none");
    json_object_del(json_array_get(nodes, 1), "packages"); /* it does not tell: it may have any */
    expect(&ask, "bare new");
    json_object_set_new(manifest, "device", json_string("cuda"));
    expect(&ask,
           "waits: it asks for 2 workers, and there are 0 nodes with the device cuda and "
           "python3 and torch 2.1");
    assert_string_equal(needs_sentence(json_array_get(nodes, 2), manifest, text),
                        "the program needs a device of the kind cuda, and node 'new' is cpu:1");
    json_object_set_new(manifest, "interpreter", json_string("/srv/bin/python"));
    assert_string_equal(needs_list(manifest, text),
                        " with the device cuda and /srv/bin/python and "
                        "python3 and torch 2.1");
    json_decref(manifest);
    json_decref(nodes);
}

static void a_program_gets_nodes_that_have_its_interpreter(void **state)
{
    (void)state;
    struct jobspec spec = {.workers = 1};
    char text[NEEDS_TEXT];
    json_t *nodes = nodes_of(
        "[{\"name\": \"a\", \"device\": \"cpu:4\", \"threads\": 4, \"state\": \"ready\", "
        "\"packages\": {\"python3\": \"3.12\", \"torch\": \"2.5\"},"
        "  \"interpreters\": [{\"path\": \"/srv/venv/bin/python\", "
        "\"packages\": {\"python3\": \"3.12\", \"torch\": \"2.5\"}, "
        "\"broken\": {\"jax\": \"ImportError('x')\"}},"
        "                     {\"path\": \"/srv/old/bin/python\", "
        "\"packages\": {\"python3\": \"3.9\"}}]},"
        " {\"name\": \"b\", \"device\": \"cpu:2\", \"threads\": 2, \"state\": \"ready\", "
        "\"asking\": true}]");
    json_t *a = json_array_get(nodes, 0), *b = json_array_get(nodes, 1);
    json_t *manifest =
        nodes_of("{\"interpreter\": \"/srv/venv/bin/python\", \"needs\": {\"torch\": \"2\"}}");
    struct placement_ask ask = {.nodes = nodes, .spec = &spec, .attempt = 1, .manifest = manifest};
    expect(&ask, "a");
    spec.workers = 2;
    expect(&ask,
           "waits: it asks for 2 workers, and 1 node with /srv/venv/bin/python and torch 2 is "
           "free; nodes are being asked which packages they have");
    assert_null(placement_lacking(&ask)); /* b may have it */
    json_object_del(b, "asking");
    expect(&ask, "a b"); /* without --python, the node may have any interpreter */
    json_object_set_new(manifest, "interpreter", json_string("/srv/old/bin/python"));
    assert_string_equal(needs_sentence(a, manifest, text),
                        "the program needs torch 2, and node 'a' has none");
    json_object_set_new(manifest, "interpreter", json_string("/opt/bin/python3"));
    assert_string_equal(needs_sentence(a, manifest, text),
                        "the program needs the interpreter /opt/bin/python3, and node 'a' has "
                        "/srv/venv/bin/python, /srv/old/bin/python");
    assert_string_equal(node_name(placement_lacking(&ask)), "a");
    json_object_del(manifest, "interpreter"); /* python3 is the node's first --python */
    json_object_set_new(manifest, "needs", json_pack("{s:s}", "jax", ""));
    assert_string_equal(needs_sentence(a, manifest, text),
                        "the program needs jax, and node 'a' cannot import its own: "
                        "ImportError('x')");
    json_decref(manifest);
    json_decref(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_come_first_and_equals_by_name),
        cmocka_unit_test(claims_are_ignored_where_only_the_possibility_is_asked_for),
        cmocka_unit_test(a_restart_goes_on_with_as_few_as_the_spec_allows),
        cmocka_unit_test(names_and_labels_choose),
        cmocka_unit_test(a_host_that_cannot_be_reached_has_no_nodes),
        cmocka_unit_test(what_is_kept_for_others_is_not_taken),
        cmocka_unit_test(
            a_restart_takes_fewer_only_where_nodes_are_lost_and_not_where_they_are_busy),
        cmocka_unit_test(only_nodes_that_are_worth_waiting_for_are_reserved),
        cmocka_unit_test(a_node_is_read_from_its_option),
        cmocka_unit_test(a_precision_is_computed_where_it_is_offered),
        cmocka_unit_test(emulated_nodes_that_ask_for_more_than_the_cores_have_are_noticed),
        cmocka_unit_test(a_program_gets_nodes_that_have_what_it_needs),
        cmocka_unit_test(a_program_gets_nodes_that_have_its_interpreter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
