/* Samples that the device keeps: gathered there they are, bit for bit, what the host would pass,
 * whole or as windows that are shifted, padded, mirrored. */
#include "tests/cuda/judge.h"

#include "kernels/samples.h"

enum { SAMPLES = 37, HEIGHT = 7, WIDTH = 6, WIDE = 8, CHANNELS = 3 };

static int stored_width = WIDTH;
static uint8_t bytes[SAMPLES * HEIGHT * WIDE * CHANNELS];
static float table[CHANNELS][256];

static struct dev_source source_of(int height, int width, int tables)
{
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)rng_below(1, 2, i, 256);
    }
    for (int c = 0; c < CHANNELS; c++) {
        for (int v = 0; v < 256; v++) {
            table[c][v] =
                ((float)v / 255.0f - 0.1f * (float)(c + 1)) / 0.7f; /* a pixel of 0 is no 0 */
        }
    }
    return (struct dev_source){.x = bytes,
                               .samples = SAMPLES,
                               .stored = {3, {HEIGHT, stored_width, CHANNELS}},
                               .out = {3, {height, width, CHANNELS}},
                               .tables = tables,
                               .table = table[0]};
}

/* What the host would hand in. */
static float *gathered(const struct dev_source *s, const int64_t *sample,
                       const struct dev_view *view, int count)
{
    int height = s->out.dim[0], width = s->out.dim[1];
    float *x = calloc((size_t)(count * height * width * CHANNELS), sizeof(float)), *to = x;
    for (int i = 0; i < count; i++) {
        static const struct dev_view whole;
        const struct dev_view *v = view ? &view[i] : &whole;
        for (int y = 0; y < height; y++) {
            for (int k = 0; k < width; k++) {
                int row = view_source(v, 0, y, HEIGHT),
                    column = view_source(v, 1, v->mirror ? width - 1 - k : k, stored_width);
                for (int c = 0; c < CHANNELS; c++) {
                    bool there = row != VIEW_OUTSIDE && column != VIEW_OUTSIDE;
                    uint8_t byte =
                        there ? bytes[((sample[i] * HEIGHT + row) * stored_width + column) *
                                          CHANNELS +
                                      c]
                              : 0;
                    *to++ = table[s->tables == 1 ? 0 : c][byte];
                }
            }
        }
    }
    return x;
}

static void draw(int64_t *sample, struct dev_view *view, int count, uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        uint64_t n = (uint64_t)i;
        sample[i] = (int64_t)rng_below(seed, 1, n, SAMPLES);
        view[i] = (struct dev_view){
            .at = {(int)rng_below(seed, 2, n, 5) - 2, (int)rng_below(seed, 3, n, 5) - 2},
            .shift = {(int)rng_below(seed, 4, n, 5) - 2, (int)rng_below(seed, 5, n, 5) - 2},
            .mirror = (int)rng_below(seed, 6, n, 2),
            .edge = (int)rng_below(seed, 7, n, 2)};
    }
}

static void check_kept(int height, int width, int tables, bool views, const char *precision)
{
    enum { BATCH = 9 };
    char model[300];
    snprintf(model, sizeof(model),
             "{\"input\": [%d, %d, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 4, "
             "\"kernel\": 2},"
             "{\"type\": \"batch_norm\"}, {\"type\": \"dropout\"}, "
             "{\"type\": \"dense\", \"units\": 5}]}",
             height, width);
    struct judge *j = judge_new(model, NULL, precision);
    struct dev_source from = source_of(height, width, tables);
    struct dev_samples *kept = j->gpu->ops->samples->make(j->gpu, &from, &j->e);
    struct dev_program *p = judge_program(j, &j->on_gpu, BATCH);
    int32_t labels[BATCH] = {0, 1, 2, 3, 4, 0, 1, 2, 3};
    size_t outputs = BATCH * 5, n = j->net.n_params;
    float *a = calloc(outputs, sizeof(float)), *b = calloc(outputs, sizeof(float)),
          *grads = calloc(n, sizeof(float));
    assert_non_null(kept);
    for (int count = BATCH; count > 0;
         count -= 4) { /* fewer after more: what was there must be gone */
        int64_t sample[BATCH];
        struct dev_view view[BATCH];
        draw(sample, view, count, (uint64_t)count);
        float *x = gathered(&from, sample, views ? view : NULL, count);
        struct dev_input in = {.x = x,
                               .y = labels,
                               .sample = sample,
                               .count = count,
                               .epoch = 1,
                               .seed = 3,
                               .training = true},
                         there = in;
        there.x = NULL;
        there.from = kept;
        there.view = views ? view : NULL;
        struct dev_result r = judge_compute(j, p, &in, a);
        judge_fetch(j, DEV_GRADS);
        memcpy(grads, j->on_gpu.host[DEV_GRADS], n * sizeof(float));
        struct dev_result s = judge_compute(j, p, &there, b);
        judge_fetch(j, DEV_GRADS);
        assert_true(r.loss == s.loss && r.correct == s.correct);
        assert_memory_equal(a, b, (size_t)count * 5 * sizeof(float));
        assert_memory_equal(grads, j->on_gpu.host[DEV_GRADS], n * sizeof(float));
        free(x);
    }
    free(a);
    free(b);
    free(grads);
    j->gpu->ops->program_free(p);
    j->gpu->ops->samples->free(kept);
    judge_free(j);
}

