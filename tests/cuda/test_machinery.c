/* What only stand-ins can show of the CUDA device: that streams are ordered whether work runs at
 * once or as late as it may, that every call that can fail ends in a sentence and leaves nothing
 * behind, and what is said when memory is short. See test_tuning.c for what is measured.
 *
 * On a real GPU (make check-gpu) these tests are skipped: they ask and tell the stand-ins
 * (standin/control.h).
 */
#include "tests/cuda/judge.h"

/* ---- order ----------------------------------------------------------------------------------- */

static void fetch_bucket(void *ctx, int bucket)
{
    struct judge *j = ctx;
    size_t n = j->net.n_params,
           first = bucket == 0 ? n / 2 : 0; /* parts, as the exchange's thread would */
    judge_ok(j, j->gpu->ops->fetch(&j->on_gpu, DEV_GRADS, first, bucket == 0 ? n - first : n / 2,
                                   &j->e));
}

/* Everything that a worker does in some steps; the parameters and statistics that come out. */
static void train_some(struct judge *j, float *out)
{
    struct dev_program *p = judge_program(j, &j->on_gpu, 5);
    for (int step = 0; step < 6; step++) {
        struct dev_input in = ref_input(&j->net, 5 - step % 2, (uint64_t)step + 1);
        struct dev_result result;
        judge_ok(j, j->gpu->ops->compute(p, &in, &result, NULL, fetch_bucket, j, &j->e));
        ref_input_free(&in);
        judge_fetch(j, DEV_GRADS);
        for (size_t i = 0; i < j->net.n_params; i++) { /* what an all-reduce leaves */
            j->on_gpu.host[DEV_GRADS][i] *= 0.5f;
        }
        judge_store(j, DEV_GRADS);
        judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.01, 1, &j->e));
        memset(j->on_gpu.host[DEV_GRADS], 0x7f,
               j->net.n_params * sizeof(float)); /* the mirror is the caller's again */
        if (step == 3) {
            judge_fetch(j, DEV_PARAMS);
            judge_fetch(j, DEV_OPTIM);
            judge_store(j, DEV_PARAMS);
            judge_store(j, DEV_OPTIM);
        }
        if (step == 4) { /* two updates behind each other, nobody waiting between them */
            judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.02, 1, &j->e));
        }
    }
    judge_fetch(j, DEV_PARAMS);
    judge_fetch(j, DEV_STATS);
    memcpy(out, j->on_gpu.host[DEV_PARAMS], j->net.n_params * sizeof(float));
    memcpy(out + j->net.n_params, j->on_gpu.host[DEV_STATS], j->net.n_stat_floats * sizeof(float));
    j->gpu->ops->program_free(p);
}

static void work_that_runs_at_once_or_as_late_as_it_may_gives_the_same_bits(void **state)
{
    const struct standin_control *c = judge_need_control();
    float *results[2];
    size_t bytes = 0;
    for (int eager = 0; eager < 2; eager++) {
        c->set_eager(eager);
        struct judge *j = judge_new(judge_small, &judge_adam, "fp32");
        bytes = (j->net.n_params + j->net.n_stat_floats) * sizeof(float);
        results[eager] = calloc(1, bytes);
        train_some(j, results[eager]);
        judge_free(j);
    }
    c->set_eager(0);
    assert_memory_equal(results[0], results[1], bytes);
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        assert_true(isfinite(results[0][i]));
    }
    free(results[0]);
    free(results[1]);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Calls that short_run had made when it began to clean up. A call that fails after that has nobody
 * to tell. */
static long work;

/* What a short run makes; its end frees all of it, whatever failed before. */
struct short_run {
    struct device *dev;
    struct dev_replica r;
    struct dev_program *p, *larger;
    struct dev_feed *feed;
    struct dev_input in;
};

static int train_as_one_of_many(struct short_run *s, struct err *e)
{
    const struct device_ops *ops = s->dev->ops;
    struct dev_replica *r = &s->r;
    struct dev_result result;
    float logits[3 * 3];
    int rc;
    network_init(r->net, 3, r->host[DEV_PARAMS], r->host[DEV_STATS]);
    if ((rc = ops->store(r, DEV_PARAMS, 0, r->count[DEV_PARAMS], e)) < 0 ||
        (rc = ops->store(r, DEV_STATS, 0, r->count[DEV_STATS], e)) < 0) {
        return rc;
    }
    if (!(s->p = ops->program_new(r, 3, 100, e))) {
        return -(int)e->code;
    }
    if ((rc = ops->compute(s->p, &s->in, &result, logits, NULL, NULL, e)) < 0 ||
        (rc = ops->fetch(r, DEV_GRADS, 0, r->count[DEV_GRADS], e)) < 0 ||
        (rc = ops->store(r, DEV_GRADS, 0, r->count[DEV_GRADS], e)) < 0) {
        return rc;
    }
    return ops->update(r, 0.01, 1, e);
}

