/* Data sets that stay in their files (worker/data/files/mapped.c, stored.c, unpacked.c, values.c):
 * samples equal the file's whatever its type, compressed files are decompressed once per host, and
 * a file that is shortened or changed while it is read leads to a message, not to a signal. */
#include "cached_set.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>

#include "worker/data/dataset.h"
#include "worker/data/files/mapped.h"
#include "worker/data/files/stored.h"

enum { TRAIN = 6, TEST = 2, EACH = 8, PAGE = 4096 };

static int setup(void **state)
{
    return setup_set(state, "set");
}

/* ---- files ----------------------------------------------------------------------------------- */

static size_t npy(uint8_t *out, const char *type, int samples, int each, const void *values,
                  size_t width)
{
    char dict[128];
    int n = snprintf(dict, sizeof dict,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }\n", type,
                     samples, each);
    size_t bytes = (size_t)samples * (size_t)each * width;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (uint8_t)n;
    out[9] = 0;
    memcpy(out + 10, dict, (size_t)n);
    memcpy(out + 10 + n, values, bytes);
    return 10 + (size_t)n + bytes;
}

/* The same values in both parts; the test part has the first two samples; labels are 0. */
static void put_set(const struct place *p, const char *type, const void *values, size_t width,
                    bool packed)
{
    static uint8_t out[1 << 16];
    uint8_t labels[TRAIN] = {0};
    void (*put)(const char *, const char *, const void *, size_t) = packed ? put_packed : put_file;
    put(p->dir, "x.npy", out, npy(out, type, TRAIN, EACH, values, width));
    put(p->dir, "test_x.npy", out, npy(out, type, TEST, EACH, values, width));
    put(p->dir, "y.npy", out, npy(out, "|u1", TRAIN, 1, labels, 1));
    put(p->dir, "test_y.npy", out, npy(out, "|u1", TEST, 1, labels, 1));
}

static struct data_spec spec_of(int format)
{
    return (struct data_spec){
        .format = format, .path = "set", .shuffle = true, .normalize_unit = true};
}

static void swap(void *values, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t *v = (uint8_t *)values + i * width;
        for (size_t k = 0; k < width / 2; k++) {
            uint8_t kept = v[k];
            v[k] = v[width - 1 - k];
            v[width - 1 - k] = kept;
        }
    }
}

static int entries(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (const struct dirent *f; d && (f = readdir(d));) {
        n += f->d_name[0] != '.';
    }
    closedir(d);
    return n;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void check_floats(const struct place *p, const char *type)
{
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    struct visit quiet = {.training = false};
    int64_t index[] = {4, 0};
    float x[2 * EACH], copy[EACH];
    int32_t y[2];
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    dataset_gather(&d, &d.train, &s, &quiet, index, 2, x, y);
    dataset_copy(&d, &d.train, 4, 1, copy);
    for (int j = 0; j < EACH; j++) {
        if (x[j] != (float)(4 * EACH + j) || x[EACH + j] != (float)j || copy[j] != x[j]) {
            fail_msg("%s: value %d is %g", type, j, (double)x[j]);
        }
    }
    dataset_release(&d);
}

static void values_are_the_same_in_every_type_and_byte_order(void **state)
{
    struct place *p = *state;
    int16_t i2[TRAIN * EACH];
    uint32_t u4[TRAIN * EACH];
    int64_t i8[TRAIN * EACH];
    float f4[TRAIN * EACH];
    double f8[TRAIN * EACH];
    for (int i = 0; i < TRAIN * EACH; i++) {
        i2[i] = (int16_t)i;
        u4[i] = (uint32_t)i;
        i8[i] = i;
        f4[i] = (float)i;
        f8[i] = i;
    }
    static const char *const types[][2] = {
        {"<i2", ">i2"}, {"<u4", ">u4"}, {"<i8", ">i8"}, {"<f4", ">f4"}, {"<f8", ">f8"}};
    void *const values[] = {i2, u4, i8, f4, f8};
    static const size_t width[] = {2, 4, 8, 4, 8};
    for (int t = 0; t < 5; t++) {
        put_set(p, types[t][0], values[t], width[t], false);
        check_floats(p, types[t][0]);
        swap(values[t], (size_t)TRAIN * EACH, width[t]);
        put_set(p, types[t][1], values[t], width[t], false);
        check_floats(p, types[t][1]);
    }
}

static void a_plain_file_is_not_copied_and_its_floats_are_checked(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    float x[TRAIN * EACH] = {0};
    put_set(p, "<f4", x, 4, false);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    assert_non_null(d.train.stored);
    assert_true(d.train.stored->run[0].file->fd >= 0);
    dataset_release(&d);
    x[3 * EACH + 2] = 1e38f * 10;
    put_set(p, "<f4", x, 4, false);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA,
          "'x.npy' has the value inf in sample 3, at byte");
    s.validation = 0.5; /* samples are in another order, the message names that of the file */
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA, "in sample 3, at byte");
}