/* What was named before is not read: there it may be no sample any more. */
static void places_beyond_the_minibatch_are_not_read(void **state)
{
    enum { BATCH = 9 };
    struct judge *j = judge_new(
        "{\"input\": [7, 6, 3], \"layers\": [{\"type\": \"dense\", \"units\": 5}]}", NULL, "fp32");
    struct dev_program *p = judge_program(j, &j->on_gpu, BATCH);
    int64_t sample[BATCH] = {0, 1, 2, 3, 5, 8, 13, 21, 34};
    int32_t labels[BATCH] = {0};
    for (int count = BATCH; count > 0; count -= BATCH - 1) {
        struct dev_source from = source_of(HEIGHT, WIDTH, 1);
        from.samples = count == BATCH ? SAMPLES : 1;
        struct dev_samples *kept = j->gpu->ops->samples->make(j->gpu, &from, &j->e);
        struct dev_input in = {
            .from = kept, .y = labels, .sample = sample, .count = count, .training = true};
        judge_compute(j, p, &in, NULL);
        j->gpu->ops->samples->free(kept);
    }
    j->gpu->ops->program_free(p);
    judge_free(j);
}

static void kept_samples_are_those_of_the_host(void **state)
{
    check_kept(HEIGHT, WIDTH, 1, false, "fp32");
    check_kept(HEIGHT, WIDTH, CHANNELS, false, "bf16");
    check_kept(HEIGHT, WIDTH, CHANNELS, true, "fp32");
    check_kept(5, 4, 1, true, "fp32");
    check_kept(3, 6, CHANNELS, true, "bf16");
    stored_width = WIDE; /* a sample has a multiple of four numbers */
    check_kept(HEIGHT, WIDE, CHANNELS, false, "fp32");
    check_kept(HEIGHT, WIDE, 1, true, "fp32");
    stored_width = WIDTH;
}

static void a_place_beyond_the_samples_is_refused(void **state)
{
    struct judge *j = judge_new(
        "{\"input\": [7, 6, 3], \"layers\": [{\"type\": \"dense\", \"units\": 5}]}", NULL, "fp32");
    struct dev_source from = source_of(HEIGHT, WIDTH, 1);
    struct dev_samples *kept = j->gpu->ops->samples->make(j->gpu, &from, &j->e);
    struct dev_program *p = judge_program(j, &j->on_gpu, 2);
    int64_t sample[2] = {0, SAMPLES};
    int32_t labels[2] = {0, 1};
    struct dev_result r;
    struct dev_input in = {
        .from = kept, .y = labels, .sample = sample, .count = 2, .training = true};
    assert_int_equal(j->gpu->ops->compute(p, &in, &r, NULL, NULL, NULL, &j->e), -ERR_INTERNAL);
    sample[1] = -1;
    assert_int_equal(j->gpu->ops->compute(p, &in, &r, NULL, NULL, NULL, &j->e), -ERR_INTERNAL);
    j->gpu->ops->program_free(p);
    j->gpu->ops->samples->free(kept);
    judge_free(j);
}

static void samples_that_do_not_fit_or_fail_on_the_way_leave_nothing(void **state)
{
    const struct standin_control *c = judge_need_control();
    struct err e = {0};
    struct device *dev = dev_open(judge_device(), &e);
    struct dev_source from = source_of(HEIGHT, WIDTH, 1);
    long before = c->live();
    assert_non_null(dev);
    c->set_memory(1000);
    assert_null(dev->ops->samples->make(dev, &from, &e));
    assert_int_equal(e.code, ERR_MEMORY);
    c->set_memory((size_t)4 << 30);
    c->fail_at(0);
    struct dev_samples *kept = dev->ops->samples->make(dev, &from, &e);
    long calls = c->calls();
    assert_non_null(kept);
    dev->ops->samples->free(kept);
    for (long n = 1; n <= calls; n++) {
        c->fail_at(n);
        assert_null(dev->ops->samples->make(dev, &from, &e));
        assert_non_null(strstr(e.message, "37 samples"));
        assert_int_equal(c->live(), before);
    }
    c->fail_at(0);
    dev_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_samples_are_those_of_the_host),
        cmocka_unit_test(places_beyond_the_minibatch_are_not_read),
        cmocka_unit_test(a_place_beyond_the_samples_is_refused),
        cmocka_unit_test(samples_that_do_not_fit_or_fail_on_the_way_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
