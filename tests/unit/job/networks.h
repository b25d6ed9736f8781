/* Shared by the tests of networks: makes a network from its JSON or a preset's name. */
#ifndef TESTS_JOB_NETWORKS_H
#define TESTS_JOB_NETWORKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/network/network.h"

#define NET(layers) "{\"input\": [6, 6, 3], \"layers\": [" layers "]}"
#define END "{\"type\": \"dense\", \"units\": 2}"

static inline int build(struct network *net, const char *text, struct jsonx_problems *problems)
{
    struct err e;
    json_t *j = text[0] == '{' ? jsonx_parse(text, strlen(text), &e) : json_string(text);
    if (!j) {
        fail_msg("%s: %s", e.message, text);
    }
    int rc = network_build(net, j, "/model", problems);
    assert_int_equal(rc<0, problems->count> 0);
    json_decref(j);
    return rc;
}

static inline void make(struct network *net, const char *text)
{
    struct jsonx_problems problems = {0};
    if (build(net, text, &problems) < 0) {
        fail_msg("%s: %s", problems.items[0].pointer, problems.items[0].message);
    }
}

static inline const struct tensor *tensor_of(const struct network *net, const char *name)
{
    for (int i = 0; i < net->n_tensors; i++) {
        if (strcmp(net->tensors[i].name, name) == 0) {
            return &net->tensors[i];
        }
    }
    fail_msg("no tensor '%s'", name);
    return NULL;
}

#endif