static int train_alone_and_evaluate(struct short_run *s, struct err *e)
{
    const struct device_ops *ops = s->dev->ops;
    struct dev_input test = s->in;
    struct dev_result result;
    int rc;
    test.training = false;
    s->r.alone = true;
    if (!(s->larger = ops->program_new(&s->r, 5, 100, e))) {
        return -(int)e->code;
    }
    if ((rc = ops->compute(s->larger, &s->in, &result, NULL, NULL, NULL, e)) < 0 ||
        (rc = dev_step(s->larger, &s->in, 0.01, 1, &result, e)) < 0 ||
        (rc = ops->compute(s->p, &test, &result, NULL, NULL, NULL, e)) < 0) {
        return rc;
    }
    return ops->update(&s->r, 0.01, 1, e);
}

static int train_from_a_feed(struct short_run *s, struct err *e)
{
    const struct device_ops *ops = s->dev->ops;
    struct dev_input fed = s->in;
    struct dev_result result;
    size_t floats = 3 * shape_count(&s->r.net->input);
    float *x = NULL;
    int rc;
    if (!(s->feed = ops->feed->make(s->dev, floats, &x, e))) {
        return -(int)e->code;
    }
    memcpy(x, s->in.x, floats * sizeof(float));
    fed.x = x;
    fed.fed = s->feed;
    if ((rc = ops->feed->send(s->feed, floats, e)) < 0 ||
        (rc = ops->compute(s->larger, &fed, &result, NULL, NULL, NULL, e)) < 0) {
        return rc;
    }
    return ops->fetch(&s->r, DEV_PARAMS, 0, s->r.count[DEV_PARAMS], e);
}

static int train(struct short_run *s, struct err *e)
{
    int rc;
    if ((rc = train_as_one_of_many(s, e)) < 0 || (rc = train_alone_and_evaluate(s, e)) < 0) {
        return rc;
    }
    return train_from_a_feed(s, e);
}

static void end_short_run(struct short_run *s)
{
    const struct device_ops *ops = s->dev->ops;
    work = judge_control()->calls();
    ops->feed->free(s->feed);
    if (s->p) {
        ops->program_free(s->p);
    }
    if (s->larger) {
        ops->program_free(s->larger);
    }
    ops->replica_release(&s->r);
}

/* A short run from opening to closing. 0, or the code of the first error, which is in *e; whatever
 * was made is freed. */
static int short_run(const struct network *net, const char *precision, struct err *e)
{
    struct short_run s = {.dev = dev_open(judge_device(), e), .in = ref_input(net, 3, 5)};
    int rc = s.dev ? dev_use_precision(s.dev, precision, e) : -(int)e->code;
    if (rc >= 0 && (rc = s.dev->ops->replica_init(s.dev, &s.r, net, &judge_adam, e)) >= 0) {
        rc = train(&s, e);
        end_short_run(&s);
    }
    dev_close(s.dev);
    ref_input_free(&s.in);
    return rc;
}

static bool one_sentence(const struct err *e)
{
    size_t n = strlen(e->message);
    return n > 20 && n < sizeof(e->message) - 1 && !strchr(e->message, '\n') &&
           e->message[n - 1] != '.';
}

/* Fails each nth call of all that a run makes, `every`-th n. An engine of cuDNN that cannot be had
 * is left out, without memory to measure in its rules of thumb are followed, and what is asked only
 * to word a message may fail: then the run goes on, or fails all the same. measures: there are
 * several engines to choose from. */
static void check_failures(const char *precision, bool measures, long every)
{
    const struct standin_control *c = judge_need_control();
    struct network net = ref_network(judge_small);
    struct err e = {0};
    long before = c->live(), calls, silent = 0;
    c->fail_at(0);
    assert_int_equal(short_run(&net, precision, &e), 0);
    long told = work;
    calls = c->calls();
    assert_true(told > 300);
    assert_int_equal(c->live(), before);
    for (long n = 1; n <= calls; n += every) {
        memset(&e, 0, sizeof(e));
        c->fail_at(n);
        int rc = short_run(&net, precision, &e);
        char name[64];
        snprintf(name, sizeof(name), "%s", c->failed());
        bool searches = strstr(name, "Backend") || (measures && strstr(name, "convolution"));
        if (rc == 0 && n <= told && !searches && !strstr(name, "Get") &&
            !(measures && strcmp(name, "cudaMalloc") == 0)) {
            fail_msg("call %ld (%s) failed, and nobody saw it", n, name);
        }
        silent += rc == 0 && !searches;
        if (rc < 0 && (e.code == ERR_NONE || !one_sentence(&e))) {
            fail_msg("call %ld (%s) failed with the message '%s'", n, name, e.message);
        }
        if (c->live() != before) {
            fail_msg("call %ld (%s) failed, and %ld things are left", n, name, c->live() - before);
        }
    }
    c->fail_at(0);
    assert_true(silent < calls / every / 4 + 8);
    assert_int_equal(short_run(&net, precision, &e), 0);
    network_release(&net);
}

