/* Data sets: which files are read, which are refused with which message, and that no path leads
 * outside its folders. */
#include "roots.h"

#include <zlib.h>

#include "job/sample.h"
#include "worker/data/dataset.h"

/* ---- files ----------------------------------------------------------------------------------- */

enum { TRAIN = 20, TEST = 6, SIDE = 3 };

static size_t idx_images(uint8_t *out, int n)
{
    uint8_t head[] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)n, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    memcpy(out, head, sizeof head);
    for (int i = 0; i < n * SIDE * SIDE; i++) {
        out[sizeof head + (size_t)i] = (uint8_t)(i * 7);
    }
    return sizeof head + (size_t)(n * SIDE * SIDE);
}

static size_t idx_labels(uint8_t *out, int n)
{
    uint8_t head[] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)n};
    memcpy(out, head, sizeof head);
    for (int i = 0; i < n; i++) {
        out[sizeof head + (size_t)i] = (uint8_t)(i % 4);
    }
    return sizeof head + (size_t)n;
}

static void put_idx(const char *dir, bool packed)
{
    static const char *const names[2][2] = {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                            {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
    uint8_t bytes[1024];
    for (int p = 0; p < 2; p++) {
        int n = p == 0 ? TRAIN : TEST;
        size_t size = idx_images(bytes, n);
        (packed ? put_packed : put_file)(dir, names[p][0], bytes, size);
        size = idx_labels(bytes, n);
        (packed ? put_packed : put_file)(dir, names[p][1], bytes, size);
    }
}

static void put_npy(const char *dir, const char *name, const char *type, const char *shape,
                    const void *values, size_t bytes)
{
    char out[8192];
    char dict[128];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", type,
             shape);
    size_t n = strlen(dict);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)n;
    out[9] = 0;
    memcpy(out + 10, dict, n);
    memcpy(out + 10 + n, values, bytes);
    put_file(dir, name, out, 10 + n + bytes);
}

static struct data_spec spec_of(int format)
{
    struct data_spec s = {.format = format,
                          .path = "set",
                          .shuffle = true,
                          .normalize_unit = true,
                          .samples = 50,
                          .test_samples = 20};
    return s;
}

static const struct visit quiet = {.training = false};

/* ---- places ---------------------------------------------------------------------------------- */

static void a_single_file_that_links_outside_is_refused_too(void **state)
{
    struct place *p = *state;
    char from[4200], to[4200];
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    put_idx(p->set, false);
    snprintf(from, sizeof from, "%s/t10k-labels-idx1-ubyte", p->set);
    snprintf(to, sizeof to, "%s/labels", p->outside);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(symlink(to, from), 0);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_FORBIDDEN, "leads outside");
}

static void a_missing_data_set_is_named_with_a_way_out(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    memcpy(s.path, "mnits", 6);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_NOT_FOUND, "'mnits'");
    assert_non_null(strstr(err_.hint, "EVENSTEP_DATA"));
}

static void every_data_set_beneath_the_roots_is_listed(void **state)
{
    struct place *p = *state;
    put_idx(p->set, true);
    json_t *list = dataset_list(p->root, NULL, 10, &err_);
    assert_int_equal(json_array_size(list), 1);
    const json_t *j = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(j, "path")), "set");
    assert_string_equal(json_string_value(json_object_get(j, "format")), "idx");
    assert_int_equal(json_integer_value(json_object_get(j, "classes")), 4);
    assert_int_equal(json_integer_value(json_object_get(j, "samples")), TRAIN);
    assert_int_equal(json_integer_value(json_object_get(j, "test_samples")), TEST);
    json_decref(list);
}

/* ---- idx ------------------------------------------------------------------------------------- */