/* ---- packed files ---------------------------------------------------------------------------- */

static void a_packed_file_is_unpacked_once_and_again_when_it_changes(void **state)
{
    struct place *p = *state;
    struct dataset d, again;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    uint8_t x[TRAIN * EACH] = {7};
    unpacked_keep_in(&p->home);
    put_set(p, "|u1", x, 1, true);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    assert_int_equal(entries(p->cache), 2); /* x.npy, test_x.npy; labels are in memory anyway */
    assert_true(d.train.stored->run[0].file->fd >= 0);
    OK(dataset_open(&again, &s, 1, p->root, &err_));
    assert_int_equal(entries(p->cache), 2);
    assert_string_equal(d.digest, again.digest);
    dataset_release(&again);
    x[0] = 8;
    put_set(p, "|u1", x, 1, true);
    OK(dataset_open(&again, &s, 1, p->root, &err_));
    assert_int_equal(entries(p->cache), 4);
    assert_string_not_equal(d.digest, again.digest);
    assert_int_equal(((const uint8_t *)d.train.x)[0], 7); /* the old one is still there */
    dataset_release(&again);
    dataset_release(&d);
}

static void an_unpacked_file_that_was_cut_is_unpacked_again(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    uint8_t x[TRAIN * EACH] = {7};
    char path[8192];
    unpacked_keep_in(&p->home);
    put_set(p, "|u1", x, 1, true);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    dataset_release(&d);
    DIR *folder = opendir(p->cache);
    for (const struct dirent *f; (f = readdir(folder));) {
        if (f->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s/files/values", p->cache, f->d_name);
            assert_int_equal(truncate(path, 20), 0);
        }
    }
    closedir(folder);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    assert_int_equal(((const uint8_t *)d.train.x)[0], 7);
    assert_true(d.train.stored->run[0].file->fd >= 0);
    dataset_release(&d);
}

static void without_room_in_the_cache_a_packed_file_goes_into_memory(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    uint8_t x[TRAIN * EACH] = {7};
    p->home.limit_bytes = 10;
    unpacked_keep_in(&p->home);
    put_set(p, "|u1", x, 1, true);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    assert_int_equal(entries(p->cache), 0);
    assert_int_equal(d.train.stored->run[0].file->fd, -1);
    assert_int_equal(((const uint8_t *)d.train.x)[0], 7);
    dataset_release(&d);
}

/* ---- a file that changes --------------------------------------------------------------------- */