static void every_call_that_fails_ends_in_a_sentence_and_leaves_nothing(void **state)
{
    check_failures("fp32", false, 7);
}

static void every_call_that_fails_in_bf16_too(void **state)
{
    check_failures("bf16", true, 41);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void short_memory_names_the_minibatch_that_fits_and_it_does(void **state)
{
    const struct standin_control *c = judge_need_control();
    struct judge *j = judge_new("\"cifar-quick\"", NULL, "fp32");
    size_t there = j->gpu->ops->memory_bytes(j->gpu);
    c->set_memory(((size_t)4 << 30) - there +
                  ((size_t)128 << 20)); /* 128 MiB more than what is taken */
    size_t left = j->gpu->ops->memory_bytes(j->gpu);
    assert_true(left <= (size_t)128 << 20);
    struct dev_program *p = j->gpu->ops->program_new(&j->on_gpu, 4096, 1 << 20, &j->e);
    assert_null(p);
    assert_int_equal(j->e.code, ERR_MEMORY);
    const char *at = strstr(j->e.message, "at most ");
    assert_non_null(at);
    assert_non_null(strstr(j->e.message, "4096"));
    int fits = (int)strtol(at + strlen("at most "), NULL, 10);
    assert_in_range(fits, 2, 4095);
    p = judge_program(j, &j->on_gpu, fits);
    j->gpu->ops->program_free(p);
    p = j->gpu->ops->program_new(&j->on_gpu, 2 * fits, 1 << 20, &j->e);
    assert_null(p);
    assert_int_equal(j->gpu->ops->memory_bytes(j->gpu), left); /* nothing is lost on the way */
    struct dev_replica another;
    struct optimizer_spec plain = {.type = CAT_OPTIMIZER_SGD};
    c->set_memory(0); /* none left */
    assert_true(j->gpu->ops->replica_init(j->gpu, &another, &j->net, &plain, &j->e) < 0);
    assert_int_equal(j->e.code, ERR_MEMORY);
    assert_non_null(strstr(j->e.message, "MiB"));
    c->set_memory((size_t)4 << 30);
    judge_free(j);
}

/* A step after one that failed for want of memory is as if nothing had been. */
static void what_trains_goes_on_when_a_larger_minibatch_does_not_fit(void **state)
{
    const struct standin_control *c = judge_need_control();
    struct judge *j = judge_new(judge_small, &judge_adam, "fp32");
    struct dev_program *a = judge_program(j, &j->on_cpu, 4), *b = judge_program(j, &j->on_gpu, 4);
    struct dev_input in = ref_input(&j->net, 4, 5);
    c->set_memory(0);
    assert_null(j->gpu->ops->program_new(&j->on_gpu, 64, 1 << 20, &j->e));
    struct dev_result x = judge_compute(j, a, &in, NULL), y = judge_compute(j, b, &in, NULL);
    assert_near(y.loss, x.loss, 1e-4, "loss", 0);
    c->set_memory((size_t)4 << 30);
    ref_input_free(&in);
    j->cpu->ops->program_free(a);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

/* This one holds on a real GPU too. */
static void what_is_no_gpu_is_refused_by_name(void **state)
{
    static const char *const names[] = {"cuda:1000", "cuda:-1", "cuda:0x", "cuda: 0",
                                        "cuda:99999999999999999999"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct err e = {0};
        assert_null(dev_open(names[i], &e));
        if (!strstr(e.message, "cuda:")) {
            fail_msg("'%s': %s", names[i], e.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_gpu_is_refused_by_name),
        cmocka_unit_test(work_that_runs_at_once_or_as_late_as_it_may_gives_the_same_bits),
        cmocka_unit_test(every_call_that_fails_ends_in_a_sentence_and_leaves_nothing),
        cmocka_unit_test(every_call_that_fails_in_bf16_too),
        cmocka_unit_test(short_memory_names_the_minibatch_that_fits_and_it_does),
        cmocka_unit_test(what_trains_goes_on_when_a_larger_minibatch_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
