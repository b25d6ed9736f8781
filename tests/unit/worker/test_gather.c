/* Augmentation and normalisation: random choices depend only on (seed, epoch, index of the sample)
 * and are uniform, and every value comes from the pixel that shift, padding, window and mirror
 * determine. */
#include "fixture.h"

#include <math.h>

#include "worker/data/loader.h"

enum { HEIGHT = 6, WIDTH = 5, CHANNELS = 2, SAMPLES = 40, EACH = HEIGHT * WIDTH * CHANNELS };

/* Byte of sample i: all differ within a sample, and none is 0. */
static uint8_t value(int i, int row, int column, int channel)
{
    return (uint8_t)(1 + (i * 3 + (row * WIDTH + column) * CHANNELS + channel) % 250);
}

static struct dataset make(bool bytes)
{
    struct dataset d = {.input = {3, {HEIGHT, WIDTH, CHANNELS}},
                        .x_bytes = bytes,
                        .y_labels = true,
                        .classes = SAMPLES};
    d.train.samples = d.test.samples = SAMPLES;
    d.train.x = malloc(SAMPLES * EACH * sizeof(float));
    d.train.y = malloc(SAMPLES * sizeof(int32_t));
    for (int i = 0; i < SAMPLES; i++) {
        ((int32_t *)d.train.y)[i] = i;
        for (int j = 0; j < EACH; j++) {
            uint8_t v = value(i, j / CHANNELS / WIDTH, j / CHANNELS % WIDTH, j % CHANNELS);
            if (bytes) {
                ((uint8_t *)d.train.x)[i * EACH + j] = v;
            } else {
                ((float *)d.train.x)[i * EACH + j] = (float)v / 255.0f;
            }
        }
    }
    d.test.x = d.train.x;
    d.test.y = d.train.y;
    return d;
}

static void drop(struct dataset *d)
{
    free(d->train.x);
    free(d->train.y);
}

static const struct visit training = {.training = true, .seed = 5, .epoch = 2};

static void gather_one(const struct dataset *d, const struct data_spec *s, const struct visit *v,
                       int64_t i, float *x)
{
    int32_t y;
    dataset_gather(d, &d->train, s, v, &i, 1, x, &y);
    assert_int_equal(y, i);
}

/* Does the window show the picture moved by (dy, dx), with zeros (or the edge) outside? Then the
 * window's row r shows row r + dy. */
static bool shows(const float *x, int h, int w, int i, int dy, int dx, bool mirror, bool edge)
{
    for (int r = 0; r < h; r++) {
        for (int c = 0; c < w; c++) {
            int row = r + dy, column = (mirror ? w - 1 - c : c) + dx;
            bool inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH;
            if (edge) {
                row = row < 0 ? 0 : row >= HEIGHT ? HEIGHT - 1 : row;
                column = column < 0 ? 0 : column >= WIDTH ? WIDTH - 1 : column;
            }
            for (int k = 0; k < CHANNELS; k++) {
                float want = inside || edge ? (float)value(i, row, column, k) / 255.0f : 0;
                if (x[(r * w + c) * CHANNELS + k] != want) {
                    return false;
                }
            }
        }
    }
    return true;
}

static void nothing_changes_in_evaluation_but_for_the_window_in_the_middle(void **state)
{
    (void)state;
    struct data_spec s = {.normalize_unit = true, .augment = {.flip = 1, .shift = 2}};
    struct visit quiet = {.training = false, .seed = 5};
    float x[EACH];
    for (int bytes = 0; bytes < 2; bytes++) {
        struct dataset d = make(bytes);
        gather_one(&d, &s, &quiet, 3, x);
        assert_true(shows(x, HEIGHT, WIDTH, 3, 0, 0, false, false));
        struct data_spec window = {
            .normalize_unit = true,
            .augment = {.flip = 1, .crop = true, .crop_size = {4, 3}, .crop_padding = 2}};
        gather_one(&d, &window, &quiet, 3, x);
        assert_true(shows(x, 4, 3, 3, 1, 1, false, false));
        drop(&d);
    }
}

static void flips_mirror_the_share_that_was_asked_for(void **state)
{
    (void)state;
    struct dataset d = make(true);
    struct data_spec s = {.normalize_unit = true, .augment = {.flip = 0.25}};
    float x[EACH];
    int mirrored = 0;
    for (int epoch = 0; epoch < 100; epoch++) {
        struct visit v = {true, 5, epoch, NULL};
        for (int i = 0; i < SAMPLES; i++) {
            gather_one(&d, &s, &v, i, x);
            bool is = shows(x, HEIGHT, WIDTH, i, 0, 0, true, false);
            assert_true(is || shows(x, HEIGHT, WIDTH, i, 0, 0, false, false));
            mirrored += is;
        }
    }
    assert_in_range(mirrored, 1000 - 120, 1000 + 120); /* 4.4 standard deviations of a fixed draw */
    s.augment.flip = 1;
    gather_one(&d, &s, &training, 7, x);
    assert_true(shows(x, HEIGHT, WIDTH, 7, 0, 0, true, false));
    drop(&d);
}

