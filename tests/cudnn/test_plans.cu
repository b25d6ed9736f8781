/* kernels/cuda/plan.cu with the real cuDNN, without a GPU: cuDNN lists engines and makes plans for
 * a GPU that it knows by its properties alone (h200.json, written from data sheets and the names
 * that cuDNN asks for). What is shown here is that our graphs are what cuDNN pieces, that every
 * convolution of ours has engines in every precision, and that an engine's knobs can be kept and
 * used again. Nothing is run.
 *
 * Built where nvcc and cuDNN are.
 */
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/plan.h"

extern "C" {
#include <cmocka.h>
}

enum { MOST = 16 };
static const char *const precisions[] = {"fp32", "tf32", "bf16"}, *const passes[] = {
                                                                      "forward", "data", "filter"};

/* Of the presets: lenet5, cifar-quick, resnet20, resnet18; and odd ones. batch, side, channels,
 * filters, kernel, stride, padding */
static const int shapes[][7] = {
    {128, 28, 1, 32, 5, 1, 2},   {128, 14, 32, 64, 5, 1, 2},  {128, 32, 3, 32, 5, 1, 2},
    {128, 16, 32, 32, 5, 1, 2},  {128, 8, 32, 64, 5, 1, 2},   {128, 32, 3, 16, 3, 1, 1},
    {128, 32, 16, 16, 3, 1, 1},  {128, 32, 16, 32, 3, 2, 1},  {128, 32, 16, 32, 1, 2, 0},
    {128, 16, 32, 32, 3, 1, 1},  {128, 16, 32, 64, 3, 2, 1},  {128, 8, 64, 64, 3, 1, 1},
    {1024, 32, 16, 16, 3, 1, 1}, {1024, 8, 64, 64, 3, 1, 1},  {256, 32, 3, 64, 3, 1, 1},
    {256, 32, 64, 64, 3, 1, 1},  {256, 32, 64, 128, 3, 2, 1}, {256, 32, 64, 128, 1, 2, 0},
    {256, 8, 256, 512, 3, 2, 1}, {256, 4, 512, 512, 3, 1, 1}, {8, 9, 5, 3, 3, 1, 1},
    {4, 7, 3, 260, 1, 1, 0},     {16, 11, 6, 7, 4, 3, 2},     {1, 5, 1, 1, 5, 1, 0},
};

static struct plan_shape shape_of(const int *s, int batch)
{
    int out = (s[1] + 2 * s[6] - s[4]) / s[5] + 1;
    return {batch, {s[1], s[1], s[2]}, {out, out, s[3]}, {s[4], s[4]}, {s[5], s[5]}, {s[6], s[6]},
            false};
}

static std::string name_of(const int *s, int precision, int pass)
{
    char text[200];
    snprintf(text, sizeof(text), "%d images of %dx%dx%d, %d filters of %d, stride %d, %s, %s", s[0],
             s[1], s[1], s[2], s[3], s[4], s[5], precisions[precision], passes[pass]);
    return text;
}

static cudnnBackendDescriptor_t h200(void)
{
    static cudnnBackendDescriptor_t properties;
    static char text[4000];
    if (properties) {
        return properties;
    }
    FILE *file = fopen("tests/cudnn/h200.json", "r");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnBackendSetAttribute(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                              CUDNN_TYPE_CHAR, (int64_t)n, text),
                     CUDNN_STATUS_SUCCESS);
    if (cudnnBackendFinalize(properties) != CUDNN_STATUS_SUCCESS) {
        cudnnGetLastErrorString(text, sizeof(text));
        fail_msg("cuDNN %zu pieces to know more of a GPU: %s", cudnnGetVersion(), text);
    }
    return properties;
}

static void describe(struct plan_graph *g, const int *s, int batch, int precision, int pass,
                     bool adds = false)
{
    struct plan_shape shape = shape_of(s, batch);
    struct err e = {};
    shape.adds = adds;
    if (plan_describe(g, (enum plan_pass)pass, &shape, (enum cuda_precision)precision, &e) < 0) {
        fail_msg("%s: %s", name_of(s, precision, pass).c_str(), e.message);
    }
}

static std::vector<struct cuda_engine> engines_of(const struct plan_graph *g, const int *s,
                                                  int precision, int pass)
{
    std::vector<struct cuda_engine> list(MOST);
    struct plan plans[MOST];
    struct err e = {};
    int n = plan_engines(h200(), g, (enum cuda_precision)precision, list.data(), plans, MOST, &e);
    if (n < 1 || n > MOST) {
        fail_msg("%s: %s", name_of(s, precision, pass).c_str(), e.message);
    }
    list.resize((size_t)n);
    return list;
}

