/* Device buffers of an exchange: blocks in them are in the flat block's order, scaled and added bit
 * for bit as on the host. tests/integration/test_gpu.py shows with mpirun that ranks with and
 * without such buffers get along.
 *
 * Downloads and uploads of the tests wait for all streams; an MPI waits for none. So where the
 * device is the host build, tests read and write the memory as an MPI would, at once, and the
 * stand-ins keep it accessible.
 */
#include "tests/cuda/judge.h"

static const char model[] =
    "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, \"kernel\": 3},"
    "{\"type\": \"batch_norm\"}, {\"type\": \"relu\"},"
    "{\"type\": \"dense\", \"units\": 9}, {\"type\": \"tanh\"}, "
    "{\"type\": \"dense\", \"units\": 4}]}";

struct ring {
    struct judge *j;
    const struct dev_memory_ops *memory;
    float *buffer;
};

static struct ring open_ring_in(const char *precision)
{
    struct ring r = {.j = judge_new(model, NULL, precision)};
    r.memory = r.j->gpu->ops->memory;
    assert_non_null(r.memory);
    r.buffer = r.memory->alloc(r.j->gpu, r.j->net.n_params, false, &r.j->e);
    assert_non_null(r.buffer);
    judge_ok(r.j, r.memory->enter(r.j->gpu, &r.j->e));
    return r;
}

static struct ring open_ring(void)
{
    return open_ring_in("fp32");
}

static void close_ring(struct ring *r)
{
    r->memory->free(r->j->gpu, r->buffer, false);
    judge_free(r->j);
}

static void download(struct ring *r, float *to)
{
    struct judge_memory m = {r->buffer};
    if (judge_control()) {
        memcpy(to, r->buffer, r->j->net.n_params * sizeof(float));
        return;
    }
    judge_download(&m, 0, to, r->j->net.n_params * sizeof(float));
}

static const float share = 0.3f;
static float *marked; /* gradients by bucket, as the host got them: times share */

static void fetch_both(void *ctx, int bucket)
{
    struct ring *r = ctx;
    struct judge *j = r->j;
    size_t n = j->net.n_params, first = bucket == 0 ? n / 2 : 0,
           count = bucket == 0 ? n - n / 2 : n / 2;
    if (bucket > 1) {
        return;
    }
    judge_ok(j, j->gpu->ops->fetch(&j->on_gpu, DEV_GRADS, first, count, &j->e));
    judge_ok(
        j, r->memory->fetch(&j->on_gpu, DEV_GRADS, first, count, share, r->buffer + first, &j->e));
    for (size_t i = first; i < first + count; i++) {
        marked[i] = j->on_gpu.host[DEV_GRADS][i] * share;
    }
}

static void gradients_are_scaled_there_as_on_the_host_and_come_back(void **state)
{
    struct ring r = open_ring();
    struct judge *j = r.j;
    size_t n = j->net.n_params;
    struct dev_program *p = j->gpu->ops->program_new(&j->on_gpu, 4, 100, &j->e);
    struct dev_input in = ref_input(&j->net, 4, 3);
    struct dev_result result;
    float *there = calloc(n, sizeof(float));
    marked = calloc(n, sizeof(float));
    assert_non_null(p);
    judge_ok(j, j->gpu->ops->compute(p, &in, &result, NULL, fetch_both, &r, &j->e));
    download(&r, there);
    assert_memory_equal(there, marked, n * sizeof(float));
    assert_true(judge_size(there, n) > 0);
    judge_ok(j,
             r.memory->store(&j->on_gpu, DEV_GRADS, 0, n / 3, r.buffer, &j->e)); /* in two parts */
    judge_ok(j, r.memory->store(&j->on_gpu, DEV_GRADS, n / 3, n - n / 3, r.buffer + n / 3, &j->e));
    judge_fetch(j, DEV_GRADS);
    assert_memory_equal(j->on_gpu.host[DEV_GRADS], there, n * sizeof(float));
    judge_ok(j, r.memory->fetch(&j->on_gpu, DEV_GRADS, 1, n - 1, 1, r.buffer + 1,
                                &j->e)); /* outside a mark, and not from the start */
    download(&r, there);
    assert_memory_equal(there + 1, marked + 1, (n - 1) * sizeof(float));
    assert_int_equal(r.memory->store(&j->on_gpu, DEV_OPTIM, 0, 0, r.buffer, &j->e), -ERR_INTERNAL);
    assert_int_equal(r.memory->fetch(&j->on_gpu, DEV_GRADS, 1, n, 1, r.buffer, &j->e),
                     -ERR_INTERNAL);
    ref_input_free(&in);
    free(there);
    free(marked);
    j->gpu->ops->program_free(p);
    close_ring(&r);
}