static void shifts_reach_every_place_and_fill_with_zeros_or_the_edge(void **state)
{
    (void)state;
    for (int edge = 0; edge < 2; edge++) {
        struct dataset d = make(edge);
        struct data_spec s = {.normalize_unit = true, .augment = {.shift = 2, .shift_edge = edge}};
        int seen[5][5] = {{0}};
        float x[EACH];
        for (int epoch = 0; epoch < 25; epoch++) {
            struct visit v = {true, 5, epoch, NULL};
            for (int i = 0; i < SAMPLES; i++) {
                int found = 0;
                gather_one(&d, &s, &v, i, x);
                for (int dy = -2; dy <= 2; dy++) {
                    for (int dx = -2; dx <= 2; dx++) {
                        if (shows(x, HEIGHT, WIDTH, i, dy, dx, false, edge)) {
                            seen[dy + 2][dx + 2]++;
                            found++;
                        }
                    }
                }
                assert_int_equal(found, 1);
            }
        }
        for (int k = 0; k < 25; k++) {
            assert_in_range(seen[k / 5][k % 5], 15, 70); /* 40 on average */
        }
        drop(&d);
    }
}

static void windows_reach_every_place_of_the_padded_picture(void **state)
{
    (void)state;
    struct dataset d = make(true);
    struct data_spec s = {
        .normalize_unit = true,
        .augment = {.crop = true, .crop_size = {5, 4}, .crop_padding = 1, .flip = 0.5}};
    int seen[4][4] = {{0}}, mirrored = 0;
    float x[EACH];
    for (int epoch = 0; epoch < 40; epoch++) {
        struct visit v = {true, 9, epoch, NULL};
        for (int i = 0; i < SAMPLES; i++) {
            int found = 0;
            gather_one(&d, &s, &v, i, x);
            for (int k = 0; k < 32; k++) {
                int dy = k / 8 - 1, dx = k / 2 % 4 - 1;
                if (shows(x, 5, 4, i, dy, dx, k % 2, false)) {
                    seen[dy + 1][dx + 1]++;
                    mirrored += k % 2;
                    found++;
                }
            }
            assert_int_equal(found, 1);
        }
    }
    for (int k = 0; k < 16; k++) {
        assert_in_range(seen[k / 4][k % 4], 60, 145); /* 100 on average */
    }
    assert_in_range(mirrored, 700, 900);
    drop(&d);
}

static void what_is_random_depends_on_seed_epoch_and_sample_never_on_rank_or_order(void **state)
{
    (void)state;
    struct dataset d = make(true);
    struct data_spec s = {
        .normalize_unit = true,
        .augment = {.shift = 2, .flip = 0.5, .crop = true, .crop_size = {5, 5}, .crop_padding = 2}};
    enum { W = 5 * 5 * CHANNELS };
    float forward[SAMPLES * W], x[W], *backward = malloc(SAMPLES * W * sizeof(float));
    int64_t up[SAMPLES], down[SAMPLES];
    int32_t y[SAMPLES];
    int others = 0;
    for (int i = 0; i < SAMPLES; i++) {
        up[i] = i;
        down[i] = SAMPLES - 1 - i;
    }
    dataset_gather(&d, &d.train, &s, &training, up, SAMPLES, forward, y);
    dataset_gather(&d, &d.train, &s, &training, down, SAMPLES, backward, y);
    for (int i = 0; i < SAMPLES; i++) {
        assert_memory_equal(forward + i * W, backward + (SAMPLES - 1 - i) * W, sizeof x);
        gather_one(&d, &s, &training, i, x);
        assert_memory_equal(forward + i * W, x, sizeof x);
        struct visit next = training, seed = training;
        next.epoch++;
        seed.seed++;
        gather_one(&d, &s, &next, i, x);
        others += memcmp(forward + i * W, x, sizeof x) != 0;
        gather_one(&d, &s, &seed, i, x);
        others += memcmp(forward + i * W, x, sizeof x) != 0;
    }
    assert_true(others > 2 * SAMPLES * 9 / 10);
    free(backward);
    drop(&d);
}

static void the_loader_gives_augmented_windows_for_training_and_the_middle_for_tests(void **state)
{
    (void)state;
    struct dataset d = make(true);
    struct data_spec s = {.normalize_unit = true, .augment = {.crop = true, .crop_size = {4, 3}}};
    struct loader l;
    struct dev_input in = {0};
    struct slice slice = {3, 8, 4};
    float x[EACH];
    OK(loader_start(&l, &d, &s, 5, 2, true, &err_));
    loader_hint(&l, &slice);
    OK(loader_get(&l, &slice, &in, &err_));
    struct visit v = {true, 5, 3, NULL};
    for (int i = 0; i < 4; i++) {
        gather_one(&d, &s, &v, in.sample[i], x);
        assert_memory_equal(in.x + i * 24, x, 24 * sizeof(float));
    }
    OK(loader_get_test(&l, 6, 3, &in, &err_));
    for (int i = 0; i < 3; i++) {
        assert_true(shows(in.x + i * 24, 4, 3, 6 + i, 1, 1, false, false));
    }
    loader_stop(&l);
    drop(&d);
}