static void a_file_that_is_shortened_is_named_and_nothing_dies(void **state)
{
    struct place *p = *state;
    static uint8_t bytes[4 * PAGE];
    char path[8192];
    memset(bytes, 5, sizeof bytes);
    put_file(p->dir, "x.npy", bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/x.npy", p->dir);
    struct mapped *m = mapped_open(path, "x.npy", &err_);
    assert_non_null(m);
    OK(mapped_check(m, &err_));
    assert_int_equal(m->at[3 * PAGE], 5);
    assert_int_equal(truncate(path, PAGE), 0);
    assert_int_equal(m->at[3 * PAGE], 0); /* zeros came in its place */
    assert_int_equal(m->at[2 * PAGE], 0);
    assert_int_equal(m->at[0], 5);
    FAILS(mapped_check(m, &err_), ERR_DATA, "'x.npy' was shortened from 16384 to 4096 bytes");
    mapped_close(m);
}

/* The share of a file's pages that are in the page cache. */
static double in_cache(const char *path, size_t bytes)
{
    enum { MOST = 1024 };
    static unsigned char there[MOST];
    int fd = open(path, O_RDONLY), n = (int)(bytes / PAGE), found = 0;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(n <= MOST && at != MAP_FAILED && mincore(at, bytes, there) == 0);
    for (int i = 0; i < n; i++) {
        found += there[i] & 1;
    }
    munmap(at, bytes);
    close(fd);
    return (double)found / n;
}

static void samples_before_the_part_that_stays_leave_the_page_cache(void **state)
{
    enum { PAGES = 64 };
    struct place *p = *state;
    static uint8_t bytes[PAGES * PAGE], room[PAGE];
    struct form form = {.kind = 'u', .width = 1, .sample = PAGE};
    struct once half = {.kept = 0.5, .room = room};
    char path[8192];
    for (int i = 0; i < PAGES; i++) {
        memset(bytes + (size_t)i * PAGE, i, PAGE);
    }
    put_file(p->dir, "x.npy", bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/x.npy", p->dir);
    int fd = open(path, O_RDONLY);
    assert_int_equal(fsync(fd), 0); /* what is not on the disk cannot leave the cache */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    if (in_cache(path, sizeof bytes) > 0) {
        skip(); /* a file system that is itself memory */
    }
    struct mapped *m = mapped_open(path, "x.npy", &err_);
    struct stored *s = stored_new(&form);
    stored_add(s, m, 0, PAGES);
    stored_shuffled(s); /* page by page, as a page that was read with others leaves with them */
    for (int i = 0; i < PAGES; i++) {
        assert_int_equal(m->at[(size_t)i * PAGE], i); /* all are touched, as for the digest */
    }
    stored_shuffled(s);
    assert_true(in_cache(path, sizeof bytes) > 0.99);
    for (int64_t i = 0; i < PAGES; i++) {
        const uint8_t *at = stored_once(s, i, &half);
        assert_true(at == (i < PAGES / 2 ? room : m->at + (size_t)i * PAGE));
        assert_int_equal(at[0], i);
        assert_int_equal(at[PAGE - 1], i);
    }
    double left = in_cache(path, sizeof bytes);
    if (left < 0.49 || left > 0.51) {
        fail_msg("%g of the file is in the page cache, not the half that stays", left);
    }
    OK(mapped_check(m, &err_));
    assert_int_equal(truncate(path, PAGE), 0);
    assert_int_equal(stored_once(s, 9, &half)[7], 0);
    FAILS(mapped_check(m, &err_), ERR_DATA, "'x.npy' was shortened");
    stored_free(s);
    mapped_close(m);
}

static void what_stays_is_what_there_is_room_for(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    uint8_t x[TRAIN * EACH] = {7};
    put_set(p, "|u1", x, 1, false);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    double all = (double)(d.train.stored->run[0].file->bytes + d.test.stored->run[0].file->bytes);
    assert_true(dataset_kept(&d, (int64_t)all) == 1);
    assert_true(fabs(dataset_kept(&d, 100) - 100 / all) < 1e-9);
    assert_true(dataset_kept(&d, -5) == 0);
    dataset_release(&d);
    s.validation = 0.5; /* both parts are in the training file, which counts once */
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    all = (double)d.train.stored->run[0].file->bytes;
    assert_true(fabs(dataset_kept(&d, 100) - 100 / all) < 1e-9);
    dataset_release(&d);
}

static void a_file_that_is_changed_is_named(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    uint8_t x[TRAIN * EACH] = {7};
    char path[8192];
    put_set(p, "|u1", x, 1, false);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    OK(dataset_intact(&d, &err_));
    snprintf(path, sizeof path, "%s/x.npy", p->dir);
    struct timespec then[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
    FAILS(dataset_intact(&d, &err_), ERR_DATA, "'x.npy' was changed while the job reads it");
    dataset_release(&d);
    OK(dataset_open(&d, &s, 1, p->root, &err_)); /* the next attempt takes it as it is */
    assert_int_equal(unlink(path), 0);           /* and a file that goes away stays readable */
    OK(dataset_intact(&d, &err_));
    dataset_release(&d);
}

#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_(values_are_the_same_in_every_type_and_byte_order),
        TEST_(a_plain_file_is_not_copied_and_its_floats_are_checked),
        TEST_(a_packed_file_is_unpacked_once_and_again_when_it_changes),
        TEST_(an_unpacked_file_that_was_cut_is_unpacked_again),
        TEST_(without_room_in_the_cache_a_packed_file_goes_into_memory),
        TEST_(a_file_that_is_shortened_is_named_and_nothing_dies),
        TEST_(samples_before_the_part_that_stays_leave_the_page_cache),
        TEST_(what_stays_is_what_there_is_room_for),
        TEST_(a_file_that_is_changed_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