static void sums_have_the_hosts_bits_at_any_place_and_length(void **state)
{
    enum { MOST = 3000 };
    struct ring r = open_ring();
    static float a[MOST], b[MOST], got[MOST];
    static const size_t lengths[] = {0, 1, 2, 255, 256, 257, 1999};
    struct judge_memory x = judge_alloc(sizeof(a)), y = judge_alloc(sizeof(b));
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        size_t n = lengths[i], at = i * 3 % 7, other = i * 5 % 11;
        for (size_t k = 0; k < MOST; k++) {
            a[k] =
                (float)ldexp((double)rng_below(1, i, k, 100003) / 100003 - 0.5, (int)(k % 40) - 20);
            b[k] =
                (float)ldexp((double)rng_below(2, i, k, 100003) / 100003 - 0.5, (int)(k % 37) - 18);
        }
        judge_upload(&x, 0, a, sizeof(a));
        judge_upload(&y, 0, b, sizeof(b));
        judge_ok(r.j, r.memory->add(r.j->gpu, (float *)x.at + at, (const float *)y.at + other, n,
                                    &r.j->e));
        judge_download(&x, 0, got, sizeof(got));
        for (size_t k = 0; k < n; k++) {
            a[at + k] += b[other + k];
        }
        assert_memory_equal(got, a, sizeof(a));
    }
    judge_give_back(&x);
    judge_give_back(&y);
    close_ring(&r);
}

/* Weights that come from a server, as a message: what was there is overwritten by the next one at
 * once. */
static void check_parameters(const char *precision)
{
    struct ring r = open_ring_in(precision);
    struct judge *j = r.j;
    size_t n = j->net.n_params;
    float *mirror = j->on_gpu.host[DEV_PARAMS], *expected = calloc(n, sizeof(float));
    struct dev_program *p = judge_program(j, &j->on_gpu, 4);
    struct dev_input in = ref_input(&j->net, 4, 3);
    for (size_t i = 0; i < n; i++) {
        expected[i] = mirror[i] = (float)rng_below(3, 0, i, 1001) / 2000 - 0.25f;
    }
    judge_store(j, DEV_PARAMS);
    struct dev_result through_host = judge_compute(j, p, &in, NULL);
    memset(mirror, 0, n * sizeof(float));
    judge_store(j, DEV_PARAMS);
    assert_true(judge_compute(j, p, &in, NULL).loss != through_host.loss);
    struct judge_memory m = {r.buffer};
    judge_upload(&m, 0, expected, n * sizeof(float));
    judge_ok(j, r.memory->store(&j->on_gpu, DEV_PARAMS, 0, n, r.buffer, &j->e));
    if (judge_control()) {
        memset(r.buffer, 0xff, n * sizeof(float));
    }
    struct dev_result from_buffer = judge_compute(j, p, &in, NULL);
    assert_true(from_buffer.loss == through_host.loss);
    judge_fetch(j, DEV_PARAMS);
    assert_memory_equal(mirror, expected, n * sizeof(float));
    ref_input_free(&in);
    free(expected);
    j->gpu->ops->program_free(p);
    close_ring(&r);
}

static void weights_that_come_there_are_those_that_come_through_the_host(void **state)
{
    check_parameters("fp32");
    check_parameters("bf16");
}

/* Two steps on what an exchange left, in the mirror or in a device buffer, and a run of the
 * network; the parameters that the first step made. */
static double two_steps(struct ring *r, struct dev_program *p, const struct dev_input *in,
                        bool device_buffer, float *params)
{
    struct judge *j = r->j;
    size_t n = j->net.n_params;
    float *g = j->on_gpu.host[DEV_GRADS];
    struct judge_memory m = {r->buffer};
    judge_copy(j, DEV_PARAMS);
    for (uint64_t step = 0; step < 2; step++) {
        for (size_t i = 0; i < n; i++) {
            g[i] = (float)rng_below(4, step, i, 1001) / 1000 - 0.5f;
        }
        if (device_buffer) {
            judge_upload(&m, 0, g, n * sizeof(float));
            judge_ok(j, r->memory->store(&j->on_gpu, DEV_GRADS, 0, n, r->buffer, &j->e));
        } else {
            judge_store(j, DEV_GRADS);
        }
        judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.1, 1, &j->e));
        if (step == 0 && device_buffer) {
            judge_ok(j, r->memory->fetch(&j->on_gpu, DEV_PARAMS, 0, n, 1, r->buffer, &j->e));
            download(r, params);
        } else if (step == 0) {
            judge_compute(j, p, in, NULL); /* whatever a fetch waits for: this has */
            judge_fetch(j, DEV_PARAMS);
            memcpy(params, j->on_gpu.host[DEV_PARAMS], n * sizeof(float));
        }
    }
    return judge_compute(j, p, in, NULL)
        .loss; /* waits for the update, and for what the update waits for */
}

static void an_update_is_made_of_what_was_stored_and_gives_what_is_fetched(void **state)
{
    struct ring r = open_ring();
    size_t n = r.j->net.n_params;
    struct dev_program *p = judge_program(r.j, &r.j->on_gpu, 4);
    struct dev_input in = ref_input(&r.j->net, 4, 3);
    float *expected = calloc(n, sizeof(float)), *got = calloc(n, sizeof(float));
    double loss = two_steps(&r, p, &in, false, expected);
    assert_true(two_steps(&r, p, &in, true, got) == loss);
    assert_memory_equal(got, expected, n * sizeof(float));
    ref_input_free(&in);
    free(expected);
    free(got);
    r.j->gpu->ops->program_free(p);
    close_ring(&r);
}