static void idx_files_read_the_same_packed_or_not(void **state)
{
    struct place *p = *state;
    struct dataset plain, packed;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    put_idx(p->set, false);
    OK(dataset_open(&plain, &s, 1, p->root, &err_));
    assert_int_equal(plain.train.samples, TRAIN);
    assert_int_equal(plain.test.samples, TEST);
    assert_int_equal(plain.classes, 4);
    assert_int_equal(plain.input.dim[0], SIDE);
    assert_int_equal(((uint8_t *)plain.train.x)[10], 70);
    assert_int_equal(((int32_t *)plain.train.y)[5], 1);
    assert_int_equal(proc_remove_tree(p->set, NULL), 0);
    assert_int_equal(mkdir(p->set, 0755), 0);
    put_idx(p->set, true);
    OK(dataset_open(&packed, &s, 1, p->root, &err_));
    assert_string_equal(plain.digest, packed.digest);
    dataset_release(&plain);
    dataset_release(&packed);
}

static void a_file_that_ends_early_is_named_with_the_byte(void **state)
{
    struct place *p = *state;
    uint8_t bytes[1024];
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    put_idx(p->set, true);
    size_t n = idx_images(bytes, TRAIN);
    put_packed(p->set, "train-images-idx3-ubyte", bytes, n - 40);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA,
          "'train-images-idx3-ubyte': it ends at byte 156 of 196");
}

static void a_header_that_promises_more_than_the_file_can_hold_allocates_nothing(void **state)
{
    struct place *p = *state;
    uint8_t bytes[1024];
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    for (int packed = 0; packed < 2; packed++) {
        put_idx(p->set, packed);
        size_t n = idx_images(bytes, TRAIN);
        memset(bytes + 4, 0xff, 4); /* four thousand million samples */
        (packed ? put_packed : put_file)(p->set, "train-images-idx3-ubyte", bytes, n);
        FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA, "promises 38654705671 bytes");
        assert_int_equal(proc_remove_tree(p->set, NULL), 0);
        assert_int_equal(mkdir(p->set, 0755), 0);
    }
}

static void labels_of_another_count_are_refused(void **state)
{
    struct place *p = *state;
    uint8_t bytes[1024];
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    put_idx(p->set, false);
    put_file(p->set, "t10k-labels-idx1-ubyte", bytes, idx_labels(bytes, TEST + 1));
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA,
          "has 6 samples, 't10k-labels-idx1-ubyte' has 7");
}

static void a_file_of_another_kind_is_refused_with_its_first_bytes(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    put_idx(p->set, false);
    put_file(p->set, "train-images-idx3-ubyte", "PNG and more bytes", 18);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA, "it begins with 50 4e 47 20");
}

static void a_peek_knows_counts_and_classes_without_the_pictures(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    put_idx(p->set, true);
    OK(dataset_peek(&d, &s, p->root, &err_));
    assert_int_equal(d.train.samples, TRAIN);
    assert_int_equal(d.test.samples, TEST);
    assert_int_equal(d.classes, 4);
    assert_null(d.train.x);
    dataset_release(&d);
}

/* ---- npy ------------------------------------------------------------------------------------- */

static void npy_floats_are_used_as_they_are(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    double x[6] = {0.5, -1, 2, 3, 4, 260};
    int64_t y[3] = {0, 2, 1};
    float out[6];
    int32_t labels[3];
    int64_t index[3] = {2, 0, 1};
    for (int test = 0; test < 2; test++) {
        put_npy(p->set, test ? "test_x.npy" : "x.npy", "<f8", "3, 2", x, sizeof x);
        put_npy(p->set, test ? "test_y.npy" : "y.npy", "<i8", "3,", y, sizeof y);
    }
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    assert_int_equal(d.input.rank, 1);
    assert_int_equal(d.input.dim[0], 2);
    assert_int_equal(d.classes, 3);
    dataset_gather(&d, &d.train, &s, &quiet, index, 3, out, labels);
    float want[6] = {4, 260, 0.5f, -1, 2, 3};
    assert_memory_equal(out, want, sizeof want);
    assert_int_equal(labels[0], 1);
    assert_int_equal(labels[2], 2);
    dataset_release(&d);
}

