/* Folders of pictures as a data set (worker/data/images): which files belong to it, and that its
 * samples are equal however they are decoded: ahead into the host's cache, or on demand by several
 * threads. */
#include "cached_set.h"
#include "pictures.h"

#include "worker/data/dataset.h"
#include "worker/data/images/folders.h"

enum { SIDE = 8, TRAIN = 12, TEST = 4 };

static int setup(void **state)
{
    return setup_set(state, "pets");
}

static struct data_spec spec_of(int threads)
{
    return (struct data_spec){.format = CAT_FORMAT_IMAGES,
                              .path = "pets",
                              .shuffle = true,
                              .normalize_unit = true,
                              .size = {SIDE, SIDE},
                              .channels = 3,
                              .threads = threads};
}

static void put_bytes(const struct place *p, const char *folder, const char *name,
                      const void *bytes, size_t n)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", p->dir, folder);
    OK(proc_mkdirs(path, 0700, &err_));
    put_file(path, name, bytes, n);
}

/* A picture in its own colours, wider than high. */
static void put_picture(const struct place *p, const char *folder, const char *name, int number)
{
    static struct file f;
    enum { HIGH = 10, WIDE = 14 };
    uint8_t values[HIGH * WIDE * 3];
    for (int i = 0; i < HIGH * WIDE * 3; i++) {
        values[i] = (uint8_t)(i * (number + 3) % 251);
    }
    if (strstr(name, ".png")) {
        make_plain_png(&f, HIGH, WIDE, 3, values);
    } else {
        make_jpeg(&f, HIGH, WIDE, 3, values, number % 2);
    }
    put_bytes(p, folder, name, f.at, f.n);
}

static void put_pets(const struct place *p)
{
    char name[32];
    for (int i = 0; i < TRAIN; i++) {
        snprintf(name, sizeof name, "%02d.%s", i, i % 3 == 0 ? "png" : i % 3 == 1 ? "jpg" : "JPEG");
        put_picture(p, i % 2 ? "train/dog" : "train/cat", name, i);
    }
    for (int i = 0; i < TEST; i++) {
        snprintf(name, sizeof name, "%02d.png", i);
        put_picture(p, i % 2 ? "test/dog" : "test/cat", name, 100 + i);
    }
}

/* ---- folders --------------------------------------------------------------------------------- */

static void classes_are_folders_in_the_order_of_their_names(void **state)
{
    struct place *p = *state;
    struct folders f;
    put_pets(p);
    put_picture(p, "train/ant", "1.png", 50);
    put_bytes(p, "train/ant", ".DS_Store", "x", 1);
    put_bytes(p, "train/ant", "Thumbs.db", "x", 1);
    put_bytes(p, "train/cat", "Desktop.ini", "x", 1);
    put_bytes(p, "", "classes.txt", "x", 1);
    assert_true(folders_match(p->dir));
    assert_false(folders_match(p->root));
    OK(folders_read(&f, p->dir, &err_));
    assert_int_equal(f.n_classes, 3);
    assert_string_equal(f.classes[0], "ant");
    assert_string_equal(f.classes[2], "dog");
    assert_true(f.n_train == TRAIN + 1 && f.n == TRAIN + 1 + TEST);
    assert_string_equal(folders_name(&f, 0), "train/ant/1.png");
    assert_string_equal(folders_name(&f, 1), "train/cat/00.png");
    assert_string_equal(folders_name(&f, f.n_train), "test/cat/00.png");
    assert_int_equal(f.pictures[f.n_train].label, 1);
    folders_release(&f);
}

static void what_is_no_picture_of_a_class_is_refused_by_name(void **state)
{
    struct place *p = *state;
    struct folders f;
    put_pets(p);
    put_picture(p, "test/emu", "1.png", 1);
    FAILS(folders_read(&f, p->dir, &err_), ERR_DATA, "the class 'emu' is in test/, but not in");
    put_bytes(p, "train/cat", "notes.txt", "x", 1);
    FAILS(folders_read(&f, p->dir, &err_), ERR_DATA, "'train/cat/notes.txt' is neither .jpg");
    put_picture(p, "train/cat/deep", "1.png", 1);
    FAILS(folders_read(&f, p->dir, &err_), ERR_DATA, "'train/cat/deep' is a folder within a class");
}