/* The last bucket of a step: gradients of the device, with what the host adds to them behind,
 * summed, and read again. */
static void words_of_the_host_travel_behind_a_bucket(void **state)
{
    enum { WORDS = 37 };
    struct ring r = open_ring();
    struct judge *j = r.j;
    size_t n = j->net.n_params;
    float *tail = r.memory->alloc(j->gpu, n + WORDS, false, &j->e),
          *words = r.memory->alloc(j->gpu, WORDS, true, &j->e);
    assert_non_null(tail);
    assert_non_null(words);
    for (size_t i = 0; i < n; i++) {
        j->on_gpu.host[DEV_GRADS][i] = (float)i;
    }
    judge_store(j, DEV_GRADS);
    judge_ok(j, r.memory->fetch(&j->on_gpu, DEV_GRADS, 0, n, 0.5f, tail, &j->e));
    for (int i = 0; i < WORDS; i++) {
        words[i] = (float)(i + 1);
    }
    judge_ok(j, r.memory->put(j->gpu, tail + n, words, WORDS, &j->e));
    memset(words, 0xff, WORDS * sizeof(float)); /* put is over */
    judge_ok(j, r.memory->add(j->gpu, tail, tail, n + WORDS, &j->e));
    judge_ok(j, r.memory->get(j->gpu, words, tail + n, WORDS, &j->e));
    for (int i = 0; i < WORDS; i++) {
        assert_true(words[i] == (float)(2 * i + 2));
    }
    judge_ok(j, r.memory->store(&j->on_gpu, DEV_GRADS, 0, n, tail, &j->e));
    judge_fetch(j, DEV_GRADS);
    for (size_t i = 0; i < n; i++) {
        assert_true(j->on_gpu.host[DEV_GRADS][i] == (float)i);
    }
    r.memory->free(j->gpu, tail, false);
    r.memory->free(j->gpu, words, true);
    close_ring(&r);
}

static void what_fails_ends_in_a_sentence(void **state)
{
    const struct standin_control *c = judge_need_control();
    struct ring r = open_ring();
    struct judge *j = r.j;
    long before = c->live();
    c->fail_at(1);
    assert_null(r.memory->alloc(j->gpu, 10, false, &j->e));
    assert_non_null(strstr(j->e.message, "memory on the GPU"));
    c->fail_at(1);
    assert_null(r.memory->alloc(j->gpu, 10, true, &j->e));
    assert_non_null(strstr(j->e.message, "pinned memory"));
    c->fail_at(0);
    float *words = r.memory->alloc(j->gpu, 10, true, &j->e);
    assert_non_null(words);
    for (long n = 1; n <= 3; n++) {
        c->fail_at(n);
        assert_int_equal(r.memory->fetch(&j->on_gpu, DEV_GRADS, 0, 10, 1, r.buffer, &j->e),
                         -ERR_DEVICE);
        c->fail_at(n);
        assert_int_equal(r.memory->store(&j->on_gpu, DEV_GRADS, 0, 10, r.buffer, &j->e),
                         -ERR_DEVICE);
        c->fail_at(n);
        assert_int_equal(r.memory->store(&j->on_gpu, DEV_PARAMS, 0, 10, r.buffer, &j->e),
                         -ERR_DEVICE);
    }
    for (long n = 1; n <= 2; n++) {
        c->fail_at(n);
        assert_int_equal(r.memory->add(j->gpu, r.buffer, r.buffer + 20, 10, &j->e), -ERR_DEVICE);
        assert_non_null(strstr(j->e.message, "add gradients"));
        c->fail_at(n);
        assert_int_equal(r.memory->put(j->gpu, r.buffer, words, 10, &j->e), -ERR_DEVICE);
        c->fail_at(n);
        assert_int_equal(r.memory->get(j->gpu, words, r.buffer, 10, &j->e), -ERR_DEVICE);
        assert_non_null(strstr(j->e.message, "words of an exchange"));
    }
    c->fail_at(0);
    r.memory->free(j->gpu, words, true);
    assert_int_equal(c->live(), before);
    close_ring(&r);
}

int main(void)
{
    setenv("EVENSTEP_STANDIN_DEVICE_POINTERS", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_scaled_there_as_on_the_host_and_come_back),
        cmocka_unit_test(sums_have_the_hosts_bits_at_any_place_and_length),
        cmocka_unit_test(weights_that_come_there_are_those_that_come_through_the_host),
        cmocka_unit_test(an_update_is_made_of_what_was_stored_and_gives_what_is_fetched),
        cmocka_unit_test(words_of_the_host_travel_behind_a_bucket),
        cmocka_unit_test(what_fails_ends_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