static void npy_float_targets_need_a_network_with_mse(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    float x[4] = {1, 2, 3, 4}, y[4] = {1, 0, 0, 1};
    struct network net = {.input = {1, {2}}, .output = {1, {2}}, .loss = LOSS_MSE};
    for (int test = 0; test < 2; test++) {
        put_npy(p->set, test ? "test_x.npy" : "x.npy", "<f4", "2, 2", x, sizeof x);
        put_npy(p->set, test ? "test_y.npy" : "y.npy", "<f4", "2, 2", y, sizeof y);
    }
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    OK(dataset_check(&d, &s, &net, &err_));
    net.loss = LOSS_SOFTMAX_CROSS_ENTROPY;
    FAILS(dataset_check(&d, &s, &net, &err_), ERR_DATA, "needs whole-number labels");
    net.loss = LOSS_MSE;
    net.output.dim[0] = 3;
    FAILS(dataset_check(&d, &s, &net, &err_), ERR_DATA,
          "a target has 2 values, but the network has 3 outputs");
    dataset_release(&d);
}

static void npy_arrays_that_cannot_be_used_are_refused_with_the_reason(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_NPY);
    float x[4] = {1, 2, 3, 4};
    int32_t y[2] = {0, -3};
    put_npy(p->set, "x.npy", "<c8", "2, 2", x, sizeof x);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA, "values of the type '<c8': floats");
    put_npy(p->set, "x.npy", "<f4", "200, 2", x, sizeof x);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA, "should have 200 x 2 values");
    put_npy(p->set, "x.npy", "<f4", "2, 2", x, sizeof x - 1);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA, "but has 15 bytes");
    put_npy(p->set, "x.npy", "<f4", "1, 1, 2, 1, 2", x, sizeof x);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA,
          "has the shape (1, 1, 2, 1, 2), which cannot be used");
    put_npy(p->set, "x.npy", "<f4", "2, 2", x, sizeof x);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_NOT_FOUND, "no file 'y.npy'");
    put_npy(p->set, "y.npy", "<i4", "2,", y, sizeof y);
    FAILS(dataset_open(&d, &s, 1, p->root, &err_), ERR_DATA, "the label -3 at sample 1");
}

/* ---- all formats ----------------------------------------------------------------------------- */

static void bytes_are_normalised_by_255_or_by_mean_and_deviation(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    float x[SIDE * SIDE];
    int32_t y;
    int64_t index = 1;
    put_idx(p->set, false);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    dataset_gather(&d, &d.train, &s, &quiet, &index, 1, x, &y);
    assert_true(x[0] == 63.0f / 255.0f);
    s.normalize_unit = false;
    s.n_normalize = 1;
    s.mean[0] = 0.25f;
    s.deviation[0] = 0.5f;
    dataset_gather(&d, &d.train, &s, &quiet, &index, 1, x, &y);
    assert_true(x[0] == (63.0f / 255.0f - 0.25f) / 0.5f);
    dataset_release(&d);
}