static void a_folder_without_parts_is_split_by_the_seed(void **state)
{
    struct place *p = *state;
    struct dataset d, again;
    struct data_spec s = spec_of(2);
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%02d.png", i);
        put_picture(p, i % 2 ? "dog" : "cat", name, i);
    }
    OK(dataset_open(&d, &s, 7, p->root, &err_));
    OK(dataset_open(&again, &s, 7, p->root, &err_));
    assert_true(d.train.samples == 16 && d.test.samples == 4 && d.classes == 2);
    assert_memory_equal(d.test.y, again.test.y, 4 * sizeof(int32_t));
    uint8_t one[SIDE * SIDE * 3], other[SIDE * SIDE * 3];
    for (int i = 0; i < 4; i++) {
        dataset_copy(&d, &d.test, i, 1, one);
        dataset_copy(&again, &again.test, i, 1, other);
        assert_memory_equal(one, other, sizeof one);
        for (int k = 0; k < 16; k++) { /* no picture is in both parts */
            dataset_copy(&d, &d.train, k, 1, other);
            assert_memory_not_equal(one, other, sizeof one);
        }
    }
    dataset_release(&again);
    dataset_release(&d);
    s.validation = 0.5;
    OK(dataset_peek(&d, &s, p->root, &err_));
    assert_true(d.train.samples == 10 && d.test.samples == 10);
    dataset_release(&d);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void gather(const struct dataset *d, const struct data_spec *s, int64_t epoch, float *x,
                   int32_t *y, bool backwards)
{
    struct visit visit = {.training = true, .seed = 5, .epoch = epoch};
    const size_t each = 6 * 6 * 3;
    int64_t index[TRAIN];
    for (int i = 0; i < TRAIN; i++) {
        index[i] = backwards ? TRAIN - 1 - i : i;
    }
    dataset_gather(d, &d->train, s, &visit, index, TRAIN, x, y);
    for (int i = 0; backwards && i < TRAIN / 2; i++) {
        float kept[6 * 6 * 3], *a = x + (size_t)i * each, *b = x + (size_t)(TRAIN - 1 - i) * each;
        memcpy(kept, a, sizeof kept);
        memcpy(a, b, sizeof kept);
        memcpy(b, kept, sizeof kept);
    }
    OK(dataset_intact(d, &err_));
}

static struct data_spec augmented(int threads)
{
    struct data_spec s = spec_of(threads);
    s.augment = (struct augment_spec){.flip = 0.5, .crop = true, .crop_size = {6, 6}};
    return s;
}

static void samples_depend_on_seed_epoch_and_index_alone(void **state)
{
    struct place *p = *state;
    static float first[TRAIN * 108], x[TRAIN * 108];
    int32_t y[TRAIN];
    char digest[65] = "";
    put_pets(p);
    for (int way = 0; way < 4; way++) { /* one thread, five, the cache made, the cache found */
        struct data_spec s = augmented(way == 1 ? 5 : 1);
        struct dataset d;
        unpacked_keep_in(way > 1 ? &p->home : NULL);
        OK(dataset_open(&d, &s, 5, p->root, &err_));
        assert_true((d.train.stored != NULL) == (way > 1));
        assert_true((d.train.pictures != NULL) == (way < 2));
        gather(&d, &s, 3, way ? x : first, y, way % 2);
        assert_memory_equal(first, way ? x : first, sizeof first);
        assert_true(way == 0 || strcmp(digest, d.digest) == 0);
        memcpy(digest, d.digest, sizeof digest);
        gather(&d, &s, 4, x, y, false);
        assert_memory_not_equal(first, x, sizeof first);
        dataset_release(&d);
    }
    put_picture(p, "test/dog", "01.png", 7);
    struct data_spec s = augmented(1);
    struct dataset d;
    OK(dataset_open(&d, &s, 5, p->root, &err_));
    assert_string_not_equal(digest, d.digest);
    dataset_release(&d);
}

