/* Data sets that arrive from a keeper (worker/data/files/received.c): they are complete or absent,
 * within the limit, and no name leads out of the folder. Equal files have one key
 * (worker/data/files/manifest.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/process/proc.h"
#include "worker/data/files/manifest.h"
#include "worker/data/files/received.h"

static char dir[64], root[4096];
static struct err e;

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/evenstep-test-XXXXXX");
    memset(&e, 0, sizeof(e));
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return proc_remove_tree(dir, NULL);
}

static char *key_of(char c)
{
    static char key[65];
    memset(key, c, 64);
    return key;
}

static void arrive(const struct received *r, char key, size_t bytes)
{
    char *blob = calloc(1, bytes);
    struct incoming *in = received_begin(r, key_of(key), (int64_t)bytes, &e);
    assert_non_null(in);
    assert_int_equal(received_file(in, "x.npy", &e), 0);
    assert_int_equal(received_write(in, blob, bytes, &e), 0);
    assert_false(received_find(r, key_of(key), root)); /* not before its end */
    assert_int_equal(received_end(in, 0, &e), 0);
    assert_true(received_find(r, key_of(key), root));
    free(blob);
}

static void a_complete_one_is_found_and_an_incomplete_one_is_not(void **state)
{
    (void)state;
    struct received r = {dir, 1 << 20};
    struct incoming *in = received_begin(&r, key_of('a'), 10, &e);
    assert_int_equal(received_file(in, "folder/x", &e), 0);
    assert_int_equal(received_write(in, "12345", 5, &e), 0);
    assert_int_equal(received_end(in, -ERR_PEER, NULL), -ERR_PEER);
    assert_false(received_find(&r, key_of('a'), root));
    arrive(&r, 'a', 10);
    received_drop(&r, key_of('a'));
    assert_false(received_find(&r, key_of('a'), root));
}

/* Sets its last use to this many seconds after 1970, because uses within one second look the
 * same. */
static void used_at(struct received *r, char c, time_t seconds)
{
    const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_true(received_find(r, key_of(c), root));
    assert_int_equal(utimensat(AT_FDCWD, root, times, 0), 0);
}

static void the_one_unused_for_longest_makes_room(void **state)
{
    (void)state;
    struct received r = {dir, 89000}; /* two of them, whatever a folder takes, and no third */
    arrive(&r, 'a', 30000);
    arrive(&r, 'b', 30000);
    used_at(&r, 'a', 1000);
    used_at(&r, 'b', 2000);
    assert_true(received_find(&r, key_of('a'), root)); /* used again */
    arrive(&r, 'c', 30000);
    assert_true(received_find(&r, key_of('a'), root));
    assert_false(received_find(&r, key_of('b'), root));
    assert_null(received_begin(&r, key_of('d'), 89001, &e));
    assert_int_equal(e.code, ERR_TOO_LARGE);
    assert_true(received_find(&r, key_of('c'), root)); /* nothing went for one that cannot fit */
}

static void give(struct incoming *in, const char *text)
{
    assert_non_null(in);
    assert_int_equal(received_file(in, "x", &e), 0);
    assert_int_equal(received_write(in, text, strlen(text), &e), 0);
}

static void assert_there(const struct received *r, const char *text)
{
    char path[4200];
    assert_true(received_find(r, key_of('a'), root));
    snprintf(path, sizeof(path), "%.4000s/files/x", root);
    char *found = proc_read_file(path, 100, NULL, &e);
    assert_string_equal(found, text);
    free(found);
}

static void a_second_rank_of_the_host_writes_nothing(void **state)
{
    (void)state;
    struct received r = {dir, 1 << 20};
    struct incoming *first = received_begin(&r, key_of('a'), 10, &e),
                    *second = received_begin(&r, key_of('a'), 10, &e);
    give(first, "12345");
    give(second, "wrong");
    assert_int_equal(received_end(first, 0, &e), 0);
    assert_int_equal(received_end(second, 0, &e), 0);
    assert_there(&r, "12345");
}

/* The first rank may already be reading it. */
static void nor_does_one_that_asks_when_all_is_there(void **state)
{
    (void)state;
    struct received r = {dir, 1 << 20};
    struct incoming *in = received_begin(&r, key_of('a'), 10, &e);
    give(in, "12345");
    assert_int_equal(received_end(in, 0, &e), 0);
    in = received_begin(&r, key_of('a'), 10, &e);
    give(in, "wrong");
    assert_false(received_writes(in));
    assert_int_equal(received_end(in, 0, &e), 0);
    assert_there(&r, "12345");
}

static void no_name_leads_out_of_the_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"",       ".",       "..",      "../x",   "/etc/x",
                                        "a/../x", "a/b/c/d", ".hidden", "a/.b",   "a/",
                                        "a\nb",   "x;y",     "a\\b",    "a/b/.c", "a//b"};
    struct received r = {dir, 1 << 20};
    struct incoming *in = received_begin(&r, key_of('a'), 10, &e);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(received_file(in, names[i], &e), -ERR_FORBIDDEN);
    }
    received_end(in, -ERR_FORBIDDEN, NULL);
    assert_null(received_begin(&r, "../../etc", 10, &e));
    assert_false(received_find(&r, "..", root));
}

static void nobody(void *ctx)
{
    (void)ctx;
}

static void the_key_is_that_of_names_and_bytes(void **state)
{
    (void)state;
    char path[128], keys[4][65];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/set", dir);
        proc_remove_tree(path, NULL);
        snprintf(path, sizeof(path), "%s/set/sub", dir);
        assert_int_equal(proc_mkdirs(path, 0700, &e), 0);
        snprintf(path, sizeof(path), "%s/set/%s", dir, i == 2 ? "b" : "a");
        assert_int_equal(proc_write_file(path, i == 3 ? "13" : "12", 2, 0600, &e), 0);
        snprintf(path, sizeof(path), "%s/set/sub/c", dir);
        assert_int_equal(proc_write_file(path, "345", 3, 0600, &e), 0);
        snprintf(path, sizeof(path), "%s/set/.seen", dir);
        assert_int_equal(proc_write_file(path, "x", (size_t)i % 2, 0600, &e),
                         0); /* does not count */
        struct offer offer = {0};
        assert_int_equal(manifest_make(&offer, dir, "set", nobody, NULL, &e), 0);
        assert_int_equal((int)offer.bytes, 5);
        assert_int_equal(offer.n_files, 2);
        snprintf(keys[i], sizeof(keys[i]), "%s", offer.key);
        offer_release(&offer);
    }
    assert_string_equal(keys[0], keys[1]);
    assert_string_not_equal(keys[0], keys[2]);
    assert_string_not_equal(keys[0], keys[3]);
    assert_true(manifest_open(dir, "set", "../../../etc/passwd", &e) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_complete_one_is_found_and_an_incomplete_one_is_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_one_unused_for_longest_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_rank_of_the_host_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(nor_does_one_that_asks_when_all_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(no_name_leads_out_of_the_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(the_key_is_that_of_names_and_bytes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
