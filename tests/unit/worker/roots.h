/* A data root with the folder `set`, and a folder outside it, for each test. */
#ifndef TESTS_UNIT_WORKER_ROOTS_H
#define TESTS_UNIT_WORKER_ROOTS_H

#include "fixture.h"

struct place {
    char *root, *outside;
    char set[4096]; /* ROOT/set */
};

static inline int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    p->root = make_folder();
    p->outside = make_folder();
    snprintf(p->set, sizeof p->set, "%s/set", p->root);
    assert_int_equal(mkdir(p->set, 0755), 0);
    *state = p;
    return 0;
}

static inline int teardown(void **state)
{
    struct place *p = *state;
    remove_folder(p->root);
    remove_folder(p->outside);
    free(p);
    return 0;
}

#endif