static int make(const struct plan_graph *g, int precision, const struct cuda_engine *engine,
                struct plan *p)
{
    struct err e = {};
    int rc = plan_make(p, h200(), g, (enum cuda_precision)precision, engine, &e);
    assert_true(rc == 0 || strlen(e.message) > 20);
    return rc;
}

/* Every engine that is listed: f(shape, precision, pass, graph, engine). */
template <typename F> static void each_engine(F f)
{
    for (const int *s : shapes) {
        for (int i = 0; i < 9; i++) {
            int precision = i / 3, pass = i % 3;
            struct plan_graph g;
            describe(&g, s, s[0], precision, pass);
            for (const struct cuda_engine &engine : engines_of(&g, s, precision, pass)) {
                f(s, precision, pass, &g, &engine);
            }
        }
    }
}

static void every_convolution_has_engines_that_make_plans(void **state)
{
    each_engine([](const int *s, int precision, int pass, const struct plan_graph *g,
                   const struct cuda_engine *engine) {
        struct plan p;
        assert_int_equal(make(g, precision, engine, &p), 0);
        assert_true(p.workspace <= PLAN_WIDEST);
    });
}

static void count(int made, int asked, const char *of)
{
    print_message("%d of %d %s\n", made, asked, of);
    assert_true(made > 0.98 * asked);
}

/* As a minibatch changes within a power of two. */
static void an_engine_and_its_knobs_make_a_plan_for_other_minibatches(void **state)
{
    int made = 0, asked = 0;
    each_engine([&](const int *s, int precision, int pass, const struct plan_graph *g,
                    const struct cuda_engine *engine) {
        for (int batch : {s[0] * 3 / 4, s[0] / 2 + 1, s[0] - 1}) {
            struct plan_graph other;
            struct plan p;
            describe(&other, s, batch > 0 ? batch : 1, precision, pass);
            made += make(&other, precision, engine, &p) == 0;
            asked++;
        }
    });
    count(made, asked, "plans for another minibatch");
}

/* As where a value has several readers, and so several gradients that are added up. */
static void an_engine_makes_a_plan_that_adds_too(void **state)
{
    int made = 0, asked = 0;
    each_engine([&](const int *s, int precision, int pass, const struct plan_graph *g,
                    const struct cuda_engine *engine) {
        struct plan_graph adding;
        struct plan p;
        if (pass == PLAN_DATA) {
            describe(&adding, s, s[0], precision, pass, true);
            made += make(&adding, precision, engine, &p) == 0;
            asked++;
        }
    });
    count(made, asked, "plans that add");
}

static void fp32_takes_no_tensor_cores_whoever_says_so(void **state)
{
    int refused = 0;
    for (int pass = 0; pass < 3; pass++) {
        struct plan_graph g;
        describe(&g, shapes[11], 128, CUDA_TF32, pass);
        for (const struct cuda_engine &engine : engines_of(&g, shapes[11], CUDA_TF32, pass)) {
            struct plan p;
            refused += make(&g, CUDA_FP32, &engine, &p) < 0;
        }
    }
    assert_true(refused > 6);
}

static void engines_and_knobs_that_there_are_not_are_errors(void **state)
{
    struct plan_graph g;
    describe(&g, shapes[6], 128, CUDA_BF16, 0);
    struct cuda_engine good = engines_of(&g, shapes[6], CUDA_BF16, 0)[0],
                       bad[4] = {good, good, good, good};
    assert_true(good.n_knobs > 0);
    bad[0].index = 999;
    bad[1].knobs[0][0] = 9999;
    bad[2].knobs[0][1] = 1 << 30;
    bad[3].knobs[0][0] = bad[3].knobs[good.n_knobs - 1][0] + 1000;
    for (const struct cuda_engine &engine : bad) {
        struct plan p;
        assert_true(make(&g, CUDA_BF16, &engine, &p) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_convolution_has_engines_that_make_plans),
        cmocka_unit_test(an_engine_and_its_knobs_make_a_plan_for_other_minibatches),
        cmocka_unit_test(an_engine_makes_a_plan_that_adds_too),
        cmocka_unit_test(fp32_takes_no_tensor_cores_whoever_says_so),
        cmocka_unit_test(engines_and_knobs_that_there_are_not_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