static void channels_have_their_own_mean_and_deviation_and_padding_is_black(void **state)
{
    (void)state;
    for (int bytes = 0; bytes < 2; bytes++) {
        struct dataset d = make(bytes);
        struct data_spec s = {.n_normalize = 2,
                              .mean = {0.5f, 0.25f},
                              .deviation = {0.5f, 2.0f},
                              .augment = {.shift = 5}};
        float x[EACH];
        int black = 0;
        for (int i = 0; i < SAMPLES; i++) {
            gather_one(&d, &s, &training, i, x);
            for (int j = 0; j < EACH; j++) {
                assert_true(x[j] >= (j % 2 ? -0.125f : -1.0f));
                black += x[j] == (j % 2 ? -0.125f : -1.0f);
            }
        }
        assert_true(black > SAMPLES * 4);
        s.augment.shift = 0;
        gather_one(&d, &s, &training, 3, x);
        assert_true(x[5] == ((float)value(3, 0, 2, 1) / 255.0f - 0.25f) / 2.0f);
        s.n_normalize = 1; /* for all channels */
        gather_one(&d, &s, &training, 3, x);
        assert_true(x[5] == ((float)value(3, 0, 2, 1) / 255.0f - 0.5f) / 0.5f);
        drop(&d);
    }
}

static void a_picture_can_lose_its_own_mean_and_deviation(void **state)
{
    (void)state;
    struct dataset d = make(true);
    struct data_spec s = {.normalize_picture = true};
    float x[EACH];
    double sum = 0, squares = 0;
    gather_one(&d, &s, &training, 3, x);
    for (int j = 0; j < EACH; j++) {
        sum += (double)x[j];
        squares += (double)x[j] * (double)x[j];
    }
    assert_true(fabs(sum / EACH) < 1e-6);
    assert_true(fabs(squares / EACH - 1) < 1e-5);
    memset(d.train.x, 77, EACH); /* one colour */
    gather_one(&d, &s, &training, 0, x);
    assert_true(fabsf(x[9]) < 1e-5f);
    drop(&d);
}

static void windows_and_normalisation_that_do_not_fit_the_data_are_refused(void **state)
{
    (void)state;
    struct dataset d = make(true), vector = {.input = {1, {30}}, .y_labels = true, .classes = 2};
    struct network net = {.input = {3, {4, 4, CHANNELS}}, .output = {1, {SAMPLES}}};
    struct data_spec s = {.normalize_unit = true};
    FAILS(dataset_check(&d, &s, &net, &err_), ERR_DATA,
          "have the shape [6, 5, 2], the network's input is [4, 4, 2]");
    assert_true(strstr(err_.hint, "crop") != NULL);
    s.augment = (struct augment_spec){.crop = true, .crop_size = {4, 4}};
    OK(dataset_check(&d, &s, &net, &err_));
    s.augment.crop_size[0] = net.input.dim[0] = 9;
    s.augment.crop_padding = 1;
    FAILS(dataset_check(&d, &s, &net, &err_), ERR_DATA,
          "a window of 9 x 4 is larger than the pictures, 6 x 5 with a padding of 1");
    FAILS(dataset_check(&vector, &s, &net, &err_), ERR_DATA,
          "'augment' is for pictures, but the samples have the shape [30]");
    s = (struct data_spec){.n_normalize = 3};
    FAILS(dataset_check(&d, &s, &net, &err_), ERR_DATA,
          "'normalize' has 3 numbers per sample, the samples have 2 channels");
    drop(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changes_in_evaluation_but_for_the_window_in_the_middle),
        cmocka_unit_test(flips_mirror_the_share_that_was_asked_for),
        cmocka_unit_test(shifts_reach_every_place_and_fill_with_zeros_or_the_edge),
        cmocka_unit_test(windows_reach_every_place_of_the_padded_picture),
        cmocka_unit_test(what_is_random_depends_on_seed_epoch_and_sample_never_on_rank_or_order),
        cmocka_unit_test(the_loader_gives_augmented_windows_for_training_and_the_middle_for_tests),
        cmocka_unit_test(channels_have_their_own_mean_and_deviation_and_padding_is_black),
        cmocka_unit_test(a_picture_can_lose_its_own_mean_and_deviation),
        cmocka_unit_test(windows_and_normalisation_that_do_not_fit_the_data_are_refused),
    };
    return cmocka_run_group_tests_name("gather", tests, NULL, NULL);
}
