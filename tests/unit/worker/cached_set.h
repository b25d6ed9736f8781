/* A data root with one data set's folder, and the host's cache of what is unpacked or decoded, for
 * each test. */
#ifndef TESTS_UNIT_WORKER_CACHED_SET_H
#define TESTS_UNIT_WORKER_CACHED_SET_H

#include "fixture.h"

#include "worker/data/files/unpacked.h"

struct place {
    char *root, *cache;
    char dir[4096]; /* ROOT/NAME */
    struct received home;
};

static inline int setup_set(void **state, const char *name)
{
    struct place *p = calloc(1, sizeof *p);
    p->root = make_folder();
    p->cache = make_folder();
    p->home = (struct received){p->cache, 1 << 20};
    snprintf(p->dir, sizeof p->dir, "%s/%s", p->root, name);
    assert_int_equal(mkdir(p->dir, 0755), 0);
    *state = p;
    return 0;
}

static inline int teardown(void **state)
{
    struct place *p = *state;
    unpacked_keep_in(NULL);
    remove_folder(p->root);
    remove_folder(p->cache);
    free(p);
    return 0;
}

#endif