/* A limit too small for the decoded pictures: they are decoded on use. */
static void a_cache_without_room_is_done_without(void **state)
{
    struct place *p = *state;
    struct received small = {p->cache, 100};
    struct data_spec s = spec_of(2);
    struct dataset d;
    put_pets(p);
    unpacked_keep_in(&small);
    OK(dataset_open(&d, &s, 5, p->root, &err_));
    assert_non_null(d.train.pictures);
    dataset_release(&d);
}

static void a_broken_picture_is_named_when_it_is_first_used(void **state)
{
    struct place *p = *state;
    static struct file f;
    struct data_spec s = spec_of(3);
    struct dataset d;
    uint8_t values[64 * 64] = {0}, copy[TRAIN * SIDE * SIDE * 3];
    for (size_t i = 0; i < sizeof values; i++) {
        values[i] = (uint8_t)(i * i % 253);
    }
    put_pets(p);
    make_jpeg(&f, 64, 64, 1, values, false);
    put_bytes(p, "train/dog", "03.png", f.at, f.n / 2); /* its head is whole */
    OK(dataset_open(&d, &s, 5, p->root, &err_));
    OK(dataset_intact(&d, &err_));
    dataset_copy(&d, &d.train, 0, TRAIN, copy);
    FAILS(dataset_intact(&d, &err_), ERR_DATA, "'train/dog/03.png'");
    dataset_release(&d);
    unpacked_keep_in(&p->home);
    FAILS(dataset_open(&d, &s, 5, p->root, &err_), ERR_DATA, "'train/dog/03.png'");
    put_bytes(p, "train/dog", "03.png", "no picture", 10);
    FAILS(dataset_open(&d, &s, 5, p->root, &err_), ERR_DATA, "neither a JPEG nor a PNG");
}

static void a_picture_that_changes_while_it_is_in_use_is_named(void **state)
{
    struct place *p = *state;
    struct data_spec s = spec_of(2);
    struct dataset d;
    uint8_t copy[SIDE * SIDE * 3];
    put_pets(p);
    OK(dataset_open(&d, &s, 5, p->root, &err_));
    put_picture(p, "train/cat", "00.png", 77);
    put_bytes(p, "train/cat", "02.JPEG", "", 0);
    dataset_copy(&d, &d.train, 1, 1, copy);
    FAILS(dataset_intact(&d, &err_), ERR_DATA, "'train/cat/02.JPEG' was changed");
    dataset_release(&d);
}

static void a_link_that_leads_outside_the_data_folders_is_refused(void **state)
{
    struct place *p = *state;
    struct data_spec s = spec_of(2);
    struct dataset d;
    char path[5000];
    put_pets(p);
    snprintf(path, sizeof path, "%s/train/cat/99.png", p->dir);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    FAILS(dataset_open(&d, &s, 5, p->root, &err_), ERR_FORBIDDEN, "train/cat/99.png");
}

static void a_list_shows_them_as_one_data_set(void **state)
{
    struct place *p = *state;
    put_pets(p);
    json_t *list = dataset_list(p->root, NULL, 60, &err_), *one = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(json_string_value(json_object_get(one, "path")), "pets");
    assert_string_equal(json_string_value(json_object_get(one, "format")), "images");
    assert_int_equal(json_integer_value(json_object_get(one, "classes")), 2);
    assert_int_equal(json_integer_value(json_object_get(one, "samples")), TRAIN);
    assert_true(json_is_string(json_object_get(one, "digest")));
    json_decref(list);
}

int main(void)
{
#define TEST_OF(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST_OF(classes_are_folders_in_the_order_of_their_names),
        TEST_OF(what_is_no_picture_of_a_class_is_refused_by_name),
        TEST_OF(a_folder_without_parts_is_split_by_the_seed),
        TEST_OF(samples_depend_on_seed_epoch_and_index_alone),
        TEST_OF(a_cache_without_room_is_done_without),
        TEST_OF(a_broken_picture_is_named_when_it_is_first_used),
        TEST_OF(a_picture_that_changes_while_it_is_in_use_is_named),
        TEST_OF(a_link_that_leads_outside_the_data_folders_is_refused),
        TEST_OF(a_list_shows_them_as_one_data_set),
    };
    return cmocka_run_group_tests_name("image folders", tests, NULL, NULL);
}