static void labels_beyond_the_outputs_and_other_shapes_are_refused(void **state)
{
    struct place *p = *state;
    struct dataset d;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    struct network net = {
        .input = {3, {SIDE, SIDE, 1}}, .output = {1, {3}}, .loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    put_idx(p->set, false);
    OK(dataset_open(&d, &s, 1, p->root, &err_));
    FAILS(dataset_check(&d, &s, &net, &err_), ERR_DATA,
          "the largest label is 3, but the network has 3 outputs");
    net.output.dim[0] = 4;
    OK(dataset_check(&d, &s, &net, &err_));
    net.input = (struct shape){1, {SIDE * SIDE}}; /* one channel: the order is the same */
    OK(dataset_check(&d, &s, &net, &err_));
    net.input = (struct shape){3, {28, 28, 1}};
    FAILS(dataset_check(&d, &s, &net, &err_), ERR_DATA,
          "have the shape [3, 3, 1], the network's input is [28, 28, 1]");
    dataset_release(&d);
}

static void a_validation_share_leaves_the_training_samples_and_loses_none(void **state)
{
    struct place *p = *state;
    struct dataset whole, split, again;
    struct data_spec s = spec_of(CAT_FORMAT_IDX);
    int seen[256] = {0};
    put_idx(p->set, false);
    OK(dataset_open(&whole, &s, 1, p->root, &err_));
    s.validation = 0.25;
    OK(dataset_open(&split, &s, 1, p->root, &err_));
    OK(dataset_open(&again, &s, 1, p->root, &err_));
    assert_int_equal(split.train.samples, 15);
    assert_int_equal(split.test.samples, 5);
    assert_string_equal(split.digest, again.digest);
    for (int i = 0; i < TRAIN; i++) {
        const struct dataset_part *part = i < 15 ? &split.train : &split.test;
        int at = i < 15 ? i : i - 15;
        uint8_t x[SIDE * SIDE];
        dataset_copy(&split, part, at, 1, x);
        seen[x[0]]++;
        seen[((uint8_t *)whole.train.x)[i * SIDE * SIDE]]--;
    }
    for (int v = 0; v < 256; v++) {
        assert_int_equal(seen[v], 0);
    }
    dataset_release(&again);
    OK(dataset_peek(&again, &s, p->root, &err_));
    assert_int_equal(again.train.samples, 15);
    dataset_release(&whole);
    dataset_release(&split);
    dataset_release(&again);
}

static void glyphs_are_the_same_for_the_same_seed_and_others_for_another(void **state)
{
    struct dataset a, b, c;
    struct data_spec s = spec_of(CAT_FORMAT_GLYPHS);
    (void)state;
    OK(dataset_open(&a, &s, 1, "", &err_));
    OK(dataset_open(&b, &s, 1, "", &err_));
    OK(dataset_open(&c, &s, 2, "", &err_));
    assert_string_equal(a.digest, b.digest);
    assert_string_not_equal(a.digest, c.digest);
    assert_int_equal(a.classes, 10);
    assert_int_equal(a.train.samples, 50);
    assert_int_equal(a.test.samples, 20);
    assert_memory_not_equal(a.train.x, a.test.x, 784 * 20);
    dataset_release(&a);
    dataset_release(&b);
    dataset_release(&c);
}

static void more_glyphs_do_not_change_the_first_ones(void **state)
{
    struct dataset few, many;
    struct data_spec s = spec_of(CAT_FORMAT_GLYPHS);
    (void)state;
    OK(dataset_open(&few, &s, 1, "", &err_));
    s.samples = 200;
    OK(dataset_open(&many, &s, 1, "", &err_));
    assert_memory_equal(few.train.x, many.train.x, 784 * 50);
    dataset_release(&few);
    dataset_release(&many);
}

int main(void)
{
#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST_(a_single_file_that_links_outside_is_refused_too),
        TEST_(a_missing_data_set_is_named_with_a_way_out),
        TEST_(every_data_set_beneath_the_roots_is_listed),
        TEST_(idx_files_read_the_same_packed_or_not),
        TEST_(a_file_that_ends_early_is_named_with_the_byte),
        TEST_(a_header_that_promises_more_than_the_file_can_hold_allocates_nothing),
        TEST_(labels_of_another_count_are_refused),
        TEST_(a_file_of_another_kind_is_refused_with_its_first_bytes),
        TEST_(a_peek_knows_counts_and_classes_without_the_pictures),
        TEST_(npy_floats_are_used_as_they_are),
        TEST_(npy_float_targets_need_a_network_with_mse),
        TEST_(npy_arrays_that_cannot_be_used_are_refused_with_the_reason),
        TEST_(bytes_are_normalised_by_255_or_by_mean_and_deviation),
        TEST_(labels_beyond_the_outputs_and_other_shapes_are_refused),
        TEST_(a_validation_share_leaves_the_training_samples_and_loses_none),
        TEST_(glyphs_are_the_same_for_the_same_seed_and_others_for_another),
        TEST_(more_glyphs_do_not_change_the_first_ones),
    };
    return cmocka_run_group_tests_name("data sets", tests, NULL, NULL);
}
