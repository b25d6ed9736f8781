/* Reads past the page cache (worker/data/files/direct.c): each returns the requested bytes, in the
 * order of requests. Reads that are not taken, and a file that is cut, never cause a wrong byte. */
#include "fixture.h"

#include <fcntl.h>

#include "worker/data/files/direct.h"
#include "worker/data/files/mapped.h"
#include "worker/data/files/stored.h"

enum { SAMPLES = 200, EACH = 5000, HEAD = 77, MOST = 16 };

struct place {
    char *dir, path[4096];
    int fd;
    struct direct *d;
    uint8_t bytes[HEAD + SAMPLES * EACH];
};

static uint8_t value_of(int i, int at)
{
    return (uint8_t)(i * 31 + at * 7 + at / 256);
}

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    p->dir = make_folder();
    for (int i = 0; i < SAMPLES * EACH; i++) {
        p->bytes[HEAD + i] = value_of(i / EACH, i % EACH);
    }
    put_file(p->dir, "x.npy", p->bytes, sizeof p->bytes);
    snprintf(p->path, sizeof p->path, "%s/x.npy", p->dir);
    int plain = open(p->path, O_RDONLY | O_CLOEXEC);
    p->fd = direct_open(plain);
    close(plain);
    p->d = direct_new(MOST, EACH);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    direct_free(p->d);
    if (p->fd >= 0) {
        close(p->fd);
    }
    remove_folder(p->dir);
    free(p);
    return 0;
}

/* A file system or a container may not allow such reads. */
static void need_them(const struct place *p)
{
    if (p->fd < 0 || !p->d) {
        skip();
    }
}

static const void *key_of(struct place *p, int i)
{
    return p->bytes + HEAD + (size_t)i * EACH;
}

static bool ask(struct place *p, int i)
{
    return direct_ask(p->d, p->fd, HEAD + (off_t)i * EACH, EACH, key_of(p, i));
}

static void take(struct place *p, int i)
{
    const uint8_t *at = direct_take(p->d, key_of(p, i));
    assert_non_null(at);
    assert_memory_equal(at, key_of(p, i), EACH);
}

static void what_was_asked_for_comes_in_that_order(void **state)
{
    struct place *p = *state;
    need_them(p);
    int asked = 0;
    for (int taken = 0; taken < SAMPLES; taken++) { /* the ring goes round several times */
        for (; asked < SAMPLES && asked < taken + MOST / 2; asked++) {
            assert_true(ask(p, asked * 7 % SAMPLES));
        }
        direct_begin(p->d);
        take(p, taken * 7 % SAMPLES);
    }
}

static void what_is_passed_over_is_dropped_and_what_was_not_asked_for_is_not_there(void **state)
{
    struct place *p = *state;
    need_them(p);
    for (int i = 0; i < MOST; i++) {
        assert_true(ask(p, i));
    }
    assert_false(ask(p, MOST)); /* there is no room */
    assert_null(direct_take(p->d, key_of(p, 100)));
    take(p, 9);
    assert_null(direct_take(p->d, key_of(p, 8)));
    take(p, 10);
    for (int i = 0; i < MOST - 5; i++) {
        assert_true(ask(p, 20 + i));
    }
    direct_forget(p->d);
    assert_null(direct_take(p->d, key_of(p, 11)));
    assert_null(direct_take(p->d, key_of(p, 20)));
    assert_true(ask(p, 20));
    take(p, 20);
    assert_false(direct_ask(p->d, p->fd, 0, 4 * EACH, p)); /* larger than a buffer */
}

static void a_read_beyond_the_end_of_a_file_is_none(void **state)
{
    struct place *p = *state;
    need_them(p);
    assert_int_equal(truncate(p->path, HEAD + 2 * EACH - 1), 0);
    assert_true(ask(p, 0) && ask(p, 1) && ask(p, 2));
    take(p, 0);
    assert_null(direct_take(p->d, key_of(p, 1)));
    assert_null(direct_take(p->d, key_of(p, 2)));
}

static void samples_are_those_of_the_file_however_they_are_read(void **state)
{
    struct place *p = *state;
    need_them(p);
    static uint8_t room[EACH];
    struct form form = {.kind = 'u', .width = 1, .sample = EACH};
    struct once half = {.kept = 0.5, .room = room, .direct = p->d};
    struct mapped *m = mapped_open(p->path, "x.npy", &err_);
    struct stored *s = stored_new(&form);
    stored_add(s, m, HEAD, SAMPLES);
    int past = 0; /* samples that were read past the cache */
    for (int64_t first = 0; first < SAMPLES; first += 10) {
        int64_t index[10];
        for (int i = 0; i < 10; i++) {
            index[i] = (first + i) * 7 % SAMPLES;
        }
        stored_ahead(s, &half, index, first == 50 ? 3 : 10); /* one slice only in part */
        for (int i = 0; i < 10; i++) {
            const uint8_t *at = stored_once(s, index[i], &half);
            assert_memory_equal(at, key_of(p, (int)index[i]), EACH);
            past += at != room && (at < m->at || at >= m->at + m->bytes);
        }
    }
    OK(mapped_check(m, &err_));
    stored_free(s);
    mapped_close(m);
    assert_in_range(past, SAMPLES / 2 - 8, SAMPLES / 2);
}

#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_(what_was_asked_for_comes_in_that_order),
        TEST_(what_is_passed_over_is_dropped_and_what_was_not_asked_for_is_not_there),
        TEST_(a_read_beyond_the_end_of_a_file_is_none),
        TEST_(samples_are_those_of_the_file_however_they_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
